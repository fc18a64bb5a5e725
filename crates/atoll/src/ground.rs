//! What a sweep is planned on: this machine, or the machines of a hosts file.

use crate::cli::BenchArgs;
use crate::failure::Failure;
use crate::version;
use cluster::{Fleet, Hosts};
use deploy::Machines;
use std::path::Path;
use std::sync::Arc;
use topology::{CpuId, InstancePlace, IslandCount, Layout, Machine, Placement, place};

/// See the head of this file.
pub struct Ground<'a> {
    machine: &'a Machine,
    fleet: Option<Arc<Fleet>>,
}

/// The places of all workers.
pub struct Places {
    pub layout: Layout,
    /// The island of each worker of each instance, by numbers of its machine.
    pub worker_islands: Vec<Vec<u16>>,
}

/// The machines of a hosts file; without those that are gone and have no island of the database.
fn fleet_of(args: &BenchArgs, file: &Path) -> Result<Fleet, Failure> {
    let (hosts, build) = (Hosts::read(file)?, version::short());
    let Some(database) = &args.deployment.data else { return Ok(Fleet::open(&hosts, &build, None)?) };
    let (fleet, gone) = Fleet::open_present(&hosts, &build, &database.display().to_string())?;
    if !gone.is_empty() {
        world::tell(format_args!(
            "atoll: warning: without {}, which cannot be reached: all islands of {} are on the other hosts",
            gone.join(", "),
            database.display()
        ));
    }
    Ok(fleet)
}

impl<'a> Ground<'a> {
    /// # Errors
    /// The hosts file is wrong, or a host cannot be used.
    pub fn of(args: &BenchArgs, machine: &'a Machine) -> Result<Ground<'a>, Failure> {
        let fleet = args.deployment.hosts.as_ref().map(|file| fleet_of(args, file)).transpose()?;
        Ok(Ground { machine, fleet: fleet.map(Arc::new) })
    }

    pub fn fleet(&self) -> Option<&Arc<Fleet>> {
        self.fleet.as_ref()
    }

    /// All machines.
    fn machines(&self) -> &[Machine] {
        self.fleet.as_ref().map_or(std::slice::from_ref(self.machine), |fleet| fleet.machines())
    }

    pub fn cores(&self) -> usize {
        self.machines().iter().map(Machine::cores).sum()
    }

    pub fn default_workers(&self) -> usize {
        self.machines().iter().map(Machine::default_workers).sum()
    }

    /// The numbers of instances that fit: those that fit each machine, on all of them.
    pub fn default_islands(&self, workers: usize) -> Vec<usize> {
        let machines = self.machines();
        let mut sizes = Vec::new();
        for size in topology::default_islands(&machines[0], workers.div_ceil(machines.len())) {
            sizes.push(size * machines.len());
        }
        sizes.retain(|size| *size <= workers);
        sizes
    }

    /// The number of instances that `--islands` asks for. On several machines a word means that of
    /// each.
    ///
    /// # Errors
    /// More instances than workers.
    pub fn resolve(&self, islands: IslandCount, workers: usize) -> Result<usize, Failure> {
        match (islands, self.machines()) {
            (word, [machine]) => word.resolve(machine, workers).map_err(Failure::usage),
            (IslandCount::Count(_), machines) => {
                islands.resolve(&machines[0], workers).map_err(Failure::usage)
            }
            (word, machines) => {
                let of = |machine: &Machine| word.resolve(machine, machine.default_workers());
                let each = machines.iter().map(of).collect::<Result<Vec<_>, _>>().map_err(Failure::usage)?;
                Ok(each.into_iter().sum::<usize>().min(workers))
            }
        }
    }

    /// # Errors
    /// As [`topology::place`], for a machine.
    pub fn place(&self, islands: usize, workers: usize, placement: Placement) -> Result<Places, Failure> {
        let Some(fleet) = &self.fleet else {
            let layout = place(self.machine, islands, workers, placement).map_err(Failure::usage)?;
            let worker_islands = worker_islands(self.machine, &layout.instances);
            return Ok(Places { layout, worker_islands });
        };
        let of = |i: usize| fleet.of(base::InstanceId(i as u16), islands as u16);
        let workers_of = |i: usize| workers / islands + usize::from(i < workers % islands);
        let (mut found, mut oversubscribed) = (Vec::new(), fleet.shares_cpus(workers));
        for (number, machine) in fleet.machines().iter().enumerate() {
            let here: Vec<usize> = (0..islands).filter(|i| of(*i) == number).collect();
            if here.is_empty() {
                continue;
            }
            let threads = here.iter().map(|i| workers_of(*i)).sum();
            let layout = place(machine, here.len(), threads, placement).map_err(Failure::usage)?;
            let on = worker_islands(machine, &layout.instances);
            oversubscribed |= layout.oversubscribed;
            found.extend(here.into_iter().zip(layout.instances.into_iter().zip(on)));
        }
        found.sort_by_key(|(instance, _)| *instance);
        let (instances, worker_islands) = found.into_iter().map(|(_, place)| place).unzip();
        Ok(Places { layout: Layout { placement, instances, oversubscribed }, worker_islands })
    }
}

/// The island of the machine that each worker runs on; the first island for a worker that the
/// operating system places.
fn worker_islands(machine: &Machine, places: &[InstancePlace]) -> Vec<Vec<u16>> {
    let islands = machine.allowed_islands();
    let of = |cpu: &Option<CpuId>| {
        let at = cpu.and_then(|cpu| islands.iter().position(|island| island.cpus.contains(&cpu)));
        at.unwrap_or(0) as u16
    };
    places.iter().map(|place| place.cpus.iter().map(of).collect()).collect()
}
