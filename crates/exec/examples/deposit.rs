//! The cost of a transaction from its begin to its commit, without the instance around it: time,
//! and under callgrind instructions by function.
//!
//! ```text
//! cargo build --profile quick -p exec --example deposit
//! target/quick/examples/deposit serial tpcb 200000
//! valgrind --tool=callgrind --toggle-collect='deposit::measured*' --callgrind-out-file=/tmp/out \
//!     target/quick/examples/deposit serial tpcb 5000
//! ```
//!
//! Designs: `serial` (its transactions run alone, without locks) and `conventional`. Kinds: `tpcb`,
//! `read` and `update` (micro, 10 rows). With `async` the log is written to a file. `rows=N` sets
//! the accounts of each of two branches, or the rows of micro. Prints the number of transactions
//! and the nanoseconds of each: least and median over ten parts of the run.

use exec::{
    Conventional, Design, Executor, LocalTxn, PageAccess, PageEngine, PageOptions, Protection, Serial,
};
use locks::{LockOptions, LockTuning};
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use store::{Store, StoreOptions};
use txn::step::{Steps, Transaction};
use txn::{Abort, Generator, Workload};
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};
use workload::oracle::at_once;
use workload::tpcb::{Tpcb, TpcbOptions};

const TURNS: usize = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let rows = arguments.iter().find_map(|a| a.strip_prefix("rows=")?.parse().ok());
    let transactions = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(100_000);
    let durability = if has("async") { Durability::Async } else { Durability::Memory };
    let micro = |op| {
        let options = MicroOptions { dataset: rows.unwrap_or(20_000), op, ..MicroOptions::new(1) };
        Micro::new(options).expect("valid options")
    };
    let ask = (transactions, durability);
    let conventional = has("conventional");
    if has("read") {
        either(conventional, micro(Op::Read), ask);
    } else if has("update") {
        either(conventional, micro(Op::Update), ask);
    } else {
        let accounts = rows.unwrap_or(10_000) as u32;
        let tpcb = Tpcb::new(TpcbOptions { accounts, ..TpcbOptions::new(2) }).expect("valid options");
        either(conventional, tpcb, ask);
    }
}

fn either<W: Workload>(conventional: bool, workload: W, ask: (usize, Durability)) {
    if conventional { run::<Conventional, W>(workload, ask) } else { run::<Serial, W>(workload, ask) }
}

/// A transaction with all its steps at home.
struct AtHome<'a, D: Design> {
    engine: &'a PageEngine<D>,
    executor: &'a Executor,
    txn: &'a mut LocalTxn,
}

impl<D: Design> AtHome<'_, D> {
    fn access(&mut self) -> PageAccess<'_, D> {
        PageAccess::new(self.engine, self.executor, self.txn)
    }
}

impl<D: Design> Transaction for AtHome<'_, D> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        pin!(steps.run_all(&mut self.access())).await
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        pin!(steps.run_all(&mut self.access())).await
    }
}

fn run<D: Design, W: Workload>(workload: W, (transactions, durability): (usize, Durability)) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store =
        Store::open(world::real(), dir.path(), StoreOptions::new(durability, 60_000)).expect("a store").0;
    store.create(&workload.schema()).expect("tables");
    let locks = LockOptions { buckets: 1 << 14, tuning: LockTuning::default() };
    let options = PageOptions { locks, lock_timeout_ns: 1_000_000_000, waits_for_log: false };
    let engine = Arc::new(PageEngine::<D>::new(store, options));
    engine.own();
    let executor = Executor::new(Arc::new(|| {}));
    let mut txn = engine.local_txn();
    for site in (0..workload.sites()).map(base::SiteId) {
        for load in 0..workload.load_parts(site) {
            engine.begin(&mut txn, 0, Protection::Exclusive);
            let mut access = PageAccess::new(&engine, &executor, &mut txn);
            at_once(workload.load(site, load, &mut access)).expect("loaded");
            engine.commit(&mut txn).expect("committed");
        }
    }
    let mut requests = workload.generator(1 << 24, 0..workload.sites());
    let drawn: Vec<W::Request> = (0..transactions).map(|_| requests.next()).collect();
    let mut times = Vec::new();
    for some in drawn.chunks(transactions.div_ceil(TURNS).max(1)) {
        let begun = Instant::now();
        measured(&engine, &executor, &mut txn, &workload, some);
        times.push(begun.elapsed().as_nanos() as u64 / some.len() as u64);
    }
    times.sort_unstable();
    println!("{transactions} {} {}", times[0], times[times.len() / 2]);
}

#[inline(never)]
fn measured<D: Design, W: Workload>(
    engine: &PageEngine<D>,
    executor: &Executor,
    txn: &mut LocalTxn,
    workload: &W,
    requests: &[W::Request],
) {
    for request in requests {
        engine.begin(txn, 0, engine.protection_at_home(0));
        let mut at_home = AtHome { engine, executor, txn };
        at_once(workload.run(request, &mut at_home)).expect("nothing aborts");
        engine.commit(txn).expect("committed");
    }
}
