//! A minimal redo log: committed row images, framed and checksummed, written through a buffer to a
//! file that is never synced.
//!
//! ```text
//!   length u32 | CRC-32C u32 | table u32, key u64, length u32, row | table u32, key u64, ...
//! ```

use crate::fault::PeerFault;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A common size of log buffers: the cost of a write is spread over hundreds of commits.
const BUFFER_BYTES: usize = 1 << 20;
/// After this many bytes the log starts over, as if a checkpoint had been taken, so that the file
/// stays in the page cache.
const LAP_BYTES: u64 = 256 << 20;
const HEAD_BYTES: usize = 8;

pub struct Redo {
    path: PathBuf,
    file: BufWriter<File>,
    /// The current transaction's record. Its head is empty until the commit.
    record: Vec<u8>,
    at: u64,
}

impl Redo {
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> Result<Redo, PeerFault> {
        let file = File::create(path).map_err(PeerFault::io(path))?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Redo { path: path.to_owned(), file, record: vec![0; HEAD_BYTES], at: 0 })
    }

    pub(crate) fn put(&mut self, table: usize, key: u64, row: &[u8]) {
        self.record.extend_from_slice(&(table as u32).to_le_bytes());
        self.record.extend_from_slice(&key.to_le_bytes());
        self.record.extend_from_slice(&(row.len() as u32).to_le_bytes());
        self.record.extend_from_slice(row);
    }

    pub(crate) fn commit(&mut self) -> Result<(), PeerFault> {
        if self.record.len() == HEAD_BYTES {
            return Ok(());
        }
        let (head, body) = self.record.split_at_mut(HEAD_BYTES);
        head[..4].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[4..].copy_from_slice(&base::crc32c(body).to_le_bytes());
        self.file.write_all(&self.record).map_err(PeerFault::io(&self.path))?;
        self.at += self.record.len() as u64;
        self.record.truncate(HEAD_BYTES);
        if self.at >= LAP_BYTES {
            self.at = 0;
            self.file.seek(SeekFrom::Start(0)).map_err(PeerFault::io(&self.path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_can_be_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("redo");
        let mut redo = Redo::create(&path).unwrap();
        redo.commit().unwrap();
        redo.put(0, 1, b"one");
        redo.put(7, 2, b"two!");
        redo.commit().unwrap();
        drop(redo);
        let bytes = std::fs::read(&path).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(0) as usize, bytes.len() - HEAD_BYTES);
        assert_eq!(word(4), base::crc32c(&bytes[HEAD_BYTES..]));
        assert_eq!((word(8), word(12), word(20), &bytes[24..27]), (0, 1, 3, &b"one"[..]));
        assert_eq!((word(27), word(31), word(39), &bytes[43..]), (7, 2, 4, &b"two!"[..]));
    }
}
