//! A deployment of instances in this process.

use base::InstanceId;
use channel::Address;
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use probe::Measured;
use std::path::Path;
use txn::{Placement, Workload};
use wal::Durability;
use workload::{AnyWorkload, SpecError};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    Shm,
    Uds,
    Tcp,
    Ring,
}

pub fn config<W: Workload>(
    workload: &W,
    dir: &Path,
    design: DesignKind,
    durability: Durability,
    (id, of): (u16, u16),
    workers: usize,
    via: Via,
) -> InstanceConfig {
    let socket = dir.join(format!("{id}.sock"));
    let listen = match via {
        Via::Shm => Address::Shm(socket),
        Via::Uds => Address::Uds(socket),
        Via::Tcp => Address::Tcp(([127, 0, 0, 1], 0).into()),
        Via::Ring => Address::Ring(format!("{}-{id}", dir.display())),
    };
    InstanceConfig {
        id: InstanceId(id),
        deployment: 7,
        durability,
        cpus: vec![None; workers],
        listen: Some(listen),
        spin_us: 20,
        ..InstanceConfig::new(dir.join(id.to_string()), Placement::even(workload.sites(), of), design)
    }
    .with(|o| o.lock_timeout_ms = 200)
}

pub struct Deployment<W: Workload> {
    pub workload: W,
    pub instances: Vec<Instance<W>>,
}

impl<W: Workload> Deployment<W> {
    pub fn start(workload: W, configs: Vec<InstanceConfig>) -> Self {
        let instances: Vec<_> = configs
            .into_iter()
            .map(|c| {
                std::fs::create_dir_all(&c.dir).unwrap();
                Instance::start(workload.clone(), c).unwrap()
            })
            .collect();
        let addresses: Vec<_> = instances
            .iter()
            .enumerate()
            .map(|(i, instance)| (InstanceId(i as u16), instance.address().unwrap()))
            .collect();
        instances.iter().for_each(|i| i.connect(&addresses));
        Deployment { workload, instances }
    }

    pub fn load(&self) {
        self.instances.iter().for_each(|i| i.load(&|_, _| {}).unwrap());
    }

    /// Drives all instances for a while and returns their measurements.
    pub fn run(&self, clients: usize, ms: u64) -> Measured {
        self.run_seeded(clients, ms, 42)
    }

    pub fn run_seeded(&self, clients: usize, ms: u64, seed: u64) -> Measured {
        self.measure();
        // Every stream of requests of the deployment has a seed of its own.
        let seed = |instance: usize| (seed << 32) + ((instance as u64) << 16);
        self.instances.iter().enumerate().for_each(|(i, instance)| instance.drive(clients, seed(i)));
        std::thread::sleep(std::time::Duration::from_millis(ms));
        self.instances.iter().for_each(|i| i.halt().unwrap());
        self.measure()
    }

    pub fn measure(&self) -> Measured {
        let mut all = Measured::default();
        self.instances.iter().for_each(|i| all.merge(&i.measure().unwrap()));
        all
    }

    pub fn audits(&self) -> Vec<W::Audit> {
        self.instances.iter().map(|i| postcard::from_bytes(&i.audit().unwrap()).unwrap()).collect()
    }

    pub fn stop(self) {
        self.instances.into_iter().for_each(|i| i.stop().unwrap());
    }
}

/// The workload as the type that deployments run: the engine is compiled once for all workloads.
pub fn any<W: Into<AnyWorkload>>(made: Result<W, SpecError>) -> AnyWorkload {
    made.unwrap().into()
}

/// A directory that only this user may enter, as channels require.
pub fn private_dir() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().unwrap()
}
