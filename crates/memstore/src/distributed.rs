//! Two transactions over two stores. Each reads in one store the data that the other writes there.
//! Every interleaving of their operations, votes and decisions is run. If both commit, exactly one
//! has seen the other's writes.

use crate::seams::Step;
use crate::{Memstore, Options, Refused, Scope, Txn, Worker};
use base::TableId;
use txn::{Direction, Flow, Range};

const T: TableId = TableId(0);
const KEY: &[u8] = b"m";

/// The read, and the write that conflicts with it.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Clash {
    /// Reads a row; writes: overwrites it.
    Update,
    /// Reads a row; writes: deletes it.
    Delete,
    /// Reads that a row is absent; writes: inserts it.
    Absence,
    /// As `Absence`, after the row was deleted once.
    DeletedBefore,
    /// Reads the number of rows; writes: inserts one.
    Phantom,
    /// As `Phantom`, when there are no rows, so that a leaf is empty.
    PhantomAmongNone,
}

const ALL: [Clash; 6] = [
    Clash::Update,
    Clash::Delete,
    Clash::Absence,
    Clash::DeletedBefore,
    Clash::Phantom,
    Clash::PhantomAmongNone,
];

#[derive(Clone, Copy, Debug)]
enum Op {
    Read,
    Write,
    Prepare(usize),
    Decide,
}

/// Party `p` reads in store `p` and writes in the other.
fn programs(p: usize) -> [[Op; 5]; 3] {
    use Op::{Decide, Prepare, Read, Write};
    let q = 1 - p;
    [
        [Read, Write, Prepare(p), Prepare(q), Decide],
        [Read, Write, Prepare(q), Prepare(p), Decide],
        // The first store votes with its last operation.
        [Read, Prepare(p), Write, Prepare(q), Decide],
    ]
}

fn store(clash: Clash, bug: Option<Step>) -> Worker {
    let options = Options { pages: world::PageSize::Normal, tables: 1, ..Options::new(1 << 18, 1) };
    let store = Memstore::open(options).expect("a small store");
    store.create(T).expect("a table");
    store.seams.leave_out(bug);
    let mut w = store.worker(0).expect("a worker");
    let rows: &[&[u8]] = match clash {
        Clash::Update | Clash::Delete | Clash::DeletedBefore => &[b"c", KEY, b"x"],
        Clash::Absence | Clash::Phantom => &[b"c", b"x"],
        Clash::PhantomAmongNone => &[],
    };
    let mut t = w.begin();
    for row in rows {
        w.insert(&mut t, T, row, &[0]).expect("room");
    }
    w.commit(t).map_err(|(refused, _)| refused).expect("alone");
    if clash == Clash::DeletedBefore {
        let mut t = w.begin();
        w.delete(&mut t, T, KEY).expect("alone");
        w.commit(t).map_err(|(refused, _)| refused).expect("alone");
    }
    w
}

struct Party {
    number: usize,
    parts: [Option<Box<Txn>>; 2],
    saw_other: bool,
    committed: bool,
}

impl Party {
    fn new(number: usize, stores: &mut [Worker; 2]) -> Party {
        Party { number, parts: [0, 1].map(|n| Some(stores[n].begin())), saw_other: false, committed: false }
    }

    /// Any refusal ends it.
    fn step(&mut self, op: Op, clash: Clash, stores: &mut [Worker; 2]) {
        if self.parts.iter().all(Option::is_some) && self.carry_out(op, clash, stores).is_err() {
            self.give_up(stores);
        }
    }

    fn carry_out(&mut self, op: Op, clash: Clash, stores: &mut [Worker; 2]) -> Result<(), Refused> {
        if let Op::Decide = op {
            for (part, store) in self.parts.iter_mut().zip(stores) {
                store.post_commit(part.take().expect("it has not ended"));
            }
            self.committed = true;
            return Ok(());
        }
        let (here, there) = (self.number, 1 - self.number);
        let [a, b] = self.parts.each_mut().map(|part| part.as_mut().expect("it has not ended"));
        let part = move |n: usize| if n == 0 { a } else { b };
        match op {
            Op::Read => self.saw_other = saw(&mut stores[here], part(here), clash)?,
            Op::Write => write(&mut stores[there], part(there), clash)?,
            Op::Prepare(n) => drop(stores[n].pre_commit(part(n), Scope::Distributed)?),
            Op::Decide => {}
        }
        Ok(())
    }

    fn give_up(&mut self, stores: &mut [Worker; 2]) {
        for (part, store) in self.parts.iter_mut().zip(stores) {
            part.take().into_iter().for_each(|part| store.abort(part));
        }
    }
}

/// Whether it sees the other party's write.
fn saw(w: &mut Worker, t: &mut Txn, clash: Clash) -> Result<bool, Refused> {
    match clash {
        Clash::Update => Ok(w.read(t, T, KEY, |row| row[0])? == Some(1)),
        Clash::Delete => Ok(w.read(t, T, KEY, |_| ())?.is_none()),
        Clash::Absence | Clash::DeletedBefore => Ok(w.read(t, T, KEY, |_| ())?.is_some()),
        Clash::Phantom | Clash::PhantomAmongNone => {
            let mut found = false;
            w.scan(t, T, Range::default(), Direction::Forward, |key, _| {
                found |= key == KEY;
                Flow::More
            })?;
            Ok(found)
        }
    }
}

fn write(w: &mut Worker, t: &mut Txn, clash: Clash) -> Result<(), Refused> {
    match clash {
        Clash::Update => w.update(t, T, KEY, |row| row[0] = 1).map(drop),
        Clash::Delete => w.delete(t, T, KEY).map(drop),
        _ => w.insert(t, T, KEY, &[1]).map(drop),
    }
}

/// For each of the two: whether it committed and whether it saw the other.
fn run(order: u32, programs: [[Op; 5]; 2], clash: Clash, bug: Option<Step>) -> [(bool, bool); 2] {
    let mut stores = [0, 1].map(|_| store(clash, bug));
    let mut parties = [0, 1].map(|n| Party::new(n, &mut stores));
    let mut next = [0; 2];
    for step in 0..10 {
        let who = (order >> step & 1) as usize;
        parties[who].step(programs[who][next[who]], clash, &mut stores);
        next[who] += 1;
        if step == order % 10 {
            // Absent rows and empty leaves are removed, if that is allowed.
            stores.iter_mut().for_each(|w| _ = w.collect(8));
        }
    }
    for (n, w) in stores.iter_mut().enumerate() {
        // All reservations are released.
        let mut t = w.begin();
        for key in [b"a", b"m", b"z"] {
            w.update(&mut t, T, key, |row| row[0] = 2)
                .and_then(|_| w.insert(&mut t, T, key, &[2]))
                .expect("free");
        }
        w.commit(t).map_err(|(refused, _)| refused).unwrap_or_else(|refused| panic!("store {n}: {refused}"));
    }
    parties.map(|party| (party.committed, party.saw_other))
}

/// The number of interleavings in which both committed. Of these, the number in which neither or
/// both saw the other; the search ends at the first.
fn explore(clash: Clash, bug: Option<Step>) -> (usize, usize) {
    let (mut both, mut skewed) = (0, 0);
    for (first, second) in programs(0).iter().flat_map(|a| programs(1).map(|b| (*a, b))) {
        for order in (0..1u32 << 10).filter(|order| order.count_ones() == 5) {
            let [one, other] = run(order, [first, second], clash, bug);
            if one.0 && other.0 {
                both += 1;
                skewed += usize::from(one.1 == other.1);
                if skewed > 0 {
                    return (both, skewed);
                }
            }
        }
    }
    (both, skewed)
}

#[test]
fn two_that_commit_over_two_stores_are_one_after_the_other() {
    for clash in ALL {
        let (both, skewed) = explore(clash, None);
        assert!(both > 0 && skewed == 0, "{clash:?}: {skewed} of {both}");
    }
}

#[test]
fn without_guards_there_is_write_skew() {
    for clash in ALL {
        let (both, skewed) = explore(clash, Some(Step::ReserveReads));
        assert!(skewed > 0, "{clash:?}: the interleavings would not show it: {skewed} of {both}");
    }
}
