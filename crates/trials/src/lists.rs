//! The workload for histories of whole instances: lists that procedures read and append to by
//! steps, at any number of owners and instances.
//!
//! ```text
//!   slot        0   1   2 | 3   4   5 | ...    the routing key: one owner, or one instance, has
//!                                              a run of slots
//!   generation  0: a list   a list             a list takes a fixed number of elements, then the
//!               1: a list                      next generation begins
//!                                              index: lists by generation, not cut like rows
//! ```
//!
//! A request of one kind contains its operations, for outside clients that record the outcome
//! ([`crate::islands`]). A request of the other kind contains only a seed from which to draw the
//! operations, for clients inside. Then each attempt is recorded where its procedure begins, where
//! it gives up, and when the instance reports its commit ([`crate::deployed`]).

use crate::histories::{Event, Recorder, Seen, elements};
use adya::history::OpType;
use base::{Key, SiteId, TableId};
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use txn::step::Each;
use txn::{
    Abort, Access, Column, Direction, Effect, Flow, Generator, IndexDef, Inserted, Route, Row, RowBuf,
    Schema, Share, Spread, Step, StepId, TableDef, Transaction, Type, Visits, Workload,
};

const LISTS: TableId = TableId(1);
const BY_GENERATION: TableId = TableId(2);
const LIST: u16 = 2;
/// Slots, which are also the sites.
pub(crate) const SLOTS: i64 = 12;
/// Elements of a generation, over all slots.
pub(crate) const ELEMENTS: i64 = 240;

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
pub(crate) fn id(slot: i64, generation: i64) -> i64 {
    generation * SLOTS + slot
}

fn route(slot: i64) -> Route {
    Route { table: LISTS, key: slot as u64 }
}

/// Reads a list, or appends to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Touch {
    pub slot: i64,
    pub generation: i64,
    pub append: Option<i64>,
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
            // The update that found no row has locked its absence.
            if access.insert(LISTS, &key, buf.bytes()).await? == Inserted::Exists {
                return Err(Abort::User(1));
            }
        }
        Ok(Seen::Append { id, element })
    }
}

/// Reads a list, declared as a read.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Look(Touch);

impl Step for Look {
    const ID: StepId = 3;
    const EFFECT: Effect = Effect::Reads;
    type Output = Seen;

    fn route(&self) -> Route {
        self.0.route()
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Seen, Abort> {
        self.0.run(access).await
    }
}

/// Reads the lists of one generation in a run of slots, by their keys or by the index.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Survey {
    pub generation: i64,
    pub by: By,
    pub direction: Way,
}

/// The keys by which a survey reads.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum By {
    /// From this slot to the one before the other; unbounded at the first and the last slot.
    Key(i64, i64),
    Index,
}

/// Whether the shares of a survey run at once, or in which order.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) enum Way {
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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Distinct lists: the steps of a phase are independent, so the order of two steps on one list
    /// would be undefined.
    Touch(Phase, Vec<Touch>),
    Survey(Survey),
}

/// Whether a phase is the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Others may follow.
    Early,
    /// The last phase.
    Last,
    /// The last phase that reaches other instances than the home.
    LastElsewhere,
}

impl Ask {
    /// Touches of up to three slots, or a survey.
    pub fn draw(generation: i64, recorder: &Recorder, random: &mut Rng) -> Ask {
        if random.u8(..10) < 7 {
            let count = random.usize(1..=3);
            let slots = random.choose_multiple(0..SLOTS, count);
            let touch = |slot, random: &mut Rng| {
                let append = (random.u8(..3) > 0).then(|| recorder.element());
                Touch { slot, generation, append }
            };
            return Ask::Touch(Phase::Early, slots.into_iter().map(|slot| touch(slot, random)).collect());
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

    /// The request as known before it is carried out: reads have no result.
    fn unknown(&self) -> Vec<Seen> {
        let unknown = |touch: &Touch| match (id(touch.slot, touch.generation), touch.append) {
            (id, Some(element)) => Seen::Append { id, element },
            (id, None) => Seen::Read { id, list: None },
        };
        match self {
            Ask::Touch(_, touches) => touches.iter().map(unknown).collect(),
            Ask::Survey(survey) => survey.unknown().collect(),
        }
    }

    async fn carry_out<T: Transaction>(&self, txn: &mut T, seen: &mut Vec<Seen>) -> Result<(), Abort> {
        let (phase, touches) = match self {
            Ask::Touch(phase, touches) => (*phase, touches),
            Ask::Survey(survey) => {
                seen.extend(survey.seen(txn.over(survey.clone()).await?));
                return Ok(());
            }
        };
        let (mut looks, mut writes) = (SmallVec::<[Look; 4]>::new(), SmallVec::<[Touch; 4]>::new());
        for touch in touches.iter().cloned() {
            match touch.append {
                Some(_) => writes.push(touch),
                None => looks.push(Look(touch)),
            }
        }
        // A phase is declared as writing if one of its steps writes.
        if writes.is_empty() {
            let steps = Each(looks);
            seen.extend(match phase {
                Phase::Early => txn.all(steps).await?,
                Phase::Last => txn.last(steps).await?,
                Phase::LastElsewhere => txn.last_elsewhere(steps).await?,
            });
            return Ok(());
        }
        let steps = (Each(looks), Each(writes));
        let (read, written) = match phase {
            Phase::Early => txn.all(steps).await?,
            Phase::Last => txn.last(steps).await?,
            Phase::LastElsewhere => txn.last_elsewhere(steps).await?,
        };
        seen.extend(read);
        seen.extend(written);
        Ok(())
    }
}

/// A transaction as known before it is carried out.
pub(crate) fn unknown(asks: &[Ask]) -> Vec<Seen> {
    asks.iter().flat_map(Ask::unknown).collect()
}

/// The workload.
#[derive(Clone, Default)]
pub(crate) struct Lists {
    /// Records attempts that are drawn inside.
    pub recorder: Arc<Recorder>,
    pub committed: Arc<AtomicUsize>,
    /// One in this many transactions drawn inside decides to roll back.
    pub rollback_one_in: usize,
}

impl Lists {
    fn asks(&self, random: &mut Rng) -> Vec<Ask> {
        let count = random.usize(1..=4);
        let ask = |_| Ask::draw(self.recorder.elements() / ELEMENTS, &self.recorder, random);
        (0..count).map(ask).collect()
    }

    async fn carry_out<T: Transaction>(asks: &[Ask], txn: &mut T) -> Result<Vec<Seen>, Abort> {
        let mut seen = Vec::new();
        for ask in asks {
            ask.carry_out(txn, &mut seen).await?;
        }
        Ok(seen)
    }

    /// An attempt that is drawn here.
    async fn draw<T: Transaction>(&self, seed: u64, txn: &mut T) -> Result<(i64, Vec<Seen>), Abort> {
        let attempt = self.recorder.stamp() as i64;
        let mut random = Rng::with_seed(seed ^ (attempt as u64) << 32);
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

    fn note(&self, kind: OpType, attempt: i64, seen: Vec<Seen>) {
        self.recorder.push(vec![Event { order: self.recorder.stamp(), kind, process: attempt, seen }]);
    }
}

/// A request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ticket {
    /// The slot that determines its home.
    pub home: i64,
    pub to_do: ToDo,
}

/// The operations of a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ToDo {
    /// Drawn when it runs, anew for each attempt, and recorded then.
    Draw { seed: u64 },
    /// The client that submits it records the outcome.
    Given { asks: Vec<Ask>, gives_up: bool },
}

/// Draws requests.
pub(crate) struct Tickets(Rng);

impl Generator for Tickets {
    type Request = Ticket;

    fn next(&mut self) -> Ticket {
        Ticket { to_do: ToDo::Draw { seed: self.0.u64(..) }, home: self.0.i64(0..SLOTS) }
    }
}

impl Workload for Lists {
    type Request = Ticket;
    /// The attempt, if it was drawn inside, and its results.
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
        match &ticket.to_do {
            ToDo::Draw { seed } => self.draw(*seed, txn).await,
            ToDo::Given { asks, gives_up } => match Lists::carry_out(asks, txn).await {
                Ok(_) if *gives_up => Err(Abort::User(2)),
                done => done.map(|seen| (0, seen)),
            },
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Touch, Look, Share<Survey>)
    }

    fn routes(&self, ticket: &Ticket, visit: &mut dyn FnMut(Route)) {
        visit(route(ticket.home));
    }

    fn kind(&self, _: &Ticket) -> &'static str {
        "history"
    }

    fn observe(&self, ticket: &Ticket, reply: Option<&Self::Reply>, _: &mut dyn FnMut(&'static str, u64)) {
        if let (ToDo::Draw { .. }, Some((attempt, seen))) = (&ticket.to_do, reply) {
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
