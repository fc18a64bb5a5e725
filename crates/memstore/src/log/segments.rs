//! The files of the log: making them ahead of need, writing old ones again, and removing those that
//! a checkpoint has made superfluous.

use super::block::{ALIGN, Aligned, FileHead, Kind};
use super::{Control, Log, LogFault, LogOptions, Segment, Shared};
use latch::{Rank, RankedMutex};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::{Caching, File, Files};

pub(crate) fn segment_head(control: &Control, segment: &Segment) -> FileHead {
    FileHead {
        store: control.store,
        kind: Kind::Log,
        part: u32::from(segment.stream),
        number: segment.number,
        life: segment.life,
        streams: u32::from(control.streams),
    }
}

/// A log file that is written, through the system's cache or past it.
pub(crate) struct LogFile {
    pub(crate) file: Arc<dyn File>,
    pub(crate) caching: Caching,
    /// A block that would end behind this offset goes to the next file.
    pub(crate) bytes: u64,
}

/// The largest size of a life's first log file: it is made while the caller waits for the store to
/// open.
const FIRST_BYTES: u64 = 4 << 20;

/// A log file's place in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentPlace {
    FirstOfLife,
    Later,
}

/// Makes a log file and fills it, so that later writes neither fail for lack of room nor change the
/// file system's metadata. Durable except for its name.
///
/// The file is filled past the system's cache, a piece at a time: a cache that gives everything to
/// the device at once keeps the log's own writes waiting. `between` is called between two pieces,
/// with the fraction of the file that is filled, and before the first one, once the device has room
/// for all of them.
pub(crate) fn make_segment(
    files: &dyn Files,
    dir: &Path,
    head: &FileHead,
    name: &str,
    (options, place): (&LogOptions, SegmentPlace),
    mut between: impl FnMut(f64),
) -> Result<LogFile, LogFault> {
    const PIECE: usize = 1 << 18;
    let bytes = match place {
        SegmentPlace::FirstOfLife => options.segment_bytes.min(FIRST_BYTES),
        SegmentPlace::Later => options.segment_bytes,
    };
    let (path, bytes) = (dir.join(name), bytes.next_multiple_of(ALIGN as u64));
    let (file, _) = files.open_direct(&path, world::Open::Create)?;
    file.set_len(0)?;
    file.allocate(bytes)?;
    between(0.0);
    let mut aligned = Aligned::default();
    let zeros = aligned.copy(&vec![0; PIECE.min(bytes as usize)]);
    for at in (0..bytes).step_by(PIECE) {
        let n = (bytes - at).min(PIECE as u64) as usize;
        file.write_all_at(&zeros[..n], at)?;
        if at + (n as u64) < bytes {
            between((at + n as u64) as f64 / bytes as f64);
        }
    }
    file.write_all_at(aligned.copy(&head.encode()), 0)?;
    file.sync()?;
    open_segment(files, &path, options, bytes)
}

/// Makes a log file from an old one that is not needed any more. Blocks of the old file have
/// another file number, so they are never taken for blocks of the new one.
pub(super) fn reuse_segment(
    files: &dyn Files,
    (from, to): (&Path, &Path),
    head: &FileHead,
    options: &LogOptions,
) -> Result<LogFile, LogFault> {
    let (file, _) = files.open_direct(from, world::Open::ReadWrite)?;
    file.write_all_at(Aligned::default().copy(&head.encode()), 0)?;
    file.sync()?;
    files.rename(from, to)?;
    open_segment(files, to, options, file.len()?)
}

/// Opens a log file. In mode `sync`, and `replicated`, past the system's cache, which would only be
/// one more copy.
fn open_segment(
    files: &dyn Files,
    path: &Path,
    options: &LogOptions,
    bytes: u64,
) -> Result<LogFile, LogFault> {
    if options.durability.is_synced() {
        let (file, caching) = files.open_direct(path, world::Open::ReadWrite)?;
        return Ok(LogFile { file, caching, bytes });
    }
    let file = files.open(path, world::Open::ReadWrite)?;
    Ok(LogFile { file, caching: Caching::System, bytes })
}

/// Log files that a checkpoint has made superfluous, kept to be written again: to fill a new one
/// costs the device as much as the log itself.
pub(crate) struct Spares(RankedMutex<Vec<PathBuf>>);

impl Spares {
    pub(super) fn new() -> Spares {
        Spares(RankedMutex::new(Rank::MemSpares, Vec::new()))
    }

    pub(super) fn take(&self) -> Option<PathBuf> {
        self.0.lock().pop()
    }

    /// Removes the files, to free their space.
    pub(super) fn clear(&self, files: &dyn Files) {
        for path in self.0.lock().drain(..) {
            // A file that cannot be removed here is removed at the next opening.
            let _ = files.remove(&path);
        }
    }
}

impl Log {
    /// Disposes of segments that are not needed any more. Keeps as many files as the log uses up
    /// between two checkpoints, and removes the others.
    pub(crate) fn discard(&self, segments: &[Segment]) {
        let Shared { files, dir, options, spares, .. } = &*self.shared;
        let most = options.checkpoint_bytes.div_ceil(options.segment_bytes) + 1;
        for segment in segments {
            let path = dir.join(segment.name());
            let is_whole =
                || files.open(&path, world::Open::Read)?.len().map(|len| len == options.segment_bytes);
            let spare = dir.join(format!("spare-{}", segment.number));
            let mut kept = spares.0.lock();
            match (kept.len() as u64) < most
                && is_whole().unwrap_or(false)
                && files.rename(&path, &spare).is_ok()
            {
                true => kept.push(spare),
                // A file that cannot be removed here is removed at the next opening.
                false => _ = files.remove(&path),
            }
        }
        self.forget(segments);
    }

    /// Removes the files that are kept for reuse, to free their space.
    pub(crate) fn discard_spares(&self) {
        self.shared.spares.clear(&*self.shared.files);
    }

    /// Removes these segments from the streams' lists.
    fn forget(&self, segments: &[Segment]) {
        for segment in segments {
            if let Some(stream) = self.shared.streams.get(usize::from(segment.stream)) {
                stream.forget(segment.number);
            }
        }
    }

    /// Segments with only records that are older than `epoch`.
    pub(crate) fn outlived(&self, epoch: u64) -> Vec<Segment> {
        let control = self.shared.control.lock();
        let is_over = |segment: &Segment| {
            segment.life < control.life
                || self.shared.streams[usize::from(segment.stream)].is_outlived(segment.number, epoch)
        };
        control.segments.iter().copied().filter(is_over).collect()
    }
}
