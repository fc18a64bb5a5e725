//! A store: tables that survive, changed by transactions that happen whole or not at all.
//!
//! Access methods below know pages and keys; this room makes transactions of their operations: it keeps a table's
//! primary tree, secondary trees and heap together (the rows of a clustered table in the primary tree itself), chains log records, remembers how to undo, commits, prepares,
//! rolls back, checkpoints, and after a crash brings everything back to the last promise made.
//!
//! A request enters with a [`Txn`] that [`Store::begin`] started: record operations ([`Store::get`],
//! [`Store::update`], ...) log and remember; [`Store::commit`] appends the commit record and says which log position
//! to wait for. Nothing here waits for pages on the way in: an operation that meets an absent page has changed
//! nothing and says which ([`pages::Stop`]); await [`Store::page`] (or have [`Store::load_page`] block for it) and call again.
//!
//! What a restart has to repeat on a page waits until the page is read: [`Store::redo_some`] has that done beside
//! transactions.
//!
//! A transaction may consist of branches, one for each worker that has a part of it: [`Store::commit_together`] ends them by
//! one record.
//!
//! A transaction goes back part of the way with [`Store::rollback_to`], and changes the schema with
//! [`Store::create_table`], [`Store::create_index`] and their opposites.
//!
//! Trees may be multi-rooted ([`TreeKind`]): their partitions are split and merged ([`Store::split_partition`],
//! [`Store::merge_partition`]) and may have owners ([`Store::own_partition`]), beside transactions.
//!
//! Heap pages may be divided among partitions, or leaves, of a table's primary tree ([`HeapForm`]), and then be owned by whoever changes them
//! ([`Store::have_owners`]); rows that came to lie beside others' are moved ([`Store::settle_rows`], [`Store::divide_rows`], and in pieces
//! [`Store::begin_division`]).
//!
//! It knows nothing of locks (isolation is the caller's), partitions, workers' placement, channels or two-phase
//! commit: a *prepared* transaction is one whose end is decided elsewhere, and a *note* is a piece of bytes that
//! survives until it is forgotten.
//!
//! A data folder: `lock` (held while open), `control-0` and `control-1` (the last checkpoint), `log/`, `data`,
//! `doublewrite`. With durability `memory` nothing but the lock and a control file that says so.

#![forbid(unsafe_code)]

mod active;
mod ahead;
mod analysis;
mod catalog;
mod check;
mod checkpoint;
mod clustered;
mod control;
mod ddl;
mod definition;
mod division;
mod end;
mod fault;
mod finding;
mod housing;
mod joint;
mod kind;
mod load;
mod open;
mod redo;
mod repartition;
mod restart;
mod rows;
mod scan;
mod touched;
mod txn;

pub use access::Moved;
pub use ahead::Ahead;
pub use catalog::Table;
pub use check::{CheckReport, TableReport, Watch, scan_files};
pub use checkpoint::CheckpointRun;
pub use definition::{HeapForm, TreeKind};
pub use division::{Division, Reach, Writers};
pub use end::NoteId;
pub use fault::StoreFault;
pub use finding::{Finding, Weight};
pub use housing::Divided;
pub use load::{Loaded, Loader};
pub use open::{Store, StoreOptions, expect_database};
pub use restart::{InDoubt, Recovered};
pub use rows::{DeleteOutcome, Entries, InsertOutcome, UpdateOutcome};
pub use scan::ChunkEnd;
pub use touched::{Change, Touched};
pub use txn::{Savepoint, Txn};

/// The data file's name within a data folder.
pub(crate) const DATA: &str = "data";
