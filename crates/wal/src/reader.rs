//! Reading the log back, in the order of positions.

use crate::LogFault;
use crate::files::LogFiles;
use crate::frame::{self, Item, RecordHeader, Span};
use crate::segment::{Segment, Window};
use crate::shared::Shared;
use base::Lsn;
use std::sync::Arc;

/// A record as read: its place, its header, its body.
pub type Record = (Span, RecordHeader, Vec<u8>);

/// The records from a position to the end that the log had when the reader was made. After an error
/// it ends.
pub struct LogReader {
    source: Source,
    /// The end of the log that each life found, ascending; empty for a log in memory.
    inherited: Vec<u64>,
    next: u64,
    end: u64,
    /// An error from before the first record.
    fault: Option<LogFault>,
}

enum Source {
    Files {
        segments: Vec<Segment>,
        /// Index of the segment that was read last.
        current: usize,
        window: Window,
    },
    /// Each frame is copied out of the ring before it is read.
    Ring(Arc<Shared>, Vec<u8>),
}

impl LogReader {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        files: Option<Arc<LogFiles>>,
        from: u64,
        end: Result<u64, LogFault>,
    ) -> LogReader {
        let first = files.as_ref().map_or(shared.opened_at, |f| f.first());
        let next = if from == 0 { first } else { from };
        let segments = files.map(|files| files.segments_from(next));
        let fault = match (&end, &segments) {
            (Err(fault), _) | (_, Some(Err(fault))) => Some(fault.clone()),
            _ => None,
        };
        let mut inherited = Vec::new();
        let source = match segments {
            Some(segments) => {
                let segments = segments.unwrap_or_default();
                inherited = segments.iter().map(|s| s.inherited).filter(|&end| end > 0).collect();
                Source::Files { segments, current: 0, window: Window::default() }
            }
            None => Source::Ring(shared.clone(), Vec::new()),
        };
        LogReader { source, inherited, next, end: end.unwrap_or(0), fault }
    }

    /// Passes the next record to `look`, without a copy if it was read from files; `None` at the
    /// end. Skips records that depend on a part of the log that a crash lost.
    pub fn advance<R>(
        &mut self,
        look: impl FnOnce(Span, &RecordHeader, &[u8]) -> R,
    ) -> Option<Result<R, LogFault>> {
        if let Some(fault) = self.fault.take() {
            self.next = self.end;
            return Some(Err(fault));
        }
        while self.next < self.end {
            let at = self.next;
            let fault = match self.source.bytes(at, self.end) {
                // Parsed here and passed on by reference: moving a frame costs more than checking
                // it.
                Ok((bytes, life)) => match frame::item(bytes, at, life) {
                    Some(Item::Record(frame)) => {
                        self.next = at + frame.bytes as u64;
                        let depends_on = frame.header.depends_on;
                        if depends_on != Lsn(0) && lost(&self.inherited, at, depends_on.0) {
                            continue;
                        }
                        let span = Span::new(at, self.next, depends_on);
                        return Some(Ok(look(span, &frame.header, frame.body)));
                    }
                    Some(nothing) => {
                        self.next = at + nothing.bytes() as u64;
                        continue;
                    }
                    None => self.source.broken(at),
                },
                Err(fault) => fault,
            };
            self.next = self.end;
            return Some(Err(fault));
        }
        None
    }
}

impl LogReader {
    /// From now on all bytes that are read stay in memory, about `expected` bytes. No effect on a
    /// log in memory.
    pub fn keep(&mut self, expected: usize) {
        if let Source::Files { window, .. } = &mut self.source {
            window.keep(expected);
        }
    }

    /// Bytes kept so far.
    pub fn kept(&self) -> usize {
        match &self.source {
            Source::Files { window, .. } => window.kept(),
            Source::Ring(..) => 0,
        }
    }

    /// Returns the kept bytes. Bytes that are read later are kept anew.
    pub fn take_kept(&mut self) -> Stretch {
        let (start, bytes) = match &mut self.source {
            Source::Files { window, .. } => window.take(),
            Source::Ring(..) => (0, Vec::new()),
        };
        Stretch { start, bytes }
    }
}

/// A run of the log as it lies in the files. The reader that kept it has checked each of its
/// records.
#[derive(Default)]
pub struct Stretch {
    /// Position of the first byte.
    start: u64,
    bytes: Vec<u8>,
}

impl Stretch {
    /// Position of the first byte.
    pub fn start(&self) -> Lsn {
        Lsn(self.start)
    }

    /// Kind, end and body of the record that starts at `start`.
    ///
    /// # Panics
    /// When no record was read there.
    #[inline]
    pub fn record(&self, start: Lsn) -> (u8, Lsn, &[u8]) {
        let (kind, bytes, body) = frame::known(&self.bytes[(start.0 - self.start) as usize..]);
        (kind, Lsn(start.0 + bytes), body)
    }

    /// An arbitrary mix of bytes of the record that starts at `start`. Reading them fetches its
    /// first two cache lines, which are all of most records.
    #[inline]
    pub fn peek(&self, start: Lsn) -> u8 {
        let at = (start.0 - self.start) as usize;
        self.bytes[at] ^ self.bytes.get(at + 64).copied().unwrap_or(0)
    }
}

impl Source {
    /// The bytes of the frame at `lsn`, and the life it must be of.
    #[inline]
    fn bytes(&mut self, lsn: u64, end: u64) -> Result<(&[u8], u64), LogFault> {
        match self {
            Source::Files { segments, current, window } => {
                if !covers(segments, *current, lsn) {
                    *current = covering(segments, lsn);
                }
                let segment = &segments[*current];
                Ok((window.frame(segment, lsn)?, segment.life))
            }
            Source::Ring(shared, copy) => {
                *copy = from_ring(shared, lsn, end).ok_or(LogFault::Forgotten { lsn })?;
                Ok((copy, shared.life))
            }
        }
    }

    #[cold]
    fn broken(&self, lsn: u64) -> LogFault {
        match self {
            Source::Files { segments, .. } => {
                segments[covering(segments, lsn)].corrupt(lsn, "a record fails its check")
            }
            Source::Ring(..) => LogFault::Forgotten { lsn },
        }
    }
}

/// Whether a record at `at` depends on a lost part of the log: the record's life, with the part
/// that the next life took over from its ring, ended before `depends_on`. For a record of the
/// present life nothing is lost.
fn lost(inherited: &[u64], at: u64, depends_on: u64) -> bool {
    inherited.get(inherited.partition_point(|&end| end <= at)).is_some_and(|&end| end < depends_on)
}

/// Whether the `n`-th segment contains position `lsn`.
#[inline]
fn covers(segments: &[Segment], n: usize, lsn: u64) -> bool {
    segments[n].start <= lsn && segments.get(n + 1).is_none_or(|next| lsn < next.start)
}

/// Index of the segment that contains position `lsn`. If two do, the later one counts: recovery has
/// cut these positions off the earlier one.
fn covering(segments: &[Segment], lsn: u64) -> usize {
    segments.partition_point(|s| s.start <= lsn) - 1
}

fn from_ring(shared: &Shared, lsn: u64, end: u64) -> Option<Vec<u8>> {
    let size = shared.ring.bytes() as u64;
    shared.inserter.held(|reserved| {
        // A record takes at most half a ring.
        let until = end.min(lsn + size / 2);
        // SAFETY: below `end` the log is complete and its writers have finished. Bytes that
        // overwrite it in the ring would have to be reserved, and no thread can reserve while the
        // shared end is held.
        (lsn + size >= reserved).then(|| frame::prefix(unsafe { shared.ring.pieces(lsn, until) }))
    })
}

impl Iterator for LogReader {
    type Item = Result<Record, LogFault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(|span, header, body| (span, *header, body.to_vec()))
    }
}
