//! Reading the log back, in order.

use crate::LogFault;
use crate::files::LogFiles;
use crate::frame::{self, RecordHeader, Span};
use crate::log::Shared;
use crate::segment::{self, Segment, Window};
use base::Lsn;
use std::sync::Arc;

/// A record as read: where it lies, its header, its body.
pub type Record = (Span, RecordHeader, Vec<u8>);

/// The records from a position to the end that the log had when the reader was made. After an error it ends.
pub struct LogReader {
    source: Source,
    next: u64,
    end: u64,
    /// Met before the first record.
    fault: Option<LogFault>,
}

enum Source {
    Files { segments: Vec<Segment>, window: Window },
    Ring(Arc<Shared>),
}

impl LogReader {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        files: Option<Arc<LogFiles>>,
        from: u64,
        end: Result<u64, LogFault>,
    ) -> LogReader {
        let source = match &files {
            Some(files) => Source::Files { segments: files.segments(), window: Window::default() },
            None => Source::Ring(shared.clone()),
        };
        let first = files.as_ref().map_or(shared.opened_at, |f| f.first());
        let next = if from == 0 { first } else { from };
        let fault = match &end {
            Err(fault) => Some(fault.clone()),
            Ok(_) => files.filter(|_| next < first).map(|f| LogFault::Missing {
                file: f.dir.join(segment::name(next)),
                why: format!("reading begins at {next}, the oldest segment at {first}"),
            }),
        };
        LogReader { source, next, end: end.unwrap_or(0), fault }
    }

    fn read(&mut self) -> Result<Record, LogFault> {
        match &mut self.source {
            Source::Files { segments, window } => {
                // Later segments win: what an earlier one has at these positions was cut off.
                let at = segments.partition_point(|s| s.start <= self.next);
                let segment = &segments[at - 1];
                match window.frame(segment, self.next)? {
                    Some(frame) => Ok(record(self.next, &frame)),
                    None => Err(segment.corrupt(self.next, "a record fails its check")),
                }
            }
            Source::Ring(shared) => from_ring(shared, self.next),
        }
    }
}

fn record(lsn: u64, frame: &frame::Frame<'_>) -> Record {
    let span = Span { start: Lsn(lsn), end: Lsn(lsn + frame.bytes as u64) };
    (span, frame.header, frame.body.to_vec())
}

fn from_ring(shared: &Shared, lsn: u64) -> Result<Record, LogFault> {
    let tail = shared.tail.lock();
    let forgotten = LogFault::Forgotten { lsn };
    if lsn + (shared.ring.bytes() as u64) < tail.next {
        return Err(forgotten);
    }
    // A record has at most half a ring.
    let until = tail.next.min(lsn + shared.ring.bytes() as u64 / 2);
    // SAFETY: the append lock is held, so nobody writes to the ring.
    let pieces = unsafe { shared.ring.pieces(lsn, until) };
    let bytes = frame::prefix(pieces);
    drop(tail);
    frame::parse(&bytes, lsn, shared.life).map(|f| record(lsn, &f)).ok_or(forgotten)
}

impl Iterator for LogReader {
    type Item = Result<Record, LogFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(fault) = self.fault.take() {
            self.next = self.end;
            return Some(Err(fault));
        }
        if self.next >= self.end {
            return None;
        }
        let read = self.read();
        self.next = read.as_ref().map_or(self.end, |(span, ..)| span.end.0);
        Some(read)
    }
}
