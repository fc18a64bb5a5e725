//! The owner of a log, as a state machine: appends and landings in, tape calls out. It has no
//! thread and never waits.
//!
//! ```text
//!   flowing:  append, append, ... --positions follow one another--> count
//!      | a position is unknown, or does not follow
//!   draining: nothing is sent until all that is under way has landed
//!      |
//!   walking:  the tape is read from the last entry that counts --> count what is there
//!      |
//!   flowing:  all others are sent again
//! ```

use crate::entry::{Chain, Entry, Kind, Term};
use crate::fault::Fault;
use crate::tape::{Landed, Landing, Tape};
use crate::walker::{Place, Verdict, Walker};
use std::collections::VecDeque;
use std::sync::Arc;

/// Appends under way at a time. More bring no throughput at the services measured, fewer do not
/// hide a round trip.
const WINDOW: usize = 16;

/// The result of a landing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Nothing,
    /// More entries count.
    Counted,
    /// The tape has to be read: [`Owner::found`] for each entry from [`Owner::place`]'s next
    /// position to the tape's end, then [`Owner::walked`].
    Walk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Flowing,
    Draining,
    Walking,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Flying { ticket: u64 },
    At(u64),
    Unknown,
}

struct Pending {
    #[cfg(test)]
    index: u64,
    bytes: Arc<Vec<u8>>,
    state: State,
}

/// See the top of the file. Invariant: `pending` holds the entries that do not count, in the order
/// of their indexes, the first with index `counted + 1`.
pub struct Owner {
    term: Term,
    owner: u64,
    walker: Walker,
    pending: VecDeque<Pending>,
    /// The last entry made, and the chain over it and all before.
    made: u64,
    chain: Chain,
    tickets: u64,
    flying: usize,
    mode: Mode,
    /// A bug for the tests of the fence: an entry counts when it has any position.
    #[cfg(test)]
    pub(crate) trusts_positions: bool,
}

impl Owner {
    /// An owner that has sealed the log and read it up to its seal.
    pub fn new(place: Place) -> Owner {
        Owner {
            term: place.term,
            owner: place.owner,
            walker: Walker::from(place),
            pending: VecDeque::new(),
            made: place.counted,
            chain: place.chain,
            tickets: 0,
            flying: 0,
            mode: Mode::Flowing,
            #[cfg(test)]
            trusts_positions: false,
        }
    }

    pub fn term(&self) -> Term {
        self.term
    }

    /// How far the log counts.
    pub fn place(&self) -> Place {
        self.walker.place()
    }

    /// The index that the next append gets.
    pub fn next_index(&self) -> u64 {
        self.made + 1
    }

    /// Makes the next entry and sends it when it is its turn. Returns its index.
    pub fn append(&mut self, payload: &[u8], tape: &dyn Tape, landing: &Landing) -> u64 {
        let (term, owner, index) = (self.term, self.owner, self.made + 1);
        let counted = self.place().counted;
        let entry = Entry { term, owner, index, chain: self.chain, counted, kind: Kind::Bytes, payload };
        let bytes = entry.encode();
        self.chain = self.chain.with(&bytes);
        self.made = index;
        let pending = Pending {
            #[cfg(test)]
            index,
            bytes: Arc::new(bytes),
            state: State::Waiting,
        };
        self.pending.push_back(pending);
        self.send(tape, landing);
        index
    }

    fn send(&mut self, tape: &dyn Tape, landing: &Landing) {
        if self.mode != Mode::Flowing {
            return;
        }
        let next = self.place().next;
        for (n, pending) in (0..).zip(self.pending.iter_mut().take(WINDOW)) {
            if pending.state == State::Waiting {
                self.tickets += 1;
                self.flying += 1;
                pending.state = State::Flying { ticket: self.tickets };
                tape.append(self.tickets, pending.bytes.clone(), Some(next + n - 1), landing);
            }
        }
    }

    /// An append has landed.
    pub fn landed(&mut self, ticket: u64, landed: Landed, tape: &dyn Tape, landing: &Landing) -> Settled {
        let state = State::Flying { ticket };
        let Some(pending) = self.pending.iter_mut().find(|p| p.state == state) else {
            return Settled::Nothing;
        };
        self.flying -= 1;
        pending.state = match landed {
            Landed::At(position) => State::At(position),
            Landed::Unknown(_) => State::Unknown,
        };
        if pending.state == State::Unknown {
            self.mode = Mode::Draining;
        }
        let before = self.place().counted;
        self.count();
        if self.mode == Mode::Draining && self.flying == 0 {
            self.mode = Mode::Walking;
            return Settled::Walk;
        }
        self.send(tape, landing);
        if self.place().counted > before { Settled::Counted } else { Settled::Nothing }
    }

    /// Counts the first entries, as long as their positions follow one another.
    fn count(&mut self) {
        while let Some(&Pending { state: State::At(position), ref bytes, .. }) = self.pending.front() {
            if !self.follows(position) {
                self.mode = Mode::Draining;
                return;
            }
            self.walker.count(position, bytes);
            self.pending.pop_front();
        }
    }

    fn follows(&self, position: u64) -> bool {
        #[cfg(test)]
        if self.trusts_positions {
            return true;
        }
        position == self.place().next
    }

    /// The finding of the walk at the next position.
    ///
    /// # Errors
    /// [`Fault::Deposed`], or what [`Walker::offer`] has.
    pub fn found(&mut self, position: u64, bytes: &[u8]) -> Result<(), Fault> {
        match self.walker.offer(position, bytes)? {
            Verdict::Counts { .. } => drop(self.pending.pop_front()),
            Verdict::Seals => return Err(Fault::Deposed { own: self.term, by: self.place().term }),
            Verdict::Stale | Verdict::Early | Verdict::Milestone => {}
        }
        Ok(())
    }

    /// The walk has reached the end of the tape: what is not there is sent again.
    pub fn walked(&mut self, tape: &dyn Tape, landing: &Landing) {
        self.pending.iter_mut().for_each(|p| p.state = State::Waiting);
        self.mode = Mode::Flowing;
        self.send(tape, landing);
    }

    /// The entries that do not count, for the tests of the invariant.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = u64> + '_ {
        self.pending.iter().map(|p| p.index)
    }
}
