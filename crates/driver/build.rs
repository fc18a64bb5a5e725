//! Embeds the commit into the build, so that every result row can name it; profile and target for
//! `--version`.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}

/// `PROFILE` is only debug or release. A custom profile of the workspace is the name of the folder
/// above `OUT_DIR` (`target/quick/build/driver-1a2b/out`).
fn profile() -> Option<String> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR")?);
    Some(out.ancestors().nth(3)?.file_name()?.to_str()?.to_owned())
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).map(|hash| {
        let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|s| !s.is_empty());
        hash + if changed { "-dirty" } else { "" }
    });
    println!("cargo::rustc-env=ATOLL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=ATOLL_PROFILE={}", profile().as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=ATOLL_TARGET={}", std::env::var("TARGET").as_deref().unwrap_or("unknown"));
    // HEAD itself changes on checkout, the ref that it names on commit, the index on staging.
    for file in ["HEAD", "logs/HEAD", "index"] {
        if let Some(path) =
            git(&["rev-parse", "--git-path", file]).filter(|p| std::path::Path::new(p).exists())
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}
