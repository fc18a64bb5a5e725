//! The main-memory store: rows in memory under ordered indexes, and transactions by optimistic concurrency control
//! (Silo: Tu et al., SOSP 2013). Serialisable. Works on bytes: knows no columns, no procedures, no instances; shares nothing
//! with the disk-based store's pages, log and locks.
//!
//! A worker begins a transaction ([`Worker::begin`]) and carries out its operations ([`Worker::read`], `update`, `insert`,
//! `append`, `delete`, `scan`), which note what they saw and buffer what they write; [`Worker::commit`] locks, validates
//! and writes. Two-phase commit takes that apart into [`Worker::pre_commit`] and [`Worker::post_commit`]. Nothing
//! blocks a worker for longer than some microseconds: a row that another transaction has prepared, or a hot row that others
//! are before at ([`Contention`]), is a value, or an abort ([`Refused::Busy`], [`Conflict`]).
//! [`Worker::open_snapshot`] reads the recent past. A secondary index is another table, whose rows are primary keys.
//!
//! Read: addresses and blocks (`arena`), when memory is used again (`epoch`, `pins`), the index (`version`, `head`, `node`,
//! `index`; many keys at once: `abreast`), rows and their words (`tid`, `row`), what is shared (`store`), a transaction
//! (`transaction`), its operations (`worker`), what is looked up for them beforehand (`ahead`), its commit (`commit`; over
//! several stores: `guard`; where many fail: `hot`, `turn`), the past (`snapshot`).
//!
//! Not here: durability. What a log will need is in [`Worker::post_commit`]'s hands, at the one moment when it is certain and
//! not yet visible: of every write the table, the key, the value after it or that there is none, and the transaction's
//! [`Tid`], whose epoch was read after its locks; so a log cut at the end of an epoch holds whole transactions and all that they read.

#![forbid(unsafe_code)]

mod abreast;
mod ahead;
mod arena;
mod commit;
mod epoch;
mod guard;
mod head;
mod hot;
mod index;
mod node;
mod pins;
mod planted;
mod row;
mod snapshot;
mod store;
mod sync;
mod tid;
mod transaction;
mod turn;
mod version;
mod worker;

pub use commit::{Scope, Tid};
pub use row::{MAX_KEY, MAX_ROW};
pub use snapshot::Snapshot;
pub use store::{Cause, Conflict, Contention, LookAhead, Memstore, OpenError, Options, Refused, RowId};
pub use transaction::Txn;
pub use worker::Worker;

#[cfg(test)]
mod distributed;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod index_tests;
#[cfg(test)]
mod models;
#[cfg(test)]
mod scripts;
