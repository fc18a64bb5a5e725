//! Histories over several instances that end and restart. Outside clients record their requests and
//! the results, while instances are killed and restart with other workers, or all of them with
//! another design.
//!
//! ```text
//!   clients   invoke, submit -> committed | aborted | unknown   one connection to each instance
//!   owner     wait for some commits | end one or all | restart with other workers, and with a
//!             design that can read the files | connect | ... | clients end | every list is read
//! ```
//!
//! Checked: strict serialisability of the history including the last reads (`histories::judge`). In
//! addition, which a judge of histories does not check: an acknowledged element is in its list at
//! the end, and an element of an aborted transaction is not. Of a transaction with an outcome
//! unknown to its client, all elements are there or none. And each list that a client read is a
//! prefix of that list at the end.
//!
//! Over `uds` and `shm` each instance is a process, which SIGKILL ends. Over `ring` the instances
//! are threads of this process, and clients pause while one is stopped. Or each has a simulated
//! disk of its own, and an end is a power cut: of all instances, but at different moments. With
//! durability `async` such a cut may lose acknowledged transactions. Then only this is checked:
//! each transaction is there completely or not at all, over all instances, and an aborted one is
//! not there.

mod asker;

use crate::histories::{Event, HistoryVerdict, Recorder, Seen, history, judge};
use crate::lists::SLOTS;
use crate::member::{Member, MemberFault};
use adya::history::OpType;
use asker::Asker;
use base::InstanceId;
use channel::Address;
use exec::{DesignKind, EngineOptions, OccConflict, OccReads, Schedule};
use fastrand::Rng;
use instance::InstanceConfig;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use txn::{Placement, TableKind};
use wal::{Durability, Insert};
use world::sim::Disk;

/// The number of the deployment.
const DEPLOYMENT: u64 = 7;
/// After this time without a commit a history is judged as it is.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the last reads are retried: rows of transactions in doubt cannot be read.
const LAST_READING: Duration = Duration::from_secs(60);
/// A client that cannot reach an instance tries again after this time.
const AGAIN: Duration = Duration::from_millis(1);

/// The channel between instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    Ring,
    Uds,
    Shm,
    /// As `Ring`, on simulated disks.
    Disks,
}

impl Via {
    const ALL: [Via; 4] = [Via::Ring, Via::Uds, Via::Shm, Via::Disks];

    fn address(self, dir: &Path, id: u16) -> Address {
        let socket = dir.join(format!("{id}.sock"));
        match self {
            Via::Ring | Via::Disks => Address::Ring(format!("{}-{id}", dir.display())),
            Via::Uds => Address::Uds(socket),
            Via::Shm => Address::Shm(socket),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Via::Ring => "ring",
            Via::Uds => "uds",
            Via::Shm => "shm",
            Via::Disks => "ring-on-simulated-disks",
        }
    }
}

/// The guarantee over ends of instances.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    /// Acknowledged transactions survive, and so do the lists that were read.
    Acknowledged,
    /// Each transaction survives completely or not at all.
    Whole,
}

/// The parameters of a history.
#[derive(Clone, Debug)]
pub struct Course {
    pub seed: u64,
    /// The number of commits.
    pub transactions: usize,
    /// The design that creates the data; later lives may have another one.
    pub design: DesignKind,
    pub islands: u16,
    /// Of each instance, in its first life.
    pub workers: usize,
    pub via: Via,
    pub durability: Durability,
    pub kind: TableKind,
    pub clients: usize,
    /// How often instances end during the history.
    pub ends: usize,
    pub lock_timeout_ms: u64,
    pub occ_conflict: OccConflict,
    pub occ_reads: OccReads,
    pub log_insert: Insert,
    pub schedule: Schedule,
}

impl Course {
    /// The course that follows from a seed: the designs in turn, and for each the channels in turn.
    pub fn drawn(seed: u64, transactions: usize) -> Course {
        let mut random = Rng::with_seed(seed ^ 0xc0_u64.rotate_left(32));
        let design = DesignKind::ALL[seed as usize % DesignKind::ALL.len()];
        let via = Via::ALL[(seed as usize / DesignKind::ALL.len()) % Via::ALL.len()];
        // In one of eight no instance ends, and the log stays in memory.
        let durability = match random.u8(..8) {
            0 => Durability::Memory,
            1..3 => Durability::Async,
            _ => Durability::Sync,
        };
        Course {
            seed,
            transactions,
            design,
            islands: random.u16(2..=4),
            workers: workers(design, &mut random),
            via,
            durability,
            kind: TableKind::ALL[random.usize(..2)],
            clients: random.usize(3..=8),
            ends: if durability == Durability::Memory { 0 } else { random.usize(1..=4) },
            occ_conflict: OccConflict::ALL[random.usize(..2)],
            occ_reads: OccReads::ALL[random.usize(..2)],
            // Distributed deadlocks end by this time-out; the long one lets waits run their course.
            lock_timeout_ms: [15, 15, 40, 300][random.usize(..4)],
            log_insert: if random.bool() { Insert::default() } else { Insert::ALL[random.usize(..3)] },
            schedule: Schedule::ALL[random.usize(..3)],
        }
    }

    fn keeps(&self) -> Keeps {
        match (self.via, self.durability) {
            (Via::Disks, Durability::Async) => Keeps::Whole,
            _ => Keeps::Acknowledged,
        }
    }

    fn config(&self, dir: &Path, id: u16, (design, workers): (DesignKind, usize)) -> InstanceConfig {
        let placement = Placement::even(SLOTS as u32, self.islands);
        let dir_of_its_own = match self.via {
            Via::Disks => PathBuf::from("/db"),
            _ => dir.join(id.to_string()),
        };
        let made = InstanceConfig::new(dir_of_its_own, placement, self.design);
        InstanceConfig {
            id: InstanceId(id),
            deployment: DEPLOYMENT,
            design,
            durability: self.durability,
            cpus: vec![None; workers],
            pool_pages: if design.is_in_memory() { 8192 } else { 2048 },
            listen: Some(self.via.address(dir, id)),
            spin_us: 5,
            options: EngineOptions {
                tables: self.kind,
                lock_timeout_ms: self.lock_timeout_ms,
                occ_conflict: self.occ_conflict,
                occ_reads: self.occ_reads,
                log_insert: self.log_insert,
                schedule: self.schedule,
                ..made.options
            },
            ..made
        }
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} x{} w{} {} {} {}, {} clients, {} ends",
            self.seed,
            self.design,
            self.islands,
            self.workers,
            self.via.name(),
            self.durability,
            self.kind.name(),
            self.clients,
            self.ends
        )
    }
}

fn workers(design: DesignKind, random: &mut Rng) -> usize {
    match design {
        _ if design.is_single_threaded() => 1,
        // With four instances each has three slots to own.
        _ if design.owns_pages() => random.usize(1..=3),
        _ => random.usize(1..=4),
    }
}

/// The designs that can read the files of `made`.
fn readers(made: DesignKind) -> Vec<DesignKind> {
    let can = |design: &DesignKind| {
        let (pages, rows) = (design.owns_pages(), design.heap_form());
        let owned = !pages || made.owns_pages();
        design.is_in_memory() == made.is_in_memory()
            && owned
            && (rows == store::HeapForm::Shared || rows == made.heap_form())
    };
    DesignKind::ALL.into_iter().filter(can).collect()
}

/// The result of a history.
pub struct Outcome {
    pub verdict: HistoryVerdict,
    /// Elements that are there at the end and should not be, or the other way round.
    pub flaws: Vec<String>,
    /// Ends of instances, and transactions with an outcome unknown to their clients.
    pub ended: usize,
    pub unknown: usize,
    /// From the last start of an instance, or the last answer, to the end of the last reads.
    pub settled: Duration,
}

impl Outcome {
    /// Whether no promise was broken.
    pub fn is_sound(&self) -> bool {
        self.verdict.strictly_serialisable && self.flaws.is_empty()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HistoryVerdict { committed, aborted, anomalies, explanation, .. } = &self.verdict;
        write!(
            f,
            "{committed} committed, {aborted} aborted, {} unknown, {} ended, settled in {} ms",
            self.unknown,
            self.ended,
            self.settled.as_millis()
        )?;
        if !self.verdict.strictly_serialisable {
            write!(f, "; not strictly serialisable: {anomalies:?} {explanation}")?;
        }
        self.flaws.iter().try_for_each(|flaw| write!(f, "; {flaw}"))
    }
}

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    #[error(transparent)]
    Member(#[from] MemberFault),
    #[error("a client cannot be made: {0}")]
    Client(#[from] channel::ChannelError),
    #[error("a temporary folder cannot be made: {0}; expected a writable one, or TMPDIR to name it")]
    Folder(std::io::Error),
    #[error("interrupted")]
    Interrupted,
}

/// Records a history and has it judged. `program` is the program of this crate, for instances that
/// are processes; `stop` ends the recording early.
///
/// # Errors
/// [`Trouble`]: instances that do not start or end as they should, or an early end.
pub fn record(course: &Course, program: &Path, stop: &AtomicBool) -> Result<Outcome, Trouble> {
    let dir = private_dir().map_err(Trouble::Folder)?;
    let (recorder, committed) = (Recorder::default(), AtomicUsize::new(0));
    let mut islands = Islands::start(course, program, dir.path())?;
    let gate = Gate::default();
    let ended = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&gate);
        for number in 0..course.clients {
            let mut asker = Asker::new(course, dir.path(), &recorder, number as u64)?;
            let (gate, committed) = (&gate, &committed);
            scope.spawn(move || {
                while gate.pass() {
                    committed.fetch_add(usize::from(asker.ask()), Ordering::Relaxed);
                }
            });
        }
        islands.run(&committed, &gate, stop)
    })?;
    let settling = Instant::now();
    let read = Asker::new(course, dir.path(), &recorder, course.clients as u64)?.read_all();
    let settled = settling.elapsed();
    islands.stop()?;
    let events = recorder.events();
    let flaws = match read {
        Some(lists) => compare(&events, &lists, course.keeps()),
        None => vec![format!("rows cannot be read {} s after the last end", LAST_READING.as_secs())],
    };
    let unknown = events.iter().filter(|event| event.kind == OpType::Info).count();
    let mut verdict = judge(&history(&events));
    verdict.strictly_serialisable |= course.keeps() == Keeps::Whole;
    Ok(Outcome { verdict, flaws, ended, unknown, settled })
}

/// A directory that only this user may enter, as channels require.
fn private_dir() -> std::io::Result<tempfile::TempDir> {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir()
}

const RUN: u8 = 0;
const PAUSE: u8 = 1;
const STOP: u8 = 2;

/// The clients' order, and how many of them rest.
#[derive(Default)]
struct Gate {
    state: AtomicU8,
    resting: AtomicUsize,
}

impl Gate {
    /// Returns `true` at once while running; rests while paused; returns `false` when the run is
    /// over.
    fn pass(&self) -> bool {
        if self.state.load(Ordering::SeqCst) == PAUSE {
            self.resting.fetch_add(1, Ordering::SeqCst);
            while self.state.load(Ordering::SeqCst) == PAUSE {
                std::thread::sleep(AGAIN);
            }
            self.resting.fetch_sub(1, Ordering::SeqCst);
        }
        self.state.load(Ordering::SeqCst) == RUN
    }

    /// Pauses the clients; returns when `clients` of them rest.
    fn pause(&self, clients: usize) {
        self.state.store(PAUSE, Ordering::SeqCst);
        while self.resting.load(Ordering::SeqCst) < clients {
            std::thread::sleep(AGAIN);
        }
    }
}

/// Ends the clients on any path by which the owner leaves: a scope joins its threads.
struct StopOnDrop<'a>(&'a Gate);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.state.store(STOP, Ordering::SeqCst);
    }
}

/// The instances and their ends.
struct Islands<'a> {
    course: &'a Course,
    program: &'a Path,
    dir: PathBuf,
    members: Vec<Option<Member>>,
    /// The disk on which each starts, with simulated disks.
    disks: Vec<Disk>,
    design: DesignKind,
    random: Rng,
}

impl<'a> Islands<'a> {
    fn start(course: &'a Course, program: &'a Path, dir: &Path) -> Result<Islands<'a>, Trouble> {
        let members = (0..course.islands).map(|_| None).collect();
        let random = Rng::with_seed(course.seed.rotate_left(17));
        let (dir, design) = (dir.to_owned(), course.design);
        let disks = (0..course.islands).map(|_| Disk::new()).collect();
        let mut islands = Islands { course, program, dir, members, disks, design, random };
        for id in 0..course.islands {
            std::fs::create_dir_all(islands.dir.join(id.to_string())).map_err(Trouble::Folder)?;
        }
        islands.bring_back(&(0..course.islands).collect::<Vec<_>>(), |_| course.workers)?;
        Ok(islands)
    }

    /// Runs until all requested transactions have committed, or none commits for [`PATIENCE`].
    /// Returns how many instances have ended.
    fn run(&mut self, committed: &AtomicUsize, gate: &Gate, stop: &AtomicBool) -> Result<usize, Trouble> {
        let Course { transactions, ends, .. } = *self.course;
        let (mut ended, mut done) = (0, 0);
        let mut last = (0, Instant::now());
        while last.0 < transactions && last.1.elapsed() < PATIENCE {
            if stop.load(Ordering::Relaxed) {
                return Err(Trouble::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(2));
            let now = committed.load(Ordering::Relaxed);
            last = if now > last.0 { (now, Instant::now()) } else { last };
            if done < ends && now * (ends + 1) >= transactions * (done + 1) {
                done += 1;
                if self.course.via == Via::Ring {
                    gate.pause(self.course.clients);
                }
                ended += self.end_some()?;
                gate.state.store(RUN, Ordering::SeqCst);
                last.1 = Instant::now();
            }
        }
        Ok(ended)
    }

    /// Ends one instance or all, and restarts them.
    fn end_some(&mut self) -> Result<usize, Trouble> {
        let all = self.random.u8(..3) == 0;
        let one = self.random.u16(..self.course.islands);
        let victims: Vec<u16> = if all { (0..self.course.islands).collect() } else { vec![one] };
        for &id in &victims {
            let Some(member) = self.members[usize::from(id)].take() else { continue };
            if self.course.via != Via::Disks {
                member.end()?;
            } else if let Some(left) = member.cut(self.random.u64(..)) {
                self.disks[usize::from(id)] = left;
                // The others continue for a while.
                std::thread::sleep(Duration::from_micros(self.random.u64(..3000)));
            }
        }
        if all {
            let others = readers(self.course.design);
            self.design = others[self.random.usize(..others.len())];
        }
        let design = self.design;
        self.bring_back(&victims, |random| workers(design, random))?;
        Ok(victims.len())
    }

    fn bring_back(&mut self, ids: &[u16], workers: impl Fn(&mut Rng) -> usize) -> Result<(), Trouble> {
        for &id in ids {
            let config = self.course.config(&self.dir, id, (self.design, workers(&mut self.random)));
            let member = match self.course.via {
                Via::Ring => Member::here(config)?,
                Via::Disks => Member::on_disk(self.disks[usize::from(id)].clone(), config)?,
                Via::Uds | Via::Shm => Member::process(self.program, config)?,
            };
            self.members[usize::from(id)] = Some(member);
        }
        let peers = self.addresses();
        for &id in ids {
            if let Some(member) = &mut self.members[usize::from(id)] {
                member.connect(&peers)?;
            }
        }
        Ok(())
    }

    fn addresses(&self) -> Vec<(InstanceId, Address)> {
        let address = |id| (InstanceId(id), self.course.via.address(&self.dir, id));
        (0..self.course.islands).map(address).collect()
    }

    fn stop(self) -> Result<(), Trouble> {
        self.members.into_iter().flatten().try_for_each(|member| Ok(member.stop()?))
    }
}

/// Compares the clients' results with the lists at the end.
fn compare(events: &[Event], lists: &HashMap<i64, Vec<i64>>, keeps: Keeps) -> Vec<String> {
    let mut flaws = Vec::new();
    let none = Vec::new();
    let list = |id: &i64| lists.get(id).unwrap_or(&none);
    let times = |id: &i64, element: &i64| list(id).iter().filter(|other| *other == element).count();
    for event in events.iter().filter(|event| event.kind != OpType::Invoke) {
        let attempt = event.process;
        let mut found = Vec::new();
        for seen in &event.seen {
            match seen {
                Seen::Append { id, element } => found.push((id, element, times(id, element))),
                Seen::Read { id, list: Some(read) }
                    if keeps == Keeps::Acknowledged && !list(id).starts_with(read) =>
                {
                    flaws.push(format!(
                        "transaction {attempt} has read {read:?} of list {id}, at the end there is {:?}",
                        list(id)
                    ))
                }
                Seen::Read { .. } => {}
            }
        }
        let wrong = |is: &dyn Fn(usize) -> bool| found.iter().find(|(.., times)| !is(*times)).copied();
        let (outcome, wrong) = match event.kind {
            OpType::Ok if keeps == Keeps::Acknowledged => ("committed", wrong(&|times| times == 1)),
            OpType::Fail => ("aborted", wrong(&|times| times == 0)),
            _ => {
                let first = found.first().map_or(0, |(.., times)| *times);
                (
                    "of unknown outcome, with others all there or not,",
                    wrong(&|times| times == first && times < 2),
                )
            }
        };
        if let Some((id, element, times)) = wrong {
            flaws.push(format!(
                "transaction {attempt}, {outcome} has appended {element} to list {id}: it is there {times} times"
            ));
        }
    }
    flaws
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: OpType, seen: Vec<Seen>) -> Event {
        Event { order: 0, kind, process: 1, seen }
    }

    fn append(id: i64, element: i64) -> Seen {
        Seen::Append { id, element }
    }

    #[test]
    fn what_is_there_at_the_end_is_what_clients_were_told() {
        let lists = HashMap::from([(0, vec![1, 2]), (1, vec![3])]);
        let flaws = |kind, seen| compare(&[event(kind, seen)], &lists, Keeps::Acknowledged).len();
        let read = |list: &[i64]| vec![Seen::Read { id: 0, list: Some(list.to_vec()) }];
        assert_eq!(flaws(OpType::Ok, vec![append(0, 1), append(1, 3)]), 0);
        assert_eq!(flaws(OpType::Ok, vec![append(0, 9)]), 1, "acknowledged and lost");
        assert_eq!(flaws(OpType::Fail, vec![append(0, 9)]), 0);
        assert_eq!(flaws(OpType::Fail, vec![append(1, 3)]), 1, "aborted and there");
        assert_eq!(flaws(OpType::Info, vec![append(0, 1), append(1, 3)]), 0);
        assert_eq!(flaws(OpType::Info, vec![append(0, 8), append(1, 9)]), 0);
        assert_eq!(flaws(OpType::Info, vec![append(0, 1), append(1, 9)]), 1, "half of it is there");
        assert_eq!(flaws(OpType::Ok, read(&[1])), 0);
        assert_eq!(flaws(OpType::Ok, read(&[2])), 1, "read and gone");
        let whole = |seen| compare(&[event(OpType::Ok, seen)], &lists, Keeps::Whole).len();
        assert_eq!(whole(vec![append(0, 8), append(1, 9)]), 0, "all of it is gone");
        assert_eq!(whole(vec![append(0, 1), append(1, 9)]), 1, "half of it is there");
    }

    #[test]
    fn data_is_opened_by_designs_that_can_read_it() {
        use DesignKind::{Conventional, Logical, Occ, PlpLeaf, PlpRegular, Serial};
        assert_eq!(readers(Occ), [Occ]);
        assert_eq!(readers(Serial), [Conventional, Logical, Serial]);
        assert_eq!(readers(PlpLeaf), [Conventional, Logical, PlpRegular, PlpLeaf, Serial]);
    }
}
