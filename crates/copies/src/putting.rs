//! A folder becomes a copy.

use crate::error::local;
use crate::manifest::{Entry, Head, Manifest, digest};
use crate::storage::{FOLDER, Found, MANIFEST, Storage};
use crate::{CopyError, Go, Watch};
use bytes::Bytes;
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, PutPayload, WriteMultipart};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Bytes that are read at once. A larger file is sent in parts of this size at least.
const CHUNK: u64 = 8 << 20;
/// The most parts of an object that services take.
const PARTS: u64 = 9_000;
/// Parts on their way at a time.
const AT_A_TIME: usize = 4;

fn files_below(dir: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => files_below(&entry.path(), found)?,
            kind if kind.is_file() => found.push(entry.path()),
            // Sockets and links are no data.
            _ => {}
        }
    }
    Ok(())
}

/// How far a putting is.
struct Progress<'a> {
    done: u64,
    total: u64,
    watch: Watch<'a>,
}

impl Progress<'_> {
    fn add(&mut self, bytes: usize) -> Result<(), CopyError> {
        self.done += bytes as u64;
        match (self.watch)(self.done, self.total) {
            Go::On => Ok(()),
            Go::End => Err(CopyError::Interrupted),
        }
    }
}

impl Storage {
    /// Puts the folder `dir`, which nothing changes meanwhile, without the files named `except` at
    /// its top. `number` distinguishes the copy from others that are put at the same time.
    ///
    /// # Errors
    /// A file cannot be read; the storage does not take it; an interruption. All that was sent
    /// is removed, as far as the storage answers.
    pub fn put(
        &self,
        dir: &Path,
        except: &[&str],
        head: Head,
        number: u32,
        watch: Watch<'_>,
    ) -> Result<Found, CopyError> {
        let log = head.log.clone();
        let turn = self.next_turn(&log, head.next)?;
        let id = format!("{:020}-{turn:04}-{number:08x}", head.next);
        let put = self.put_files(dir, except, (&log, &id), watch).and_then(|files| {
            let found = Found { log: log.clone(), id: id.clone(), manifest: Manifest { head, files } };
            self.settle(&log, &id)?;
            self.require_whole(&found)?;
            let (key, bytes) = (self.key(&[&log, &id, MANIFEST]), found.manifest.encode());
            self.wait(self.store.put(&key, PutPayload::from(bytes)))?;
            self.settle(&log, &id)?;
            Ok(found)
        });
        if put.is_err() {
            // The rest is a half copy, which a later putting removes.
            let _ = self.remove(&log, &id);
        }
        put
    }

    fn put_files(
        &self,
        dir: &Path,
        except: &[&str],
        (log, id): (&str, &str),
        watch: Watch<'_>,
    ) -> Result<Vec<Entry>, CopyError> {
        let mut paths = Vec::new();
        files_below(dir, &mut paths).map_err(local(dir))?;
        paths.retain(|path| !except.iter().any(|name| *path == dir.join(name)));
        paths.sort_unstable();
        let mut total = 0;
        for path in &paths {
            total += fs::metadata(path).map_err(local(path))?.len();
        }
        let mut progress = Progress { done: 0, total, watch };
        let mut files = Vec::new();
        for path in paths {
            let name = path.strip_prefix(dir).ok().and_then(Path::to_str).map(str::to_owned);
            let Some(name) = name else {
                let what = "its name is no UTF-8: it is no file of Atoll, remove it".to_owned();
                return Err(CopyError::Local { path: path.display().to_string(), what });
            };
            let key = self.key(&[log, id, FOLDER, &name]);
            let (bytes, crc64) = self.put_file(&path, &key, &mut progress)?;
            files.push(Entry { path: name, bytes, crc64 });
        }
        Ok(files)
    }

    fn put_file(&self, path: &Path, key: &Key, progress: &mut Progress<'_>) -> Result<(u64, u64), CopyError> {
        let mut file = File::open(path).map_err(local(path))?;
        let length = file.metadata().map_err(local(path))?.len();
        let size = CHUNK.max(length / PARTS + 1);
        let mut sum = digest();
        let mut chunk = || {
            let mut bytes = Vec::new();
            (&mut file).take(size).read_to_end(&mut bytes).map_err(local(path))?;
            sum.update(&bytes);
            Ok::<_, CopyError>(bytes)
        };
        let first = chunk()?;
        let mut sent = first.len() as u64;
        if sent < size {
            progress.add(first.len())?;
            self.wait(self.store.put(key, PutPayload::from(first)))?;
            return Ok((sent, sum.finalize()));
        }
        let upload = self.wait(self.store.put_multipart(key))?;
        let mut writer = WriteMultipart::new_with_chunk_size(upload, size as usize);
        let mut next = first;
        while !next.is_empty() {
            let passed = progress.add(next.len()).and_then(|()| {
                self.wait(async {
                    writer.wait_for_capacity(AT_A_TIME).await?;
                    writer.put(Bytes::from(next));
                    Ok(())
                })?;
                chunk()
            });
            match passed {
                Ok(bytes) => next = bytes,
                Err(error) => {
                    // Its parts cost nothing once the service forgets them.
                    let _ = self.wait(writer.abort());
                    return Err(error);
                }
            }
            sent += next.len() as u64;
        }
        self.wait(writer.finish())?;
        Ok((sent, sum.finalize()))
    }
}
