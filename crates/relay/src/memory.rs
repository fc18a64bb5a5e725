//! A tape in memory, with the faults of a network: for tests and models.
//!
//! ```text
//!   owner --append--> Line: sent, not delivered --deliver--> Shelf: position
//!                           | lose:         Unknown, never delivered
//!                           | lose_answer:  delivered, Unknown
//!                           | delay:        Unknown, delivered later (behind a seal, perhaps)
//! ```

use crate::fault::Trouble;
use crate::tape::{Landed, Landing, Tape};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The service: what it has, at positions from 1 on.
#[derive(Default)]
pub struct Shelf {
    there: Mutex<There>,
}

#[derive(Default)]
struct There {
    /// The number of positions that were removed, from 1 on.
    removed: u64,
    entries: Vec<Option<Vec<u8>>>,
}

impl There {
    fn place(&self, position: u64) -> usize {
        (position - 1 - self.removed) as usize
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    fn put(&self, bytes: &[u8]) -> u64 {
        lock(&self.there).entries.push(Some(bytes.to_vec()));
        self.len()
    }

    /// Loses what lies at `position`, as a service with damaged files does.
    pub fn forget(&self, position: u64) {
        let mut there = lock(&self.there);
        let place = there.place(position);
        there.entries[place] = None;
    }

    /// Loses everything from `position` on.
    pub fn cut(&self, position: u64) {
        let mut there = lock(&self.there);
        let place = there.place(position);
        there.entries.truncate(place);
    }

    /// Loses everything before `position`, or removes it: the service does the same for both.
    pub fn behead(&self, position: u64) {
        let mut there = lock(&self.there);
        let gone = position.saturating_sub(1 + there.removed).min(there.entries.len() as u64);
        there.entries.drain(..gone as usize);
        there.removed += gone;
    }

    /// Takes one entry out: those behind it move up, as in a service that lost a record and
    /// numbers what it has.
    pub fn close_up(&self, position: u64) {
        let mut there = lock(&self.there);
        let place = there.place(position);
        there.entries.remove(place);
    }

    /// The last position.
    pub fn len(&self) -> u64 {
        let there = lock(&self.there);
        there.removed + there.entries.len() as u64
    }

    /// The first position that is there.
    pub fn first(&self) -> u64 {
        lock(&self.there).removed + 1
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

struct Sent {
    ticket: u64,
    bytes: Arc<Vec<u8>>,
    landing: Landing,
}

/// How a line behaves when nothing steers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// What is sent waits for the calls below.
    Steered,
    /// What is sent is delivered at once, and lands from another thread.
    Prompt,
}

/// One owner's connection to a shelf.
pub struct Line {
    shelf: Arc<Shelf>,
    service: Service,
    sent: Mutex<Vec<Sent>>,
    late: Mutex<Vec<Arc<Vec<u8>>>>,
    /// Nothing passes in either direction.
    is_cut: Mutex<bool>,
}

impl Line {
    pub fn new(shelf: &Arc<Shelf>, service: Service) -> Line {
        let (sent, late) = (Mutex::default(), Mutex::default());
        Line { shelf: shelf.clone(), service, sent, late, is_cut: Mutex::new(false) }
    }

    /// Cuts the line or joins it again. While it is cut, appends land as unknown and reads fail.
    pub fn set_cut(&self, is_cut: bool) {
        *lock(&self.is_cut) = is_cut;
    }

    /// The number of appends that wait for one of the calls below.
    pub fn waiting(&self) -> usize {
        lock(&self.sent).len()
    }

    pub fn delayed(&self) -> usize {
        lock(&self.late).len()
    }

    fn take(&self, n: usize) -> Sent {
        lock(&self.sent).remove(n)
    }

    /// The `n`th append that waits reaches the shelf, and its owner learns where.
    pub fn deliver(&self, n: usize) {
        let Sent { ticket, bytes, landing } = self.take(n);
        let position = self.shelf.put(&bytes);
        landing(ticket, Landed::At(position));
    }

    /// It is lost.
    pub fn lose(&self, n: usize) {
        let Sent { ticket, landing, .. } = self.take(n);
        landing(ticket, Landed::Unknown("lost".to_owned()));
    }

    /// It reaches the shelf, and the answer is lost.
    pub fn lose_answer(&self, n: usize) {
        let Sent { ticket, bytes, landing } = self.take(n);
        self.shelf.put(&bytes);
        landing(ticket, Landed::Unknown("no answer".to_owned()));
    }

    /// Its owner gives up waiting; it reaches the shelf with [`Line::deliver_late`].
    pub fn delay(&self, n: usize) {
        let Sent { ticket, bytes, landing } = self.take(n);
        lock(&self.late).push(bytes);
        landing(ticket, Landed::Unknown("no answer in time".to_owned()));
    }

    pub fn deliver_late(&self, n: usize) {
        let bytes = lock(&self.late).remove(n);
        self.shelf.put(&bytes);
    }

    fn passes(&self) -> Result<(), Trouble> {
        if *lock(&self.is_cut) { Err(Trouble("the line is cut".to_owned())) } else { Ok(()) }
    }
}

impl Tape for Line {
    fn append(&self, ticket: u64, bytes: Arc<Vec<u8>>, _after: Option<u64>, landing: &Landing) {
        if self.service == Service::Steered {
            lock(&self.sent).push(Sent { ticket, bytes, landing: landing.clone() });
            return;
        }
        let landed = match self.passes() {
            Ok(()) => Landed::At(self.shelf.put(&bytes)),
            Err(trouble) => Landed::Unknown(trouble.0),
        };
        let landing = landing.clone();
        std::thread::spawn(move || landing(ticket, landed));
    }

    fn range(&self) -> Result<(u64, u64), Trouble> {
        self.passes()?;
        Ok((self.shelf.first(), self.shelf.len() + 1))
    }

    fn read(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, &[u8])) -> Result<(), Trouble> {
        self.passes()?;
        let (first, entries) = {
            let there = lock(&self.shelf.there);
            let begin = from.max(there.removed + 1);
            let skipped = (begin - 1 - there.removed) as usize;
            let many = to.saturating_sub(begin) as usize;
            (begin, there.entries.iter().skip(skipped).take(many).cloned().collect::<Vec<_>>())
        };
        for (position, bytes) in (first..to).zip(&entries) {
            if let Some(bytes) = bytes {
                each(position, bytes);
            }
        }
        Ok(())
    }

    fn trim(&self, first: u64) -> Result<(), Trouble> {
        self.passes()?;
        self.shelf.behead(first);
        Ok(())
    }
}
