//! A workload of single notes that the test can observe closely: when an answer is given, the state
//! after a request was given up, and the end of an instance with a worker that cannot go on.

use crate::support::{Deployment, Via, config, private_dir};
use base::{Gtid, InstanceId, Key, SiteId, TableId, WorkerId};
use channel::{Address, Hello, Link};
use exec::DesignKind;
use instance::{Instance, InstanceConfig, InstanceFault};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use twophase::{Decision, Message};
use txn::schema::{Column, TableDef, Type};
use txn::step::{Route, Step, StepId};
use txn::{Abort, Access, Generator, Inserted, RowBuf, Schema, TableKind, Transaction, Verdict, Workload};
use wal::Durability;
use wire::{Batch, Caller, Frame, Piggyback};

const NOTES: TableId = TableId(1);
/// Keys; the first half belongs to the first of two instances.
const DOMAIN: u64 = 1 << 20;

/// The requests control it, and it reports to the test that made it.
#[derive(Clone, Default)]
struct Diary {
    /// The last note that was written, perhaps not committed yet.
    written: Arc<AtomicU64>,
    looked_at: Arc<AtomicU64>,
    /// The directory of the log.
    log: Arc<PathBuf>,
    /// Answers about notes that were in the log on the device, and about notes that were not.
    safe: Arc<AtomicU64>,
    unsafe_: Arc<AtomicU64>,
    /// From now on workers panic.
    broken: Arc<AtomicBool>,
    /// Notes are read from another instance, by a phase that is not the last.
    from_afar: bool,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Entry {
    Write,
    /// Finds the last note, and therefore ends without success.
    Look,
}

struct Entries(Entry);

impl Generator for Entries {
    type Request = Entry;
    fn next(&mut self) -> Entry {
        self.0
    }
}

#[derive(Serialize, Deserialize)]
struct PutNote(u64);

#[derive(Serialize, Deserialize)]
struct FindNote(u64);

fn key(note: u64) -> Key {
    Key::new().i64(note as i64)
}

fn text(note: u64) -> String {
    format!("the diary's note {note:08}")
}

impl Step for PutNote {
    const ID: StepId = 1;
    type Output = ();
    fn route(&self) -> Route {
        Route { table: NOTES, key: self.0 }
    }
    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        let mut row = RowBuf::new(&Diary::default().schema().tables[0]);
        let mut values = row.start();
        values.set_int(0, self.0 as i64);
        values.set_text(1, &text(self.0));
        match access.insert(NOTES, &key(self.0), row.bytes()).await? {
            Inserted::Done => Ok(()),
            Inserted::Exists => Err(Abort::BadRequest),
        }
    }
}

impl Step for FindNote {
    const ID: StepId = 2;
    type Output = bool;
    fn route(&self) -> Route {
        Route { table: NOTES, key: self.0 }
    }
    async fn run<A: Access>(&self, access: &mut A) -> Result<bool, Abort> {
        Ok(access.read(NOTES, &key(self.0), |_| ()).await?.is_some())
    }
}

impl Workload for Diary {
    type Request = Entry;
    type Reply = ();
    type Generator = Entries;
    type Audit = ();

    fn name(&self) -> String {
        "diary".into()
    }
    fn schema(&self) -> Schema {
        let is_worker = std::thread::current().name().is_some_and(|name| name.starts_with("i0w"));
        assert!(!(is_worker && self.broken.load(Ordering::Relaxed)), "a page of the diary is torn");
        let columns = vec![Column::new("number", Type::I64), Column::new("text", Type::Text(40))];
        let kind = TableKind::Heap;
        let notes = TableDef {
            id: NOTES,
            name: "notes".into(),
            columns,
            key: vec![0],
            indexes: vec![],
            domain: DOMAIN,
            kind,
        };
        Schema { tables: vec![notes] }
    }
    fn sites(&self) -> u32 {
        2
    }
    async fn run<T: Transaction>(&self, request: &Entry, txn: &mut T) -> Result<(), Abort> {
        match request {
            Entry::Write => {
                let note = self.written.load(Ordering::Relaxed) + 1;
                if self.from_afar && note > self.looked_at.load(Ordering::Relaxed) + 4 {
                    // So that the log stays short.
                    return Ok(());
                }
                txn.last(PutNote(note)).await?;
                self.written.store(note, Ordering::Relaxed);
                Ok(())
            }
            Entry::Look => {
                let note = self.written.load(Ordering::Relaxed);
                self.looked_at.store(note, Ordering::Relaxed);
                let found = match self.from_afar {
                    true => txn.all(FindNote(note)).await?,
                    false => txn.last(FindNote(note)).await?,
                };
                if found { Err(Abort::User(1)) } else { Ok(()) }
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
        txn::run_one_of!(id, args, access, out; PutNote, FindNote)
    }
    fn observe(&self, _: &Entry, reply: Option<&()>, _: &mut dyn FnMut(&'static str, u64)) {
        if reply.is_none() {
            let note = text(self.looked_at.load(Ordering::Relaxed));
            let count = if is_in_log(&self.log, note.as_bytes()) { &self.safe } else { &self.unsafe_ };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
    fn routes(&self, _: &Entry, visit: &mut dyn FnMut(Route)) {
        visit(Route { table: NOTES, key: 0 });
    }
    fn kind(&self, request: &Entry) -> &'static str {
        match request {
            Entry::Write => "write",
            Entry::Look => "look",
        }
    }
    fn clients(&self) -> txn::Clients {
        txn::Clients::Bound
    }
    fn generator(&self, stream: u64, sites: Range<u32>) -> Entries {
        let writes = if self.from_afar { sites.start == 0 } else { stream.is_multiple_of(2) };
        Entries(if writes { Entry::Write } else { Entry::Look })
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
    fn judge(&self, _: Vec<()>, _: Option<u64>) -> Verdict {
        Verdict::default()
    }
}

/// Whether the beginning of the log's files, as much as a short test fills, contains these bytes.
fn is_in_log(log: &Path, wanted: &[u8]) -> bool {
    let mut bytes = Vec::new();
    for file in std::fs::read_dir(log).into_iter().flatten().flatten() {
        if let Ok(file) = std::fs::File::open(file.path()) {
            let _ = file.take(256 << 10).read_to_end(&mut bytes);
        }
    }
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A note's lock is released before its commit is durable. A transaction that finds the note then
/// must not be answered before the commit is durable: otherwise a power cut undoes a commit that a
/// client was told of.
#[test]
fn an_abort_that_tells_of_a_commit_waits_until_that_is_durable() {
    let dir = private_dir();
    let diary = Diary { log: Arc::new(dir.path().join("0/log")), ..Diary::default() };
    let config = config(&diary, dir.path(), DesignKind::Conventional, Durability::Sync, (0, 1), 1, Via::Ring);
    std::fs::create_dir_all(&config.dir).unwrap();
    let instance = Instance::start(diary.clone(), config).unwrap();
    instance.load(&|_, _| {}).unwrap();
    instance.drive(2, 0);
    wait_until("nobody finds a note", || {
        diary.safe.load(Ordering::Relaxed) + diary.unsafe_.load(Ordering::Relaxed) >= 12
    });
    instance.halt().unwrap();
    assert_eq!(diary.unsafe_.load(Ordering::Relaxed), 0, "answers about notes that are not in the log");
    instance.stop().unwrap();
}

/// The same where the note is read from another instance, by a phase that is not the last.
#[test]
fn an_abort_that_tells_of_a_commit_elsewhere_waits_until_that_is_durable_there() {
    for design in [DesignKind::Conventional, DesignKind::Logical, DesignKind::Serial] {
        let dir = private_dir();
        let diary = Diary { log: Arc::new(dir.path().join("0/log")), from_afar: true, ..Diary::default() };
        let of = |id| config(&diary, dir.path(), design, Durability::Sync, (id, 2), 1, Via::Ring);
        let deployment = Deployment::start(diary.clone(), (0..2).map(of).collect());
        deployment.load();
        deployment.instances[0].drive(1, 0);
        deployment.instances[1].drive(1, 1 << 16);
        wait_until("nobody finds a note", || {
            diary.safe.load(Ordering::Relaxed) + diary.unsafe_.load(Ordering::Relaxed) >= 100
        });
        deployment.instances.iter().for_each(|instance| instance.halt().unwrap());
        let told_early = diary.unsafe_.load(Ordering::Relaxed);
        assert_eq!(told_early, 0, "{design}: answers about notes that are not in the other's log");
        deployment.stop();
    }
}

fn send(link: &mut Link, frame: &Frame<'_>) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    link.send(&[&bytes]).unwrap();
}

/// The other of two instances sends steps and gives their transaction up at once: no lock is kept
/// for it.
#[test]
fn steps_that_come_together_with_their_abort_are_not_run() {
    let dir = private_dir();
    let diary = Diary::default();
    let config =
        config(&diary, dir.path(), DesignKind::Conventional, Durability::Memory, (0, 2), 1, Via::Uds);
    std::fs::create_dir_all(&config.dir).unwrap();
    let instance = Instance::start(diary, config).unwrap();
    let from = Caller::Instance(InstanceId(1), WorkerId(0), 1);
    let hello = Hello(wire::Hello { version: wire::VERSION, deployment: 7, from }.encode());
    let address: Address = instance.address().unwrap();
    let mut link = channel::connect(&address, hello, Duration::from_secs(5)).unwrap();

    let [given_up, other] = [1, 2].map(|n| Gtid { home: InstanceId(1), life: 1, number: n << 10 });
    let mut steps = Batch::default();
    let body = steps.open(PutNote::ID);
    steps.buffer().extend(postcard::to_stdvec(&PutNote(5)).unwrap());
    steps.close(body);
    let put = |gtid, call| Frame::Steps { call, gtid, piggyback: Piggyback::More, steps: steps.bytes() };
    send(&mut link, &put(given_up, 1));
    send(&mut link, &Frame::TwoPhase(Message::Decide { gtid: given_up, decision: Decision::Abort }));
    send(&mut link, &put(other, 2));
    link.flush().unwrap();

    let mut outcome = None;
    wait_until("no answer to the other transaction's steps", || {
        if let Some(bytes) = link.receive().unwrap()
            && let Ok(Frame::StepsDone { gtid, outcome: found, .. }) = Frame::decode(bytes)
            && gtid == other
        {
            outcome = Some(found.map(drop));
        }
        outcome.is_some()
    });
    assert_eq!(outcome, Some(Ok(())), "who was given up holds a lock");
    send(&mut link, &Frame::TwoPhase(Message::Decide { gtid: other, decision: Decision::Abort }));
    link.flush().unwrap();
    instance.audit().unwrap();
    drop(link);
    instance.stop().unwrap();
}

fn start(diary: &Diary, dir: &Path) -> Result<Instance<Diary>, InstanceFault> {
    let config: InstanceConfig =
        config(diary, dir, DesignKind::Conventional, Durability::Memory, (0, 1), 2, Via::Ring);
    std::fs::create_dir_all(&config.dir).unwrap();
    Instance::start(diary.clone(), config)
}

#[test]
fn an_instance_whose_workers_do_not_start_says_why() {
    let dir = private_dir();
    let broken = Diary { broken: Arc::new(AtomicBool::new(true)), ..Diary::default() };
    let fault = start(&broken, dir.path()).map(drop).unwrap_err().to_string();
    assert!(fault.contains("torn"), "{fault}");
}

#[test]
fn nobody_waits_for_the_answer_of_a_worker_that_has_ended() {
    let dir = private_dir();
    let diary = Diary::default();
    let instance = start(&diary, dir.path()).unwrap();
    diary.broken.store(true, Ordering::Relaxed);
    for fault in [instance.reconfigure(diary.clone()), instance.measure().map(drop), instance.halt()] {
        assert!(matches!(fault, Err(InstanceFault::Worker(_))), "{fault:?}");
    }
    let fault = instance.stop().unwrap_err().to_string();
    assert!(fault.contains("torn"), "{fault}");
}
