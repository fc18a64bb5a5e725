//! A registry in this process' memory, for tests.

use crate::registry::{Entry, Guard, LeaseId, Registry, Unreachable};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Memory(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    keys: BTreeMap<String, (String, u64, Option<u64>)>,
    leases: BTreeMap<u64, (Duration, Instant)>,
    writes: u64,
    is_down: bool,
}

impl Memory {
    /// No call gets an answer while it is down.
    pub fn set_down(&self, is_down: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_down = is_down;
    }

    /// The state, without what has ended.
    fn inner(&self) -> Result<MutexGuard<'_, Inner>, Unreachable> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.is_down {
            return Err(Unreachable("down".to_owned()));
        }
        let Inner { keys, leases, .. } = &mut *inner;
        leases.retain(|_, (_, until)| *until > Instant::now());
        keys.retain(|_, (_, _, lease)| lease.is_none_or(|lease| leases.contains_key(&lease)));
        Ok(inner)
    }
}

impl Registry for Memory {
    fn list(&self, prefix: &str) -> Result<Vec<Entry>, Unreachable> {
        let inner = self.inner()?;
        let those = inner.keys.iter().filter(|(key, _)| key.starts_with(prefix));
        Ok(those
            .map(|(key, (value, version, _))| Entry {
                key: key.clone(),
                value: value.clone(),
                version: *version,
            })
            .collect())
    }

    fn put(&self, key: &str, value: &str, guard: Guard, lease: Option<LeaseId>) -> Result<bool, Unreachable> {
        let mut inner = self.inner()?;
        let found = inner.keys.get(key).map_or(0, |(_, version, _)| *version);
        let is_leased = lease.is_none_or(|lease| inner.leases.contains_key(&lease.0));
        if !is_leased || matches!(guard, Guard::Version(version) if version != found) {
            return Ok(false);
        }
        inner.writes += 1;
        let version = inner.writes;
        inner.keys.insert(key.to_owned(), (value.to_owned(), version, lease.map(|lease| lease.0)));
        Ok(true)
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Unreachable> {
        let mut inner = self.inner()?;
        inner.writes += 1;
        let id = inner.writes;
        inner.leases.insert(id, (ttl, Instant::now() + ttl));
        Ok(LeaseId(id))
    }

    fn renew(&self, lease: LeaseId) -> Result<bool, Unreachable> {
        let mut inner = self.inner()?;
        let found = inner.leases.get_mut(&lease.0);
        Ok(found.map(|(ttl, until)| *until = Instant::now() + *ttl).is_some())
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Unreachable> {
        self.inner()?.leases.remove(&lease.0);
        Ok(())
    }
}
