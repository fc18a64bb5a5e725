//! The result of a simulation of threads, as values.

/// The parts of a context's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Index, heap and rows.
    Work,
    /// Acquiring and releasing row locks.
    Lock,
    /// Waiting for the head of a lock, or its latch.
    LockHead,
    /// Waiting for a row lock that another transaction holds.
    LockWait,
    Latch,
    LatchWait,
    /// Waiting for a page split.
    SplitWait,
    Log,
    LogWait,
    /// Actions, their queues, rendezvous points, records between threads.
    Message,
    MessageWait,
    Histogram,
}

/// The number of [`Part`]s.
pub const PARTS: usize = 12;

impl Part {
    pub const ALL: [Part; PARTS] = [
        Part::Work,
        Part::Lock,
        Part::LockHead,
        Part::LockWait,
        Part::Latch,
        Part::LatchWait,
        Part::SplitWait,
        Part::Log,
        Part::LogWait,
        Part::Message,
        Part::MessageWait,
        Part::Histogram,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Part::Work => "work",
            Part::Lock => "lock",
            Part::LockHead => "lock_head",
            Part::LockWait => "lock_wait",
            Part::Latch => "latch",
            Part::LatchWait => "latch_wait",
            Part::SplitWait => "split_wait",
            Part::Log => "log",
            Part::LogWait => "log_wait",
            Part::Message => "message",
            Part::MessageWait => "message_wait",
            Part::Histogram => "histogram",
        }
    }
}

/// The class of a critical section (thesis s3.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    Unbounded,
    Fixed,
    Cooperative,
}

impl Class {
    pub const ALL: [Class; 3] = [Class::Unbounded, Class::Fixed, Class::Cooperative];

    pub fn name(self) -> &'static str {
        match self {
            Class::Unbounded => "unbounded",
            Class::Fixed => "fixed",
            Class::Cooperative => "cooperative",
        }
    }
}

/// Counts and times of the measured window.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SectionOutcome {
    /// Committed transactions per second.
    pub tps: f64,
    pub committed: u64,
    pub window_ns: f64,
    pub contexts: usize,
    /// ns of all contexts by [`Part`].
    pub parts: [f64; PARTS],
    /// ns in which contexts had nothing to do.
    pub idle_ns: f64,
    /// Mean ns from a request to its answer.
    pub response_ns: f64,
    /// Entries and ns of waiting, by [`Class`].
    pub entries: [f64; 3],
    pub waits_ns: [f64; 3],
    /// ns inside those sections that another entry may meet, by [`Class`].
    pub inside_ns: [f64; 3],
    /// Latches of index pages, and of heap pages.
    pub latches: [f64; 2],
    /// Row locks of the central lock manager.
    pub row_locks: f64,
}

impl SectionOutcome {
    /// ns of contexts per transaction.
    pub fn per_transaction(&self, part: Part) -> f64 {
        self.parts[part as usize] / self.committed.max(1) as f64
    }

    /// ns of waiting per entry; 0 without entries.
    pub fn wait_per_entry(&self, class: Class) -> f64 {
        let entries = self.entries[class as usize];
        if entries == 0.0 { 0.0 } else { self.waits_ns[class as usize] / entries }
    }

    /// ns of waiting for a ns inside; 0 without entries that may meet.
    pub fn turns_waited(&self, class: Class) -> f64 {
        let inside = self.inside_ns[class as usize];
        if inside == 0.0 { 0.0 } else { self.waits_ns[class as usize] / inside }
    }

    /// Sections that a transaction enters.
    pub fn entries_per_transaction(&self, class: Class) -> f64 {
        self.entries[class as usize] / self.committed.max(1) as f64
    }
}
