//! The control files: where restart begins. Two files, written in turn, hold the last checkpoint.
//!
//! ```text
//! control-0, control-1:
//!  0 "ATOLLCTL"    8 format u32    12 keeping u32   16 sequence u64
//! 24 life u32     28 length u32    32 crc32c u32    36 body
//! ```
//!
//! The checksum covers all other bytes, so a file is valid as a whole or not at all. A new
//! checkpoint replaces the older file. If a crash tears that file, the other one is still valid.
//! The body is the [`Checkpoint`], encoded by `postcard`. Numbers are little-endian.

use crate::StoreFault;
use base::{Lsn, PageId, TxnId, crc32c};
use serde::{Deserialize, Serialize};
use std::path::Path;
use world::{Files, Open};

const MAGIC: &[u8; 8] = b"ATOLLCTL";
const FORMAT: u32 = 4;
const HEAD: usize = 36;
const NAMES: [&str; 2] = ["control-0", "control-1"];
/// Maximum size in bytes. A larger length is damage, and no memory is allocated for it.
const LARGEST: u64 = 1 << 30;

/// Whether the folder keeps data after the process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeping {
    Log,
    /// Durability `memory`: a run uses or used the folder and keeps nothing.
    Nothing,
}

/// A transaction that was running at the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub id: TxnId,
    /// Where its first record starts.
    pub first: Lsn,
}

/// Everything that restart needs besides the log from `redo_start` on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    /// Every change logged before this position is in the data file.
    pub redo_start: Lsn,
    /// Transactions with records before `redo_start` that may have ended after it, or not at all.
    pub running: Vec<Running>,
    pub notes: Vec<(Lsn, Vec<u8>)>,
    /// Minimum size of the data file in bytes: all pages written before the checkpoint lie below
    /// it.
    pub data_bytes: u64,
    pub next_page: PageId,
    pub free_pages: Vec<PageId>,
}

impl Checkpoint {
    /// Where restart begins to read the log.
    pub fn scan_start(&self) -> Lsn {
        self.running.iter().map(|r| r.first).fold(self.redo_start, Lsn::min)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Control {
    pub keeping: Keeping,
    pub sequence: u64,
    /// The number of times the database has been opened.
    pub life: u32,
    pub checkpoint: Checkpoint,
}

impl Control {
    fn encode(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(&self.checkpoint).expect("plain values serialise");
        let mut out = Vec::with_capacity(HEAD + body.len());
        out.extend(MAGIC);
        out.extend(FORMAT.to_le_bytes());
        out.extend((self.keeping as u32).to_le_bytes());
        out.extend(self.sequence.to_le_bytes());
        out.extend(self.life.to_le_bytes());
        out.extend((body.len() as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend(body);
        let sum = crc32c(&out);
        out[32..36].copy_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode(file: &Path, bytes: &[u8]) -> Result<Control, Unusable> {
        let garbled = |what: &str| Unusable::Garbled(format!("{}: {what}", file.display()));
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes.len() < HEAD || &bytes[..8] != MAGIC {
            return Err(garbled("not a control file of Atoll, or cut short"));
        }
        let length = word(28) as usize;
        let end = HEAD.saturating_add(length);
        if end > bytes.len() {
            return Err(garbled("cut short"));
        }
        let mut copy = bytes[..end].to_vec();
        copy[32..36].fill(0);
        if crc32c(&copy) != word(32) {
            return Err(garbled("its checksum does not match"));
        }
        if word(8) != FORMAT {
            return Err(Unusable::Version(StoreFault::Version {
                file: file.to_owned(),
                found: word(8),
                expected: FORMAT,
            }));
        }
        let checkpoint = postcard::from_bytes(&bytes[HEAD..end]).map_err(|_| garbled("malformed"))?;
        Ok(Control {
            keeping: if word(12) == Keeping::Log as u32 { Keeping::Log } else { Keeping::Nothing },
            sequence: u64::from_le_bytes(bytes[16..24].try_into().expect("eight bytes")),
            life: word(24),
            checkpoint,
        })
    }

    /// Writes this as the next checkpoint. It is durable on return.
    pub fn write(&self, files: &dyn Files, dir: &Path) -> Result<(), StoreFault> {
        let path = dir.join(NAMES[(self.sequence % 2) as usize]);
        let bytes = self.encode();
        let file = files.open(&path, Open::Create)?;
        file.write_all_at(&bytes, 0)?;
        file.set_len(bytes.len() as u64)?;
        file.sync()?;
        files.sync_dir(dir)?;
        Ok(())
    }

    /// The younger valid control file; `None` if the folder has neither a control file nor a data
    /// file.
    pub fn read(files: &dyn Files, dir: &Path) -> Result<Option<Control>, StoreFault> {
        let names = files.list(dir)?;
        let has = |name: &str| names.iter().any(|n| n == name);
        let mut valid: Option<Control> = None;
        let mut why = Vec::new();
        for name in NAMES.into_iter().filter(|n| has(n)) {
            match read_one(files, &dir.join(name)) {
                Ok(control) if valid.as_ref().is_none_or(|v| v.sequence < control.sequence) => {
                    valid = Some(control);
                }
                Ok(_) => {}
                Err(Unusable::Garbled(what)) => why.push(what),
                Err(Unusable::Version(fault) | Unusable::Unread(fault)) => return Err(fault),
            }
        }
        if valid.is_some() || !has(crate::DATA) {
            return Ok(valid);
        }
        Err(if why.is_empty() {
            let what = "it has a data file but no control file; put control-0 and control-1 back, or \
                        restore the database from a backup";
            StoreFault::NotADatabase { dir: dir.to_owned(), what }
        } else {
            StoreFault::Control { dir: dir.to_owned(), what: why.join("; ") }
        })
    }

    /// Removes both files, so that the folder holds no database.
    pub fn remove(files: &dyn Files, dir: &Path) -> Result<(), StoreFault> {
        let names = files.list(dir)?;
        for name in NAMES.into_iter().filter(|n| names.iter().any(|m| m == n)) {
            files.remove(&dir.join(name))?;
        }
        Ok(files.sync_dir(dir)?)
    }
}

enum Unusable {
    /// A crash may be the cause, so the other file is used.
    Garbled(String),
    Version(StoreFault),
    /// This file may be the younger one. If restart used the other one, it would lose the changes
    /// between the two.
    Unread(StoreFault),
}

fn read_one(files: &dyn Files, path: &Path) -> Result<Control, Unusable> {
    let read = || -> std::io::Result<Vec<u8>> {
        let file = files.open(path, Open::Read)?;
        let mut bytes = vec![0; file.len()?.min(LARGEST) as usize];
        let n = file.read_at(&mut bytes, 0)?;
        if n < bytes.len() {
            let text = format!("{}: {n} bytes could be read of {}; try again", path.display(), bytes.len());
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text));
        }
        Ok(bytes)
    };
    let bytes = read().map_err(|e| Unusable::Unread(e.into()))?;
    Control::decode(path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(sequence: u64) -> Control {
        let checkpoint = Checkpoint {
            redo_start: Lsn(500),
            running: vec![
                Running { id: TxnId(9), first: Lsn(77) },
                Running { id: TxnId(8), first: Lsn(600) },
            ],
            notes: vec![(Lsn(3), b"note".to_vec())],
            data_bytes: 8192,
            next_page: PageId(7),
            free_pages: vec![PageId(2)],
        };
        Control { keeping: Keeping::Log, sequence, life: 3, checkpoint }
    }

    #[test]
    fn the_younger_valid_file_counts() {
        let (files, dir) = (world::memory(), Path::new("/db"));
        files.create_dir_all(dir).unwrap();
        assert!(Control::read(&*files, dir).unwrap().is_none());
        control(4).write(&*files, dir).unwrap();
        control(5).write(&*files, dir).unwrap();
        let read = Control::read(&*files, dir).unwrap().unwrap();
        assert_eq!((read.sequence, &read.checkpoint), (5, &control(0).checkpoint));
        assert_eq!(read.checkpoint.scan_start(), Lsn(77));

        let torn = files.open(&dir.join("control-1"), Open::ReadWrite).unwrap();
        torn.write_all_at(&[0xff], 40).unwrap();
        assert_eq!(Control::read(&*files, dir).unwrap().unwrap().sequence, 4);
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let bytes = control(1).encode();
        assert!(Control::decode(Path::new("c"), &bytes).is_ok());
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Control::decode(Path::new("c"), &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_data_file_without_control_is_not_opened() {
        let (files, dir) = (world::memory(), Path::new("/db"));
        files.create_dir_all(dir).unwrap();
        files.open(&dir.join(crate::DATA), Open::Create).unwrap();
        assert!(matches!(Control::read(&*files, dir), Err(StoreFault::NotADatabase { .. })));
        files.open(&dir.join("control-0"), Open::Create).unwrap();
        assert!(matches!(Control::read(&*files, dir), Err(StoreFault::Control { .. })));
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = control(1).encode();
        bytes[8] = 9;
        bytes[32..36].fill(0);
        let sum = crc32c(&bytes);
        bytes[32..36].copy_from_slice(&sum.to_le_bytes());
        let (files, dir) = (world::memory(), Path::new("/db"));
        files.create_dir_all(dir).unwrap();
        files.open(&dir.join("control-0"), Open::Create).unwrap().write_all_at(&bytes, 0).unwrap();
        let Err(StoreFault::Version { found: 9, .. }) = Control::read(&*files, dir) else { panic!("opened") };
    }
}
