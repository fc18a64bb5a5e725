//! The names of in-process listeners, and the links between two threads.
//!
//! There is one table for the process. A connector finds a listener's door by its name as long as
//! the listener lives. It leaves the other end of its link there and goes on at once, because
//! messages wait in the ring until the link is accepted.

use crate::Hello;
use crate::error::ChannelError;
use crate::link::{Carrier, Link};
use crate::parker::new_bell;
use crate::region::{RING_BYTES, Region, Which};
use crate::ring_link::{BellPair, Life, RingLink};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

static DOORS: Mutex<BTreeMap<String, Arc<Door>>> = Mutex::new(BTreeMap::new());

/// The queue of connectors in front of an in-process listener.
pub(crate) struct Door {
    name: String,
    waiting: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    links: VecDeque<(Link, Hello)>,
    stopped: bool,
}

/// A poisoned lock is usable: no code here can panic between two steps of a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a door under a free name.
pub(crate) fn open(name: &str) -> Result<Arc<Door>, ChannelError> {
    let mut doors = lock(&DOORS);
    if doors.contains_key(name) {
        return Err(ChannelError::InUse { address: format!("ring:{name}") });
    }
    let door = Arc::new(Door { name: name.to_string(), waiting: Mutex::default(), changed: Condvar::new() });
    doors.insert(name.to_string(), door.clone());
    Ok(door)
}

/// Removes the name; connectors that were not accepted find their link closed.
pub(crate) fn close(door: &Arc<Door>) {
    lock(&DOORS).remove(&door.name);
    let abandoned = std::mem::take(&mut lock(&door.waiting).links);
    drop(abandoned);
}

/// Connects to the door of this name, if there is one.
pub(crate) fn knock(name: &str, hello: &Hello) -> Result<Option<Link>, ChannelError> {
    let doors = lock(&DOORS);
    let Some(door) = doors.get(name) else { return Ok(None) };
    let (mine, theirs) = pair()?;
    lock(&door.waiting).links.push_back((theirs, hello.clone()));
    door.changed.notify_one();
    Ok(Some(mine))
}

impl Door {
    pub(crate) fn accept(&self) -> Result<(Link, Hello), ChannelError> {
        let mut queue = lock(&self.waiting);
        loop {
            if queue.stopped {
                return Err(ChannelError::Stopped);
            }
            if let Some(next) = queue.links.pop_front() {
                return Ok(next);
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn stop(&self) {
        lock(&self.waiting).stopped = true;
        self.changed.notify_all();
    }
}

/// The two ends of a link between threads of this process.
///
/// # Errors
/// [`ChannelError::Io`] when there is no memory or no descriptor left.
pub fn pair() -> Result<(Link, Link), ChannelError> {
    let region = Region::private(RING_BYTES)?;
    let bells = [Arc::new(new_bell()?), Arc::new(new_bell()?)];
    let gone = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
    let end = |mine: usize| {
        let (outgoing, incoming) = match mine {
            0 => (region.ring(Which::First), region.ring(Which::Second)),
            _ => (region.ring(Which::Second), region.ring(Which::First)),
        };
        let bells = BellPair { mine: bells[mine].clone(), peers: bells[1 - mine].clone() };
        let life = Life::Threads { gone: gone.clone(), mine };
        Link::new(Carrier::Ring(Box::new(RingLink::new(outgoing, incoming, bells, life))))
    };
    Ok((end(0), end(1)))
}
