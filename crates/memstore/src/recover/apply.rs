//! Rows from the parts of a checkpoint, and writes from the records of the log.

use super::tail::{open, open_segment};
use super::{Replayed, Source, Stop, part_path};
use crate::arena::{Arena, Ref};
use crate::guard;
use crate::index::{Chunk, Index, Insertion, Seek};
use crate::log::{
    ALIGN, BlockHead, Blocks, Bytes, Changes, FileHead, Kind, LogFault, Malformed, Read, Reads, Record,
    Segment, Undecided, Verdict, next_record,
};
use crate::node::Node;
use crate::row::{self, Keep, MAX_KEY, MAX_ROW, Touched};
use crate::tid::{self, ABSENT, LOCKED, Lock, PREPARED};
use crate::transaction::{Txn, Value};
use crate::worker::{Garbage, Worker};
use base::TableId;
use latch::Backoff;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// What one thread has found besides rows.
#[derive(Default)]
pub(super) struct Told {
    pub(super) prepared: Vec<(u64, Undecided)>,
    /// What prepared transactions have read.
    pub(super) guards: Vec<(u64, Vec<u8>)>,
    pub(super) decisions: Vec<(u64, Verdict)>,
    pub(super) notes: Vec<(u64, Vec<u8>)>,
    pub(super) forgotten: Vec<u64>,
    /// Rows left absent: table, row, word.
    pub(super) absent: Vec<(TableId, Ref, u64)>,
    /// Of each log file with blocks, the first one's number and how many there are; where the last ends.
    blocks: Vec<(Segment, u64, u64, u64)>,
    pub(super) replayed: Replayed,
}

impl Told {
    pub(super) fn add(&mut self, mut other: Told) {
        self.prepared.append(&mut other.prepared);
        self.guards.append(&mut other.guards);
        self.decisions.append(&mut other.decisions);
        self.notes.append(&mut other.notes);
        self.forgotten.append(&mut other.forgotten);
        self.absent.append(&mut other.absent);
        self.blocks.append(&mut other.blocks);
    }

    /// Checks that no block is missing between those that were read, nor at the end of a stream.
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
                // What is missing is behind it, or at the front of the next file, where nothing could be read then.
                let next = segments.iter().find(|next| is_own(next) && next.number > segment.number);
                match next.filter(|next| read.iter().all(|(other, ..)| other.number != next.number)) {
                    Some(next) => expect(next, from + count, ALIGN as u64, expected)?,
                    None => expect(segment, from + count, *at, expected)?,
                }
            }
        }
        Ok(())
    }

    /// Of each log file that has blocks which count, where they end.
    pub(super) fn ends(&self) -> BTreeMap<u64, u64> {
        self.blocks.iter().map(|(segment, _, _, at)| (segment.number, *at)).collect()
    }
}

pub(super) struct Loader<'s> {
    source: &'s Source<'s>,
    worker: Worker,
    told: Told,
    pub(super) absent: Vec<(TableId, Ref, u64)>,
}

/// A file that says what it cannot.
fn malformed(path: &Path, at: u64) -> LogFault {
    LogFault::corrupt(path, at, "expected records of this version, or of tables that were defined")
}

impl<'s> Loader<'s> {
    pub(super) fn new(source: &'s Source<'s>, worker: Worker) -> Loader<'s> {
        Loader { source, worker, told: Told::default(), absent: Vec::new() }
    }

    pub(super) fn into_told(self) -> Told {
        Told { absent: self.absent, ..self.told }
    }

    /// Loads one part of the checkpoint: rows that are in no other.
    pub(super) fn part(&mut self, part: usize) -> Result<(), Stop> {
        let Some(checkpoint) = &self.source.control.checkpoint else { return Ok(()) };
        let path = part_path(self.source, checkpoint.number, part);
        let file = open(self.source.files, &path, "the control file names it: it holds part of the rows")?;
        let control = self.source.control;
        // Whatever life wrote it.
        self.expect_part(&path, &*file, part as u32, checkpoint.number)?;
        let expected = &checkpoint.parts[part];
        let mut blocks = Blocks::new(&*file)?;
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
        let mut bytes = Bytes(body);
        while !bytes.0.is_empty() {
            let (table, key, value, tid) = take_row(&mut bytes).ok_or_else(|| malformed(path, at))?;
            let index = store.index(table).map_err(|_| malformed(path, at))?;
            let row = row::create(&store.arena, &mut self.worker.own.local, key, value.len())?;
            self.overwrite(&store.arena, row, Some(value), tid)?;
            match index.insert(&store.arena, &mut self.worker.own.local, key, row)? {
                Insertion::Done(_) => {}
                Insertion::Guarded(_) => unreachable!("nobody has prepared anything yet"),
                Insertion::Exists(..) => {
                    let what = "expected each row once in a checkpoint, found one twice";
                    return Err(LogFault::corrupt(path, at, what).into());
                }
            }
        }
        Ok(())
    }

    /// Repeats what one log file says.
    pub(super) fn segment(&mut self, segment: &Segment) -> Result<(), Stop> {
        let source = self.source;
        let (path, file) = open_segment(source.files, source.dir, source.control, segment)?;
        let (durable, end) = source.end_of(segment);
        let mut blocks = Blocks::new(&*file)?;
        let (mut first, mut count) = (0, 0);
        loop {
            let at = blocks.at;
            let is_next = |head: &BlockHead| {
                let is_own = (head.store, head.number) == (source.control.store, segment.number);
                is_own && head.sequence < end && (count == 0 || head.sequence == first + count)
            };
            let Some((head, body)) = blocks.next(is_next)? else { break };
            if count == 0 {
                first = head.sequence;
            }
            count += 1;
            self.told.replayed.log_bytes += body.len() as u64;
            self.records(body, source.from()..=durable).map_err(|stop| match stop {
                Trouble::Malformed => malformed(&path, at).into(),
                Trouble::Stop(stop) => stop,
            })?;
        }
        if count > 0 {
            self.told.blocks.push((*segment, first, count, blocks.at));
        }
        Ok(())
    }

    fn records(&mut self, body: &[u8], counting: std::ops::RangeInclusive<u64>) -> Result<(), Trouble> {
        let mut bytes = Bytes(body);
        while let Some((epoch, record)) = next_record(&mut bytes)? {
            if !counting.contains(&epoch) {
                continue;
            }
            match record {
                Record::Commit { tid, writes } => self.apply(tid, writes)?,
                Record::Prepare { name, tid, note, writes } => {
                    let writes = writes.bytes().to_vec();
                    let undecided = Undecided { tid, note: note.to_vec(), writes, reads: Vec::new() };
                    self.told.prepared.push((name, undecided));
                }
                Record::Guards { name, reads } => self.told.guards.push((name, reads.bytes().to_vec())),
                Record::Decision { name, verdict } => self.told.decisions.push((name, verdict)),
                Record::Note { name, note } => self.told.notes.push((name, note.to_vec())),
                Record::Forget { name } => self.told.forgotten.push(name),
            }
        }
        Ok(())
    }

    pub(super) fn apply_undecided(&mut self, undecided: &Undecided) -> Result<(), Stop> {
        self.apply(undecided.tid, Changes::of(&undecided.writes)).map_err(|trouble| self.in_control(trouble))
    }

    fn in_control(&self, trouble: Trouble) -> Stop {
        match trouble {
            Trouble::Malformed => malformed(&self.source.dir.join("control"), 0).into(),
            Trouble::Stop(stop) => stop,
        }
    }

    #[inline]
    fn apply(&mut self, tid: u64, mut writes: Changes<'_>) -> Result<(), Trouble> {
        let store = Rc::clone(&self.worker.store);
        while let Some(change) = writes.next()? {
            let table = TableId(change.table);
            let index = store.index(table).map_err(|_| Trouble::Malformed)?;
            let len = change.value.map_or(0, <[u8]>::len);
            if change.key.len() > MAX_KEY || len > MAX_ROW {
                return Err(Trouble::Malformed);
            }
            let (row, _) = self.row(&store.arena, index, change.key, len)?;
            self.write(&store.arena, (table, row), change.value, tid)?;
        }
        Ok(())
    }

    /// The row with this key, entered absent if there was none.
    #[inline]
    fn row(
        &mut self,
        arena: &Arena,
        index: &Index,
        key: &[u8],
        value: usize,
    ) -> Result<(Ref, Entered), Stop> {
        if let Some(row) = index.find(arena, key).row {
            return Ok((row, Entered::Before));
        }
        let local = &mut self.worker.own.local;
        let row = row::create(arena, local, key, value)?;
        match index.insert(arena, local, key, row)? {
            Insertion::Done(_) => Ok((row, Entered::Now)),
            Insertion::Guarded(_) => unreachable!("nobody has prepared anything yet"),
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
        tid: u64,
    ) -> Result<(), Stop> {
        let word = row::tid(arena, row);
        // Newest files come first, so most older ones end here.
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
            self.absent.push((table, row, tid | ABSENT));
        }
        Ok(())
    }

    /// Of a row that is locked or that nobody has seen.
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

    /// Takes rows that were left absent out of their indexes.
    pub(super) fn clear_away(&mut self, absent: Vec<(TableId, Ref, u64)>) {
        let count = absent.len();
        let garbage = absent.into_iter().map(|(table, row, word)| (0, Garbage::Row(table, row, word)));
        self.worker.own.garbage.extend(garbage);
        self.worker.collect(count);
    }

    /// Locks the rows of a transaction that may go either way, entering those it would insert.
    pub(super) fn lock_undecided(&mut self, undecided: &Undecided) -> Result<Box<Txn>, Stop> {
        let store = Rc::clone(&self.worker.store);
        let mut txn = Box::<Txn>::default();
        let mut writes = Changes::of(&undecided.writes);
        while let Some(change) = writes.next().map_err(|m| self.in_control(m.into()))? {
            let table = TableId(change.table);
            let index = store.index(table).map_err(|_| self.in_control(Trouble::Malformed))?;
            let len = change.value.map_or(0, <[u8]>::len);
            let (row, entered) = self.row(&store.arena, index, change.key, len)?;
            if entered == Entered::Now {
                txn.entered.push((table, row));
            }
            let value = change.value.map_or(Value::Absent, |bytes| {
                let value = txn.value();
                txn.values[value].extend_from_slice(bytes);
                Value::New(value as u32)
            });
            let word = row::tid(&store.arena, row);
            let before = word.load(Ordering::Acquire);
            if before & LOCKED != 0 {
                let what = "expected no two transactions in doubt to have written one row";
                return Err(LogFault::corrupt(&self.source.dir.join("control"), 0, what).into());
            }
            word.store(before | LOCKED | PREPARED, Ordering::Release);
            txn.write(table, row, value, Touched::ALL, before);
            // There is no snapshot yet that could want what it overwrites.
            let prepared = row::prepare(&store.arena, &mut self.worker.own.local, row, len, Keep::Nothing)?;
            if let Some(write) = txn.writes.last_mut() {
                (write.before, write.prepared) = (before, prepared);
            }
        }
        txn.sort_writes();
        Ok(txn)
    }

    /// Has what such a transaction has read stay as it is. To be called when all of them have entered their rows: after this
    /// nobody can enter one there.
    pub(super) fn guard_undecided(&self, txn: &mut Txn, undecided: &Undecided) -> Result<(), Stop> {
        let store = &self.worker.store;
        let (mut rows, mut leaves) = (Vec::new(), Vec::new());
        let mut reads = Reads::of(&undecided.reads);
        while let Some((table, read)) = reads.next().map_err(|m| self.in_control(m.into()))? {
            let index = store.index(TableId(table)).map_err(|_| self.in_control(Trouble::Malformed))?;
            match read {
                Read::Key(key) => {
                    let found = index.find(&store.arena, key);
                    match found.row {
                        Some(row) if txn.own(row).is_some() => {}
                        Some(row) => rows.push(row),
                        None => leaves.push(found.seen.leaf),
                    }
                }
                Read::Range(range) => leaves_of(index, &store.arena, range, &mut leaves),
            }
        }
        for list in [&mut rows, &mut leaves] {
            list.sort_unstable_by_key(|at| at.0);
            list.dedup();
        }
        rows.iter().for_each(|row| guard::enter(row::readers(&store.arena, *row), guard::OF_ROW));
        leaves.iter().for_each(|leaf| guard::enter(Node::at(&store.arena, *leaf).readers(), guard::OF_LEAF));
        txn.guarded = (rows, leaves);
        Ok(())
    }
}

/// The leaves that a range of keys lies in, both ends included.
fn leaves_of(index: &Index, arena: &Arena, range: txn::Range<'_>, leaves: &mut Vec<Ref>) {
    let until = range.high.map(|high| [high, &[0]].concat());
    let (mut from, mut chunk) = (range.low.map(<[u8]>::to_vec), Chunk::default());
    loop {
        index.chunk(arena, Seek::Up(from.as_deref()), until.as_deref(), &mut chunk);
        leaves.extend(chunk.seen.map(|seen| seen.leaf));
        match chunk.next.take() {
            Some(next) => from = Some(next),
            None => return,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entered {
    Now,
    Before,
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

/// Waits for a lock that another loader holds over one write.
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
