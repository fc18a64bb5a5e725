//! `trace` and `cachesim` from outside: what they refuse, with what to do, and the page of a study.

use super::{Sandbox, assert_refused, stderr};
use std::fs;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cachesim/tests/data/tpcb.trace");

#[test]
fn a_capture_that_would_record_nothing_is_refused() {
    let trace = ["trace", "tpcb", "--transactions", "1", "--out", "never"];
    assert_refused(
        &[&trace[..], &["--host", "process"]].concat(),
        2,
        &["qemu does not follow", "expected thread"],
    );
    assert_refused(&["trace", "tpcb", "--quota", "deposit", "--out", "never"], 2, &["expected KIND=N"]);
    assert!(!std::path::Path::new("never").exists());
}

/// Neither qemu nor a package manager that could install it.
#[test]
fn a_machine_without_qemu_says_what_to_install() {
    let empty = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(&["trace", "tpcb", "--transactions", "1", "--out", "never"]);
    let output = command.env("PATH", empty.path()).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("qemu-x86_64 is not installed") && text.contains("install the package"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_file_that_is_no_whole_trace_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let golden = fs::read(GOLDEN).unwrap();
    let newer = [&golden[..8], &9u32.to_le_bytes(), &golden[12..]].concat();
    for (name, content, part) in [
        ("empty", &[][..], "expected a file that atoll trace wrote"),
        ("foreign", &b"PK no trace"[..], "expected a file that atoll trace wrote"),
        ("cut", &golden[..golden.len() / 2], "capture it again"),
        ("newer", &newer, "a trace of version 9"),
    ] {
        let path = file(name, content);
        assert_refused(&["cachesim", &path, "--study", "chapter-6"], 1, &[part]);
    }
}

#[test]
fn a_machine_or_a_page_that_cannot_be_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let zesto = include_str!("../../../../machines/caches/zesto.toml");
    for (from, to, part) in [("ways = 8", "ways = 0", "l1i cannot be"), ("[l1i]", "[l1x]", "l1x")] {
        let path = directory.path().join("m.toml");
        fs::write(&path, zesto.replacen(from, to, 1)).unwrap();
        let machine = path.display().to_string();
        assert_refused(&["cachesim", GOLDEN, "--scheduler", "strex", "--machine", &machine], 2, &[part]);
    }
    assert_refused(
        &["cachesim", GOLDEN, "--scheduler", "strex", "--page", "never.html"],
        2,
        &["a single run has no chart", "expected --study"],
    );
}

#[test]
fn a_study_becomes_a_page() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("t.html");
    let page = page.to_str().unwrap();
    let output = Sandbox::new().run(&["cachesim", GOLDEN, "--study", "chapter-6", "--page", page]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let html = fs::read_to_string(page).unwrap();
    for title in ["Misses by cache", "The size of the L1-I", "By operation and component"] {
        assert!(html.contains(title), "{title}");
    }
}
