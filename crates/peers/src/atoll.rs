//! Atoll in this process, driven by its own closed loop: `conventional` as one instance, `serial`
//! as one instance per worker.
//!
//! The loop draws, routes, runs and commits requests as in any deployment, and times every
//! transaction. So the result is the throughput that a user gets, not that of the storage alone.

use crate::bench::Bench;
use crate::contestant::{Contestant, Rate, Work};
use crate::deployment::{Deployment, seconds};
use crate::fault::PeerFault;
use crate::peer::Intent;
use exec::DesignKind;
use probe::Measured;
use std::path::Path;
use std::thread::sleep;
use topology::CpuId;
use wal::Durability;
use workload::micro::Op;

pub struct Atoll<B: Bench> {
    name: &'static str,
    bench: B,
    deployment: Deployment<B::W>,
    workers: usize,
    /// Update transactions committed since loading.
    updates: u64,
}

impl<B: Bench> Atoll<B> {
    /// One worker for each of `cpus`.
    ///
    /// # Errors
    /// An instance cannot start in `dir`, or cannot be loaded.
    pub fn load(
        name: &'static str,
        bench: B,
        design: DesignKind,
        durability: Durability,
        dir: &Path,
        cpus: &[Option<CpuId>],
    ) -> Result<Self, PeerFault> {
        let places: Vec<Vec<_>> = match design.is_single_threaded() {
            true => cpus.iter().map(|cpu| vec![*cpu]).collect(),
            false => vec![cpus.to_vec()],
        };
        let deployment = Deployment::load(name, bench.workload(Op::Read)?, design, durability, dir, &places)?;
        Ok(Atoll { name, bench, deployment, workers: cpus.len(), updates: 0 })
    }

    fn measure(&self) -> Measured {
        let mut all = Measured::default();
        self.deployment.instances.iter().for_each(|i| all.merge(&i.measure().unwrap()));
        all
    }

    fn count(&mut self, work: &Work, measured: &Measured) {
        if self.bench.intent(work.op) == Intent::Writes {
            self.updates += measured.committed_total();
        }
    }
}

impl<B: Bench> Contestant for Atoll<B> {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault> {
        self.deployment.reconfigure(self.bench.workload(work.op)?);
        let clients = work.clients.div_ceil(self.workers);
        for (n, instance) in self.deployment.instances.iter().enumerate() {
            instance.drive(clients, work.stream(n * work.clients));
        }
        sleep(work.warm_up);
        let warm = self.measure();
        // The CPU time in a measured window is that of the whole process, and every instance
        // reports all of it; so it is taken from the system once.
        let cpu_ns = world::usage().cpu_ns;
        sleep(work.window);
        let window = self.measure();
        let cpu_ns = world::usage().cpu_ns - cpu_ns;
        self.deployment.instances.iter().for_each(|i| i.halt().unwrap());
        let tail = self.measure();
        for measured in [&warm, &window, &tail] {
            self.count(work, measured);
        }
        let retries = window.aborted.values().sum();
        let rate = Rate::new(window.committed_total(), retries, seconds(&window), cpu_ns);
        if rate.tps > 0.0 { Ok(rate) } else { Err(PeerFault::Idle(self.name.into())) }
    }

    fn check(&mut self) -> Result<(), PeerFault> {
        self.deployment.reconfigure(self.bench.workload(Op::Update)?);
        self.deployment.check(Some(self.updates))
    }
}
