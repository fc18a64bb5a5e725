//! A step in Rust: code that runs where its rows are.

use super::convert::Values;
use super::rows::Rows;
use crate::Datum;
use crate::error::Stop;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A part of a procedure that runs in one place, and once: plain values, and the code that works on
/// the rows there. The values travel to the instance that owns the place, so they must be all that
/// the code uses.
pub trait Step: Serialize + DeserializeOwned + 'static {
    /// The name under which the step travels; no other step of the program has it.
    const NAME: &'static str;
    /// Whether the step changes no row. One that says so and writes after all is correct, only more
    /// likely to meet a deadlock.
    const ONLY_READS: bool = false;
    type Output: Serialize + DeserializeOwned + 'static;

    /// Where the step runs: where the rows of a table with this key are.
    fn place(&self) -> Place;

    /// The code. An error ends the whole transaction without effect.
    #[allow(async_fn_in_trait)]
    async fn run(&self, rows: &mut Rows<'_>) -> Result<Self::Output, Stop>;
}

/// A table and a key in it, or as many of the key's first values as decide where its rows lie.
#[derive(Clone, PartialEq, Debug)]
pub struct Place {
    pub(crate) table: &'static str,
    pub(crate) key: Vec<Datum>,
}

impl Place {
    /// The place of the rows of `table` that have this key, or of which the keys begin so.
    pub fn new(table: &'static str, key: impl Values) -> Place {
        Place { table, key: key.into_values() }
    }
}
