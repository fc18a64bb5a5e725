//! Changing entries. Each operation finds and latches all pages that it needs, then writes the log,
//! then changes the page.
//!
//! [`Expect::Next`] is how a caller protects against phantoms. The caller must lock the key that
//! follows the one it inserts or deletes, and learns that key only by reading the tree. So it reads
//! the next key, locks it, and calls the operation with it. Under the leaf's latch the operation
//! checks that this is still the next key. If not, it changes nothing and returns the real next
//! key. When the next key lies in another leaf, both leaves are latched before the decision.
//!
//! ```text
//! keys 10, 30   T1 wants to insert 20 and reads the next key: 30
//!               T2 inserts 25 and commits
//!               T1 locks 30 and calls insert(20, Next(30)): changes nothing, returns Next(25)
//!               T1 locks 25 and calls insert(20, Next(25)): done
//! ```

use super::node::{Node, entry_size, stored};
use super::{BTree, NodeMut, Probe, Seek, Sight};
use crate::Journal;
use crate::bytes::{Bytes, Garbled, difference};
use crate::page::{bytes_mut, corrupt, too_long};
use crate::record::{Kind, entry_front};
use base::{Key, PageId};
use latch::LatchPolicy;
use pages::{PageMut, PageRef, Stop};
use std::ops::{ControlFlow, Range};

/// The caller's expectation about the next key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect<'a> {
    /// No expectation.
    Any,
    /// This is the next key; `None`: no key follows.
    Next(Option<&'a [u8]>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeInsert {
    Done,
    /// The key exists; nothing was changed.
    Exists,
    /// The next key is this one, not the expected one; nothing was changed.
    Next(Option<Key>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeDelete {
    /// The entry was deleted; this was its value.
    Done(Key),
    /// There is no such key; nothing was changed.
    Missing,
    /// The next key is this one, not the expected one; nothing was changed.
    Next(Option<Key>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeReplace {
    /// The value was replaced; this was the old one.
    Done(Key),
    /// There is no such key; nothing was changed.
    Missing,
}

/// The result of [`BTree::modify`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeModify<R> {
    Done(R),
    /// The closure has run, but its value does not fit the leaf and nothing was changed: call
    /// [`BTree::replace`] with the buffer's content, if the tree [takes](BTree::takes) it.
    Outgrown(R),
    /// The closure has run and asked for no change.
    Left(R),
    /// There is no such key; the closure was not called.
    Missing,
}

/// A leaf that is latched for a change, with the pages that must stay latched as long.
struct Held<'p, L: LatchPolicy> {
    leaf: PageMut<'p, L>,
    /// The first key after this leaf. It is known, and protected from changes, only if `beyond` is
    /// [`Beyond::Known`].
    next: Option<Key>,
    beyond: Beyond,
    /// The pages of the path and the next leaves, latched shared as long as the leaf is held.
    _path: Vec<PageRef<'p, L>>,
}

/// Whether the next leaves were looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Unknown,
    Known,
}

impl<'p> BTree<'p> {
    /// Inserts `key` with `value`, unless the key exists.
    ///
    /// # Errors
    /// [`Stop`]: no entry was changed; [`Stop::Fault`] also when key or value are longer than the
    /// tree takes ([`BTree::max_key`], [`BTree::takes`]).
    pub fn insert<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
        value: &[u8],
        expect: Expect<'_>,
    ) -> Result<TreeInsert, Stop> {
        self.check_lengths(key, value)?;
        let probe = Probe::new(key);
        loop {
            let mut held = self.held_for::<L>(probe, expect, 0)?;
            let node = self.node(&held.leaf, Some(0))?;
            let found = node.search(probe).map_err(|Garbled| corrupt(&held.leaf))?;
            let Err(at) = found else { return Ok(TreeInsert::Exists) };
            if let Some(next) = surprise(&held, node, at, expect)? {
                return Ok(TreeInsert::Next(next));
            }
            let room = |node: Node<&Bytes>| node.room_for(key, value.len());
            if node.used() + room(node).map_err(|Garbled| corrupt(&held.leaf))? > self.fill {
                drop(held);
                self.make_room::<L>(journal, probe, 0, &room)?;
                continue;
            }
            let front = entry_front(held.leaf.page_id(), self.id, key, value);
            let lsn = journal.undoable(Kind::TreeInsert as u8, held.leaf.lsn(), &[&front, key, value]);
            edit(&mut held.leaf, |node| node.insert(at, key, value))?;
            held.leaf.logged(lsn);
            return Ok(TreeInsert::Done);
        }
    }

    /// Deletes the entry of `key`.
    ///
    /// # Errors
    /// [`Stop`]: nothing was changed.
    pub fn delete<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
        expect: Expect<'_>,
    ) -> Result<TreeDelete, Stop> {
        let probe = Probe::new(key);
        let mut held = self.held_for::<L>(probe, expect, 1)?;
        let node = self.node(&held.leaf, Some(0))?;
        let found = node.search(probe).map_err(|Garbled| corrupt(&held.leaf))?;
        let Ok(at) = found else { return Ok(TreeDelete::Missing) };
        if let Some(next) = surprise(&held, node, at + 1, expect)? {
            return Ok(TreeDelete::Next(next));
        }
        let value = Key::from_bytes(node.value(at).map_err(|Garbled| corrupt(&held.leaf))?);
        let front = entry_front(held.leaf.page_id(), self.id, key, &value);
        let lsn = journal.undoable(Kind::TreeDelete as u8, held.leaf.lsn(), &[&front, key, &value]);
        edit(&mut held.leaf, |node| node.remove(at))?;
        held.leaf.logged(lsn);
        let underfull = self.is_underfull(self.node(&held.leaf, Some(0))?);
        drop(held);
        if underfull {
            self.tidy::<L>(journal, probe);
        }
        Ok(TreeDelete::Done(value))
    }

    /// Replaces the value of `key`.
    ///
    /// # Errors
    /// As [`BTree::insert`].
    pub fn replace<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
        value: &[u8],
    ) -> Result<TreeReplace, Stop> {
        self.check_lengths(key, value)?;
        let probe = Probe::new(key);
        loop {
            let mut leaf = self.leaf_exclusive::<L>(probe)?;
            let node = self.node(&leaf, Some(0))?;
            let found = node.search(probe).map_err(|Garbled| corrupt(&leaf))?;
            let Ok(at) = found else { return Ok(TreeReplace::Missing) };
            let old = Key::from_bytes(node.value(at).map_err(|Garbled| corrupt(&leaf))?);
            let growth = stored(value.len()).saturating_sub(stored(old.len()));
            if growth > 0 && node.used() + growth > self.fill {
                drop(leaf);
                self.make_room::<L>(journal, probe, 0, &|_| Ok(growth))?;
                continue;
            }
            let front = entry_front(leaf.page_id(), self.id, key, &old);
            let lsn = journal.undoable(Kind::TreeReplace as u8, leaf.lsn(), &[&front, key, &old, value]);
            edit(&mut leaf, |node| node.set_value(at, value))?;
            leaf.logged(lsn);
            return Ok(TreeReplace::Done(old));
        }
    }

    /// Lets `f` change a copy of the key's value in `buffer` and writes the changed bytes back, all
    /// under one latch of the leaf. If `f` breaks, nothing is written. If `f` continues, it returns
    /// the range that it has touched: unless the length has changed, all bytes outside that range
    /// must be unchanged.
    ///
    /// # Errors
    /// [`Stop`]: `f` was not called and nothing was changed.
    #[inline]
    pub fn modify<L: LatchPolicy, R>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
        buffer: &mut Vec<u8>,
        f: impl FnOnce(&mut Vec<u8>) -> ControlFlow<R, (R, Range<usize>)>,
    ) -> Result<TreeModify<R>, Stop> {
        self.modify_seen::<L, R>(journal, key, None, buffer, f)
    }

    /// As [`BTree::modify`], with the sight that [`BTree::find_batch`] returned for the key: no
    /// descent if the leaf is unchanged since.
    ///
    /// # Errors
    /// As [`BTree::modify`].
    #[inline]
    pub fn modify_seen<L: LatchPolicy, R>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
        sight: Option<Sight>,
        buffer: &mut Vec<u8>,
        f: impl FnOnce(&mut Vec<u8>) -> ControlFlow<R, (R, Range<usize>)>,
    ) -> Result<TreeModify<R>, Stop> {
        let (mut leaf, at) = match self.seen_exclusive::<L>(sight) {
            Some(seen) => seen,
            None => {
                let probe = Probe::new(key);
                let leaf = self.leaf_exclusive::<L>(probe)?;
                let found = self.node(&leaf, Some(0))?.search(probe).map_err(|Garbled| corrupt(&leaf))?;
                let Ok(at) = found else { return Ok(TreeModify::Missing) };
                (leaf, at)
            }
        };
        let node = self.node(&leaf, Some(0))?;
        let old = node.value(at).map_err(|Garbled| corrupt(&leaf))?;
        buffer.clear();
        buffer.extend_from_slice(old);
        let (result, touched) = match f(buffer) {
            ControlFlow::Continue(done) => done,
            ControlFlow::Break(result) => return Ok(TreeModify::Left(result)),
        };
        let growth = stored(buffer.len()).saturating_sub(stored(old.len()));
        if growth > 0 && (node.used() + growth > self.fill || !self.takes(key.len(), buffer.len())) {
            return Ok(TreeModify::Outgrown(result));
        }
        self.overwrite(journal, &mut leaf, key, at, (buffer, touched))?;
        Ok(TreeModify::Done(result))
    }

    /// The leaf of a sight, latched exclusively, and the entry's position in it; `None` if the leaf
    /// has changed.
    #[inline]
    fn seen_exclusive<L: LatchPolicy>(&self, sight: Option<Sight>) -> Option<(PageMut<'p, L>, usize)> {
        let sight = sight.filter(|s| self.pool.version_unchanged(s.leaf, s.version))?;
        let leaf = self.pool.exclusive::<L>(sight.leaf).ok()?;
        (leaf.version() == sight.version).then_some((leaf, sight.slot.into()))
    }

    /// Logs and writes the bytes in which `value` differs from the value of the entry at `at`, of
    /// which the key is `key`. All differences lie within `touched`.
    #[inline]
    fn overwrite<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        leaf: &mut PageMut<'p, L>,
        key: &[u8],
        at: usize,
        (value, touched): (&[u8], Range<usize>),
    ) -> Result<(), Stop> {
        let before = Node::new(leaf.bytes()).value(at).map_err(|Garbled| corrupt(leaf))?;
        let Range { start: from, end } = difference(before, value, touched);
        if from == end && before.len() == value.len() {
            return Ok(());
        }
        let tail = before.len() - end;
        let (old, new) = (&before[from..before.len() - tail], &value[from..value.len() - tail]);
        let front = entry_front(leaf.page_id(), self.id, key, old);
        let place = (from as u16).to_le_bytes();
        let lsn = journal.undoable(Kind::TreeUpdate as u8, leaf.lsn(), &[&front, &place, key, old, new]);
        let old = old.len();
        edit(leaf, |node| node.splice(at, from, old, new))?;
        leaf.logged(lsn);
        Ok(())
    }

    /// Undoes a change of bytes of a value: replaces the bytes `from` at offset `at` by `to`.
    /// `false` if the value does not hold the bytes that the change wrote.
    pub(crate) fn splice<L: LatchPolicy>(
        &self,
        journal: &mut impl Journal,
        key: &[u8],
        at: usize,
        from: &[u8],
        to: &[u8],
    ) -> Result<bool, Stop> {
        let probe = Probe::new(key);
        loop {
            let mut leaf = self.leaf_exclusive::<L>(probe)?;
            let node = self.node(&leaf, Some(0))?;
            let found = node.search(probe).map_err(|Garbled| corrupt(&leaf))?;
            let Ok(position) = found else { return Ok(false) };
            let now = node.value(position).map_err(|Garbled| corrupt(&leaf))?;
            if now.get(at..at + from.len()) != Some(from) {
                return Ok(false);
            }
            let value = [&now[..at], to, &now[at + from.len()..]].concat();
            let growth = stored(value.len()).saturating_sub(stored(now.len()));
            if growth > 0 && node.used() + growth > self.fill {
                drop(leaf);
                self.make_room::<L>(journal, probe, 0, &|_| Ok(growth))?;
                continue;
            }
            self.overwrite(journal, &mut leaf, key, position, (&value, 0..usize::MAX))?;
            return Ok(true);
        }
    }

    pub(super) fn check_lengths(&self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        if key.len() > self.max_key() {
            return Err(too_long("index key", key.len(), self.max_key()));
        }
        if self.takes(key.len(), value.len()) {
            return Ok(());
        }
        let most = (self.fill / 4).saturating_sub(entry_size(key.len(), 0));
        Err(too_long("index value", value.len(), most))
    }

    /// The leaf for `key`, and the first key of the next leaf if the expectation may concern it.
    /// `own`: how many positions the key itself takes (0 if it is to be inserted).
    fn held_for<L: LatchPolicy>(
        &self,
        probe: Probe<'_>,
        expect: Expect<'_>,
        own: usize,
    ) -> Result<Held<'p, L>, Stop> {
        let leaf = self.leaf_exclusive::<L>(probe)?;
        let alone = expect == Expect::Any || {
            let node = self.node(&leaf, Some(0))?;
            let known = || Ok(node.at_or_behind(probe)? + own < node.count() || node.is_last());
            known().map_err(|Garbled| corrupt(&leaf))?
        };
        if alone {
            return Ok(Held { leaf, next: None, beyond: Beyond::Unknown, _path: Vec::new() });
        }
        drop(leaf);
        self.leaf_and_next(probe)
    }

    /// The leaf for `key`, latched exclusively, and the first key after that leaf; every page
    /// between them stays latched.
    fn leaf_and_next<L: LatchPolicy>(&self, probe: Probe<'_>) -> Result<Held<'p, L>, Stop> {
        let mut path = vec![self.top_shared::<L>(Seek::Key(probe))?];
        let root = path[0].page_id();
        let mut level = self.node(&path[0], None)?.level();
        if level == 0 {
            path.clear();
            let (root, seen) = self.top(Seek::Key(probe));
            let leaf = self.pool.exclusive::<L>(root)?;
            if !self.is_top(seen) {
                return Err(Stop::Again);
            }
            // The leaf is the whole sub-tree, so the next key is in another sub-tree. If the leaf
            // has been split meanwhile, it is no leaf any more: start again.
            self.node(&leaf, Some(0)).map_err(|_| Stop::Again)?;
            let next = self.first_of_others(&mut path, root)?;
            return Ok(Held { leaf, next, beyond: Beyond::Known, _path: path });
        }
        let mut way = Vec::new();
        loop {
            let page = &path[path.len() - 1];
            let node = self.node(page, Some(level))?;
            let step = || node.behind(probe).and_then(|ordinal| Ok((ordinal, node.child(ordinal)?)));
            let (ordinal, child) = step().map_err(|Garbled| corrupt(page))?;
            way.push((path.len() - 1, ordinal));
            level -= 1;
            if level == 0 {
                let leaf = self.pool.exclusive::<L>(child)?;
                self.node(&leaf, Some(0))?;
                let next = match self.first_behind(&mut path, way)? {
                    None => self.first_of_others(&mut path, root)?,
                    next => next,
                };
                return Ok(Held { leaf, next, beyond: Beyond::Known, _path: path });
            }
            path.push(self.pool.shared::<L>(child)?);
        }
    }

    /// The first key in the sub-trees to the right of the one with this root. The caller holds a
    /// page of that sub-tree. For an owned sub-tree the search ends at the sub-tree's bound: its
    /// owner treats the bound as the end of the keys. The pages on the search are latched shared
    /// and added to `path`.
    fn first_of_others<L: LatchPolicy>(
        &self,
        path: &mut Vec<PageRef<'p, L>>,
        mut root: PageId,
    ) -> Result<Option<Key>, Stop> {
        let Some(roots) = self.roots else { return Ok(None) };
        loop {
            let (Some(next), seen) = roots.behind(root) else { return Ok(None) };
            if self.pool.owner_of(root).is_some() {
                return Ok(None);
            }
            path.push(self.pool.shared::<L>(next)?);
            if !roots.unchanged(seen) {
                return Err(Stop::Again);
            }
            let level = self.node(&path[path.len() - 1], None)?.level();
            let mut way = Vec::new();
            let found = match self.leftmost(path, &mut way, level)? {
                None => self.first_behind(path, way)?,
                found => found,
            };
            if found.is_some() {
                return Ok(found);
            }
            root = next;
        }
    }

    /// The first key to the right of a path, which is given as (index into `path`, ordinal of the
    /// child taken). The pages on the search are latched shared and added to `path`.
    fn first_behind<L: LatchPolicy>(
        &self,
        path: &mut Vec<PageRef<'p, L>>,
        mut way: Vec<(usize, usize)>,
    ) -> Result<Option<Key>, Stop> {
        while let Some((index, ordinal)) = way.pop() {
            let node = self.node(&path[index], None)?;
            if ordinal >= node.count() {
                continue;
            }
            let level = node.level();
            let child = node.child(ordinal + 1).map_err(|Garbled| corrupt(&path[index]))?;
            way.push((index, ordinal + 1));
            let below = level.checked_sub(1).ok_or_else(|| corrupt(&path[index]))?;
            path.push(self.pool.shared::<L>(child)?);
            if let Some(key) = self.leftmost(path, &mut way, below)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// Descends leftmost from the last page of `path`; returns the first key of the leaf, if it has
    /// one.
    fn leftmost<L: LatchPolicy>(
        &self,
        path: &mut Vec<PageRef<'p, L>>,
        way: &mut Vec<(usize, usize)>,
        mut level: u8,
    ) -> Result<Option<Key>, Stop> {
        loop {
            let index = path.len() - 1;
            let node = self.node(&path[index], Some(level))?;
            let step = || match (level, node.count()) {
                (0, 0) => Ok((None, None)),
                (0, _) => Ok((Some(node.key(0)?), None)),
                _ => Ok((None, Some(node.child(0)?))),
            };
            match step().map_err(|Garbled| corrupt(&path[index]))? {
                (key, None) => return Ok(key),
                (_, Some(child)) => {
                    way.push((index, 0));
                    path.push(self.pool.shared::<L>(child)?);
                    level -= 1;
                }
            }
        }
    }
}

/// The real next key, at position `at` or after this leaf, if it is not the expected one.
fn surprise<L: LatchPolicy>(
    held: &Held<'_, L>,
    node: Node<&Bytes>,
    at: usize,
    expect: Expect<'_>,
) -> Result<Option<Option<Key>>, Stop> {
    let Expect::Next(expected) = expect else { return Ok(None) };
    let garbled = |Garbled| corrupt(&held.leaf);
    if at < node.count() {
        let next = node.key(at).map_err(garbled)?;
        return Ok((expected != Some(&next[..])).then_some(Some(next)));
    }
    // The leaf changed between the check that needed no next leaf and this latch.
    if held.beyond == Beyond::Unknown && !node.is_last() {
        return Err(Stop::Again);
    }
    Ok((expected != held.next.as_deref()).then(|| held.next.clone()))
}

/// Changes a node in place; a page on which the change fails is corrupt.
fn edit<L: LatchPolicy>(
    page: &mut PageMut<'_, L>,
    change: impl FnOnce(&mut NodeMut<'_>) -> Result<(), Garbled>,
) -> Result<(), Stop> {
    change(&mut NodeMut::new(bytes_mut(page))).map_err(|Garbled| corrupt(page))
}
