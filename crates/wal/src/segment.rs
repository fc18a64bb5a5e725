//! One segment file: a header block, then frames.
//!
//! ```text
//!  0 "ATOLLLOG"   8 format u32   12 crc32c u32 (of bytes 16..48)   16 start lsn u64
//! 24 previous segment's start u64   32 life u64   40 inherited u64
//!    zeros to 4096, then the frame at lsn `start`
//! ```
//!
//! The file is named `log-` and its start in 16 hex digits. Position P lies at byte 4096 + P -
//! start. A segment is renamed to its name after its header is on the device, and only once the
//! segment before it is on the device in full. So a segment that has a successor is complete, and
//! only the last one can have a torn tail.
//!
//! The first segment of a life stores in `inherited` the end of the log that the life found. It is
//! at or past `start`, since the segment may begin with records from the ring of a dead process. An
//! earlier record that depends on a position past `inherited` never counts. In other segments
//! `inherited` is 0.

use crate::LogFault;
use crate::frame::{self, Item};
use base::crc32c;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::{File, Files, Open};

const MAGIC: &[u8; 8] = b"ATOLLLOG";
const FORMAT: u32 = 3;
/// Bytes before the first frame: one block, so that the header and a frame never share one.
pub(crate) const HEADER: u64 = 4096;
/// Position of the first record of a new log. Not 0, which means "none".
pub(crate) const FIRST_LSN: u64 = 64;
/// Bytes that a reader fetches at a time.
const WINDOW: usize = 1 << 20;

#[derive(Clone)]
pub(crate) struct Segment {
    /// Position of the first frame.
    pub start: u64,
    /// Start of the segment before, 0 for the first segment of the log.
    pub previous: u64,
    /// Life of the log in which its frames were written.
    pub life: u64,
    /// In the first segment of a life, the end of the log that the life found; else 0.
    pub inherited: u64,
    pub path: PathBuf,
    pub file: Arc<dyn File>,
}

pub(crate) fn name(start: u64) -> String {
    format!("log-{start:016x}")
}

/// The start of the segment called `name`; `None` if that is not the name of a segment.
pub(crate) fn start_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("log-").filter(|d| d.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

pub(crate) fn header(start: u64, previous: u64, life: u64, inherited: u64) -> Vec<u8> {
    let mut block = vec![0; HEADER as usize];
    block[..8].copy_from_slice(MAGIC);
    block[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    block[16..24].copy_from_slice(&start.to_le_bytes());
    block[24..32].copy_from_slice(&previous.to_le_bytes());
    block[32..40].copy_from_slice(&life.to_le_bytes());
    block[40..48].copy_from_slice(&inherited.to_le_bytes());
    let sum = crc32c(&block[16..48]);
    block[12..16].copy_from_slice(&sum.to_le_bytes());
    block
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Segment {
    /// Reads and checks the header of a segment that starts at `start` according to its name.
    pub fn read(path: &Path, file: Arc<dyn File>, start: u64) -> Result<Segment, LogFault> {
        let corrupt = |offset: u64, what: &str| LogFault::Corrupt {
            file: path.to_owned(),
            offset,
            what: what.to_owned(),
        };
        let mut block = [0u8; 48];
        if file.read_at(&mut block, 0)? < block.len() || &block[..8] != MAGIC {
            return Err(corrupt(0, "this is not the start of a log segment"));
        }
        let found = u32::from_le_bytes(block[8..12].try_into().expect("four bytes"));
        if found != FORMAT {
            return Err(LogFault::Version { file: path.to_owned(), found, expected: FORMAT });
        }
        if u32::from_le_bytes(block[12..16].try_into().expect("four bytes")) != crc32c(&block[16..48]) {
            return Err(corrupt(12, "the segment's header fails its checksum"));
        }
        if u64_at(&block, 16) != start {
            return Err(corrupt(16, "the header is another segment's: was the file renamed?"));
        }
        let (previous, life, inherited) = (u64_at(&block, 24), u64_at(&block, 32), u64_at(&block, 40));
        Ok(Segment { start, previous, life, inherited, path: path.to_owned(), file })
    }

    /// Offset of position `lsn` in the file.
    pub fn offset(&self, lsn: u64) -> u64 {
        HEADER + (lsn - self.start)
    }

    pub fn corrupt(&self, lsn: u64, what: &str) -> LogFault {
        LogFault::Corrupt { file: self.path.clone(), offset: self.offset(lsn), what: what.to_owned() }
    }
}

/// The folder's segments in order. Each has a valid header, and none is missing in between.
pub(crate) fn segments(files: &dyn Files, dir: &Path) -> Result<Vec<Segment>, LogFault> {
    let mut segments: Vec<Segment> = Vec::new();
    for start in files.list(dir)?.iter().filter_map(|n| start_of(n)) {
        let path = dir.join(name(start));
        let segment = Segment::read(&path, files.open(&path, Open::ReadWrite)?, start)?;
        if let Some(before) = segments.last().filter(|b| b.start != segment.previous) {
            return Err(LogFault::Missing {
                file: dir.join(name(segment.previous)),
                why: format!("it belongs between {} and {}", name(before.start), name(start)),
            });
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// A run of the log, read ahead.
#[derive(Default)]
pub(crate) struct Window {
    bytes: Vec<u8>,
    /// Position of the first byte.
    at: u64,
    /// Start of the segment from which the last bytes came; 0 if there are none.
    segment: u64,
    keeping: Keeping,
}

/// Whether bytes stay after the reader has passed them.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Keeping {
    #[default]
    Nothing,
    /// They stay, across segments.
    All,
}

impl Window {
    /// From now on all bytes that are read stay, about `expected` bytes, until [`Window::take`].
    pub fn keep(&mut self, expected: usize) {
        let mut bytes = Vec::with_capacity(expected + WINDOW);
        world::prefer_huge_pages(bytes.spare_capacity_mut());
        *self = Window { bytes, keeping: Keeping::All, ..Window::default() };
    }

    /// Number of bytes that are kept.
    pub fn kept(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the kept bytes and the position of the first.
    pub fn take(&mut self) -> (u64, Vec<u8>) {
        self.segment = 0;
        (self.at, std::mem::take(&mut self.bytes))
    }

    /// The bytes of `segment` from `lsn` on: at least `want` of them unless the file ends before.
    /// If the window keeps bytes, the caller asks for ascending positions.
    #[inline]
    pub fn bytes(&mut self, segment: &Segment, lsn: u64, want: usize) -> Result<&[u8], LogFault> {
        let have = (self.at + self.bytes.len() as u64).saturating_sub(lsn);
        if self.segment != segment.start || lsn < self.at || have < want as u64 {
            self.fetch(segment, lsn, want)?;
        }
        Ok(&self.bytes[(lsn - self.at) as usize..])
    }

    fn fetch(&mut self, segment: &Segment, lsn: u64, want: usize) -> Result<(), LogFault> {
        self.segment = 0;
        if self.keeping == Keeping::Nothing || self.bytes.is_empty() {
            self.at = lsn;
        }
        // Bytes that were read from `lsn` on before may be the cut tail of the segment before, or
        // half a frame.
        let from = (lsn - self.at) as usize;
        self.bytes.resize(from, 0);
        self.bytes.resize(from + want.max(WINDOW), 0);
        let read = segment.file.read_at(&mut self.bytes[from..], segment.offset(lsn))?;
        self.bytes.truncate(from + read);
        self.segment = segment.start;
        Ok(())
    }

    /// The frame of any kind at `lsn`, `None` unless it is intact.
    pub fn item(&mut self, segment: &Segment, lsn: u64) -> Result<Option<Item<'_>>, LogFault> {
        Ok(frame::item(self.frame(segment, lsn)?, lsn, segment.life))
    }

    /// All bytes of a possible frame at `lsn`; none if the bytes there cannot be a frame.
    #[inline]
    pub fn frame(&mut self, segment: &Segment, lsn: u64) -> Result<&[u8], LogFault> {
        let head = self.bytes(segment, lsn, 16)?;
        if head.len() < 16 || u64_at(head, 8) != lsn {
            return Ok(&[]);
        }
        let length = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let bytes = frame::span(length);
        // A length that leads past the end of the file is not worth an allocation.
        if bytes > head.len() && segment.offset(lsn) + bytes as u64 > segment.file.len()? {
            return Ok(&[]);
        }
        self.bytes(segment, lsn, bytes)
    }

    /// The first position from `lsn` (a multiple of 8) on at which the bytes look like a frame of
    /// that position.
    pub fn next_candidate(&mut self, segment: &Segment, mut lsn: u64) -> Result<Option<u64>, LogFault> {
        loop {
            let bytes = self.bytes(segment, lsn, 16)?;
            if bytes.len() < 16 {
                return Ok(None);
            }
            let places = bytes[8..].chunks_exact(8);
            let steps = places.len() as u64;
            let fits = |(n, place): (u64, &[u8])| u64_at(place, 0) == lsn + n * 8;
            if let Some(n) = (0..).zip(places).position(fits) {
                return Ok(Some(lsn + n as u64 * 8));
            }
            lsn += steps * 8;
        }
    }
}
