//! Rows that a transaction is about to ask for, looked up side by side before it does ([`Worker::ahead`]). What was found is kept
//! with the transaction and taken by the operations that follow, in the same order. It is a hint (`hints`): no part of what the
//! transaction has read before it is taken, and asked then whether it is the row.
//!
//! And rows that a transaction to come will ask for ([`Wanted`]), in two turns with other transactions between them, so that nobody
//! waits for what the first one asks memory for: where the rows are; then the rows themselves. Nothing is kept of it but what has come
//! into the caches.

use crate::abreast::LANES;
use crate::arena::Ref;
use crate::hints::Hash;
use crate::index::{Found, Index};
use crate::row;
use crate::store::{LookAhead, Refused};
use crate::transaction::Txn;
use crate::worker::Worker;
use base::TableId;

/// What was found for one transaction.
#[derive(Default)]
pub(crate) struct Ahead {
    seen: Vec<Asked>,
    /// The first that was not asked for yet.
    next: usize,
}

struct Asked {
    hash: Hash,
    row: Option<Ref>,
}

impl Ahead {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.seen.clear();
        self.next = 0;
    }

    /// What was found of this key, if it is the next one and anything was.
    #[inline]
    pub(crate) fn take(&mut self, hash: Hash) -> Option<Ref> {
        let asked = self.seen.get(self.next).filter(|asked| asked.hash == hash)?;
        self.next += 1;
        asked.row
    }
}

/// The rows that a transaction to come will ask for, by what their hints are found under.
#[derive(Default)]
pub struct Wanted(Vec<Hash>);

/// Keys of which the last is at most this much behind the first lie in one leaf, or in two, if there is a row for most numbers.
const TOGETHER: u64 = 32;

/// Whether two keys end with numbers that are close to each other, and begin alike.
fn lie_together(first: &[u8], last: &[u8]) -> bool {
    let Some(((one, a), (other, b))) = first.split_last_chunk::<8>().zip(last.split_last_chunk::<8>()) else {
        return false;
    };
    one == other && u64::from_be_bytes(*b).wrapping_sub(u64::from_be_bytes(*a)) < TOGETHER
}

impl Worker {
    /// Asks memory for the hint of a row that a transaction to come will ask for.
    #[inline]
    pub fn want(&self, wanted: &mut Wanted, table: TableId, key: &[u8]) {
        if self.store.look_ahead == LookAhead::Abreast {
            let hash = Hash::of(table, key);
            self.store.hints.ask_for(hash);
            wanted.0.push(hash);
        }
    }

    /// Asks memory for the rows that the hints of all that is wanted name, and forgets what was wanted.
    #[inline]
    pub fn fetch(&self, wanted: &mut Wanted) {
        let (arena, hints) = (&self.store.arena, &self.store.hints);
        for hash in wanted.0.drain(..) {
            hints.candidate(hash).inspect(|row| row::ask_for(arena, *row));
        }
    }

    /// Says which rows of a table the transaction will ask for next, in this order: they are looked up side by side, and
    /// fetched. A hint: it reads nothing as far as the transaction is concerned, and other operations may come between.
    ///
    /// # Errors
    /// [`Refused::NoTable`].
    #[inline]
    pub fn ahead(&mut self, txn: &mut Txn, table: TableId, keys: &[impl AsRef<[u8]>]) -> Result<(), Refused> {
        let index = self.store.index(table)?;
        // A row alone has none to be looked up beside.
        if self.store.look_ahead == LookAhead::Never || keys.len() < 2 {
            return Ok(());
        }
        let (arena, hints) = (&self.store.arena, &self.store.hints);
        for keys in keys.chunks(LANES) {
            let ahead = &mut txn.ahead;
            let first = ahead.seen.len();
            for key in keys {
                let hash = Hash::of(table, key.as_ref());
                hints.ask_for(hash);
                ahead.seen.push(Asked { hash, row: None });
            }
            let asked = &mut ahead.seen[first..];
            let (mut missing, mut count) = ([0; LANES], 0);
            for (i, asked) in asked.iter_mut().enumerate() {
                asked.row = hints.candidate(asked.hash).inspect(|row| row::ask_for(arena, *row));
                if asked.row.is_none() {
                    missing[count] = i;
                    count += 1;
                }
            }
            if count > 1 && lie_together(keys[missing[0]].as_ref(), keys[missing[count - 1]].as_ref()) {
                // Most of them are in the leaf of the first, like the lines of an order. They are soon found again from one
                // another, so the hints are left to others.
                let leaf = index.find(arena, keys[missing[0]].as_ref()).seen.leaf;
                txn.near = (table, Some(leaf));
                let all = missing;
                let sought = std::mem::take(&mut count);
                for &i in &all[..sought] {
                    asked[i].row = index.find_in(arena, leaf, keys[i].as_ref());
                    match asked[i].row {
                        Some(row) => row::ask_for(arena, row),
                        None => {
                            missing[count] = i;
                            count += 1;
                        }
                    }
                }
            }
            let mut take = |i: usize, found: Found| {
                let (Some(row), asked) = (found.row, &mut asked[i]) else { return };
                row::ask_for(arena, row);
                hints.enter(asked.hash, row, arena.used_bytes());
                asked.row = Some(row);
            };
            match missing[..count] {
                [] => {}
                [i] => take(i, index.find(arena, keys[i].as_ref())),
                _ => {
                    let wanted = missing.map(|i| keys[i].as_ref());
                    index.find_abreast(arena, &wanted[..count], |n, found| take(missing[n], found));
                }
            }
        }
        Ok(())
    }

    /// As [`Worker::find`] for many keys side by side: how many the index has.
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
            hints.ask_for(*hash);
        }
        for (hash, row) in &mut asked[..keys.len()] {
            *row = hints.candidate(*hash).inspect(|row| row::ask_for(arena, *row));
        }
        let is_there = |((_, row), key): (&(Hash, Option<Ref>), _)| {
            row.is_some_and(|row| row::is_of(arena, row, table, AsRef::<[u8]>::as_ref(key)))
        };
        let hinted = asked.iter().zip(keys).filter(|one| is_there(*one)).count();
        if hinted == keys.len() {
            return hinted;
        }
        let mut count = 0;
        index.find_abreast(arena, keys, |i, found| {
            let Some(row) = found.row else { return };
            count += 1;
            hints.enter(asked[i].0, row, arena.used_bytes());
        });
        count
    }
}
