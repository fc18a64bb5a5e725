//! Opening a store that has files: its rows are made again from the checkpoint and the log.
//!
//! ```text
//!   1. read the control file
//!   2. find where the last life's log ends
//!   3. load the rows of the checkpoint, in parallel
//!   4. replay the log, oldest file first; each thread replays the records of its share of the rows
//!   5. lock the rows of in-doubt transactions
//!   6. begin a new life: log files of its own, then the control file
//! ```
//! Of each row the latest id wins, and a change waits for the version that it was made from. So the
//! parts of the checkpoint and the records can be read in any order. Oldest first, hardly any
//! change waits.
//!
//! A deleted row stays as an absent one as long as an older record of it may still come, and no
//! longer: a store must open with as much memory as its rows have needed. Each thread reads all
//! streams of a life side by side. It always takes the next block of the stream that is furthest
//! behind, and a block says up to which epoch its stream is complete.
//!
//! From one version of a row to the next, the epochs in which they are logged never decrease: a
//! version is locked after the one before was unlocked, which was logged by then. That also holds
//! for a decision that came long after its prepare. So once a thread has read all streams up to the
//! epoch of a deletion, it has seen all older records of that row, and removes it.
//!
//! The records of a life count up to the epoch to which all its streams were complete. Later ones
//! are passed over, at this opening and at all later ones: the control file says where each life
//! ended. The control file is replaced at the end, so an opening that fails or crashes has changed
//! nothing.

mod apply;
mod tail;

use crate::commit::NoteId;
use crate::log::{
    Beginning, Blocks, Checkpoint, Control, Durability, Ended, Log, LogFault, LogFile, LogOptions, Named,
    Segment, SegmentPlace, Undecided, make_segment, segment_head, short_read,
};
use crate::prepared::InDoubt;
use crate::store::{Memstore, OpenError, Options};
use apply::{Loader, Share, Told};
use base::TableId;
use latch::{Rank, RankedMutex};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tail::Tail;
use world::{Files, Open};

/// The contents of the store's files besides its rows.
#[derive(Default)]
pub struct Recovered {
    /// How often the store has been opened, with this time; 0 for one without files.
    pub life: u64,
    /// As last given to [`Memstore::define`]; `None` if there was no such call.
    pub schema: Option<Vec<u8>>,
    /// The tables of the store.
    pub tables: Vec<TableId>,
    /// In-doubt transactions: prepared and not decided. Their rows are locked.
    pub in_doubt: Vec<InDoubt>,
    /// Notes that were not forgotten.
    pub notes: Vec<(NoteId, Vec<u8>)>,
    pub replayed: Replayed,
}

/// The amount of work that opening took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// Rows of the checkpoint.
    pub rows: u64,
    /// Bytes of its files.
    pub checkpoint_bytes: u64,
    /// Bytes of log records that were read, and writes that were carried out.
    pub log_bytes: u64,
    pub writes: u64,
}

impl Replayed {
    fn add(&mut self, other: &Replayed) {
        self.rows += other.rows;
        self.checkpoint_bytes += other.checkpoint_bytes;
        self.log_bytes += other.log_bytes;
        self.writes += other.writes;
    }
}

impl Memstore {
    /// Opens the store in `dir`, or makes one there. It has everything that was durable when it was
    /// last used.
    ///
    /// # Errors
    /// As [`Memstore::open`]; [`OpenError::Log`] when a file is missing, damaged or another
    /// store's, or the folder is in use; [`OpenError::TooSmall`], [`OpenError::Table`] when the
    /// options leave no room for its contents. In all these cases no file was changed.
    pub fn open_in(
        options: Options,
        log: LogOptions,
        files: Arc<dyn Files>,
        dir: &Path,
    ) -> Result<(Arc<Memstore>, Recovered), OpenError> {
        log.check()?;
        if log.durability == Durability::Memory {
            return Ok((Memstore::open(options)?, Recovered::default()));
        }
        files.create_dir_all(dir).map_err(LogFault::from)?;
        let lock = files.lock(&dir.join("lock")).map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => LogFault::InUse { dir: dir.to_owned(), why: Arc::new(e) },
            _ => LogFault::from(e),
        })?;
        let control = match Control::read(&*files, dir)? {
            Some(control) => control,
            None => Control::make(&*files, dir, log.streams)?,
        };
        let tail = Tail::find(&*files, dir, &control)?;
        let store = Memstore::empty(options, log.threads, tail.durable + 2)?;
        for table in &control.tables {
            store.make(TableId(*table)).map_err(|e| match e {
                OpenError::Full => OpenError::TooSmall { bytes: options.budget },
                other => other,
            })?;
        }
        let source = Source { files: &*files, dir, control: &control, tail: &tail };
        let (told, replayed) = source.load(&store, log.threads, options.budget)?;
        let ends = told.ends();
        let found = Found::settle(&source, &store, told).map_err(|e| e.within(options.budget))?;
        store.sweep_up(log.threads);
        let named = Named {
            notes: found.notes.clone(),
            undecided: found.undecided,
            // The names of a life are greater than those of all lives before.
            next: (control.life + 1) << 40,
        };
        let (control, first) = new_life(&*files, dir, control, &tail, &ends, &log)?;
        clear_away(&*files, dir, &control)?;
        let recovered = Recovered {
            life: control.life,
            schema: control.schema.clone(),
            tables: control.tables.iter().map(|table| TableId(*table)).collect(),
            in_doubt: found.in_doubt,
            notes: found.notes.into_iter().map(|(name, note)| (NoteId(name), note)).collect(),
            replayed,
        };
        let beginning = Beginning {
            files,
            dir: dir.to_owned(),
            options: log,
            lock,
            control,
            first,
            named,
            inherited: replayed.log_bytes,
        };
        let workers = store.everybody();
        let epochs = Arc::clone(&store.epochs);
        let mut store = Arc::into_inner(store).expect("the loaders have gone");
        store.log = Some(Log::begin(beginning, epochs, workers)?);
        Ok((Arc::new(store), recovered))
    }
}

impl Memstore {
    /// Gives the memory that the loading threads have left to the workers.
    fn sweep_up(self: &Arc<Memstore>, helpers: usize) {
        for mut worker in (0..helpers).filter_map(|helper| self.helper(helper)) {
            // First garbage leaves the index, then its memory becomes free. Rows that an in-doubt
            // transaction keeps in the index are left to the next checkpoint.
            for _ in 0..3 {
                self.tick();
                worker.collect(usize::MAX);
            }
            worker.own.local.give_away(&self.arena);
        }
    }
}

/// Why rows cannot be made again.
pub(crate) enum Stop {
    Fault(LogFault),
    Full,
}

impl From<LogFault> for Stop {
    fn from(fault: LogFault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<crate::arena::Full> for Stop {
    fn from(_: crate::arena::Full) -> Stop {
        Stop::Full
    }
}

impl Stop {
    fn within(self, bytes: u64) -> OpenError {
        match self {
            Stop::Fault(fault) => fault.into(),
            Stop::Full => OpenError::TooSmall { bytes },
        }
    }
}

/// The files that a store is made from.
pub(crate) struct Source<'a> {
    pub(crate) files: &'a dyn Files,
    pub(crate) dir: &'a Path,
    pub(crate) control: &'a Control,
    pub(crate) tail: &'a Tail,
}

impl Source<'_> {
    /// Records of this epoch and later ones count, up to the end of their life.
    pub(crate) fn from(&self) -> u64 {
        self.control.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.from)
    }

    /// The end of a segment's life: the last epoch that counts, and the number of blocks of the
    /// segment's stream.
    pub(crate) fn end_of(&self, segment: &Segment) -> (u64, u64) {
        let ended = self.control.ended.iter().find(|ended| ended.life == segment.life);
        let (durable, blocks) =
            ended.map_or((self.tail.durable, &self.tail.blocks), |e| (e.durable, &e.blocks));
        (durable, blocks.get(usize::from(segment.stream)).copied().unwrap_or(0))
    }

    fn load(
        &self,
        store: &Arc<Memstore>,
        threads: usize,
        budget: u64,
    ) -> Result<(Told, Replayed), OpenError> {
        let parts = self.control.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.parts.len());
        let loader = |worker| Loader::new(self, worker);
        let loaded =
            side_by_side(store, threads, parts, loader, Loader::part).map_err(|e| e.within(budget))?;
        let share = |loader: &mut Loader<'_>, number| loader.replay(Share { number, of: threads });
        let replayed = side_by_side(store, threads, threads, loader, share);
        let mut told = Told::default();
        let mut all = Replayed::default();
        for one in loaded.into_iter().chain(replayed.map_err(|e| e.within(budget))?) {
            all.add(&one.replayed);
            told.add(one);
        }
        told.check_chain(self)?;
        Ok((told, all))
    }
}

/// Runs `count` tasks on `threads` loaders, until one fails.
fn side_by_side<'s>(
    store: &Arc<Memstore>,
    threads: usize,
    count: usize,
    loader: impl Fn(crate::worker::Worker) -> Loader<'s> + Sync,
    task: impl Fn(&mut Loader<'s>, usize) -> Result<(), Stop> + Sync,
) -> Result<Vec<Told>, Stop> {
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let done = RankedMutex::new(Rank::MemRecovery, Vec::new());
    let stop = RankedMutex::new(Rank::MemRecovery, None);
    let held = |mutex: &RankedMutex<Option<Stop>>, found| {
        failed.store(true, Ordering::Relaxed);
        mutex.lock().get_or_insert(found);
    };
    std::thread::scope(|scope| {
        for helper in 0..threads.min(count) {
            let (next, failed, done, stop, loader, task, held) =
                (&next, &failed, &done, &stop, &loader, &task, &held);
            scope.spawn(move || {
                let Some(worker) = store.helper(helper) else { return };
                let mut loader = loader(worker);
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= count || failed.load(Ordering::Relaxed) {
                        break;
                    }
                    if let Err(found) = task(&mut loader, n) {
                        held(stop, found);
                    }
                }
                done.lock().push(loader.into_told());
            });
        }
    });
    match stop.into_inner() {
        Some(stop) => Err(stop),
        None => Ok(done.into_inner()),
    }
}

/// The prepared transactions and notes that are left.
struct Found {
    notes: BTreeMap<u64, Vec<u8>>,
    undecided: BTreeMap<u64, Undecided>,
    in_doubt: Vec<InDoubt>,
}

impl Found {
    /// Repeats the changes that were read too early, and locks the rows of in-doubt transactions.
    fn settle(source: &Source<'_>, store: &Arc<Memstore>, told: Told) -> Result<Found, Stop> {
        let checkpoint = source.control.checkpoint.clone().unwrap_or_default();
        let mut notes: BTreeMap<u64, Vec<u8>> = checkpoint.notes.into_iter().collect();
        notes.extend(told.notes);
        told.forgotten.iter().for_each(|name| drop(notes.remove(name)));
        let undecided = told.undecided;
        let worker = store.helper(0).expect("the loaders have gone");
        let mut loader = Loader::new(source, worker);
        loader.early = told.early;
        loader.catch_all_up()?;
        let mut in_doubt = Vec::new();
        for (name, one) in &undecided {
            in_doubt.push(InDoubt { note: one.note.clone(), name: *name, txn: loader.lock_undecided(one)? });
        }
        for (doubt, one) in in_doubt.iter_mut().zip(undecided.values()) {
            loader.reserve_undecided(&mut doubt.txn, one)?;
        }
        Ok(Found { notes, undecided, in_doubt })
    }
}

/// Whether `dir` has every file that its control file names, judged as at an opening. Reads only
/// the control file and changes nothing.
///
/// # Errors
/// [`LogFault`]: a file that is missing, a control file that cannot be used; I/O.
pub fn expect_files(files: &dyn Files, dir: &Path) -> Result<(), LogFault> {
    let missing = |file: std::path::PathBuf, why: &str| LogFault::Missing { file, why: why.to_owned() };
    let Some(control) = Control::read(files, dir)? else {
        return Err(missing(dir.join("control"), "the folder holds no store without it"));
    };
    let there = files.list(dir)?;
    match control.names().into_iter().find(|name| !there.contains(name)) {
        Some(name) => Err(missing(dir.join(name), "the control file names it")),
        None => Ok(()),
    }
}

impl Control {
    /// The control file of a new store. It is written before any other file, so that other files
    /// never exist without it.
    fn make(files: &dyn Files, dir: &Path, streams: u16) -> Result<Control, LogFault> {
        let control = Control { store: world::entropy(), streams, ..Control::default() };
        control.write(files, dir)?;
        Ok(control)
    }
}

type First = Vec<(Segment, LogFile)>;

/// Begins a life: its log files, then the control file that names them and says where the life
/// before ended.
fn new_life(
    files: &dyn Files,
    dir: &Path,
    mut control: Control,
    tail: &Tail,
    ends: &BTreeMap<u64, u64>,
    options: &LogOptions,
) -> Result<(Control, First), LogFault> {
    // Files without a block, and zeros behind the last block, have no use any more. Without this
    // step a store that is opened again and again would gather them.
    control.segments.retain(|segment| ends.contains_key(&segment.number));
    for segment in control.segments.iter().filter(|segment| segment.life == control.life) {
        secure(files, &dir.join(segment.name()), ends[&segment.number])?;
    }
    let lives: BTreeSet<u64> = control.segments.iter().map(|segment| segment.life).collect();
    control.ended.retain(|ended| lives.contains(&ended.life));
    if lives.contains(&control.life) {
        let ended = Ended { life: control.life, durable: tail.durable, blocks: tail.blocks.clone() };
        control.ended.push(ended);
    }
    control.life += 1;
    control.begun = tail.durable + 1;
    let mut first = Vec::new();
    for stream in 0..control.streams {
        let segment = Segment { number: control.next_segment, stream, life: control.life };
        control.next_segment += 1;
        let head = segment_head(&control, &segment);
        let which = (options, SegmentPlace::FirstOfLife);
        first.push((segment, make_segment(files, dir, &head, &segment.name(), which, |_| {})?));
        control.segments.push(segment);
    }
    files.sync_dir(dir)?;
    control.write(files, dir)?;
    Ok((control, first))
}

/// Cuts a log file behind its last block. Brings the blocks to the device that are not known to be
/// there: a killed process may have left them with the operating system, and from here on they
/// count. A sync would do nothing if an earlier one has failed, so the blocks are written again.
fn secure(files: &dyn Files, path: &Path, end: u64) -> Result<(), LogFault> {
    const PIECE: u64 = 1 << 20;
    let file = files.open(path, Open::ReadWrite)?;
    file.set_len(end)?;
    let mut blocks = Blocks::new(&file, path)?;
    let (mut places, mut stable) = (Vec::new(), 0);
    loop {
        let at = blocks.at;
        let Some((head, _)) = blocks.next(|_| true)? else { break };
        places.push((head.sequence, at));
        stable = head.stable.max(stable);
    }
    let known = places.partition_point(|(sequence, _)| *sequence < stable);
    let from = places.get(known).map_or(end, |(_, at)| *at);
    let mut bytes = Vec::new();
    for at in (from..end).step_by(PIECE as usize) {
        bytes.resize(PIECE.min(end - at) as usize, 0);
        let read = file.read_at(&mut bytes, at)?;
        if read < bytes.len() {
            return Err(short_read(path, at, read, bytes.len()));
        }
        file.write_all_at(&bytes, at)?;
    }
    Ok(file.sync()?)
}

/// Removes files that the control file does not name. A crash leaves them, between making a file
/// and entering it, or between removing the entry and the file.
fn clear_away(files: &dyn Files, dir: &Path, control: &Control) -> Result<(), LogFault> {
    let known = control.names();
    for name in files.list(dir)? {
        let is_ours = name.starts_with("log-")
            || name.starts_with("checkpoint-")
            || name.starts_with("spare-")
            || name == "control.new";
        if is_ours && !known.contains(&name) {
            files.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// The path of a part of a checkpoint.
pub(crate) fn part_path(source: &Source<'_>, number: u64, part: usize) -> std::path::PathBuf {
    source.dir.join(Checkpoint::part_name(number, part))
}
