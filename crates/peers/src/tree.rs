//! `BTreeMap`s behind a mutex. Serialisable, because one transaction runs at a time. A reference
//! for the speed of one thread with a common ordered map.
//!
//! It has every advantage: integer keys, rows changed in place, and no copies for rollback. The
//! mutex is held from begin to commit.

use crate::fault::PeerFault;
use crate::peer::{Engine, Intent, Session};
use crate::redo::Redo;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard};
use txn::{Flow, Inserted};

pub struct Tree(Mutex<State>);

struct State {
    tables: Vec<BTreeMap<u64, Vec<u8>>>,
    redo: Option<Redo>,
}

impl Tree {
    pub fn new(tables: usize, redo: Option<Redo>) -> Tree {
        Tree(Mutex::new(State { tables: vec![BTreeMap::new(); tables], redo }))
    }
}

impl Engine for Tree {
    type Session<'a> = TreeSession<'a>;

    fn session(&self) -> Result<TreeSession<'_>, PeerFault> {
        Ok(TreeSession { tree: self, held: None })
    }
}

pub struct TreeSession<'a> {
    tree: &'a Tree,
    /// The whole tree, during a transaction.
    held: Option<MutexGuard<'a, State>>,
}

fn fault(what: String) -> PeerFault {
    PeerFault::Engine { engine: "tree", what }
}

/// Keys of 8 bytes have the order of the big-endian numbers that they encode.
fn number(key: &[u8]) -> Result<u64, PeerFault> {
    let bytes = key.try_into().map_err(|_| fault(format!("a key of {} bytes, expected 8", key.len())));
    bytes.map(u64::from_be_bytes)
}

impl TreeSession<'_> {
    fn state(&mut self) -> Result<&mut State, PeerFault> {
        self.held.as_deref_mut().ok_or_else(|| fault("no transaction is under way".into()))
    }
}

impl Session for TreeSession<'_> {
    fn begin(&mut self, _: Intent) -> Result<(), PeerFault> {
        self.held = Some(self.tree.0.lock().map_err(|_| PeerFault::Panicked("the tree".into()))?);
        Ok(())
    }

    fn read<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, PeerFault> {
        Ok(self.state()?.tables[table].get(&number(key)?).map(|row| f(row)))
    }

    fn update<R>(
        &mut self,
        table: usize,
        key: &[u8],
        f: impl FnOnce(&mut Vec<u8>) -> R,
    ) -> Result<Option<R>, PeerFault> {
        let key = number(key)?;
        let State { tables, redo } = self.state()?;
        let Some(row) = tables[table].get_mut(&key) else { return Ok(None) };
        let out = f(row);
        if let Some(redo) = redo {
            redo.put(table, key, row);
        }
        Ok(Some(out))
    }

    fn insert(&mut self, table: usize, key: &[u8], row: &[u8]) -> Result<Inserted, PeerFault> {
        let key = number(key)?;
        let State { tables, redo } = self.state()?;
        let Entry::Vacant(place) = tables[table].entry(key) else { return Ok(Inserted::Exists) };
        place.insert(row.to_vec());
        if let Some(redo) = redo {
            redo.put(table, key, row);
        }
        Ok(Inserted::Done)
    }

    fn scan(&mut self, table: usize, mut f: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<(), PeerFault> {
        for (key, row) in &self.state()?.tables[table] {
            if f(&key.to_be_bytes(), row) == Flow::Enough {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), PeerFault> {
        let logged = self.state()?.redo.as_mut().map_or(Ok(()), Redo::commit);
        self.held = None;
        logged
    }

    /// Rollback is not supported: no transaction of a comparison needs it.
    fn rollback(&mut self) -> Result<(), PeerFault> {
        self.held = None;
        Err(fault("a transaction was to be rolled back".into()))
    }
}
