//! Blocks: the unit of writing, in log files and in the parts of a checkpoint.
//!
//! ```text
//!  file    0 "ATOLLMEM"   8 format u32   12 crc32c u32 of bytes 16..64   16 store u64
//!          24 kind u32   28 stream or part u32   32 number of the file u64   40 life u64
//!          48 streams u32
//!          ... zeros to 4096, then blocks
//!  block   0 "BLCK"   4 crc32c u32 of bytes 8..64   8 crc32c u32 of the body
//!          12 index in its file u32   16 bytes of the body u64   24 sequence u64   32 sealed u64
//!          40 stable u64   48 store u64   56 number of the file u64   64 the body, zeros
//! ```
//! A file number is never given twice. Blocks begin at multiples of 4096, so that no write touches
//! a sector of an earlier block. The blocks of a stream are numbered without a gap, over all files
//! of a life.
//!
//! - `sealed`: by the end of this block the stream has all records of epochs up to this one.
//! - `stable`: the device had the stream up to this sequence (exclusive) when this block was made.
//!   A bad block before it is damage. A bad block from there on is the torn end that a crash
//!   leaves.

use super::LogFault;
use base::crc32c;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::File;

pub(crate) const ALIGN: usize = 4096;
pub(crate) const BLOCK_HEAD: usize = 64;
const FILE_MAGIC: &[u8; 8] = b"ATOLLMEM";
const BLOCK_MAGIC: &[u8; 4] = b"BLCK";
/// The format of log files, checkpoints and the control file.
pub(crate) const FORMAT: u32 = 5;

/// Bytes at an address that is a multiple of [`ALIGN`], which direct writes require.
#[derive(Default)]
pub(crate) struct Aligned(Vec<u8>);

impl Aligned {
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> &[u8] {
        if self.0.len() < bytes.len() + ALIGN {
            self.0 = vec![0; (bytes.len() + ALIGN).next_power_of_two()];
        }
        let start = self.0.as_ptr().addr().wrapping_neg() % ALIGN;
        let place = &mut self.0[start..start + bytes.len()];
        place.copy_from_slice(bytes);
        place
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Kind {
    Log = 1,
    Checkpoint = 2,
}

/// The identity of a file, as its head states it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileHead {
    pub(crate) store: u64,
    pub(crate) kind: Kind,
    /// Log: the stream. Checkpoint: the part.
    pub(crate) part: u32,
    /// Log: the number of the file. Checkpoint: the number of the checkpoint.
    pub(crate) number: u64,
    pub(crate) life: u64,
    pub(crate) streams: u32,
}

fn put(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn get32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl FileHead {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; ALIGN];
        block[..8].copy_from_slice(FILE_MAGIC);
        put32(&mut block, 8, FORMAT);
        put(&mut block, 16, self.store);
        put32(&mut block, 24, self.kind as u32);
        put32(&mut block, 28, self.part);
        put(&mut block, 32, self.number);
        put(&mut block, 40, self.life);
        put32(&mut block, 48, self.streams);
        let sum = crc32c(&block[16..64]);
        put32(&mut block, 12, sum);
        block
    }

    /// Reads a file's head and checks that it is this one.
    pub(crate) fn expect(&self, path: &Path, file: &dyn File) -> Result<(), LogFault> {
        let mut head = [0; 64];
        if file.read_at(&mut head, 0)? < head.len() || &head[..8] != FILE_MAGIC {
            let what = "expected the head of a file of a main-memory store";
            return Err(LogFault::corrupt(path, 0, what));
        }
        let found = get32(&head, 8);
        if found != FORMAT {
            return Err(LogFault::Version { file: path.to_owned(), found, expected: FORMAT });
        }
        if get32(&head, 12) != crc32c(&head[16..]) {
            return Err(LogFault::corrupt(path, 12, "the file's head fails its checksum"));
        }
        if get(&head, 16) != self.store {
            return Err(LogFault::foreign(path, "its head has another store's number"));
        }
        if head[..52] != self.encode()[..52] {
            let why = "its head says that it is another file of this store: was it renamed?";
            return Err(LogFault::foreign(path, why));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHead {
    pub(crate) body: u64,
    /// The number of blocks before it in its file.
    pub(crate) index: u32,
    pub(crate) sequence: u64,
    pub(crate) sealed: u64,
    pub(crate) stable: u64,
    pub(crate) store: u64,
    pub(crate) number: u64,
    sum: u32,
}

impl BlockHead {
    /// The head of a block that [`BlockHead::finish`] is going to complete.
    pub(crate) fn new(store: u64, number: u64, sequence: u64) -> BlockHead {
        BlockHead { body: 0, index: 0, sequence, sealed: 0, stable: 0, store, number, sum: 0 }
    }

    /// Completes a block: `block` has room for the head, then the body.
    pub(crate) fn finish(&self, block: &mut Vec<u8>) {
        let body = (block.len() - BLOCK_HEAD) as u64;
        block[..4].copy_from_slice(BLOCK_MAGIC);
        let sum = crc32c(&block[BLOCK_HEAD..]);
        put32(block, 8, sum);
        put32(block, 12, self.index);
        put(block, 16, body);
        put(block, 24, self.sequence);
        put(block, 32, self.sealed);
        put(block, 40, self.stable);
        put(block, 48, self.store);
        put(block, 56, self.number);
        let sum = crc32c(&block[8..BLOCK_HEAD]);
        put32(block, 4, sum);
        block.resize(block.len().next_multiple_of(ALIGN), 0);
    }

    /// `None` when these bytes are not the head of a block.
    pub(crate) fn decode(bytes: &[u8]) -> Option<BlockHead> {
        let head = bytes.get(..BLOCK_HEAD)?;
        if &head[..4] != BLOCK_MAGIC || get32(head, 4) != crc32c(&head[8..]) {
            return None;
        }
        Some(BlockHead {
            sum: get32(head, 8),
            index: get32(head, 12),
            body: get(head, 16),
            sequence: get(head, 24),
            sealed: get(head, 32),
            stable: get(head, 40),
            store: get(head, 48),
            number: get(head, 56),
        })
    }

    /// The sequence of the first block in its file.
    pub(crate) fn first_of_file(&self) -> u64 {
        self.sequence.saturating_sub(u64::from(self.index))
    }

    pub(crate) fn has(&self, body: &[u8]) -> bool {
        crc32c(body) == self.sum
    }

    /// Bytes in the file, with padding; `None` if that overflows.
    pub(crate) fn span(&self) -> Option<u64> {
        self.body.checked_add(BLOCK_HEAD as u64)?.checked_next_multiple_of(ALIGN as u64)
    }
}

/// Reads a file's blocks from the front.
pub(crate) struct Blocks {
    file: Arc<dyn File>,
    path: PathBuf,
    len: u64,
    /// Offset of the next block.
    pub(crate) at: u64,
    /// Bytes read ahead, and their offset in the file.
    window: Vec<u8>,
    from: u64,
}

/// Bytes to read at a time.
const WINDOW: usize = 1 << 20;

/// A read inside a file returned fewer bytes than there are.
pub(crate) fn short_read(path: &Path, at: u64, read: usize, wanted: usize) -> LogFault {
    let what = format!("{}: a read at byte {at} gave {read} of {wanted} bytes", path.display());
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, what).into()
}

impl Blocks {
    pub(crate) fn new(file: &Arc<dyn File>, path: &Path) -> Result<Blocks, LogFault> {
        let (file, path, len) = (Arc::clone(file), path.to_owned(), file.len()?);
        Ok(Blocks { file, path, len, at: ALIGN as u64, window: Vec::new(), from: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `want` bytes at `at`; fewer where the file ends.
    fn bytes(&mut self, at: u64, want: usize) -> Result<&[u8], LogFault> {
        let has = (self.from..=self.from + self.window.len() as u64).contains(&at);
        let want = (self.len.saturating_sub(at)).min(want as u64) as usize;
        let skip = if has { (at - self.from) as usize } else { self.window.len() };
        if self.window.len() - skip < want {
            self.window.drain(..skip);
            self.from = at;
            let old = self.window.len();
            let ahead = (self.len - at).min(want.max(WINDOW) as u64) as usize;
            self.window.resize(ahead.max(old), 0);
            let read = self.file.read_at(&mut self.window[old..], at + old as u64)?;
            if old + read < self.window.len() {
                // Not to be taken for the end of the file, which would pass for the end of the log.
                return Err(short_read(&self.path, at + old as u64, read, self.window.len() - old));
            }
        }
        let skip = (at - self.from) as usize;
        let end = self.window.len().min(skip + want);
        Ok(self.window.get(skip..end).unwrap_or_default())
    }

    /// The head of a block at `at`, if there is one.
    pub(crate) fn head_at(&mut self, at: u64) -> Result<Option<BlockHead>, LogFault> {
        Ok(BlockHead::decode(self.bytes(at, BLOCK_HEAD)?))
    }

    /// Whether the file has bytes at `at`.
    pub(crate) fn reaches(&self, at: u64) -> bool {
        at < self.len
    }

    /// The next block, if it is whole and `expected` accepts its head. Then the reader stands
    /// behind it.
    pub(crate) fn next(
        &mut self,
        expected: impl FnOnce(&BlockHead) -> bool,
    ) -> Result<Option<(BlockHead, &[u8])>, LogFault> {
        let at = self.at;
        let Some(head) = self.head_at(at)?.filter(expected) else { return Ok(None) };
        let Some(span) = head.span().filter(|span| *span <= self.len.saturating_sub(at)) else {
            return Ok(None);
        };
        let len = head.body as usize;
        let bytes = self.bytes(at, span as usize)?;
        if !bytes.get(BLOCK_HEAD..BLOCK_HEAD + len).is_some_and(|body| head.has(body)) {
            return Ok(None);
        }
        self.at = at + span;
        let start = (at - self.from) as usize + BLOCK_HEAD;
        Ok(Some((head, &self.window[start..start + len])))
    }
}
