//! A row as this crate sees it: a JSON object of any origin.
//!
//! Result rows of `bench` and rows of counts (see [`crate::counting`]) differ only in their fields.
//! Each row also names its experiment, so that rows of many experiments can share a file.

use serde_json::{Map, Value};

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Row(pub Map<String, Value>);

/// The field that names the experiment.
pub const EXPERIMENT: &str = "experiment";

impl Row {
    pub fn value(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let first = self.0.get(names.next()?)?;
        names.try_fold(first, |value, name| value.get(name))
    }

    /// The number at a path; true and false count as 1 and 0.
    pub fn number(&self, path: &str) -> Option<f64> {
        match self.value(path)? {
            Value::Bool(b) => Some(f64::from(u8::from(*b))),
            value => value.as_f64(),
        }
    }

    /// The value at a path as users write it; `None` for lists, objects and missing values.
    pub fn word(&self, path: &str) -> Option<String> {
        match self.value(path)? {
            Value::String(word) => Some(word.clone()),
            // 100.0 and 100 are the same number.
            Value::Number(n) => n.as_f64().map(|n| n.to_string()),
            Value::Bool(b) => Some(b.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.into(), value.into());
    }

    pub fn line(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// # Errors
    /// A line that is no JSON object, in words.
    pub fn parse(line: &str) -> Result<Row, String> {
        match serde_json::from_str(line) {
            Ok(Value::Object(map)) => Ok(Row(map)),
            Ok(_) => Err("expected a JSON object".into()),
            Err(e) => Err(format!("no JSON object ({e})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_numbers_and_words() {
        let row = Row::parse(r#"{"a":{"b":100.0,"c":"w","d":[1]},"e":true}"#).unwrap();
        assert_eq!((row.number("a.b"), row.word("a.b").as_deref()), (Some(100.0), Some("100")));
        assert_eq!((row.number("a.c"), row.word("a.c").as_deref()), (None, Some("w")));
        assert_eq!((row.number("e"), row.word("a.d"), row.number("a.x.y")), (Some(1.0), None, None));
        assert!(Row::parse("[1]").is_err() && Row::parse("{").is_err());
    }
}
