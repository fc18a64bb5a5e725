//! The sizes of the log's parts.

use super::LogFault;
use base::Durability;
use std::time::Duration;

/// Sizes in bytes; [`LogOptions::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct LogOptions {
    pub durability: Durability,
    /// Files that are written side by side, each by threads of its own, with the workers divided
    /// among them. More than one pays if each lies on a device of its own. Fixed when the store is
    /// made.
    pub streams: u16,
    /// Size of a log file, and of a part of a checkpoint.
    pub segment_bytes: u64,
    /// [`crate::Memstore::checkpoint_due`] returns `true` once this many bytes have been logged
    /// since the last checkpoint.
    pub checkpoint_bytes: u64,
    /// The number of threads that read at opening, and that write a checkpoint.
    pub threads: usize,
    /// The number of bytes that a worker may log before it has to wait until they are written. Less
    /// if the workers could otherwise log more than half a file.
    pub backlog_bytes: usize,
    /// Records that no transaction waits for are written after this time, or after up to 50 ms if
    /// nothing was written for a while.
    pub leisure: Duration,
}

impl LogOptions {
    /// Defaults: one stream; log files of 64 MiB (filled with zeros ahead of need, in the
    /// background); a checkpoint every 512 MiB of log, which two threads replay in some seconds;
    /// two threads; a backlog of 16 MiB; 5 ms of leisure.
    pub fn new(durability: Durability) -> LogOptions {
        LogOptions {
            durability,
            streams: 1,
            segment_bytes: 64 << 20,
            checkpoint_bytes: 512 << 20,
            threads: 2,
            backlog_bytes: 16 << 20,
            leisure: Duration::from_millis(5),
        }
    }

    pub(crate) fn check(&self) -> Result<(), LogFault> {
        let complain = |text: String| Err(LogFault::Options(text));
        if !(1..=64).contains(&self.streams) {
            return complain(format!("{} log streams: expected 1 to 64", self.streams));
        }
        if !(1..=256).contains(&self.threads) {
            return complain(format!("{} threads for recovery: expected 1 to 256", self.threads));
        }
        if self.segment_bytes < 1 << 14 {
            return complain(format!("log files of {} bytes: expected at least 16384", self.segment_bytes));
        }
        Ok(())
    }
}

/// Counts since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Bytes of records.
    pub bytes: u64,
    /// Commits, prepares, decisions and notes that have been taken from the buffers.
    pub records: u64,
    /// Bytes written to log files, with heads and padding.
    pub written: u64,
    /// Blocks written. Each has ended an epoch.
    pub flushes: u64,
    /// Syncs that have ended.
    pub fsyncs: u64,
}
