//! A copy of all rows in files, taken while transactions go on, so that the log before it can go.
//!
//! Every row is copied as it is when the copy comes by, with the id of who wrote it. That is no state the store ever was in
//! (it is fuzzy, as in SiloR: Zheng et al., OSDI 2014), and it needs no old versions: together with the log from epoch
//! `from` on, of which the latest id of each row wins, it is one. `from` is chosen before the first row is looked at, so
//! that every transaction of an earlier epoch has written everything by then. It counts once the log of all that it may have
//! copied is on the device, in every mode.
//!
//! ```text
//!   from = the oldest epoch that anybody commits in; then notes and undecided transactions; then the rows, in parallel, by
//!   ranges of keys; sync; wait until the device has the log of the epoch that runs then; control file; older files go
//!
//!   part: blocks of rows: table u16, key bytes u16, value bytes u32, id u64, key, value
//! ```

use crate::arena::Ref;
use crate::epoch::What;
use crate::log::{ALIGN, BLOCK_HEAD, BlockHead, Checkpoint, FileHead, Kind, Log, LogFault, Part, held};
use crate::row;
use crate::store::Memstore;
use crate::tid::{self, ABSENT, DEAD};
use crate::worker::Worker;
use base::TableId;
use latch::Backoff;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use txn::{Direction, Flow, Range};
use world::{File, Open};

/// Into how many ranges a large table is cut at least.
const CUTS: usize = 64;
/// A block is written when it has this many bytes.
const BLOCK_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };
/// A part is synced each time that it has grown by this.
const SYNC_BYTES: u64 = 4 << 20;

/// A range of one table's keys.
struct Slice {
    table: TableId,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl Memstore {
    /// Whether enough was logged since the last checkpoint.
    pub fn checkpoint_due(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.is_broken() && log.checkpoint_due())
    }

    /// Writes all rows to files and removes the log that is then not needed any more. Blocks, on threads of its own, while
    /// transactions go on. Nothing in a store without files.
    ///
    /// # Errors
    /// The file system's, or why the log is broken, as it is from then on if the control file could not be put in place
    /// for certain. If it is not ([`Memstore::log_fault`]), the store is as before, and a checkpoint can be tried again.
    pub fn checkpoint(self: &Arc<Memstore>) -> Result<(), LogFault> {
        let Some(log) = &self.log else { return Ok(()) };
        let _one = held(&log.checkpoint);
        if let Some(fault) = log.fault() {
            return Err(fault);
        }
        log.checkpoint_begins();
        let now = self.epochs.now();
        let from = self.epochs.oldest(What::Committing).min(now);
        let (number, store, life, streams) = {
            let mut control = held(&log.shared.control);
            control.next_checkpoint += 1;
            (control.next_checkpoint, control.store, control.life, u32::from(control.streams))
        };
        let (notes, undecided) = {
            let named = held(&log.shared.named);
            let notes = named.notes.iter().map(|(name, note)| (*name, note.clone())).collect();
            (notes, named.undecided.iter().map(|(name, one)| (*name, one.clone())).collect())
        };
        let head = FileHead { store, kind: Kind::Checkpoint, part: 0, number, life, streams };
        let run = Run { store: self, log, head, files: Mutex::default(), fault: OnceLock::new() };
        let written = run.write().and_then(|parts| {
            log.shared.sync_names()?;
            let until = self.epochs.now();
            // The parts are on the device, and `async` alone would not have the log there: a power cut would then leave of a
            // transaction what was copied after it.
            log.wait_stable(until)?;
            Ok(Checkpoint { number, life, from, until, parts, notes, undecided })
        });
        // From `install` on a control file may name the parts, also when it fails.
        let checkpoint = written.inspect_err(|_| {
            run.remove();
            // Perhaps for want of room.
            log.discard_spares();
        })?;
        self.install(log, checkpoint)
    }

    fn install(&self, log: &Log, checkpoint: Checkpoint) -> Result<(), LogFault> {
        let outlived = log.outlived(checkpoint.from);
        let old = held(&log.shared.control).names();
        log.shared.recontrol(|control| {
            control.checkpoint = Some(checkpoint);
            control.segments.retain(|segment| !outlived.contains(segment));
            let segments = &control.segments;
            control.ended.retain(|ended| segments.iter().any(|segment| segment.life == ended.life));
        })?;
        log.discard(&outlived);
        let kept = held(&log.shared.control).names();
        let is_log = |name: &String| outlived.iter().any(|segment| segment.name() == *name);
        for name in old.iter().filter(|name| !kept.contains(name) && !is_log(name)) {
            // One that stays behind is removed at the next opening.
            let _ = log.shared.files.remove(&log.shared.dir.join(name));
        }
        Ok(())
    }

    fn slices(&self, tables: &[u16], worker: &mut Worker) -> Vec<Slice> {
        let pin = worker.own.reading.add(&self.epochs, worker.number);
        let mut slices = Vec::new();
        for table in tables.iter().map(|table| TableId(*table)) {
            let cuts = self.index(table).map(|index| index.cuts(&self.arena, CUTS)).unwrap_or_default();
            let cuts = cuts.iter().step_by(cuts.len().div_ceil(4 * CUTS).max(1)).cloned().map(Some);
            let mut low = None;
            for high in cuts.chain([None]) {
                slices.push(Slice { table, low: std::mem::replace(&mut low, high.clone()), high });
            }
        }
        worker.own.reading.remove(&self.epochs, worker.number, pin);
        slices
    }
}

/// One checkpoint being written.
struct Run<'a> {
    store: &'a Arc<Memstore>,
    log: &'a Log,
    head: FileHead,
    /// By number of the part.
    files: Mutex<Vec<Part>>,
    fault: OnceLock<LogFault>,
}

impl Run<'_> {
    fn path(&self, part: usize) -> PathBuf {
        self.log.shared.dir.join(Checkpoint::part_name(self.head.number, part))
    }

    fn write(&self) -> Result<Vec<Part>, LogFault> {
        let broken = || LogFault::Options("the store's own workers are in use".into());
        let tables = held(&self.log.shared.control).tables.clone();
        let slices = self.store.slices(&tables, &mut self.store.helper(0).ok_or_else(broken)?);
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for helper in 0..self.log.shared.options.threads {
                let (next, slices) = (&next, &slices);
                scope.spawn(move || {
                    let Some(worker) = self.store.helper(helper) else { return };
                    self.take(worker, slices, next).unwrap_or_else(|fault| drop(self.fault.set(fault)));
                });
            }
        });
        match self.fault.get() {
            Some(fault) => Err(fault.clone()),
            None => Ok(std::mem::take(&mut *held(&self.files))),
        }
    }

    /// One thread's share: slices, until there are none left, into parts of about the size of a log file.
    fn take(&self, mut worker: Worker, slices: &[Slice], next: &AtomicUsize) -> Result<(), LogFault> {
        let mut out = Out { run: self, open: None, rows: 0, block: vec![0; BLOCK_HEAD] };
        while let Some(slice) = slices.get(next.fetch_add(1, Ordering::Relaxed)) {
            if self.fault.get().is_some() {
                return Ok(());
            }
            out.slice(&mut worker, slice)?;
            if out.is_full() {
                out.close()?;
            }
        }
        // What a restart has left with a helper.
        worker.collect(usize::MAX);
        out.close()
    }

    /// Takes away what was written for nothing.
    fn remove(&self) {
        let parts = held(&self.files).len();
        for part in 0..parts {
            let _ = self.log.shared.files.remove(&self.path(part));
        }
    }
}

/// A part being written.
struct OpenPart {
    part: usize,
    file: Arc<dyn File>,
    at: u64,
    blocks: u64,
}

struct Out<'a> {
    run: &'a Run<'a>,
    open: Option<OpenPart>,
    /// Of the open part, those in the block included.
    rows: u64,
    block: Vec<u8>,
}

impl Out<'_> {
    fn slice(&mut self, worker: &mut Worker, slice: &Slice) -> Result<(), LogFault> {
        let store = self.run.store;
        let pin = worker.own.reading.add(&store.epochs, worker.number);
        let range = Range { low: slice.low.as_deref(), high: slice.high.as_deref() };
        let mut fault = Ok(());
        let mut value = Vec::new();
        let walked = worker.leaves(slice.table, range, Direction::Forward, |_, chunk, _| {
            chunk.rows.iter().for_each(|row| row::ask_for(&store.arena, *row));
            for &row in &chunk.rows {
                self.row(slice.table, row, &mut value);
                if self.block.len() >= BLOCK_BYTES {
                    fault = self.flush();
                }
                if fault.is_err() {
                    return Ok(Flow::Enough);
                }
            }
            Ok(Flow::More)
        });
        worker.own.reading.remove(&store.epochs, worker.number, pin);
        walked.map_err(|refused| LogFault::Options(refused.to_string()))?;
        fault
    }

    fn row(&mut self, table: TableId, row: Ref, value: &mut Vec<u8>) {
        let arena = &self.run.store.arena;
        let mut wait = Backoff::new();
        let word = loop {
            match row::read_committed(arena, row, value) {
                Ok(word) => break word,
                Err(_) => wait.wait(),
            }
        };
        if word & (ABSENT | DEAD) != 0 {
            return;
        }
        let at = self.block.len();
        self.block.extend_from_slice(&[0; 8]);
        self.block.extend_from_slice(&tid::of(word).to_le_bytes());
        row::key(arena, row, &mut self.block);
        let key = (self.block.len() - at - 16) as u64;
        let head = u64::from(table.0) | key << 16 | (value.len() as u64) << 32;
        self.block[at..at + 8].copy_from_slice(&head.to_le_bytes());
        self.block.extend_from_slice(value);
        self.rows += 1;
    }

    fn is_full(&self) -> bool {
        let bytes = self.open.as_ref().map_or(0, |open| open.at) + self.block.len() as u64;
        bytes >= self.run.log.shared.options.segment_bytes
    }

    fn begin(&self) -> Result<OpenPart, LogFault> {
        let part = {
            let mut parts = held(&self.run.files);
            parts.push(Part::default());
            parts.len() - 1
        };
        let file = self.run.log.shared.files.open(&self.run.path(part), Open::Create)?;
        file.set_len(0)?;
        let head = FileHead { part: part as u32, ..self.run.head };
        file.write_all_at(&head.encode(), 0)?;
        Ok(OpenPart { part, file, at: ALIGN as u64, blocks: 0 })
    }

    /// Writes the block, to a new part if there is none yet.
    fn flush(&mut self) -> Result<(), LogFault> {
        if self.block.len() == BLOCK_HEAD {
            return Ok(());
        }
        let mut open = self.open.take().map_or_else(|| self.begin(), Ok)?;
        let mut head = BlockHead::new(self.run.head.store, self.run.head.number, open.blocks);
        head.sealed = self.rows;
        head.finish(&mut self.block);
        open.file.write_all_at(&self.block, open.at)?;
        open.at += self.block.len() as u64;
        open.blocks += 1;
        // Not all at the end, which would keep the log's own writes waiting.
        if open.at / SYNC_BYTES != (open.at - self.block.len() as u64) / SYNC_BYTES {
            open.file.sync()?;
        }
        self.open = Some(open);
        self.block.clear();
        self.block.resize(BLOCK_HEAD, 0);
        Ok(())
    }

    /// Ends the part; it is on the device then, but for its name.
    fn close(&mut self) -> Result<(), LogFault> {
        self.flush()?;
        if let Some(open) = self.open.take() {
            open.file.sync()?;
            held(&self.run.files)[open.part] = Part { rows: std::mem::take(&mut self.rows), bytes: open.at };
        }
        Ok(())
    }
}
