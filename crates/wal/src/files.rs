//! The log's folder: which segments there are, and how one more begins.

use crate::options::{Durability, LogOptions};
use crate::ring::Ring;
use crate::segment::{self, HEADER, Segment};
use crate::{LogFault, log::FIRST_LSN};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use world::{File, Files, Open};

/// A file that will be the next segment: all written once, so that syncing it later changes no metadata.
const SPARE: &str = "spare-segment";
/// The ring of async mode, shared with the kernel.
pub(crate) const RING: &str = "ring";
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Who may do what: the flusher begins segments; anyone drops old ones or takes the list. Dropping keeps the last.
pub(crate) struct LogFiles {
    pub files: Arc<dyn Files>,
    pub dir: PathBuf,
    pub options: LogOptions,
    segments: Mutex<Vec<Segment>>,
    /// Held while the spare is made, so that the flusher waits for it rather than making a second one.
    spare: Mutex<Option<Arc<dyn File>>>,
}

/// The list and the spare are consistent between any two steps, so a panic elsewhere does not spoil them.
fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogFiles {
    pub fn new(files: Arc<dyn Files>, dir: &Path, options: &LogOptions, segments: Vec<Segment>) -> LogFiles {
        LogFiles {
            files,
            dir: dir.to_owned(),
            options: options.clone(),
            segments: Mutex::new(segments),
            spare: Mutex::new(None),
        }
    }

    pub fn first(&self) -> u64 {
        lock(&self.segments).first().map_or(FIRST_LSN, |s| s.start)
    }

    pub fn segments(&self) -> Vec<Segment> {
        lock(&self.segments).clone()
    }

    /// The ring for this opening; to be called when nothing in an old one is needed any more.
    pub fn ring(&self, options: &LogOptions) -> Result<Ring, LogFault> {
        let path = self.dir.join(RING);
        if self.files.list(&self.dir)?.iter().any(|n| n == RING) {
            self.files.remove(&path)?;
        }
        let shared = match options.durability {
            Durability::Async => self.files.share(&path, options.buffer_bytes)?,
            Durability::Sync | Durability::Memory => None,
        };
        Ok(shared.map_or_else(|| Ring::own(options.buffer_bytes), Ring::shared))
    }

    fn make_spare(&self) -> Result<Arc<dyn File>, LogFault> {
        let bytes = HEADER + self.options.segment_bytes;
        let file = self.files.open(&self.dir.join(SPARE), Open::Create)?;
        file.allocate(bytes)?;
        for at in (0..bytes).step_by(ZEROS.len()) {
            let n = (bytes - at).min(ZEROS.len() as u64) as usize;
            file.write_all_at(&ZEROS[..n], at)?;
        }
        file.sync()?;
        Ok(file)
    }

    /// Makes the next segment's file ahead of need. A failure is left to [`LogFiles::begin`] to meet and report.
    pub fn prepare(&self) {
        let mut spare = lock(&self.spare);
        if spare.is_none() {
            *spare = self.make_spare().ok();
        }
    }

    /// Begins a segment at `start`, replacing an empty one that starts there. Durable when it returns.
    pub fn begin(&self, start: u64, life: u64) -> Result<Segment, LogFault> {
        self.begin_with(start, life, &[])
    }

    /// As [`LogFiles::begin`], with the first frames.
    pub fn begin_with(&self, start: u64, life: u64, frames: &[u8]) -> Result<Segment, LogFault> {
        // Held to the end: a second spare must not be begun under the name that this one still has.
        let mut spare = lock(&self.spare);
        let file = spare.take().map_or_else(|| self.make_spare(), Ok)?;
        let mut segments = lock(&self.segments);
        segments.retain(|s| s.start < start);
        let previous = segments.last().map_or(0, |s| s.start);
        file.write_all_at(&segment::header(start, previous, life), 0)?;
        file.write_all_at(frames, HEADER)?;
        file.sync()?;
        let path = self.dir.join(segment::name(start));
        self.files.rename(&self.dir.join(SPARE), &path)?;
        let begun = Segment { start, previous, life, path, file };
        segments.push(begun.clone());
        Ok(begun)
    }

    /// Removes the segments that end at or before `lsn`, oldest first and each durably before the next, so that what
    /// remains after a crash has no hole: a folder's unsynced removals may reach the device in any order.
    pub fn truncate_before(&self, lsn: u64) -> Result<(), LogFault> {
        let mut segments = lock(&self.segments);
        while segments.len() > 1 && segments[1].start <= lsn {
            self.files.remove(&segments[0].path)?;
            segments.remove(0);
            self.files.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}
