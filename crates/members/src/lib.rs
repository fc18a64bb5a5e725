//! Which machine has which island: leases, claims, and what is known of the islands' logs.
//!
//! ```text
//!   atoll/NAME/machines/ID   the machine's address; with its lease: gone when it is
//!   atoll/NAME/islands/I     term, machine; changed by compare-and-put
//!   atoll/NAME/acked/I       entries that have counted, a little behind
//!   atoll/NAME/away/ID       `away`: the machine has ended in order, and its islands stay its own
//!   atoll/NAME/manifest      text, the same for all machines
//!   atoll/NAME/databases/DB/islands/I, acked/I   the same in a cluster of several databases
//! ```
//!
//! A machine holds a lease and renews it. It answers until a fifth of the lease before its end
//! ([`Lease::answers_until`]), counted from before the renewal was asked for: so it is silent
//! before another machine can have the island, as long as the clocks' rates agree within that
//! fifth.
//!
//! A claim gives an island a new term. The log's own fence (`relay`) needs the term and nothing
//! else of this.
//!
//! The registry is behind [`Registry`]: etcd with the feature `etcd`, and one in memory for tests.

#![forbid(unsafe_code)]

mod claims;
#[cfg(feature = "etcd")]
mod etcd;
mod lease;
pub mod memory;
mod registry;

pub use claims::{Claim, Cluster, Refused};
pub use lease::Lease;
pub use registry::{Entry, Guard, LeaseId, Registry, Unreachable};

use std::sync::Arc;

/// The servers of an address.
///
/// # Errors
/// What is expected.
pub fn servers(text: &str) -> Result<Vec<String>, String> {
    let all: Vec<String> = text.split(',').map(|s| s.trim_end_matches('/').to_owned()).collect();
    let is_good = |server: &String| {
        server.strip_prefix("http://").is_some_and(|rest| {
            rest.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        })
    };
    match all.iter().all(is_good) {
        true => Ok(all),
        false => Err(format!("etcd '{text}': expected http://HOST:PORT,..")),
    }
}

/// Opens the registry at these servers (`http://HOST:PORT,..`).
///
/// # Errors
/// The address is none, or this build has no client for it.
pub fn registry(servers: &str) -> Result<Arc<dyn Registry>, String> {
    let all = self::servers(servers)?;
    #[cfg(feature = "etcd")]
    return Ok(Arc::new(etcd::Etcd::new(all)));
    #[cfg(not(feature = "etcd"))]
    drop(all);
    #[cfg(not(feature = "etcd"))]
    Err(format!("etcd {servers}: this build has no client for it; build with `--features etcd`"))
}
