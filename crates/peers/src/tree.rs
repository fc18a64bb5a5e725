//! A `BTreeMap` behind a mutex: serialisable because one transaction runs at a time, and as fast as one thread gets with
//! an ordered map that everybody has.
//!
//! It is given every advantage: integer keys, rows changed in place, no copy kept to roll back with. The mutex is held from
//! begin to commit.

use crate::fault::PeerFault;
use crate::peer::{Peer, PeerTxn};
use crate::redo::Redo;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard};
use txn::{Flow, Inserted};

pub struct Tree(Mutex<State>);

struct State {
    rows: BTreeMap<u64, Vec<u8>>,
    redo: Option<Redo>,
}

impl Tree {
    pub fn new(redo: Option<Redo>) -> Tree {
        Tree(Mutex::new(State { rows: BTreeMap::new(), redo }))
    }
}

impl Peer for Tree {
    type Txn<'a> = TreeTxn<'a>;

    fn begin(&mut self) -> Result<TreeTxn<'_>, PeerFault> {
        self.0.lock().map(TreeTxn).map_err(|_| PeerFault::Panicked("the tree".into()))
    }
}

/// The whole tree, locked.
pub struct TreeTxn<'a>(MutexGuard<'a, State>);

/// Keys of 8 bytes compare as the big-endian number that they spell.
fn number(key: &[u8]) -> Result<u64, PeerFault> {
    let bytes = key.try_into().map_err(|_| PeerFault::Engine {
        engine: "tree",
        what: format!("a key of {} bytes, expected 8", key.len()),
    });
    bytes.map(u64::from_be_bytes)
}

impl PeerTxn for TreeTxn<'_> {
    fn read<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PeerFault> {
        Ok(self.0.rows.get(&number(key)?).map(|row| f(row)))
    }

    fn update<R>(&mut self, key: &[u8], f: impl FnOnce(&mut Vec<u8>) -> R) -> Result<Option<R>, PeerFault> {
        let key = number(key)?;
        let State { rows, redo } = &mut *self.0;
        let Some(row) = rows.get_mut(&key) else { return Ok(None) };
        let out = f(row);
        if let Some(redo) = redo {
            redo.put(key, row);
        }
        Ok(Some(out))
    }

    fn insert(&mut self, key: &[u8], row: &[u8]) -> Result<Inserted, PeerFault> {
        let key = number(key)?;
        let State { rows, redo } = &mut *self.0;
        let Entry::Vacant(place) = rows.entry(key) else { return Ok(Inserted::Exists) };
        place.insert(row.to_vec());
        if let Some(redo) = redo {
            redo.put(key, row);
        }
        Ok(Inserted::Done)
    }

    fn scan(&mut self, mut f: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<(), PeerFault> {
        for (key, row) in &self.0.rows {
            if f(&key.to_be_bytes(), row) == Flow::Enough {
                break;
            }
        }
        Ok(())
    }

    fn commit(mut self) -> Result<(), PeerFault> {
        self.0.redo.as_mut().map_or(Ok(()), Redo::commit)
    }
}
