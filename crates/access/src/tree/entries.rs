//! The entries of a node with their whole keys, one after the other: the input of splits, merges
//! and loads.

use super::node::{KeyBuf, Node, best_prefix, entry_size};
use crate::bytes::{Bytes, Garbled};

#[derive(Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    /// The end offsets of each key and each value in `bytes`.
    ends: Vec<(usize, usize)>,
}

impl Entries {
    pub(super) fn of(node: Node<&Bytes>) -> Result<Entries, Garbled> {
        let (mut all, mut buf) = (Entries::default(), KeyBuf::new());
        for i in 0..node.count() {
            all.push(node.key_in(i, &mut buf)?, node.value(i)?);
        }
        Ok(all)
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, i: usize) -> Option<(&[u8], &[u8])> {
        let from = i.checked_sub(1).map_or(0, |before| self.ends[before].1);
        let &(middle, to) = self.ends.get(i)?;
        Some((&self.bytes[from..middle], &self.bytes[middle..to]))
    }

    pub(super) fn last(&self) -> Option<&[u8]> {
        self.get(self.len().checked_sub(1)?).map(|(key, _)| key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// The common prefix that a node of these entries, which are in order, stores.
pub(super) fn prefix_of<'a>(entries: &[(&'a [u8], &[u8])]) -> &'a [u8] {
    match entries {
        [] => &[],
        [(first, _), ..] => best_prefix(first, entries[entries.len() - 1].0),
    }
}

/// Bytes of content and slots that these entries take, without their first `skip` key bytes.
pub(super) fn size_behind(skip: usize, entries: &[(&[u8], &[u8])]) -> usize {
    entries.iter().map(|(key, value)| entry_size(key.len().saturating_sub(skip), value.len())).sum()
}
