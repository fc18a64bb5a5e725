//! Taking back what a log record says was done.
//!
//! Index entries are taken back by key, wherever the key lies by now: other transactions may have split or merged the
//! leaf since. Rows are taken back in their slot: a slot is not given to anyone else before the transaction ends.

use crate::bytes::Garbled;
use crate::page::bad_record;
use crate::record::{Change, Record};
use crate::tree::{Expect, TreeDelete, TreeInsert, TreeReplace};
use crate::{BTree, Journal, heap};
use base::TableId;
use latch::{LatchPolicy, Policies};
use pages::{Pool, Stop};
use wal::RecordHeader;

/// Which of a table's trees one is: they may be protected differently.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeRole {
    Primary,
    Secondary,
}

/// Undoes one record of a transaction that is rolled back, by the inverse operation, logged through `journal`,
/// whose [`Journal::undoable`] writes compensation records. Records that have no undo (structure modifications,
/// compensations) do nothing. `trees` gives an index by its id; heaps need
/// none.
///
/// # Errors
/// [`Stop`]: this record is not undone yet; call again. [`Stop::Fault`] when the data contradicts the record.
pub fn undo<'p, P: Policies>(
    pool: &'p Pool,
    journal: &mut impl Journal,
    trees: &dyn Fn(TableId) -> Option<(BTree<'p>, TreeRole)>,
    header: &RecordHeader,
    body: &[u8],
) -> Result<(), Stop> {
    let bad = |why| bad_record(header.kind, why);
    if header.is_clr() {
        return Ok(());
    }
    let record = Record::decode(header.kind, body).map_err(|Garbled| bad("is malformed"))?;
    let Record::One { page, owner, change } = record else { return Ok(()) };
    if !change.is_of_tree() {
        return heap::compensate::<P::Heap>(pool, journal, owner, page, change);
    }
    let fits = match trees(owner).ok_or_else(|| bad("is about an index the catalog does not have"))? {
        (tree, TreeRole::Primary) => undo_entry::<P::Index>(tree, journal, change)?,
        (tree, TreeRole::Secondary) => undo_entry::<P::Secondary>(tree, journal, change)?,
    };
    if fits { Ok(()) } else { Err(bad("cannot be undone: the index does not hold what it left there")) }
}

/// `false` when the tree does not have what the change left.
fn undo_entry<L: LatchPolicy>(
    tree: BTree<'_>,
    journal: &mut impl Journal,
    change: Change<'_>,
) -> Result<bool, Stop> {
    Ok(match change {
        Change::TreeInsert { key, .. } => {
            matches!(tree.delete::<L>(journal, key, Expect::Any)?, TreeDelete::Done(_))
        }
        Change::TreeDelete { key, value } => {
            tree.insert::<L>(journal, key, value, Expect::Any)? == TreeInsert::Done
        }
        Change::TreeReplace { key, old, .. } => {
            matches!(tree.replace::<L>(journal, key, old)?, TreeReplace::Done(_))
        }
        Change::TreeUpdate { key, at, old, new } => tree.splice::<L>(journal, key, at, new, old)?,
        _ => false,
    })
}
