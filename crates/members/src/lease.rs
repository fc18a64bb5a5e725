//! A machine's lease, renewed by a thread of its own.

use crate::registry::{Guard, LeaseId, Registry, Unreachable};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Held while the machine serves. Dropping it ends the lease at once, if the registry answers.
pub struct Lease {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

struct Shared {
    registry: Arc<dyn Registry>,
    id: LeaseId,
    ttl: Duration,
    /// See [`Lease::answers_until`].
    until_ns: AtomicU64,
    /// The registry says that it has ended.
    is_gone: AtomicBool,
    stop: Mutex<bool>,
    stopped: Condvar,
}

/// The time until which a lease that is asked for at `now_ns` lets the machine answer: a fifth
/// before its end.
fn answers_until(now_ns: u64, ttl: Duration) -> u64 {
    now_ns + ttl.as_nanos() as u64 / 5 * 4
}

impl Lease {
    /// Takes a lease, with `key` until it ends. `None` if the key is there already.
    ///
    /// # Errors
    /// [`Unreachable`].
    pub(crate) fn take(
        registry: Arc<dyn Registry>,
        (key, value): (&str, &str),
        ttl: Duration,
    ) -> Result<Option<Lease>, Unreachable> {
        let asked = world::now_ns();
        let id = registry.grant(ttl)?;
        if !registry.put(key, value, Guard::Version(0), Some(id))? {
            registry.revoke(id)?;
            return Ok(None);
        }
        let until_ns = AtomicU64::new(answers_until(asked, ttl));
        let (is_gone, stop, stopped) = (AtomicBool::new(false), Mutex::new(false), Condvar::new());
        let shared = Arc::new(Shared { registry, id, ttl, until_ns, is_gone, stop, stopped });
        let own = shared.clone();
        let keeper = std::thread::Builder::new().name("lease".into()).spawn(move || own.keep());
        let keeper = keeper.map_err(|e| Unreachable(e.to_string()))?;
        Ok(Some(Lease { shared, keeper: Some(keeper) }))
    }

    /// [`world::now_ns`] until which the machine may answer.
    pub fn answers_until(&self) -> u64 {
        self.shared.until_ns.load(Ordering::Acquire)
    }

    /// Whether the lease has ended: the machine must stop.
    pub fn is_over(&self) -> bool {
        self.shared.is_gone.load(Ordering::Acquire)
    }
}

impl Shared {
    /// Body of the thread: renews ten times in the lease's time.
    fn keep(&self) {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            (stop, _) =
                self.stopped.wait_timeout(stop, self.ttl / 10).unwrap_or_else(PoisonError::into_inner);
            if *stop {
                return;
            }
            // The time before the question: the registry counts from a later one.
            let asked = world::now_ns();
            match self.registry.renew(self.id) {
                Ok(true) => self.until_ns.store(answers_until(asked, self.ttl), Ordering::Release),
                Ok(false) => return self.is_gone.store(true, Ordering::Release),
                // The lease goes on without this renewal, as long as it lasts.
                Err(Unreachable(_)) => {}
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        *self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.stopped.notify_all();
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked has said so; the lease ends by itself.
            let _ = keeper.join();
        }
        // Without an answer it ends by itself.
        let _ = self.shared.registry.revoke(self.shared.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use std::time::Instant;

    #[test]
    fn a_lease_is_renewed_and_its_machine_is_silent_a_fifth_before_the_end() {
        let (memory, ttl) = (Arc::new(Memory::default()), Duration::from_millis(500));
        let lease = Lease::take(memory.clone(), ("m/a", "here"), ttl).unwrap().unwrap();
        assert!(Lease::take(memory.clone(), ("m/a", "there"), ttl).unwrap().is_none(), "a name taken twice");
        std::thread::sleep(ttl * 2);
        assert!(lease.answers_until() > world::now_ns() && !memory.list("m/").unwrap().is_empty());
        memory.set_down(true);
        let began = Instant::now();
        while lease.answers_until() > world::now_ns() {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
        memory.set_down(false);
        // Silent, and the key is still there, unless this thread was held up.
        if began.elapsed() < ttl * 9 / 10 {
            assert!(!memory.list("m/").unwrap().is_empty());
        }
        let began = Instant::now();
        while !lease.is_over() && lease.answers_until() < world::now_ns() {
            assert!(began.elapsed() < Duration::from_secs(10), "neither renewed nor told to be over");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(lease);
        assert!(memory.list("m/").unwrap().is_empty(), "the key goes with the lease");
    }
}
