//! A copy becomes a folder.

use crate::error::local;
use crate::manifest::{Entry, digest};
use crate::storage::{FOLDER, Found, Storage};
use crate::{CopyError, Go, Watch};
use futures_util::{Stream, StreamExt};
use object_store::ObjectStoreExt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// The least length of a hole, in bytes: runs of zeros are not written.
const HOLE: usize = 64 << 10;

struct Writing<'a> {
    file: File,
    at: u64,
    path: &'a Path,
}

impl Writing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(HOLE) {
            if piece.len() < HOLE || piece.iter().any(|byte| *byte != 0) {
                self.file.seek(SeekFrom::Start(self.at))?;
                self.file.write_all(piece)?;
            }
            self.at += piece.len() as u64;
        }
        Ok(())
    }

    fn finish(self) -> Result<(), CopyError> {
        self.file.set_len(self.at).and_then(|()| self.file.sync_all()).map_err(local(self.path))
    }
}

impl Storage {
    /// Writes the folder of a copy into `to`, a directory that is there and empty. The length and
    /// checksum of each file are verified; it is on the device afterwards, its name is not.
    ///
    /// # Errors
    /// A file of the copy is missing or damaged, or was removed meanwhile; `to` cannot be written;
    /// an interruption.
    pub fn fetch(&self, found: &Found, to: &Path, watch: Watch<'_>) -> Result<(), CopyError> {
        self.require_whole(found)?;
        let (mut done, total) = (0, found.manifest.bytes());
        for entry in &found.manifest.files {
            let path = to.join(&entry.path);
            let parent = path.parent().unwrap_or(to);
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(local(parent))?;
            let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let mut writing = Writing { file: file.map_err(local(&path))?, at: 0, path: &path };
            let before = done;
            self.fetch_file(found, entry, &mut |bytes| {
                writing.write(bytes).map_err(local(&path))?;
                done += bytes.len() as u64;
                match watch(done, total) {
                    Go::On => Ok(()),
                    Go::End => Err(CopyError::Interrupted),
                }
            })?;
            debug_assert_eq!(done - before, entry.bytes);
            writing.finish()?;
        }
        Ok(())
    }

    fn fetch_file(
        &self,
        found: &Found,
        entry: &Entry,
        each: &mut dyn FnMut(&[u8]) -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        let Found { log, id, .. } = found;
        let key = self.key(&[log, id, FOLDER, &entry.path]);
        let Some(got) = self.wait_if_there(self.store.get(&key))? else {
            return Err(self.damaged(log, id, format!("lacks {}", entry.path)));
        };
        let mut stream = got.into_stream();
        let (mut bytes, mut sum) = (0, digest());
        while let Some(chunk) = self.next(&mut stream)? {
            bytes += chunk.len() as u64;
            if bytes > entry.bytes {
                break;
            }
            sum.update(&chunk);
            each(&chunk)?;
        }
        if bytes != entry.bytes || sum.finalize() != entry.crc64 {
            return Err(self.damaged(log, id, format!("has a damaged file, {}", entry.path)));
        }
        Ok(())
    }

    fn next(
        &self,
        stream: &mut (impl Stream<Item = object_store::Result<bytes::Bytes>> + Unpin),
    ) -> Result<Option<bytes::Bytes>, CopyError> {
        self.wait(async { stream.next().await.transpose() })
    }
}
