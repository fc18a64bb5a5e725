//! Random schedules in one thread, against a model that consists of the rules: per name a list of
//! requests in order of arrival, and deadlock as reachability. Each answer must be the model's,
//! with and without inheritance.

use crate::{Table, inheriting, is_granted, poll};
use base::TableId;
use locks::{Acquired, Cancelled, Gap, LockName, Locker, Mode, Row};
use std::collections::BTreeSet;
use std::task::Poll;

const LOCKERS: usize = 5;

#[derive(Clone, Copy)]
struct Request {
    name: LockName,
    who: usize,
    granted: Mode,
    wanted: Mode,
}

impl Request {
    fn waits(&self) -> bool {
        self.granted != self.wanted
    }
}

/// All requests, the oldest first. A conversion that must wait moves to the end.
#[derive(Default)]
struct Model(Vec<Request>);

impl Model {
    fn find(&self, name: LockName, who: usize) -> Option<usize> {
        self.0.iter().position(|r| r.name == name && r.who == who)
    }

    fn holds(&self, name: LockName, who: usize) -> Mode {
        self.find(name, who).map_or(Mode::NONE, |i| self.0[i].granted)
    }

    /// The lockers for which the request at `at` waits.
    fn blockers(&self, at: usize) -> BTreeSet<usize> {
        let r = self.0[at];
        let converts = r.granted != Mode::NONE;
        let blocks = |(i, o): (usize, &Request)| {
            let ahead = !converts && o.waits() && (o.granted != Mode::NONE || i < at);
            let other = o.name == r.name && o.who != r.who;
            let clash = !o.granted.compatible(r.wanted) || ahead && !o.wanted.compatible(r.wanted);
            (other && clash).then_some(o.who)
        };
        self.0.iter().enumerate().filter_map(blocks).collect()
    }

    fn waits_for_itself(&self, who: usize) -> bool {
        let (mut reached, mut next) = (BTreeSet::new(), vec![who]);
        while let Some(at) = next.pop() {
            let waiting = self.0.iter().position(|r| r.who == at && r.waits());
            for b in waiting.map(|at| self.blockers(at)).unwrap_or_default() {
                if reached.insert(b) {
                    next.push(b);
                }
            }
        }
        reached.contains(&who)
    }

    fn acquire(&mut self, name: LockName, who: usize, mode: Mode) -> Acquired {
        let wanted = self.holds(name, who).with(mode);
        let at = match self.find(name, who) {
            Some(at) if self.0[at].granted == wanted => return Acquired::Granted,
            Some(at) => {
                let r = self.0.remove(at);
                self.0.push(Request { wanted, ..r });
                self.0.len() - 1
            }
            None => {
                self.0.push(Request { name, who, granted: Mode::NONE, wanted });
                self.0.len() - 1
            }
        };
        if self.blockers(at).is_empty() {
            self.0[at].granted = wanted;
            return Acquired::Granted;
        }
        if self.waits_for_itself(who) {
            self.give_up(who);
            return Acquired::Deadlock;
        }
        Acquired::Waiting
    }

    fn give_up(&mut self, who: usize) {
        if let Some(at) = self.0.iter().position(|r| r.who == who && r.waits()) {
            let (name, granted) = (self.0[at].name, self.0[at].granted);
            self.restore(name, who, granted);
        }
    }

    fn restore(&mut self, name: LockName, who: usize, mode: Mode) {
        let Some(at) = self.find(name, who) else { return };
        (self.0[at].granted, self.0[at].wanted) = (mode, mode);
        self.0.retain(|r| r.wanted != Mode::NONE);
        self.promote();
    }

    fn release_all(&mut self, who: usize) {
        self.0.retain(|r| r.who != who);
        self.promote();
    }

    fn promote(&mut self) {
        for conversions in [true, false] {
            for at in 0..self.0.len() {
                let r = self.0[at];
                let turn = r.waits() && (r.granted != Mode::NONE) == conversions;
                if turn && self.blockers(at).is_empty() {
                    self.0[at].granted = r.wanted;
                }
            }
        }
    }

    fn waits(&self, who: usize) -> bool {
        self.0.iter().any(|r| r.who == who && r.waits())
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }

    fn lock(&mut self) -> (LockName, Mode) {
        let table = TableId(self.below(2) as u16);
        let granule = match self.below(6) {
            0..3 => Some(LockName::table(table)),
            3 => Some(LockName::prefix(table, 1, 7)),
            _ => None,
        };
        if let Some(name) = granule {
            let strongest = if self.below(3) == 0 { 6 } else { 2 };
            return (name, Mode::TABLE[self.below(strongest)]);
        }
        let rows = [Row::None, Row::S, Row::U, Row::X];
        let gaps = [Gap::None, Gap::S, Gap::Insert, Gap::X];
        let mode = Mode::key(rows[self.below(4)], gaps[self.below(4)]);
        let mode = if mode == Mode::NONE { Mode::ROW_U } else { mode };
        (LockName::key(table, self.below(2) as u64), mode)
    }
}

#[derive(Default, PartialEq, Eq, Debug)]
struct Seen {
    granted: u32,
    waited: u32,
    deadlocks: u32,
    inherited: u64,
}

fn schedule(table: &Table, seed: u64) -> Seen {
    let mut random = Random(seed * 0x9e37_79b9 + 1);
    let mut lockers: Vec<Locker> = (0..LOCKERS).map(|_| table.locker()).collect();
    let mut model = Model::default();
    let mut seen = Seen::default();
    for step in 0..300 {
        let who = random.below(LOCKERS);
        let locker = &mut lockers[who];
        let what = format!("seed {seed}, step {step}, locker {who}");
        if locker.waits_for().is_some() {
            if random.below(4) == 0 {
                let waited = model.waits(who);
                model.give_up(who);
                assert_eq!(table.cancel(locker) == Cancelled::Gone, waited, "{what}");
            } else {
                assert_eq!(poll(table, locker) == Poll::Pending, model.waits(who), "{what}");
            }
            continue;
        }
        match random.below(8) {
            0 | 1 => {
                model.release_all(who);
                table.release_all(locker);
            }
            2 => {
                let first = model.0.iter().find(|r| r.who == who).map(|r| r.name);
                if let Some(name) = first {
                    model.restore(name, who, Mode::NONE);
                    table.release(locker, name);
                }
            }
            _ => {
                let (name, mode) = random.lock();
                let got = table.acquire(locker, name, mode);
                assert_eq!(got, model.acquire(name, who, mode), "{what}: {mode:?} on {name:?}");
                match got {
                    Acquired::Granted => seen.granted += 1,
                    Acquired::Waiting => seen.waited += 1,
                    Acquired::Deadlock => seen.deadlocks += 1,
                    Acquired::Crowded => panic!("there are few lockers"),
                }
            }
        }
        // A locker learns of a grant only when it polls.
        for (who, locker) in lockers.iter().enumerate().filter(|(_, l)| l.waits_for().is_none()) {
            for (name, mode) in locker.held() {
                assert_eq!(mode, model.holds(name, who), "{what}: {name:?} of locker {who}");
            }
        }
    }
    for (who, locker) in lockers.iter_mut().enumerate() {
        model.release_all(who);
        table.release_all(locker);
        assert!(is_granted(table, locker));
    }
    assert_eq!((table.requests(), model.0.len()), (0, 0), "seed {seed}");
    seen.inherited = lockers.iter().map(|l| l.counts().inherited).sum();
    seen
}

#[test]
fn every_answer_is_the_models_with_and_without_inheritance() {
    let mut all = Seen::default();
    for seed in 0..400 {
        let plain = schedule(&Table::new(2), seed);
        let inherited = schedule(&inheriting(2), seed);
        all.inherited += inherited.inherited;
        assert_eq!(plain, Seen { inherited: 0, ..inherited }, "seed {seed}");
        all.granted += plain.granted;
        all.waited += plain.waited;
        all.deadlocks += plain.deadlocks;
    }
    assert!(
        all.waited > 10_000 && all.deadlocks > 500 && all.inherited > 2_000,
        "the schedules met little: {all:?}"
    );
}
