//! Scripts: `statement ok`, `statement error CODE`, `query TYPES [rowsort]`.

use std::path::Path;

/// The rows of an answer as texts, or the code of an error.
pub type Answer = Result<Vec<String>, String>;

/// Runs a script; returns what differs from it.
pub fn run(path: &Path, database: &mut dyn FnMut(&str) -> Answer) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("the script");
    let mut wrong = Vec::new();
    for part in text.split("\n\n").map(str::trim).filter(|part| !part.is_empty() && !part.starts_with('#')) {
        let (head, rest) = part.split_once('\n').unwrap_or((part, ""));
        let (statement, expected) = rest.split_once("\n----").unwrap_or((rest, ""));
        let answer = database(statement);
        let words: Vec<&str> = head.split_whitespace().collect();
        let fits = match (words.as_slice(), &answer) {
            (["statement", "ok"], Ok(_)) => true,
            (["statement", "error", code], Err(got)) => got == code,
            (["query", rest @ ..], Ok(rows)) => {
                let mut rows = rows.clone();
                if rest.contains(&"rowsort") {
                    rows.sort();
                }
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                words(&rows.join(" ")) == words(expected)
            }
            _ => false,
        };
        if !fits {
            wrong.push(format!("{statement}\n  expected {expected:?}\n  got {answer:?}"));
        }
    }
    wrong
}
