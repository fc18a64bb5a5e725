//! Deployments: which instances run where. Leads from a [`Deployment`] (a value) to a [`Running`]
//! one, and removes every trace of it at the end.
//!
//! This crate knows instances only from outside (start, connect, load, drive, measure, halt, audit,
//! stop). It passes a workload on as a [`workload::WorkloadSpec`], and an audit as bytes. It never
//! looks into a message between instances.
//!
//! A deployment enters through [`Deployment::launch`]. Each instance gets a host, a child process
//! or a thread. In both, the same loop takes orders from one end of a unix socket pair
//! ([`host_child`] in a child). The caller gives orders through [`Running`]; [`Running::tend`] is
//! the supervisor. At the end, in order ([`Running::stop`]) or after any error, every child ends
//! and every temporary file is removed.
//!
//! A deployment with a data directory runs on a copy of the loaded data, unless it is told to keep
//! its changes ([`DataUse`]). [`Scratch`] is a place for databases that several deployments of one
//! run share.
//!
//! A deployment over several machines ([`Machines`]) gives the same orders; the agent of each
//! machine has a [`Keeper`] for each instance. The way between them is the caller's.
//!
//! [`inspect`] examines a deployment that does not run, and changes nothing.
//!
//! A [`Follower`] brings a copy of a database up to date from the logs of its islands at a relay.
//! It runs nothing.
//!
//! [`standing`] returns the kind of a directory; [`back_up`] copies a database that does not run,
//! and [`restore`] makes a database of such a copy.
//!
//! # Access rules
//!
//! The directory of an instance belongs to its host alone. The deployment's own files (manifest,
//! lock) belong to the parent alone. A child that loses its parent ends.

#![forbid(unsafe_code)]

mod backup;
mod control;
mod copy;
mod distant;
pub mod engine;
mod error;
mod files;
mod following;
mod footprint;
mod home;
mod host;
mod inspect;
mod layout;
mod lock;
mod machines;
mod manifest;
mod member;
mod partial;
mod plan;
mod restore;
mod running;
mod scratch;
mod whole;

pub use backup::{Copied, Copying, back_up};
pub use distant::{Distant, DistantHost, Errand, Machines};
pub use engine::{log_reaches, relay_address};
pub use error::DeployError;
pub use following::{Follower, LogAtRelay, Reach, make_whole};
pub use footprint::Footprint;
pub use home::{Home, Look, Unfinished, look};
pub use host::{Guards, cpu_ns, host_child, host_child_guarded};
pub use inspect::{Inspected, inspect, inspection_bytes};
pub use instance::offline::{Examined, RESTORE};
pub use layout::{Standing, Within, begin_sweep, free_name, name_in_sweep, standing};
pub use machines::{Ground, Keeper, Kept, Right, islands_in, read_description, write_description};
pub use manifest::{FORMAT, MEMORY, Manifest, manifest_in};
pub use plan::{
    ChannelKind, DataUse, Deployment, Host, Interrupt, LOOPBACK, MIN_INSTANCE_MEMORY, RelayClaim, RelayPlace,
    durability_name,
};
/// Signs in the log of an island of how far the directory of its owner is.
pub use relay::Signs;
/// In the directory of an island with a log at a relay: how far the directory has the log.
pub use relay::files::MARK as RELAY_MARK;
pub use restore::restore;
pub use running::Running;
pub use scratch::Scratch;
pub use whole::require_schema;
