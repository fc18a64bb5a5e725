//! The next file of a stream: made ahead of need on a thread of its own, and tried again if the
//! device has no room for it.

use super::room::PAUSE_NS;
use super::stream::{Made, Making, Stream, Work};
use super::{ALIGN, LogFault, LogFile, Segment, SegmentPlace, Shared, make_segment, reuse_segment};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Stream {
    /// Has the next segment made, once an eighth of the current one is used, and again if the
    /// device had no room for it.
    pub(super) fn look_ahead(&self, shared: &Arc<Shared>, work: &mut Work) -> Result<(), LogFault> {
        let failed = work.next.take_if(|next| next.thread.is_finished() && !self.room.has_next());
        if let Some(next) = failed {
            next.thread.join().unwrap_or(Ok(None))?;
        }
        // Without a block in the current one it is not needed yet: one that waits for room there is
        // longer than a file.
        let is_blank = work.at == ALIGN as u64;
        if work.next.is_some() || work.at <= work.file.bytes / 8 || is_blank {
            return Ok(());
        }
        let now = world::now_ns();
        if self.room.is_short() && now.saturating_sub(work.made_ns) < PAUSE_NS {
            return Ok(());
        }
        work.made_ns = now;
        let pace = Pace {
            from: self.counts.written.load(Ordering::Relaxed),
            room: work.file.bytes.saturating_sub(work.at),
        };
        let (shared, number) = (shared.clone(), self.number);
        let make = move || make_next(&shared, number, Some(pace));
        match std::thread::Builder::new().name("log-segments".into()).spawn(make) {
            Ok(thread) => work.next = Some(Making { thread }),
            // Without a thread it is as without room: tried again after the pause.
            Err(_) => self.room.is_used_up(),
        }
        Ok(())
    }

    /// The next segment, of which the making may have begun; `None` if the device has no room for
    /// it. The thread of [`Stream::look_ahead`] tries again then, or this one if the log is closed.
    pub(super) fn await_next(&self, shared: &Arc<Shared>, work: &mut Work) -> Result<Option<Made>, LogFault> {
        match work.next.take().map(|next| next.thread.join()) {
            Some(Ok(made)) => made,
            _ if self.room.is_short() && !shared.stopping.load(Ordering::SeqCst) => Ok(None),
            Some(Err(_)) | None => make_next(shared, self.number, None),
        }
    }
}

/// The pace at which a log file is filled while the one before it is being written: a piece now and
/// then, ahead of the need. Filled in one go, it would take a CPU from the workers or the log's own
/// threads for a tenth of a second.
struct Pace {
    /// Bytes that the stream had written when the filling began.
    from: u64,
    /// Bytes that were then left in the file before.
    room: u64,
}

impl Pace {
    /// The pause between two pieces. A piece takes a fraction of it.
    const PAUSE: Duration = Duration::from_millis(4);

    /// Waits if the part of the file that is filled is enough for now. The file is full when three
    /// quarters of the one before are used.
    fn wait(&self, shared: &Shared, stream: usize, filled: f64) {
        let written = shared.streams[stream].counts.written.load(Ordering::Relaxed);
        let used = written.saturating_sub(self.from) as f64 / self.room.max(1) as f64;
        if filled > used * 4.0 / 3.0 && !shared.stopping.load(Ordering::Relaxed) {
            std::thread::sleep(Pace::PAUSE);
        }
    }
}

/// Makes the next segment of a stream and enters it in the control file. Without a pace it is
/// filled in one go. `None` if the device has no room for it; then it is as before.
fn make_next(shared: &Shared, stream: usize, pace: Option<Pace>) -> Result<Option<Made>, LogFault> {
    let segment = {
        let mut control = shared.control.lock();
        let number = control.next_segment;
        control.next_segment += 1;
        Segment { number, stream: stream as u16, life: control.life }
    };
    let (path, room) = (shared.dir.join(segment.name()), &shared.streams[stream].room);
    match make(shared, &segment, &path, pace) {
        Ok(file) => {
            room.is_kept();
            Ok(Some((segment, file)))
        }
        // In a log that is broken a control file may name it.
        Err(fault) if fault.is_want_of_room() && shared.fault.get().is_none() => {
            let _ = shared.files.remove(&path);
            room.is_used_up();
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

fn make(shared: &Shared, segment: &Segment, path: &Path, pace: Option<Pace>) -> Result<LogFile, LogFault> {
    let (head, stream) = (shared.file_head(segment), usize::from(segment.stream));
    let which = (&shared.options, SegmentPlace::Later);
    let file = match shared.spares.take() {
        Some(spare) => reuse_segment(&*shared.files, (&spare, path), &head, which.0)?,
        None => {
            let between = |filled| {
                // From here on the device has room for all of it.
                shared.streams[stream].room.is_kept();
                pace.iter().for_each(|pace| pace.wait(shared, stream, filled));
            };
            make_segment(&*shared.files, &shared.dir, &head, &segment.name(), which, between)?
        }
    };
    // Its name first: a control file that names a missing file is damaged.
    shared.sync_names()?;
    shared.recontrol(|control| {
        let at = control.segments.partition_point(|s| s.number < segment.number);
        control.segments.insert(at, *segment);
    })?;
    Ok(file)
}
