//! One slot per locker: what others may see and touch of it.
//!
//! Who may do what:
//! - `fast` (intention locks that never reached the table) is written by its locker, and emptied entry by entry
//!   by whoever asks for a strong lock on that table. Locked before a bucket.
//! - `wait` is set to `Waiting` by its locker while it holds the bucket of the awaited name, to `Granted` by
//!   whoever grants it while holding the same bucket, to `Idle` by its locker. Locked after a bucket.

use crate::guarded::Guarded;
use crate::mode::{LockName, Mode};
use crate::queue::LockerId;
use base::TableId;
use latch::RawMutex;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

const CHUNK: usize = 256;
const CHUNKS: usize = 256;
/// Tables whose intention locks fit a slot; transactions over more tables use the buckets for the rest.
const FAST: usize = 8;

/// Intention locks held by one locker that the table's buckets know nothing of.
#[derive(Default)]
pub(crate) struct Fast {
    len: u8,
    tables: [u16; FAST],
    modes: [u8; FAST],
}

impl Fast {
    #[inline]
    fn find(&self, table: TableId) -> Option<usize> {
        self.tables[..self.len as usize].iter().position(|&t| t == table.0)
    }

    #[inline]
    pub(crate) fn put(&mut self, table: TableId, mode: Mode) -> bool {
        let at = self.find(table).unwrap_or(self.len as usize);
        if at == FAST {
            return false;
        }
        self.len = self.len.max(at as u8 + 1);
        self.tables[at] = table.0;
        self.modes[at] = mode.0;
        true
    }

    #[inline]
    pub(crate) fn has(&self, table: TableId) -> bool {
        self.find(table).is_some()
    }

    #[inline]
    pub(crate) fn take(&mut self, table: TableId) -> Option<Mode> {
        let at = self.find(table)?;
        let mode = Mode(self.modes[at]);
        self.len -= 1;
        self.tables[at] = self.tables[self.len as usize];
        self.modes[at] = self.modes[self.len as usize];
        Some(mode)
    }
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Waiting(LockName),
    Granted,
}

/// A locker's one wait.
#[derive(Default)]
pub(crate) struct Wait {
    state: State,
    waker: Option<Waker>,
}

impl Wait {
    pub(crate) fn begin(&mut self, name: LockName) {
        *self = Wait { state: State::Waiting(name), waker: None };
    }

    pub(crate) fn end(&mut self) {
        *self = Wait::default();
    }

    pub(crate) fn grant(&mut self) -> Option<Waker> {
        self.state = State::Granted;
        self.waker.take()
    }

    pub(crate) fn name(&self) -> Option<LockName> {
        if let State::Waiting(name) = self.state { Some(name) } else { None }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if matches!(self.state, State::Granted) {
            return Poll::Ready(());
        }
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// Aligned to two cache lines, because the prefetcher fetches pairs of them.
#[repr(align(128))]
pub(crate) struct Slot<M> {
    pub(crate) fast: Guarded<M, Fast>,
    pub(crate) wait: Guarded<M, Wait>,
}

/// Numbers of lockers: handed out, given back.
#[derive(Default)]
struct Numbers {
    free: Vec<LockerId>,
    next: usize,
}

/// Shared by a table and its lockers, so that a dropped locker gives its number back.
#[derive(Default)]
pub(crate) struct Ids(Mutex<Numbers>);

impl Ids {
    fn take(&self) -> Option<LockerId> {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = numbers.free.pop() {
            return Some(id);
        }
        let id = LockerId::try_from(numbers.next).ok()?;
        numbers.next += 1;
        Some(id)
    }

    pub(crate) fn give_back(&self, id: LockerId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).free.push(id);
    }

    /// All numbers ever handed out are below this one.
    fn bound(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next
    }
}

type Chunk<M> = Box<[Slot<M>]>;

/// The slots of all lockers of a table; a slot never moves.
pub(crate) struct Slots<M> {
    pub(crate) ids: Arc<Ids>,
    chunks: Box<[OnceLock<Chunk<M>>]>,
}

impl<M: RawMutex> Slots<M> {
    pub(crate) fn new() -> Self {
        Slots { ids: Arc::default(), chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
    }

    pub(crate) fn register(&self) -> Option<LockerId> {
        let id = self.ids.take()?;
        self.get(id);
        Some(id)
    }

    #[inline]
    pub(crate) fn get(&self, id: LockerId) -> &Slot<M> {
        let chunk = self.chunks[id as usize / CHUNK].get_or_init(|| {
            let slot = |_| Slot { fast: Guarded::new(Fast::default()), wait: Guarded::new(Wait::default()) };
            (0..CHUNK).map(slot).collect()
        });
        &chunk[id as usize % CHUNK]
    }

    /// Every slot handed out before this call, and perhaps later ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = (LockerId, &Slot<M>)> {
        (0..self.ids.bound()).map(|id| (id as LockerId, self.get(id as LockerId)))
    }
}
