//! Reading the log: all streams of a life side by side, the oldest life first. A deleted row is
//! removed as soon as no record that is read later can be older than its deletion (see the head of
//! `recover`).

use super::{Batch, Loader, Share, Trouble, malformed};
use crate::left::Garbage;
use crate::log::{
    BlockHead, Blocks, Bytes, Changes, Reads, Record, Segment, TxnVerdict, Undecided, next_record,
};
use crate::recover::Stop;
use crate::recover::tail::open_segment;
use std::collections::BTreeSet;

/// One stream of a life, and how far it has been read.
struct Reading {
    segments: std::vec::IntoIter<Segment>,
    file: Option<ReadFile>,
    /// All its records of this epoch and earlier ones have been read.
    sealed: u64,
}

/// A log file, and how far it has been read.
struct ReadFile {
    segment: Segment,
    blocks: Blocks,
    /// The sequence of its first block, and the number of blocks read.
    first: u64,
    count: u64,
    /// The stream ends before the block of this sequence.
    end: u64,
    /// Records of the life count up to this epoch.
    durable: u64,
}

/// The result of a step of a stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Done,
    Over,
}

impl<'s> Loader<'s> {
    /// Repeats the writes of all log files to a share of the rows. Everything else in the log is
    /// collected with the first share.
    pub(in crate::recover) fn replay(&mut self, share: Share) -> Result<(), Stop> {
        let source = self.source;
        (self.share, self.complete) = (share, 0);
        self.decided.clear();
        self.open = self.undecided_of_checkpoint().cloned().collect();
        let segments = &source.control.segments;
        for life in segments.iter().map(|segment| segment.life).collect::<BTreeSet<_>>() {
            let own = segments.iter().filter(|segment| segment.life == life).copied();
            self.life(own.collect())?;
        }
        if share.number == 0 {
            self.told.undecided.append(&mut self.open);
        }
        Ok(())
    }

    fn undecided_of_checkpoint(&self) -> impl Iterator<Item = &'s (u64, Undecided)> + use<'s> {
        self.source.control.checkpoint.iter().flat_map(|checkpoint| &checkpoint.undecided)
    }

    /// Replays the log files of one life. Each step takes a block of the stream that is furthest
    /// behind.
    fn life(&mut self, segments: Vec<Segment>) -> Result<(), Stop> {
        let Some((durable, _)) = segments.first().map(|segment| self.source.end_of(segment)) else {
            return Ok(());
        };
        let streams: BTreeSet<u16> = segments.iter().map(|segment| segment.stream).collect();
        let reading = |stream| {
            let own: Vec<_> = segments.iter().filter(|segment| segment.stream == stream).copied().collect();
            Reading { segments: own.into_iter(), file: None, sealed: 0 }
        };
        let mut streams: Vec<Reading> = streams.into_iter().map(reading).collect();
        while let Some(at) = (0..streams.len()).min_by_key(|at| streams[*at].sealed) {
            if self.step(&mut streams[at])? == Step::Over {
                streams.swap_remove(at);
            }
            let complete = streams.iter().map(|stream| stream.sealed).min();
            self.complete_to(complete.map_or(durable, |complete| complete.min(durable)));
        }
        Ok(())
    }

    /// Replays the next block of a stream, or goes on to its next file.
    fn step(&mut self, stream: &mut Reading) -> Result<Step, Stop> {
        let Some(file) = &mut stream.file else {
            let Some(segment) = stream.segments.next() else { return Ok(Step::Over) };
            stream.file = Some(self.begin(segment)?);
            return Ok(Step::Done);
        };
        let (at, store, end) = (file.blocks.at, self.source.control.store, file.end);
        let (number, next) = (file.segment.number, (file.count > 0).then_some(file.first + file.count));
        let is_next = |head: &BlockHead| {
            let is_own = (head.store, head.number) == (store, number);
            is_own && head.sequence < end && next.is_none_or(|next| head.sequence == next)
        };
        let Some((head, body)) = file.blocks.next(is_next)? else {
            if file.count > 0 && self.share.number == 0 {
                self.told.blocks.push((file.segment, file.first, file.count, at));
            }
            stream.file = None;
            return Ok(Step::Done);
        };
        if file.count == 0 {
            file.first = head.sequence;
        }
        file.count += 1;
        if self.share.number == 0 {
            self.told.replayed.log_bytes += body.len() as u64;
        }
        // Other threads take rows out of the indexes meanwhile.
        let pin = self.worker.own.reading.add(&self.worker.store.epochs, self.worker.number);
        let repeated = self.records(body, self.source.from()..=file.durable);
        self.worker.own.reading.remove(&self.worker.store.epochs, self.worker.number, pin);
        repeated.map_err(|stop| match stop {
            Trouble::Malformed => malformed(file.blocks.path(), at).into(),
            Trouble::Stop(stop) => stop,
        })?;
        stream.sealed = stream.sealed.max(head.sealed);
        Ok(Step::Done)
    }

    fn begin(&self, segment: Segment) -> Result<ReadFile, Stop> {
        let source = self.source;
        let (path, file) = open_segment(source.files, source.dir, source.control, &segment)?;
        let (durable, end) = source.end_of(&segment);
        Ok(ReadFile { segment, blocks: Blocks::new(&file, &path)?, first: 0, count: 0, end, durable })
    }

    /// All records of epochs up to this one have been read: rows that were deleted by then are not
    /// needed any more.
    fn complete_to(&mut self, epoch: u64) {
        if epoch <= self.complete {
            return;
        }
        self.complete = epoch;
        self.decided.retain(|_, (logged, _)| *logged > epoch);
        let mut count = 0;
        while let Some((_, table, row, word)) = self.absent.pop_front_if(|(logged, ..)| *logged <= epoch) {
            self.worker.own.garbage.push_back((0, Garbage::Row(table, row, word)));
            count += 1;
        }
        if self.worker.has_garbage() {
            // Memory can be reused one epoch after it was given up.
            self.worker.store.epochs.tick();
            self.worker.collect(count);
        }
    }

    fn records(&mut self, body: &[u8], counting: std::ops::RangeInclusive<u64>) -> Result<(), Trouble> {
        let (mut bytes, mut batch) = (Bytes(body), Batch::new());
        while let Some((epoch, record)) = next_record(&mut bytes)? {
            if !counting.contains(&epoch) {
                continue;
            }
            if let Record::Commit { tid, writes } = record {
                self.gather(&mut batch, (tid, epoch), writes)?;
                continue;
            }
            self.apply_all(&mut batch)?;
            match record {
                Record::Commit { .. } => {}
                Record::Prepare { name, tid, note, writes } => self.prepared(name, (tid, note), writes)?,
                Record::Reservations { name, reads } => self.reserved(name, reads),
                Record::Decision { name, verdict } => self.decide(name, epoch, verdict)?,
                Record::Note { name, note } if self.share.number == 0 => {
                    self.told.notes.push((name, note.to_vec()));
                }
                Record::Forget { name } if self.share.number == 0 => self.told.forgotten.push(name),
                Record::Note { .. } | Record::Forget { .. } => {}
            }
        }
        self.apply_all(&mut batch)
    }

    /// Whether the checkpoint has this undecided transaction. If so, it has all of it, also if the
    /// log has it in several records.
    fn is_of_checkpoint(&self, name: u64) -> bool {
        self.undecided_of_checkpoint().any(|(known, _)| *known == name)
    }

    fn prepared(&mut self, name: u64, (tid, note): (u64, &[u8]), writes: Changes<'_>) -> Result<(), Trouble> {
        match self.decided.get(&name) {
            Some((logged, TxnVerdict::Commit(tid))) => return self.apply((*tid, *logged), writes),
            Some((_, TxnVerdict::Abort)) => return Ok(()),
            None if self.is_of_checkpoint(name) => return Ok(()),
            None => {}
        }
        let one = self.open.entry(name).or_default();
        if one.writes.is_empty() && self.share.number == 0 {
            (one.tid, one.note) = (tid, note.to_vec());
        }
        one.writes.extend_from_slice(writes.bytes());
        Ok(())
    }

    /// Notes the reads of a prepared transaction. This record comes before those of the prepare, in
    /// the same block.
    fn reserved(&mut self, name: u64, reads: Reads<'_>) {
        let is_new = !self.decided.contains_key(&name) && !self.is_of_checkpoint(name);
        if self.share.number == 0 && is_new {
            self.open.entry(name).or_default().reads.extend_from_slice(reads.bytes());
        }
    }

    /// Applies a decision. If the transaction is unknown, either its prepare record is read later,
    /// or the decision was written before the first row of the checkpoint was copied.
    fn decide(&mut self, name: u64, logged: u64, verdict: TxnVerdict) -> Result<(), Trouble> {
        self.decided.insert(name, (logged, verdict));
        match (self.open.remove(&name), verdict) {
            (Some(one), TxnVerdict::Commit(tid)) => self.apply((tid, logged), Changes::of(&one.writes)),
            _ => Ok(()),
        }
    }
}
