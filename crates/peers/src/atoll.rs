//! An instance of Atoll with one worker, driven by its own closed loop.
//!
//! The loop draws, routes, runs and commits as it would in any deployment, and takes the time of every transaction: what
//! is measured is what a user gets, not the storage alone.

use crate::contestant::{Contestant, Rate, Table, Work};
use crate::deployment::{config, seconds};
use crate::fault::PeerFault;
use exec::DesignKind;
use instance::Instance;
use probe::Measured;
use std::path::Path;
use std::thread::sleep;
use topology::CpuId;
use txn::Workload;
use wal::Durability;
use workload::micro::{Micro, Op};

pub struct Atoll {
    name: &'static str,
    table: Table,
    instance: Instance<Micro>,
    /// Updating transactions committed since loading.
    updates: u64,
}

impl Atoll {
    /// # Errors
    /// When the instance cannot start in `dir` or be loaded.
    pub fn load(
        name: &'static str,
        table: Table,
        design: DesignKind,
        durability: Durability,
        dir: &Path,
        cpu: Option<CpuId>,
    ) -> Result<Atoll, PeerFault> {
        let micro = table.micro(Op::Read)?;
        let config = config(&micro, dir, design, durability, (0, 1), &[cpu]);
        let instance = Instance::start(micro, config)?;
        instance.load(&|_, _| {})?;
        Ok(Atoll { name, table, instance, updates: 0 })
    }

    fn count(&mut self, work: &Work, measured: &Measured) -> Result<(), PeerFault> {
        if work.op == Op::Update {
            self.updates += measured.committed_total();
        }
        match measured.aborted.iter().find(|(_, n)| **n > 0) {
            None => Ok(()),
            Some((reason, n)) => Err(PeerFault::Engine {
                engine: self.name,
                what: format!("{n} transactions aborted: {reason}"),
            }),
        }
    }
}

impl Contestant for Atoll {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault> {
        self.instance.reconfigure(self.table.micro(work.op)?);
        self.instance.drive(1, work.seed);
        sleep(work.warm_up);
        let warm = self.instance.measure();
        sleep(work.window);
        let window = self.instance.measure();
        self.instance.halt();
        let tail = self.instance.measure();
        for measured in [&warm, &window, &tail] {
            self.count(work, measured)?;
        }
        let rate = Rate::new(window.committed_total(), seconds(&window), window.cpu_ns);
        if rate.tps > 0.0 { Ok(rate) } else { Err(PeerFault::Idle(self.name.into())) }
    }

    fn check(&mut self) -> Result<(), PeerFault> {
        let audit = postcard::from_bytes(&self.instance.audit()?);
        let audit = audit.map_err(|e| PeerFault::Audit(self.name.into(), e))?;
        let violations = self.table.micro(Op::Update)?.judge(vec![audit], Some(self.updates)).violations;
        if violations.is_empty() {
            Ok(())
        } else {
            Err(PeerFault::Wrong { name: self.name.into(), violations })
        }
    }
}
