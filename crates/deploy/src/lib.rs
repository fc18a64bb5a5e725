//! Which instances run where: from a [`Deployment`] (a value) to a [`Running`] one and back to nothing.
//!
//! It knows instances from outside only (start, connect, load, drive, measure, halt, audit, stop); a workload is a
//! [`workload::WorkloadSpec`] to it, handed on, and an audit is bytes. It never looks into a message between instances.
//!
//! A deployment enters through [`Deployment::launch`]. Each instance gets a host, a child process or a thread, and in
//! both the same loop takes orders from one end of a unix socket pair ([`host_child`] in a child). The caller orders
//! through [`Running`], whose [`Running::tend`] is the supervisor. Leaving it, in order ([`Running::stop`]) or by any
//! error, takes every child and every temporary file along.
//!
//! A deployment that is given a data directory runs on a copy of what was loaded there, unless it is told to keep what it
//! does ([`DataUse`]); [`Scratch`] is a place for databases that several deployments of one run share.
//!
//! [`inspect`] looks at a deployment that does not run, and changes nothing.
//!
//! [`standing`] tells what a directory is; [`back_up`] copies a database that does not run, [`restore`] makes one of the copy.
//!
//! Who may do what: the directory of an instance belongs to its host alone; the deployment's own files (manifest, lock)
//! to the parent alone; a child that loses its parent ends.

#![forbid(unsafe_code)]

mod backup;
mod control;
mod copy;
pub mod engine;
mod error;
mod footprint;
mod host;
mod inspect;
mod layout;
mod lock;
mod manifest;
mod member;
mod partial;
mod plan;
mod restore;
mod running;
mod scratch;
mod whole;

pub use backup::{Copied, Copying, back_up};
pub use error::DeployError;
pub use footprint::Footprint;
pub use host::{cpu_ns, host_child};
pub use inspect::{Inspected, inspect, inspection_bytes};
pub use instance::offline::{Examined, RESTORE};
pub use layout::{Standing, Within, begin_sweep, free_name, name_in_sweep, standing};
pub use manifest::{FORMAT, Home, Look, MEMORY, Manifest, Unfinished, look, manifest_in};
pub use plan::{
    ChannelKind, DataUse, Deployment, Host, Interrupt, LOOPBACK, MIN_INSTANCE_MEMORY, durability_name,
};
pub use restore::restore;
pub use running::{Change, Running};
pub use scratch::Scratch;
pub use whole::require_schema;
