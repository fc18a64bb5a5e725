//! Sizes of a log, and the ways in which it works.

use crate::LogFault;
use base::Durability;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// How appenders share the log; see `docs/log.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Insert {
    /// One lock, held while the record is copied.
    Mutex,
    /// A consolidation array: a thread that finds the lock busy joins a group, and copies outside
    /// the lock.
    Consolidated,
    /// Each thread reserves runs of the log and fills them alone.
    #[default]
    Extents,
}

impl Insert {
    pub const ALL: [Insert; 3] = [Insert::Mutex, Insert::Consolidated, Insert::Extents];

    pub fn name(self) -> &'static str {
        match self {
            Insert::Mutex => "mutex",
            Insert::Consolidated => "consolidated",
            Insert::Extents => "extents",
        }
    }
}

impl fmt::Display for Insert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Insert {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = Insert::ALL.into_iter().find(|insert| insert.name() == s);
        known.ok_or_else(|| format!("log insert '{s}' is unknown; expected mutex, consolidated or extents"))
    }
}

/// Sizes in bytes; [`LogOptions::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// When a record counts as durable.
    pub durability: Durability,
    /// Size of a segment file. A power of two is not needed.
    pub segment_bytes: u64,
    /// Size of the ring between appending and writing, a power of two. A record may take a quarter
    /// of it.
    pub buffer_bytes: usize,
    /// The way in which appenders share the log.
    pub insert: Insert,
    /// Folder to which segments move when only readers of old records need them; `None` removes
    /// them.
    pub archive: Option<PathBuf>,
}

impl LogOptions {
    /// Defaults. A segment has 16 MiB, filled with zeros in 10-20 ms in the background. The ring
    /// has 16 MiB, about 50 ms of appending at full speed, more than a sync takes. In memory mode
    /// it has 1 MiB, which stays in a core's cache.
    pub fn new(durability: Durability) -> LogOptions {
        let buffer_bytes = if durability == Durability::Memory { 1 << 20 } else { 16 << 20 };
        LogOptions {
            durability,
            segment_bytes: 16 << 20,
            buffer_bytes,
            insert: Insert::default(),
            archive: None,
        }
    }

    /// Falls back to [`Insert::Mutex`] in async mode if the kernel gives no boot id. The extents of
    /// a killed process leave holes in the ring, and only the boot id tells these holes from lost
    /// records.
    pub(crate) fn where_holes_are_told(self, boot: u64) -> LogOptions {
        let insert =
            if self.durability == Durability::Async && boot == 0 { Insert::Mutex } else { self.insert };
        LogOptions { insert, ..self }
    }

    pub(crate) fn check(&self) -> Result<(), LogFault> {
        if !self.buffer_bytes.is_power_of_two() || !(1 << 12..=1 << 31).contains(&self.buffer_bytes) {
            return Err(LogFault::Options(format!(
                "log buffer of {} bytes: expected a power of two from 4096 to 2147483648",
                self.buffer_bytes
            )));
        }
        if self.segment_bytes < 1 << 13 {
            return Err(LogFault::Options(format!(
                "log segments of {} bytes: expected at least 8192",
                self.segment_bytes
            )));
        }
        Ok(())
    }
}

/// Counts since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes appended, frames and padding included.
    pub bytes: u64,
    /// The part of `bytes` that holds no record: pads (reserved and not used) and marks.
    pub padding: u64,
    /// Number of records appended.
    pub records: u64,
    /// Number of writes by the flusher.
    pub flushes: u64,
    /// Number of syncs.
    pub fsyncs: u64,
}
