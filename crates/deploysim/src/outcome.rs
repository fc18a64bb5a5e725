//! The result of a simulation, as values.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The parts of a worker's time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Rows: the transaction's own work.
    Work,
    /// Transfers of lines that several workers share, and the queue for hot ones.
    Sharing,
    /// Encoding, sending, looking, receiving, decoding.
    Communication,
    /// The commit protocol and sessions.
    Management,
    /// Appending to the log.
    Logging,
    /// Work of attempts that aborted.
    Aborted,
    /// Passes of the loop, and waking.
    Loop,
}

impl Component {
    pub const ALL: [Component; 7] = [
        Component::Work,
        Component::Sharing,
        Component::Communication,
        Component::Management,
        Component::Logging,
        Component::Aborted,
        Component::Loop,
    ];
}

/// A point of the latency distribution, in ns.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub max_ns: f64,
}

/// Messages of the measured part, by kind. All zero with one instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Messages {
    pub steps: u64,
    pub replies: u64,
    pub prepares: u64,
    pub votes: u64,
    pub releases: u64,
    pub decisions: u64,
    pub acks: u64,
    /// Requests that were sent on to their home, and its answers.
    pub forwarded: u64,
}

impl Messages {
    pub fn total(&self) -> u64 {
        self.protocol() + self.forwarded
    }

    /// Those of distributed transactions.
    pub fn protocol(&self) -> u64 {
        self.steps + self.replies + self.prepares + self.votes + self.releases + self.decisions + self.acks
    }
}

/// The resource that limits throughput.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The workers are busy; the component that takes most of their time.
    Workers(Component),
    /// One instance is busy while the others wait: its number.
    Instance(usize),
    /// A line that every transaction of an instance visits.
    HotLine { instance: usize, line: usize },
    /// Row locks: most of the transactions wait for one.
    RowLocks { hottest_key: u64 },
    /// Flushes of the log.
    Log { instance: usize },
    /// Clients wait for replies while workers idle.
    Messages,
    /// An open load is served in full.
    Load,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Workers(component) => write!(f, "workers, mostly by {component:?}"),
            Limit::Instance(number) => write!(f, "instance {number}, which gets more than its share"),
            Limit::HotLine { instance, line } => write!(f, "hot line {line} of instance {instance}"),
            Limit::RowLocks { hottest_key } => write!(f, "row locks, most of all on row {hottest_key}"),
            Limit::Log { instance } => write!(f, "flushes of the log of instance {instance}"),
            Limit::Messages => write!(f, "message latency: clients wait for replies"),
            Limit::Load => write!(f, "the offered load"),
        }
    }
}

/// One worker in the measured window. `busy + idle` is the window.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct WorkerTime {
    pub core: usize,
    pub instance: usize,
    pub busy_ns: f64,
    pub idle_ns: f64,
    /// Of the idle time: parked.
    pub parked_ns: f64,
}

/// A station that serves one visitor at a time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Station {
    pub instance: usize,
    /// The number of the profile's hot line; `None` for the log device.
    pub line: Option<usize>,
    /// The share of the window in which it served.
    pub utilisation: f64,
    pub visits: u64,
    /// Mean time that a visitor waited before its service.
    pub mean_wait_ns: f64,
}

/// The outcome of one simulation. Counts and times are those of the measured window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// Committed transactions per second.
    pub tps: f64,
    pub committed: u64,
    /// Those that touched another instance.
    pub distributed: u64,
    /// Participants besides the home, of all distributed transactions.
    pub participants: u64,
    /// Attempts that aborted and were retried.
    pub aborts: u64,
    pub window_ns: f64,
    /// From the request (closed: the end of the client's previous one) to the answer.
    pub latency: Latencies,
    /// Transactions under way, averaged over the window.
    pub mean_in_flight: f64,
    /// Busy ns by component, in the order of [`Component::ALL`].
    pub components: [f64; 7],
    pub workers: Vec<WorkerTime>,
    /// Messages sent.
    pub messages: Messages,
    /// Messages taken from links, and those still under way at the end.
    pub received: u64,
    pub on_the_way: u64,
    /// Waits for row locks, and their total time.
    pub lock_waits: u64,
    pub lock_wait_ns: f64,
    pub flushes: u64,
    pub stations: Vec<Station>,
    pub limit: Limit,
    /// Whether as many transactions were committed as asked for. If not, time ran out or nothing
    /// could go on, and `tps` is no rate that lasts.
    pub is_complete: bool,
    /// Elementary steps of the simulation: its own cost.
    pub steps: u64,
}

impl Outcome {
    /// The busy time of a component, in ns per committed transaction.
    pub fn per_transaction_ns(&self, component: Component) -> f64 {
        let at = Component::ALL.iter().position(|c| *c == component).unwrap_or(0);
        self.components[at] / self.committed.max(1) as f64
    }

    /// The share of the workers' time that is busy.
    pub fn utilisation(&self) -> f64 {
        let busy: f64 = self.workers.iter().map(|w| w.busy_ns).sum();
        busy / (self.window_ns * self.workers.len() as f64)
    }
}
