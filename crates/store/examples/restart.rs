//! The speed of a restart. A process fills a database, takes a checkpoint, runs transactions until
//! enough was logged, and dies. Then the database is opened, answers its first transaction, and
//! brings all pages up to date.
//!
//! ```text
//! cargo run --release -p store --example restart -- \
//!     WORKLOAD [DATABASE_MIB] [LOG_MIB] [THREADS] [FOLDER]
//! ```
//!
//! `WORKLOAD` is `update-1` or `update-10` (as many random rows of 250 bytes, one commit), `tpcb`,
//! `neworder` (the same log as those transactions: the same rows in the same order, without the
//! reads), or `all`. Defaults: 64 MiB of data, 192 MiB of log, one thread, a folder in the current
//! one.
//!
//! **The measure** is bytes of log replayed per second of a core's time, from before the database
//! is opened until every page is up to date. It counts all threads of this process, and the
//! kernel's work for them. The result is the median of three restarts of the same files, with
//! minimum and maximum; a megabyte is 10^6 bytes. A large log on a small database measures replay
//! (64 and 192 MiB: each page is read once and has hundreds of records). A small log on a large
//! database measures page reads (1024 and 64 MiB: one page per few records). With a folder in
//! memory (`/dev/shm`), pages are read from memory. `THREADS` is the number of threads that bring
//! pages up to date after the one pass over the log.

use access::Expect;
use base::{Key, TableId};
use latch::Coupled;
use pages::Stop;
use std::path::{Path, PathBuf};
use std::time::Instant;
use store::{Store, StoreOptions, Table, Txn};
use txn::{Column, RowBuf, Schema, TableDef, TableKind, Type};
use wal::Durability;

const WORKLOADS: [&str; 4] = ["update-1", "update-10", "tpcb", "neworder"];
const ROUNDS: usize = 3;

/// Rows that are updated. The other tables only grow.
const ROWS: TableId = TableId(1);
/// TPC-B's branches and tellers, TPC-C's districts: few rows.
const FEW: TableId = TableId(2);
/// History; order lines.
const LINES: TableId = TableId(3);
const ORDERS: TableId = TableId(4);
const NEW_ORDERS: TableId = TableId(5);

struct Job {
    workload: String,
    database: u64,
    log: u64,
    threads: usize,
    dir: PathBuf,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |n: usize| arguments.get(n).cloned();
    let number = |n: usize, default: u64| text(n).and_then(|a| a.parse().ok()).unwrap_or(default);
    let workload = text(0).unwrap_or_else(|| "all".into());
    let (database, log) = (number(1, 64) << 20, number(2, 192) << 20);
    let dir = PathBuf::from(text(4).unwrap_or_else(|| "restart-example".into()));
    let job = |workload: &str| Job {
        workload: workload.into(),
        database,
        log,
        threads: number(3, 1) as usize,
        dir: dir.clone(),
    };
    if text(5).is_some() {
        job(&workload).fill_and_die();
    }
    match WORKLOADS.iter().find(|name| **name == workload) {
        Some(name) => job(name).measure(),
        None if workload == "all" => WORKLOADS.iter().for_each(|name| job(name).measure()),
        None => {
            eprintln!("{workload}: expected one of {}, all", WORKLOADS.join(", "));
            std::process::exit(2);
        }
    }
}

/// The times of one restart, in seconds.
struct Took {
    opened: f64,
    opened_cpu: f64,
    answered: f64,
    repeated: f64,
    repeated_cpu: f64,
}

impl Job {
    fn measure(&self) {
        let (made, run) = (self.dir.join("made"), self.dir.join("run"));
        let _ = std::fs::remove_dir_all(&self.dir);
        let me = std::env::current_exe().expect("this program has a file");
        let sizes = [self.database >> 20, self.log >> 20, 1].map(|n| n.to_string());
        let mut filling = std::process::Command::new(me);
        let _killed = filling.arg(&self.workload).args(&sizes).arg(&made).arg("fill").status();
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            copy(&made, &run);
            rounds.push(self.restart(&run, round));
            let _ = std::fs::remove_dir_all(&run);
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        let told = |f: fn(&(f64, Took)) -> f64| {
            let mut all: Vec<f64> = rounds.iter().map(f).collect();
            all.sort_by(f64::total_cmp);
            format!("{:.0} ({:.0}-{:.0})", all[ROUNDS / 2], all[0], all[ROUNDS - 1])
        };
        println!("  pass over the log: {} MB/s per core", told(|(mb, took)| mb / took.opened_cpu));
        println!(
            "  everything: {} MB/s per core; {} MB/s",
            told(|(mb, took)| mb / took.repeated_cpu),
            told(|(mb, took)| mb / took.repeated),
        );
        println!(
            "  milliseconds: open {}, first answer {}, everything {}",
            told(|(_, took)| took.opened * 1e3),
            told(|(_, took)| took.answered * 1e3),
            told(|(_, took)| took.repeated * 1e3),
        );
    }

    /// Restarts once. Returns the megabytes of log and the times.
    fn restart(&self, dir: &Path, round: usize) -> (f64, Took) {
        let (before, cpu) = (Instant::now(), world::usage().cpu_ns);
        let since = || (before.elapsed().as_secs_f64(), (world::usage().cpu_ns - cpu) as f64 / 1e9);
        let (store, recovered) = self.open(dir);
        let (opened, opened_cpu) = since();
        Client::new(&store, 1).update(FEW, 0);
        let (answered, _) = since();
        let waiting = store.redo_left();
        std::thread::scope(|scope| {
            let all: Vec<_> = (1..self.threads).map(|_| scope.spawn(|| store.finish_redo())).collect();
            store.finish_redo().expect("repeats everything");
            all.into_iter().for_each(|one| one.join().expect("ends").expect("repeats everything"));
        });
        let (repeated, repeated_cpu) = since();
        if round == 0 {
            println!(
                "{}: {} MiB of data, {:.1} MB of log in {} records, {waiting} pages to bring up to date by {} thread(s)",
                self.workload,
                u64::from(store.pages_used()) * 8 / 1024,
                recovered.redo_bytes as f64 / 1e6,
                recovered.redo_records,
                self.threads,
            );
        }
        (recovered.redo_bytes as f64 / 1e6, Took { opened, opened_cpu, answered, repeated, repeated_cpu })
    }

    fn open(&self, dir: &Path) -> (Store, store::Recovered) {
        // The growing tables take less than twice the bytes that are logged for them.
        let frames = ((self.database * 2 + self.log * 2) / 8192 + 10_000) as usize;
        let options = StoreOptions {
            checkpoint_bytes: self.log.max(64 << 20),
            ..StoreOptions::new(Durability::Async, frames)
        };
        Store::open(world::real(), dir, options).expect("the database opens")
    }

    fn fill_and_die(&self) -> ! {
        let (store, _) = self.open(&self.dir);
        let pad = if self.workload == "tpcb" { 84 } else { 234 };
        let few = if self.workload == "tpcb" { 11 } else { 10 };
        let rows = self.database / (pad as u64 + 50);
        store.create(&schema(pad)).expect("creates");
        let mut client = Client::new(&store, rows);
        for (table, count) in [(ROWS, rows as i64), (FEW, few)] {
            for first in (0..count).step_by(1000) {
                client.begin();
                (first..count.min(first + 1000)).for_each(|id| client.insert(table, &[id, 0]));
                client.commit();
                if store.checkpoint_due() {
                    store.checkpoint().expect("a checkpoint");
                }
            }
        }
        store.checkpoint().expect("a checkpoint");
        let from = store.log().end().0;
        while store.log().end().0 - from < self.log {
            client.run(&self.workload);
        }
        std::process::abort();
    }
}

fn schema(pad: u16) -> Schema {
    let table = |id: TableId, key: Vec<u16>, pad: u16| {
        let int = |name: &str| Column::new(name, Type::I64);
        let columns = vec![int("id"), int("n"), Column::new("pad", Type::Char(pad))];
        TableDef {
            id,
            name: format!("t{}", id.0),
            columns,
            key,
            indexes: vec![],
            domain: 1,
            kind: TableKind::Heap,
        }
    };
    Schema {
        tables: vec![
            table(ROWS, vec![0], pad),
            table(FEW, vec![0], 84),
            table(LINES, if pad == 84 { vec![] } else { vec![0, 1] }, 34),
            table(ORDERS, vec![0], 12),
            table(NEW_ORDERS, vec![0], 1),
        ],
    }
}

/// A thread that runs transactions.
struct Client<'a> {
    store: &'a Store,
    txn: Txn,
    rows: u64,
    random: u64,
    orders: i64,
}

impl<'a> Client<'a> {
    fn new(store: &'a Store, rows: u64) -> Self {
        Client { store, txn: Txn::default(), rows, random: 1, orders: 0 }
    }

    fn row(&mut self) -> i64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) % self.rows) as i64
    }

    fn run(&mut self, workload: &str) {
        self.begin();
        match workload {
            "update-1" | "update-10" => {
                for _ in 0..if workload == "update-1" { 1 } else { 10 } {
                    let row = self.row();
                    self.change(ROWS, row);
                }
            }
            "tpcb" => {
                let row = self.row();
                self.change(ROWS, row);
                self.change(FEW, 1 + row % 10);
                self.change(FEW, 0);
                self.insert(LINES, &[row, row]);
            }
            _ => self.new_order(),
        }
        self.commit();
    }

    fn new_order(&mut self) {
        self.orders += 1;
        let (order, district) = (self.orders, self.row() % 10);
        self.change(FEW, district);
        self.insert(ORDERS, &[order, district]);
        self.insert(NEW_ORDERS, &[order, district]);
        for line in 0..10 {
            let row = self.row();
            self.change(ROWS, row);
            self.insert(LINES, &[order, line]);
        }
    }

    fn update(&mut self, table: TableId, id: i64) {
        self.begin();
        self.change(table, id);
        self.commit();
    }

    fn begin(&mut self) {
        self.store.begin(&mut self.txn, 0);
    }

    fn commit(&mut self) {
        self.store.commit(&mut self.txn, None).expect("commits");
    }

    fn table(&self, id: TableId) -> &'a Table {
        self.store.table(id).expect("created")
    }

    fn change(&mut self, table: TableId, id: i64) {
        let (store, of, key) = (self.store, self.table(table), Key::new().i64(id));
        let add = |row: &mut txn::RowMut<'_>| row.set_int(1, row.int(1) + 1);
        settle(store, || store.update::<Coupled, _>(&mut self.txn, of, &key, add)).expect("the row is there");
    }

    fn insert(&mut self, table: TableId, ids: &[i64; 2]) {
        let (store, of) = (self.store, self.table(table));
        let mut buf = RowBuf::new(&of.def);
        let mut row = buf.start();
        row.set_int(0, ids[0]);
        row.set_int(1, ids[1]);
        let Type::Char(pad) = of.def.columns[2].ty else { unreachable!("as the schema says") };
        row.set_text(2, &"x".repeat(pad.into()));
        let key = match of.def.key.len() {
            0 => {
                settle(store, || store.append::<Coupled>(&mut self.txn, of, buf.bytes()));
                return;
            }
            2 => Key::new().i64(ids[0]).i64(ids[1]),
            _ => Key::new().i64(ids[0]),
        };
        settle(store, || store.insert::<Coupled>(&mut self.txn, of, &key, buf.bytes(), Expect::Any));
    }
}

fn settle<T>(store: &Store, mut op: impl FnMut() -> Result<T, Stop>) -> T {
    loop {
        match op() {
            Err(Stop::Page(page)) => store.load_page(page).expect("loads"),
            Err(Stop::Again) => std::hint::spin_loop(),
            done => return done.unwrap_or_else(|stop| panic!("{stop}")),
        }
    }
}

/// Copies a folder recursively.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("makes a folder");
    for entry in std::fs::read_dir(from).expect("lists a folder") {
        let entry = entry.expect("lists a folder");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("is something").is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copies a file");
        }
    }
}
