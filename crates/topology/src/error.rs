//! Errors of machines, placements and probes, each as one line: the value, the expected value, the
//! advice.

use thiserror::Error;

use crate::cpu::CpuId;

/// A machine that cannot be described or discovered.
#[derive(Debug, Error, PartialEq)]
pub enum MachineError {
    /// The argument is neither `live`, nor a readable file, nor a synthetic description.
    #[error("machine {value:?}: {problem}; expected {expected}; {advice}")]
    Described {
        /// The argument as given.
        value: String,
        /// The problem with it.
        problem: String,
        /// The expected form.
        expected: &'static str,
        /// Advice to the user.
        advice: &'static str,
    },
    /// A line of a latency file is wrong.
    #[error("{file}:{problem}; expected {expected}; {advice}")]
    Line {
        /// The file as given.
        file: String,
        /// The line's number, and the problem with it.
        problem: String,
        /// The expected form.
        expected: &'static str,
        /// Advice to the user.
        advice: &'static str,
    },
    /// The machine under this process could not be discovered.
    #[error(
        "machine \"live\": {problem}; expected /sys/devices/system/cpu or an affinity mask to name a CPU; mount /sys or describe the machine with --machine FILE"
    )]
    Live {
        /// The cause.
        problem: String,
    },
}

/// A deployment that does not fit the machine.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlacementError {
    /// More instances than workers: some instance would have none.
    #[error(
        "islands {instances}: more instances than the {workers} worker(s); expected 1 to {workers}; ask for fewer islands or more --workers"
    )]
    MoreInstancesThanWorkers {
        /// The requested number.
        instances: usize,
        /// Workers in total.
        workers: usize,
    },
    /// Zero instances or zero workers.
    #[error("{what} 0: expected at least 1; leave the option out for the default")]
    Zero {
        /// The option.
        what: &'static str,
    },
    /// More worker threads than can be intended.
    #[error("workers {workers}: expected at most {most} on this machine ({cpus} CPUs); ask for fewer")]
    TooManyWorkers {
        /// The requested number.
        workers: usize,
        /// The largest number allowed.
        most: usize,
        /// Number of CPUs in the process' set.
        cpus: usize,
    },
    /// The process may use no CPU.
    #[error(
        "the CPU set of this process holds no CPU of the machine; expected at least one; widen it with taskset or the container's cpuset"
    )]
    NoCpu,
    /// A word that names no size.
    #[error(
        "islands {word:?}: not a size; expected a number from 1 or per-core, per-l3, per-socket, shared; correct --islands"
    )]
    UnknownSize {
        /// The word.
        word: String,
    },
    /// A word that names no placement.
    #[error("placement {word:?}: not a placement; expected island, spread, mix or os; correct --placement")]
    UnknownPlacement {
        /// The word.
        word: String,
    },
}

/// A thread or process that could not be pinned as requested.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "cannot pin {who} to CPU {cpus}: {reason}; expected CPUs of this process' set ({allowed}); choose among them or run with --placement os"
)]
pub struct PinError {
    /// "this thread" or "process 17".
    pub who: String,
    /// The requested CPUs, as a list.
    pub cpus: String,
    /// The system's error text.
    pub reason: String,
    /// The CPUs that are possible.
    pub allowed: String,
}

/// A latency that could not be measured.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ProbeError {
    /// A ping-pong needs two CPUs.
    #[error(
        "core-to-core latency from CPU {0} to itself: expected two different CPUs; give the process a second CPU or leave the probe out"
    )]
    SameCpu(CpuId),
    /// A thread could not be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// Only the machine under this process can be measured.
    #[error("cannot measure a described machine; expected --machine live; leave --probe out")]
    NotLive,
    /// The CPUs were too busy for a single sample in the time allowed.
    #[error(
        "core-to-core latency between CPU {0} and CPU {1}: no sample within the time limit; expected two CPUs that are not taken by other work; try again when the machine is quieter"
    )]
    Starved(CpuId, CpuId),
    /// A thread could not be started.
    #[error(
        "cannot start a measuring thread: {0}; expected room for two threads; raise the limit of processes"
    )]
    Thread(String),
}
