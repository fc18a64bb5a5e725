//! Taking over a log: seal it, read it up to the seal, own it.

use crate::entry::{Entry, Kind, Term};
use crate::fault::Fault;
use crate::log::RelayLog;
use crate::milestone::Milestone;
use crate::signs::Signs;
use crate::tape::{Landed, Landing, Tape};
use crate::walker::{Place, Verdict, Walker};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Takes an entry that counts, with the place right behind it.
type Each<'a> = &'a mut dyn FnMut(&Place, &[u8]) -> Result<(), Fault>;

/// Whether a log may be opened although entries that had counted are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    #[default]
    Refuse,
    Accept,
}

/// How a log is taken over.
#[derive(Clone, Debug)]
pub struct TakeOver {
    /// How far the opener has the log. The default is its beginning.
    pub from: Place,
    /// The term that the opener has claimed. Without one, it takes the next.
    pub claim: Option<Term>,
    /// The payload of the seal.
    pub seal: Vec<u8>,
    pub loss: Loss,
    /// The number of entries that are known to have counted.
    pub at_least: u64,
    /// How long a service may give no answer, in all.
    pub patience: Duration,
}

impl Default for TakeOver {
    fn default() -> TakeOver {
        TakeOver {
            from: Place::default(),
            claim: None,
            seal: Vec::new(),
            loss: Loss::Refuse,
            at_least: 0,
            patience: Duration::from_secs(30),
        }
    }
}

/// A log that was taken over.
pub struct Opened {
    pub log: RelayLog,
    /// Right behind the seal.
    pub place: Place,
    /// What [`Loss::Accept`] has accepted.
    pub lost: Option<String>,
}

/// Seals the log on `tape` and reads it up to the seal. `each` gets the entries that count, in
/// order, each with the place right behind it.
///
/// # Errors
/// [`Fault`]; the seal may be on the tape all the same.
pub fn take_over(tape: Arc<dyn Tape>, how: &TakeOver, each: Each<'_>) -> Result<Opened, Fault> {
    let owner = world::entropy();
    let mut reading = Reading::new(how.from, how.loss);
    let until = Instant::now() + how.patience;
    // An opener that cannot read the log must not depose the owner.
    if let Ok((first, end)) = tape.range() {
        reading.require(&*tape, first, end)?;
    }
    let mut term = how.claim.unwrap_or(Term(how.from.term.0 + 1));
    loop {
        let position = put(&*tape, Entry::seal(term, owner, &how.seal).encode(), until)?;
        reading.up_to(&*tape, position, until, each)?;
        let place = reading.walker.place();
        if (place.term, place.owner) == (term, owner) {
            break;
        }
        if how.claim.is_some() {
            return Err(Fault::OldTerm { own: term, found: place.term });
        }
        term = Term(place.term.0 + 1);
    }
    let place = reading.walker.place();
    if place.counted < how.at_least {
        let short = Fault::Short { have: place.counted, counted: how.at_least };
        reading.accept(short)?;
    }
    let gone = |e: std::io::Error| Fault::Gone(format!("no thread for the relay: {e}"));
    let log = RelayLog::begin(tape, place).map_err(gone)?;
    Ok(Opened { log, place, lost: reading.lost })
}

/// How far the log on `tape` counts, read from `from` to its end. Nothing is appended: an owner
/// that writes goes on.
///
/// # Errors
/// [`Fault`].
pub(crate) fn reach(tape: &dyn Tape, from: Place, patience: Duration) -> Result<Place, Fault> {
    Ok(to_end(tape, (from, Signs::default()), patience, &mut |_, _| Ok(()))?.0)
}

/// As [`reach`], with what is known of the owner's folder from earlier readings; `each` gets the
/// entries that count.
pub(crate) fn to_end(
    tape: &dyn Tape,
    (from, signs): (Place, Signs),
    patience: Duration,
    each: Each<'_>,
) -> Result<(Place, Sight), Fault> {
    let until = Instant::now() + patience;
    let end = loop {
        match tape.range() {
            Ok((_, end)) => break end,
            Err(trouble) if Instant::now() >= until => return Err(unreadable(&trouble)),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    };
    let mut reading = Reading::new(from, Loss::Refuse);
    reading.sight.signs = signs;
    if end != from.next {
        reading.up_to(tape, end.saturating_sub(1), until, each)?;
    }
    Ok((reading.walker.place(), reading.sight))
}

fn unreadable(trouble: &crate::Trouble) -> Fault {
    Fault::Gone(format!("the relay cannot be read: {trouble}; open again"))
}

/// Appends an entry behind all that is on the tape. Returns its position.
pub(crate) fn put(tape: &dyn Tape, bytes: Vec<u8>, until: Instant) -> Result<u64, Fault> {
    let (landed, landings) = mpsc::channel();
    let landed = Mutex::new(landed);
    let landing: Landing = Arc::new(move |_, outcome| {
        let landed = landed.lock().expect("no holder of this lock panics");
        // An answer after the patience has ended is for no one.
        let _ = landed.send(outcome);
    });
    let bytes = Arc::new(bytes);
    let mut why = "no answer".to_owned();
    loop {
        tape.append(0, bytes.clone(), None, &landing);
        match landings.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Landed::At(position)) => return Ok(position),
            Ok(Landed::Unknown(told)) => why = told,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if Instant::now() >= until {
            return Err(Fault::Gone(format!(
                "the relay does not take an entry ({why}): is a quorum of its servers up and reachable? Start them, \
                 then open again"
            )));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// News for a reader besides the entries that count.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// The positions of milestones, in order.
    pub milestones: Vec<u64>,
    pub signs: Signs,
}

impl Sight {
    fn see(&mut self, position: u64, verdict: Verdict) {
        match verdict {
            Verdict::Milestone => self.milestones.push(position),
            Verdict::Seals => self.signs.seal(position),
            Verdict::Counts { .. } => self.signs.entry(position),
            Verdict::Stale | Verdict::Early => {}
        }
    }
}

struct Reading {
    walker: Walker,
    sight: Sight,
    lost: Option<String>,
    loss: Loss,
}

/// Entries that are read in one piece by a search.
const STRETCH: u64 = 1 << 12;

/// The milestone on the tape, which has the positions `first..end`, that announced a trim to
/// `first` or further.
pub(crate) fn announced(tape: &dyn Tape, (first, end): (u64, u64)) -> Result<Option<Milestone>, Fault> {
    let mut found = None;
    for from in (first..end).step_by(STRETCH as usize) {
        let mut look = |_, bytes: &[u8]| {
            let entry = Entry::decode(bytes).filter(|entry| entry.kind == Kind::Milestone);
            let milestone = entry.and_then(|entry| Milestone::decode(entry.payload));
            if let Some(there) = milestone.filter(|there| there.begins >= first) {
                found.get_or_insert(there);
            }
        };
        tape.read(from, end.min(from + STRETCH), &mut look).map_err(|trouble| unreadable(&trouble))?;
        if found.is_some() {
            break;
        }
    }
    Ok(found)
}

/// Why a reader at position `next` (0: at the beginning) finds the log from `first` on only: it was
/// trimmed, or has lost its beginning.
pub(crate) fn cut_off(tape: &dyn Tape, next: u64, (first, end): (u64, u64)) -> Fault {
    let what = || {
        format!(
            "the relay has it from position {first} on, and no entry says that the log was trimmed to there"
        )
    };
    match announced(tape, (first, end)) {
        Ok(Some(Milestone { note, .. })) => Fault::Trimmed { have: next.saturating_sub(1), first, note },
        Ok(None) => Fault::Damaged { position: next.max(1), what: what() },
        Err(fault) => fault,
    }
}

impl Reading {
    fn new(from: Place, loss: Loss) -> Reading {
        Reading { walker: Walker::from(from), sight: Sight::default(), lost: None, loss }
    }

    /// Reads on, up to and with the seal at `position`.
    fn up_to(&mut self, tape: &dyn Tape, position: u64, until: Instant, each: Each<'_>) -> Result<(), Fault> {
        loop {
            let from = self.first(tape, position)?;
            let mut fault = None;
            let mut offer = |at, bytes: &[u8]| {
                if fault.is_none() {
                    fault = self.offer(at, bytes, each).err();
                }
            };
            let trouble = match from {
                Ok(from) => tape.read(from, position + 1, &mut offer).err(),
                Err(trouble) => Some(trouble),
            };
            if let Some(fault) = fault {
                // The position may have been removed meanwhile.
                let _ = self.first(tape, position)?;
                return Err(fault);
            }
            let next = self.walker.place().next;
            match trouble {
                None if next > position => return Ok(()),
                None => {
                    let _ = self.first(tape, position)?;
                    let what = "the position is not there".to_owned();
                    return self.accept(Fault::Damaged { position: next, what });
                }
                Some(trouble) if Instant::now() >= until => return Err(unreadable(&trouble)),
                Some(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// The position from which to read.
    fn first(&self, tape: &dyn Tape, seal: u64) -> Result<Result<u64, crate::Trouble>, Fault> {
        let next = self.walker.place().next;
        let (first, end) = match tape.range() {
            Ok(range) => range,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if next > seal {
            return Err(Fault::Stranger(format!(
                "this folder has the relay's log up to position {next}, and the log ends at {seal}: it is another log, \
                 or the relay has lost its data"
            )));
        }
        if end <= seal {
            return Ok(Err(crate::Trouble(
                "the server that answers has not read its own end yet".to_owned(),
            )));
        }
        self.require(tape, first, end)?;
        Ok(Ok(next.max(first)))
    }

    /// # Errors
    /// The tape, which has `first..end`, does not have the next position any more.
    fn require(&self, tape: &dyn Tape, first: u64, end: u64) -> Result<(), Fault> {
        let next = self.walker.place().next;
        if first > next.max(1) { Err(cut_off(tape, next, (first, end))) } else { Ok(()) }
    }

    fn offer(&mut self, position: u64, bytes: &[u8], each: Each<'_>) -> Result<(), Fault> {
        let verdict = self.walker.offer(position, bytes);
        verdict.iter().for_each(|verdict| self.sight.see(position, *verdict));
        match verdict {
            Ok(Verdict::Counts { .. }) => {
                let entry = Entry::decode(bytes).filter(|e| e.kind == Kind::Bytes);
                each(&self.walker.place(), entry.map_or(&[][..], |e| e.payload))
            }
            Ok(Verdict::Seals | Verdict::Stale | Verdict::Early | Verdict::Milestone) => Ok(()),
            Err(fault) => {
                self.accept(fault)?;
                self.walker.pass(position);
                Ok(())
            }
        }
    }

    /// Notes a loss if it may be accepted.
    fn accept(&mut self, fault: Fault) -> Result<(), Fault> {
        if self.loss == Loss::Refuse {
            return Err(fault);
        }
        self.lost.get_or_insert(fault.to_string());
        Ok(())
    }
}
