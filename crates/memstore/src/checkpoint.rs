//! Checkpoint: a copy of all rows in files, taken while transactions run, so that the log before it
//! can be removed.
//!
//! Every row is copied as the checkpoint finds it, with the id of the transaction that wrote it.
//! The copy is fuzzy, as in SiloR (Zheng et al., OSDI 2014): the store was never in that state, but
//! no old versions are needed. Together with the log from epoch `from` on, if the latest id of each
//! row wins, it gives a consistent state. `from` is chosen before the first row is copied, so that
//! every transaction of an earlier epoch has written everything by then. The checkpoint becomes
//! valid once the device has the log of every transaction that it may have copied, in every
//! durability mode.
//!
//! ```text
//!   1. from = the oldest epoch in which a worker commits
//!   2. copy the notes and the undecided transactions
//!   3. copy the rows, in parallel, by ranges of keys; sync
//!   4. wait until the device has the log of the epoch that runs now
//!   5. replace the control file; remove older files
//!
//!   part: blocks of rows: table u16, key bytes u16, value bytes u32, id u64, key, value
//! ```

use crate::arena::Ref;
use crate::epoch::EpochUse;
use crate::log::{ALIGN, BLOCK_HEAD, BlockHead, Checkpoint, CheckpointPart, FileHead, Kind, Log, LogFault};
use crate::row;
use crate::store::Memstore;
use crate::tid::{self, ABSENT, DEAD};
use crate::worker::Worker;
use base::TableId;
use latch::{Backoff, Rank, RankedMutex};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use txn::{Direction, Flow, Range};
use world::{File, Open};

/// The least number of ranges that a large table is cut into.
const CUTS: usize = 64;
/// A block is written when it has this many bytes.
const BLOCK_BYTES: usize = if cfg!(test) { 1 << 12 } else { 1 << 20 };
/// A part is synced each time that it has grown by this many bytes.
const SYNC_BYTES: u64 = 4 << 20;

/// A range of one table's keys.
struct Slice {
    table: TableId,
    low: Option<Vec<u8>>,
    high: Option<Vec<u8>>,
}

impl Memstore {
    /// Whether enough has been logged since the last checkpoint.
    pub fn checkpoint_due(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.is_broken() && log.checkpoint_due())
    }

    /// Writes all rows to files, and removes the log that is then not needed any more. Blocks, on
    /// threads of its own, while transactions run. Does nothing in a store without files.
    ///
    /// # Errors
    /// An error of the file system, or the fault that has broken the log. The log also breaks here
    /// if it is uncertain whether the new control file is in place. If [`Memstore::log_fault`]
    /// shows no fault, the store is as before, and a checkpoint can be tried again. One that finds
    /// no room is due again after a pause.
    pub fn checkpoint(self: &Arc<Memstore>) -> Result<(), LogFault> {
        let Some(log) = &self.log else { return Ok(()) };
        let _one = log.checkpoint.lock();
        if let Some(fault) = log.fault() {
            return Err(fault);
        }
        let before = log.checkpoint_begins();
        let taken = self.take_checkpoint(log);
        if taken.as_ref().is_err_and(LogFault::is_want_of_room) {
            log.checkpoint_waits(before);
        }
        taken
    }

    fn take_checkpoint(self: &Arc<Memstore>, log: &Log) -> Result<(), LogFault> {
        let now = self.epochs.now();
        let from = self.epochs.oldest(EpochUse::Committing).min(now);
        let (number, store, life, streams) = {
            let mut control = log.shared.control.lock();
            control.next_checkpoint += 1;
            (control.next_checkpoint, control.store, control.life, u32::from(control.streams))
        };
        let (notes, undecided) = {
            let named = log.shared.named.lock();
            let notes = named.notes.iter().map(|(name, note)| (*name, note.clone())).collect();
            (notes, named.undecided.iter().map(|(name, one)| (*name, one.clone())).collect())
        };
        let head = FileHead { store, kind: Kind::Checkpoint, part: 0, number, life, streams };
        let files = RankedMutex::new(Rank::MemParts, Vec::new());
        let run = Run { store: self, log, head, files, fault: OnceLock::new() };
        let written = run.write().and_then(|parts| {
            log.shared.sync_names()?;
            let until = self.epochs.now();
            // The parts are on the device; in mode `async` the log may not be. Then a power cut
            // would leave a copied row of a transaction and lose the rest of that transaction.
            log.wait_stable(until)?;
            Ok(Checkpoint { number, life, from, until, parts, notes, undecided })
        });
        let installed = written.and_then(|checkpoint| self.install(log, checkpoint));
        installed.inspect_err(|_| {
            // In a log that broke in `install` a control file may name the parts.
            if log.fault().is_none() {
                run.remove();
            }
            // The failure may be due to a lack of space.
            log.discard_spares();
        })
    }

    fn install(&self, log: &Log, checkpoint: Checkpoint) -> Result<(), LogFault> {
        let outlived = log.outlived(checkpoint.from);
        let old = log.shared.control.lock().names();
        log.shared.recontrol(|control| {
            control.checkpoint = Some(checkpoint);
            control.segments.retain(|segment| !outlived.contains(segment));
            let segments = &control.segments;
            control.ended.retain(|ended| segments.iter().any(|segment| segment.life == ended.life));
        })?;
        log.discard(&outlived);
        let kept = log.shared.control.lock().names();
        let is_log = |name: &String| outlived.iter().any(|segment| segment.name() == *name);
        for name in old.iter().filter(|name| !kept.contains(name) && !is_log(name)) {
            // A file that cannot be removed here is removed at the next opening.
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
    /// By the number of the part.
    files: RankedMutex<Vec<CheckpointPart>>,
    fault: OnceLock<LogFault>,
}

impl Run<'_> {
    fn path(&self, part: usize) -> PathBuf {
        self.log.shared.dir.join(Checkpoint::part_name(self.head.number, part))
    }

    fn write(&self) -> Result<Vec<CheckpointPart>, LogFault> {
        let broken = || LogFault::Options("the store's own workers are in use".into());
        let tables = self.log.shared.control.lock().tables.clone();
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
            None => Ok(self.files.lock().clone()),
        }
    }

    /// One thread's share: takes slices until none are left, and writes them into parts of about
    /// the size of a log file.
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
        // Garbage that opening the store has left with a helper.
        worker.collect(usize::MAX);
        out.close()
    }

    /// Removes the parts, whole or not, after a failure.
    fn remove(&self) {
        let parts = self.files.lock().len();
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
    /// Rows in the open part and in the current block.
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
            chunk.rows.iter().for_each(|row| row::prefetch_row(&store.arena, *row));
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
            let mut parts = self.run.files.lock();
            parts.push(CheckpointPart::default());
            parts.len() - 1
        };
        let file = self.run.log.shared.files.open(&self.run.path(part), Open::Create)?;
        file.set_len(0)?;
        let head = FileHead { part: part as u32, ..self.run.head };
        file.write_all_at(&head.encode(), 0)?;
        Ok(OpenPart { part, file, at: ALIGN as u64, blocks: 0 })
    }

    /// Writes the block. Begins a new part if none is open.
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
        // Syncs a piece at a time: one sync at the end would keep the log's own writes waiting.
        if open.at / SYNC_BYTES != (open.at - self.block.len() as u64) / SYNC_BYTES {
            open.file.sync()?;
        }
        self.open = Some(open);
        self.block.clear();
        self.block.resize(BLOCK_HEAD, 0);
        Ok(())
    }

    /// Ends the part. It is then on the device, except for its name.
    fn close(&mut self) -> Result<(), LogFault> {
        self.flush()?;
        if let Some(open) = self.open.take() {
            open.file.sync()?;
            self.run.files.lock()[open.part] =
                CheckpointPart { rows: std::mem::take(&mut self.rows), bytes: open.at };
        }
        Ok(())
    }
}
