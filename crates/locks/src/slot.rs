//! One slot per locker: what others may see and touch of it.
//!
//! Who may do what:
//! - `fast` (intentions on tables that never reached a bucket) is written by its locker, and emptied entry by entry
//!   by other lockers that ask for a strong lock on the table. Its mutex is locked before a bucket; see
//!   [`crate::fast`].
//! - `wait` is set to `Waiting` by its locker while it holds the bucket of the awaited name, to `Granted` or `Denied`
//!   by whoever decides that while holding the same bucket, to `Idle` by its locker. Locked after a bucket.
//! - `kept` (which of the requests in buckets may be parked, and which are) is added to by its locker, holding the
//!   bucket, and marked by it without; struck out by whoever holds the bucket of the name, or by its locker. Locked
//!   after a bucket, or alone.
//! - `totals` are written by the locker and read by anyone; so is `label`.

use crate::fast::{Fast, Taken};
use crate::guarded::Guarded;
use crate::mode::{LockName, Mode};
use crate::queue::LockerId;
use latch::RawMutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

const CHUNK: usize = 256;
const CHUNKS: usize = 256;
/// Lockers of one table that can hold or await locks at the same time: a request names its locker by 16 bits.
pub const MAX_LOCKERS: usize = CHUNK * CHUNKS;
/// With more numbers than this in use a locker gives its own back at the end of each transaction, so that lockers which are
/// only kept for their buffers keep nobody out.
const SCARCE: usize = MAX_LOCKERS / 8 * 7;
/// Requests in buckets that one locker may leave parked. More are given back.
const KEPT: usize = 8;

/// Requests of one locker that lie in buckets and may be parked.
#[derive(Default)]
pub(crate) struct Kept {
    len: u8,
    used: u8,
    names: [Option<LockName>; KEPT],
}

impl Kept {
    fn find(&self, name: LockName) -> Option<usize> {
        self.names[..self.len as usize].iter().position(|&n| n == Some(name))
    }

    /// Notes a granted request, parked from now on. The caller holds its bucket.
    pub(crate) fn note(&mut self, name: LockName) -> bool {
        let at = self.len as usize;
        if at == KEPT {
            return false;
        }
        self.names[at] = Some(name);
        self.used &= !(1 << at);
        self.len += 1;
        true
    }

    /// Takes it into use, or parks it. False if the note was struck out.
    #[inline]
    pub(crate) fn mark(&mut self, name: LockName, used: bool) -> bool {
        let Some(at) = self.find(name) else { return false };
        self.used = self.used & !(1 << at) | u8::from(used) << at;
        true
    }

    /// Strikes the note out. The caller holds the bucket; the request must go with it if it was parked.
    pub(crate) fn strike(&mut self, name: LockName) -> Option<Taken> {
        let at = self.find(name)?;
        let last = self.len as usize - 1;
        let used = self.used & 1 << at != 0;
        let last_used = self.used >> last & 1;
        self.names[at] = self.names[last].take();
        self.used = (self.used & !(1 << at) | last_used << at) & !(1 << last);
        self.len -= 1;
        // Which mode the request has, the queue knows.
        Some(if used { Taken::InUse(Mode::NONE) } else { Taken::Parked })
    }

    pub(crate) fn is_parked(&self, name: LockName) -> bool {
        self.find(name).is_some_and(|at| self.used & 1 << at == 0)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = LockName> {
        self.names[..self.len as usize].iter().filter_map(|&n| n)
    }
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    Waiting(LockName),
    Granted,
    /// Chosen to break a cycle.
    Denied,
}

/// How a wait stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Waits,
    Granted,
    Denied,
}

/// A locker's one wait.
#[derive(Default)]
pub(crate) struct Wait {
    state: State,
    waker: Option<Waker>,
    /// When the transaction began.
    begun_ns: u64,
    /// Counts the waits of this slot.
    turn: u64,
}

/// One wait of one locker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Awaited {
    pub(crate) name: LockName,
    pub(crate) begun_ns: u64,
    turn: u64,
}

impl Wait {
    pub(crate) fn begin(&mut self, name: LockName, begun_ns: u64) {
        *self = Wait { state: State::Waiting(name), waker: None, begun_ns, turn: self.turn + 1 };
    }

    pub(crate) fn end(&mut self) {
        *self = Wait { turn: self.turn, ..Wait::default() };
    }

    pub(crate) fn grant(&mut self) -> Option<Waker> {
        self.state = State::Granted;
        self.waker.take()
    }

    pub(crate) fn deny(&mut self) -> Option<Waker> {
        self.state = State::Denied;
        self.waker.take()
    }

    /// What is awaited.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        match self.state {
            State::Waiting(name) => Some(Awaited { name, begun_ns: self.begun_ns, turn: self.turn }),
            _ => None,
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.state {
            State::Granted => Standing::Granted,
            State::Denied => Standing::Denied,
            State::Idle | State::Waiting(_) => Standing::Waits,
        }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Standing> {
        match self.standing() {
            Standing::Waits => {}
            decided => return Poll::Ready(decided),
        }
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

/// Counts that every locker keeps for itself, so that none of them is a line all workers write.
#[derive(Default)]
pub(crate) struct Totals {
    pub(crate) granule_requests: AtomicU64,
    pub(crate) granule_calls: AtomicU64,
    pub(crate) inherited: AtomicU64,
}

/// Aligned to two cache lines, because the prefetcher fetches pairs of them.
#[repr(align(128))]
pub(crate) struct Slot<M> {
    pub(crate) fast: Fast<M>,
    pub(crate) wait: Guarded<M, Wait>,
    pub(crate) kept: Guarded<M, Kept>,
    pub(crate) totals: Totals,
    /// What the transaction is called beyond this table.
    pub(crate) label: AtomicU64,
}

/// Numbers of lockers: handed out, given back.
#[derive(Default)]
struct Numbers {
    free: Vec<LockerId>,
    next: usize,
}

/// Shared by a table and its lockers, so that a dropped locker gives its number back.
#[derive(Default)]
pub(crate) struct Ids {
    numbers: Mutex<Numbers>,
    /// Numbers in use: written with `numbers` locked.
    used: AtomicUsize,
}

impl Ids {
    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<LockerId> {
        let mut numbers = self.numbers();
        let id = match numbers.free.pop() {
            Some(id) => id,
            None => {
                let id = LockerId::try_from(numbers.next).ok()?;
                numbers.next += 1;
                id
            }
        };
        self.used.store(numbers.next - numbers.free.len(), Ordering::Relaxed);
        Some(id)
    }

    pub(crate) fn give_back(&self, id: LockerId) {
        let mut numbers = self.numbers();
        numbers.free.push(id);
        self.used.store(numbers.next - numbers.free.len(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn are_scarce(&self) -> bool {
        self.used.load(Ordering::Relaxed) > SCARCE
    }

    /// All numbers ever handed out are below this one.
    fn bound(&self) -> usize {
        self.numbers().next
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
            let slot = |_| Slot {
                fast: Fast::new(),
                wait: Guarded::new(Wait::default()),
                kept: Guarded::new(Kept::default()),
                totals: Totals::default(),
                label: AtomicU64::new(0),
            };
            (0..CHUNK).map(slot).collect()
        });
        &chunk[id as usize % CHUNK]
    }

    /// Every slot handed out before this call, and perhaps later ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = (LockerId, &Slot<M>)> {
        (0..self.ids.bound()).map(|id| (id as LockerId, self.get(id as LockerId)))
    }
}
