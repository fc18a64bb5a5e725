//! How an operation writes the log without knowing what a transaction is.

use base::{Lsn, TableId};
use wal::Order;

/// Implemented by `store`'s transaction (and by its rollback, where the same operations write compensation
/// records). Kinds and bodies are this crate's own, see [`Kind`](crate::Kind); the journal keeps them as they are.
///
/// Called with the latches of all changed pages held, so an implementation must not touch pages and must not wait
/// for anything but room in the log buffer. The lsn returned becomes the pages' lsn: it is the record's **end**, so
/// that a page may be written out once the log is durable up to its lsn, and [`redo`](crate::redo) must be
/// given the same value.
///
/// Records of several workers may lie in the log in another order than they were written in time, so each says what it
/// must come after. A change of one page comes after the page's own lsn; what also depends on other pages, or on which
/// pages are free, comes [`Order::Last`].
pub trait Journal {
    /// A record with redo and undo, on behalf of the transaction; a compensation record (redo only) when the
    /// journal belongs to a rollback. `after` is the lsn of the page it changes.
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn;

    /// A redo-only record that stays whatever becomes of the transaction: structure modifications, free space.
    fn system(&mut self, kind: u8, order: Order, body: &[&[u8]]) -> Lsn;

    /// A leaf of tree `tree` has become two, or what two neighbours hold was dealt out anew: the right one begins at `separator`. For
    /// whoever keeps rows together by the leaf that leads to them; the others need not know.
    fn parted(&mut self, _tree: TableId, _separator: &[u8]) {}

    /// Which worker runs this: spreads heap inserts over pages. A hint, any number serves.
    fn worker(&self) -> usize;
}
