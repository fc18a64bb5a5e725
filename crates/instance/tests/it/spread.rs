//! Scans over the keys of several owners, unbounded at either end, and through an index that is not
//! cut like the rows. Meanwhile cards move from site to site, change colour and pay each other. The
//! number of cards and the sum of their values never change.

use crate::support::{Deployment, Via, config, private_dir};
use base::{Key, SiteId, TableId};
use exec::DesignKind::{self, Conventional, Logical, Occ, PlpLeaf, PlpPartition, PlpRegular, Serial};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use txn::{
    Abort, Access, Column, Direction, Effect, Flow, Generator, IndexDef, Inserted, Route, Row, RowBuf,
    Schema, Share, Spread, Step, StepId, TableDef, Transaction, Type, Verdict, Visits, Workload,
};
use wal::Durability;

const CARDS: TableId = TableId(1);
const BY_COLOUR: TableId = TableId(2);
const SITES: u32 = 12;
/// The range of ids; every second id is a card.
const IDS: i64 = 240;
const COLOURS: i64 = 7;

/// Id, colour and value.
type Card = (i64, i64, i64);

fn table() -> TableDef {
    let columns = ["id", "colour", "value"].map(|name| Column::new(name, Type::I64)).into();
    let by_colour = IndexDef { id: BY_COLOUR, name: "by_colour".into(), columns: vec![1] };
    TableDef { indexes: vec![by_colour], ..TableDef::new(CARDS, "cards", columns, &[0], IDS as u64) }
}

fn key(id: i64) -> Key {
    Key::new().i64(id)
}

fn card(row: &Row<'_>) -> Card {
    (row.int(0), row.int(1), row.int(2))
}

fn bytes((id, colour, value): Card) -> Vec<u8> {
    let mut buf = RowBuf::new(&table());
    let mut row = buf.start();
    row.set_int(0, id);
    row.set_int(1, colour);
    row.set_int(2, value);
    buf.bytes().to_vec()
}

/// One card.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Touch {
    Read(i64),
    Pay(i64, i64),
    Paint(i64, i64),
    Take(i64),
    Put(Card),
}

impl Step for Touch {
    const ID: StepId = 1;
    type Output = Option<Card>;

    fn route(&self) -> Route {
        let (Touch::Read(id)
        | Touch::Pay(id, _)
        | Touch::Paint(id, _)
        | Touch::Take(id)
        | Touch::Put((id, ..))) = self;
        Route { table: CARDS, key: *id as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Option<Card>, Abort> {
        match *self {
            Touch::Read(id) => access.read(CARDS, &key(id), |row| card(&row)).await,
            Touch::Pay(id, value) => {
                let pay = |row: &mut txn::RowMut<'_>| {
                    let now = row.int(2) + value;
                    row.set_int(2, now);
                    card(&row.row())
                };
                access.update(CARDS, &key(id), pay).await
            }
            Touch::Paint(id, colour) => {
                let paint = |row: &mut txn::RowMut<'_>| {
                    row.set_int(1, colour);
                    card(&row.row())
                };
                access.update(CARDS, &key(id), paint).await
            }
            Touch::Take(id) => {
                let taken = access.read(CARDS, &key(id), |row| card(&row)).await?;
                access.delete(CARDS, &key(id)).await?;
                Ok(taken)
            }
            Touch::Put(new) => match access.insert(CARDS, &key(new.0), &bytes(new)).await? {
                Inserted::Done => Ok(Some(new)),
                Inserted::Exists => Ok(None),
            },
        }
    }
}

/// At most `most` cards of a range.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Look {
    by: By,
    low: Option<i64>,
    high: Option<i64>,
    backward: bool,
    most: usize,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum By {
    Id,
    Colour,
}

impl Look {
    const ALL: Look = Look { by: By::Id, low: None, high: None, backward: false, most: usize::MAX };

    fn of_colour(colour: i64) -> Look {
        Look { by: By::Colour, low: Some(colour), high: Some(colour + 1), ..Look::ALL }
    }

    fn direction(&self) -> Direction {
        if self.backward { Direction::Backward } else { Direction::Forward }
    }

    /// The cards among these that it finds, in its order.
    fn among(&self, cards: impl IntoIterator<Item = Card>) -> Vec<Card> {
        let place = |card: &Card| match self.by {
            By::Id => (0, card.0),
            By::Colour => (card.1, card.0),
        };
        let bound = |card: &Card| if self.by == By::Id { card.0 } else { card.1 };
        let inside = |card: &Card| {
            self.low.is_none_or(|low| bound(card) >= low) && self.high.is_none_or(|high| bound(card) < high)
        };
        let mut found: Vec<Card> = cards.into_iter().filter(inside).collect();
        found.sort_by_key(place);
        if self.backward {
            found.reverse();
        }
        found.truncate(self.most);
        found
    }
}

impl Step for Look {
    const ID: StepId = 2;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<Card>;

    fn route(&self) -> Route {
        Route { table: CARDS, key: 0 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<Card>, Abort> {
        let (low, high) = (self.low.map(key), self.high.map(key));
        let range = txn::Range { low: low.as_deref(), high: high.as_deref() };
        let index = if self.by == By::Id { CARDS } else { BY_COLOUR };
        let mut found = Vec::new();
        let visit = |_: &[u8], row: Row<'_>| {
            found.push(card(&row));
            if found.len() < self.most { Flow::More } else { Flow::Enough }
        };
        access.scan(index, range, self.direction(), visit).await?;
        Ok(found)
    }
}

impl Spread for Look {
    fn keys(&self) -> Range<u64> {
        match self.by {
            By::Id => self.low.unwrap_or(0) as u64..self.high.unwrap_or(i64::MAX) as u64,
            By::Colour => 0..u64::MAX,
        }
    }

    fn visits(&self) -> Visits {
        if self.by == By::Id { Visits::InOrder(self.direction()) } else { Visits::AtOnce }
    }

    fn join(&self, so_far: &mut Vec<Card>, next: Vec<Card>) {
        so_far.extend(next);
        match self.by {
            By::Id => so_far.truncate(self.most),
            By::Colour => *so_far = self.among(std::mem::take(so_far)),
        }
    }

    fn flow(&self, so_far: &Vec<Card>) -> Flow {
        if so_far.len() < self.most { Flow::More } else { Flow::Enough }
    }
}

/// Replaces a colour by another on all cards that have it: a step that writes, and finds its rows
/// by the index that it changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Repaint(i64, i64);

impl Step for Repaint {
    const ID: StepId = 3;
    type Output = u32;

    fn route(&self) -> Route {
        Route { table: CARDS, key: 0 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<u32, Abort> {
        let (low, high, mut found) = (key(self.0), key(self.0 + 1), Vec::new());
        let visit = |_: &[u8], row: Row<'_>| {
            found.push(row.int(0));
            Flow::More
        };
        access.scan(BY_COLOUR, txn::Range::new(&low, &high), Direction::Forward, visit).await?;
        for id in &found {
            Touch::Paint(*id, self.1).run(access).await?;
        }
        Ok(found.len() as u32)
    }
}

impl Spread for Repaint {
    fn keys(&self) -> Range<u64> {
        0..u64::MAX
    }

    fn join(&self, so_far: &mut u32, next: u32) {
        *so_far += next;
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    Look(Look),
    /// A card gets another id, and everything is counted.
    Reseat(i64, i64),
    Pay(i64, i64, i64),
    Paint(i64, i64),
    Repaint(i64, i64),
}

#[derive(Clone, Copy, PartialEq)]
enum Life {
    Still,
    Busy,
}

#[derive(Clone)]
struct Cards {
    life: Life,
    /// Impossible results that were seen.
    flaws: Arc<Mutex<Vec<String>>>,
}

impl Cards {
    fn new(life: Life) -> Cards {
        Cards { life, flaws: Arc::default() }
    }

    /// As loaded.
    fn cards() -> impl Iterator<Item = Card> {
        (0..IDS).step_by(2).map(|id| (id, id / 2 % COLOURS, 100))
    }

    fn judge_look(&self, look: &Look, found: &[Card]) {
        let is_all = (look.low, look.high, look.most) == (None, None, usize::MAX);
        let total: i64 = found.iter().map(|card| card.2).sum();
        let mut flaws = self.flaws.lock().unwrap();
        if look.among(found.iter().copied()) != found {
            flaws.push(format!("{look:?}: found {found:?}"));
        }
        if is_all && (found.len(), total) != (IDS as usize / 2, IDS * 50) {
            flaws.push(format!("{look:?}: {} cards with {total}", found.len()));
        }
        if self.life == Life::Still && look.among(Cards::cards()) != found {
            flaws.push(format!("{look:?}: expected {:?}, found {found:?}", look.among(Cards::cards())));
        }
    }
}

struct Draw {
    random: fastrand::Rng,
    life: Life,
}

impl Draw {
    fn look(&mut self) -> Look {
        let random = &mut self.random;
        let (by, of) = if random.bool() { (By::Id, IDS) } else { (By::Colour, COLOURS) };
        let mut bound = || random.bool().then(|| random.i64(0..of));
        let (low, high) = (bound(), bound());
        let most = if random.bool() { usize::MAX } else { random.usize(1..30) };
        Look { by, low, high, backward: random.bool(), most }
    }
}

impl Generator for Draw {
    type Request = Ask;

    fn next(&mut self) -> Ask {
        if self.life == Life::Still || self.random.u8(..4) == 0 {
            let by = if self.random.bool() { By::Id } else { By::Colour };
            let look = if self.random.bool() { self.look() } else { Look { by, ..Look::ALL } };
            return Ask::Look(look);
        }
        let random = &mut self.random;
        let mut id = || random.i64(0..IDS);
        let (one, two) = (id(), id());
        match random.u8(..8) {
            0..3 => Ask::Reseat(one, two),
            3..5 => Ask::Pay(one, two, random.i64(1..50)),
            5..7 => Ask::Paint(one, random.i64(0..COLOURS)),
            _ => Ask::Repaint(random.i64(0..COLOURS), random.i64(0..COLOURS)),
        }
    }
}

impl Workload for Cards {
    type Request = Ask;
    /// The result of the last scan.
    type Reply = Option<Vec<Card>>;
    type Generator = Draw;
    type Audit = (u64, i64);

    fn name(&self) -> String {
        "cards".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: vec![table()] }
    }

    fn sites(&self) -> u32 {
        SITES
    }

    async fn run<T: Transaction>(&self, request: &Ask, txn: &mut T) -> Result<Self::Reply, Abort> {
        match *request {
            Ask::Look(ref look) => txn.over(look.clone()).await.map(Some),
            Ask::Reseat(from, to) => {
                let (taken, there) = txn.all((Touch::Take(from), Touch::Read(to))).await?;
                let (Some((_, colour, value)), None) = (taken, there) else { return Err(Abort::User(1)) };
                if from == to {
                    return Err(Abort::User(2));
                }
                // The id was free when it was read. Without locks another transaction may have
                // taken it meanwhile; validation then finds a conflict.
                txn.all(Touch::Put((to, colour, value))).await?.ok_or(Abort::User(4))?;
                txn.over(Look::ALL).await.map(Some)
            }
            Ask::Pay(from, to, value) => {
                let paid = txn.all((Touch::Pay(from, -value), Touch::Pay(to, value))).await?;
                if let (Some(_), Some(_)) = paid { Ok(None) } else { Err(Abort::User(3)) }
            }
            Ask::Paint(id, colour) => txn.last(Touch::Paint(id, colour)).await.map(|_| None),
            Ask::Repaint(from, to) => {
                txn.over(Repaint(from, to)).await?;
                txn.over(Look::of_colour(from)).await.map(Some)
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
        txn::run_one_of!(id, args, access, out; Touch, Share<Look>, Share<Repaint>)
    }

    fn routes(&self, request: &Ask, visit: &mut dyn FnMut(Route)) {
        let mut at = |id: i64| visit(Route { table: CARDS, key: id as u64 });
        match *request {
            Ask::Reseat(one, two) | Ask::Pay(one, two, _) => [one, two].into_iter().for_each(at),
            Ask::Paint(id, _) => at(id),
            Ask::Look(_) | Ask::Repaint(..) => at(0),
        }
    }

    fn kind(&self, request: &Ask) -> &'static str {
        match request {
            Ask::Look(_) => "look",
            Ask::Reseat(..) => "reseat",
            Ask::Pay(..) => "pay",
            Ask::Paint(..) => "paint",
            Ask::Repaint(..) => "repaint",
        }
    }

    fn observe(&self, request: &Ask, reply: Option<&Self::Reply>, _: &mut dyn FnMut(&'static str, u64)) {
        let Some(Some(found)) = reply else { return };
        match *request {
            Ask::Look(ref look) => self.judge_look(look, found),
            // No card has this colour any more.
            Ask::Repaint(from, to) if from != to => {
                self.judge_look(&Look { most: 0, ..Look::of_colour(from) }, found)
            }
            Ask::Repaint(from, _) => self.judge_look(&Look::of_colour(from), found),
            _ => self.judge_look(&Look::ALL, found),
        }
    }

    fn clients(&self) -> txn::Clients {
        txn::Clients::Routed
    }

    fn generator(&self, seed: u64, _: Range<u32>) -> Draw {
        Draw { random: fastrand::Rng::with_seed(seed), life: self.life }
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        1
    }

    async fn load<A: Access>(&self, site: SiteId, _: u32, access: &mut A) -> Result<(), Abort> {
        let ids = IDS / i64::from(SITES);
        let first = i64::from(site.0) * ids;
        for card in Cards::cards().filter(|card| (first..first + ids).contains(&card.0)) {
            access.insert(CARDS, &key(card.0), &bytes(card)).await?;
        }
        Ok(())
    }

    async fn audit<A: Access>(&self, _: Range<u32>, access: &mut A) -> Result<(u64, i64), Abort> {
        let mut found = (0, 0);
        let visit = |_: &[u8], row: Row<'_>| {
            found = (found.0 + 1, found.1 + row.int(2));
            Flow::More
        };
        access.scan(BY_COLOUR, txn::Range::ALL, Direction::Forward, visit).await?;
        Ok(found)
    }

    fn judge(&self, audits: Vec<(u64, i64)>, _: Option<u64>) -> Verdict {
        let all = audits.iter().fold((0, 0), |sum, audit| (sum.0 + audit.0, sum.1 + audit.1));
        let mut violations = std::mem::take(&mut *self.flaws.lock().unwrap());
        violations.truncate(3);
        if all != (IDS as u64 / 2, IDS * 50) {
            violations.push(format!("{all:?} in the end"));
        }
        Verdict { violations }
    }
}

fn run(life: Life, design: DesignKind, islands: u16, workers: usize, meanwhile: impl Fn(&Deployment<Cards>)) {
    let (dir, cards) = (private_dir(), Cards::new(life));
    let of = |i| config(&cards, dir.path(), design, Durability::Memory, (i, islands), workers, Via::Ring);
    let of = |i| of(i).with(|o| o.lock_timeout_ms = 50);
    let deployment = Deployment::start(cards.clone(), (0..islands).map(of).collect());
    deployment.load();
    deployment.measure();
    deployment.instances.iter().enumerate().for_each(|(i, instance)| instance.drive(3, (i as u64) << 32));
    meanwhile(&deployment);
    deployment.instances.iter().for_each(|instance| instance.halt().unwrap());
    let measured = deployment.measure();
    eprintln!(
        "{design} x{islands} w{workers}: {} committed, aborted {:?}",
        measured.committed_total(),
        measured.aborted
    );
    let verdict = cards.judge(deployment.audits(), None);
    assert!(verdict.holds(), "{design} x{islands} w{workers}: {verdict:?}");
    assert!(measured.committed_total() > 0, "{design}: {measured:?}");
    assert!(!measured.aborted.contains_key("bad_request"), "{design}: {:?}", measured.aborted);
    deployment.stop();
}

fn a_while(_: &Deployment<Cards>) {
    std::thread::sleep(Duration::from_millis(300));
}

const OWNERS: [DesignKind; 4] = [Logical, PlpRegular, PlpPartition, PlpLeaf];

/// A scan over several owners finds the same cards as a scan over all cards in one place.
#[test]
fn a_scan_over_several_owners_finds_what_there_is_in_its_order() {
    for design in OWNERS {
        run(Life::Still, design, 1, 3, a_while);
        run(Life::Still, design, 2, 2, a_while);
    }
    run(Life::Still, Conventional, 2, 2, a_while);
    run(Life::Still, Serial, 3, 1, a_while);
    run(Life::Still, Occ, 2, 2, a_while);
}

#[test]
fn scans_over_several_owners_see_one_moment() {
    for design in OWNERS {
        run(Life::Busy, design, 1, 3, a_while);
        run(Life::Busy, design, 1, 1, a_while);
    }
    run(Life::Busy, Conventional, 1, 2, a_while);
    run(Life::Busy, Serial, 1, 1, a_while);
    run(Life::Busy, Occ, 1, 2, a_while);
}

#[test]
fn scans_over_several_instances_see_one_moment() {
    for design in [Logical, PlpLeaf, Conventional, Serial, Occ] {
        run(Life::Busy, design, 2, if design == Serial { 1 } else { 2 }, a_while);
    }
}

/// A share that was cut before its keys changed owners is cut again, and does not run where only
/// half of its rows are.
#[test]
fn scans_see_one_moment_while_keys_change_owners() {
    for design in OWNERS {
        run(Life::Busy, design, 1, 3, |deployment| {
            let (start, instance) = (Instant::now(), &deployment.instances[0]);
            let mut moved = 0;
            for round in 0.. {
                let at = |n: u32| (round * 5 + n) % (SITES - 2) + 1;
                let (one, two) = (at(0).min(at(3)), at(0).max(at(3)));
                let parts = [(0..one, 0), (one..two, 1), (two..SITES, 2)];
                match instance.repartition(&parts) {
                    Ok(carried) => moved += carried.changes,
                    Err(instance::RepartitionError::Refused(exec::Refusal::Busy { .. })) => {}
                    Err(error) => panic!("{error}"),
                }
                if moved > 10 && start.elapsed() > Duration::from_millis(300) {
                    break;
                }
                assert!(start.elapsed() < Duration::from_secs(60), "{moved} moved");
            }
        });
    }
}
