//! The store of the disk-based engines: durable tables, changed by atomic transactions.
//!
//! The access methods (`access`) know pages and keys. This crate combines their operations into
//! transactions:
//!
//! - It keeps a table's primary tree, secondary trees and heap consistent. The rows of a clustered
//!   table lie in the primary tree itself.
//! - It chains the log records of a transaction and remembers how to undo them.
//! - It commits, prepares, rolls back and takes checkpoints. After a crash, restart keeps every
//!   commit that was reported, rolls unfinished transactions back and hands out the prepared ones.
//!
//! **How a request enters.** [`Store::begin`] starts a [`Txn`]. Record operations ([`Store::get`],
//! [`Store::update`], ...) write log records and remember them for undo. [`Store::commit`] appends
//! the commit record and returns the log position that the caller must wait for. An operation does
//! not wait for pages before its first change: if a page is absent, the operation has changed
//! nothing and returns the page in [`pages::Stop`]. The caller awaits [`Store::page`] (or blocks in
//! [`Store::load_page`]) and calls the operation again.
//!
//! **Restart on demand.** Redo of a page waits until the page is read. [`Store::redo_some`] reads
//! such pages between transactions.
//!
//! **Branches.** A transaction may consist of branches, one for each worker that runs a part of it.
//! [`Store::commit_together`] ends all branches with one record.
//!
//! **Savepoints and schema.** [`Store::rollback_to`] undoes a transaction back to a savepoint.
//! [`Store::create_table`], [`Store::create_index`] and their opposites change the schema as part
//! of a transaction.
//!
//! **Partitions.** Trees may be multi-rooted ([`TreeKind`]). Their partitions are split and merged
//! ([`Store::split_partition`], [`Store::merge_partition`]) and may have owners
//! ([`Store::own_partition`]) while transactions run.
//!
//! **Row placement.** Heap pages may be divided among the partitions, or among the leaves, of a
//! table's primary tree ([`HeapForm`]). The worker that changes such a page may then own it
//! ([`Store::have_owners`]). Rows that share a page with rows of another partition or leaf are
//! moved ([`Store::settle_rows`], [`Store::divide_rows`], and in pieces [`Store::begin_division`]).
//!
//! The store knows nothing of locks (the caller isolates transactions), partitioning decisions,
//! placement of workers, channels or two-phase commit. A *prepared* transaction is one that is
//! decided elsewhere. A *note* is a sequence of bytes that survives crashes until it is forgotten.
//!
//! **Files.** A data folder contains `lock` (held while the store is open), `control-0` and
//! `control-1` (the last checkpoint), `log/`, `data` and `doublewrite`. With durability `memory` it
//! contains only the lock and a control file that records the durability.
//!
//! **Folders.** A file imports from its own folder and from those below it in this drawing, and no
//! files import each other in a loop. The methods of [`Store`] are written in all folders, and call
//! each other across them: a rollback refreshes the catalog, and an insert asks for the placement.
//!
//! ```text
//!   check        is the whole database sound?
//!   restart      opening, recovery, redo on demand, checkpoints
//!   placement    which heap page a row lies in; partitions
//!   ddl          create and drop tables and indexes
//!   rows         read, change and scan rows; batched look-up; loading
//!   txn          begin, commit, prepare, rollback; savepoints; notes
//!   state        the value `Store` and its parts: running transactions, control file, redo
//!   catalog      tables, indexes and their definitions
//!   fault, kind
//! ```

#![forbid(unsafe_code)]

mod catalog;
mod check;
mod ddl;
mod fault;
mod kind;
mod placement;
mod restart;
mod rows;
mod state;
mod txn;

pub use access::Moved;
pub use catalog::definition::{HeapForm, TreeKind};
pub use catalog::tables::Table;
pub use check::consistency::{CheckProgress, CheckReport, TableReport, scan_files};
pub use check::finding::{Finding, Weight};
pub use fault::StoreFault;
pub use placement::division::{Division, Reach};
pub use placement::row_placement::{Divided, Writers};
pub use restart::checkpoint::CheckpointRun;
pub use restart::open::{StoreOptions, expect_database};
pub use restart::recovery::{InDoubt, Recovered};
pub use rows::load::{Loaded, Loader};
pub use rows::prefetch::Prefetched;
pub use rows::row::{DeleteOutcome, Entries, InsertOutcome, UpdateOutcome};
pub use rows::scan::ChunkEnd;
pub use state::store::Store;
pub use txn::chain::{Savepoint, Txn};
pub use txn::end::NoteId;
pub use txn::touched::{KeyChange, Touched};

/// The name of the data file within a data folder.
pub(crate) const DATA: &str = "data";
