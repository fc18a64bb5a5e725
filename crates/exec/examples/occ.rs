//! The cost of a transaction under `occ` from its begin to its commit, without the instance around
//! it: CPU time, and under callgrind instructions by function.
//!
//! ```text
//! cargo build --release -p exec --example occ
//! target/release/examples/occ neworder 300000
//! valgrind --tool=callgrind --toggle-collect=occ::measured --callgrind-out-file=/tmp/out \
//!     target/release/examples/occ neworder small counted 5000
//! ```
//!
//! Kinds: `tpcc`, `neworder`, `payment` (one warehouse), `read` and `update` (micro, 10 rows;
//! `rows=N` of them). `small` loads a tenth of the warehouse, `counted` asks for no time. Prints
//! the number of transactions, the CPU time of each in ns (least and median over ten parts of the
//! run), and the bytes of memory that each added.

use exec::memory::{MemoryAccess, MemoryLocalTxn, MemoryWorkerContext};
use exec::{
    DesignKind, Engine, EngineOptions, Executor, Load, MemoryEngine, Protection, Scope, Setup, SiteRange,
};
use locks::LockTuning;
use std::pin::pin;
use std::sync::Arc;
use txn::step::{Steps, Transaction};
use txn::{Abort, Generator, Workload};
use wal::Durability;
use workload::micro::{Micro, MicroOptions, Op};
use workload::oracle::at_once;
use workload::tpcc::{Mix, Tpcc, TpccOptions};

const TURNS: usize = 10;
/// About as many transactions as there are in ten milliseconds.
const EPOCH: usize = 700;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|a| a == word);
    let rows = arguments.iter().find_map(|a| a.strip_prefix("rows=")?.parse().ok()).unwrap_or(240_000);
    let transactions = arguments.iter().find_map(|a| a.parse().ok()).unwrap_or(100_000);
    let micro = |op| Micro::new(MicroOptions { dataset: rows, op, ..MicroOptions::new(1) });
    // Under valgrind there is no clock to read.
    let clock = if has("counted") { || 0 } else { || world::usage().cpu_ns };
    let whole = TpccOptions::new(1);
    let size = if has("small") { 10 } else { 1 };
    let (items, customers) = (whole.items / size, whole.customers / size);
    let tpcc = |mix| Tpcc::new(TpccOptions { mix, items, customers, ..whole.clone() });
    match () {
        () if has("read") => run(&micro(Op::Read).expect("valid options"), transactions, clock),
        () if has("update") => run(&micro(Op::Update).expect("valid options"), transactions, clock),
        () if has("payment") => run(&tpcc(Mix::Payment).expect("valid options"), transactions, clock),
        () if has("neworder") => run(&tpcc(Mix::NewOrder).expect("valid options"), transactions, clock),
        () => run(&tpcc(Mix::Full).expect("valid options"), transactions, clock),
    }
}

/// A transaction with all its steps at home.
struct AtHome<'a> {
    bench: &'a Bench,
    txn: &'a mut MemoryLocalTxn,
}

struct Bench {
    engine: Arc<MemoryEngine>,
    ctx: MemoryWorkerContext,
    executor: Executor,
}

impl AtHome<'_> {
    fn access(&mut self) -> MemoryAccess<'_> {
        self.bench.engine.access(&self.bench.ctx, &self.bench.executor, self.txn)
    }
}

impl Transaction for AtHome<'_> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        pin!(steps.run_all(&mut self.access())).await
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        pin!(steps.run_all(&mut self.access())).await
    }
}

fn setup(workload: &impl Workload) -> Setup {
    Setup {
        design: DesignKind::Occ,
        dir: "/nowhere".into(),
        durability: Durability::Memory,
        pool_pages: 1 << 20,
        workers: 1,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 1 << 20,
            ..EngineOptions::of(DesignKind::Occ)
        },
        schema: workload.schema(),
        site_range: SiteRange::whole(),
    }
}

fn run<W: Workload>(workload: &W, transactions: usize, clock: fn() -> u64) {
    let engine = Arc::new(MemoryEngine::open(&setup(workload)).expect("an engine").0);
    let bench = Bench {
        ctx: engine.worker_context(0, Arc::new(|| {})),
        engine: Arc::clone(&engine),
        executor: Executor::new(Arc::new(|| {})),
    };
    let mut filling = engine.filling(&bench.ctx);
    at_once(workload.load_replicated(&mut filling)).expect("loaded");
    for site in (0..workload.sites()).map(base::SiteId) {
        for part in 0..workload.load_parts(site) {
            at_once(workload.load(site, part, &mut filling)).expect("loaded");
        }
    }
    engine.filled(filling).expect("loaded");
    let mut requests = workload.generator(1 << 24, 0..workload.sites());
    let drawn: Vec<W::Request> = (0..transactions).map(|_| requests.next()).collect();
    let (mut txn, mut times) = (engine.local_txn(&bench.ctx), Vec::new());
    let before = engine.counts().pages * 8192;
    for some in drawn.chunks(transactions.div_ceil(TURNS).max(1)) {
        let begun = clock();
        measured(&bench, &mut txn, workload, some);
        times.push((clock() - begun) / some.len() as u64);
    }
    times.sort_unstable();
    let grown = ((engine.counts().pages * 8192) - before) as f64 / transactions as f64;
    println!("{transactions} {} {} {grown:.0}", times[0], times[times.len() / 2]);
}

#[inline(never)]
fn measured<W: Workload>(bench: &Bench, txn: &mut MemoryLocalTxn, workload: &W, requests: &[W::Request]) {
    let (engine, ctx) = (&*bench.engine, &bench.ctx);
    for (n, request) in requests.iter().enumerate() {
        if n % EPOCH == 0 {
            engine.begin_epoch();
        }
        engine.begin(ctx, txn, Protection::Locks);
        let ran = at_once(workload.run(request, &mut AtHome { bench, txn }));
        match ran {
            Ok(_) => {
                at_once(engine.validate(ctx, &bench.executor, txn, Scope::Home)).expect("alone");
                engine.commit(ctx, txn).expect("validated");
            }
            Err(Abort::User(_)) => engine.rollback(ctx, txn).expect("in memory"),
            Err(abort) => panic!("no other worker is here: {abort:?}"),
        }
    }
}
