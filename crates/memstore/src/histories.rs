//! Random histories, judged by a checker that knows nothing of this store (`adya`, after Adya's and
//! Elle's papers): strict serialisability, or the cycle that breaks it. Rows hold lists of distinct
//! elements, so a list that was read gives the order of the writes. Many transactions of two
//! workers run on one thread, and each step takes a random transaction's next operation, so a seed
//! is a schedule. Other tests use several threads.

use crate::seams::Step;
use crate::{Conflict, Contention, Memstore, Options, Refused, Scope, Txn, Worker};
use adya::history::{Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Valid, Workload};
use base::TableId;
use fastrand::Rng;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use txn::{Direction, Flow, Range};

const T: TableId = TableId(0);
/// Lists in use at a time. Each takes about `ELEMENTS` elements and is then replaced by a new one.
const ACTIVE: i64 = 6;
const ELEMENTS: i64 = 16;
const RANGE: i64 = 3;

fn key(list: i64) -> [u8; 8] {
    list.to_be_bytes()
}

fn elements(row: &[u8]) -> Vec<i64> {
    row.chunks_exact(8).map(|chunk| i64::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[derive(Clone, Debug)]
enum Did {
    Append(i64, i64),
    Read(i64, Option<Vec<i64>>),
}

struct Event {
    order: u64,
    kind: OpType,
    process: i64,
    did: Vec<Did>,
}

#[derive(Default)]
struct Record {
    order: AtomicU64,
    element: AtomicI64,
    events: Mutex<Vec<Event>>,
}

impl Record {
    fn note(&self, kind: OpType, process: i64, did: Vec<Did>) {
        let mut events = self.events.lock().unwrap();
        events.push(Event { order: self.order.fetch_add(1, SeqCst), kind, process, did });
    }

    fn list(&self, random: &mut Rng) -> i64 {
        let first = self.element.load(SeqCst) / ELEMENTS;
        random.i64(first..first + ACTIVE)
    }

    fn judge(&self) -> (Valid, Vec<String>, usize) {
        let mut events = std::mem::take(&mut *self.events.lock().unwrap());
        events.sort_by_key(|event| event.order);
        let committed = events.iter().filter(|event| event.kind == OpType::Ok).count();
        let mut interner = Interner::default();
        let ops = events.iter().enumerate().map(|(index, event)| Op {
            index: index as u64,
            kind: event.kind,
            process: Some(event.process),
            value: event.did.iter().map(|did| mop(&mut interner, did)).collect(),
            time: None,
        });
        let ops = ops.collect();
        let opts = Opts { timeout: std::time::Duration::from_secs(20), ..Opts::default() };
        let report = adya::check(&History::from_ops(ops, interner), Workload::ListAppend, &opts);
        (report.valid, report.anomaly_types, committed)
    }
}

fn mop(interner: &mut Interner, did: &Did) -> Mop {
    let mut id = |n: i64| interner.intern(Scalar::Int(n));
    match did {
        Did::Append(list, element) => Mop::Append { key: id(*list), value: id(*element) },
        Did::Read(list, Some(read)) => {
            Mop::Read { key: id(*list), value: ReadValue::List(read.iter().map(|e| id(*e)).collect()) }
        }
        Did::Read(list, None) => Mop::Read { key: id(*list), value: ReadValue::Nil },
    }
}

/// A client's transaction under way.
struct Client {
    process: i64,
    worker: usize,
    txn: Option<Box<Txn>>,
    did: Vec<Did>,
    left: usize,
}

impl Client {
    fn new(process: usize, workers: usize) -> Client {
        Client { process: process as i64, worker: process % workers, txn: None, did: Vec::new(), left: 0 }
    }

    /// One operation, or the beginning or end of a transaction.
    fn step(&mut self, w: &mut Worker, record: &Record, random: &mut Rng) {
        let Some(mut txn) = self.txn.take() else {
            record.note(OpType::Invoke, self.process, vec![]);
            self.left = random.usize(1..6);
            self.txn = Some(w.begin());
            return;
        };
        if self.left == 0 {
            return self.finish(w, txn, record, random);
        }
        self.left -= 1;
        match operate(w, &mut txn, record, random) {
            Ok(mut did) => self.did.append(&mut did),
            Err(Refused::Busy(_)) => self.left += 1,
            Err(Refused::Conflict(_)) => return self.give_up(w, txn, record),
            Err(refused) => panic!("{refused}"),
        }
        self.txn = Some(txn);
    }

    fn finish(&mut self, w: &mut Worker, mut txn: Box<Txn>, record: &Record, random: &mut Rng) {
        if random.usize(..8) == 0 && !txn.is_prepared() {
            return self.give_up(w, txn, record);
        }
        // Some are prepared here and decided in a later step.
        if random.usize(..3) == 0 && !txn.is_prepared() {
            return match w.pre_commit(&mut txn, if random.bool() { Scope::Local } else { Scope::Distributed })
            {
                Ok(_) | Err(Refused::Busy(_)) => self.txn = Some(txn),
                Err(_) => self.give_up(w, txn, record),
            };
        }
        if txn.is_prepared() {
            w.post_commit(txn);
            return record.note(OpType::Ok, self.process, std::mem::take(&mut self.did));
        }
        match w.commit(txn) {
            Ok(_) => record.note(OpType::Ok, self.process, std::mem::take(&mut self.did)),
            Err((_, Some(txn))) => self.txn = Some(txn),
            Err((_, None)) => record.note(OpType::Fail, self.process, std::mem::take(&mut self.did)),
        }
    }

    fn give_up(&mut self, w: &mut Worker, txn: Box<Txn>, record: &Record) {
        w.abort(txn);
        record.note(OpType::Fail, self.process, std::mem::take(&mut self.did));
    }
}

fn operate(w: &mut Worker, txn: &mut Txn, record: &Record, random: &mut Rng) -> Result<Vec<Did>, Refused> {
    let list = record.list(random);
    if random.usize(..4) == 0 {
        // This key and another one, or the other one first: then the look-up in advance is taken
        // later.
        let (a, b) = (key(list), key(record.list(random)));
        w.prefetch(txn, T, &if random.bool() { [a, b] } else { [b, a] })?;
    }
    match random.u32(..10) {
        0..5 => {
            let element = record.element.fetch_add(1, SeqCst);
            let push = |row: &mut Vec<u8>| row.extend_from_slice(&element.to_le_bytes());
            if w.update(txn, T, &key(list), push)?.is_none() {
                w.insert(txn, T, &key(list), &element.to_le_bytes())?;
            }
            Ok(vec![Did::Append(list, element)])
        }
        5..7 => {
            let read = w.read(txn, T, &key(list), elements)?;
            Ok(vec![Did::Read(list, Some(read.unwrap_or_default()))])
        }
        n => {
            let direction = if n == 7 { Direction::Backward } else { Direction::Forward };
            let (low, high) = (key(list), key(list + RANGE));
            let range = Range { low: Some(&low), high: Some(&high) };
            let mut found = Vec::new();
            w.scan(txn, T, range, direction, |key, row| {
                found.push((i64::from_be_bytes(key.try_into().unwrap()), elements(row)));
                Flow::More
            })?;
            let read = |list| found.iter().find(|(n, _)| *n == list).map(|(_, read)| read.clone());
            let all = list..list + RANGE;
            Ok(all.map(|list| Did::Read(list, Some(read(list).unwrap_or_default()))).collect())
        }
    }
}

fn open(conflict: Conflict, contention: Contention, workers: usize) -> Arc<Memstore> {
    let pages = world::PageSize::Normal;
    let options = Options { pages, conflict, contention, ..Options::new(64 << 20, workers) };
    let store = Memstore::open(options).expect("a small store");
    store.create(T).unwrap();
    store
}

fn interleaved(seed: u64, bug: Option<Step>) -> (Valid, Vec<String>, usize) {
    let conflict = if seed.is_multiple_of(2) { Conflict::Abort } else { Conflict::Wait };
    let contention = if seed % 4 < 2 { Contention::Queues } else { Contention::Optimistic };
    let store = open(conflict, contention, 2);
    store.seams.leave_out(bug);
    let mut workers = [0, 1].map(|n| store.worker(n).unwrap());
    let mut clients: Vec<Client> = (0..6).map(|n| Client::new(n, 2)).collect();
    let (record, mut random) = (Record::default(), Rng::with_seed(seed));
    for step in 0..4000 {
        let client = &mut clients[random.usize(..6)];
        client.step(&mut workers[client.worker], &record, &mut random);
        if step % 50 == 0 {
            store.tick();
            workers.iter_mut().for_each(|w| _ = w.collect(1000));
        }
    }
    record.judge()
}

#[test]
fn interleaved_histories_are_strictly_serialisable() {
    for seed in 0..16 {
        let (valid, anomalies, committed) = interleaved(seed, None);
        assert!(valid == Valid::True, "seed {seed}: {anomalies:?}");
        assert!(committed > 100, "seed {seed}: only {committed} committed");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in [Step::CheckReads, Step::CheckLeaves, Step::NoteAbsent] {
        let found = (0..16).any(|seed| interleaved(seed, Some(bug)).0 == Valid::False);
        assert!(found, "{bug:?} was not found");
    }
}

#[test]
fn histories_of_threads_are_strictly_serialisable() {
    const THREADS: usize = 4;
    let store = open(Conflict::Abort, Contention::Queues, THREADS);
    let record = Record::default();
    std::thread::scope(|scope| {
        for n in 0..THREADS {
            let (store, record) = (&store, &record);
            scope.spawn(move || {
                let (mut w, mut random) = (store.worker(n).unwrap(), Rng::with_seed(n as u64));
                let mut clients = [n, n + THREADS].map(|process| Client::new(process, THREADS));
                for step in 0..6000 {
                    clients[random.usize(..2)].step(&mut w, record, &mut random);
                    if step % 100 == n {
                        store.tick();
                        std::thread::yield_now();
                    }
                }
                for client in &mut clients {
                    if let Some(txn) = client.txn.take() {
                        w.abort(txn);
                        record.note(OpType::Fail, client.process, vec![]);
                    }
                }
            });
        }
    });
    let (valid, anomalies, committed) = record.judge();
    assert!(valid == Valid::True, "{anomalies:?}");
    assert!(committed > 500, "only {committed} committed");
}

/// Transfers keep the sum, accounts come and go with their money, and every snapshot and scan finds
/// all of it. The same holds for one bank of two that share leaves.
#[test]
fn snapshots_and_scans_beside_writers_find_every_sum_whole() {
    const ACCOUNTS: u64 = 6;
    const BANKS: u64 = 2;
    const MONEY: i64 = 1000;
    let account = |bank: u64, n: u64| (bank << 8 | n).to_be_bytes();
    let store = open(Conflict::Abort, Contention::Queues, 3);
    let mut w = store.worker(0).unwrap();
    let mut t = w.begin();
    for bank in 0..BANKS {
        w.insert(&mut t, T, &account(bank, 0), &MONEY.to_le_bytes()).unwrap();
    }
    assert!(w.commit(t).is_ok());
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for n in 1..3 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let (mut w, mut random) = (store.worker(n).unwrap(), Rng::with_seed(n as u64));
                while !stop.load(SeqCst) {
                    let bank = random.u64(..BANKS);
                    let [from, to] = [0; 2].map(|_| account(bank, random.u64(..ACCOUNTS)));
                    let mut t = w.begin();
                    match transfer(&mut w, &mut t, from, to, &mut random) {
                        Ok(()) => drop(w.commit(t)),
                        Err(_) => w.abort(t),
                    }
                }
            });
        }
        let [low, high] = [account(1, 0), account(1, ACCOUNTS)];
        let (whole, one) = (Range::default(), Range::new(&low, &high));
        let mut read = [0; 3];
        for round in 0..9000 {
            let direction = if round % 2 == 0 { Direction::Forward } else { Direction::Backward };
            let mut sum = 0;
            let add = |_: &[u8], row: &[u8]| {
                sum += balance(row);
                Flow::More
            };
            let kind = round / 2 % 3;
            let (range, money) = if kind == 2 { (one, MONEY) } else { (whole, 2 * MONEY) };
            let ended = if kind != 1 {
                let mut t = w.begin();
                match w.scan(&mut t, T, range, direction, add) {
                    Ok(()) => w.commit(t).is_ok(),
                    Err(_) => {
                        w.abort(t);
                        false
                    }
                }
            } else {
                let past = w.open_snapshot();
                while !w.is_ready(&past) {
                    std::thread::yield_now();
                }
                let ended = w.scan_past(&past, T, whole, direction, add).is_ok();
                w.close_snapshot(past);
                ended
            };
            if ended {
                assert_eq!(sum, money, "round {round}");
                read[kind] += 1;
            }
        }
        stop.store(true, SeqCst);
        assert!(read.iter().all(|read| *read > 0), "{read:?}");
    });
}

fn balance(row: &[u8]) -> i64 {
    i64::from_le_bytes(row[..8].try_into().unwrap())
}

/// Moves some or all of the money. An account without money is deleted, a new one is made when it
/// gets some.
fn transfer(
    w: &mut Worker,
    t: &mut Txn,
    from: [u8; 8],
    to: [u8; 8],
    random: &mut Rng,
) -> Result<(), Refused> {
    let Some(has) = w.read(t, T, &from, balance)? else { return Ok(()) };
    let amount = if random.bool() { has } else { random.i64(0..=has) };
    if amount == has {
        w.delete(t, T, &from)?;
    } else {
        w.update(t, T, &from, |row| row[..8].copy_from_slice(&(has - amount).to_le_bytes()))?;
    }
    let add = |row: &mut Vec<u8>| {
        let sum = (balance(row) + amount).to_le_bytes();
        // Some rows outgrow their room and come back.
        row.resize(if amount % 3 == 0 { 300 } else { 8 }, 0);
        row[..8].copy_from_slice(&sum);
    };
    if w.update(t, T, &to, add)?.is_none() {
        w.insert(t, T, &to, &amount.to_le_bytes())?;
    }
    Ok(())
}
