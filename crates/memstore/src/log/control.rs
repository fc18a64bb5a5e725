//! The control file: what the store consists of. Replaced as a whole, by a rename; what it does not name does not count.
//!
//! ```text
//!   0 "ATOLLCTL"   8 format u32   12 crc32c u32 of what follows   16 bytes u64   24 the value, by postcard
//! ```

use super::LogFault;
use super::block::FORMAT;
use base::crc32c;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::Path;
use world::{Files, Open};

pub(crate) const CONTROL: &str = "control";
const INCOMING: &str = "control.new";
const MAGIC: &[u8; 8] = b"ATOLLCTL";
const HEAD: usize = 24;

/// A log file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) stream: u16,
    pub(crate) life: u64,
}

impl Segment {
    pub(crate) fn name(&self) -> String {
        format!("log-{:08}", self.number)
    }
}

/// Where the log of a life that is over ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) life: u64,
    /// Records of later epochs do not count.
    pub(crate) durable: u64,
    /// Of each stream, how many blocks there are.
    pub(crate) blocks: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// A transaction that may go either way, as its record said.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Undecided {
    pub(crate) tid: u64,
    pub(crate) note: Vec<u8>,
    /// As in the record.
    pub(crate) writes: Vec<u8>,
    /// What it has read, as in the record that says it.
    pub(crate) reads: Vec<u8>,
}

/// A copy of all rows, taken while they changed: right together with the log from epoch `from` on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) number: u64,
    /// The life that wrote it.
    pub(crate) life: u64,
    pub(crate) from: u64,
    /// The device had the log of its life up to this epoch when it was put in place: rows may have been copied from all
    /// epochs up to this one.
    pub(crate) until: u64,
    pub(crate) parts: Vec<Part>,
    pub(crate) notes: Vec<(u64, Vec<u8>)>,
    pub(crate) undecided: Vec<(u64, Undecided)>,
}

impl Checkpoint {
    pub(crate) fn part_name(number: u64, part: usize) -> String {
        format!("checkpoint-{number:06}-{part:04}")
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Control {
    /// Drawn when the store is made; each of its files has it.
    pub(crate) store: u64,
    pub(crate) streams: u16,
    /// How often the store was opened.
    pub(crate) life: u64,
    /// The epoch before the first of this life.
    pub(crate) begun: u64,
    pub(crate) schema: Option<Vec<u8>>,
    pub(crate) tables: Vec<u16>,
    /// In the order of their numbers, without those that nothing needs any more.
    pub(crate) segments: Vec<Segment>,
    pub(crate) next_segment: u64,
    /// Lives of which there are segments, but for this one.
    pub(crate) ended: Vec<Ended>,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) next_checkpoint: u64,
}

impl Control {
    /// `None` when there is no store in the folder.
    pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<Option<Control>, LogFault> {
        let path = dir.join(CONTROL);
        let file = match files.open(&path, Open::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Control::absent(files, dir, &path),
            Err(e) => return Err(e.into()),
        };
        let mut bytes = vec![0; usize::try_from(file.len()?).unwrap_or(usize::MAX)];
        let read = file.read_at(&mut bytes, 0)?;
        Control::decode(&path, &bytes[..read]).map(Some)
    }

    /// Files of a store without a control file are no new store: that is written before any of them.
    fn absent(files: &dyn Files, dir: &Path, path: &Path) -> Result<Option<Control>, LogFault> {
        let is_ours = |name: &&String| name.starts_with("checkpoint-") || name.starts_with("log-");
        match files.list(dir)?.iter().find(is_ours) {
            None => Ok(None),
            Some(name) => Err(LogFault::Missing {
                file: path.to_owned(),
                why: format!("a store's file lies beside it, {name}"),
            }),
        }
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Control, LogFault> {
        let corrupt = |offset, what: &str| LogFault::corrupt(path, offset, what);
        if bytes.len() < HEAD || &bytes[..8] != MAGIC {
            return Err(corrupt(0, "expected the control file of a main-memory store"));
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if word(8) != FORMAT {
            return Err(LogFault::Version { file: path.to_owned(), found: word(8), expected: FORMAT });
        }
        let body = &bytes[HEAD..];
        let len = u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes"));
        if body.len() as u64 != len {
            return Err(corrupt(16, &format!("expected {len} bytes, found {}", body.len())));
        }
        if word(12) != crc32c(body) {
            return Err(corrupt(12, "the control file fails its checksum"));
        }
        postcard::from_bytes(body)
            .map_err(|e| corrupt(HEAD as u64, &format!("expected a control record: {e}")))
    }

    /// Replaces the control file, durably.
    pub(crate) fn write(&self, files: &dyn Files, dir: &Path) -> Result<(), LogFault> {
        self.write_beside(files, dir)?;
        Control::put_in_place(files, dir)
    }

    /// Writes what is to be the control file beside it, to the device.
    pub(crate) fn write_beside(&self, files: &dyn Files, dir: &Path) -> Result<(), LogFault> {
        let body =
            postcard::to_stdvec(self).map_err(|e| LogFault::Options(format!("control record: {e}")))?;
        let mut bytes = Vec::with_capacity(HEAD + body.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&body).to_le_bytes());
        bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&body);
        let incoming = dir.join(INCOMING);
        let file = files.open(&incoming, Open::Create)?;
        file.set_len(0)?;
        file.write_all_at(&bytes, 0)?;
        Ok(file.sync()?)
    }

    /// Makes what was written beside it the control file. After an error either of the two may be what the next opening finds.
    pub(crate) fn put_in_place(files: &dyn Files, dir: &Path) -> Result<(), LogFault> {
        Ok(files.rename(&dir.join(INCOMING), &dir.join(CONTROL))?)
    }

    /// Names of files that this control record knows.
    pub(crate) fn names(&self) -> Vec<String> {
        let logs = self.segments.iter().map(Segment::name);
        let parts = self
            .checkpoint
            .iter()
            .flat_map(|c| (0..c.parts.len()).map(|part| Checkpoint::part_name(c.number, part)));
        logs.chain(parts).collect()
    }
}
