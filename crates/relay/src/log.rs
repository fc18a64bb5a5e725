//! A log with its owner: appends from any thread, and a thread that reads the tape after trouble.
//!
//! Access rules: the thread that appends and the service's thread that tells of a landing take the
//! lock of [`State`], for as long as the owner thinks. The tape is read without the lock: while the
//! owner is walking it sends nothing, and counts only what the walk finds.

use crate::entry::Term;
use crate::fault::{Fault, Trouble};
use crate::owner::{Owner, Settled};
use crate::tape::{Landed, Landing, Tape};
use crate::walker::Place;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two attempts to read the tape.
const PAUSE: Duration = Duration::from_millis(100);
/// A tape that for this long ends before an entry that counts has lost it. A server that is not
/// the leader any more says so for less time than that.
const SHORT: Duration = Duration::from_secs(20);

/// One owner's log. Dropping it does not wait for what is under way.
pub struct RelayLog {
    shared: Arc<Shared>,
    mender: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when more counts, and when there is a fault: for those that wait for an entry.
    changed: Condvar,
    /// Signalled when the tape has to be read, and at the end: for the mender.
    mending: Condvar,
    kept: AtomicU64,
    fault: OnceLock<Fault>,
    tape: Arc<dyn Tape>,
    landing: Landing,
}

struct State {
    owner: Owner,
    has_to_walk: bool,
    stop: bool,
}

impl Shared {
    /// A panic of a holder is a bug of the owner's rules; its state is consistent at every step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn landed(&self, ticket: u64, landed: Landed) {
        let mut state = self.state();
        match state.owner.landed(ticket, landed, &*self.tape, &self.landing) {
            Settled::Nothing => return,
            Settled::Counted => {}
            Settled::Walk => {
                state.has_to_walk = true;
                self.mending.notify_one();
            }
        }
        self.publish(state);
    }

    /// Tells how far the log counts. The lock is released before, so that the one that is woken
    /// does not wait for it.
    fn publish(&self, state: MutexGuard<'_, State>) {
        self.kept.store(state.owner.place().counted, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    fn fail(&self, fault: Fault) {
        let _ = self.fault.set(fault);
        // A waiter has not looked yet, or is asleep.
        drop(self.state());
        self.changed.notify_all();
    }

    /// Body of the mender's thread.
    fn mend(&self) {
        loop {
            let mut state = self.state();
            while !state.has_to_walk && !state.stop {
                state = self.mending.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.stop {
                return;
            }
            drop(state);
            let began = Instant::now();
            loop {
                match self.walk(began) {
                    Ok(None) => break,
                    Ok(Some(_)) if self.state().stop => return,
                    Ok(Some(_)) => std::thread::sleep(PAUSE),
                    Err(fault) => return self.fail(fault),
                }
            }
        }
    }

    /// Reads the tape from the last entry that counts to its end. Returns why it could not.
    fn walk(&self, began: Instant) -> Result<Option<Trouble>, Fault> {
        let place = self.state().owner.place();
        let (first, end) = match self.tape.range() {
            Ok(range) => range,
            Err(trouble) => return Ok(Some(trouble)),
        };
        if end < place.next {
            if began.elapsed() < SHORT {
                return Ok(Some(Trouble("the tape ends too early".to_owned())));
            }
            let what = format!("the tape ends here, and entry {} had counted", place.counted);
            return Err(Fault::Damaged { position: end, what });
        }
        if first > place.next {
            let what = format!("the positions before {first} are not there");
            return Err(Fault::Damaged { position: place.next, what });
        }
        let mut fault = None;
        let mut each = |position, bytes: &[u8]| {
            if fault.is_none() {
                fault = self.state().owner.found(position, bytes).err();
            }
        };
        let read = self.tape.read(place.next, end, &mut each);
        self.publish(self.state());
        let mut state = self.state();
        match (fault, read) {
            (Some(fault), _) => Err(fault),
            (None, Err(trouble)) => Ok(Some(trouble)),
            (None, Ok(())) if state.owner.place().next < end => {
                let (position, what) = (state.owner.place().next, "the position is not there".to_owned());
                Err(Fault::Damaged { position, what })
            }
            (None, Ok(())) => {
                state.has_to_walk = false;
                state.owner.walked(&*self.tape, &self.landing);
                Ok(None)
            }
        }
    }
}

impl RelayLog {
    /// The log of an owner that has sealed it and read it up to `place`.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn begin(tape: Arc<dyn Tape>, place: Place) -> std::io::Result<RelayLog> {
        let shared = Arc::new_cyclic(|weak: &Weak<Shared>| {
            let weak = weak.clone();
            let landing: Landing = Arc::new(move |ticket, landed| {
                if let Some(shared) = weak.upgrade() {
                    shared.landed(ticket, landed);
                }
            });
            Shared {
                state: Mutex::new(State { owner: Owner::new(place), has_to_walk: false, stop: false }),
                changed: Condvar::new(),
                mending: Condvar::new(),
                kept: AtomicU64::new(place.counted),
                fault: OnceLock::new(),
                tape,
                landing,
            }
        });
        let own = shared.clone();
        let mender = std::thread::Builder::new().name("relay-mender".into()).spawn(move || own.mend())?;
        Ok(RelayLog { shared, mender: Some(mender) })
    }

    /// Appends an entry and returns its index, without waiting.
    pub fn append(&self, payload: &[u8]) -> u64 {
        let shared = &*self.shared;
        shared.state().owner.append(payload, &*shared.tape, &shared.landing)
    }

    /// A quorum has all entries up to this index.
    pub fn kept(&self) -> u64 {
        self.shared.kept.load(Ordering::Acquire)
    }

    /// The index that the next append gets.
    pub fn next_index(&self) -> u64 {
        self.shared.state().owner.next_index()
    }

    /// The largest payload of an entry, in bytes.
    pub fn most(&self) -> usize {
        self.shared.tape.most() - crate::entry::HEAD
    }

    pub fn term(&self) -> Term {
        self.shared.state().owner.term()
    }

    /// How far the log counts.
    pub fn place(&self) -> Place {
        self.shared.state().owner.place()
    }

    pub fn fault(&self) -> Option<Fault> {
        self.shared.fault.get().cloned()
    }

    /// Waits until a quorum has all entries up to `index`.
    ///
    /// # Errors
    /// The fault after which nothing more counts.
    pub fn wait(&self, index: u64) -> Result<(), Fault> {
        let mut state = self.shared.state();
        while self.kept() < index {
            if let Some(fault) = self.fault() {
                return Err(fault);
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }
}

impl Drop for RelayLog {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.mending.notify_one();
        if let Some(mender) = self.mender.take() {
            // A mender that panicked has said so on standard error.
            let _ = mender.join();
        }
    }
}
