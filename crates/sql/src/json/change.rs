//! Changes of a `jsonb` at a path: `jsonb_set`, `jsonb_insert`, `-`, `#-`.

use super::tree::Tree;
use crate::{SqlError, SqlState};

/// The elements of a path; `None` for null.
pub type Path<'a> = &'a [Option<String>];

/// What is done at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// The value takes the place of another one.
    Replace,
    /// As `Replace`, or the value is new.
    Create,
    InsertBefore,
    InsertAfter,
    Delete,
}

impl Change {
    fn makes_new(self) -> bool {
        matches!(self, Change::Create | Change::InsertBefore | Change::InsertAfter)
    }
}

/// The document after a change. `new` is a document of its own; none is needed to delete.
///
/// # Errors
/// `22023` for a scalar and for a member that there is, `22004` for a null in the path, `22P02` for
/// an element of an array that is no number.
pub fn changed(
    document: &str,
    path: Path<'_>,
    new: Option<&str>,
    change: Change,
) -> Result<String, SqlError> {
    let mut tree = Tree::of(document)?;
    if tree.is_scalar() {
        let what = if change == Change::Delete {
            "cannot delete path in scalar"
        } else {
            "cannot set path in scalar"
        };
        return Err(invalid(what));
    }
    if path.is_empty() {
        return Ok(document.to_owned());
    }
    let is_empty = matches!(&tree, Tree::Array(items) if items.is_empty())
        || matches!(&tree, Tree::Object(members) if members.is_empty());
    if is_empty && !change.makes_new() {
        return Ok(document.to_owned());
    }
    let new = new.map(Tree::of).transpose()?.unwrap_or(Tree::Scalar("null"));
    at_path(&mut tree, path, 0, &new, change)?;
    tree.text()
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER, message)
}

fn at_path<'a>(
    tree: &mut Tree<'a>,
    path: Path<'_>,
    level: usize,
    new: &Tree<'a>,
    change: Change,
) -> Result<(), SqlError> {
    let Some(step) = &path[level] else {
        let message = format!("path element at position {} is null", level + 1);
        return Err(SqlError::new(SqlState(*b"22004"), message));
    };
    let is_last = level + 1 == path.len();
    match tree {
        Tree::Scalar(_) => Ok(()),
        Tree::Object(members) => {
            let found = members.iter().position(|(key, _)| key == step);
            match (found, is_last) {
                (Some(at), false) => at_path(&mut members[at].1, path, level + 1, new, change),
                (Some(_), true) if matches!(change, Change::InsertBefore | Change::InsertAfter) => {
                    let hint = "Try using the function jsonb_set to replace key value.";
                    Err(invalid("cannot replace existing key").with_hint(hint))
                }
                (Some(at), true) => {
                    match change {
                        Change::Delete => drop(members.remove(at)),
                        _ => members[at].1 = new.clone(),
                    }
                    Ok(())
                }
                (None, true) if change.makes_new() => {
                    Tree::put(members, step, new.clone());
                    Ok(())
                }
                (None, _) => Ok(()),
            }
        }
        Tree::Array(items) => {
            let at = position(step, level, items.len())?;
            match at {
                Some(at) if at < items.len() && !is_last => {
                    at_path(&mut items[at], path, level + 1, new, change)
                }
                _ if !is_last => Ok(()),
                Some(at) if at < items.len() => {
                    match change {
                        Change::Delete => drop(items.remove(at)),
                        Change::Replace | Change::Create => items[at] = new.clone(),
                        Change::InsertBefore => items.insert(at, new.clone()),
                        Change::InsertAfter => items.insert(at + 1, new.clone()),
                    }
                    Ok(())
                }
                // Before the first one, or behind the last.
                at => {
                    if change.makes_new() {
                        items.insert(at.map_or(0, |_| items.len()), new.clone());
                    }
                    Ok(())
                }
            }
        }
    }
}

/// The place in an array of so many; `None` before the first.
fn position(step: &str, level: usize, count: usize) -> Result<Option<usize>, SqlError> {
    let number = integer(step).ok_or_else(|| {
        let message = format!("path element at position {} is not an integer: \"{step}\"", level + 1);
        SqlError::new(SqlState::INVALID_TEXT, message)
    })?;
    Ok(from_end(number, count))
}

/// A place counted from the end if it is negative.
fn from_end(number: i64, count: usize) -> Option<usize> {
    let number = if number < 0 { number + count as i64 } else { number };
    usize::try_from(number).ok()
}

/// An integer as C's `strtol` reads it.
pub fn integer(text: &str) -> Option<i64> {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse::<i32>().ok().map(i64::from)).flatten()
}

/// `document - name`, `document - names`: without these members, or these strings of an array.
///
/// # Errors
/// `22023` for a scalar.
pub fn without_keys(document: &str, names: Path<'_>) -> Result<String, SqlError> {
    let mut tree = Tree::of(document)?;
    let is_named = |name: &str| names.iter().flatten().any(|known| known == name);
    match &mut tree {
        Tree::Scalar(_) => return Err(invalid("cannot delete from scalar")),
        Tree::Object(members) => members.retain(|(key, _)| !is_named(key)),
        Tree::Array(items) => items.retain(|item| !names.iter().flatten().any(|name| is_string(item, name))),
    }
    tree.text()
}

fn is_string(item: &Tree<'_>, name: &str) -> bool {
    item.is_scalar() && item.has_key(name)
}

/// `document - position`.
///
/// # Errors
/// `22023` for a scalar or an object.
pub fn without_position(document: &str, position: i64) -> Result<String, SqlError> {
    let mut tree = Tree::of(document)?;
    match &mut tree {
        Tree::Scalar(_) => return Err(invalid("cannot delete from scalar")),
        Tree::Object(_) => return Err(invalid("cannot delete from object using integer index")),
        Tree::Array(items) => {
            if let Some(at) = from_end(position, items.len()).filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
    }
    tree.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Vec<Option<String>> {
        crate::array::elements(text).unwrap()
    }

    #[test]
    fn changes_are_those_of_postgres() {
        use Change::{Create, Delete, InsertAfter, InsertBefore, Replace};
        for (document, steps, change, after) in [
            ("{\"a\": [1, 2]}", "{a,0}", Replace, "{\"a\": [9, 2]}"),
            ("{\"a\": [1, 2]}", "{a,-1}", Create, "{\"a\": [1, 9]}"),
            ("{\"a\": [1, 2]}", "{a,7}", Create, "{\"a\": [1, 2, 9]}"),
            ("{\"a\": [1, 2]}", "{a,7}", Replace, "{\"a\": [1, 2]}"),
            ("{\"a\": [1, 2]}", "{a,-7}", Create, "{\"a\": [9, 1, 2]}"),
            ("{\"b\": 1}", "{a}", Create, "{\"a\": 9, \"b\": 1}"),
            ("{\"b\": 1}", "{aa}", Create, "{\"b\": 1, \"aa\": 9}"),
            ("{\"b\": 1}", "{a}", Replace, "{\"b\": 1}"),
            ("{\"b\": 1}", "{b,c}", Create, "{\"b\": 1}"),
            ("[1, 2]", "{1}", InsertBefore, "[1, 9, 2]"),
            ("[1, 2]", "{1}", InsertAfter, "[1, 2, 9]"),
            ("[]", "{1}", InsertAfter, "[9]"),
            ("{\"a\": {\"b\": 1}}", "{a,b}", Delete, "{\"a\": {}}"),
            ("[1, [2, 3]]", "{1,0}", Delete, "[1, [3]]"),
        ] {
            assert_eq!(
                changed(document, &path(steps), Some("9"), change).unwrap(),
                after,
                "{document} {steps}"
            );
        }
        let error = changed("[1]", &path("{x}"), Some("9"), Create).unwrap_err();
        assert_eq!(error.message, "path element at position 1 is not an integer: \"x\"");
        assert_eq!(changed("[1]", &path("{NULL}"), None, Delete).unwrap_err().state, SqlState(*b"22004"));
        let error = changed("{\"a\": 1}", &path("{a}"), Some("9"), InsertAfter).unwrap_err();
        assert_eq!(error.message, "cannot replace existing key");
    }

    #[test]
    fn parts_are_taken_away() {
        assert_eq!(without_keys("{\"a\": 1, \"b\": 2}", &path("{a,x,NULL}")).unwrap(), "{\"b\": 2}");
        assert_eq!(without_keys("[\"a\", 1, \"b\"]", &path("{a}")).unwrap(), "[1, \"b\"]");
        assert_eq!(without_position("[1, 2, 3]", -1).unwrap(), "[1, 2]");
        assert_eq!(without_position("[1, 2, 3]", i64::MIN).unwrap(), "[1, 2, 3]");
        assert_eq!(without_position("1", 0).unwrap_err().message, "cannot delete from scalar");
    }
}
