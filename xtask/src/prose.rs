//! The language of comments and docs, counted: a ratchet towards plain English.
//!
//! Sentences about a nameless subject are hard to read for a stranger, and so are comments past the
//! edge of a window. So certain words are counted per 10,000 words of prose, and comment lines that
//! are too wide are counted as they are. Each count has a goal, and a limit that only ever goes
//! down. Prose is the comments of all Rust files, and the Markdown of README.md, ARCHITECTURE.md
//! and docs/.

use crate::root;
use crate::rust_text;
use crate::workspace::Workspace;
use std::path::Path;

/// Words of a group, per 10,000 words of prose, rounded up.
struct Group {
    name: &'static str,
    words: &'static [&'static str],
    goal: usize,
    limit: usize,
}

/// Goals are near the counts of toydb, redb and ripgrep. A limit is lowered when a count falls.
const GROUPS: [Group; 3] = [
    Group { name: "who", words: &["who", "whom", "whose", "whoever"], goal: 5, limit: 5 },
    Group { name: "what", words: &["what", "whatever"], goal: 15, limit: 15 },
    Group {
        name: "nobody",
        words: &["nobody", "anybody", "somebody", "everybody", "someone", "anyone", "everyone", "no one"],
        goal: 1,
        limit: 1,
    },
];
/// Comment lines of Rust files that are wider than [`COLUMNS`].
const WIDE_GOAL: usize = 0;
const WIDE_LIMIT: usize = 0;
/// The whole line counts: its indentation, and the code before a comment at its end.
const COLUMNS: usize = 100;

/// Lines that a complaint names.
const NAMED: usize = 10;

/// The prose of the tree, counted.
#[derive(Default)]
pub struct Prose {
    words: usize,
    /// By group: the words of it, and each line with one of them, as `file:line`.
    found: [(usize, Vec<String>); GROUPS.len()],
    wide: Vec<String>,
}

impl Prose {
    pub fn read(workspace: &Workspace) -> Prose {
        let mut prose = Prose::default();
        for path in &workspace.files {
            let Ok(text) = std::fs::read_to_string(root().join(path)) else { continue };
            prose.add(path, &text);
        }
        prose
    }

    fn add(&mut self, path: &Path, text: &str) {
        let is = |extension| path.extension().is_some_and(|e| e == extension);
        if is("rs") && ["crates", "xtask", "fuzz"].iter().any(|folder| path.starts_with(folder)) {
            self.rust(path, text);
        } else if is("md")
            && (path.starts_with("docs")
                || ["README.md", "ARCHITECTURE.md"].iter().any(|file| path == Path::new(file)))
        {
            text.lines().enumerate().for_each(|(n, line)| self.line(path, n + 1, line));
        }
    }

    fn rust(&mut self, path: &Path, text: &str) {
        let comments = rust_text::split(text).comments;
        let lines: Vec<&str> = text.lines().collect();
        for comment in &comments {
            self.line(path, comment.line, &comment.text);
        }
        let mut numbers: Vec<usize> = comments.iter().map(|c| c.line).collect();
        numbers.dedup();
        let wide = numbers.into_iter().filter(|n| lines[n - 1].chars().count() > COLUMNS);
        self.wide.extend(wide.map(|n| format!("{}:{n}", path.display())));
    }

    fn line(&mut self, path: &Path, number: usize, text: &str) {
        self.words += words(text);
        for (group, (count, lines)) in GROUPS.iter().zip(&mut self.found) {
            let here = occurrences(text, group.words);
            *count += here;
            if here > 0 {
                lines.push(format!("{}:{number}", path.display()));
            }
        }
    }

    fn rate(&self, group: usize) -> usize {
        (self.found[group].0 * 10_000).div_ceil(self.words.max(1))
    }

    /// The counts in one line.
    pub fn summary(&self) -> String {
        let groups = GROUPS.iter().enumerate().map(|(at, group)| {
            format!("{} {} (goal {}, limit {})", group.name, self.rate(at), group.goal, group.limit)
        });
        format!(
            "prose per 10,000 of {} words: {}; comment lines over {COLUMNS} columns: {} (goal {WIDE_GOAL}, limit {WIDE_LIMIT})",
            self.words,
            groups.collect::<Vec<_>>().join(", "),
            self.wide.len(),
        )
    }

    pub fn check(&self) -> Vec<String> {
        let groups = GROUPS.iter().zip(&self.found).enumerate().filter_map(|(at, (group, (_, lines)))| {
            let unit = format!("words of the group '{}' per 10,000 words of prose", group.name);
            above(&unit, self.rate(at), group.limit, lines)
        });
        let unit = format!("comment lines over {COLUMNS} columns");
        groups.chain(above(&unit, self.wide.len(), WIDE_LIMIT, &self.wide)).collect()
    }
}

fn above(unit: &str, count: usize, limit: usize, lines: &[String]) -> Option<String> {
    let named = lines.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    (count > limit).then(|| format!("{count} {unit}, at most {limit}: rewrite some of {named}"))
}

/// A word begins with a letter; apostrophes and hyphens inside are part of it.
fn words(text: &str) -> usize {
    let pieces = text.split(|c: char| !(c.is_ascii_alphabetic() || matches!(c, '\'' | '-')));
    pieces.filter(|piece| piece.contains(|c: char| c.is_ascii_alphabetic())).count()
}

/// How often one of `wanted`, words or pairs of words, stands in a line; case does not matter.
fn occurrences(text: &str, wanted: &[&str]) -> usize {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    let pairs = words.windows(2).map(|pair| pair.join(" "));
    let alone = words.iter().filter(|word| wanted.contains(*word)).count();
    alone + pairs.filter(|pair| wanted.contains(&pair.as_str())).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prose_of_the_house_is_within_its_limits() {
        let complaints = Prose::read(&Workspace::read().unwrap()).check();
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    }

    fn counted(path: &str, text: &str) -> Prose {
        let mut prose = Prose::default();
        prose.add(Path::new(path), text);
        prose
    }

    #[test]
    fn words_of_comments_are_counted_and_words_of_code_are_not() {
        let text = "//! Who's there?\nfn who<'a>(what: &'a str) { f(r\"// who\", '\"') } // What, who-ever: whoso?\n\
                    /* no one /* anyone\n */ Nobody */\n/// What they say.\n";
        let prose = counted("crates/x/src/lib.rs", text);
        assert_eq!(prose.words, 12);
        assert_eq!(prose.found.each_ref().map(|(count, _)| *count), [2, 2, 3]);
        assert_eq!(prose.found[2].1, ["crates/x/src/lib.rs:3", "crates/x/src/lib.rs:4"]);
        assert_eq!(counted("docs/x.md", "What?\n\nWho, and `who`").found[0].0, 2);
        assert_eq!(counted("CHANGELOG.md", "who").words, 0);
        assert_eq!(counted("experiments/x.rs", "// who").words, 0);
    }

    #[test]
    fn a_comment_line_is_as_wide_as_its_line() {
        let fits = format!("    // {}", "x".repeat(COLUMNS - 7));
        let (trailing, code) = (format!("f(); {fits}"), "x".repeat(COLUMNS + 1));
        let text = format!("{fits}\n{trailing}\n{code}\n// ü{}\n", "ü".repeat(COLUMNS - 4));
        assert_eq!(counted("xtask/src/x.rs", &text).wide, ["xtask/src/x.rs:2"]);
    }

    #[test]
    fn a_count_above_its_limit_names_the_first_lines() {
        let lines: Vec<String> = (1..=12).map(|n| format!("a.rs:{n}")).collect();
        assert_eq!(above("words", 3, 3, &lines), None);
        let complaint = above("words", 4, 3, &lines).unwrap();
        assert!(complaint.starts_with("4 words, at most 3") && complaint.ends_with("a.rs:10"), "{complaint}");
        let worst = counted("docs/x.md", "who");
        assert!(worst.check()[0].ends_with("docs/x.md:1") && worst.check().len() == 1);
        assert!(worst.summary().starts_with("prose per 10,000 of 1 words: who 10000 (goal 5,"));
    }
}
