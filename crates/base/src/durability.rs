//! The promises of a log, of the disk-based store and of the main-memory store alike.

/// When a log record, or a commit, counts as durable. The option is spelled `--durability`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When the device has it: survives a power cut.
    Sync,
    /// When the device has it, and a quorum of other machines (`relay`): survives the loss of the
    /// machine.
    Replicated,
    /// When the operating system has it: in a buffer that is shared with the kernel, or written to
    /// a file. It survives the death of the process; a power cut may lose the last second. After a
    /// power cut the log is a consistent prefix: whole transactions, and all that they have read.
    Async,
    /// At once, in memory. Nothing is written.
    Memory,
}

impl Durability {
    pub const ALL: [Durability; 4] =
        [Durability::Sync, Durability::Replicated, Durability::Async, Durability::Memory];

    /// Whether a commit waits for the device.
    pub fn is_synced(self) -> bool {
        matches!(self, Durability::Sync | Durability::Replicated)
    }

    /// The value as the option spells it.
    pub fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Replicated => "replicated",
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
        known.ok_or_else(|| {
            format!("durability '{s}' is unknown; expected one of sync, replicated, async, memory")
        })
    }
}

/// The thread that flushes the log for a waiting task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushBy {
    /// The log's own thread, which is woken.
    Flusher,
    /// The caller: it calls the log's `flush` or `flush_here` soon.
    Caller,
}
