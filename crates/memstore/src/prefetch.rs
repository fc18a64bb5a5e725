//! Look-ups in advance: rows that a transaction is about to read, looked up side by side before it
//! reads them ([`Worker::prefetch`]). The results stay with the transaction, and the operations
//! that follow take them in the same order. They are hints (`hints`), not part of the read set: an
//! operation that takes one first checks that it is the row.
//!
//! And prefetch for a transaction that has not begun ([`PrefetchList`]), in two steps with other
//! transactions in between. The first step prefetches the hints, the second the rows that they
//! name. So the second does not wait for the memory that the first asked for. The only result is
//! that the lines are in the caches.

use crate::arena::Ref;
use crate::batched_lookup::LANES;
use crate::hints::Hash;
use crate::index::{Found, Index};
use crate::prefetched::PrefetchedRow;
use crate::row;
use crate::store::{LookAhead, Refused};
use crate::transaction::Txn;
use crate::worker::Worker;
use base::TableId;

/// The rows that a future transaction will read, by the hash of their hints.
#[derive(Default)]
pub struct PrefetchList(Vec<Hash>);

/// The largest distance of the last key from the first at which keys are taken to lie in one leaf,
/// or in two. That holds if most numbers have a row.
const TOGETHER: u64 = 32;

/// Whether two keys begin alike and end with numbers that are close to each other.
fn lie_together(first: &[u8], last: &[u8]) -> bool {
    let Some(((one, a), (other, b))) = first.split_last_chunk::<8>().zip(last.split_last_chunk::<8>()) else {
        return false;
    };
    one == other && u64::from_be_bytes(*b).wrapping_sub(u64::from_be_bytes(*a)) < TOGETHER
}

impl Worker {
    /// Prefetches the hint of a row that a future transaction will read.
    #[inline]
    pub fn prefetch_hint(&self, wanted: &mut PrefetchList, table: TableId, key: &[u8]) {
        if self.store.look_ahead == LookAhead::Batched {
            let hash = Hash::of(table, key);
            self.store.hints.prefetch(hash);
            wanted.0.push(hash);
        }
    }

    /// Prefetches the rows that the hints of `wanted` name, and empties `wanted`.
    #[inline]
    pub fn prefetch_rows(&self, wanted: &mut PrefetchList) {
        let (arena, hints) = (&self.store.arena, &self.store.hints);
        for hash in wanted.0.drain(..) {
            hints.candidate(hash).inspect(|row| row::prefetch_row(arena, *row));
        }
    }

    /// Announces the rows of a table that the transaction will read next, in this order. They are
    /// looked up side by side, and prefetched. This is a hint: the transaction has not read them
    /// yet, and other operations may come in between.
    ///
    /// # Errors
    /// [`Refused::NoTable`].
    #[inline]
    pub fn prefetch(
        &mut self,
        txn: &mut Txn,
        table: TableId,
        keys: &[impl AsRef<[u8]>],
    ) -> Result<(), Refused> {
        let index = self.store.index(table)?;
        // A single row has no other look-up to overlap with.
        if self.store.look_ahead == LookAhead::Never || keys.len() < 2 {
            return Ok(());
        }
        let (arena, hints) = (&self.store.arena, &self.store.hints);
        for keys in keys.chunks(LANES) {
            let prefetched = &mut txn.prefetched;
            let first = prefetched.seen.len();
            for key in keys {
                let hash = Hash::of(table, key.as_ref());
                hints.prefetch(hash);
                prefetched.seen.push(PrefetchedRow { hash, row: None });
            }
            let asked = &mut prefetched.seen[first..];
            let (mut missing, mut count) = ([0; LANES], 0);
            for (i, asked) in asked.iter_mut().enumerate() {
                asked.row = hints.candidate(asked.hash).inspect(|row| row::prefetch_row(arena, *row));
                if asked.row.is_none() {
                    missing[count] = i;
                    count += 1;
                }
            }
            if count > 1 && lie_together(keys[missing[0]].as_ref(), keys[missing[count - 1]].as_ref()) {
                // Most of them are in the leaf of the first, like the lines of an order. They are
                // quickly found there again, so they take no hints from other rows.
                let leaf = index.find(arena, keys[missing[0]].as_ref()).seen.leaf;
                txn.near = (table, Some(leaf));
                let all = missing;
                let sought = std::mem::take(&mut count);
                for &i in &all[..sought] {
                    asked[i].row = index.find_in(arena, leaf, keys[i].as_ref());
                    match asked[i].row {
                        Some(row) => row::prefetch_row(arena, row),
                        None => {
                            missing[count] = i;
                            count += 1;
                        }
                    }
                }
            }
            let mut take = |i: usize, found: Found| {
                let (Some(row), asked) = (found.row, &mut asked[i]) else { return };
                row::prefetch_row(arena, row);
                hints.enter(asked.hash, row, arena.used_bytes());
                asked.row = Some(row);
            };
            match missing[..count] {
                [] => {}
                [i] => take(i, index.find(arena, keys[i].as_ref())),
                _ => {
                    let wanted = missing.map(|i| keys[i].as_ref());
                    index.find_batch(arena, &wanted[..count], |n, found| take(missing[n], found));
                }
            }
        }
        Ok(())
    }

    /// As [`Worker::find`] for many keys side by side: the number of keys that the index has.
    ///
    /// # Errors
    /// [`Refused::NoTable`].
    pub fn find_many(&mut self, table: TableId, keys: &[impl AsRef<[u8]>]) -> Result<usize, Refused> {
        let reading = self.own.reading.add(&self.store.epochs, self.number);
        let mut count = 0;
        let index = self.store.index(table).map(|index| {
            for keys in keys.chunks(LANES) {
                count += self.count_found(table, index, keys);
            }
        });
        self.own.reading.remove(&self.store.epochs, self.number, reading);
        index.map(|()| count)
    }

    fn count_found(&self, table: TableId, index: &Index, keys: &[impl AsRef<[u8]>]) -> usize {
        let (arena, hints) = (&self.store.arena, &self.store.hints);
        let mut asked = [(Hash::default(), None); LANES];
        for ((hash, _), key) in asked.iter_mut().zip(keys) {
            *hash = Hash::of(table, key.as_ref());
            hints.prefetch(*hash);
        }
        for (hash, row) in &mut asked[..keys.len()] {
            *row = hints.candidate(*hash).inspect(|row| row::prefetch_row(arena, *row));
        }
        let is_there = |((_, row), key): (&(Hash, Option<Ref>), _)| {
            row.is_some_and(|row| row::is_of(arena, row, table, AsRef::<[u8]>::as_ref(key)))
        };
        let hinted = asked.iter().zip(keys).filter(|one| is_there(*one)).count();
        if hinted == keys.len() {
            return hinted;
        }
        let mut count = 0;
        index.find_batch(arena, keys, |i, found| {
            let Some(row) = found.row else { return };
            count += 1;
            hints.enter(asked[i].0, row, arena.used_bytes());
        });
        count
    }
}
