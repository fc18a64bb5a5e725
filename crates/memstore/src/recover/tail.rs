//! The end of the log of the last life.
//!
//! A stream ends before its first block that is not whole. That is the normal trace of a crash
//! during a write. But if any block behind it says that the device once had more, it is damage. It
//! is also damage if the life's own checkpoint needs more of the stream: everything that the
//! checkpoint may have copied was on the device before the checkpoint was put in place.

use crate::log::{ALIGN, BlockHead, Blocks, CONTROL, Control, LogFault, Segment, segment_head};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::{File, Files, Open};

pub(crate) struct Tail {
    /// The last epoch to which all streams are complete.
    pub(crate) durable: u64,
    /// The number of blocks of each stream.
    pub(crate) blocks: Vec<u64>,
}

/// Opens a log file that has to exist, and checks its head.
pub(crate) fn open_segment(
    files: &dyn Files,
    dir: &Path,
    control: &Control,
    segment: &Segment,
) -> Result<(PathBuf, Arc<dyn File>), LogFault> {
    let path = dir.join(segment.name());
    let why = "the control file names it: it holds part of the log";
    let file = open(files, &path, why)?;
    segment_head(control, segment).expect(&path, &*file)?;
    Ok((path, file))
}

/// Opens a file that has to exist.
pub(crate) fn open(files: &dyn Files, path: &Path, why: &str) -> Result<Arc<dyn File>, LogFault> {
    files.open(path, Open::Read).map_err(|e| match e.kind() {
        ErrorKind::NotFound => LogFault::Missing { file: path.to_owned(), why: why.into() },
        _ => e.into(),
    })
}

impl Tail {
    /// Checks the heads of all log files, and finds the end of each stream of the last life.
    pub(crate) fn find(files: &dyn Files, dir: &Path, control: &Control) -> Result<Tail, LogFault> {
        for segment in &control.segments {
            open_segment(files, dir, control, segment)?;
        }
        let own = control.checkpoint.as_ref().filter(|checkpoint| checkpoint.life == control.life);
        let until = own.map_or(0, |checkpoint| checkpoint.until);
        let mut tail = Tail { durable: u64::MAX, blocks: Vec::new() };
        for stream in 0..control.streams {
            let is_own = |segment: &&Segment| (segment.life, segment.stream) == (control.life, stream);
            let own: Vec<Segment> = control.segments.iter().filter(is_own).copied().collect();
            let end = end_of_stream(files, dir, control, &own)?;
            if end.sealed < until {
                let what = format!("expected stream {stream} to go on: the checkpoint rests on more of it");
                return Err(LogFault::corrupt(&end.file, end.at, what));
            }
            tail.durable = tail.durable.min(end.sealed);
            tail.blocks.push(end.blocks);
        }
        // A life that has written nothing ends where it began.
        tail.durable = tail.durable.max(control.begun);
        Ok(tail)
    }
}

/// The end of a stream.
struct End {
    /// The last epoch to which it is complete.
    sealed: u64,
    /// The number of its blocks.
    blocks: u64,
    file: PathBuf,
    at: u64,
}

fn end_of_stream(
    files: &dyn Files,
    dir: &Path,
    control: &Control,
    segments: &[Segment],
) -> Result<End, LogFault> {
    let is_own =
        |head: &BlockHead, segment: &Segment| head.store == control.store && head.number == segment.number;
    for (i, segment) in segments.iter().enumerate().rev() {
        let (path, file) = open_segment(files, dir, control, segment)?;
        let mut blocks = Blocks::new(&file, &path)?;
        let mut last: Option<BlockHead> = None;
        while let Some((head, _)) = blocks.next(|head| {
            is_own(head, segment) && last.is_none_or(|last| last.sequence + 1 == head.sequence)
        })? {
            last = Some(head);
        }
        // Either its stream ended before this file was used, or the first block did not reach the
        // device.
        if last.is_none() && i > 0 {
            continue;
        }
        let end = last.map(|last| last.sequence + 1);
        let at = blocks.at;
        let of_this = |head: &BlockHead| is_own(head, segment).then(|| end.unwrap_or(head.first_of_file()));
        let what = format!("expected a block of stream {} that was on the device once", segment.stream);
        if goes_on(&mut blocks, at, of_this)?.is_some() {
            return Err(LogFault::corrupt(&path, at, what));
        }
        for segment in &segments[i + 1..] {
            let (later, file) = open_segment(files, dir, control, segment)?;
            // The log moves on from a file only when all its blocks are on the device, and there is
            // at least one.
            let of_later = |head: &BlockHead| is_own(head, segment).then(|| end.unwrap_or(0));
            if let Some(head) = goes_on(&mut Blocks::new(&file, &later)?, ALIGN as u64, of_later)? {
                let is_first = end == Some(head.first_of_file());
                let (path, at) = if is_first { (&later, ALIGN as u64) } else { (&path, at) };
                return Err(LogFault::corrupt(path, at, what));
            }
        }
        let (sealed, blocks) = last.map_or((0, 0), |last| (last.sealed, last.sequence + 1));
        return Ok(End { sealed, blocks, file: path, at });
    }
    Ok(End { sealed: 0, blocks: 0, file: dir.join(CONTROL), at: 0 })
}

/// Looks, from `at` on, for a block that says that the device once had the stream beyond its
/// present end. `end` gives that end for a head, or `None` if the head is not of the stream.
fn goes_on(
    blocks: &mut Blocks,
    mut at: u64,
    end: impl Fn(&BlockHead) -> Option<u64>,
) -> Result<Option<BlockHead>, LogFault> {
    while blocks.reaches(at) {
        if let Some(head) = blocks.head_at(at)?
            && end(&head).is_some_and(|end| head.stable > end)
        {
            return Ok(Some(head));
        }
        at += ALIGN as u64;
    }
    Ok(None)
}
