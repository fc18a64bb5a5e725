//! The constants of the worker's loop and of the log's threads that the simulation repeats.
//! `instance::worker`, `instance::gate`, `deploy` and `memstore::log` have them; a test of this
//! crate compares these with their source.

/// Passes over the ready tasks before the worker looks at its links.
pub const TURNS: usize = 8;
/// The shortest interval at which a busy worker looks at its sockets.
pub const ASK_NS: u64 = 4_000;
/// Messages taken from one link before the others have their turn.
pub const BUDGET: usize = 32;
/// The time without work after which a worker parks.
pub const SPIN_US: u64 = 50;
/// Distributed transactions that a worker has begun and not ended, where validation protects reads.
pub const GATE: usize = 64;
/// Threads that write the log of an instance of `occ`.
pub const LOG_THREADS: usize = 2;
/// The pause of such a thread after a quick write, if commits wait already.
pub const LOG_PAUSE_NS: u64 = 50_000;
/// The kernel lets a pause take up to this much longer (`PR_SET_TIMERSLACK`, the default).
pub const TIMER_SLACK_NS: u64 = 50_000;
