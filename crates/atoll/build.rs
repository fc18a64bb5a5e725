//! Embeds the commit into the program, so that every result row can name it; profile and target for
//! `--version`.
//!
//! It runs again when the commit or a source of the program changes, and only then. The index of
//! git is not among the files it depends on: reading commands of git write the index anew.

use std::path::Path;
use std::process::Command;

/// What decides whether the program was built from changed sources, from the root of the workspace.
const SOURCES: [&str; 4] = ["crates/*/src", "crates/*/Cargo.toml", "Cargo.toml", "Cargo.lock"];

fn git(args: &[&str]) -> Option<String> {
    // Without optional locks, `status` leaves the index as it is.
    let out = Command::new("git").arg("--no-optional-locks").args(args).output().ok();
    let out = out.filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}

/// Whether sources of the program differ from the commit.
fn changed() -> bool {
    let sources =
        SOURCES.map(|path| format!(":(top,glob){path}{}", if path.ends_with("src") { "/**" } else { "" }));
    let status = ["status", "--porcelain", "--untracked-files=no", "--"];
    let args: Vec<&str> = status.into_iter().chain(sources.iter().map(String::as_str)).collect();
    git(&args).is_some_and(|lines| !lines.is_empty())
}

/// `PROFILE` is only debug or release. A custom profile of the workspace is the name of the folder
/// above `OUT_DIR` (`target/quick/build/atoll-1a2b/out`).
fn profile() -> Option<String> {
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR")?);
    Some(out.ancestors().nth(3)?.file_name()?.to_str()?.to_owned())
}

/// The files of git that change with the commit: HEAD on checkout, its log on commit. A repository
/// that keeps no log has the ref that HEAD names, in a file of its own or packed with others.
fn watch_the_commit() {
    let reference = git(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    let path_of = |file: &str| git(&["rev-parse", "--git-path", file]).filter(|p| Path::new(p).exists());
    let log = path_of("logs/HEAD").into_iter();
    let refs = if log.len() == 0 { vec![reference.as_str(), "packed-refs"] } else { Vec::new() };
    let refs = refs.into_iter().filter(|file| !file.is_empty()).filter_map(path_of);
    path_of("HEAD")
        .into_iter()
        .chain(log)
        .chain(refs)
        .for_each(|path| println!("cargo::rerun-if-changed={path}"));
}

fn watch_the_sources() {
    for crate_of in std::fs::read_dir("..").into_iter().flatten().flatten() {
        println!("cargo::rerun-if-changed={}", crate_of.path().join("src").display());
        println!("cargo::rerun-if-changed={}", crate_of.path().join("Cargo.toml").display());
    }
    for file in ["../../Cargo.toml", "../../Cargo.lock", "build.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
}

fn main() {
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    let commit = commit.map(|hash| hash + if changed() { "-dirty" } else { "" });
    println!("cargo::rustc-env=ATOLL_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=ATOLL_PROFILE={}", profile().as_deref().unwrap_or("unknown"));
    println!("cargo::rustc-env=ATOLL_TARGET={}", std::env::var("TARGET").as_deref().unwrap_or("unknown"));
    watch_the_commit();
    watch_the_sources();
}
