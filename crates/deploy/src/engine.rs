//! Stand-in with the face of the `instance` room, until that room is there.

use base::InstanceId;
use probe::Measured;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use txn::{Placement, Workload};

pub use channel::Address;
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DesignKind {
    Conventional,
    Serial,
}
impl std::fmt::Display for DesignKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DesignKind::Conventional => "conventional",
            DesignKind::Serial => "serial",
        })
    }
}
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Durability {
    Sync,
    Async,
    Memory,
}
impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Durability::Sync => "sync",
            Durability::Async => "async",
            Durability::Memory => "memory",
        })
    }
}
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceConfig {
    pub id: InstanceId,
    pub deployment: u64,
    pub placement: Placement,
    pub design: DesignKind,
    pub durability: Durability,
    pub dir: PathBuf,
    pub pool_pages: usize,
    pub cpus: Vec<Option<usize>>,
    pub node: Option<usize>,
    pub listen: Option<Address>,
    pub lock_timeout_ms: u64,
    pub spin_us: u64,
}
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InstanceFault(String);

pub struct Instance<W: Workload> {
    _workload: std::sync::Mutex<W>,
    config: InstanceConfig,
    driving: AtomicBool,
    since: std::sync::Mutex<Instant>,
}
impl<W: Workload> Instance<W> {
    pub fn start(workload: W, config: InstanceConfig) -> Result<Self, InstanceFault> {
        Ok(Instance {
            _workload: workload.into(),
            config,
            driving: false.into(),
            since: Instant::now().into(),
        })
    }
    pub fn address(&self) -> Option<Address> {
        self.config.listen.clone()
    }
    pub fn connect(&self, _peers: &[(InstanceId, Address)]) {}
    pub fn load(&self, progress: &dyn Fn(u64, u64)) -> Result<(), InstanceFault> {
        progress(1, 1);
        Ok(())
    }
    pub fn reconfigure(&self, workload: W) {
        *self._workload.lock().unwrap() = workload;
    }
    pub fn drive(&self, _clients: usize, _seed: u64) {
        self.driving.store(true, Ordering::Relaxed);
    }
    pub fn measure(&self) -> Measured {
        let mut since = self.since.lock().unwrap();
        let seconds = std::mem::replace(&mut *since, Instant::now()).elapsed().as_secs_f64();
        let n = if self.driving.load(Ordering::Relaxed) { (seconds * 1000.0) as u64 } else { 0 };
        Measured {
            committed: [("micro".to_string(), n)].into(),
            window_ns: (seconds * 1e9) as u64,
            ..Measured::default()
        }
    }
    pub fn halt(&self) {
        self.driving.store(false, Ordering::Relaxed);
    }
    pub fn audit(&self) -> Result<Vec<u8>, InstanceFault> {
        Err(InstanceFault("the stand-in has no data".into()))
    }
    pub fn stop(self) -> Result<(), InstanceFault> {
        Ok(())
    }
}
