//! The table "Where is ..." of `ARCHITECTURE.md`: each file exists and defines the name beside it.
//!
//! ```text
//! | where is ... | file | function or type |
//! | a row locked | `exec/src/page_access.rs` | `lock` | crates/exec/src/page_access.rs: `fn lock`
//! ```

use crate::root;
use crate::rust_text;

const HEAD: &str = "| where is ... | file |";
/// A name stands behind one of these where it is defined.
const DEFINITIONS: &[&str] = &["fn", "struct", "enum", "trait", "type", "const"];

/// A row of the table.
struct Place<'a> {
    question: &'a str,
    /// Below `crates`.
    file: &'a str,
    name: &'a str,
}

pub fn check() -> Vec<String> {
    let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap_or_default();
    let places = rows(&map);
    if places.is_empty() {
        return vec![format!("ARCHITECTURE.md has no table that begins with '{HEAD}'")];
    }
    places.iter().filter_map(|p| complaint(p.as_ref())).collect()
}

/// The rows behind [`HEAD`]; a row without three cells comes as the row itself.
fn rows(map: &str) -> Vec<Result<Place<'_>, &str>> {
    let body = map.lines().skip_while(|line| !line.starts_with(HEAD)).skip(2);
    body.take_while(|line| line.starts_with('|')).map(|line| place(line).ok_or(line)).collect()
}

fn place(line: &str) -> Option<Place<'_>> {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    let quoted = |cell: &str| cell.len() > 2 && cell.starts_with('`') && cell.ends_with('`');
    let (question, file, name) = (cells.next()?, cells.next()?, cells.next()?);
    let is_whole = quoted(file) && quoted(name) && cells.next().is_none();
    is_whole.then(|| Place { question, file: file.trim_matches('`'), name: name.trim_matches('`') })
}

fn complaint(place: Result<&Place<'_>, &&str>) -> Option<String> {
    let place = match place {
        Ok(place) => place,
        Err(line) => return Some(format!("ARCHITECTURE.md: expected question, `file` and `name`: {line}")),
    };
    let Place { question, file, name } = place;
    let Ok(text) = std::fs::read_to_string(root().join("crates").join(file)) else {
        return Some(format!("ARCHITECTURE.md, '{question}': there is no crates/{file}"));
    };
    (!defines(&rust_text::split(&text).code, name))
        .then(|| format!("ARCHITECTURE.md, '{question}': crates/{file} defines no `{name}`"))
}

/// Whether the code, comments and strings apart, defines a function or a type of that name.
fn defines(code: &str, name: &str) -> bool {
    let words: Vec<&str> =
        code.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| !w.is_empty()).collect();
    words.windows(2).any(|pair| DEFINITIONS.contains(&pair[0]) && pair[1] == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_of_the_map_is_there() {
        let complaints = check();
        assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
        let map = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
        assert!(rows(&map).len() >= 15);
    }

    #[test]
    fn a_place_that_is_not_there_is_found() {
        let told = |row: &str| {
            let map = format!("{HEAD} function or type |\n|---|---|---|\n{row}\n\n| other | table |\n");
            let rows = rows(&map);
            assert_eq!(rows.len(), 1);
            complaint(rows[0].as_ref())
        };
        assert!(told("| a key made | `base/src/lib.rs` | `gone` |").unwrap().contains("defines no"));
        assert!(told("| a key made | `base/src/no.rs` | `f` |").unwrap().contains("there is no"));
        assert!(told("| a key made | base/src/lib.rs | `f` |").unwrap().contains("expected"));
        assert!(defines("pub async fn lock<T>(x: T) {}", "lock") && defines("pub enum Mode {", "Mode"));
        assert!(!defines("fn lock_all() { lock(); }", "lock"));
    }
}
