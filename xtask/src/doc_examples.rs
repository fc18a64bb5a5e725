//! Examples of Rust code in doc comments, and the crates in which `cargo test` runs them. Crates
//! without examples turn it off, since `rustdoc --test` takes a second for each crate. `cargo test
//! --doc` looks at these crates nevertheless.

use crate::root;
use crate::workspace::Workspace;

/// Marks of blocks that are no Rust.
const OTHER_LANGUAGES: &[&str] = &["text", "toml"];

/// Complains of a crate with an example that is not run, or without one for which `rustdoc` starts.
pub fn check(workspace: &Workspace) -> Vec<String> {
    let with_examples = |folder: &std::path::Path| {
        let mut sources = workspace.with_extension("rs").filter(|path| path.starts_with(folder.join("src")));
        sources.any(|path| std::fs::read_to_string(root().join(path)).is_ok_and(|text| has_example(&text)))
    };
    let complaints = workspace.crates.iter().filter_map(|c| {
        let what = match (c.runs_examples?, with_examples(&c.folder)) {
            (false, true) => "has an example in a doc comment: remove `doctest = false`, so that it is run",
            (true, false) => "has no example in its doc comments: add `doctest = false` under `[lib]`",
            _ => return None,
        };
        Some(format!("{}/Cargo.toml: the crate {what}", c.folder.display()))
    });
    complaints.collect()
}

/// Whether a doc comment holds a block that is not marked as another language. As in Markdown, that
/// is a block between fences, or one that is indented by four columns after an empty line.
fn has_example(text: &str) -> bool {
    let (mut fenced, mut after_empty) = (false, true);
    text.lines().any(|line| {
        let line = line.trim_start();
        let Some(doc) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            (fenced, after_empty) = (false, true);
            return false;
        };
        let begins = match doc.trim().strip_prefix("```") {
            Some(mark) => {
                fenced = !fenced;
                fenced && !OTHER_LANGUAGES.contains(&mark)
            }
            None => !fenced && after_empty && doc.starts_with("     ") && !doc.trim().is_empty(),
        };
        after_empty = doc.trim().is_empty();
        begins
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_rust_are_examples_and_blocks_of_text_are_none() {
        let drawing = "//! Words.\n//!\n//! ```text\n//! a -> b\n//!\n//!     c\n//! ```\nfn f() {}\n";
        assert!(!has_example(drawing));
        assert!(!has_example(&drawing.replace("text", "toml")));
        assert!(!has_example("/// Words\n///     that go on.\n// ```\nlet fence = \"```\";\n"));
        for example in ["/// ```\n/// f();\n/// ```\n", "//! ```no_run\n", "/// Words:\n///\n///     f();\n"]
        {
            assert!(has_example(example), "{example}");
            assert!(has_example(&format!("{drawing}{example}")), "{example} after a drawing");
        }
    }
}
