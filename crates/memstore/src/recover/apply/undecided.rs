//! The transactions that were prepared and not decided: their rows are locked again, and the
//! rows and leaves that they have read are reserved again.

use super::{Entered, Loader, Trouble};
use crate::arena::{Arena, Ref};
use crate::index::{Chunk, Index, Seek};
use crate::log::{Changes, Left, LogFault, Read, Reads, Undecided};
use crate::node::Node;
use crate::read_reservation;
use crate::recover::Stop;
use crate::row::{self, Keep, Touched};
use crate::tid::{ABSENT, LOCKED, PREPARED};
use crate::transaction::{Txn, Value};
use base::TableId;
use std::rc::Rc;
use std::sync::atomic::Ordering;

impl Loader<'_> {
    /// Locks the rows of an undecided transaction. Rows that it would insert are entered first.
    pub(in crate::recover) fn lock_undecided(&mut self, undecided: &Undecided) -> Result<Box<Txn>, Stop> {
        let store = Rc::clone(&self.worker.store);
        let mut txn = Box::<Txn>::default();
        let mut writes = Changes::of(&undecided.writes);
        while let Some(change) = writes.next().map_err(|m| self.in_control(m.into()))? {
            let table = TableId(change.table);
            let index = store.index(table).map_err(|_| self.in_control(Trouble::Malformed))?;
            let value = match change.value {
                Left::Absent => None,
                Left::Whole(value) => Some(value),
                // The writes of a prepare record are whole.
                Left::Part { .. } => return Err(self.in_control(Trouble::Malformed)),
            };
            let len = value.map_or(0, <[u8]>::len);
            let (row, entered) = self.row(&store.arena, (table, index), change.key, len)?;
            if entered == Entered::Now {
                txn.entered.push((table, row, ABSENT));
            }
            let value = value.map_or(Value::Absent, |bytes| {
                let value = txn.value();
                txn.values[value].extend_from_slice(bytes);
                Value::New(value as u32)
            });
            let word = row::tid(&store.arena, row);
            let before = word.load(Ordering::Acquire);
            if before & LOCKED != 0 {
                let what = "expected no two transactions in doubt to have written one row";
                return Err(LogFault::corrupt(&self.source.dir.join("control"), 0, what).into());
            }
            word.store(before | LOCKED | PREPARED, Ordering::Release);
            txn.write(table, row, value, Touched::ALL, before);
            // There is no snapshot yet that could need the overwritten version.
            let prepared = row::prepare(&store.arena, &mut self.worker.own.local, row, len, Keep::Nothing)?;
            if let Some(write) = txn.writes.last_mut() {
                (write.before, write.prepared) = (before, prepared);
            }
        }
        txn.sort_writes();
        Ok(txn)
    }

    /// Adds the read reservations of an undecided transaction. All such transactions must have
    /// entered their rows before: from here on no row can be entered there.
    pub(in crate::recover) fn reserve_undecided(
        &self,
        txn: &mut Txn,
        undecided: &Undecided,
    ) -> Result<(), Stop> {
        let store = &self.worker.store;
        let (mut rows, mut leaves) = (Vec::new(), Vec::new());
        let mut reads = Reads::of(&undecided.reads);
        while let Some((table, read)) = reads.next().map_err(|m| self.in_control(m.into()))? {
            let index = store.index(TableId(table)).map_err(|_| self.in_control(Trouble::Malformed))?;
            match read {
                Read::Key(key) => {
                    let found = index.find(&store.arena, key);
                    match found.row {
                        Some(row) if txn.own(row).is_some() => {}
                        Some(row) => rows.push(row),
                        None => leaves.push(found.seen.leaf),
                    }
                }
                Read::Range(range) => leaves_of(index, &store.arena, range, &mut leaves),
            }
        }
        for list in [&mut rows, &mut leaves] {
            list.sort_unstable_by_key(|at| at.0);
            list.dedup();
        }
        rows.iter().for_each(|row| {
            read_reservation::enter(row::readers(&store.arena, *row), read_reservation::OF_ROW)
        });
        leaves.iter().for_each(|leaf| {
            read_reservation::enter(Node::at(&store.arena, *leaf).readers(), read_reservation::OF_LEAF)
        });
        txn.reserved = (rows, leaves);
        Ok(())
    }
}

/// The leaves with a part of a range of keys, both ends included.
fn leaves_of(index: &Index, arena: &Arena, range: txn::Range<'_>, leaves: &mut Vec<Ref>) {
    let until = range.high.map(|high| [high, &[0]].concat());
    let (mut from, mut chunk) = (range.low.map(<[u8]>::to_vec), Chunk::default());
    loop {
        index.chunk(arena, Seek::Up(from.as_deref()), until.as_deref(), &mut chunk);
        leaves.extend(chunk.seen.map(|seen| seen.leaf));
        match chunk.next.take() {
            Some(next) => from = Some(next),
            None => return,
        }
    }
}
