//! Keeping a base copy: a folder follows the log without owning it, and the log is trimmed behind
//! copies.
//!
//! ```text
//!   owner ----entries----> [ seal 1 2 3 M 4 5 6 7 ] --follow--> folder with the mark behind 7
//!                                       |                        `-- put to object storage
//!   keeper --milestone M---------------'
//!          --trim to M: an announcement, then the removal of all before M
//! ```
//! An entry that counts on a prefix of the tape counts for each later reader. So a
//! folder may have it before its owner knows that it counts.
//!
//! The folder of the owner itself lags: its mark moves at some changes only. [`Signs`] has how far
//! it is at least, as the log shows.

use super::mark::{self, Mark, beginning};
use super::replay::{Repeats, Replay};
use super::{Part, of_file};
use crate::entry::{Entry, Kind};
use crate::fault::{Fault, Trouble};
use crate::milestone::Milestone;
use crate::opening::{put, to_end};
use crate::signs::Signs;
use crate::tape::Tape;
use crate::walker::Place;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::Files;

/// A folder that has followed the log to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    /// Of the log, drawn when it began.
    pub stream: u64,
    /// How far the folder has the log.
    pub place: Place,
    /// Entries that were repeated.
    pub repeated: u64,
    /// The positions of the milestones that were passed, in order.
    pub milestones: Vec<u64>,
    /// The facts about the owner's folder; for the next call.
    pub signs: Signs,
}

/// Brings the folder `dir`, which nothing else uses, to the end of the log on `tape`. Nothing is
/// sealed: an owner that writes goes on. `known` are the signs that earlier calls have returned,
/// for this folder or another.
///
/// # Errors
/// [`Fault`]: the log cannot be read, has lost entries, or was trimmed beyond the folder's end of
/// it; the folder is not one of this log; a file of it failed. The folder can be used as before.
pub fn follow(
    below: Arc<dyn Files>,
    dir: &Path,
    (tape, known): (&dyn Tape, Signs),
    part: Part,
    patience: Duration,
) -> Result<Followed, Fault> {
    require_log(tape, patience)?;
    below.create_dir_all(dir).map_err(of_file)?;
    let (Mark { stream, place: from }, _) = mark::agree(&*below, dir, part, tape, patience)?;
    let mut replay = Replay::new(below.clone(), dir, part, stream);
    let mut signs = known;
    let (place, sight) = to_end(tape, (from, known), patience, &mut |place, payload| {
        if replay.entry(place, payload)? == Repeats::Once {
            signs.rename(place.next - 1);
        }
        Ok(())
    })?;
    let repeated = replay.finish()?;
    Mark { stream, place }.write(&*below, dir).map_err(of_file)?;
    let signs = signs.with(sight.signs);
    Ok(Followed { stream, place, repeated, milestones: sight.milestones, signs })
}

/// The number of the log that the folder `dir` follows, and how far it has it; `None` if it has no
/// mark.
///
/// # Errors
/// The mark is damaged.
pub fn mark_of(files: &dyn Files, dir: &Path) -> Result<Option<(u64, Place)>, Fault> {
    Ok(Mark::read(files, dir)?.map(|mark| (mark.stream, mark.place)))
}

/// # Errors
/// The log is empty, or its beginning is lost.
fn require_log(tape: &dyn Tape, patience: Duration) -> Result<Milestone, Fault> {
    let Some((begun, _)) = beginning(tape, patience)? else {
        let what = "the relay has no log of this name, or it is empty: name the relay and the log as the server does";
        return Err(Fault::Stranger(what.to_owned()));
    };
    Ok(Milestone { about: begun.encode(), ..Milestone::default() })
}

/// Appends a milestone to the log. Returns its position. `note` tells people where base copies are.
///
/// # Errors
/// The log is empty, has lost its beginning, or takes no entry.
pub fn milestone(tape: &dyn Tape, note: &str, patience: Duration) -> Result<u64, Fault> {
    announce(tape, note, 0, patience)
}

pub(super) fn announce(tape: &dyn Tape, note: &str, begins: u64, patience: Duration) -> Result<u64, Fault> {
    let milestone = Milestone { begins, note: note.to_owned(), ..require_log(tape, patience)? };
    let entry = Entry::milestone(world::entropy(), &milestone.encode()).encode();
    put(tape, entry, Instant::now() + patience)
}

/// Makes the log begin at the milestone at position `first`. Returns the number of positions that
/// are gone.
///
/// # Errors
/// There is no milestone; the service does not answer, or does not remove.
pub fn trim(tape: &dyn Tape, first: u64, note: &str, patience: Duration) -> Result<u64, Fault> {
    let gone = |trouble: Trouble| {
        Fault::Gone(format!("the relay does not trim its log: {trouble}; what it has is whole, try again"))
    };
    let (begin, end) = tape.range().map_err(gone)?;
    if first <= begin {
        return Ok(0);
    }
    let mut found = None;
    if first < end {
        tape.read(first, first + 1, &mut |_, bytes| found = Some(bytes.to_vec())).map_err(gone)?;
    }
    let about = |bytes: &[u8]| {
        let entry = Entry::decode(bytes).filter(|entry| entry.kind == Kind::Milestone)?;
        Some(Milestone::decode(entry.payload)?.about)
    };
    let own = require_log(tape, patience)?.about;
    if found.and_then(|bytes| about(&bytes)) != Some(own) {
        let what = "the log was to be trimmed to here, and this is no milestone of it; nothing was removed"
            .to_owned();
        return Err(Fault::Damaged { position: first, what });
    }
    announce(tape, note, first, patience)?;
    tape.trim(first).map_err(gone)?;
    match tape.range().map_err(gone)? {
        (begins, _) if begins < first => Err(gone(Trouble(format!("it begins at position {begins} still")))),
        _ => Ok(first - begin),
    }
}
