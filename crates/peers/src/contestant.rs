//! A contestant of a comparison, and the work it gets.

use crate::PeerFault;
use std::time::Duration;
use workload::micro::Op;

/// One measurement: transactions of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub op: Op,
    /// Clients without think time. Another engine has a thread for each; Atoll distributes them
    /// over its workers.
    pub clients: usize,
    pub seed: u64,
    pub warm_up: Duration,
    pub window: Duration,
}

impl Work {
    /// The number of client `client`'s request stream. With one client, every contestant gets
    /// requests for exactly the same rows.
    pub fn stream(&self, client: usize) -> u64 {
        (self.seed << 24) + client as u64
    }
}

/// The result of a measured window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rate {
    /// Committed transactions per second.
    pub tps: f64,
    /// Committed transactions per second of CPU time of the whole process, including an engine's
    /// background threads. This is the comparable figure on a shared machine. The kernel counts CPU
    /// time in ticks of 10 ms. The figure is 0 for a window without a tick, and for an engine in
    /// other processes.
    pub per_cpu_second: f64,
    /// Repeated transactions per committed transaction.
    pub retries: f64,
}

impl Rate {
    pub(crate) fn new(committed: u64, retries: u64, seconds: f64, cpu_ns: u64) -> Rate {
        let per = |of: u64, share: f64| if share > 0.0 { of as f64 / share } else { 0.0 };
        Rate {
            tps: per(committed, seconds),
            per_cpu_second: per(committed, cpu_ns as f64 / 1e9),
            retries: per(retries, committed as f64),
        }
    }
}

pub trait Contestant {
    fn name(&self) -> &str;

    /// # Errors
    /// A transaction failed for another reason than a conflict, none was committed in the window,
    /// or the engine failed.
    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault>;

    /// Reads all rows: each must be present and undamaged, and the counters must add up to the
    /// updates committed so far.
    ///
    /// # Errors
    /// [`PeerFault::Wrong`] if that is not so.
    fn check(&mut self) -> Result<(), PeerFault>;
}

/// Whether a commit is acknowledged before or after it is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commits {
    Unsynced,
    Synced,
}
