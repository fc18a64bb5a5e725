//! Many machines: an agent for each, and the way in which a deployment gives orders to instances
//! elsewhere.
//!
//! ```text
//!   atoll bench --hosts FILE                   machine a                machine b
//!   deploy::Running                            atoll agent              atoll agent
//!     Member --- bridge ~~~~ TCP or TLS ~~~~~~ bridge --- Keeper          ...
//!     Member --- bridge ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~ bridge --- Keeper
//!                                              instance 0 ~~ TCP or TLS ~~ instance 1
//! ```
//!
//! - [`Hosts`]: the machines, from a file.
//! - [`agent`]: what runs on each. It describes its machine, starts instances for deployments, and
//!   starts them again when they die. They end with the deployment's
//!   connection, and with the agent.
//! - [`Fleet`]: the operator's side. It checks that all agents are of one cluster and one version,
//!   and is the [`deploy::Machines`] of a deployment.
//! - [`start`]: starts agents for experiments, through the command that the file names for a host.
//!
//! A connection begins with a [`protocol::Greeting`] in which the caller names cluster, version and
//! the machine that it means. Then one question is answered; after [`protocol::Ask::Attach`] the
//! connection carries the orders to one instance. Both sides speak at least every half second: a
//! machine that has been silent for 5 s counts as lost.
//!
//! With certificates (`--tls`) every connection between machines is TLS, and only an operator may
//! give orders to an agent.
//!
//! # What is absent
//!
//! No service of its own: [`agent::Lease`] is the one that grants the right to serve,
//! [`agent::Logs`] the relay with the islands' logs; both are given from outside. With both, agents
//! take over the islands of machines that are gone; otherwise an operator says so
//! ([`Fleet::take_over`]).

#![forbid(unsafe_code)]

pub mod agent;
mod bridge;
mod deployed;
mod error;
mod fleet;
mod heir;
mod hosts;
mod lease;
mod moving;
pub mod protocol;
pub mod start;
mod talk;

pub use error::ClusterError;
pub use fleet::{Fleet, HostStatus, status};
pub use hosts::{HostLine, Hosts, TakeOver};
pub use protocol::Loss;
