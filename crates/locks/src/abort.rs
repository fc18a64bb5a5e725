//! Why a lock was not granted.

/// The reason why a wait ended without the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LockAbort {
    #[error("waiting for the lock would close a cycle of waiting transactions")]
    Deadlock,
    #[error("the lock was not granted in time")]
    Timeout,
}
