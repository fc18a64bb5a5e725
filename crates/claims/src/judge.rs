//! From rows to verdicts.
//!
//! An evaluator is data: values to compute from the rows of some experiments, and conditions that
//! must hold for them. `claims.toml` holds one for each claim that can be decided, and the missing
//! feature for each other claim:
//!
//! ```toml
//! [columns]                      # fields put together from others, row by row
//! communication = "time_ns_per_txn.communication + waiting_ns_per_txn.reply"
//!
//! [[claim]]
//! id = "ISL-024"
//! experiments = ["vldbj-11"]
//! values = ["spread = max(tps[islands=1, op=read]) / min(tps[islands=1, op=read])"]
//! holds = ["spread <= 1.10"]
//!
//! [waits]
//! "the design occ" = ["VLDBJ-46"]
//! ```

use crate::error::{DataError, EvalError};
use crate::expression::{Condition, Expression, Names};
use crate::row::Row;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The way to decide one claim.
#[derive(Clone, Debug)]
pub struct Evaluator {
    pub id: String,
    /// The experiments that supply its rows.
    pub experiments: Vec<String>,
    /// Computed in order; later values may use earlier ones.
    pub values: Vec<(String, Expression)>,
    /// The text and the parsed condition; all must hold.
    pub holds: Vec<(String, Condition)>,
    /// The part of the claim that this decides, if it does not decide all of it.
    pub part: Option<String>,
    /// The figure of the claim to which an engine profile was fitted: it cannot count as
    /// reproduced.
    pub anchor: Option<String>,
    /// Our explanation if the claim is not reproduced.
    pub remark: Option<String>,
}

/// The evaluators of all claims.
#[derive(Clone, Debug, Default)]
pub struct Evaluators {
    pub all: Vec<Evaluator>,
    pub columns: BTreeMap<String, Expression>,
    /// Claim -> the missing feature.
    pub waits: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Debug)]
pub enum ClaimVerdict {
    Reproduced,
    /// The conditions that do not hold.
    NotReproduced(Vec<String>),
    /// The reason.
    NotDecidable(String),
}

impl ClaimVerdict {
    pub fn name(&self) -> &'static str {
        match self {
            ClaimVerdict::Reproduced => "reproduced",
            ClaimVerdict::NotReproduced(_) => "not reproduced",
            ClaimVerdict::NotDecidable(_) => "not decidable here",
        }
    }
}

/// A verdict, and the values that it follows from.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    pub id: String,
    pub verdict: ClaimVerdict,
    pub values: Vec<(String, Vec<f64>)>,
    pub part: Option<String>,
    /// See [`Evaluator::anchor`].
    pub anchor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    columns: BTreeMap<String, String>,
    claim: Vec<Entry>,
    waits: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    experiments: Vec<String>,
    #[serde(default)]
    values: Vec<String>,
    holds: Vec<String>,
    #[serde(default)]
    part: Option<String>,
    #[serde(default)]
    anchor: Option<String>,
    #[serde(default)]
    remark: Option<String>,
}

impl Evaluators {
    /// # Errors
    /// The error in the file: its shape, an expression, or a duplicate claim.
    pub fn parse(file: &str, text: &str) -> Result<Evaluators, DataError> {
        let wrong = |what: String| DataError::of(file, what);
        let read: File =
            toml::from_str(text).map_err(|e| wrong(e.to_string().trim_end().replace('\n', "; ")))?;
        let column = |(name, text): (String, String)| match Expression::parse(&text) {
            Ok(expression) => Ok((name, expression)),
            Err(e) => Err(wrong(format!("column {name}: {e}"))),
        };
        let mut evaluators = Evaluators {
            columns: read.columns.into_iter().map(column).collect::<Result<_, _>>()?,
            ..Evaluators::default()
        };
        for entry in read.claim {
            let id = entry.id.clone();
            let evaluator = Evaluator::of(entry).map_err(|what| wrong(format!("{id}: {what}")))?;
            if evaluators.get(&id).is_some() {
                return Err(wrong(format!("{id} stands twice: expected one evaluator")));
            }
            evaluators.all.push(evaluator);
        }
        for (reason, ids) in read.waits {
            for id in ids {
                if evaluators.get(&id).is_some() || evaluators.waits.contains_key(&id) {
                    return Err(wrong(format!(
                        "{id} stands twice: expected one evaluator, or one thing it waits for"
                    )));
                }
                evaluators.waits.insert(id, reason.clone());
            }
        }
        Ok(evaluators)
    }

    /// Takes up those of another file.
    ///
    /// # Errors
    /// A claim or a column that both files have.
    pub fn join(&mut self, other: Evaluators) -> Result<(), String> {
        let known = |id: &String| self.get(id).is_some() || self.waits.contains_key(id);
        if let Some(id) = other.all.iter().map(|e| &e.id).chain(other.waits.keys()).find(|id| known(id)) {
            return Err(format!("{id} stands in another file, too: expected one evaluator"));
        }
        if let Some(name) = other.columns.keys().find(|name| self.columns.contains_key(*name)) {
            return Err(format!("the column {name} stands in another file, too: expected another name"));
        }
        self.all.extend(other.all);
        self.columns.extend(other.columns);
        self.waits.extend(other.waits);
        Ok(())
    }

    pub fn get(&self, id: &str) -> Option<&Evaluator> {
        self.all.iter().find(|e| e.id == id)
    }

    /// Decides from the rows of the evaluator's experiments.
    pub fn decide(&self, evaluator: &Evaluator, rows: &[&Row]) -> Decision {
        let mut names = Names { columns: self.columns.clone(), ..Names::default() };
        let mut values = Vec::new();
        let verdict = match evaluator.judge(rows, &mut names, &mut values) {
            Ok(failed) if failed.is_empty() => ClaimVerdict::Reproduced,
            Ok(failed) => ClaimVerdict::NotReproduced(failed),
            Err(error) => ClaimVerdict::NotDecidable(error.to_string()),
        };
        let (id, part, anchor) = (evaluator.id.clone(), evaluator.part.clone(), evaluator.anchor.clone());
        Decision { id, verdict, values, part, anchor }
    }
}

impl Evaluator {
    fn of(entry: Entry) -> Result<Evaluator, String> {
        let value = |text: &String| {
            let (name, expression) =
                text.split_once('=').ok_or_else(|| format!("{text:?}: expected NAME = EXPRESSION"))?;
            Ok((name.trim().to_owned(), Expression::parse(expression.trim()).map_err(|e| e.to_string())?))
        };
        let condition = |text: &String| match Condition::parse(text) {
            Ok(condition) => Ok((text.clone(), condition)),
            Err(e) => Err(e.to_string()),
        };
        let values: Result<Vec<_>, String> = entry.values.iter().map(value).collect();
        let holds: Result<Vec<_>, String> = entry.holds.iter().map(condition).collect();
        let (values, holds) = (values?, holds?);
        if holds.is_empty() || entry.experiments.is_empty() {
            return Err("expected at least one experiment and one condition".into());
        }
        let Entry { id, experiments, part, anchor, remark, .. } = entry;
        Ok(Evaluator { id, experiments, values, holds, part, anchor, remark })
    }

    /// The conditions that do not hold.
    fn judge(
        &self,
        rows: &[&Row],
        names: &mut Names,
        values: &mut Vec<(String, Vec<f64>)>,
    ) -> Result<Vec<String>, EvalError> {
        for (name, expression) in &self.values {
            let value = expression.values(rows, names)?;
            names.values.insert(name.clone(), value.clone());
            values.push((name.clone(), value));
        }
        let mut failed = Vec::new();
        for (text, condition) in &self.holds {
            if !condition.holds(rows, names)? {
                failed.push(text.clone());
            }
        }
        Ok(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [columns]
        both = "a + b"
        [[claim]]
        id = "A-1"
        experiments = ["e"]
        values = ["ratio = both[k=1] / both[k=2]", "twice = ratio * 2"]
        holds = ["ratio > 1", "twice < 10"]
        [waits]
        "a better world" = ["A-2"]
    "#;

    fn decide(lines: &[&str]) -> Decision {
        let evaluators = Evaluators::parse("f", FILE).unwrap();
        let rows: Vec<Row> = lines.iter().map(|l| Row::parse(l).unwrap()).collect();
        evaluators.decide(&evaluators.all[0], &rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_claim_holds_or_does_not_or_cannot_be_decided() {
        let yes = decide(&[r#"{"k":1,"a":1,"b":3}"#, r#"{"k":2,"a":1,"b":1}"#]);
        assert_eq!(yes.verdict, ClaimVerdict::Reproduced);
        assert_eq!(yes.values, [("ratio".to_string(), vec![2.0]), ("twice".to_string(), vec![4.0])]);
        let no = decide(&[r#"{"k":1,"a":1,"b":1}"#, r#"{"k":2,"a":1,"b":3}"#]);
        assert_eq!(no.verdict, ClaimVerdict::NotReproduced(vec!["ratio > 1".into()]));
        let unknown = decide(&[r#"{"k":1,"a":1,"b":1}"#]);
        assert!(matches!(&unknown.verdict, ClaimVerdict::NotDecidable(why) if why.contains("k=2")));
    }

    #[test]
    fn what_is_wrong_with_the_file_is_said() {
        for (from, to, part) in [
            ("ratio > 1", "ratio", "A-1: "),
            ("a + b", "a +", "column both"),
            ("ratio = both", "both", "A-1: "),
            ("\"A-2\"", "\"A-1\"", "A-1 stands twice"),
            ("holds", "hold", "unknown field"),
            ("[\"e\"]", "[]", "at least one experiment"),
        ] {
            let error = Evaluators::parse("f", &FILE.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.starts_with("f: ") && error.contains(part), "{part:?} in {error:?}");
        }
    }
}
