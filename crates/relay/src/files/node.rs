//! An open file of a replicated folder, with the changes that it does not have yet.

use super::change::Change;
use super::{Inner, lock};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use world::File;

pub(super) struct Node {
    /// Changed with the lock of the names, while nothing is written to the file.
    name: Mutex<String>,
    file: Arc<dyn File>,
    /// Changes that the log has or gets, each with the index of its entry.
    coming: Mutex<VecDeque<(u64, Change)>>,
}

impl Node {
    pub fn new(name: String, file: Arc<dyn File>) -> Node {
        Node { name: Mutex::new(name), file, coming: Mutex::default() }
    }

    pub fn name(&self) -> String {
        lock(&self.name).clone()
    }

    pub fn rename(&self, name: &str) {
        name.clone_into(&mut lock(&self.name));
    }

    pub fn expect(&self, index: u64, change: Change) {
        let mut coming = lock(&self.coming);
        if let Some((last, before)) = coming.back_mut()
            && *last == index
            && before.extend(&change)
        {
            return;
        }
        coming.push_back((index, change));
    }

    /// Makes the changes up to entry `upto`, which a quorum has, and syncs the file.
    pub fn bring(&self, upto: u64) -> io::Result<()> {
        let mut coming = lock(&self.coming);
        while let Some((_, change)) = coming.front().filter(|(index, _)| *index <= upto) {
            change.apply(&*self.file)?;
            coming.pop_front();
        }
        drop(coming);
        self.file.sync()
    }

    pub fn is_behind(&self) -> bool {
        !lock(&self.coming).is_empty()
    }
}

/// The file as its users have it.
pub(super) struct Handle {
    pub node: Arc<Node>,
    pub inner: Arc<Inner>,
}

impl Handle {
    /// The file with all changes made so far.
    fn whole(&self) -> io::Result<&dyn File> {
        if self.node.is_behind() {
            self.sync()?;
        }
        Ok(&*self.node.file)
    }
}

impl File for Handle {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.whole()?.read_at(buf, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.change(&self.node, &Change::write(bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.node.bring(self.inner.keep()?)
    }

    fn len(&self) -> io::Result<u64> {
        self.whole()?.len()
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.inner.change(&self.node, &Change::Length(bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.inner.change(&self.node, &Change::Allocate(bytes))
    }
}
