//! Opening a log: where it ends, and making sure that nothing behind that end is ever read.
//!
//! Only the last segment can be incomplete (see [`crate::segment`]). Its first frame that fails its check is the
//! torn tail, unless a later frame knows that it was on the device already: then it was damaged. The log goes on
//! in a *new* segment, of a new life, that starts at the end found; readers follow the later segment, so what the
//! old one still has behind that point is dead for ever.
//!
//! In async mode the ring file holds what the flusher had not written when the process died; it is moved over.

use crate::LogFault;
use crate::files::{LogFiles, RING};
use crate::frame;
use crate::log::FIRST_LSN;
use crate::options::LogOptions;
use crate::segment::{self, Segment, Window};
use std::path::Path;
use std::sync::Arc;
use world::{Files, Open};

pub(crate) struct Recovered {
    pub files: Arc<LogFiles>,
    pub current: Segment,
    pub life: u64,
    pub end: u64,
    pub segment_end: u64,
}

pub(crate) fn recover(
    files: Arc<dyn Files>,
    dir: &Path,
    options: &LogOptions,
) -> Result<Recovered, LogFault> {
    files.create_dir_all(dir)?;
    let segments = segments(&*files, dir)?;
    let Extent { stable, end: start } = segments.last().map_or(Ok(Extent::NEW), extent_of)?;
    if let Some(last) = segments.last() {
        bring_to_device(last, stable, start)?;
    }
    let ring = segments.last().map_or(Ok(Vec::new()), |last| ring_rest(&*files, dir, last, start))?;
    let life = world::entropy() | 1;
    let log_files = Arc::new(LogFiles::new(files, dir, options, segments));
    let moved = reseal(&ring, start, life);
    let current = log_files.begin_with(start, life, &moved)?;
    let end = start + moved.len() as u64;
    let segment_end = end.max(start + options.segment_bytes);
    Ok(Recovered { files: log_files, current, life, end, segment_end })
}

/// The folder's segments, each with a good header, none missing in between.
fn segments(files: &dyn Files, dir: &Path) -> Result<Vec<Segment>, LogFault> {
    let mut segments: Vec<Segment> = Vec::new();
    for start in files.list(dir)?.iter().filter_map(|n| segment::start_of(n)) {
        let path = dir.join(segment::name(start));
        let segment = Segment::read(&path, files.open(&path, Open::ReadWrite)?, start)?;
        if let Some(before) = segments.last().filter(|b| b.start != segment.previous) {
            return Err(LogFault::Missing {
                file: dir.join(segment::name(segment.previous)),
                why: format!(
                    "it belongs between {} and {}",
                    segment::name(before.start),
                    segment::name(start)
                ),
            });
        }
        segments.push(segment);
    }
    Ok(segments)
}

/// A process that died may have left its last writes with the kernel only; if it died of a sync that failed, the kernel
/// even counts them as written, and syncing them again does nothing. So they are written again.
fn bring_to_device(last: &Segment, from: u64, to: u64) -> Result<(), LogFault> {
    let mut piece = vec![0; 1 << 16];
    let mut at = from;
    while at < to {
        let wanted = piece.len().min((to - at) as usize);
        let read = last.file.read_at(&mut piece[..wanted], last.offset(at))?;
        if read == 0 {
            break;
        }
        last.file.write_all_at(&piece[..read], last.offset(at))?;
        at += read as u64;
    }
    Ok(last.file.sync()?)
}

/// The last segment's intact frames.
struct Extent {
    /// Up to here they are on the device for sure.
    stable: u64,
    end: u64,
}

impl Extent {
    const NEW: Extent = Extent { stable: FIRST_LSN, end: FIRST_LSN };
}

fn extent_of(last: &Segment) -> Result<Extent, LogFault> {
    let mut window = Window::default();
    let (mut stable, mut end) = (last.start, last.start);
    while let Some(frame) = window.frame(last, end)? {
        stable = frame.stable_before.map_or(stable, |s| s.max(stable));
        end += frame.bytes as u64;
    }
    let mut at = end + 8;
    while let Some(candidate) = window.next_candidate(last, at)? {
        let stable = window.frame(last, candidate)?.and_then(|f| f.stable_before);
        if stable.is_some_and(|s| s > end) {
            return Err(last.corrupt(end, "a record fails its check, though it was written in full once"));
        }
        at = candidate + 8;
    }
    Ok(Extent { stable, end })
}

/// The frames that follow position `from` in the ring file of the life of `last`.
fn ring_rest(files: &dyn Files, dir: &Path, last: &Segment, from: u64) -> Result<Vec<u8>, LogFault> {
    if !files.list(dir)?.iter().any(|n| n == RING) {
        return Ok(Vec::new());
    }
    let file = files.open(&dir.join(RING), Open::Read)?;
    let size = file.len()?;
    if !size.is_power_of_two() || size > 1 << 32 {
        return Ok(Vec::new());
    }
    let mut ring = vec![0; size as usize];
    let read = file.read_at(&mut ring, 0)?;
    ring.truncate(read);
    ring.rotate_left((from % size) as usize % read.max(1));
    let mut end = 0;
    while let Some(frame) = frame::parse(&ring[end..], from + end as u64, last.life) {
        end += frame.bytes;
    }
    ring.truncate(end);
    Ok(ring)
}

/// The same frames at the same places, for a new life.
fn reseal(frames: &[u8], start: u64, life: u64) -> Vec<u8> {
    let mut out = frames.to_vec();
    let mut at = 0;
    while at < out.len() {
        at += frame::reseal(&mut out[at..], start + at as u64, life);
    }
    out
}
