//! Rows from the parts of a checkpoint, and writes from the records of the log. `replay` reads the
//! records, `undecided` takes up the transactions in doubt.

mod replay;
mod undecided;

use super::tail::open;
use super::{Replayed, Source, Stop, part_path};
use crate::arena::{Arena, Ref};
use crate::batched_lookup::LANES;
use crate::hints::Hash;
use crate::index::{Index, Insertion, Spot};
use crate::log::{
    ALIGN, BlockHead, Blocks, Bytes, CONTROL, Changes, FileHead, Kind, Left, LogFault, Malformed, RowChange,
    Runs, Segment, TxnVerdict, Undecided,
};
use crate::row::{self, Keep, MAX_KEY, MAX_ROW, Touched};
use crate::tid::{self, ABSENT, Lock};
use crate::worker::Worker;
use base::TableId;
use latch::Backoff;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The results of one thread, apart from rows.
#[derive(Default)]
pub(super) struct Told {
    /// Prepared transactions that were not decided, by name.
    pub(super) undecided: BTreeMap<u64, Undecided>,
    pub(super) notes: Vec<(u64, Vec<u8>)>,
    pub(super) forgotten: Vec<u64>,
    /// For each log file with blocks: its first block's sequence, the number of blocks, and the
    /// offset of the end.
    blocks: Vec<(Segment, u64, u64, u64)>,
    /// Changes of versions that this thread has not read.
    pub(super) early: Early,
    pub(super) replayed: Replayed,
}

impl Told {
    pub(super) fn add(&mut self, mut other: Told) {
        self.undecided.append(&mut other.undecided);
        self.notes.append(&mut other.notes);
        self.forgotten.append(&mut other.forgotten);
        self.blocks.append(&mut other.blocks);
        // No row is in two of them.
        self.early.0.extend(other.early.0.drain());
    }

    /// Checks that no block is missing, neither between those that were read nor at the end of a
    /// stream.
    pub(super) fn check_chain(&mut self, source: &Source<'_>) -> Result<(), LogFault> {
        self.blocks.sort_unstable_by_key(|(segment, ..)| segment.number);
        let expect = |segment: &Segment, found: u64, at: u64, expected: u64| {
            if found == expected {
                return Ok(());
            }
            let stream = segment.stream;
            let what =
                format!("expected blocks up to {expected} of stream {stream}, found them up to {found}");
            Err(LogFault::corrupt(&source.dir.join(segment.name()), at, what))
        };
        let segments = &source.control.segments;
        let streams: BTreeSet<_> = segments.iter().map(|segment| (segment.life, segment.stream)).collect();
        for stream in streams {
            let is_own = |segment: &Segment| (segment.life, segment.stream) == stream;
            let Some(first) = segments.iter().find(|segment| is_own(segment)) else { continue };
            let end = source.end_of(first).1;
            let read: Vec<_> = self.blocks.iter().filter(|(segment, ..)| is_own(segment)).collect();
            if read.is_empty() {
                expect(first, 0, ALIGN as u64, end)?;
            }
            for (i, (segment, from, count, at)) in read.iter().enumerate() {
                let expected = read.get(i + 1).map_or(end, |(_, next, ..)| *next);
                // The missing blocks are behind it, or at the front of the next file if nothing
                // could be read there.
                let next = segments.iter().find(|next| is_own(next) && next.number > segment.number);
                match next.filter(|next| read.iter().all(|(other, ..)| other.number != next.number)) {
                    Some(next) => expect(next, from + count, ALIGN as u64, expected)?,
                    None => expect(segment, from + count, *at, expected)?,
                }
            }
        }
        Ok(())
    }

    /// The end of each log file with blocks that count.
    pub(super) fn ends(&self) -> BTreeMap<u64, u64> {
        self.blocks.iter().map(|(segment, _, _, at)| (segment.number, *at)).collect()
    }
}

/// Changes that were read before the version that they were made from, by row. There are few. A
/// block holds one worker's records behind another's, even if they are earlier, and a prepared
/// version appears only with its decision.
#[derive(Default)]
pub(super) struct Early(HashMap<(u16, Vec<u8>), Vec<EarlyChange>>);

struct EarlyChange {
    from: u64,
    tid: u64,
    runs: Vec<u8>,
}

/// The rows that one loader of log files makes. Each loader sees the changes of its rows in order,
/// and no two meet at a row.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) number: usize,
    pub(super) of: usize,
}

impl Share {
    pub(super) const ALL: Share = Share { number: 0, of: 1 };

    #[inline]
    fn has(self, hash: Hash) -> bool {
        self.of == 1 || hash.part(self.of) == self.number
    }
}

/// The number of changes that are looked up side by side.
const BATCH: usize = 64;

type Batch<'b> = Vec<Due<'b>>;

/// A change that is about to be carried out.
struct Due<'b> {
    tid: u64,
    /// The epoch of its record.
    logged: u64,
    change: RowChange<'b>,
    hash: Hash,
    /// The place of its row, if it has one.
    row: Option<Ref>,
}

impl Due<'_> {
    /// Prefetches the part of the row that the change touches.
    #[inline]
    fn prefetch(&self, arena: &Arena, row: Ref) {
        match self.change.value {
            Left::Part { mut runs, .. } => {
                let at = runs.next().ok().flatten().map_or(0, |(at, _)| at);
                row::prefetch_part(arena, row, self.change.key.len(), at);
            }
            Left::Absent | Left::Whole(_) => row::prefetch_row(arena, row),
        }
    }
}

pub(super) struct Loader<'s> {
    source: &'s Source<'s>,
    worker: Worker,
    told: Told,
    share: Share,
    pub(super) early: Early,
    /// Transactions that have been prepared and not decided so far. Only the first share has their
    /// reads and notes.
    open: BTreeMap<u64, Undecided>,
    /// Decisions for which the prepare record may still come, and the epochs of their records.
    decided: HashMap<u64, (u64, TxnVerdict)>,
    /// Absent rows, each with the epoch of the record that deleted it, and its word.
    absent: VecDeque<(u64, TableId, Ref, u64)>,
    /// All streams were read up to this epoch.
    complete: u64,
}

/// The fault of a file with impossible contents.
fn malformed(path: &Path, at: u64) -> LogFault {
    LogFault::corrupt(path, at, "expected records of this version, or of tables that were defined")
}

impl<'s> Loader<'s> {
    pub(super) fn new(source: &'s Source<'s>, worker: Worker) -> Loader<'s> {
        let (told, early) = (Told::default(), Early::default());
        Loader {
            source,
            worker,
            told,
            share: Share::ALL,
            early,
            open: BTreeMap::new(),
            decided: HashMap::new(),
            absent: VecDeque::new(),
            complete: 0,
        }
    }

    pub(super) fn into_told(self) -> Told {
        Told { early: self.early, ..self.told }
    }

    /// Loads one part of the checkpoint. No row is in two parts.
    pub(super) fn part(&mut self, part: usize) -> Result<(), Stop> {
        let Some(checkpoint) = &self.source.control.checkpoint else { return Ok(()) };
        let path = part_path(self.source, checkpoint.number, part);
        let file = open(self.source.files, &path, "the control file names it: it holds part of the rows")?;
        let control = self.source.control;
        // The part may be from any life.
        self.expect_part(&path, &*file, part as u32, checkpoint.number)?;
        let expected = &checkpoint.parts[part];
        let mut blocks = Blocks::new(&file, &path)?;
        let (mut rows, mut count) = (0, 0);
        while blocks.at < expected.bytes {
            let at = blocks.at;
            let is_next = |head: &BlockHead| {
                (head.store, head.number, head.sequence) == (control.store, checkpoint.number, count)
            };
            let Some((head, body)) = blocks.next(is_next)? else {
                let what = format!("expected block {count} of this part of the checkpoint");
                return Err(LogFault::corrupt(&path, at, what).into());
            };
            (rows, count) = (head.sealed, count + 1);
            self.rows(&path, at, body)?;
        }
        if rows != expected.rows {
            let what = format!("expected {} rows, found {rows}", expected.rows);
            return Err(LogFault::corrupt(&path, blocks.at, what).into());
        }
        self.told.replayed.rows += rows;
        self.told.replayed.checkpoint_bytes += expected.bytes;
        Ok(())
    }

    fn expect_part(
        &self,
        path: &Path,
        file: &dyn world::File,
        part: u32,
        number: u64,
    ) -> Result<(), LogFault> {
        let control = self.source.control;
        let mut head = FileHead {
            store: control.store,
            kind: Kind::Checkpoint,
            part,
            number,
            life: 0,
            streams: u32::from(control.streams),
        };
        head.life = self.source.control.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.life);
        head.expect(path, file)
    }

    fn rows(&mut self, path: &Path, at: u64, body: &[u8]) -> Result<(), Stop> {
        let store = Rc::clone(&self.worker.store);
        let (mut bytes, mut spot) = (Bytes(body), (TableId(0), Spot::default()));
        while !bytes.0.is_empty() {
            let (table, key, value, tid) = take_row(&mut bytes).ok_or_else(|| malformed(path, at))?;
            let index = store.index(table).map_err(|_| malformed(path, at))?;
            let row =
                row::create(&store.arena, &mut self.worker.own.local, (table, ABSENT), key, value.len())?;
            self.overwrite(&store.arena, row, Some(value), tid)?;
            if spot.0 != table {
                spot = (table, Spot::default());
            }
            match index.insert(
                &store.arena,
                &mut self.worker.own.local,
                &store.epochs,
                key,
                row,
                &mut spot.1,
            )? {
                Insertion::Done(_) => {}
                Insertion::Reserved(_) => unreachable!("no transaction has prepared anything yet"),
                Insertion::Exists(..) => {
                    let what = "expected each row once in a checkpoint, found one twice";
                    return Err(LogFault::corrupt(path, at, what).into());
                }
            }
        }
        Ok(())
    }

    fn in_control(&self, trouble: Trouble) -> Stop {
        match trouble {
            Trouble::Malformed => malformed(&self.source.dir.join("control"), 0).into(),
            Trouble::Stop(stop) => stop,
        }
    }

    /// Carries out the writes of a transaction that belong to the loader's share.
    fn apply(&mut self, ids: (u64, u64), writes: Changes<'_>) -> Result<(), Trouble> {
        let mut batch = Batch::new();
        self.gather(&mut batch, ids, writes)?;
        self.apply_all(&mut batch)
    }

    /// Adds the writes of a transaction that belong to the loader's share to the batch, and carries
    /// the batch out whenever it is full. Prefetches the hints of their rows.
    #[inline]
    fn gather<'b>(
        &mut self,
        batch: &mut Batch<'b>,
        (tid, logged): (u64, u64),
        mut writes: Changes<'b>,
    ) -> Result<(), Trouble> {
        while let Some(change) = writes.next()? {
            let hash = Hash::of(TableId(change.table), change.key);
            if !self.share.has(hash) {
                continue;
            }
            self.worker.store.hints.prefetch(hash);
            batch.push(Due { tid, logged, change, hash, row: None });
            if batch.len() == BATCH {
                self.apply_all(batch)?;
            }
        }
        Ok(())
    }

    /// Carries out the batch in its order. The rows are looked up side by side first.
    fn apply_all(&mut self, batch: &mut Batch<'_>) -> Result<(), Trouble> {
        let store = Rc::clone(&self.worker.store);
        let arena = &store.arena;
        for due in &mut *batch {
            due.row = store.hints.candidate(due.hash).inspect(|row| due.prefetch(arena, *row));
        }
        let is_there = |due: &Due<'_>| {
            let RowChange { table, key, .. } = due.change;
            due.row.is_some_and(|row| row::is_of(arena, row, TableId(table), key))
        };
        let mut missing: Vec<&mut Due<'_>> = batch.iter_mut().filter(|due| !is_there(due)).collect();
        for dues in missing.chunk_by_mut(|a, b| a.change.table == b.change.table) {
            let index = store.index(TableId(dues[0].change.table)).map_err(|_| Trouble::Malformed)?;
            for dues in dues.chunks_mut(LANES) {
                let mut keys = [&[][..]; LANES];
                dues.iter().zip(&mut keys).for_each(|(due, key)| *key = due.change.key);
                index.find_batch(arena, &keys[..dues.len()], |i, found| {
                    dues[i].row = found.row.inspect(|row| {
                        dues[i].prefetch(arena, *row);
                        store.hints.enter(dues[i].hash, *row, arena.used_bytes());
                    });
                });
            }
        }
        for Due { tid, logged, change, row, .. } in batch.drain(..) {
            self.carry_out((tid, logged), change, row)?;
        }
        Ok(())
    }

    /// Carries out one change. If `found` is `None`, the row may have come since the look-up.
    #[inline]
    fn carry_out(
        &mut self,
        ids: (u64, u64),
        change: RowChange<'_>,
        found: Option<Ref>,
    ) -> Result<(), Trouble> {
        let store = Rc::clone(&self.worker.store);
        let (arena, table, tid) = (&store.arena, TableId(change.table), ids.0);
        let index = store.index(table).map_err(|_| Trouble::Malformed)?;
        let is_done = match change.value {
            Left::Part { from, runs } => {
                let row = found.or_else(|| index.find(arena, change.key).row);
                self.change(arena, row, (from, tid), runs)?
            }
            Left::Absent => self.replace(arena, (table, index), (change.key, found), None, ids)?,
            Left::Whole(value) => {
                self.replace(arena, (table, index), (change.key, found), Some(value), ids)?
            }
        };
        if let (Left::Part { from, runs }, Done::TooEarly) = (change.value, is_done) {
            let early = EarlyChange { from, tid, runs: runs.0.to_vec() };
            self.early.0.entry((change.table, change.key.to_vec())).or_default().push(early);
        } else if !self.early.0.is_empty() {
            self.catch_up(index, change.table, change.key)?;
        }
        Ok(())
    }

    /// Gives a row its whole new value, unless it has a later id.
    #[inline]
    fn replace(
        &mut self,
        arena: &Arena,
        (table, index): (TableId, &Index),
        (key, found): (&[u8], Option<Ref>),
        value: Option<&[u8]>,
        ids: (u64, u64),
    ) -> Result<Done, Trouble> {
        let len = value.map_or(0, <[u8]>::len);
        if key.len() > MAX_KEY || len > MAX_ROW {
            return Err(Trouble::Malformed);
        }
        let row = match found {
            Some(row) => row,
            None => self.row(arena, (table, index), key, len)?.0,
        };
        self.write(arena, (table, row), value, ids)?;
        Ok(Done::Now)
    }

    /// Repeats the change that made version `tid` from version `from`.
    #[inline]
    fn change(
        &mut self,
        arena: &Arena,
        row: Option<Ref>,
        (from, tid): (u64, u64),
        mut runs: Runs<'_>,
    ) -> Result<Done, Trouble> {
        let Some(row) = row else { return Ok(Done::TooEarly) };
        let word = row::tid(arena, row);
        let before = lock(word);
        let now = tid::of(before);
        if now != from || before & ABSENT != 0 {
            word.store(before, Ordering::Release);
            return match now {
                _ if now >= tid => Ok(Done::Now),
                // Each version was made from the one before it.
                _ if now >= from => Err(Trouble::Malformed),
                _ => Ok(Done::TooEarly),
            };
        }
        while let Some((at, bytes)) = runs.next()? {
            if !row::patch(arena, row, at, bytes) {
                return Err(Trouble::Malformed);
            }
        }
        word.store(tid, Ordering::Release);
        self.told.replayed.writes += 1;
        Ok(Done::Now)
    }

    /// Repeats the changes of a row that were read too early, as far as its versions are there by
    /// now.
    #[cold]
    fn catch_up(&mut self, index: &Index, table: u16, key: &[u8]) -> Result<(), Trouble> {
        let store = Rc::clone(&self.worker.store);
        let Some(mut early) = self.early.0.remove(&(table, key.to_vec())) else { return Ok(()) };
        early.sort_unstable_by_key(|change| change.tid);
        let row = index.find(&store.arena, key).row;
        let mut left = Vec::new();
        for change in early {
            match self.change(&store.arena, row, (change.from, change.tid), Runs(&change.runs))? {
                Done::Now => {}
                Done::TooEarly => left.push(change),
            }
        }
        if !left.is_empty() {
            self.early.0.insert((table, key.to_vec()), left);
        }
        Ok(())
    }

    /// Repeats all changes that were read too early, after everything else has been repeated.
    pub(super) fn catch_all_up(&mut self) -> Result<(), Stop> {
        let store = Rc::clone(&self.worker.store);
        let rows: Vec<(u16, Vec<u8>)> = self.early.0.keys().cloned().collect();
        for (table, key) in rows {
            let index = store.index(TableId(table)).map_err(|_| self.in_control(Trouble::Malformed))?;
            self.catch_up(index, table, &key).map_err(|trouble| self.in_control(trouble))?;
        }
        match self.early.0.keys().next() {
            None => Ok(()),
            Some((table, _)) => {
                let what = format!("expected in the log what a change in table {table} was made from");
                Err(LogFault::corrupt(&self.source.dir.join(CONTROL), 0, what).into())
            }
        }
    }

    /// The row with this key. If there was none, an absent one is entered.
    #[inline]
    fn row(
        &mut self,
        arena: &Arena,
        (table, index): (TableId, &Index),
        key: &[u8],
        value: usize,
    ) -> Result<(Ref, Entered), Stop> {
        if let Some(row) = index.find(arena, key).row {
            return Ok((row, Entered::Before));
        }
        let (local, epochs) = (&mut self.worker.own.local, &self.worker.store.epochs);
        let row = row::create(arena, local, (table, ABSENT), key, value)?;
        match index.insert(arena, local, epochs, key, row, &mut Spot::default())? {
            Insertion::Done(_) => Ok((row, Entered::Now)),
            Insertion::Reserved(_) => unreachable!("no transaction has prepared anything yet"),
            Insertion::Exists(other, _) => {
                row::discard(arena, local, row);
                Ok((other, Entered::Before))
            }
        }
    }

    /// Overwrites a row unless it has a later id.
    #[inline]
    fn write(
        &mut self,
        arena: &Arena,
        (table, row): (TableId, Ref),
        value: Option<&[u8]>,
        (tid, logged): (u64, u64),
    ) -> Result<(), Stop> {
        let word = row::tid(arena, row);
        if tid::of(word.load(Ordering::Acquire)) >= tid {
            return Ok(());
        }
        let before = lock(word);
        if tid::of(before) >= tid {
            word.store(before, Ordering::Release);
            return Ok(());
        }
        self.told.replayed.writes += 1;
        if let Err(stop) = self.overwrite(arena, row, value, tid) {
            word.store(before, Ordering::Release);
            return Err(stop);
        }
        if value.is_none() {
            self.absent.push_back((logged, table, row, tid | ABSENT));
        }
        Ok(())
    }

    /// Overwrites a row that is locked, or that no other thread has seen.
    #[inline]
    fn overwrite(&mut self, arena: &Arena, row: Ref, value: Option<&[u8]>, tid: u64) -> Result<(), Stop> {
        let len = value.map_or(0, <[u8]>::len);
        let store = Rc::clone(&self.worker.store);
        let prepared = row::prepare(arena, &mut self.worker.own.local, row, len, Keep::Nothing)?;
        let word = tid | if value.is_none() { ABSENT } else { 0 };
        let local = &mut self.worker.own.local;
        row::overwrite(arena, local, &store.epochs, row, value, Touched::ALL, prepared, word);
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entered {
    Now,
    Before,
}

/// The outcome of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    /// It has been carried out, or a later one has.
    Now,
    /// The version that it was made from is not there yet.
    TooEarly,
}

enum Trouble {
    Malformed,
    Stop(Stop),
}

impl From<Malformed> for Trouble {
    fn from(_: Malformed) -> Trouble {
        Trouble::Malformed
    }
}

impl From<Stop> for Trouble {
    fn from(stop: Stop) -> Trouble {
        Trouble::Stop(stop)
    }
}

/// Waits for a lock that another loader holds for one write.
fn lock(word: &std::sync::atomic::AtomicU64) -> u64 {
    let mut wait = Backoff::new();
    loop {
        match tid::try_lock(word) {
            Lock::Taken(before) => return before,
            Lock::Busy(_) | Lock::Dead => wait.wait(),
        }
    }
}

#[inline]
fn take_row<'a>(bytes: &mut Bytes<'a>) -> Option<(TableId, &'a [u8], &'a [u8], u64)> {
    let word = bytes.u64()?;
    let tid = bytes.u64()?;
    let key = bytes.take(usize::from((word >> 16) as u16))?;
    let value = bytes.take((word >> 32) as usize)?;
    (key.len() <= MAX_KEY && value.len() <= MAX_ROW).then_some((TableId(word as u16), key, value, tid))
}
