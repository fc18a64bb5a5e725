//! One slot per locker: what others may see and touch of it.
//!
//! Who may do what:
//! - `fast` (intentions on tables that never reached a bucket) is written by its locker, and emptied entry by entry
//!   by other lockers that ask for a strong lock on the table. Its mutex is locked before a bucket; see [`Fast`].
//! - `wait` is set to `Waiting` by its locker while it holds the bucket of the awaited name, to `Granted` or `Denied`
//!   by whoever decides that while holding the same bucket, to `Idle` by its locker. Locked after a bucket.
//! - `kept` (which of the requests in buckets may be parked, and which are) is added to by its locker, holding the
//!   bucket, and marked by it without; struck out by whoever holds the bucket of the name, or by its locker. Locked
//!   after a bucket, or alone.
//! - `totals` are written by the locker and read by anyone; so is `label`.

use crate::guarded::Guarded;
use crate::mode::{LockName, Mode};
use crate::queue::LockerId;
use crate::tuning::Inheritance;
use base::TableId;
use latch::RawMutex;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

const CHUNK: usize = 256;
const CHUNKS: usize = 256;
/// Tables whose intention locks fit a slot (TPC-C has nine); transactions over more use the buckets for the rest.
const FAST: usize = 16;
/// Requests in buckets that one locker may leave parked. More are given back.
const KEPT: usize = 8;

/// What became of an entry that another locker wanted out of the way.
pub(crate) enum Taken {
    InUse(Mode),
    Parked,
}

/// Intention locks of one locker that the table's buckets know nothing of.
///
/// ```text
///   word    | moved |  ...  | entry 2 | entry 1 | entry 0 |      two bits an entry: absent, parked, IS, IX
///   tables          |  ...  | table   | table   | table   |      said once an entry is there, and kept until it is absent
/// ```
///
/// The locker enters, raises and takes out entries under the mutex; other lockers take entries out under the mutex. The locker
/// alone takes up what is parked, and ends a transaction, by one change of the word without the mutex. So whoever holds
/// the mutex of another locker's list changes the word by a read-modify-write, and the locker under its own mutex need not.
pub(crate) struct Fast<M> {
    mutex: Guarded<M, ()>,
    word: AtomicU64,
    tables: [AtomicU16; FAST],
}

const ABSENT: u64 = 0;
const PARKED: u64 = 1;
const IS: u64 = 2;
const IX: u64 = 3;
/// An entry in use was moved to its bucket since the last [`Fast::leave`].
const MOVED: u64 = 1 << 63;
/// The upper bit of each entry: set while the entry is in use.
const USED: u64 = 0xaaaa_aaaa;
/// The lower one.
const LOWER: u64 = USED >> 1;

const _: () = assert!(2 * FAST == 32, "USED covers the entries, and MOVED lies beyond them");

const fn entry(word: u64, at: usize) -> u64 {
    word >> (2 * at) & 3
}

const fn with_entry(word: u64, at: usize, state: u64) -> u64 {
    word & !(3 << (2 * at)) | state << (2 * at)
}

fn state_of(mode: Mode) -> u64 {
    if mode == Mode::IS { IS } else { IX }
}

fn taken(state: u64) -> Taken {
    match state {
        PARKED => Taken::Parked,
        IS => Taken::InUse(Mode::IS),
        _ => Taken::InUse(Mode::IX),
    }
}

impl<M: RawMutex> Fast<M> {
    fn new() -> Self {
        Fast {
            mutex: Guarded::new(()),
            word: AtomicU64::new(0),
            tables: std::array::from_fn(|_| AtomicU16::new(0)),
        }
    }

    /// Keeps others from taking entries out. Relaxed loads of `word` and `tables` suffice inside: their writers hold it too,
    /// or are this very thread.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&Self) -> R) -> R {
        self.mutex.with(|()| f(self))
    }

    #[inline]
    fn find(&self, word: u64, table: TableId) -> Option<usize> {
        let there = (u64::BITS - (word & !MOVED).leading_zeros()).div_ceil(2) as usize;
        (0..there).find(|&at| entry(word, at) != ABSENT && self.tables[at].load(Ordering::Relaxed) == table.0)
    }

    /// Changes the word at once, if `f` wants it: the word of before. Where no other thread comes here a load and a store do.
    #[inline]
    fn change(&self, f: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        if M::SHARED {
            return self.word.fetch_update(Ordering::AcqRel, Ordering::Acquire, f).ok();
        }
        let before = self.word.load(Ordering::Relaxed);
        f(before).map(|after| {
            self.word.store(after, Ordering::Relaxed);
            before
        })
    }

    /// Enters or changes a lock of the transaction under way. By the locker, under the mutex.
    #[inline]
    pub(crate) fn put(&self, table: TableId, mode: Mode) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        let free = || {
            let absent = !(word | word >> 1) & LOWER;
            (absent != 0).then_some(absent.trailing_zeros() as usize / 2)
        };
        let Some(at) = self.find(word, table).or_else(free) else { return false };
        self.tables[at].store(table.0, Ordering::Relaxed);
        self.word.store(with_entry(word, at, state_of(mode)), Ordering::Relaxed);
        true
    }

    #[inline]
    pub(crate) fn has(&self, table: TableId) -> bool {
        self.find(self.word.load(Ordering::Relaxed), table).is_some()
    }

    /// The mode of an entry in use. Under the mutex.
    pub(crate) fn in_use(&self, table: TableId) -> Option<Mode> {
        let word = self.word.load(Ordering::Acquire);
        match taken(entry(word, self.find(word, table)?)) {
            Taken::InUse(mode) => Some(mode),
            Taken::Parked => None,
        }
    }

    /// Takes an entry out. Under the mutex.
    #[inline]
    pub(crate) fn take(&self, table: TableId) -> Option<Taken> {
        self.take_out(table, 0)
    }

    /// As [`Fast::take`]; the locker is told that an entry in use has gone to its bucket.
    pub(crate) fn rob(&self, table: TableId) -> Option<Taken> {
        self.take_out(table, MOVED)
    }

    fn take_out(&self, table: TableId, mark: u64) -> Option<Taken> {
        // Entries come and move under the mutex only, so this one stays where it is until it is absent.
        let at = self.find(self.word.load(Ordering::Relaxed), table)?;
        let before = self.change(|word| {
            let mark = if entry(word, at) > PARKED { mark } else { 0 };
            (entry(word, at) != ABSENT).then_some(with_entry(word, at, ABSENT) | mark)
        })?;
        Some(taken(entry(before, at)))
    }

    /// A parked entry goes into use again, with just the mode that is asked for. By the locker, without the mutex.
    #[inline]
    pub(crate) fn reuse(&self, table: TableId, mode: Mode) -> bool {
        let Some(at) = self.find(self.word.load(Ordering::Relaxed), table) else { return false };
        let change = |word| (entry(word, at) == PARKED).then_some(with_entry(word, at, state_of(mode)));
        self.change(change).is_some()
    }

    /// The end of a transaction: parks all that it used, or takes it out. Changes no entry and says false if some of what
    /// it used is in a bucket by now. By the locker, without the mutex.
    #[inline]
    pub(crate) fn leave(&self, inheritance: Inheritance) -> bool {
        let before = self.change(|word| {
            let used = word & USED;
            Some(match inheritance {
                _ if word & MOVED != 0 => word & !MOVED,
                Inheritance::Off => 0,
                Inheritance::On => word & !(used | used >> 1) | used >> 1,
            })
        });
        before.is_some_and(|word| word & MOVED == 0)
    }

    /// Under the mutex.
    pub(crate) fn clear(&self) {
        self.change(|_| Some(0));
    }
}

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
