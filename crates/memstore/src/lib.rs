//! The main-memory store: rows in memory under ordered indexes, and serialisable transactions by
//! optimistic concurrency control (Silo: Tu et al., SOSP 2013). The store works on bytes. It knows
//! no columns, no procedures and no instances, and shares nothing with the pages, log and locks of
//! the disk-based store.
//!
//! A worker begins a transaction ([`Worker::begin`]) and carries out its operations
//! ([`Worker::read`], `update`, `insert`, `append`, `delete`, `scan`). An operation notes the
//! versions it saw and buffers its writes; [`Worker::commit`] locks, validates and writes.
//! Two-phase commit takes that apart into [`Worker::pre_commit`] or [`Worker::prepare`], and
//! [`Worker::post_commit`].
//!
//! A call blocks a worker for some microseconds at most, unless the worker logs faster than the
//! device writes. A row that another transaction has prepared, or a hot row with other transactions
//! ahead in its queue ([`Contention`]), is returned as a value or as an abort ([`Refused::Busy`],
//! [`Conflict`]). [`Worker::open_snapshot`] reads the recent past. A secondary index is another
//! table: its rows hold primary keys.
//!
//! Modules, in reading order:
//!
//! - memory: addresses and blocks (`arena`); when memory may be used again (`epoch`, `pins`)
//! - the index: `version`, `head`, `node`, `index`; batched look-up (`batched_lookup`)
//! - rows and their words: `life`, `tid`, `row`
//! - shared state: `store`
//! - a transaction (`transaction`) and its operations (`worker`; over many rows `scan`)
//! - look-ups without the index: the places where rows were found (`hints`), prefetch (`prefetch`)
//! - its commit: `commit`; over several stores `read_reservation`; at hot rows `hot`, `turn`
//! - the past: `snapshot`
//! - durability: the log (`log`), the records that transactions write to it (`prepared`),
//!   checkpoints (`checkpoint`), and opening a store from them (`recover`)
//!
//! A store that [`Memstore::open_in`] opened keeps its commits. A caller may reply once the epoch
//! [`Committed::epoch`] is durable ([`Memstore::poll_durable`]). A transaction takes its id from an
//! epoch that it read after it had locked its writes. So a log cut at the end of an epoch holds
//! whole transactions, and every transaction that they read from.

#![forbid(unsafe_code)]

mod arena;
mod batched_lookup;
mod checkpoint;
mod commit;
mod epoch;
mod garbage;
mod head;
mod hints;
mod hot;
mod index;
mod left;
mod life;
mod log;
mod node;
mod pins;
mod prefetch;
mod prefetched;
mod prepared;
mod read_reservation;
mod recover;
mod row;
mod scan;
mod seams;
mod snapshot;
mod store;
mod sync;
mod tid;
mod transaction;
mod turn;
mod version;
mod worker;

pub use commit::{Committed, NoteId, Refusal, Scope, Tid};
pub use log::{Durability, FlushBy, LogFault, LogOptions, LogStats};
pub use prefetch::PrefetchList;
pub use prepared::InDoubt;
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
mod full_tests;
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
mod script_tests;
#[cfg(test)]
mod split_tests;
#[cfg(test)]
mod stable_tests;
#[cfg(test)]
mod write_tests;
