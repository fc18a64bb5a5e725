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
        let first = files.as_ref().map_or(shared.opened_at, |f| f.first());
        let next = if from == 0 { first } else { from };
        let segments = files.map(|files| files.segments_from(next));
        let fault = match (&end, &segments) {
            (Err(fault), _) | (_, Some(Err(fault))) => Some(fault.clone()),
            _ => None,
        };
        let source = match segments {
            Some(segments) => {
                Source::Files { segments: segments.unwrap_or_default(), window: Window::default() }
            }
            None => Source::Ring(shared.clone()),
        };
        LogReader { source, next, end: end.unwrap_or(0), fault }
    }

    /// What lies at the next position: a record, or nothing up to another position.
    fn read(&mut self) -> Result<Found, LogFault> {
        match &mut self.source {
            Source::Files { segments, window } => {
                // Later segments win: what an earlier one has at these positions was cut off.
                let at = segments.partition_point(|s| s.start <= self.next);
                let segment = &segments[at - 1];
                match window.item(segment, self.next)? {
                    Some(item) => Ok(found(self.next, &item)),
                    None => Err(segment.corrupt(self.next, "a record fails its check")),
                }
            }
            Source::Ring(shared) => from_ring(shared, self.next, self.end),
        }
    }
}

enum Found {
    Record(Record),
    Nothing { until: u64 },
}

fn found(lsn: u64, item: &Item<'_>) -> Found {
    let end = lsn + item.bytes() as u64;
    match item {
        Item::Record(frame) => {
            Found::Record((Span { start: Lsn(lsn), end: Lsn(end) }, frame.header, frame.body.to_vec()))
        }
        Item::Pad(_) | Item::Mark(_) => Found::Nothing { until: end },
    }
}

fn from_ring(shared: &Shared, lsn: u64, end: u64) -> Result<Found, LogFault> {
    let size = shared.ring.bytes() as u64;
    let bytes = shared.inserter.held(|reserved| {
        // A record has at most half a ring.
        let until = end.min(lsn + size / 2);
        // SAFETY: below `end` all is whole and its owners are gone, and what overlays it in the ring would have been
        // reserved, which nobody can while the shared end is held.
        (lsn + size >= reserved).then(|| frame::prefix(unsafe { shared.ring.pieces(lsn, until) }))
    });
    let item = bytes.as_deref().and_then(|bytes| frame::item(bytes, lsn, shared.life));
    item.map(|item| found(lsn, &item)).ok_or(LogFault::Forgotten { lsn })
}

impl Iterator for LogReader {
    type Item = Result<Record, LogFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(fault) = self.fault.take() {
            self.next = self.end;
            return Some(Err(fault));
        }
        while self.next < self.end {
            match self.read() {
                Ok(Found::Nothing { until }) => self.next = until,
                Ok(Found::Record(record)) => {
                    self.next = record.0.end.0;
                    return Some(Ok(record));
                }
                Err(fault) => {
                    self.next = self.end;
                    return Some(Err(fault));
                }
            }
        }
        None
    }
}
