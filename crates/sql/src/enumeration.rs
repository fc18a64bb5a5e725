//! Enumerations (`CREATE TYPE ... AS ENUM`): types of which the values are labels in a declared
//! order.
//!
//! A value is the code of its label ([`crate::Datum::Int`]). Codes ascend in the order of the
//! labels and leave room between them, so a label that is added between two others gets a code
//! between theirs:
//!
//! ```text
//!   CREATE TYPE mood AS ENUM ('sad', 'happy')      sad 2^32        happy 2 * 2^32
//!   ALTER TYPE mood ADD VALUE 'ok' AFTER 'sad'     sad 2^32   ok 1.5 * 2^32   happy 2 * 2^32
//! ```
//!
//! No code ever changes. So stored rows, keys and index entries stay as they are, and the order of
//! their bytes is that of the labels. A comparison, a key, a hash and a sort are those of integers.
//!
//! A type has its labels with it ([`Enum`]): a compiled program needs no catalog to read and write
//! them.

use crate::oid::Oid;
use crate::{SqlError, SqlState};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The distance of two labels that are declared one after the other.
const GAP: i64 = 1 << 32;
/// The most labels of a type.
const MOST: usize = 100_000;
/// The most bytes of a label.
const LONGEST: usize = 63;

/// An enumeration with its labels.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Definition {
    pub oid: Oid,
    /// The number of the type of its arrays.
    pub array: Oid,
    pub name: String,
    /// In the order of the codes.
    pub labels: Vec<Label>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Label {
    pub code: i64,
    pub text: String,
}

/// Where a new label stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position<'a> {
    Last,
    Before(&'a str),
    After(&'a str),
}

impl Definition {
    /// A type without labels.
    pub fn new(oid: Oid, array: Oid, name: String) -> Definition {
        Definition { oid, array, name, labels: Vec::new() }
    }

    /// The code of a label.
    pub fn code(&self, text: &str) -> Option<i64> {
        self.labels.iter().find(|label| label.text == text).map(|label| label.code)
    }

    /// The label of a code.
    pub fn text(&self, code: i64) -> Option<&str> {
        let at = self.labels.binary_search_by_key(&code, |label| label.code).ok()?;
        Some(&self.labels[at].text)
    }

    /// The code of a label from outside.
    ///
    /// # Errors
    /// `22P02` for a text that is no label.
    pub fn read(&self, text: &str) -> Result<i64, SqlError> {
        self.code(text).ok_or_else(|| {
            let message = format!("invalid input value for enum {}: \"{text}\"", self.name);
            SqlError::new(SqlState::INVALID_TEXT, message)
        })
    }

    /// Adds a label.
    ///
    /// # Errors
    /// `42602` for a text that is too long, `42710` for one that there is, `22023` if there is no
    /// label of which it is the neighbour, `54000` without a code that is free at the place.
    pub fn add(&mut self, text: &str, position: Position<'_>) -> Result<(), SqlError> {
        checked(text)?;
        if self.code(text).is_some() {
            let message = format!("enum label \"{text}\" already exists");
            return Err(SqlError::new(SqlState(*b"42710"), message));
        }
        if self.labels.len() >= MOST {
            let message = format!("a type has at most {MOST} labels");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT, message));
        }
        let neighbour = |text: &str| {
            self.labels.iter().position(|label| label.text == text).ok_or_else(|| no_label(text))
        };
        let at = match position {
            Position::Last => self.labels.len(),
            Position::Before(text) => neighbour(text)?,
            Position::After(text) => neighbour(text)? + 1,
        };
        let before = at.checked_sub(1).map(|before| self.labels[before].code);
        let after = self.labels.get(at).map(|after| after.code);
        let code = between(before, after).ok_or_else(|| {
            let message = format!("no room is left for a label between two of type {}", self.name);
            let hint = "Create a type with all labels in their order, and give the columns that type.";
            SqlError::new(SqlState::PROGRAM_LIMIT, message).with_hint(hint)
        })?;
        self.labels.insert(at, Label { code, text: text.to_owned() });
        Ok(())
    }

    /// Gives a label another text.
    ///
    /// # Errors
    /// `42602` for a text that is too long, `42710` for one that there is, `22023` if there is no
    /// such label.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), SqlError> {
        checked(to)?;
        let at = self.labels.iter().position(|label| label.text == from).ok_or_else(|| no_label(from))?;
        if self.code(to).is_some() {
            let message = format!("enum label \"{to}\" already exists");
            return Err(SqlError::new(SqlState(*b"42710"), message));
        }
        to.clone_into(&mut self.labels[at].text);
        Ok(())
    }
}

/// A code between two others, at the middle; past the ends, at a distance.
fn between(before: Option<i64>, after: Option<i64>) -> Option<i64> {
    match (before, after) {
        (None, None) => Some(GAP),
        (Some(before), None) => before.checked_add(GAP),
        (None, Some(after)) => after.checked_sub(GAP),
        (Some(before), Some(after)) => {
            let middle = before.checked_add(after.checked_sub(before)? / 2)?;
            (middle != before).then_some(middle)
        }
    }
}

fn no_label(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER, format!("\"{text}\" is not an existing enum label"))
}

fn checked(text: &str) -> Result<(), SqlError> {
    if text.len() <= LONGEST {
        return Ok(());
    }
    let error = SqlError::new(SqlState(*b"42602"), format!("invalid enum label \"{text}\""));
    Err(error.with_detail(format!("Labels must be {LONGEST} bytes or less.")))
}

/// A type as values, columns and programs name it. Two of one number are equal, also where labels
/// were added meanwhile.
///
/// Equal definitions are one value, which is never freed: a process keeps each that it has seen.
#[derive(Clone, Copy)]
pub struct Enum(&'static Definition);

static SEEN: LazyLock<Mutex<HashSet<&'static Definition>>> = LazyLock::new(Mutex::default);

impl Enum {
    pub fn of(definition: &Definition) -> Enum {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.get(definition) {
            return Enum(known);
        }
        let kept: &'static Definition = Box::leak(Box::new(definition.clone()));
        seen.insert(kept);
        Enum(kept)
    }
}

impl std::ops::Deref for Enum {
    type Target = Definition;

    fn deref(&self) -> &Definition {
        self.0
    }
}

impl PartialEq for Enum {
    fn eq(&self, other: &Enum) -> bool {
        self.0.oid == other.0.oid
    }
}

impl Eq for Enum {}

impl Hash for Enum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.oid.hash(state);
    }
}

impl fmt::Debug for Enum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Enum({})", self.0.name)
    }
}

impl Serialize for Enum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Enum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Enum, D::Error> {
        Definition::deserialize(deserializer).map(|definition| Enum::of(&definition))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Datum, SqlType, text};

    fn mood(labels: &[&str]) -> Definition {
        let mut mood = Definition::new(Oid(20_000), Oid(20_001), "mood".into());
        labels.iter().for_each(|label| mood.add(label, Position::Last).unwrap());
        mood
    }

    fn texts(definition: &Definition) -> Vec<&str> {
        definition.labels.iter().map(|label| label.text.as_str()).collect()
    }

    #[test]
    fn added_labels_stand_at_their_places_and_change_no_code() {
        let mut mood = mood(&["sad", "happy"]);
        let before = (mood.code("sad"), mood.code("happy"));
        mood.add("ok", Position::After("sad")).unwrap();
        mood.add("worst", Position::Before("sad")).unwrap();
        mood.add("fine", Position::Before("happy")).unwrap();
        mood.add("best", Position::Last).unwrap();
        assert_eq!(texts(&mood), ["worst", "sad", "ok", "fine", "happy", "best"]);
        assert_eq!((mood.code("sad"), mood.code("happy")), before);
        assert!(mood.labels.is_sorted_by(|a, b| a.code < b.code));
        assert!(mood.labels.iter().all(|label| mood.text(label.code) == Some(&label.text)));
        mood.rename("ok", "so so").unwrap();
        assert_eq!(texts(&mood), ["worst", "sad", "so so", "fine", "happy", "best"]);
    }

    #[test]
    fn a_place_between_two_labels_takes_as_many_as_the_distance_has_halves() {
        let mut mood = mood(&["a", "b"]);
        let added = (0..100).take_while(|i| mood.add(&format!("x{i}"), Position::Before("b")).is_ok());
        assert_eq!(added.count(), 32);
        assert!(mood.labels.is_sorted_by(|a, b| a.code < b.code));
        assert_eq!(mood.add("x", Position::Before("b")).unwrap_err().state, SqlState::PROGRAM_LIMIT);
        mood.add("x", Position::Last).unwrap();
    }

    #[test]
    fn labels_are_refused_in_postgres_words() {
        let mut mood = mood(&["sad"]);
        let refused = |error: SqlError, state: &[u8; 5], words: &str| {
            assert_eq!((error.state, error.message.as_str()), (SqlState(*state), words));
        };
        refused(mood.add("sad", Position::Last).unwrap_err(), b"42710", "enum label \"sad\" already exists");
        let missing = mood.add("ok", Position::After("x")).unwrap_err();
        refused(missing, b"22023", "\"x\" is not an existing enum label");
        let long = "x".repeat(64);
        let error = mood.add(&long, Position::Last).unwrap_err();
        refused(error, b"42602", &format!("invalid enum label \"{long}\""));
        let ty = SqlType::Enum(Enum::of(&mood));
        let error = text::read(ty, "Sad").unwrap_err();
        refused(error, b"22P02", "invalid input value for enum mood: \"Sad\"");
        let sad = text::read(ty, "sad").unwrap();
        assert_eq!((text::to_string(ty, &sad), sad), ("sad".into(), Datum::Int(GAP)));
    }

    #[test]
    fn a_type_travels_with_its_labels() {
        let ty = SqlType::Enum(Enum::of(&mood(&["sad", "happy"])));
        let read: SqlType = postcard::from_bytes(&postcard::to_stdvec(&ty).unwrap()).unwrap();
        let (SqlType::Enum(a), SqlType::Enum(b)) = (ty, read) else { panic!("{read:?}") };
        assert!(std::ptr::eq(a.0, b.0));
        // More labels are another definition of the same type.
        let more = Enum::of(&mood(&["sad", "happy", "ok"]));
        assert!(more == a && !std::ptr::eq(more.0, a.0));
    }
}
