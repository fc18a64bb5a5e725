//! The log's folder: its list of segments, and how a new segment begins.

use crate::LogFault;
use crate::options::LogOptions;
use crate::ring::Ring;
use crate::segment::{self, FIRST_LSN, HEADER, Segment};
use base::{Durability, crc32c};
use latch::{Rank, RankedGuard, RankedMutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use world::{File, Files, Open};

/// Name of the file that becomes the next segment. All of it is written in advance, so a later sync
/// changes no metadata.
const SPARE: &str = "spare-segment";
/// Name of a segment while it is copied to the archive.
const INCOMING: &str = "incoming-segment";
/// Name of the ring of async mode, shared with the kernel. A trailer after the ring's bytes
/// identifies the writer.
pub(crate) const RING: &str = "ring";
const RING_MAGIC: &[u8; 8] = b"ATOLLRNG";
/// Bytes after the ring: one page, so that the mapping ends at a page boundary.
pub(crate) const WHOSE: usize = 4096;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Access rules: the flusher begins segments; any thread drops old ones or reads the list. Dropping
/// keeps the last segment.
pub(crate) struct LogFiles {
    pub files: Arc<dyn Files>,
    pub dir: PathBuf,
    pub options: LogOptions,
    /// The segments in order, the current one last.
    segments: RankedMutex<Vec<Segment>>,
    /// The next segment's file. Held while the file is created, so that the flusher waits for it
    /// and does not create a second one.
    spare: RankedMutex<Option<Arc<dyn File>>>,
    /// Changes may begin below this position, in front of the last quarter segment on the device:
    /// that is left for commits and rollbacks. Written while `spare` is held.
    room_to: AtomicU64,
    /// Whether [`LogFiles::has_room`] may be anything but `Some(true)`: a flag that workers read
    /// often and that changes a few times a segment.
    tight: AtomicBool,
    /// Whether the device had no room for the next segment when it was last tried. Written while
    /// `spare` is held.
    short: AtomicBool,
}

/// Identity of the writer of a ring.
///
/// ```text
/// after the ring:  0 "ATOLLRNG"   8 life u64   16 boot u64   24 crc32c u32 (of bytes 0..24)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Whose {
    pub life: u64,
    /// Boot id of the machine ([`world::boot`]). While it stays the same, no byte of the ring is
    /// lost, even if the process dies.
    pub boot: u64,
}

impl Whose {
    fn encode(self) -> [u8; 28] {
        let mut out = [0; 28];
        out[..8].copy_from_slice(RING_MAGIC);
        out[8..16].copy_from_slice(&self.life.to_le_bytes());
        out[16..24].copy_from_slice(&self.boot.to_le_bytes());
        let sum = crc32c(&out[..24]);
        out[24..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `None` if these bytes are not a valid trailer.
    pub fn decode(bytes: &[u8]) -> Option<Whose> {
        let bytes = bytes.get(..28)?;
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let good = &bytes[..8] == RING_MAGIC && bytes[24..] == crc32c(&bytes[..24]).to_le_bytes();
        good.then(|| Whose { life: word(8), boot: word(16) })
    }
}

impl LogFiles {
    pub fn new(files: Arc<dyn Files>, dir: &Path, options: &LogOptions, segments: Vec<Segment>) -> LogFiles {
        LogFiles {
            files,
            dir: dir.to_owned(),
            options: options.clone(),
            segments: RankedMutex::new(Rank::LogSegments, segments),
            spare: RankedMutex::new(Rank::LogSpare, None),
            room_to: AtomicU64::new(0),
            tight: AtomicBool::new(true),
            short: AtomicBool::new(false),
        }
    }

    /// To be called after positions were reserved up to `end`.
    #[inline]
    pub fn reserved(&self, end: u64) {
        if end > self.room_to.load(Ordering::Relaxed) {
            self.tight.store(true, Ordering::Relaxed);
        }
    }

    /// Whether [`LogFiles::has_room`] must be asked before a change begins.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Relaxed)
    }

    /// Whether changes may begin while the next record is placed at `end`: `None` as long as the
    /// next segment is not there and its creation has not failed.
    pub fn has_room(&self, end: u64) -> Option<bool> {
        if self.is_short() {
            Some(false)
        } else if end > self.room_to.load(Ordering::Relaxed) {
            None
        } else {
            // A flag that `reserved` sets now may be lost; the next reservation sets it again.
            self.tight.store(false, Ordering::SeqCst);
            if self.short.load(Ordering::SeqCst) {
                self.tight.store(true, Ordering::Relaxed);
            }
            Some(true)
        }
    }

    /// Whether the device had no room for the next segment when it was last tried.
    #[inline]
    pub fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Enters the room on the device: that many segments from the position on, or too little for
    /// another one.
    fn enter_room(&self, _spare: &RankedGuard<'_, Option<Arc<dyn File>>>, room: Option<(u64, u64)>) {
        if let Some((start, segments)) = room {
            let bytes = self.options.segment_bytes;
            self.room_to.store(start + segments * bytes - bytes / 4, Ordering::Relaxed);
        }
        self.short.store(room.is_none(), Ordering::SeqCst);
        self.tight.store(true, Ordering::SeqCst);
    }

    pub fn first(&self) -> u64 {
        self.segments.lock().first().map_or(FIRST_LSN, |s| s.start)
    }

    pub fn segments(&self) -> Vec<Segment> {
        self.segments.lock().clone()
    }

    /// Creates the ring for this opening and removes an old one. Call it when no byte of the old
    /// ring is needed.
    pub fn ring(&self, life: u64) -> Result<Ring, LogFault> {
        let bytes = self.options.buffer_bytes;
        let path = self.dir.join(RING);
        if self.files.list(&self.dir)?.iter().any(|n| n == RING) {
            self.files.remove(&path)?;
        }
        let shared = match self.options.durability {
            Durability::Async => self.files.share(&path, bytes + WHOSE)?,
            Durability::Sync | Durability::Replicated | Durability::Memory => None,
        };
        let Some(memory) = shared else { return Ok(Ring::own(bytes)) };
        let file = self.files.open(&path, Open::ReadWrite)?;
        file.write_all_at(&Whose { life, boot: self.files.boot() }.encode(), bytes as u64)?;
        Ok(Ring::shared(memory, bytes))
    }

    /// Creates the file of a segment. Calls `has_room` once the device holds all of it.
    fn make_spare(&self, has_room: impl FnOnce()) -> Result<Arc<dyn File>, LogFault> {
        let bytes = HEADER + self.options.segment_bytes;
        let file = self.files.open(&self.dir.join(SPARE), Open::Create)?;
        file.allocate(bytes)?;
        has_room();
        for at in (0..bytes).step_by(ZEROS.len()) {
            let n = (bytes - at).min(ZEROS.len() as u64) as usize;
            file.write_all_at(&ZEROS[..n], at)?;
        }
        file.sync()?;
        Ok(file)
    }

    /// Creates the file of the next segment ahead of need; [`LogFiles::has_room`] tells whether the
    /// device had room for it. Any other error is dropped here; [`LogFiles::begin`] meets and
    /// reports it.
    pub fn prepare(&self) {
        let mut spare = self.spare.lock();
        let start = self.segments.lock().last().map_or(FIRST_LSN, |s| s.start);
        if spare.is_some() {
            return;
        }
        // Filling takes longer than changes should wait.
        match self.make_spare(|| self.enter_room(&spare, Some((start, 2)))) {
            Ok(file) => *spare = Some(file),
            Err(fault) if fault.is_want_of_room() => {
                // The part of the file that there was room for is of no use, and others may need
                // that room.
                let _ = self.files.remove(&self.dir.join(SPARE));
                self.enter_room(&spare, None);
            }
            Err(_) => self.enter_room(&spare, Some((start, 2))),
        }
    }

    /// Begins a segment at `start`, in place of an empty one that starts there. Durable when it
    /// returns.
    pub fn begin(&self, start: u64, life: u64) -> Result<Segment, LogFault> {
        self.begin_with(start, life, 0, &[])
    }

    /// As [`LogFiles::begin`], for a new life: with its first frames, and the end of the log that
    /// this life found.
    pub fn begin_with(
        &self,
        start: u64,
        life: u64,
        inherited: u64,
        frames: &[u8],
    ) -> Result<Segment, LogFault> {
        // Held to the end: until the rename, this file has the name under which the next spare is
        // created.
        let mut spare = self.spare.lock();
        let file = spare.take().map_or_else(|| self.make_spare(|| {}), Ok)?;
        let mut segments = self.segments.lock();
        segments.retain(|s| s.start < start);
        let previous = segments.last().map_or(0, |s| s.start);
        file.write_all_at(&segment::header(start, previous, life, inherited), 0)?;
        file.write_all_at(frames, HEADER)?;
        file.sync()?;
        let path = self.dir.join(segment::name(start));
        self.files.rename(&self.dir.join(SPARE), &path)?;
        let begun = Segment { start, previous, life, inherited, path, file };
        segments.push(begun.clone());
        self.enter_room(&spare, Some((start, 1)));
        Ok(begun)
    }

    /// Removes (or archives) the segments that end at or before `lsn`, oldest first. Each removal
    /// is made durable before the next, so that a crash leaves no gap: unsynced removals from a
    /// folder may reach the device in any order.
    pub fn truncate_before(&self, lsn: u64) -> Result<(), LogFault> {
        let mut segments = self.segments.lock();
        while segments.len() > 1 && segments[1].start <= lsn {
            self.retire(&segments[0])?;
            segments.remove(0);
            self.files.sync_dir(&self.dir)?;
        }
        Ok(())
    }

    fn retire(&self, segment: &Segment) -> Result<(), LogFault> {
        if let Some(archive) = &self.options.archive {
            let name = segment::name(segment.start);
            // Copied, not renamed: an archive is usually on another device.
            let incoming = archive.join(INCOMING);
            self.copy(&*segment.file, &incoming)?;
            self.files.rename(&incoming, &archive.join(name))?;
        }
        Ok(self.files.remove(&segment.path)?)
    }

    /// Copies a segment, durably.
    fn copy(&self, from: &dyn File, to: &Path) -> Result<(), LogFault> {
        let to = self.files.open(to, Open::Create)?;
        to.set_len(0)?;
        let mut block = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let read = from.read_at(&mut block, at)?;
            if read == 0 {
                return Ok(to.sync()?);
            }
            to.write_all_at(&block[..read], at)?;
            at += read as u64;
        }
    }

    /// The segments from the one that contains position `lsn` on, including archived ones if
    /// needed.
    ///
    /// # Errors
    /// No such segment, or a segment missing in between.
    pub fn segments_from(&self, lsn: u64) -> Result<Vec<Segment>, LogFault> {
        let kept = self.segments();
        let first = kept.first().map_or(FIRST_LSN, |s| s.start);
        if lsn >= first {
            return Ok(kept);
        }
        let mut all = match &self.options.archive {
            Some(archive) => segment::segments(&*self.files, archive)?,
            None => Vec::new(),
        };
        // A crash between archiving and removing leaves a segment in both folders.
        all.retain(|s| s.start < first);
        let oldest = all.first().map_or(first, |s| s.start);
        let missing =
            |at: u64, why: String| LogFault::Missing { file: self.dir.join(segment::name(at)), why };
        if lsn < oldest {
            return Err(missing(lsn, format!("reading begins at {lsn}, the oldest segment at {oldest}")));
        }
        match (all.last(), kept.first()) {
            (Some(last), Some(next)) if last.start != next.previous => Err(missing(
                next.previous,
                format!("it belongs between the archive and {}", segment::name(next.start)),
            )),
            _ => {
                all.extend(kept);
                Ok(all)
            }
        }
    }

    /// Start of the oldest archived segment.
    pub fn archived_from(&self) -> Result<Option<u64>, LogFault> {
        let Some(archive) = &self.options.archive else { return Ok(None) };
        Ok(self.files.list(archive)?.iter().filter_map(|name| segment::start_of(name)).min())
    }
}
