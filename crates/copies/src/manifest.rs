//! The manifest of a copy.
//!
//! ```text
//!   atoll-base-copy 1 0123456789abcdef      format, checksum of the rest (CRC-64/NVME)
//!   { "atoll": .., "log": .., .. }
//! ```

use crc_fast::{CrcAlgorithm, Digest};
use serde::{Deserialize, Serialize};
use std::path::{Component, Path};

const MAGIC: &str = "atoll-base-copy";
/// Counted up whenever the format of a copy changes.
const FORMAT: u32 = 1;

/// Names the log of a copy, and how far the copy has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The version of Atoll.
    pub atoll: String,
    /// The name of the log.
    pub log: String,
    /// When the copy was made, in seconds since 1970.
    pub taken: u64,
    /// Of the log, drawn when it began; `None` for a folder as it was before.
    pub stream: Option<u64>,
    /// Of the last seal that counts in the folder.
    pub term: u64,
    /// Entries that the folder has.
    pub counted: u64,
    /// The first position that it does not have.
    pub next: u64,
    /// Positions at which the log may begin, in order.
    pub milestones: Vec<u64>,
    /// The folder of the log's owner has it up to this position at least.
    pub floor: u64,
    /// The position behind the last rename or removal in the log: the next one raises the floor to
    /// it. 0 in copies of earlier versions, as is the next.
    #[serde(default)]
    pub renamed: u64,
    /// The position behind the last seal in the log: the next entry that counts raises the floor to
    /// it.
    #[serde(default)]
    pub sealed: u64,
    /// The description of the database.
    pub description: String,
}

/// A file of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Below the folder.
    pub path: String,
    pub bytes: u64,
    /// CRC-64/NVME.
    pub crc64: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub head: Head,
    pub files: Vec<Entry>,
}

pub(crate) fn digest() -> Digest {
    Digest::new(CrcAlgorithm::Crc64Nvme)
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = digest();
    sum.update(bytes);
    sum.finalize()
}

impl Manifest {
    /// Of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let body = serde_json::to_string_pretty(self).expect("plain data");
        format!("{MAGIC} {FORMAT} {:016x}\n{body}", checksum(body.as_bytes())).into_bytes()
    }

    /// # Errors
    /// Why the copy that has these bytes as its manifest cannot be used.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        let damaged = || "has a damaged manifest".to_owned();
        let text = std::str::from_utf8(bytes).map_err(|_| damaged())?;
        let (first, body) = text.split_once('\n').ok_or_else(damaged)?;
        let [magic, format, sum] = first.split(' ').collect::<Vec<_>>()[..] else { return Err(damaged()) };
        match format.parse::<u32>() {
            Ok(FORMAT) if magic == MAGIC => {}
            Ok(other) if magic == MAGIC => {
                return Err(format!("has format {other}, and this version of Atoll reads format {FORMAT}"));
            }
            _ => return Err(damaged()),
        }
        if sum != format!("{:016x}", checksum(body.as_bytes())) {
            return Err(damaged());
        }
        let manifest: Manifest = serde_json::from_str(body).map_err(|_| damaged())?;
        match manifest.files.iter().find(|file| !is_inside(&file.path)) {
            Some(file) => Err(format!("names a file outside its folder, {}", file.path)),
            None => Ok(manifest),
        }
    }
}

fn is_inside(path: &str) -> bool {
    let path = Path::new(path);
    path.file_name().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_comes_back_and_a_changed_one_does_not() {
        let head = Head { log: "bank-0".into(), stream: Some(u64::MAX), next: 9, ..Head::default() };
        let file = |path: &str| Entry { path: path.into(), bytes: 3, crc64: 4 };
        let manifest = Manifest { head, files: vec![file("log/1")] };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes), Ok(manifest.clone()));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(Manifest::decode(&changed).is_err(), "byte {at}");
            assert!(Manifest::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
        let later = String::from_utf8(bytes).unwrap().replacen(" 1 ", " 7 ", 1);
        assert!(Manifest::decode(later.as_bytes()).unwrap_err().contains("format 7"));
        for path in ["../x", "/x", "", "a/../../b"] {
            let outside = Manifest { files: vec![file(path)], ..manifest.clone() };
            assert!(Manifest::decode(&outside.encode()).unwrap_err().contains("outside"), "{path}");
        }
    }
}
