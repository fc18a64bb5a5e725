//! How an operation writes the log without knowing transactions.

use base::{Lsn, TableId};
use wal::LogOrder;

/// Implemented by `store`'s transaction, and by its rollback, where the same operations write
/// compensation records. Kinds and bodies are defined by this crate, see [`Kind`](crate::Kind); the
/// journal stores them unchanged.
///
/// The caller holds the latches of all changed pages during each call. So an implementation must
/// not touch pages, and it must wait for nothing except room in the log buffer. The returned LSN is
/// the **end** of the record and becomes the LSN of the changed pages: a page may be written out
/// once the log is durable up to its LSN. [`redo`](crate::redo) must be given the same value.
///
/// Workers may append their records in an order other than the order of the changes, so each record
/// names the LSN that it must come after. A change of one page comes after that page's own LSN. A
/// record that also depends on other pages, or on which pages are free, comes [`LogOrder::Last`].
pub trait Journal {
    /// A record with redo and undo, on behalf of the transaction. When the journal belongs to a
    /// rollback, it is a compensation record (redo only). `after` is the LSN of the page that the
    /// record changes.
    fn undoable(&mut self, kind: u8, after: Lsn, body: &[&[u8]]) -> Lsn;

    /// A redo-only record that stays even if the transaction rolls back: structure modifications,
    /// free space.
    fn system(&mut self, kind: u8, order: LogOrder, body: &[&[u8]]) -> Lsn;

    /// A leaf of tree `tree` was split, or the entries of two neighbours were dealt out anew; the
    /// right leaf begins at `separator`. A journal that keeps rows together by the leaf that leads
    /// to them implements this; other journals ignore it.
    fn parted(&mut self, _tree: TableId, _separator: &[u8]) {}

    /// The number of the worker that runs this. It spreads heap inserts over pages; it is only a
    /// hint, and any number is correct.
    fn worker(&self) -> usize;
}
