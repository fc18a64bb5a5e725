//! One slot per locker: the state that other lockers may read and change.
//!
//! Access rules:
//! - `fast` (intentions on tables that never reached a bucket): written by its locker. Other
//!   lockers that request a strong lock on the table remove entries one by one. Its mutex is taken
//!   before a bucket; see [`crate::fast`].
//! - `wait`: set to `Waiting` by its locker, holding the bucket of the awaited name; to `Granted`
//!   or `Denied` by the thread that decides, holding the same bucket; to `Idle` by its locker. Its
//!   mutex is taken after a bucket.
//! - `kept` (the requests in buckets that may be parked, and whether they are): its locker adds
//!   notes while it holds the bucket, and marks them without the bucket. The locker, or a thread
//!   that holds the bucket of the name, removes them. Its mutex is taken after a bucket, or alone.
//! - `totals` and `label`: written by the locker, read by any thread.

use crate::fast::{Fast, Taken};
use crate::guarded::Guarded;
use crate::mode::{LockName, Mode};
use crate::queue::LockerId;
use latch::{Rank, RankedMutex, RawMutex};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

const CHUNK: usize = 256;
const CHUNKS: usize = 256;
/// Number of lockers of one table that can hold or await locks at the same time: a request stores
/// its locker in 16 bits.
pub const MAX_LOCKERS: usize = CHUNK * CHUNKS;
/// If more numbers than this are in use, a locker returns its own at the end of each transaction.
/// So lockers that are kept only for their buffers do not use numbers up.
const SCARCE: usize = MAX_LOCKERS / 8 * 7;
/// Number of requests in buckets that one locker may leave parked. Further ones are released.
const KEPT: usize = 8;

/// The requests of one locker that lie in buckets and may be parked.
#[derive(Default)]
pub(crate) struct Kept {
    /// Number of notes.
    len: u8,
    /// One bit per note: set while the request is in use.
    used: u8,
    /// The names of the requests; the first `len` are set.
    names: [Option<LockName>; KEPT],
}

impl Kept {
    fn find(&self, name: LockName) -> Option<usize> {
        self.names[..self.len as usize].iter().position(|&n| n == Some(name))
    }

    /// Notes a granted request, parked from now on. The caller holds its bucket. False if there is
    /// no room.
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

    /// Marks the request as in use or parked. False if the note was removed.
    #[inline]
    pub(crate) fn mark(&mut self, name: LockName, used: bool) -> bool {
        let Some(at) = self.find(name) else { return false };
        self.used = self.used & !(1 << at) | u8::from(used) << at;
        true
    }

    /// Removes the note. The caller holds the bucket, and must remove the request too if it was
    /// parked.
    pub(crate) fn strike(&mut self, name: LockName) -> Option<Taken> {
        let at = self.find(name)?;
        let last = self.len as usize - 1;
        let used = self.used & 1 << at != 0;
        let last_used = self.used >> last & 1;
        self.names[at] = self.names[last].take();
        self.used = (self.used & !(1 << at) | last_used << at) & !(1 << last);
        self.len -= 1;
        // The queue knows the mode of the request.
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
enum SlotState {
    #[default]
    Idle,
    Waiting(LockName),
    Granted,
    /// Chosen as the victim of a cycle.
    Denied,
}

/// State of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    Waits,
    Granted,
    Denied,
}

/// The one wait of a locker.
#[derive(Default)]
pub(crate) struct Wait {
    state: SlotState,
    waker: Option<Waker>,
    /// Begin of the transaction, in ns of the caller's clock.
    begun_ns: u64,
    /// Number of waits of this slot so far.
    turn: u64,
}

/// Identity of one wait of one locker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Awaited {
    pub(crate) name: LockName,
    pub(crate) begun_ns: u64,
    turn: u64,
}

impl Wait {
    pub(crate) fn begin(&mut self, name: LockName, begun_ns: u64) {
        *self = Wait { state: SlotState::Waiting(name), waker: None, begun_ns, turn: self.turn + 1 };
    }

    pub(crate) fn end(&mut self) {
        *self = Wait { turn: self.turn, ..Wait::default() };
    }

    pub(crate) fn grant(&mut self) -> Option<Waker> {
        self.state = SlotState::Granted;
        self.waker.take()
    }

    pub(crate) fn deny(&mut self) -> Option<Waker> {
        self.state = SlotState::Denied;
        self.waker.take()
    }

    /// The awaited lock, if the locker waits.
    pub(crate) fn awaited(&self) -> Option<Awaited> {
        match self.state {
            SlotState::Waiting(name) => Some(Awaited { name, begun_ns: self.begun_ns, turn: self.turn }),
            _ => None,
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        match self.state {
            SlotState::Granted => Standing::Granted,
            SlotState::Denied => Standing::Denied,
            SlotState::Idle | SlotState::Waiting(_) => Standing::Waits,
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

/// Counts that each locker keeps for itself, so that no cache line is written by all workers.
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
    /// Id of the transaction beyond this table; see [`LockTable::label`](crate::LockTable::label).
    pub(crate) label: AtomicU64,
}

/// Numbers of lockers, free and used.
#[derive(Default)]
struct Numbers {
    free: Vec<LockerId>,
    next: usize,
}

/// Shared by a table and its lockers, so that a dropped locker returns its number.
pub(crate) struct Ids {
    numbers: RankedMutex<Numbers>,
    /// Count of numbers in use. Written with `numbers` locked.
    used: AtomicUsize,
}

impl Ids {
    fn new() -> Ids {
        Ids { numbers: RankedMutex::new(Rank::LockNumbers, Numbers::default()), used: AtomicUsize::new(0) }
    }

    fn take(&self) -> Option<LockerId> {
        let mut numbers = self.numbers.lock();
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
        let mut numbers = self.numbers.lock();
        numbers.free.push(id);
        self.used.store(numbers.next - numbers.free.len(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn are_scarce(&self) -> bool {
        self.used.load(Ordering::Relaxed) > SCARCE
    }

    /// All numbers handed out so far are below this one.
    fn bound(&self) -> usize {
        self.numbers.lock().next
    }
}

type Chunk<M> = Box<[Slot<M>]>;

/// The slots of all lockers of a table. A slot never moves.
pub(crate) struct Slots<M> {
    pub(crate) ids: Arc<Ids>,
    chunks: Box<[OnceLock<Chunk<M>>]>,
}

impl<M: RawMutex> Slots<M> {
    pub(crate) fn new() -> Self {
        Slots { ids: Arc::new(Ids::new()), chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect() }
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
                wait: Guarded::new(Rank::LockSlot, Wait::default()),
                kept: Guarded::new(Rank::LockSlot, Kept::default()),
                totals: Totals::default(),
                label: AtomicU64::new(0),
            };
            (0..CHUNK).map(slot).collect()
        });
        &chunk[id as usize % CHUNK]
    }

    /// All slots handed out before this call, and perhaps later ones.
    pub(crate) fn all(&self) -> impl Iterator<Item = (LockerId, &Slot<M>)> {
        (0..self.ids.bound()).map(|id| (id as LockerId, self.get(id as LockerId)))
    }
}
