//! The speed of the disk itself: the limit for commits that wait for it, and for pages that are
//! read and evicted.

use crate::contestant::{Contestant, Rate, Work};
use crate::fault::PeerFault;
use crate::threads::{Client, drive};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use topology::CpuId;

/// Linux's `O_DIRECT | O_DSYNC`.
const DIRECT_SYNCED: i32 = 0o40_000 | 0o10_000;
const BLOCK: usize = 4096;
/// Each file is overwritten in order, again and again. It is long enough that consecutive writes do
/// not overlap.
const FILE_BYTES: usize = 4 << 20;
/// Maximum number of concurrent writers: more would only queue in the device.
const WRITERS: usize = 16;

/// A block at an address that direct writes accept.
#[repr(align(4096))]
struct Block([u8; BLOCK]);

/// The disk as a contestant: a commit is one 4 KiB write, direct and synced, to a file of which all
/// blocks are allocated. Each client writes to its own file.
pub struct Device {
    paths: Vec<PathBuf>,
    cpus: Vec<Option<CpuId>>,
}

struct Writer {
    path: PathBuf,
    file: File,
    block: Block,
    writes: usize,
}

impl Client for Writer {
    fn draw(&mut self) {}

    fn attempt(&mut self) -> Result<(), PeerFault> {
        let at = self.writes * BLOCK % FILE_BYTES;
        self.writes += 1;
        self.file.write_all_at(&self.block.0, at as u64).map_err(PeerFault::io(&self.path))
    }
}

impl Device {
    /// Creates the files for `clients` in the existing directory `dir`.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn prepare(dir: &Path, clients: usize, cpus: &[Option<CpuId>]) -> Result<Device, PeerFault> {
        let paths: Vec<_> = (0..clients.min(WRITERS)).map(|n| dir.join(format!("device-{n}"))).collect();
        for path in &paths {
            std::fs::write(path, vec![1; FILE_BYTES]).map_err(PeerFault::io(path))?;
            File::open(path).and_then(|f| f.sync_all()).map_err(PeerFault::io(path))?;
        }
        Ok(Device { paths, cpus: cpus.to_vec() })
    }
}

impl Contestant for Device {
    fn name(&self) -> &str {
        "the device: 4 KiB direct synced writes"
    }

    /// # Errors
    /// The file system does not support direct writes.
    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault> {
        let work = Work { clients: self.paths.len(), ..*work };
        let writer = |number: usize| {
            let path = self.paths[number].clone();
            let opened = OpenOptions::new().write(true).custom_flags(DIRECT_SYNCED).open(&path);
            let file = opened.map_err(PeerFault::io(&path))?;
            Ok(Writer { path, file, block: Block([2; BLOCK]), writes: 0 })
        };
        drive(self.name(), &work, &self.cpus, writer).map(|(rate, _)| rate)
    }

    fn check(&mut self) -> Result<(), PeerFault> {
        Ok(())
    }
}
