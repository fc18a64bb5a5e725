//! A small store of keys with versions and leases: what is needed of etcd.

use std::time::Duration;

/// The registry gave no answer, or none that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the registry does not answer ({0}); start a quorum of its servers")]
pub struct Unreachable(pub String);

/// A key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: String,
    /// Changes with each write; 0 stands for a key that is not there.
    pub version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseId(pub u64);

/// What must hold for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    Nothing,
    /// The key has this version (0: it is not there).
    Version(u64),
}

/// All calls wait for the answer, some seconds at most.
pub trait Registry: Send + Sync {
    /// The keys that begin with `prefix`, in order.
    ///
    /// # Errors
    /// [`Unreachable`].
    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Unreachable>;

    /// Writes a value; `false` if the guard does not hold. With a lease, the key goes with it.
    ///
    /// # Errors
    /// [`Unreachable`]: the value may have been written.
    fn put(&self, key: &str, value: &str, guard: Guard, lease: Option<LeaseId>) -> Result<bool, Unreachable>;

    /// A new lease, which ends `ttl` after its last renewal.
    ///
    /// # Errors
    /// [`Unreachable`].
    fn grant(&self, ttl: Duration) -> Result<LeaseId, Unreachable>;

    /// Renews a lease; `false` if it has ended.
    ///
    /// # Errors
    /// [`Unreachable`].
    fn renew(&self, lease: LeaseId) -> Result<bool, Unreachable>;

    /// Ends a lease.
    ///
    /// # Errors
    /// [`Unreachable`].
    fn revoke(&self, lease: LeaseId) -> Result<(), Unreachable>;
}
