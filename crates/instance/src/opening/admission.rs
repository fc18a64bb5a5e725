//! The admission of one life of an instance: the peers that do not know of it, and the links that
//! wait for it.

use crate::links::Peer;
use base::InstanceId;
use channel::Link;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// How long admission stays closed at most: the time-out of the homes, and a quarter more for
/// clocks that differ.
pub(crate) fn closed_ns(give_up_ns: u64) -> u64 {
    give_up_ns.saturating_add(give_up_ns / 4)
}

/// The first life of a store.
const FIRST: u32 = 1;

pub(super) fn is_first(life: u32) -> bool {
    life <= FIRST
}

/// The admission of an instance, and the links that wait for it.
pub(crate) struct Opening {
    pub(super) is_open: AtomicBool,
    pub(super) admission: Mutex<Admission>,
    pub(super) opened: Condvar,
    /// When admission opens if acknowledgements are missing.
    pub(super) by_ns: u64,
}

/// The state of admission, under its mutex.
pub(super) struct Admission {
    /// Peers that have not acknowledged this life. Admission is open when there are none.
    pub(super) unaware: BTreeSet<InstanceId>,
    /// Links, each with the worker that gets it.
    pub(super) waiting: Vec<(usize, Link, Peer)>,
}

/// The last known life of each peer. The lock is held while a new life is met, so that no second
/// link of that life passes earlier.
pub(crate) type Lives = Mutex<BTreeMap<InstanceId, u32>>;

impl Opening {
    /// The admission of life `life` of instance `id`, of `instances` in all. It opens by `by_ns`.
    pub fn new(id: InstanceId, life: u32, instances: u16, by_ns: u64) -> Opening {
        let others = (0..instances).map(InstanceId).filter(|other| *other != id);
        let unaware: BTreeSet<_> = if is_first(life) { BTreeSet::new() } else { others.collect() };
        Opening {
            is_open: AtomicBool::new(unaware.is_empty()),
            admission: Mutex::new(Admission { unaware, waiting: Vec::new() }),
            opened: Condvar::new(),
            by_ns,
        }
    }

    pub(super) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().expect("no holder of this lock panics")
    }

    /// Blocks until admission is open.
    pub fn wait(&self) {
        let mut admission = self.admission();
        while !admission.unaware.is_empty() {
            let left = self.by_ns.saturating_sub(world::now_ns());
            if left == 0 {
                return;
            }
            admission =
                self.opened.wait_timeout(admission, Duration::from_nanos(left)).expect("no holder panics").0;
        }
    }
}
