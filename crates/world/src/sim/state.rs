//! A whole disk as a value: files, their names, and the unsynced changes of both that a crash may
//! lose.

use super::node::{Loss, Node, PendingChange};
use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Position in [`State::nodes`]; nodes are never renumbered.
pub(crate) type NodeId = usize;
type Names = BTreeMap<PathBuf, NodeId>;

/// A change of a folder. It carries the file, so that each change can be kept or lost without the
/// others.
#[derive(Clone)]
pub(crate) enum Naming {
    Create { path: PathBuf, node: NodeId },
    Remove { path: PathBuf },
    Rename { from: PathBuf, to: PathBuf, node: NodeId },
}

/// One change of the disk, in its recorded form.
#[derive(Clone)]
pub(crate) enum Entry {
    /// A new, empty file without a name; it gets the next number.
    Node,
    PendingChange {
        node: NodeId,
        change: PendingChange,
    },
    Sync {
        node: NodeId,
    },
    FailedSync {
        node: NodeId,
        seed: u64,
    },
    Name(Naming),
    Folder(PathBuf),
    SyncFolder(PathBuf),
}

#[derive(Clone, Default)]
pub(crate) struct State {
    pub nodes: Vec<Node>,
    pub names: Names,
    pub folders: BTreeSet<PathBuf>,
    /// Power cuts so far.
    pub boots: u64,
    stable_names: Names,
    pending_names: Vec<Naming>,
}

fn apply(names: &mut Names, naming: &Naming) {
    match naming {
        Naming::Create { path, node } => drop(names.insert(path.clone(), *node)),
        Naming::Remove { path } => drop(names.remove(path)),
        Naming::Rename { from, to, node } => {
            if names.get(from) == Some(node) {
                names.remove(from);
            }
            names.insert(to.clone(), *node);
        }
    }
}

impl Naming {
    fn is_in(&self, folder: &Path) -> bool {
        let is = |path: &Path| path.parent() == Some(folder);
        match self {
            Naming::Create { path, .. } | Naming::Remove { path } => is(path),
            Naming::Rename { from, to, .. } => is(from) || is(to),
        }
    }
}

impl State {
    pub fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Node => self.nodes.push(Node::default()),
            Entry::PendingChange { node, change } => self.nodes[*node].change(change.clone()),
            Entry::Sync { node } => self.nodes[*node].sync(),
            Entry::FailedSync { node, seed } => self.nodes[*node].fail_sync(&mut Random::new(*seed)),
            Entry::Name(naming) => {
                apply(&mut self.names, naming);
                self.pending_names.push(naming.clone());
            }
            Entry::Folder(path) => self.folders.extend(path.ancestors().map(Path::to_owned)),
            Entry::SyncFolder(path) => self.sync_folder(path),
        }
    }

    fn sync_folder(&mut self, folder: &Path) {
        let pending = std::mem::take(&mut self.pending_names);
        for naming in pending {
            if naming.is_in(folder) {
                apply(&mut self.stable_names, &naming);
            } else {
                self.pending_names.push(naming);
            }
        }
    }

    /// Bytes of all named files.
    pub fn used(&self) -> u64 {
        self.names.values().map(|n| self.nodes[*n].current.len()).sum()
    }

    /// The disk as after power loss. The seed decides how changes are lost (see [`Loss`]). It also
    /// decides whether the kept changes of folders are a prefix in order, or each is kept or lost
    /// independently.
    pub fn crashed(&self, seed: u64) -> State {
        let mut random = Random::new(seed);
        let loss = Loss::draw(&mut random);
        let names = self.surviving_names(loss, &mut random);
        let after = self.only(names, |node| node.survivor(loss, &mut random));
        State { boots: self.boots + 1, ..after }
    }

    /// The disk as the next process finds it when this one is killed: all written bytes are there.
    pub fn killed(&self) -> State {
        self.only(self.names.clone(), |node| node.current.clone())
    }

    /// A disk with the files of these names, all their bytes on the device. A file with several
    /// names stays one file.
    fn only(&self, names: Names, mut bytes: impl FnMut(&Node) -> super::blocks::Blocks) -> State {
        let mut nodes = Vec::new();
        let mut renumbered: BTreeMap<NodeId, NodeId> = BTreeMap::new();
        for node in names.values() {
            renumbered.entry(*node).or_insert_with(|| {
                nodes.push(Node::holding(bytes(&self.nodes[*node])));
                nodes.len() - 1
            });
        }
        let names: Names = names.into_iter().map(|(path, node)| (path, renumbered[&node])).collect();
        let folders = self.folders.clone();
        State {
            nodes,
            stable_names: names.clone(),
            names,
            folders,
            boots: self.boots,
            pending_names: Vec::new(),
        }
    }

    fn surviving_names(&self, loss: Loss, random: &mut Random) -> Names {
        let pending = &self.pending_names;
        let prefix = random.below(pending.len() + 1);
        let in_order = random.coin();
        let mut names = self.stable_names.clone();
        for (n, naming) in pending.iter().enumerate() {
            let kept = match loss {
                Loss::Everything => false,
                Loss::Nothing => true,
                _ if in_order => n < prefix,
                _ => random.coin(),
            };
            if kept {
                apply(&mut names, naming);
            }
        }
        names
    }
}
