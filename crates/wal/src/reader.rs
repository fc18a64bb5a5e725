//! Reading the log back, in order.

use crate::LogFault;
use crate::files::LogFiles;
use crate::frame::{self, Item, RecordHeader, Span};
use crate::log::Shared;
use crate::segment::{Segment, Window};
use base::Lsn;
use std::sync::Arc;

/// A record as read: where it lies, its header, its body.
pub type Record = (Span, RecordHeader, Vec<u8>);

/// The records from a position to the end that the log had when the reader was made. After an error it ends.
pub struct LogReader {
    source: Source,
    /// Where the log ended that each life found, ascending; empty for a log in memory.
    inherited: Vec<u64>,
    next: u64,
    end: u64,
    /// Met before the first record.
    fault: Option<LogFault>,
}

enum Source {
    Files {
        segments: Vec<Segment>,
        /// Which of them was read last.
        current: usize,
        window: Window,
    },
    /// What is read is copied out of the ring first.
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

    /// Shows the next record to `look`, without a copy where it was read from files; `None` at the end. Records that rest on
    /// what a crash took are passed over.
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
                // Taken apart here and handed on by reference: moving a frame costs more than checking it.
                Ok((bytes, life)) => match frame::item(bytes, at, life) {
                    Some(Item::Record(frame)) => {
                        self.next = at + frame.bytes as u64;
                        let rests_on = frame.header.rests_on;
                        if rests_on != Lsn(0) && lost(&self.inherited, at, rests_on.0) {
                            continue;
                        }
                        let span = Span::new(at, self.next, rests_on);
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
    /// From now on what is read stays in memory, about `expected` bytes. Does nothing for a log in memory.
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

    /// Hands over what was kept; what is read from here on is kept anew.
    pub fn take_kept(&mut self) -> Stretch {
        let (start, bytes) = match &mut self.source {
            Source::Files { window, .. } => window.take(),
            Source::Ring(..) => (0, Vec::new()),
        };
        Stretch { start, bytes }
    }
}

/// A stretch of the log as it lies in the files, kept by a reader that has checked each of its records.
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

    /// A mixture of bytes of the record that starts at `start`: looking at it has the first two of its cache lines fetched,
    /// which is all of most records.
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

/// Whether a record at `at` rests on what was lost: its life, or what of it was moved into the next one, ended before that.
/// What the present life rests on is still there.
fn lost(inherited: &[u64], at: u64, rests_on: u64) -> bool {
    inherited.get(inherited.partition_point(|&end| end <= at)).is_some_and(|&end| end < rests_on)
}

/// Whether the `n`-th segment is the one that has position `lsn`.
#[inline]
fn covers(segments: &[Segment], n: usize, lsn: u64) -> bool {
    segments[n].start <= lsn && segments.get(n + 1).is_none_or(|next| lsn < next.start)
}

/// The segment that has position `lsn`. Later ones win: what an earlier one has at these positions was cut off.
fn covering(segments: &[Segment], lsn: u64) -> usize {
    segments.partition_point(|s| s.start <= lsn) - 1
}

fn from_ring(shared: &Shared, lsn: u64, end: u64) -> Option<Vec<u8>> {
    let size = shared.ring.bytes() as u64;
    shared.inserter.held(|reserved| {
        // A record has at most half a ring.
        let until = end.min(lsn + size / 2);
        // SAFETY: below `end` all is whole and its owners are gone, and what overlays it in the ring would have been
        // reserved, which nobody can while the shared end is held.
        (lsn + size >= reserved).then(|| frame::prefix(unsafe { shared.ring.pieces(lsn, until) }))
    })
}

impl Iterator for LogReader {
    type Item = Result<Record, LogFault>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance(|span, header, body| (span, *header, body.to_vec()))
    }
}
