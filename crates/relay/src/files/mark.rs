//! The mark of a folder: all changes up to this place of the log are in its files.
//!
//! ```text
//!   0 "ATOLLRLY"   8 crc32c u32 (of bytes 16..)   16 stream u64, drawn at random when it began
//!   24 term u64   32 owner u64   40 counted u64   48 chain u64   56 next position u64
//! ```
//! The first seal of a stream has as its payload how the stream began: its number, whether the
//! folder was empty, and a checksum of the folder ([`agree`]). A copy of the folder made before has
//! no mark, and is known by that checksum. A log that was trimmed begins with a milestone, which
//! repeats that payload.

use super::Part;
use crate::entry::{Chain, Entry, Kind, Term};
use crate::fault::Fault;
use crate::milestone::Milestone;
use crate::opening::{announced, cut_off};
use crate::tape::Tape;
use crate::walker::Place;
use base::crc32c;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};
use world::{Files, Open};

/// The name of the mark in its folder.
pub const NAME: &str = "relay-mark";
pub(super) const INCOMING: &str = "relay-mark.new";
const MAGIC: &[u8; 8] = b"ATOLLRLY";
const BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub stream: u64,
    pub place: Place,
}

impl Mark {
    fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        out[..8].copy_from_slice(MAGIC);
        let Place { term, owner, counted, chain, next } = self.place;
        let numbers = [self.stream, term.0, owner, counted, chain.0, next];
        for (place, number) in out[16..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let sum = crc32c(&out[16..]);
        out[8..12].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Mark> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        if &bytes[..8] != MAGIC || bytes[8..12] != crc32c(&bytes[16..]).to_le_bytes() {
            return None;
        }
        let number = |n: usize| u64::from_le_bytes(bytes[16 + n * 8..24 + n * 8].try_into().expect("eight"));
        let (term, owner, counted) = (Term(number(1)), number(2), number(3));
        let place = Place { term, owner, counted, chain: Chain(number(4)), next: number(5) };
        Some(Mark { stream: number(0), place })
    }

    /// The mark of the folder, if it has one.
    pub fn read(files: &dyn Files, dir: &Path) -> Result<Option<Mark>, Fault> {
        let path = dir.join(NAME);
        let file = match files.open(&path, Open::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Fault::Gone(e.to_string())),
        };
        let mut bytes = vec![0; BYTES + 1];
        let read = file.read_at(&mut bytes, 0).map_err(|e| Fault::Gone(e.to_string()))?;
        let mark = Mark::decode(&bytes[..read]).ok_or_else(|| {
            let path = path.display();
            Fault::Stranger(format!(
                "{path}: this is no intact mark of a relay; begin with a copy of the folder"
            ))
        })?;
        Ok(Some(mark))
    }

    /// Replaces the folder's mark, durably.
    pub fn write(&self, files: &dyn Files, dir: &Path) -> io::Result<()> {
        let incoming = dir.join(INCOMING);
        let file = files.open(&incoming, Open::Create)?;
        file.write_all_at(&self.encode(), 0)?;
        file.sync()?;
        files.rename(&incoming, &dir.join(NAME))
    }
}

/// How a stream began.
pub(super) struct Genesis {
    pub stream: u64,
    /// As an empty folder, of which the log tells everything.
    is_empty: bool,
    /// Of the folder as it was.
    print: u64,
}

impl Genesis {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.stream.to_le_bytes().to_vec();
        out.push(u8::from(self.is_empty));
        out.extend_from_slice(&self.print.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Genesis> {
        let bytes: &[u8; 17] = bytes.try_into().ok()?;
        let stream = u64::from_le_bytes(bytes[..8].try_into().ok()?);
        let print = u64::from_le_bytes(bytes[9..].try_into().ok()?);
        Some(Genesis { stream, is_empty: bytes[8] == 1, print })
    }
}

/// Names that are in no log: of locks, of marks and of the labels that a deployment writes.
pub(super) fn is_local(name: &str) -> bool {
    name == "lock" || name == NAME || name == INCOMING || name.ends_with(".json")
}

/// The mark with which the folder is opened, and the payload of the seal: the folder must be one of
/// this stream, or begin it.
pub(super) fn agree(
    files: &dyn Files,
    dir: &Path,
    part: Part,
    tape: &dyn Tape,
    patience: Duration,
) -> Result<(Mark, Vec<u8>), Fault> {
    let of_file = |e: io::Error| Fault::Gone(e.to_string());
    let mark = Mark::read(files, dir)?;
    let first = beginning(tape, patience)?;
    let at = dir.display();
    let fresh = |stream| (Mark { stream, place: Place::default() }, Vec::new());
    let stranger = |what: String| Err(Fault::Stranger(what));
    let empty = || Ok(part == Part::All && files.list(dir)?.iter().all(|name| is_local(name)));
    // An empty folder of which only a part is in the log is like no other.
    let is_bare = || Ok(part == Part::Log && files.list(dir)?.iter().all(|name| is_local(name)));
    let begun_as = || match is_bare().map_err(of_file)? {
        true => Ok(world::entropy()),
        false => print(files, dir).map_err(of_file),
    };
    let (first, range) = first.map_or((None, (1, 1)), |(begun, range)| (Some(begun), range));
    let is_trimmed = range.0 > 1;
    match (mark, first) {
        (None, None) => {
            let (stream, is_empty) = (world::entropy(), empty().map_err(of_file)?);
            let print = begun_as()?;
            let mark = Mark { stream, place: Place::default() };
            Ok((mark, Genesis { stream, is_empty, print }.encode()))
        }
        (Some(_), None) => stranger(format!(
            "{at}: the folder follows a relay's log that has no entry: this is another relay, or it has lost its data. \
             Restore its data; or remove {NAME}, if this is the newest copy of the folder, and begin a new log"
        )),
        (None, Some(_)) if is_trimmed => Err(cut_off(tape, 0, range)),
        (None, Some(begun)) if begun.is_empty && empty().map_err(of_file)? => Ok(fresh(begun.stream)),
        (None, Some(begun)) if begun.print == begun_as()? => Ok(fresh(begun.stream)),
        (None, Some(begun)) => {
            let way =
                if begun.is_empty { "an empty folder, or a copy of one" } else { "a copy of the folder" };
            stranger(format!(
                "{at}: the relay has a log already, and this folder does not follow it (it has no {NAME}, and is not as \
                 the log began). Begin with {way} that does, or choose another name for the relay's logs"
            ))
        }
        (Some(mark), Some(begun)) if mark.stream == begun.stream => Ok((mark, Vec::new())),
        (Some(_), Some(_)) => {
            stranger(format!("{at}: the folder follows another relay's log, or another log of this relay"))
        }
    }
}

/// A checksum over the names, lengths, beginnings and ends of the files of a folder. The store
/// writes to the beginning or the end of some file whenever it is opened.
fn print(files: &dyn Files, dir: &Path) -> io::Result<u64> {
    const EDGE: u64 = 1 << 16;
    let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    for name in files.list(dir)?.iter().filter(|name| !is_local(name)) {
        let path = dir.join(name);
        sum.update(name.as_bytes());
        if files.list(&path).is_ok() {
            sum.update(&print(files, &path)?.to_le_bytes());
            continue;
        }
        let file = files.open(&path, Open::Read)?;
        let len = file.len()?;
        sum.update(&len.to_le_bytes());
        let mut edge = vec![0; EDGE as usize];
        for at in [0, len.saturating_sub(EDGE)] {
            let read = file.read_at(&mut edge, at)?;
            sum.update(&edge[..read]);
        }
    }
    Ok(sum.finalize())
}

/// How a log began, and the first position and the end of what is left of it.
type Begun = (Genesis, (u64, u64));

/// Of the log on `tape`; `None` for an empty tape.
///
/// # Errors
/// No answer; the beginning is lost.
pub(super) fn beginning(tape: &dyn Tape, patience: Duration) -> Result<Option<Begun>, Fault> {
    let until = Instant::now() + patience;
    loop {
        let mut found = None;
        let looked = tape.range().and_then(|(first, end)| {
            let mut each = |_, bytes: &[u8]| found = Some(bytes.to_vec());
            if first < end {
                tape.read(first, first + 1, &mut each)?;
            }
            Ok((first, end))
        });
        match (looked, found) {
            (Ok((first, end)), None) if first == end => return Ok(None),
            (Ok(range), Some(bytes)) => return Ok(Some((begun_by(tape, &bytes, range)?, range))),
            (Err(trouble), _) if Instant::now() >= until => {
                return Err(Fault::Gone(format!(
                    "the relay cannot be read ({trouble}): is a quorum of its servers up and reachable? Start them, \
                     then open again"
                )));
            }
            (Ok((first, _)), None) if Instant::now() >= until => {
                let what = "the first position is not there".to_owned();
                return Err(Fault::Damaged { position: first, what });
            }
            // Also while the log is being trimmed.
            _ => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// How the log began, from its first entry. In one that was trimmed that is a milestone, unless the
/// service removed less than it was asked to: then a later milestone tells.
fn begun_by(tape: &dyn Tape, bytes: &[u8], (first, end): (u64, u64)) -> Result<Genesis, Fault> {
    let about = match Entry::decode(bytes) {
        Some(Entry { kind: Kind::Seal, payload, .. }) if first == 1 => Some(payload.to_vec()),
        _ if first == 1 => None,
        Some(Entry { kind: Kind::Milestone, payload, .. }) => {
            Milestone::decode(payload).map(|milestone| milestone.about)
        }
        _ => announced(tape, (first, end))?.map(|milestone| milestone.about),
    };
    let what = match first {
        1 => "the log does not begin with the seal of a folder".to_owned(),
        _ => format!(
            "the log begins at position {first}, which is no milestone, and no entry says that it was trimmed: all before \
             is lost"
        ),
    };
    about.and_then(|about| Genesis::decode(&about)).ok_or(Fault::Damaged { position: 1, what })
}
