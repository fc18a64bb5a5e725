//! The fence under random interleavings: owners and successors over one tape and a network that
//! loses, delays and reorders. Each later reader counts all that an owner has counted, at the same
//! index, with the same bytes. A keeper appends milestones, and trims the tape to one that neither
//! its copy nor the last owner needs.

use crate::entry::{Entry, Kind, Term};
use crate::fault::Fault;
use crate::memory::{Line, Service, Shelf};
use crate::owner::{Owner, Settled};
use crate::tape::{Landed, Landing, Tape};
use crate::walker::{Place, Verdict, Walker};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// Landings that have not been told to the owner.
type News = Arc<Mutex<VecDeque<(u64, Landed)>>>;

struct Site {
    owner: Owner,
    line: Arc<Line>,
    news: News,
    landing: Landing,
    /// What the owner has made, by index from 1 on.
    made: Vec<Vec<u8>>,
    before: u64,
    /// What the next owner found: more must not count here.
    limit: u64,
    is_over: bool,
    /// It needs positions that were trimmed.
    is_cut_off: bool,
    wants_walk: bool,
}

impl Site {
    fn append(&mut self, payload: Vec<u8>) {
        self.owner.append(&payload, &*self.line, &self.landing);
        self.made.push(payload);
    }

    fn hear(&mut self) {
        let Some((ticket, landed)) = self.news.lock().unwrap().pop_front() else { return };
        if self.owner.landed(ticket, landed, &*self.line, &self.landing) == Settled::Walk {
            self.wants_walk = true;
        }
    }

    fn walk(&mut self) {
        let (first, end) = self.line.range().unwrap();
        if first > self.owner.place().next {
            // A successor has written since.
            (self.is_over, self.is_cut_off) = (true, true);
            return;
        }
        let mut fault = None;
        self.line
            .read(self.owner.place().next, end, &mut |position, bytes| {
                if fault.is_none() {
                    fault = self.owner.found(position, bytes).err();
                }
            })
            .unwrap();
        self.wants_walk = false;
        match fault {
            None => self.owner.walked(&*self.line, &self.landing),
            Some(Fault::Deposed { own, by }) => {
                assert!(by > own);
                self.is_over = true;
            }
            Some(fault) => panic!("{fault}"),
        }
    }
}

/// All entries that count up to some place, by index.
type Base = (Vec<Vec<u8>>, Place);

/// Those on the tape, up to `to`, behind those of a copy.
fn read(shelf: &Arc<Shelf>, copy: &Base, to: u64) -> Base {
    let line = Line::new(shelf, Service::Prompt);
    let (mut walker, mut out) = (Walker::from(copy.1), copy.0.clone());
    line.read(copy.1.next.max(1), to, &mut |position, bytes| {
        // With the planted bug, a successor finds a hole.
        if let Ok(Verdict::Counts { index }) = walker.offer(position, bytes) {
            assert_eq!(index, out.len() as u64 + 1);
            out.push(Entry::decode(bytes).filter(|e| e.kind == Kind::Bytes).unwrap().payload.to_vec());
        }
    })
    .unwrap();
    (out, walker.place())
}

/// A new owner: its seal is on the tape, and it has read up to it.
fn take_over(shelf: &Arc<Shelf>, copy: &Base, term: u64, trusts_positions: bool) -> (Site, Vec<Vec<u8>>) {
    let sealing = Line::new(shelf, Service::Steered);
    let nothing: Landing = Arc::new(|_, _| {});
    let seal = Entry::seal(Term(term), term + 100, b"").encode();
    sealing.append(0, Arc::new(seal), None, &nothing);
    sealing.deliver(0);
    let position = shelf.len();
    let (found, place) = read(shelf, copy, position + 1);
    let news = News::default();
    let own = news.clone();
    let landing: Landing = Arc::new(move |ticket, landed| own.lock().unwrap().push_back((ticket, landed)));
    let mut owner = Owner::new(Place { next: position + 1, ..place });
    owner.trusts_positions = trusts_positions;
    let line = Arc::new(Line::new(shelf, Service::Steered));
    let before = found.len() as u64;
    let (made, limit, is_over, is_cut_off, wants_walk) = (Vec::new(), u64::MAX, false, false, false);
    let site = Site { owner, line, news, landing, made, before, limit, is_over, is_cut_off, wants_walk };
    (site, found)
}

/// Appends a milestone, or trims to one before `limit`.
fn keep(shelf: &Arc<Shelf>, milestones: &mut Vec<u64>, random: &mut fastrand::Rng, limit: u64) {
    if random.bool() {
        let line = Line::new(shelf, Service::Steered);
        let nothing: Landing = Arc::new(|_, _| {});
        let entry = Entry::milestone(random.u64(..), b"").encode();
        line.append(0, Arc::new(entry), None, &nothing);
        line.deliver(0);
        milestones.push(shelf.len());
    } else if let Some(to) = milestones.iter().rev().find(|at| **at <= limit) {
        shelf.behead(*to);
    }
}

/// A bug for which the tests look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// Owners count entries at any position.
    TrustsPositions,
    /// The keeper trims to where its copy ends, also if the last owner is not there.
    TrimsToItsCopy,
}

/// One random history; the first violation of the promise.
fn history(seed: u64, planted: Planted) -> Result<(), String> {
    let trusts_positions = planted == Planted::TrustsPositions;
    let mut random = fastrand::Rng::with_seed(seed);
    let shelf = Arc::new(Shelf::default());
    let (mut copy, mut milestones) = (Base::default(), Vec::new());
    let mut sites: Vec<Site> = Vec::new();
    // What some owner has counted, by index.
    let mut counted: Vec<Vec<u8>> = Vec::new();
    for step in 0..400 {
        if sites.is_empty() || (sites.len() < 4 && random.u32(..).is_multiple_of(90)) {
            let (site, found) = take_over(&shelf, &copy, sites.len() as u64 + 1, trusts_positions);
            if found.len() < counted.len() || found[..counted.len()] != counted[..] {
                let (has, all) = (found.len(), counted.len());
                return Err(format!("step {step}: the successor has {has} entries, {all} had counted"));
            }
            // What the successor found counts, whether or not its owner learns of that.
            counted = found;
            sites.iter_mut().for_each(|old| old.limit = old.limit.min(counted.len() as u64));
            sites.push(site);
        }
        let youngest = sites.len() - 1;
        if random.u32(..).is_multiple_of(25) {
            copy = read(&shelf, &copy, shelf.len() + 1);
            let own = match planted {
                Planted::TrimsToItsCopy => u64::MAX,
                _ => sites[youngest].owner.place().next,
            };
            keep(&shelf, &mut milestones, &mut random, copy.1.next.min(own));
        }
        if sites[youngest].is_cut_off {
            return Err(format!("step {step}: the owner needs what was trimmed"));
        }
        // Deposed owners that do not know it go on, most often the last one.
        let at = if random.u32(..).is_multiple_of(3) { random.usize(..sites.len()) } else { youngest };
        let site = &mut sites[at];
        if site.is_over {
            continue;
        }
        let waiting = site.line.waiting();
        let some = |random: &mut fastrand::Rng, of: usize| random.usize(..of);
        match random.u32(..20) {
            0..6 => site.append(vec![at as u8, step as u8, (step >> 8) as u8]),
            6..12 if waiting > 0 => site.line.deliver(0),
            // Out of order.
            12 if waiting > 0 => site.line.deliver(some(&mut random, waiting)),
            13 if waiting > 0 && random.bool() => site.line.lose(some(&mut random, waiting)),
            14 if waiting > 0 && random.bool() => site.line.lose_answer(some(&mut random, waiting)),
            15 if waiting > 0 && random.bool() => site.line.delay(some(&mut random, waiting)),
            16 if site.line.delayed() > 0 => site.line.deliver_late(0),
            17 if site.wants_walk => site.walk(),
            _ => site.hear(),
        }
        let (kept, before) = (site.owner.place().counted, site.before);
        let pending: Vec<u64> = site.owner.waiting().collect();
        assert!(pending.iter().copied().eq(kept + 1..site.owner.next_index()), "{pending:?} behind {kept}");
        if kept > site.limit {
            return Err(format!(
                "step {step}: a deposed owner counts {kept}, its successor found {}",
                site.limit
            ));
        }
        let made = &site.made[..(kept - before) as usize];
        counted.extend_from_slice(made.get(counted.len() - before as usize..).unwrap_or_default());
        if &counted[before as usize..kept as usize] != made {
            return Err(format!("step {step}: two owners have counted different entries up to {kept}"));
        }
    }
    let (all, _) = read(&shelf, &copy, shelf.len() + 1);
    if all.len() < counted.len() || all[..counted.len()] != counted[..] {
        return Err(format!("at the end {} entries, {} had counted", all.len(), counted.len()));
    }
    Ok(())
}

const SEEDS: u64 = 4000;

#[test]
fn what_counted_for_any_owner_counts_for_each_successor() {
    for seed in 0..SEEDS {
        history(seed, Planted::Nothing).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn an_owner_that_trusts_any_position_is_found() {
    let found = (0..SEEDS).filter(|&seed| history(seed, Planted::TrustsPositions).is_err()).count();
    assert!(found > SEEDS as usize / 100, "only {found} of {SEEDS} histories show the planted bug");
}

#[test]
fn a_keeper_that_trims_what_the_owner_needs_is_found() {
    let found = (0..SEEDS).filter(|&seed| history(seed, Planted::TrimsToItsCopy).is_err()).count();
    assert!(found > SEEDS as usize / 100, "only {found} of {SEEDS} histories show the planted bug");
}

#[test]
fn an_undisturbed_owner_counts_everything() {
    let shelf = Arc::new(Shelf::default());
    let (mut site, _) = take_over(&shelf, &Base::default(), 1, false);
    (0..100).for_each(|n| site.append(vec![n]));
    while site.line.waiting() > 0 {
        site.line.deliver(0);
        site.hear();
    }
    assert_eq!(site.owner.place().counted, 100);
    assert_eq!(read(&shelf, &Base::default(), 1000).0, site.made);
}
