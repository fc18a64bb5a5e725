//! Functions and files that are long, told by `tidy` without a complaint: a long one may be one
//! thought, and a reader judges.
//!
//! Tests are left out: those in folders and files of their own, and those at the end of a file.
//! Lines are counted whole, comments and blank ones included.

use crate::root;
use crate::rust_text;
use crate::workspace::Workspace;
use std::path::Path;

/// More than a screen.
const FUNCTION_LINES: usize = 70;
const FILE_LINES: usize = 600;

/// The long functions and files, a line for each kind.
pub fn report(workspace: &Workspace) -> Vec<String> {
    let (mut functions, mut files) = (Vec::new(), Vec::new());
    let is_tests = |path: &Path| path.to_string_lossy().ends_with("tests.rs");
    let in_sources = |path: &Path| path.components().any(|c| c.as_os_str() == "src");
    let is_source = |path: &&Path| in_sources(path) && !is_tests(path);
    for path in workspace.with_extension("rs").filter(is_source) {
        let Ok(text) = std::fs::read_to_string(root().join(path)) else { continue };
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
        let count = text.lines().count();
        if count > FILE_LINES {
            files.push(format!("{} {count}", path.display()));
        }
        functions.extend(long(text).iter().map(|(name, count)| format!("{} {name} {count}", path.display())));
    }
    let told = |kind, most, names: Vec<String>| {
        format!("{kind} over {most} lines: {} ({})", names.len(), names.join(", "))
    };
    vec![told("functions", FUNCTION_LINES, functions), told("files", FILE_LINES, files)]
}

/// Functions over the limit, with their lines from `fn` to the closing brace.
fn long(text: &str) -> Vec<(String, usize)> {
    let code = rust_text::split(text).code;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let starts = code.match_indices("fn ").filter(|(at, _)| !code[..*at].ends_with(is_word));
    let functions = starts.filter_map(|(at, _)| {
        let name = code[at + 3..].split(|c| !is_word(c)).next()?;
        Some((name.to_owned(), body_end(&code[at..])?))
    });
    functions.filter(|(_, lines)| *lines > FUNCTION_LINES).collect()
}

/// The lines from the start of `code` to the end of the first block in braces; none where a
/// semicolon comes first, as in the declaration of a trait's function. Braces and semicolons in
/// parentheses or brackets belong to a type.
fn body_end(code: &str) -> Option<usize> {
    let (mut inner, mut depth, mut lines) = (0, 0, 1);
    for c in code.chars() {
        match c {
            '\n' => lines += 1,
            '(' | '[' => inner += 1,
            ')' | ']' => inner -= 1,
            ';' if depth == 0 && inner == 0 => return None,
            '{' if depth > 0 || inner == 0 => depth += 1,
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return Some(lines);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_function_is_found_and_a_short_one_is_not() {
        let body = |lines: usize| "    // }\n".repeat(lines);
        let text = format!(
            "trait T {{\n    fn f(x: [u8; 3]);\n}}\nfn short() {{\n{}}}\nfn long(x: [u8; {{ 3 }}]) {{\n{}    \"}}\";\n}}\n",
            body(FUNCTION_LINES - 2),
            body(FUNCTION_LINES - 2),
        );
        assert_eq!(long(&text), [("long".to_owned(), FUNCTION_LINES + 1)]);
    }
}
