//! The main-memory store: rows in memory under ordered indexes, and transactions by optimistic concurrency control
//! (Silo: Tu et al., SOSP 2013). Serialisable. Works on bytes: knows no columns, no procedures, no instances; shares nothing
//! with the disk-based store's pages, log and locks.
//!
//! A worker begins a transaction ([`Worker::begin`]) and carries out its operations ([`Worker::read`], `update`, `insert`,
//! `append`, `delete`, `scan`), which note what they saw and buffer what they write; [`Worker::commit`] locks, validates
//! and writes. Two-phase commit takes that apart into [`Worker::pre_commit`] or [`Worker::prepare`], and
//! [`Worker::post_commit`]. Nothing blocks a worker for longer than some microseconds, unless it logs faster than the device
//! writes: a row that another transaction has prepared, or a hot row that others are before at ([`Contention`]), is a value, or
//! an abort ([`Refused::Busy`], [`Conflict`]).
//! [`Worker::open_snapshot`] reads the recent past. A secondary index is another table, whose rows are primary keys.
//!
//! Read: addresses and blocks (`arena`), when memory is used again (`epoch`, `pins`), the index (`version`, `head`, `node`,
//! `index`; many keys at once: `abreast`), rows and their words (`life`, `tid`, `row`), what is shared (`store`), a transaction
//! (`transaction`), its operations (`worker`, of many rows `scan`), where rows were found (`hints`), what is looked up
//! beforehand (`ahead`), its commit (`commit`; over several stores: `guard`; at hot rows: `hot`, `turn`), the past (`snapshot`); then what outlives the process: the log (`log`),
//! what transactions say to it (`prepared`), checkpoints (`checkpoint`), and how a store is opened from them (`recover`).
//!
//! A store that [`Memstore::open_in`] opened keeps what was committed: [`Committed::epoch`] is what to wait for
//! ([`Memstore::poll_durable`]) before anybody is told. A transaction's id is from an epoch that was read after its locks; so a log cut
//! at the end of an epoch holds whole transactions and all that they read.

#![forbid(unsafe_code)]

mod abreast;
mod ahead;
mod arena;
mod checkpoint;
mod commit;
mod epoch;
mod guard;
mod head;
mod hints;
mod hot;
mod index;
mod life;
mod log;
mod node;
mod pins;
mod planted;
mod prepared;
mod recover;
mod row;
mod scan;
mod snapshot;
mod split;
mod store;
mod sync;
mod tid;
mod transaction;
mod turn;
mod version;
mod worker;

pub use ahead::Wanted;
pub use commit::{Committed, Refusal, Scope, Tid};
pub use log::{Durability, LogFault, LogOptions, LogStats, Urge};
pub use prepared::{InDoubt, NoteId};
pub use recover::{Recovered, Replayed, expect_files};
pub use row::{MAX_KEY, MAX_ROW};
pub use snapshot::Snapshot;
pub use store::{Cause, Conflict, Contention, LookAhead, Memstore, OpenError, Options, Refused, RowId};
pub use transaction::Txn;
pub use worker::Worker;

#[cfg(test)]
mod absent_tests;
#[cfg(test)]
mod change_tests;
#[cfg(test)]
mod checkpoint_tests;
#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod distributed;
#[cfg(test)]
mod durable_tests;
#[cfg(test)]
mod ending_tests;
#[cfg(test)]
mod garbage_tests;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod index_tests;
#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod models;
#[cfg(test)]
mod reopen_tests;
#[cfg(test)]
mod scripts;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod stable_tests;
#[cfg(test)]
mod write_tests;
