//! What a log promises, and how large its parts are.

use crate::LogFault;
use std::path::PathBuf;

/// When a record counts as durable. The option is spelled `--durability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When the device has it: survives a power cut.
    Sync,
    /// When it is appended: the buffer is shared with the kernel, so it survives the death of the process, but a
    /// power cut may lose the last second. What is there after a power cut is still a consistent prefix.
    Async,
    /// When it is appended, to memory that forgets: nothing is written anywhere.
    Memory,
}

impl Durability {
    pub const ALL: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Memory];

    /// As the option spells it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Async => "async",
            Durability::Memory => "memory",
        }
    }
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Durability {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = Durability::ALL.into_iter().find(|d| d.name() == s);
        known.ok_or_else(|| format!("durability '{s}' is unknown; expected one of sync, async, memory"))
    }
}

/// Who sees to it that a task's part of the log gets to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urge {
    /// The flusher's thread, which is woken.
    Flusher,
    /// The caller, who says [`crate::Log::flush`] or [`crate::Log::flush_here`] before long.
    Caller,
}

/// How appenders share the log; see `docs/log.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insert {
    /// One lock, held while the record is copied.
    Mutex,
    /// A consolidation array: who finds the lock busy joins a group, and copies outside the lock.
    Consolidated,
    /// Each thread reserves runs of the log and fills them by itself.
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

/// Sizes in bytes; [`LogOptions::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct LogOptions {
    pub durability: Durability,
    /// Size of a segment file. A power of two is not needed.
    pub segment_bytes: u64,
    /// Size of the ring between appending and writing, a power of two. A record may take a quarter of it.
    pub buffer_bytes: usize,
    pub insert: Insert,
    /// Where segments go when nothing but old readers needs them; `None` removes them.
    pub archive: Option<PathBuf>,
}

impl LogOptions {
    /// Defaults: segments of 16 MiB (filled with zeros in 10-20 ms, in the background); a ring of 16 MiB, about
    /// 50 ms of appending at full speed, more than a sync takes. In memory 1 MiB, which stays in a core's cache.
    pub fn new(durability: Durability) -> LogOptions {
        let buffer_bytes = if durability == Durability::Memory { 1 << 20 } else { 16 << 20 };
        LogOptions {
            durability,
            segment_bytes: 16 << 20,
            buffer_bytes,
            insert: Insert::Extents,
            archive: None,
        }
    }

    /// A killed process' extents leave holes in the ring, which only the kernel's boot id tells from losses.
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
    /// Bytes of those that hold no record: what was reserved and not used, and marks.
    pub padding: u64,
    pub records: u64,
    /// Times the flusher wrote.
    pub flushes: u64,
    /// Times the device was waited for.
    pub fsyncs: u64,
}
