//! The designs in which each worker owns keys: `logical` and the three of PLP
//! ([`Engine::OWNERS`]). The conventional path can be read without these files: there, all of this
//! is compiled away, or asks an empty list.
//!
//! ```text
//!   request ---> all keys at one other worker ---> forwarding: the request goes there, whole
//!           \--> keys at several workers ---> visits: its steps go to their owners
//!
//!   sampling: counts of each worker ---> balance: other borders, other owners
//!                                        placing: on which island each owner works
//! ```
//!
//! - [`visits`]: steps at other workers of the instance.
//! - [`forwarding`]: the rings for whole requests; [`forwarded`]: the tasks at both ends.
//! - [`sampling`]: counts and samples of each worker, for the balancer.
//! - [`balance`]: the balancer's thread, and repartitioning; [`placing`]: partitions and islands.
//!
//! [`Engine::OWNERS`]: exec::Engine::OWNERS

pub(crate) mod balance;
mod forwarded;
pub(crate) mod forwarding;
mod placing;
pub(crate) mod sampling;
mod visits;

use crate::local::Local;
use exec::{Engine, KeyOwners};
use txn::{Abort, Workload};

impl<W: Workload, E: Engine> Local<W, E> {
    /// The engine, where its workers own keys.
    #[inline]
    pub(crate) fn owners(&self) -> Option<&E::Owners> {
        self.shared.engine.owners()
    }

    /// Admits a local transaction to this worker's keys. `false` if it has to wait, by
    /// [`Local::wait_admitted`].
    #[inline]
    pub(crate) fn admit(&self, txn: &mut E::LocalTxn) -> bool {
        self.owners().is_none_or(|owners| owners.admit(txn))
    }

    /// Waits until the local transaction is admitted.
    pub(crate) async fn wait_admitted(&self, txn: &mut E::LocalTxn) -> Result<(), Abort> {
        match self.owners() {
            Some(owners) => owners.pass(&self.ctx, &self.executor, txn).await,
            None => Ok(()),
        }
    }
}
