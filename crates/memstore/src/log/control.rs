//! The control file: the list of everything that the store consists of. It is replaced as a whole,
//! by a rename. A file that it does not name does not count.
//!
//! ```text
//!   0 "ATOLLCTL"   8 format u32   12 crc32c u32 of the value   16 bytes of the value u64
//!   24 the value, encoded by postcard
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

/// The place at which the log of a past life ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) life: u64,
    /// Records of later epochs do not count.
    pub(crate) durable: u64,
    /// For each stream, the number of its blocks.
    pub(crate) blocks: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CheckpointPart {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// An undecided transaction, as its prepare record has it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Undecided {
    pub(crate) tid: u64,
    pub(crate) note: Vec<u8>,
    /// In the format of the record.
    pub(crate) writes: Vec<u8>,
    /// Its reads, in the format of the reservations record.
    pub(crate) reads: Vec<u8>,
}

/// A copy of all rows, taken while they changed: consistent together with the log from epoch `from`
/// on.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) number: u64,
    /// The life that wrote it.
    pub(crate) life: u64,
    pub(crate) from: u64,
    /// When it was put in place, the device had the log of its life up to this epoch. Rows may have
    /// been copied from all epochs up to this one.
    pub(crate) until: u64,
    pub(crate) parts: Vec<CheckpointPart>,
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
    /// Drawn at random when the store is made; each of its files has it.
    pub(crate) store: u64,
    pub(crate) streams: u16,
    /// How often the store has been opened.
    pub(crate) life: u64,
    /// The epoch before the first of this life.
    pub(crate) begun: u64,
    pub(crate) schema: Option<Vec<u8>>,
    pub(crate) tables: Vec<u16>,
    /// In the order of their numbers, without those that are not needed any more.
    pub(crate) segments: Vec<Segment>,
    pub(crate) next_segment: u64,
    /// The past lives of which there are segments.
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

    /// A control file is written before any other file. So if there are files and no control file,
    /// it is missing: this is no new store.
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

    /// Writes the next control file beside the present one, to the device.
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

    /// Makes the file that was written beside it the control file. After an error the next opening
    /// may find either of the two.
    pub(crate) fn put_in_place(files: &dyn Files, dir: &Path) -> Result<(), LogFault> {
        Ok(files.rename(&dir.join(INCOMING), &dir.join(CONTROL))?)
    }

    /// Names of the files that this control record lists.
    pub(crate) fn names(&self) -> Vec<String> {
        let logs = self.segments.iter().map(Segment::name);
        let parts = self
            .checkpoint
            .iter()
            .flat_map(|c| (0..c.parts.len()).map(|part| Checkpoint::part_name(c.number, part)));
        logs.chain(parts).collect()
    }
}
