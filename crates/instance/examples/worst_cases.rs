//! The worst cases for partitions (thesis of Pandis, sections 3.4.6 and 3.4.7): joins of many rows
//! over partitions, and range scans through a secondary index that is, or is not, cut at the same
//! borders as the rows.
//!
//! ```text
//! cargo run --profile quick -p instance --example worst_cases [SECONDS [ROWS]]
//! ```
//!
//! *join*: a number of lines from a drawn one on, each with the item of the same number in another
//! table, counting the items with little left. This is StockLevel with the number of tuples that
//! the thesis varies. *aligned*: the same number of lines in the order of an index that begins with
//! the routing column. *nonaligned*: in the order of an index that scatters them over all
//! partitions. Every case runs under each design for SECONDS (1) in turn, on two tables of ROWS
//! (400,000), with two workers and four clients. It prints one row each, with the ratio to
//! `conventional` in the same run.

use base::{Key, SiteId, TableId};
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::{Duration, Instant};
use txn::{
    Abort, Access, Column, Direction, Effect, Flow, Generator, IndexDef, Placement, Route, Row, RowBuf,
    Schema, Share, Spread, Step, StepId, TableDef, Transaction, Type, Verdict, Workload,
};

const LINES: TableId = TableId(1);
const ALIGNED: TableId = TableId(2);
const SCATTERED: TableId = TableId(3);
const ITEMS: TableId = TableId(4);
const SITES: u32 = 8;
const WORKERS: usize = 2;
const PART: u64 = 2_000;
/// A rate is computed from at least this many transactions, unless they take too long.
const FEW: u64 = 20;
/// Items with less left than this are counted: half of them.
const LITTLE: i64 = 50;
/// The distance of neighbours in the scattered index, approximately: it must have no divisor in
/// common with the number of rows.
const STRIDE: u64 = 150_001;

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Case {
    Join,
    Aligned,
    NonAligned,
}

/// `count` lines from position `first` on, in the order of the case.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Look {
    case: Case,
    first: u64,
    count: u64,
}

impl Step for Look {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Reads;
    /// The number of lines, and the number of those with little left, or their sum.
    type Output = (u64, i64);

    fn route(&self) -> Route {
        let key = if self.case == Case::NonAligned { 0 } else { self.first };
        Route { table: LINES, key }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(u64, i64), Abort> {
        let (low, high) = (number(self.first), number(self.first + self.count));
        let index = match self.case {
            Case::Join => LINES,
            Case::Aligned => ALIGNED,
            Case::NonAligned => SCATTERED,
        };
        let (mut met, mut sum, mut ids) = (0, 0, Vec::new());
        let visit = |_: &[u8], row: Row<'_>| {
            met += 1;
            match self.case {
                Case::Join => ids.push(row.int(0) as u64),
                _ => sum += row.int(2),
            }
            Flow::More
        };
        access.scan(index, txn::Range::new(&low, &high), Direction::Forward, visit).await?;
        for id in ids {
            let left = access.read(ITEMS, &number(id), |row| row.int(1)).await?;
            sum += i64::from(left.ok_or(Abort::BadRequest)? < LITTLE);
        }
        Ok((met, sum))
    }
}

impl Spread for Look {
    fn keys(&self) -> Range<u64> {
        match self.case {
            Case::NonAligned => 0..u64::MAX,
            _ => self.first..self.first + self.count,
        }
    }

    fn join(&self, so_far: &mut (u64, i64), (met, sum): (u64, i64)) {
        *so_far = (so_far.0 + met, so_far.1 + sum);
    }
}

fn number(n: u64) -> Key {
    Key::new().i64(n as i64)
}

#[derive(Clone)]
struct Worst {
    rows: u64,
    case: Case,
    count: u64,
}

struct Draw(fastrand::Rng, Worst);

impl Generator for Draw {
    type Request = Look;

    fn next(&mut self) -> Look {
        let Worst { rows, case, count } = self.1;
        Look { case, first: self.0.u64(..=rows - count), count }
    }
}

impl Worst {
    fn lines(&self) -> TableDef {
        let columns = ["id", "place", "amount"].map(|name| Column::new(name, Type::I64)).into();
        let index =
            |id, name: &str, columns: &[u16]| IndexDef { id, name: name.into(), columns: columns.into() };
        let indexes = vec![index(ALIGNED, "aligned", &[0, 1]), index(SCATTERED, "scattered", &[1])];
        TableDef { indexes, ..TableDef::new(LINES, "lines", columns, &[0], self.rows) }
    }

    fn items(&self) -> TableDef {
        let columns = ["id", "left"].map(|name| Column::new(name, Type::I64)).into();
        TableDef::new(ITEMS, "items", columns, &[0], self.rows)
    }

    fn stride(&self) -> u64 {
        let divisor = |mut a: u64, mut b: u64| {
            while b > 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        (STRIDE..).find(|stride| divisor(*stride, self.rows) == 1).unwrap_or(1)
    }

    fn rows_of(&self, site: u32) -> Range<u64> {
        let edge = |site: u32| (u64::from(site) * self.rows).div_ceil(u64::from(SITES));
        edge(site)..edge(site + 1)
    }
}

impl Workload for Worst {
    type Request = Look;
    type Reply = (u64, i64);
    type Generator = Draw;
    type Audit = ();

    fn name(&self) -> String {
        "worst cases".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: vec![self.lines(), self.items()] }
    }

    fn sites(&self) -> u32 {
        SITES
    }

    async fn run<T: Transaction>(&self, look: &Look, txn: &mut T) -> Result<(u64, i64), Abort> {
        let found = txn.over(look.clone()).await?;
        if found.0 == look.count { Ok(found) } else { Err(Abort::User(1)) }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Share<Look>)
    }

    fn routes(&self, look: &Look, visit: &mut dyn FnMut(Route)) {
        let last = if look.case == Case::NonAligned { self.rows } else { look.first + look.count } - 1;
        visit(Step::route(look));
        visit(Route { table: LINES, key: last });
    }

    fn kind(&self, _: &Look) -> &'static str {
        "look"
    }

    fn generator(&self, seed: u64, _: Range<u32>) -> Draw {
        Draw(fastrand::Rng::with_seed(seed), self.clone())
    }

    fn clients(&self) -> txn::Clients {
        txn::Clients::Routed
    }

    fn load_parts(&self, site: SiteId) -> u32 {
        let rows = self.rows_of(site.0);
        (rows.end - rows.start).div_ceil(PART) as u32
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        let rows = self.rows_of(site.0);
        let first = rows.start + u64::from(part) * PART;
        let stride = self.stride();
        let (mut lines, mut items) = (RowBuf::new(&self.lines()), RowBuf::new(&self.items()));
        for id in first..rows.end.min(first + PART) {
            let mut row = lines.start();
            row.set_int(0, id as i64);
            row.set_int(1, (id * stride % self.rows) as i64);
            row.set_int(2, (id % 10) as i64);
            access.insert(LINES, &number(id), lines.bytes()).await?;
            let mut row = items.start();
            row.set_int(0, id as i64);
            row.set_int(1, (id * 7 % 100) as i64);
            access.insert(ITEMS, &number(id), items.bytes()).await?;
        }
        Ok(())
    }

    async fn audit<A: Access>(&self, _: Range<u32>, _: &mut A) -> Result<(), Abort> {
        Ok(())
    }

    fn judge(&self, _: Vec<()>, _: Option<u64>) -> Verdict {
        Verdict::default()
    }
}

const DESIGNS: [DesignKind; 5] = [
    DesignKind::Conventional,
    DesignKind::Logical,
    DesignKind::PlpRegular,
    DesignKind::PlpPartition,
    DesignKind::PlpLeaf,
];

fn start(design: DesignKind, worst: &Worst) -> (tempfile::TempDir, Instance<Worst>) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let config = InstanceConfig::new(dir.path().into(), Placement::even(SITES, 1), design);
    let pool_pages = 4_000 + worst.rows as usize / 20;
    let config = InstanceConfig { cpus: vec![None; WORKERS], pool_pages, spin_us: 5, ..config };
    let instance = Instance::start(worst.clone(), config).expect("an instance");
    instance.load(&|_, _| {}).expect("loaded");
    (dir, instance)
}

/// Transactions a second, over `seconds` or as many more as it takes until a few have ended.
fn run(instance: &Instance<Worst>, worst: &Worst, seconds: f64) -> f64 {
    instance.reconfigure(worst.clone()).expect("it runs");
    instance.measure().expect("it runs");
    instance.drive(2, 1 << 32);
    let (start, mut committed) = (Instant::now(), 0);
    while committed == 0 || committed < FEW && start.elapsed().as_secs_f64() < 10.0 * seconds {
        std::thread::sleep(Duration::from_secs_f64(seconds));
        committed += instance.measure().expect("it runs").committed_total();
    }
    let tps = committed as f64 / start.elapsed().as_secs_f64();
    instance.halt().expect("it runs");
    let aborted = instance.measure().expect("it runs").aborted;
    assert!(!aborted.contains_key("bad_request") && !aborted.contains_key("user"), "{aborted:?}");
    tps
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<f64>().expect("seconds, then rows"));
    let seconds = arguments.next().unwrap_or(1.0);
    let rows = arguments.next().map_or(400_000, |rows| rows as u64);
    let whole = Worst { rows, case: Case::Join, count: 1 };
    let instances = DESIGNS.map(|design| start(design, &whole));
    println!("case\trows\tdesign\ttransactions/s\tratio to conventional");
    let cases = [
        (Case::Join, &[20, 200, 2_000, 20_000, 200_000][..]),
        (Case::Aligned, &[10, 100, 1_000, 10_000]),
        (Case::NonAligned, &[10, 100, 1_000, 10_000]),
    ];
    for (case, counts) in cases {
        for &count in counts.iter().filter(|count| **count <= rows) {
            let worst = Worst { case, count, ..whole.clone() };
            let mut conventional = None;
            for (design, (_, instance)) in DESIGNS.iter().zip(&instances) {
                let tps = run(instance, &worst, seconds);
                let ratio = tps / *conventional.get_or_insert(tps);
                println!("{case:?}\t{count}\t{design}\t{tps:.1}\t{ratio:.2}");
            }
        }
    }
    instances.into_iter().for_each(|(_, instance)| instance.stop().expect("it stops"));
}
