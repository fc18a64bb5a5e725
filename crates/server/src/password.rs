//! `ALTER USER atoll PASSWORD '...'`, the one statement about users.

use crate::access::USER;
use sql::{SqlError, SqlState};

/// The password that a text sets: in clear or a verifier, `None` to remove it. No result if the
/// text is another statement.
pub fn change(text: &str) -> Option<Result<Option<String>, SqlError>> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let (head, literal) = match text.split_once('\'') {
        Some((head, literal)) => (head, Some(literal)),
        None => (text, None),
    };
    let words: Vec<String> = head.split_whitespace().map(str::to_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, rest) = match &words[..] {
        ["alter", "user" | "role", name, rest @ ..] => (name.trim_matches('"'), rest),
        _ => return None,
    };
    let rest = rest.strip_prefix(&["with"]).unwrap_or(rest);
    let rest = rest.strip_prefix(&["encrypted"]).unwrap_or(rest);
    Some(match (rest, literal) {
        _ if name != USER && name != "current_user" => {
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist")))
        }
        (["password", "null"], None) => Ok(None),
        (["password"], Some(literal)) => match literal.strip_suffix('\'') {
            Some(password) if !password.replace("''", "").contains('\'') && !password.is_empty() => {
                Ok(Some(password.replace("''", "'")))
            }
            _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "expected PASSWORD '...' or PASSWORD NULL")),
        },
        _ => Err(SqlError::unsupported("ALTER USER but for PASSWORD", None)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_that_clients_send() {
        let set = |text: &str| change(text).and_then(Result::ok);
        assert_eq!(set("ALTER USER atoll PASSWORD 'it''s'"), Some(Some("it's".into())));
        assert_eq!(set("alter role \"atoll\" with encrypted password 'a b';"), Some(Some("a b".into())));
        assert_eq!(set("ALTER USER atoll PASSWORD NULL"), Some(None));
        assert_eq!(change("ALTER TABLE t ADD c int"), None);
        assert!(change("ALTER USER other PASSWORD 'x'").is_some_and(|r| r.is_err()));
        assert!(change("ALTER USER atoll PASSWORD 'x' VALID UNTIL 'y'").is_some_and(|r| r.is_err()));
    }
}
