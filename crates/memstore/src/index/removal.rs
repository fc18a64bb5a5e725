//! Removing entries, and leaves that become empty.

use super::split::retire_separator;
use super::{Index, MAX_LEVELS, Step, is_guarded, lock};
use crate::arena::{Arena, Local, Ref};
use crate::epoch::Epochs;
use crate::node::{NODE_WORDS, Sought, Torn};
use crate::version;

/// The result of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Removal {
    Done,
    /// Done, and the leaf has become empty.
    Last,
    Missing,
    Reserved,
}

impl Index {
    /// Takes out the entry of exactly this row. [`Removal::Reserved`] if its leaf would become
    /// empty and a prepared transaction holds a reservation on it: the leaf's range would go to a
    /// leaf without that reservation.
    pub(crate) fn remove(
        &self,
        arena: &Arena,
        local: &mut Local,
        epochs: &Epochs,
        key: &[u8],
        row: Ref,
    ) -> Removal {
        let removed = loop {
            if let Ok(removed) = self.try_remove(arena, key, row) {
                break removed;
            }
        };
        if removed == Removal::Last {
            while self.prune(arena, local, epochs, key).is_err() {}
        }
        removed
    }

    fn try_remove(&self, arena: &Arena, key: &[u8], row: Ref) -> Result<Removal, Torn> {
        let sought = &Sought::new(key);
        let (leaf, s) = self.leaf_of(arena, sought, |_| {})?;
        let (i, same) = leaf.search(arena, &s, sought)?;
        if !same || leaf.target(&s, i) != row {
            return if version::check(leaf.version(), s.version) { Ok(Removal::Missing) } else { Err(Torn) };
        }
        lock(leaf, &s)?;
        if s.count == 1 && is_guarded(leaf) {
            version::unlock_unchanged(leaf.version());
            return Ok(Removal::Reserved);
        }
        leaf.remove(i);
        version::unlock(leaf.version());
        Ok(if s.count == 1 { Removal::Last } else { Removal::Done })
    }

    /// Takes the leaf with the range of `key` out of the tree if it is empty and not the last one,
    /// together with the ancestors that have no other child.
    fn prune(&self, arena: &Arena, local: &mut Local, epochs: &Epochs, key: &[u8]) -> Result<(), Torn> {
        let mut way: [Option<Step>; MAX_LEVELS] = [None; MAX_LEVELS];
        let mut keeps = None;
        let (leaf, s) = self.leaf_of(arena, &Sought::new(key), |step| {
            way[step.sight.level] = Some(step);
            if step.sight.count > 0 {
                keeps = Some(step);
            }
        })?;
        let Some(keeps) = keeps.filter(|_| s.count == 0) else {
            return if version::check(leaf.version(), s.version) { Ok(()) } else { Err(Torn) };
        };
        let between = way[..keeps.sight.level].iter().rev().flatten().map(|step| (step.node, step.sight));
        let going: Vec<_> = between.chain([(leaf, s)]).collect();
        let locks = || [(keeps.node, keeps.sight)].into_iter().chain(going.iter().copied());
        for (n, (node, sight)) in locks().enumerate() {
            if lock(node, &sight).is_err() {
                locks().take(n).for_each(|(node, _)| version::unlock_unchanged(node.version()));
                return Err(Torn);
            }
        }
        if is_guarded(leaf) {
            // The leaf stays, empty, until another row comes and goes there.
            locks().for_each(|(node, _)| version::unlock_unchanged(node.version()));
            return Ok(());
        }
        let gone = keeps.child.max(1) - 1;
        let separator = keeps.node.separator(gone);
        if keeps.child == 0 {
            keeps.node.set_leftmost(keeps.node.child(&keeps.sight, 1));
        }
        keeps.node.remove(gone);
        going.iter().for_each(|(node, _)| version::retire(node.version()));
        version::unlock(keeps.node.version());
        going.iter().for_each(|(node, _)| local.retire(epochs, node.at, NODE_WORDS));
        retire_separator(arena, local, epochs, separator);
        Ok(())
    }
}
