//! Rules about the text of the repository; each is a function from a file to complaints.

use crate::root;
use crate::rust_text;
use crate::workspace::{Crate, Workspace};
use std::path::Path;

/// A longer file rarely has a single topic.
const LONGEST_FILE_LINES: usize = 800;

/// Marks of unfinished work. Each is written in two halves, so that this file does not contain
/// them.
const LEFT_OVERS: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("db", "g!("),
    concat!("#[ig", "nore"),
];

/// Beginnings of paths that exist on one machine only.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

/// Folders of pages.
const PAGES: &[&str] = &["docs/", "results/"];

/// Macros that panic if the output is broken; a run must survive the terminal that it was started
/// from.
const BREAKABLE: &[&str] = &["eprintln!(", "eprint!(", "println!(", "print!("];
/// The crates that run in the process of a deployment and of its instances.
const LASTING_ROOMS: &[&str] =
    &["atoll", "channel", "deploy", "driver", "exec", "instance", "memstore", "store", "wal"];

/// Ways to the operating system that bypass `world` and `channel`.
const SYSTEM_MODULES: &[&str] = &["std::fs", "std::net", "std::process::Command", "std::os::unix::net"];
const NO_SYSTEM_ROOMS: &[&str] = &[
    "base",
    "traffic",
    "txn",
    "workload",
    "wal",
    "pages",
    "access",
    "locks",
    "store",
    "memstore",
    "partition",
    "exec",
    "twophase",
    "wire",
];

pub fn check(workspace: &Workspace) -> Vec<String> {
    let mut complaints = Vec::new();
    let scripts = workspace.files.iter().map(|p| p.as_path()).filter(|p| p.extension().is_none());
    for path in
        ["rs", "toml", "md", "yml", "sh"].iter().flat_map(|e| workspace.with_extension(e)).chain(scripts)
    {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else { continue };
        complaints.extend(lines(path, &text));
        complaints.extend(pages(path, &text));
        if path.extension().is_some_and(|e| e == "md") {
            complaints.extend(links(path, &text));
        }
    }
    complaints.extend(workspace.crates.iter().flat_map(|c| room(workspace, c)));
    complaints
}

fn lines(path: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_rust = path.extension().is_some_and(|e| e == "rs");
    let count = text.lines().count();
    if is_rust && count > LONGEST_FILE_LINES {
        complaints.push(format!("{}: {count} lines, at most {LONGEST_FILE_LINES}: split it", path.display()));
    }
    for (number, line) in text.lines().enumerate() {
        let at = || format!("{}:{}", path.display(), number + 1);
        if let Some(mark) = LEFT_OVERS.iter().find(|m| line.contains(**m)) {
            complaints.push(format!("{}: '{mark}' left over: finish it or write an issue", at()));
        }
        if let Some(start) = MACHINE_PATHS.iter().find(|p| names_path(line, p)) {
            complaints.push(format!("{}: a path under '{start}' exists on one machine only", at()));
        }
    }
    complaints
}

/// Whether the line has `start` as the beginning of an absolute path, not inside a longer one.
fn names_path(line: &str, start: &str) -> bool {
    let before = |at: usize| line[..at].chars().next_back();
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '~');
    line.match_indices(start).any(|(at, _)| !before(at).is_some_and(inner))
}

/// Checks that links to files of the repository have a target.
fn links(path: &Path, text: &str) -> Vec<String> {
    let folder = root().join(path.parent().unwrap_or(Path::new("")));
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.map(|t| t.split('#').next().unwrap_or(""));
    let local = targets.filter(|t| !t.is_empty() && !t.contains("://") && !t.starts_with("mailto:"));
    let dead = local.filter(|t| !folder.join(t).exists());
    dead.map(|t| format!("{}: the link to '{t}' leads nowhere", path.display())).collect()
}

/// Checks that pages of `docs` and `results` exist if a comment of a Rust file, a script or a
/// manifest names them.
fn pages(path: &Path, text: &str) -> Vec<String> {
    let prose = match path.extension().and_then(|e| e.to_str()) {
        Some("md") => return Vec::new(),
        Some("rs") => rust_text::split(text).comments.into_iter().map(|c| (c.line, c.text)).collect(),
        _ => text.lines().enumerate().map(|(n, line)| (n + 1, line.to_owned())).collect::<Vec<_>>(),
    };
    let named = prose.iter().flat_map(|(line, text)| page_names(text).map(move |page| (line, page)));
    let dead = named.filter(|(_, page)| !root().join(page).exists());
    dead.map(|(line, page)| format!("{}:{line}: there is no {page}", path.display())).collect()
}

/// The pages of `docs` and `results` that a line names by their paths from the root.
fn page_names(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '-' | '_' | '.')));
    let words = words.map(|word| word.trim_end_matches('.'));
    words.filter(|w| w.ends_with(".md") && PAGES.iter().any(|folder| w.starts_with(folder)))
}

/// Checks that a crate has an introduction, forbids `unsafe` unless it uses it, takes the
/// workspace's lints, and reaches the system only through the permitted crates.
fn room(workspace: &Workspace, room: &Crate) -> Vec<String> {
    let mut complaints = Vec::new();
    let read = |path: &Path| std::fs::read_to_string(root().join(path)).unwrap_or_default();
    let sources = room.folder.join("src");
    let heads = ["lib.rs", "main.rs"].map(|f| sources.join(f));
    let heads: Vec<_> = heads.iter().filter(|p| root().join(p).exists()).collect();
    if !heads.iter().any(|h| introduces(&read(h))) {
        complaints.push(format!(
            "crate '{}' has no introduction: open {} with //! lines that say what it does and does not know",
            room.name,
            sources.join("lib.rs").display()
        ));
    }
    let files: Vec<_> = workspace.with_extension("rs").filter(|p| p.starts_with(&sources)).collect();
    let uses_unsafe = files.iter().any(|p| read(p).lines().any(is_unsafe));
    if !uses_unsafe && !heads.iter().any(|h| read(h).contains("#![forbid(unsafe_code)]")) {
        complaints.push(format!("crate '{}' uses no unsafe code: say #![forbid(unsafe_code)]", room.name));
    }
    if !read(&room.folder.join("Cargo.toml")).contains("[lints]\nworkspace = true") {
        complaints.push(format!("crate '{}' does not take the workspace's lints", room.name));
    }
    if NO_SYSTEM_ROOMS.contains(&room.name.as_str()) {
        complaints.extend(files.iter().flat_map(|p| past_the_doors(p, &read(p))));
    }
    if LASTING_ROOMS.contains(&room.name.as_str()) {
        // A file that consists of tests has a name that ends in `tests.rs`.
        let is_test = |p: &Path| p.to_string_lossy().ends_with("tests.rs");
        complaints.extend(files.iter().filter(|p| !is_test(p)).flat_map(|p| breakable(p, &read(p))));
    }
    complaints
}

/// Code above the unit tests with a macro that panics if the output is broken.
fn breakable(path: &Path, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let code = code.lines().enumerate().map(|(n, l)| (n + 1, l.split("//").next().unwrap_or("")));
    let named = code.filter(|(_, l)| {
        BREAKABLE.iter().any(|m| l.trim_start().starts_with(*m) || l.contains(&format!(" {m}")))
    });
    let told = |(n, _)| {
        format!(
            "{}:{n}: a print macro ends the thread where the output is broken: use `world::tell`, or return the error",
            path.display()
        )
    };
    named.map(told).collect()
}

/// Whether there are at least three lines of crate documentation.
fn introduces(text: &str) -> bool {
    text.lines().take_while(|l| l.starts_with("//!")).count() >= 3
}

fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or("");
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe trait", "unsafe extern"].iter().any(|u| code.contains(u))
}

/// Code above the unit tests that names the operating system's modules.
fn past_the_doors(path: &Path, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let code = code.lines().enumerate().map(|(n, l)| (n + 1, l.split("//").next().unwrap_or("")));
    let named = code.filter_map(|(n, l)| SYSTEM_MODULES.iter().find(|m| l.contains(**m)).map(|m| (n, m)));
    named
        .map(|(n, m)| {
            format!(
                "{}:{n}: '{m}' here: files and sockets are reached through `world` and `channel`",
                path.display()
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_the_house_is_tidy() {
        let complaints = check(&Workspace::read().unwrap());
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }

    #[test]
    fn each_rule_finds_what_it_is_for() {
        let file = Path::new("crates/x/src/lib.rs");
        for mark in LEFT_OVERS {
            assert_eq!(lines(file, &format!("let x = 1; // {mark}")).len(), 1, "{mark}");
        }
        for start in MACHINE_PATHS {
            assert_eq!(lines(file, &format!("open(\"{start}data\")")).len(), 1, "{start}");
            assert!(lines(file, &format!("target{start}data")).is_empty(), "{start}");
        }
        assert_eq!(lines(file, &"\n".repeat(LONGEST_FILE_LINES + 1)).len(), 1);
        assert_eq!(
            links(Path::new("README.md"), "[a](no/such.md) [b](Cargo.toml) [c](https://a.b/c)").len(),
            1
        );
        let comment = "//! See docs/log.md, `docs/gone.md`.\nlet x = \"docs/not.md\";";
        assert_eq!(pages(file, comment), ["crates/x/src/lib.rs:1: there is no docs/gone.md"]);
        assert_eq!(pages(Path::new("scripts/x"), "page=$root/results/gone.md").len(), 0);
        assert_eq!(pages(Path::new("scripts/x"), "# makes results/gone.md").len(), 1);
        assert!(is_unsafe("    unsafe { f() }") && !is_unsafe("// unsafe { f() }"));
        assert_eq!(
            breakable(
                file,
                "fn f() {\n    eprintln!(\"x\");\n    // eprintln!\n}\n#[cfg(test)]\n println!()"
            )
            .len(),
            1
        );
        assert_eq!(
            past_the_doors(file, "use std::fs::File;\n#[cfg(test)]\nuse std::net::TcpStream;").len(),
            1
        );
        assert!(!introduces("//! one line\nfn f() {}"));
    }
}
