//! Cursors: `DECLARE`, `FETCH`, `MOVE`, `CLOSE`.

use crate::words::Words;
use sql::SqlError;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// `DECLARE name ... CURSOR ... FOR`; the query follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declared {
    pub name: String,
    /// Whether it stays when its transaction has committed.
    pub holds: bool,
    /// Whether it may go backwards: not with `NO SCROLL`.
    pub scrolls: bool,
}

/// Which rows of a cursor are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// So many rows onwards; backwards if negative; the present one again if 0.
    Rows(i64),
    /// All rows onwards, or backwards.
    AllForward,
    AllBackward,
    /// The row with this number, from the end if negative.
    Absolute(i64),
    /// One row, so many onwards.
    Relative(i64),
}

/// `FETCH`, or `MOVE`, which gives no rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    pub cursor: String,
    pub way: Way,
    pub moves: bool,
}

/// The head of `DECLARE ... CURSOR`, and the tokens of its query; `None` for another statement.
///
/// # Errors
/// `42601`.
pub fn declare(tokens: &[TokenWithSpan]) -> Result<Option<(Declared, &[TokenWithSpan])>, SqlError> {
    let words = &mut Words::new(tokens);
    if !words.take("DECLARE") {
        return Ok(None);
    }
    let mut declared = Declared { name: words.name()?, holds: false, scrolls: true };
    loop {
        if words.take("NO") {
            words.expect("SCROLL")?;
            declared.scrolls = false;
        } else if words.take_any(&["BINARY", "INSENSITIVE", "ASENSITIVE", "SCROLL"]).is_none() {
            break;
        }
    }
    words.expect("CURSOR")?;
    if let Some(word) = words.take_any(&["WITH", "WITHOUT"]) {
        words.expect("HOLD")?;
        declared.holds = word == "WITH";
    }
    words.expect("FOR")?;
    Ok(Some((declared, words.rest())))
}

/// `FETCH` or `MOVE`; `None` for another statement.
///
/// # Errors
/// `42601`.
pub fn fetch(words: &mut Words<'_>) -> Result<Option<Fetch>, SqlError> {
    let moves = match words.take_any(&["FETCH", "MOVE"]) {
        None => return Ok(None),
        Some(word) => word == "MOVE",
    };
    let way = way(words)?;
    words.take_any(&["FROM", "IN"]);
    let cursor = words.name()?;
    words.end()?;
    Ok(Some(Fetch { cursor, way, moves }))
}

fn way(words: &mut Words<'_>) -> Result<Way, SqlError> {
    let is_name = |words: &Words<'_>| {
        // A word of a direction may be the cursor's name: then nothing follows it.
        let mut next = Words::new(words.rest());
        next.step();
        next.token().is_none()
    };
    if is_name(words) {
        return Ok(Way::Rows(1));
    }
    let found = words
        .take_any(&["NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "ALL", "FORWARD", "BACKWARD"]);
    Ok(match found {
        Some("NEXT") => Way::Rows(1),
        Some("PRIOR") => Way::Rows(-1),
        Some("FIRST") => Way::Absolute(1),
        Some("LAST") => Way::Absolute(-1),
        Some("ABSOLUTE") => Way::Absolute(words.integer()?),
        Some("RELATIVE") => Way::Relative(words.integer()?),
        Some("ALL") => Way::AllForward,
        Some("FORWARD") if words.take("ALL") => Way::AllForward,
        Some("BACKWARD") if words.take("ALL") => Way::AllBackward,
        Some("FORWARD") => Way::Rows(count(words)?),
        Some("BACKWARD") => Way::Rows(count(words)?.saturating_neg()),
        Some(_) => return Err(words.error()),
        None => Way::Rows(count(words)?),
    })
}

/// A number, or 1.
fn count(words: &mut Words<'_>) -> Result<i64, SqlError> {
    match words.token() {
        Some(Token::Number(..) | Token::Minus | Token::Plus) => words.integer(),
        _ => Ok(1),
    }
}
