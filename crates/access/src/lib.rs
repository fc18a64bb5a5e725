//! The access methods: B+tree and heap, with their log records, redo and undo.
//!
//! An operation takes a page pool, a [`Journal`] for its log records, and a latch policy as a type
//! parameter. It either succeeds or returns `Err(Stop)`. After `Err(Stop)` nothing that the caller
//! can see has changed: the caller loads the page that the stop names and calls again. No operation
//! waits for I/O, for a lock or for another transaction.
//!
//! This crate knows page layouts, the pages that an operation must latch and the order of those
//! latches, and the log record of each change. It does not know transactions, locks, schemas, the
//! meaning of keys and rows, or durability.
//!
//! - [`BTree`]: byte-string keys to values of up to a quarter page (row addresses, or the rows of a
//!   clustered table), in order, with scans in both directions. A tree may be multi-rooted
//!   ([`RootMap`]): each sub-tree holds a range of the keys, and sub-trees are split and merged.
//! - [`Heap`]: rows that keep their address, up to [`MAX_ROW`] bytes long. The caller may name the
//!   pages for new rows ([`Heap::among`]), so that pages can be divided among owners.
//! - [`Journal`]: the interface through which an operation logs. [`Kind`] and [`each_page`] tell
//!   restart's bookkeeping which pages a record concerns.
//! - [`pages_below`], [`log_freed`]: the removal of a whole tree or heap.
//! - [`redo`], [`redo_page`], [`undo`]: repeat a record (on all its pages or on one) and take it
//!   back.
//! - [`check_kind`]: whether a page is one of this crate's.

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
    Heap, HeapFiller, HeapFlaw, HeapModify, HeapPlace, HeapReport, HeapUpdate, InsertPages, MAX_ROW, Moves,
    PageSummary, fits_page,
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
