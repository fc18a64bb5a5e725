//! What operators and agents say to each other.
//!
//! The greeting travels as the hello of the channel. After it each frame is one value in postcard,
//! until a connection is attached; then each frame is a tag and bytes (see `bridge`).

use base::InstanceId;
use serde::{Deserialize, Serialize};

/// Counted up when anything in this file changes its meaning.
pub const VERSION: u16 = 3;

/// The first words of an operator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Greeting {
    /// [`VERSION`]. It stays the first field for ever.
    pub version: u16,
    /// The version of the program with its commit: instances of one deployment are of one build.
    pub build: String,
    pub cluster: String,
    /// The machine that the operator means to reach.
    pub machine: String,
}

/// What a directory of an island is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// It is the island.
    Island,
    /// It is kept for the day on which the island's machine is gone.
    Copy,
}

/// What to do where a take-over would lose commits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Loss {
    Refuse,
    Accept,
}

/// A question to an agent. Each is answered once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ask {
    Status,
    /// Start the host of an instance and carry its orders over this connection; or carry those of a
    /// host that was started again.
    Attach {
        deployment: u64,
        database: Option<String>,
        instance: InstanceId,
        /// It has run before in this deployment.
        again: bool,
    },
    Read {
        database: String,
    },
    /// `None` removes the database.
    Write {
        database: String,
        text: Option<String>,
    },
    /// The islands of a database that are here.
    Islands {
        database: String,
    },
    /// Send the directory of an island, in pieces (see `moving`).
    Fetch {
        database: String,
        island: InstanceId,
    },
    /// Take the directory of an island, in pieces.
    Take {
        database: String,
        island: InstanceId,
        kind: Kind,
    },
    /// The islands of a database of which a copy is here.
    Copies {
        database: String,
    },
    /// Claim an island of a machine that has lost its lease, and make the copy here the island.
    TakeOver {
        database: String,
        island: InstanceId,
        loss: Loss,
    },
    /// Remove the directory of an island, which is elsewhere now.
    Forget {
        database: String,
        island: InstanceId,
    },
    /// Stop all instances, and end.
    End,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    Status(Box<AgentStatus>),
    Attached,
    Description(Option<String>),
    Islands(Vec<InstanceId>),
    /// The pieces follow, or may come.
    Ready,
    Done,
    /// The cause, and what to do.
    Refused(String),
}

/// An agent and its machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AgentStatus {
    pub machine: String,
    pub build: String,
    pub up_s: u64,
    /// Distinguishes this boot of the machine's kernel from every other one.
    pub boot: u64,
    /// A [`topology::Machine`] in JSON, limited to the CPUs that the agent may use.
    pub topology: String,
    pub deployments: Vec<DeploymentStatus>,
    /// The islands that it has taken over by itself.
    pub taken: Vec<TakenStatus>,
    /// The islands that it would take over, if nothing were lost.
    pub refused: Vec<RefusedStatus>,
}

/// An island that an agent has taken over by itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TakenStatus {
    pub database: String,
    pub island: InstanceId,
    /// The machine that is gone.
    pub from: String,
    pub ago_ms: u64,
}

/// An island of a machine that is gone, which an agent does not take over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RefusedStatus {
    pub database: String,
    pub island: InstanceId,
    /// The machine that is gone.
    pub from: String,
    /// The cause, and what to do.
    pub why: String,
}

/// The part of a deployment on one machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeploymentStatus {
    pub deployment: u64,
    pub database: Option<String>,
    pub instances: Vec<InstanceStatus>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InstanceStatus {
    pub instance: InstanceId,
    pub pid: u32,
    pub restarts: u64,
}

/// A value as bytes.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("it is a plain value")
}

/// # Errors
/// The bytes are of another version.
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|_| {
        format!(
            "it sent {} bytes that this version does not understand: run one version on all hosts",
            bytes.len()
        )
    })
}
