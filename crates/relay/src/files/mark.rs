//! The mark of a folder: all changes up to this place of the log are in its files.
//!
//! ```text
//!   0 "ATOLLRLY"   8 crc32c u32 (of bytes 16..)   16 stream u64, drawn at random when it began
//!   24 term u64   32 owner u64   40 counted u64   48 chain u64   56 next position u64
//! ```
//! The first seal of a stream has as its payload the number of the stream, and whether it began as
//! an empty folder.

use crate::entry::{Chain, Entry, Kind, Term};
use crate::fault::Fault;
use crate::tape::Tape;
use crate::walker::Place;
use base::crc32c;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};
use world::{Files, Open};

pub(super) const NAME: &str = "relay-mark";
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
            Fault::Stranger(format!("{path}: this is no intact mark of a relay; begin with a copy of the folder"))
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

/// The mark with which the folder is opened, and the payload of the seal: the folder must be one of
/// this stream, or begin it.
pub(super) fn agree(
    mark: Option<Mark>,
    is_empty: bool,
    dir: &Path,
    tape: &dyn Tape,
    patience: Duration,
) -> Result<(Mark, Vec<u8>), Fault> {
    let first = first_seal(tape, patience)?;
    let dir = dir.display();
    let stranger = |what: String| Err(Fault::Stranger(what));
    let stream = match (mark, first) {
        (None, None) => {
            let stream = world::entropy();
            let mark = Mark { stream, place: Place::default() };
            return Ok((mark, payload(stream, is_empty)));
        }
        (Some(_), None) => {
            return stranger(format!(
                "{dir}: the folder follows a relay that has no entry: this is another relay, or it has lost its data. \
                 Restore its data; or remove {NAME}, if this is the newest copy of the folder, and begin a new log"
            ));
        }
        (None, Some((stream, true))) if is_empty => stream,
        (None, Some((_, began_empty))) => {
            let way = if began_empty { "an empty folder, or a copy of one" } else { "a copy of the folder" };
            return stranger(format!(
                "{dir}: the relay has a log already, and this folder does not follow it (it has no {NAME}). Begin with \
                 {way} that does, or choose another name for the relay's logs"
            ));
        }
        (Some(mark), Some((stream, _))) if mark.stream == stream => {
            return Ok((mark, payload(stream, false)));
        }
        (Some(_), Some(_)) => {
            return stranger(format!("{dir}: the folder follows another relay's log, or another log of this relay"));
        }
    };
    Ok((Mark { stream, place: Place::default() }, payload(stream, false)))
}

fn payload(stream: u64, is_empty: bool) -> Vec<u8> {
    let mut out = stream.to_le_bytes().to_vec();
    out.push(u8::from(is_empty));
    out
}

/// The payload of the first seal; `None` for an empty tape.
fn first_seal(tape: &dyn Tape, patience: Duration) -> Result<Option<(u64, bool)>, Fault> {
    let until = Instant::now() + patience;
    loop {
        let mut found = None;
        let looked = tape.range().and_then(|(first, end)| {
            if first == end {
                return Ok(());
            }
            let mut each = |_, bytes: &[u8]| found = Some(bytes.to_vec());
            tape.read(first, first + 1, &mut each)
        });
        match (looked, found) {
            (Ok(()), None) => return Ok(None),
            (Ok(()), Some(bytes)) => {
                let seal = Entry::decode(&bytes).filter(|e| e.kind == Kind::Seal && e.payload.len() == 9);
                let Some(seal) = seal else {
                    let what = "the log does not begin with a seal of its stream".to_owned();
                    return Err(Fault::Damaged { position: 1, what });
                };
                let stream = u64::from_le_bytes(seal.payload[..8].try_into().expect("eight bytes"));
                return Ok(Some((stream, seal.payload[8] == 1)));
            }
            (Err(trouble), _) if Instant::now() >= until => {
                return Err(Fault::Gone(format!(
                    "the relay cannot be read ({trouble}): is a quorum of its servers up and reachable? Start them, \
                     then open again"
                )));
            }
            (Err(_), _) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}
