//! The lease of an agent, its claims of islands, and how far their logs are: etcd and a relay.

use crate::failure::Failure;
use crate::membership::{OPENINGS, TTL, patiently};
use base::InstanceId;
use cluster::agent::{Claim, Lease, Logs};
use members::{Cluster, Refused};
use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often an agent without a lease asks for one.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// An agent that has its lease for less than this takes over no island: after an outage of etcd all
/// others ask for theirs too.
const SETTLED: Duration = Duration::from_secs(4);

/// The agent's part of etcd.
pub(crate) struct Leased {
    cluster: Cluster,
    machine: String,
    /// Where the agent listens, for the registry.
    address: String,
    held: Mutex<Held>,
}

struct Held {
    lease: Option<members::Lease>,
    /// When it was given.
    since: Instant,
    /// When it was asked for last.
    asked: Instant,
    /// Why there is none.
    why: String,
}

impl Leased {
    /// Takes the lease of a machine.
    ///
    /// # Errors
    /// The servers do not answer; another agent has the name of this one.
    pub fn begin(servers: &str, cluster: &str, machine: &str, address: &str) -> Result<Leased, Failure> {
        let cluster = Cluster::new(members::registry(servers).map_err(Failure::Usage)?, cluster);
        let lease = Some(patiently(|| cluster.lease(machine, address, TTL))?);
        patiently(|| Ok(cluster.set_away(machine, false)?))?;
        let (machine, address) = (machine.to_owned(), address.to_owned());
        let (since, asked) = (Instant::now(), Instant::now());
        let held = Mutex::new(Held { lease, since, asked, why: String::new() });
        Ok(Leased { cluster, machine, address, held })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease for Leased {
    fn lost(&self) -> Option<String> {
        let held = self.held();
        match &held.lease {
            Some(lease) if !lease.is_over() && lease.answers_until() > world::now_ns() => None,
            Some(_) => Some("etcd has not renewed its lease in time".into()),
            None => Some(held.why.clone()),
        }
    }

    /// Waits for etcd without the lock, so that others may look.
    fn regain(&self) {
        let over = {
            let mut held = self.held();
            if held.asked.elapsed() < ASK_EVERY {
                return;
            }
            held.asked = Instant::now();
            held.why = "its lease is over".into();
            held.lease.take()
        };
        drop(over);
        let asked = self.cluster.lease(&self.machine, &self.address, TTL);
        let mut held = self.held();
        match asked {
            Ok(lease) => (held.lease, held.since) = (Some(lease), Instant::now()),
            Err(refused) => held.why = refused.to_string(),
        }
    }

    fn answers_until(&self) -> u64 {
        self.held().lease.as_ref().map_or(0, members::Lease::answers_until)
    }

    fn claim(&self, database: &str, island: InstanceId) -> Result<Claim, String> {
        let claimed = patiently(|| self.cluster.of(database).claim(island.0, &self.machine));
        let claimed = claimed.map_err(|failure| failure.to_string())?;
        Ok(Claim { term: claimed.term * OPENINGS, at_least: claimed.at_least })
    }

    fn is_elsewhere(&self, database: &str, island: InstanceId) -> Result<bool, String> {
        let holder = self.cluster.of(database).holder(island.0).map_err(|refused| refused.to_string())?;
        Ok(holder.is_some_and(|machine| machine != self.machine))
    }

    fn release(&self, database: &str, island: InstanceId) -> Result<(), String> {
        let released = self.cluster.of(database).release(island.0, &self.machine);
        released.map_err(|refused| refused.to_string())
    }

    fn left(&self, database: &str, island: InstanceId) -> Result<Option<String>, String> {
        if self.held().since.elapsed() < SETTLED {
            return Ok(None);
        }
        self.cluster.of(database).left(island.0).map_err(|refused| refused.to_string())
    }

    fn at_least(&self, database: &str, island: InstanceId) -> Result<u64, String> {
        self.cluster.of(database).at_least(island.0).map_err(|refused| refused.to_string())
    }

    fn inherit(&self, database: &str, island: InstanceId) -> Result<bool, String> {
        match self.cluster.of(database).claim(island.0, &self.machine) {
            Ok(_) => Ok(true),
            Err(Refused::Served { .. } | Refused::Overtaken { .. }) => Ok(false),
            Err(refused) => Err(refused.to_string()),
        }
    }

    fn note(&self, database: &str, island: InstanceId, counted: u64) -> Result<(), String> {
        self.cluster.of(database).acked(island.0, counted).map_err(|unreachable| unreachable.to_string())
    }

    fn leave(&self) {
        // Without an answer it counts as gone: its islands may be taken over.
        let _ = self.cluster.set_away(&self.machine, true);
    }
}

/// What the names of the logs of a database of a cluster begin with.
pub(crate) fn log_name(cluster: &str, database: impl Display) -> String {
    format!("{cluster}-{database}")
}

/// The logs of a cluster's databases at a relay.
pub(crate) struct AtRelay {
    pub address: String,
    pub cluster: String,
}

impl Logs for AtRelay {
    fn reaches(&self, database: &str, island: InstanceId, dir: &Path) -> Result<u64, String> {
        let name = format!("{}-{island}", log_name(&self.cluster, database));
        deploy::log_reaches(&self.address, &name, dir)
    }
}
