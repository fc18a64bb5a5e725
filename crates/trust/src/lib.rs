//! Mutual TLS between the agents, instances and clients of a cluster.
//!
//! One command makes all certificates ([`make`]): an authority for the cluster, and a certificate
//! for each machine, for operators and for clients. Each says in its names what its holder may do
//! ([`channel::Role`]), and that of a machine has the machine's address. A process reads its own
//! directory ([`guard`]), which has three files, and passes the guard to `channel`.
//!
//! ```text
//!   DIR/authority.crt  authority.key       stays with the operator
//!   DIR/a/  authority.crt  own.crt  own.key     to machine a; likewise b, ...
//!   DIR/operator/  ...                     for `atoll cluster` and `atoll bench --hosts`
//!   DIR/client/    ...                     for programs that submit requests
//! ```
//!
//! Both ends verify: a chain to the cluster's authority, the dates, and the role that the
//! connection needs. A caller also verifies that the listener's certificate has the address that it
//! called.
//!
//! This crate knows no instance and no agent. It does no network I/O.

#![forbid(unsafe_code)]

mod guard;
mod make;
mod words;

pub use guard::guard;
pub use make::{Holder, Made, make};

use std::path::PathBuf;

/// The certificate of the authority, in each directory.
pub const AUTHORITY: &str = "authority.crt";
/// The holder's own certificate.
pub const OWN: &str = "own.crt";
/// The holder's own key.
pub const KEY: &str = "own.key";
/// The key of the authority, in the operator's directory of directories only.
const AUTHORITY_KEY: &str = "authority.key";

/// Why certificates cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(
        "cannot read {}: {why}; expected a directory made by `atoll cluster certificates`, with {AUTHORITY}, {OWN} and {KEY}",
        .path.display()
    )]
    Read { path: PathBuf, why: String },
    #[error("cannot write {}: {why}; name another directory, or make it writable", .path.display())]
    Write { path: PathBuf, why: String },
    #[error("the certificate in {} cannot be used: {why}; make new ones with `atoll cluster certificates`", .path.display())]
    Unusable { path: PathBuf, why: String },
    #[error("cannot make a certificate for {name}: {why}")]
    Make { name: String, why: String },
}
