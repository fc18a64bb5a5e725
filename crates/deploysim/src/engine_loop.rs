//! The constants of the worker's loop that the simulation repeats. `instance::worker`,
//! `instance::gate` and `deploy` have them; a test of this crate compares these with their source.

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
