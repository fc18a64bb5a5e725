//! Histories of a whole instance whose workers own keys: what its clients asked and saw, recorded while procedures send steps from owner
//! to owner, scans are spread over all of them, and keys go from one to the other.
//!
//! ```text
//!   slot        0   1   2 | 3   4   5 | ...        the routing key: a run of slots is one owner's
//!   generation  0: a list   a list                 a list takes so many elements, then the next generation begins
//!               1: a list                          index: lists by generation, whose entries are not cut like the rows
//! ```
//!
//! An attempt of a transaction is written down where its procedure begins, where that gives up, and when the instance says that it is
//! committed. The judge is that of [`crate::histories`].

use crate::histories::{Event, Plan, Recorder, Seen, Verdict, elements, judge};
use adya::history::OpType;
use base::{Key, SiteId, TableId};
use exec::{DesignKind, Refusal};
use fastrand::Rng;
use instance::{Instance, InstanceConfig, InstanceFault, RepartitionError};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use txn::step::Each;
use txn::{
    Abort, Access, Column, Direction, Effect, Flow, Generator, IndexDef, Inserted, Placement, Route, Row,
    RowBuf, Schema, Share, Spread, Step, StepId, TableDef, Transaction, Type, Visits, Workload,
};

const LISTS: TableId = TableId(1);
const BY_GENERATION: TableId = TableId(2);
const LIST: u16 = 2;
const SLOTS: i64 = 12;
/// Elements of a generation, over all slots.
const ELEMENTS: i64 = 240;

/// After so long without a commit a history is judged as it is.
const PATIENCE: Duration = Duration::from_secs(10);

fn table() -> TableDef {
    let columns = vec![
        Column::new("slot", Type::I64),
        Column::new("generation", Type::I64),
        Column::new("list", Type::Text(1000)),
    ];
    let index = IndexDef { id: BY_GENERATION, name: "by_generation".into(), columns: vec![1] };
    TableDef { indexes: vec![index], ..TableDef::new(LISTS, "lists", columns, &[0, 1], SLOTS as u64) }
}

fn key(slot: i64, generation: i64) -> Key {
    Key::new().i64(slot).i64(generation)
}

/// The name of a list in the history.
fn id(slot: i64, generation: i64) -> i64 {
    generation * SLOTS + slot
}

fn route(slot: i64) -> Route {
    Route { table: LISTS, key: slot as u64 }
}

/// Reads a list, or appends to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Touch {
    slot: i64,
    generation: i64,
    append: Option<i64>,
}

impl Step for Touch {
    const ID: StepId = 1;
    type Output = Seen;

    fn route(&self) -> Route {
        route(self.slot)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Seen, Abort> {
        let (key, id) = (key(self.slot, self.generation), id(self.slot, self.generation));
        let Some(element) = self.append else {
            let read = access.read(LISTS, &key, |row| elements(row.text(LIST))).await?;
            return Ok(Seen::Read { id, list: Some(read.unwrap_or_default()) });
        };
        let add = |row: &mut txn::RowMut<'_>| {
            let text = format!("{},{element}", row.row().text(LIST));
            row.set_text(LIST, &text);
        };
        if access.update(LISTS, &key, add).await?.is_none() {
            let mut buf = RowBuf::new(&table());
            let mut row = buf.start();
            row.set_int(0, self.slot);
            row.set_int(1, self.generation);
            row.set_text(LIST, &element.to_string());
            // Its absence was locked by the update that found nothing.
            if access.insert(LISTS, &key, buf.bytes()).await? == Inserted::Exists {
                return Err(Abort::User(1));
            }
        }
        Ok(Seen::Append { id, element })
    }
}

/// Reads the lists of one generation in a run of slots, by their keys or by the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Survey {
    generation: i64,
    by: By,
    direction: Way,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum By {
    /// From this slot on to before another one; open at the ends of all slots.
    Key(i64, i64),
    Index,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Way {
    AtOnce,
    Forward,
    Backward,
}

impl Survey {
    fn slots(&self) -> Range<i64> {
        match self.by {
            By::Key(low, high) => low..high,
            By::Index => 0..SLOTS,
        }
    }

    fn unknown(&self) -> impl Iterator<Item = Seen> {
        let generation = self.generation;
        self.slots().map(move |slot| Seen::Read { id: id(slot, generation), list: None })
    }

    fn seen(&self, mut found: Vec<(i64, Vec<i64>)>) -> impl Iterator<Item = Seen> {
        let generation = self.generation;
        self.slots().map(move |slot| {
            let at = found.iter().position(|(there, _)| *there == slot);
            let list = at.map(|at| found.swap_remove(at).1).unwrap_or_default();
            Seen::Read { id: id(slot, generation), list: Some(list) }
        })
    }
}

impl Step for Survey {
    const ID: StepId = 2;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<(i64, Vec<i64>)>;

    fn route(&self) -> Route {
        route(self.slots().start)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Self::Output, Abort> {
        let at = |n: i64| Key::new().i64(n);
        let (index, low, high) = match self.by {
            By::Key(low, high) => (
                LISTS,
                Some(low).filter(|low| *low > 0).map(at),
                Some(high).filter(|high| *high < SLOTS).map(at),
            ),
            By::Index => (BY_GENERATION, Some(at(self.generation)), Some(at(self.generation + 1))),
        };
        let direction =
            if self.direction == Way::Backward { Direction::Backward } else { Direction::Forward };
        let mut found = Vec::new();
        let visit = |_: &[u8], row: Row<'_>| {
            if row.int(1) == self.generation {
                found.push((row.int(0), elements(row.text(LIST))));
            }
            Flow::More
        };
        let range = txn::Range { low: low.as_deref(), high: high.as_deref() };
        access.scan(index, range, direction, visit).await?;
        Ok(found)
    }
}

impl Spread for Survey {
    fn keys(&self) -> Range<u64> {
        let Range { start, end } = self.slots();
        start as u64..end as u64
    }

    fn visits(&self) -> Visits {
        match self.direction {
            Way::AtOnce => Visits::AtOnce,
            Way::Forward => Visits::InOrder(Direction::Forward),
            Way::Backward => Visits::InOrder(Direction::Backward),
        }
    }

    fn join(&self, so_far: &mut Self::Output, next: Self::Output) {
        so_far.extend(next);
    }
}

/// One phase of a transaction.
#[derive(Clone, Debug)]
enum Ask {
    Touch(Vec<Touch>),
    Survey(Survey),
}

#[derive(Clone)]
struct Lists {
    recorder: Arc<Recorder>,
    committed: Arc<AtomicUsize>,
    rollback_one_in: usize,
}

impl Lists {
    fn asks(&self, random: &mut Rng) -> Vec<Ask> {
        let count = random.usize(1..=4);
        (0..count).map(|_| self.ask(random)).collect()
    }

    fn ask(&self, random: &mut Rng) -> Ask {
        let generation = self.recorder.elements() / ELEMENTS;
        if random.u8(..10) < 7 {
            let touch = |slot, random: &mut Rng| {
                let append = (random.u8(..3) > 0).then(|| self.recorder.element());
                Touch { slot, generation, append }
            };
            // Steps of a phase are independent: nobody says in which order two of them come to one list.
            let count = random.usize(1..=3);
            let slots = random.choose_multiple(0..SLOTS, count);
            return Ask::Touch(slots.into_iter().map(|slot| touch(slot, random)).collect());
        }
        let low = random.i64(0..SLOTS);
        let by = match random.u8(..4) {
            0 => By::Index,
            1 => By::Key(0, SLOTS),
            _ => By::Key(low, random.i64(low + 1..=SLOTS)),
        };
        let direction = [Way::AtOnce, Way::Forward, Way::Backward][random.usize(..3)];
        Ask::Survey(Survey { generation, by, direction })
    }

    async fn carry_out<T: Transaction>(asks: &[Ask], txn: &mut T) -> Result<Vec<Seen>, Abort> {
        let mut seen = Vec::new();
        for ask in asks {
            match ask {
                Ask::Touch(touches) => {
                    let steps: SmallVec<[Touch; 4]> = touches.iter().cloned().collect();
                    seen.extend(txn.all(Each(steps)).await?);
                }
                Ask::Survey(survey) => seen.extend(survey.seen(txn.over(survey.clone()).await?)),
            }
        }
        Ok(seen)
    }

    fn note(&self, kind: OpType, attempt: i64, seen: Vec<Seen>) {
        self.recorder.push(vec![Event { order: self.recorder.stamp(), kind, process: attempt, seen }]);
    }
}

fn unknown(asks: &[Ask]) -> Vec<Seen> {
    let unknown = |touch: &Touch| match (id(touch.slot, touch.generation), touch.append) {
        (id, Some(element)) => Seen::Append { id, element },
        (id, None) => Seen::Read { id, list: None },
    };
    let mut seen = Vec::new();
    for ask in asks {
        match ask {
            Ask::Touch(touches) => seen.extend(touches.iter().map(unknown)),
            Ask::Survey(survey) => seen.extend(survey.unknown()),
        }
    }
    seen
}

/// What a client draws; the transaction is made from it when it runs, each attempt anew.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Ticket {
    seed: u64,
    home: i64,
}

struct Tickets(Rng);

impl Generator for Tickets {
    type Request = Ticket;

    fn next(&mut self) -> Ticket {
        Ticket { seed: self.0.u64(..), home: self.0.i64(0..SLOTS) }
    }
}

impl Workload for Lists {
    type Request = Ticket;
    /// The attempt, and what it saw.
    type Reply = (i64, Vec<Seen>);
    type Generator = Tickets;
    type Audit = ();

    fn name(&self) -> String {
        "lists".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: vec![table()] }
    }

    fn sites(&self) -> u32 {
        SLOTS as u32
    }

    async fn run<T: Transaction>(&self, ticket: &Ticket, txn: &mut T) -> Result<Self::Reply, Abort> {
        let attempt = self.recorder.stamp() as i64;
        let mut random = Rng::with_seed(ticket.seed ^ (attempt as u64) << 32);
        let asks = self.asks(&mut random);
        self.note(OpType::Invoke, attempt, unknown(&asks));
        let mut done = Lists::carry_out(&asks, txn).await;
        if random.usize(..self.rollback_one_in) == 0 {
            done = done.and(Err(Abort::User(2)));
        }
        match done {
            Ok(seen) => Ok((attempt, seen)),
            Err(abort) => {
                self.note(OpType::Fail, attempt, unknown(&asks));
                Err(abort)
            }
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Touch, Share<Survey>)
    }

    fn routes(&self, ticket: &Ticket, visit: &mut dyn FnMut(Route)) {
        visit(route(ticket.home));
    }

    fn kind(&self, _: &Ticket) -> &'static str {
        "history"
    }

    fn observe(&self, _: &Ticket, reply: Option<&Self::Reply>, _: &mut dyn FnMut(&'static str, u64)) {
        if let Some((attempt, seen)) = reply {
            self.note(OpType::Ok, *attempt, seen.clone());
            self.committed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn clients(&self) -> txn::Clients {
        txn::Clients::Routed
    }

    fn generator(&self, seed: u64, _: Range<u32>) -> Tickets {
        Tickets(Rng::with_seed(seed))
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        0
    }

    async fn load<A: Access>(&self, _: SiteId, _: u32, _: &mut A) -> Result<(), Abort> {
        Ok(())
    }

    async fn audit<A: Access>(&self, _: Range<u32>, _: &mut A) -> Result<(), Abort> {
        Ok(())
    }

    fn judge(&self, _: Vec<()>, _: Option<u64>) -> txn::Verdict {
        txn::Verdict::default()
    }
}

/// Whether keys go from owner to owner meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    Stay,
    Move,
}

/// Records a history of an instance under a design, its data in `dir`, and has it judged.
///
/// # Errors
/// The instance does not start, or does not end as it should.
pub fn deployed(design: DesignKind, plan: Plan, keys: Keys, dir: &Path) -> Result<Verdict, InstanceFault> {
    let recorder = Arc::new(Recorder::default());
    let lists = Lists {
        recorder: Arc::clone(&recorder),
        committed: Arc::default(),
        rollback_one_in: plan.rollback_one_in,
    };
    let committed = Arc::clone(&lists.committed);
    let config = InstanceConfig {
        durability: plan.durability,
        tables: plan.kind,
        cpus: vec![None; plan.crew.workers],
        pool_pages: 2048,
        lock_timeout_ms: 1000,
        spin_us: 5,
        ..InstanceConfig::new(dir.to_owned(), Placement::even(SLOTS as u32, 1), design)
    };
    let instance = Instance::start(lists, config)?;
    instance.load(&|_, _| {})?;
    instance.drive(plan.crew.clients, plan.seed << 32);
    let (mut random, mut last) = (Rng::with_seed(plan.seed), (0, Instant::now()));
    while last.0 < plan.transactions && last.1.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
        if keys == Keys::Move {
            move_keys(&instance, plan.crew.workers, &mut random)?;
        }
        let now = committed.load(Ordering::Relaxed);
        last = if now > last.0 { (now, Instant::now()) } else { last };
    }
    instance.halt()?;
    instance.stop()?;
    Ok(judge(&recorder.history()))
}

/// Draws other borders.
fn move_keys(instance: &Instance<Lists>, workers: usize, random: &mut Rng) -> Result<(), InstanceFault> {
    let mut starts: Vec<u32> = (1..SLOTS as u32).collect();
    random.shuffle(&mut starts);
    starts.truncate(workers - 1);
    starts.push(0);
    starts.sort_unstable();
    let ends = starts.iter().skip(1).copied().chain([SLOTS as u32]);
    let parts: Vec<_> =
        starts.iter().zip(ends).enumerate().map(|(w, (start, end))| (*start..end, w)).collect();
    match instance.repartition(&parts) {
        // An owner may not become idle in time.
        Ok(_) | Err(RepartitionError::Refused(Refusal::Busy { .. })) => Ok(()),
        Err(error) => Err(InstanceFault::Worker(error.to_string())),
    }
}
