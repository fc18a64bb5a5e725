//! Undo: takes back the change that a log record describes.
//!
//! Index entries are undone by key, because another transaction may have split or merged the leaf
//! since: the entry may lie on another page. Rows are undone in their slot, because a slot is given
//! to no other row before the transaction ends.

use crate::bytes::Garbled;
use crate::page::bad_record;
use crate::record::{Change, Record};
use crate::tree::{Expect, TreeDelete, TreeInsert, TreeReplace};
use crate::{BTree, Journal, heap};
use base::TableId;
use latch::{LatchPolicy, Policies};
use pages::{Pool, Stop};
use wal::RecordHeader;

/// The role of a tree in its table: the two may have different latch policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeRole {
    Primary,
    Secondary,
}

/// Undoes one record of a transaction that is rolled back, by the inverse operation. The inverse is
/// logged through `journal`, of which [`Journal::undoable`] writes compensation records. Records
/// without undo (structure modifications, compensations) have no effect. `trees` gives an index by
/// its id; heaps are not looked up.
///
/// # Errors
/// [`Stop`]: this record is not undone yet; call again. [`Stop::Fault`] when the data contradicts
/// the record.
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

/// `false` when the tree does not hold the entry or value that the change left there.
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
