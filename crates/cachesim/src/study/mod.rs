//! The figures of the thesis' chapters as rows: JSON objects with a `table` each.
//!
//! - `chapter6`: the microscope. `chapters7and8`: the schedulers, their sweeps and the profile of
//!   ADDICT.
//! - [`sheet`]: rows as text.

mod chapter6;
mod chapters7and8;
pub mod sheet;

pub use chapter6::chapter_6;
pub use chapters7and8::{chapter_7, chapter_8, one_run};

use serde_json::{Map, Value};
use trace::Trace;

pub type Row = Map<String, Value>;

/// What a study needs and the trace does not have.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    #[error(
        "the trace holds {found} transactions: expected at least {needed}; capture more, or choose a smaller --warm"
    )]
    TooFew { found: usize, needed: usize },
    #[error("the trace has no marks of operations, which {study} needs; capture it with this program")]
    NoMarks { study: &'static str },
    #[error("machine {machine} has no shared last level, which {study} needs: expected one such as zesto")]
    NoSharedCache { machine: String, study: &'static str },
    #[error("{what}")]
    Impossible { what: String },
}

/// A row of a table, with the facts of the capture.
fn row(trace: &Trace, table: &str) -> Row {
    let mut row = Row::new();
    row.insert("table".into(), table.into());
    for name in ["workload", "design", "scale", "workers", "options"] {
        if let Some(value) = trace.fact(name) {
            let number = value.parse::<f64>().ok().map(Value::from);
            row.insert(name.into(), number.unwrap_or_else(|| value.into()));
        }
    }
    row
}

fn set(row: &mut Row, name: &str, value: impl Into<Value>) {
    row.insert(name.into(), value.into());
}

/// A number rounded to what a count can carry.
fn rounded(value: f64) -> Value {
    let digits = 1e5;
    Value::from((value * digits).round() / digits)
}

/// Whether any transaction has the mark of an operation.
fn has_operations(trace: &Trace) -> bool {
    let marks = |t: &trace::Transaction| {
        t.events().any(|e| matches!(e, trace::Event::Mark(mark) if trace::code::is_operation(mark)))
    };
    trace.transactions.iter().take(20).any(marks)
}
