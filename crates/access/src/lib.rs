//! The access methods: B+tree and heap, with their log records, redo and undo.
//!
//! A request enters with a page pool, a [`Journal`] to write the log through, and a latch policy as type parameter; it
//! either succeeds, or is `Err(Stop)` and has changed nothing its caller could see: the caller loads the page it names
//! and calls again. Nothing here waits for I/O, for a lock or for another transaction.
//!
//! What this room knows: page layouts, which pages an operation must latch and in which order, what to log.
//! What it does not know: transactions, locks, schemas, what keys and rows mean, when anything is durable.
//!
//! - [`BTree`]: byte-string keys to values of up to a quarter page (row addresses, or the rows of a clustered table), in
//!   order, with scans in both directions.
//!   It may be multi-rooted ([`RootMap`]): sub-trees with ranges of the keys, which are split and merged.
//! - [`Heap`]: rows that keep their address, up to [`MAX_ROW`] bytes long; where they go may be said from above ([`Heap::among`]), so
//!   that pages can be divided among owners.
//! - [`Journal`]: how an operation logs; [`Kind`] and [`each_page`]: what the records say, for restart's bookkeeping.
//! - [`pages_below`], [`log_freed`]: taking a whole tree or heap away.
//! - [`redo`], [`redo_page`], [`undo`]: a record done again (on one page of those it changes), and taken back.
//! - [`check_kind`]: whether a page is one of this room's.

#![forbid(unsafe_code)]

mod bytes;
mod heap;
mod journal;
mod page;
mod record;
mod redo;
mod removal;
mod tree;
mod undo;

pub use heap::{
    Heap, HeapFiller, HeapFlaw, HeapModify, HeapPlace, HeapReport, HeapUpdate, Housed, InsertPages, MAX_ROW,
    Moves, fits_page,
};
pub use journal::Journal;
pub use page::check_kind;
pub use record::{Kind, PageUse, each_page, entry_of};
pub use redo::{redo, redo_page};
pub use removal::{Below, log_freed, pages_below};
pub use tree::{
    Around, BTree, ChunkEnd, Direction, Expect, LANES, Loaded, Moved, RootMap, Sight, TreeDelete, TreeFlaw,
    TreeInsert, TreeModify, TreeReplace, TreeReport,
};
pub use undo::{TreeRole, undo};

#[cfg(test)]
mod testing;
