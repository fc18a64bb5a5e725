//! Recordings: the transactions of a run as values, whichever workload they come from.
//!
//! A [`Recorder`] notes the transactions that a deployment of this process carries out: for each
//! its phases, and for each phase the rows that its steps read, change, add or scan. [`Recording`]
//! is what is kept of the notes, a file of JSON lines. The workload [`crate::replay`] carries it
//! out again, on rows of the same size, in the same places and as popular as the recorded ones;
//! models draw its transactions.
//!
//! ```text
//!   AnyWorkload::run --is_on?--> run_noted(&mut dyn AnyTransaction)     compiled once
//!                                  procedure -> Noting -> the engine
//!                                     notes of tables, sites, keys
//!   Recorder::finish: keys --> ranks of the keys that were seen again --> Recording
//! ```
//!
//! **Rows.** A recording has no keys. Of the rows of a table and site, those that at least two
//! transactions touched have a number each, in the order of their keys. A row that was touched once
//! stands for all the others: a replay draws it anew, among as many rows as the table has by the
//! estimate of [`estimate`]. So popular rows stay popular, and the others as rarely met as they
//! were.
//!
//! Transactions that ended without a commit are not noted. One that is tried again after its
//! procedure has ended is noted twice, which is rare.

mod estimate;
mod file;
mod note;
mod noting;
mod ranks;

pub use estimate::estimate;
pub use file::{ReadFile, RecordingError, VERSION, read_files_by};
pub use noting::Recorder;
pub(crate) use noting::{Noting, is_on, keep, note};

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// What a transaction does to a row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Op {
    #[serde(rename = "r")]
    Read,
    #[serde(rename = "u")]
    Update,
    #[serde(rename = "i")]
    Insert,
    #[serde(rename = "d")]
    Delete,
    /// Reads rows one after the other, from this one on.
    #[serde(rename = "s")]
    Scan,
}

impl Op {
    pub fn writes(self) -> bool {
        matches!(self, Op::Update | Op::Insert | Op::Delete)
    }
}

/// Rows that a phase touches in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "Compact", into = "Compact")]
pub struct Touch {
    /// Position in [`Header::tables`].
    pub table: u16,
    /// 0 for a replicated table, of which each instance has a copy.
    pub site: u32,
    pub op: Op,
    /// The number of the row among the popular ones of its table and site; `None` for another row.
    pub row: Option<u64>,
    /// Rows, for a scan; else 1.
    pub count: u32,
}

/// The form in the file: `[table, site, op, row, count]`.
type Compact = (u16, u32, Op, Option<u64>, u32);

impl From<Compact> for Touch {
    fn from((table, site, op, row, count): Compact) -> Touch {
        Touch { table, site, op, row, count }
    }
}

impl From<Touch> for Compact {
    fn from(touch: Touch) -> Compact {
        (touch.table, touch.site, touch.op, touch.row, touch.count)
    }
}

/// A transaction: in the file `[kind, home, phases]`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Recorded(
    /// Position in [`Header::kinds`].
    pub u16,
    /// The site of its home.
    pub u32,
    pub Vec<Vec<Touch>>,
);

impl Recorded {
    pub fn touches(&self) -> impl Iterator<Item = &Touch> {
        self.2.iter().flatten()
    }
}

/// A recorded table or index.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    pub name: String,
    /// Bytes of a row, at the mean.
    pub row_bytes: u32,
    /// Rows of all sites; of a replicated table those of one copy.
    pub rows: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_replicated: bool,
}

/// The first line of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub atoll_recording: u32,
    /// The workload that was recorded.
    pub source: String,
    /// Logical sites; an instance owns a run of them.
    pub sites: u32,
    /// Clients send each request to its home, wherever they are.
    pub is_routed: bool,
    pub tables: Vec<Table>,
    /// Names of the kinds of transactions.
    pub kinds: Vec<String>,
}

/// The transactions of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    pub header: Header,
    pub transactions: Vec<Recorded>,
}

impl Recording {
    /// The sites of one of its transactions, its home first.
    pub fn sites_of(&self, recorded: &Recorded) -> SmallVec<[u32; 4]> {
        let mut sites = SmallVec::from_slice(&[recorded.1]);
        for touch in recorded.touches() {
            let is_replicated = self.header.tables[usize::from(touch.table)].is_replicated;
            if !is_replicated && !sites.contains(&touch.site) {
                sites.push(touch.site);
            }
        }
        sites
    }
}
