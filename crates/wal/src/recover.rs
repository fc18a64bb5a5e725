//! Opening a log: it finds the end, and ensures that bytes past that end are never read.
//!
//! Only the last segment can be incomplete (see [`crate::segment`]). Its first frame that fails its
//! check is the torn tail, unless a later frame shows that this frame was on the device already:
//! then it was damaged. The log continues in a *new* segment, of a new life, that starts at the end
//! found. Readers follow the later segment, so the rest of the old one past that point is never
//! read again.
//!
//! ```text
//! old segment, life 7:   rec rec rec | torn ....
//! new segment, life 8:               | frames moved from the ring, then new records
//!                                    ^ end found
//! ```
//!
//! In async mode the ring file holds the records that the flusher had not written when the process
//! died. They are moved to the new segment. Only there extents may have an unfilled rest.

use crate::LogFault;
use crate::files::{LogFiles, RING, WHOSE, Whose};
use crate::frame::{self, HEAD, Item};
use crate::options::LogOptions;
use crate::segment::{FIRST_LSN, Segment, Window, segments};
use std::path::{Path, PathBuf};
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
    options.archive.iter().try_for_each(|archive| files.create_dir_all(archive))?;
    let segments = segments(&*files, dir)?;
    let life = world::entropy() | 1;
    let (mut start, mut moved) = (FIRST_LSN, Vec::new());
    if let Some(last) = segments.last() {
        let ring = OldRing::read(&*files, dir, last)?;
        let intact = end_of(last, ring.as_ref())?;
        start = intact.end;
        bring_to_device(last, intact.stable, intact.end)?;
        if let Some(ring) = ring {
            moved = ring.rest(intact, last.life, life)?;
        }
    }
    let log_files = Arc::new(LogFiles::new(files, dir, options, segments));
    let end = start + moved.len() as u64;
    let current = log_files.begin_with(start, life, end, &moved)?;
    let segment_end = end.max(start + options.segment_bytes);
    Ok(Recovered { files: log_files, current, life, end, segment_end })
}

/// Writes the tail of the last segment again and syncs it. A process that died may have left its
/// last writes in the kernel only. If it died of a failed sync, the kernel even counts these writes
/// as done, and another sync would do nothing.
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

/// How far the intact frames of the last segment go.
#[derive(Clone, Copy)]
struct Intact {
    end: u64,
    /// Up to here they are certainly on the device.
    stable: u64,
    /// End of the last extent that has a mark. A hole before it is the part that the extent's owner
    /// did not fill.
    reserved: u64,
}

/// Finds the end of the intact frames of the last segment.
fn end_of(last: &Segment, ring: Option<&OldRing>) -> Result<Intact, LogFault> {
    let mut window = Window::default();
    let mut intact = Intact { end: last.start, stable: last.start, reserved: 0 };
    while let Some(item) = window.item(last, intact.end)? {
        match &item {
            Item::Mark(bytes) => intact.reserved = intact.end + bytes,
            Item::Record(frame) => intact.stable = intact.stable.max(frame.stable_before.unwrap_or(0)),
            Item::Pad(_) => {}
        }
        intact.end += item.bytes() as u64;
    }
    // All writes of the dead process are there, unless the machine went down too.
    let nothing_lost = ring.is_some_and(|ring| ring.whole);
    let mut at = intact.end + 8;
    while let Some(candidate) = window.next_candidate(last, at)? {
        let damaged = match window.item(last, candidate)? {
            Some(Item::Record(frame)) => nothing_lost || frame.stable_before.is_some_and(|s| s > intact.end),
            Some(Item::Pad(_) | Item::Mark(_)) => nothing_lost,
            None => false,
        };
        if damaged {
            return Err(
                last.corrupt(intact.end, "a record fails its check, though it was written in full once")
            );
        }
        at = candidate + 8;
    }
    Ok(intact)
}

/// The ring that a dead process in async mode shared with the kernel.
struct OldRing {
    bytes: Vec<u8>,
    path: PathBuf,
    /// The machine has not been down since, so each store of the process is in the ring.
    whole: bool,
}

impl OldRing {
    /// The ring of the life of `last`, if there is one.
    fn read(files: &dyn Files, dir: &Path, last: &Segment) -> Result<Option<OldRing>, LogFault> {
        if !files.list(dir)?.iter().any(|n| n == RING) {
            return Ok(None);
        }
        let path = dir.join(RING);
        let file = files.open(&path, Open::Read)?;
        let size = file.len()?.saturating_sub(WHOSE as u64);
        if !size.is_power_of_two() || size > 1 << 31 {
            return Ok(None);
        }
        let mut bytes = vec![0; size as usize + WHOSE];
        if file.read_at(&mut bytes, 0)? < bytes.len() {
            return Ok(None);
        }
        let whose = Whose::decode(&bytes[size as usize..]);
        let Some(whose) = whose.filter(|w| w.life == last.life) else { return Ok(None) };
        bytes.truncate(size as usize);
        Ok(Some(OldRing { bytes, path, whole: whose.boot == files.boot() && whose.boot != 0 }))
    }

    /// The frames that follow the segment's last one, at their places and sealed for the new life,
    /// with pads where there are none.
    ///
    /// A hole is an unfinished or unused part of an extent. It is skipped if the ring is whole.
    /// After a power cut a hole may also be a lost record on which later records depend, so the log
    /// ends before it.
    fn rest(mut self, intact: Intact, old: u64, new: u64) -> Result<Vec<u8>, LogFault> {
        let size = self.bytes.len();
        self.bytes.rotate_left((intact.end % size as u64) as usize);
        let (mut reserved, mut at, mut out) = (intact.reserved, 0, Vec::new());
        while let Some(rest) = self.bytes.get(at..) {
            let lsn = intact.end + at as u64;
            let Some(item) = frame::item(rest, lsn, old).filter(|item| item.bytes() <= rest.len()) else {
                let hole = reserved.saturating_sub(lsn);
                if !self.whole || hole < HEAD as u64 || hole > rest.len() as u64 {
                    break;
                }
                at += self.unfilled(at, hole as usize, lsn, old)?;
                continue;
            };
            pad_up_to(&mut out, at, intact.end, new);
            match item {
                Item::Record(frame) => {
                    out.extend_from_slice(&rest[..frame.bytes]);
                    frame::reseal(&mut out[at..], lsn, new);
                    at += frame.bytes;
                }
                Item::Mark(bytes) => {
                    reserved = lsn + bytes;
                    at += HEAD;
                }
                Item::Pad(bytes) => at += bytes,
            }
        }
        if self.whole {
            // The unused rest of the last extent counts too: records may depend on all of it.
            pad_up_to(&mut out, at, intact.end, new);
        }
        Ok(out)
    }

    /// How many of the `bytes` from `at` to the end of an extent hold no record. The owner fills
    /// the extent front to back, so there are three cases:
    ///
    /// - no frame follows: all the bytes;
    /// - the pad that closed the extent while its owner was copying a record follows: the bytes
    ///   before the pad;
    /// - another frame follows: the hole was a record that is damaged, an error.
    fn unfilled(&self, at: usize, bytes: usize, lsn: u64, life: u64) -> Result<usize, LogFault> {
        let item = |n: &usize| frame::item(&self.bytes[at + n..at + bytes], lsn + *n as u64, life);
        let behind = (8..=bytes - HEAD).step_by(8).find_map(|n| Some((n, item(&n)?)));
        match behind {
            None => Ok(bytes),
            Some((n, Item::Pad(rest))) if n + rest == bytes => Ok(n),
            Some(_) => Err(LogFault::Corrupt {
                file: self.path.clone(),
                offset: lsn % self.bytes.len() as u64,
                what: "a record fails its check, though there are whole ones behind it".to_owned(),
            }),
        }
    }
}

/// Extends `out`, which begins at position `start`, to `bytes` by a pad.
fn pad_up_to(out: &mut Vec<u8>, bytes: usize, start: u64, life: u64) {
    let hole = bytes - out.len();
    if hole > 0 {
        out.extend(frame::pad(start + out.len() as u64, hole as u64, life));
        out.resize(bytes, 0);
    }
}
