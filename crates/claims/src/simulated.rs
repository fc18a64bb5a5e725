//! Result rows of machines that are not at hand: an experiment's `[[simulate]]` entries, predicted
//! by [`deploysim`] on a described machine.
//!
//! ```toml
//! [[simulate]]
//! machine = "quad-socket-e7530"          # a file of machines/
//! profile = "shore-mt"                   # the engine of the paper
//! islands = ["per-core", "per-socket", 1]
//! channel = ["uds"]
//! op = ["read", "update"]
//! multisite = [0, 20, 100]
//! ```
//!
//! An entry is data. Each combination of its lists gives one row, with the columns of a measured
//! one and `simulated`, `engine_profile`, `machine_file`; islands vary fastest. A row's `deploy` is
//! the entry's word for the islands. Equal entries give equal rows. An entry with
//! `[simulate.sections]` is of one instance and its threads ([`Sections`]).

mod cell;
mod counter;
mod place;
mod sections;

use crate::error::DataError;
use crate::row::Row;
use deploysim::{Channel, Durability, EngineProfile, MachineModel, ModelError};
use serde::Deserialize;
use workload::micro::Op;

pub use place::{Islands, Per, Place};
pub use sections::Sections;

include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// The workload of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    #[default]
    Micro,
    Tpcb,
    TpccPayment,
    TpccNeworder,
    /// Threads that add to counters, each under a lock: the hot lines alone.
    Counter,
    /// The distances of the machine, and no load.
    Distances,
}

/// The place of the remote rows of `tpcb` and TPC-C.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Remote {
    #[default]
    Site,
    Instance,
}

/// The threads that share one counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    Single,
    PerSocket,
    PerCore,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Simulate {
    /// The name of a file of `machines/`, without its extension.
    pub machine: String,
    /// The engine of the paper, unless the command names another.
    pub profile: String,
    #[serde(default)]
    pub workload: Load,
    /// A design of the profile; a profile that does not have it, but only one, runs that one.
    #[serde(default = "conventional")]
    pub design: String,
    /// Of a cluster: the number of its machines that take part; 0 for all.
    #[serde(default = "zero")]
    pub machines: Vec<usize>,
    /// Workers; 0 for every core.
    #[serde(default = "zero")]
    pub workers: Vec<usize>,
    #[serde(default = "one_instance")]
    pub islands: Vec<Islands>,
    #[serde(default = "island")]
    pub placement: Vec<Place>,
    #[serde(default = "shm")]
    pub channel: Vec<Channel>,
    #[serde(default = "memory")]
    pub durability: Durability,
    /// Clients per worker: 1 where a worker of the paper's engine waits for its replies.
    #[serde(default = "one")]
    pub clients: Vec<u32>,
    #[serde(default = "read")]
    pub op: Vec<Op>,
    #[serde(default = "ten")]
    pub rows: Vec<u32>,
    /// In per cent: multisite transactions of `micro`, remote ones of the other workloads.
    #[serde(default = "local")]
    pub multisite: Vec<f64>,
    /// The place of remote rows: another site, or another instance wherever there is one.
    #[serde(default)]
    pub remote: Remote,
    #[serde(default = "local")]
    pub skew: Vec<f64>,
    /// Rows of `micro`; 0 for 10,000 a worker.
    #[serde(default = "no_rows")]
    pub dataset: Vec<u64>,
    #[serde(default = "single")]
    pub counters: Vec<Sharing>,
    /// Repetitions with other seeds; a row holds their mean, extremes and deviation.
    #[serde(default = "once")]
    pub repeat: u64,
    /// One instance as its threads meet in it: of the fields above only `machine` and `profile`
    /// count.
    #[serde(default)]
    pub sections: Option<Sections>,
}

fn conventional() -> String {
    "conventional".into()
}
fn zero() -> Vec<usize> {
    vec![0]
}
fn one_instance() -> Vec<Islands> {
    vec![Islands::Count(1)]
}
fn island() -> Vec<Place> {
    vec![Place::Island]
}
fn shm() -> Vec<Channel> {
    vec![Channel::Shm]
}
fn memory() -> Durability {
    Durability::Memory
}
fn one() -> Vec<u32> {
    vec![1]
}
fn read() -> Vec<Op> {
    vec![Op::Read]
}
fn ten() -> Vec<u32> {
    vec![10]
}
fn local() -> Vec<f64> {
    vec![0.0]
}
fn no_rows() -> Vec<u64> {
    vec![0]
}
fn single() -> Vec<Sharing> {
    vec![Sharing::Single]
}
fn once() -> u64 {
    1
}

/// A described machine that is embedded in the program.
///
/// # Errors
/// No such machine, with the names of all; a file that contradicts itself.
pub fn machine(name: &str) -> Result<MachineModel, ModelError> {
    let file = format!("{name}.toml");
    let found = MACHINES.iter().find(|(known, _)| *known == file);
    let names = || MACHINES.iter().map(|(known, _)| known.trim_end_matches(".toml")).collect::<Vec<_>>();
    let unknown = || ModelError::File {
        file: name.to_owned(),
        problem: format!("no such machine is described; expected {}", names().join(", ")),
    };
    let (file, text) = found.ok_or_else(unknown)?;
    deploysim::machine::file::MachineFile::parse(file, text)?.model()
}

/// The names of the engine profiles.
pub fn profiles() -> [&'static str; 3] {
    deploysim::costs::PROFILES.map(|(name, _)| name)
}

impl Simulate {
    /// # Errors
    /// An unknown machine, profile, design or channel; a deployment that the machine does not
    /// allow. `experiment` is the name for messages.
    pub fn check(&self, experiment: &str) -> Result<(), DataError> {
        let checked = || {
            let machine = machine(&self.machine)?;
            let profile = EngineProfile::builtin(&self.profile)?;
            match &self.sections {
                Some(sections) => sections.check(&machine, &profile),
                None => self.cells(&machine, &profile).map(|cells| cells.len()),
            }
        };
        match checked() {
            Ok(0) => Err(DataError::of(experiment, "a [[simulate]] entry with an empty list gives no row")),
            Ok(_) => Ok(()),
            Err(e) => Err(DataError::of(experiment, e.to_string())),
        }
    }

    /// The rows, with the costs of the engine `profile`; without one, of the paper's engine.
    ///
    /// # Errors
    /// As [`Simulate::check`]: the profile may have no costs for the entry.
    pub fn rows(&self, profile: Option<&str>) -> Result<Vec<Row>, ModelError> {
        let machine = machine(&self.machine)?;
        let profile = EngineProfile::builtin(profile.unwrap_or(&self.profile))?;
        if let Some(sections) = &self.sections {
            return Ok(self.stamped(sections.rows(&machine, &profile)?, &profile));
        }
        if self.workload == Load::Distances {
            return Ok(self.stamped(counter::distances(&machine), &profile));
        }
        let cells = self.cells(&machine, &profile)?;
        let rows: Result<Vec<Row>, ModelError> = cells
            .iter()
            .map(|cell| match self.workload {
                Load::Counter => Ok(counter::row(cell, self.repeat)),
                _ => cell.row(self.repeat),
            })
            .collect();
        Ok(self.stamped(rows?, &profile))
    }

    fn stamped(&self, mut rows: Vec<Row>, profile: &EngineProfile) -> Vec<Row> {
        for row in &mut rows {
            row.set("simulated", true);
            row.set("engine_profile", profile.name.as_str());
            row.set("machine_file", self.machine.as_str());
        }
        rows
    }

    /// Every combination of the lists.
    fn cells<'a>(
        &'a self,
        machine: &'a MachineModel,
        profile: &'a EngineProfile,
    ) -> Result<Vec<cell::Cell<'a>>, ModelError> {
        let mut cells = vec![cell::Cell::first(self, machine, profile)?];
        if self.workload == Load::Distances {
            return Ok(cells);
        }
        let mut vary = |count: usize, set: &dyn Fn(&mut cell::Cell<'a>, usize)| {
            cells = cells
                .iter()
                .flat_map(|cell| {
                    (0..count).map(|i| {
                        let mut one = cell.clone();
                        set(&mut one, i);
                        one
                    })
                })
                .collect();
        };
        vary(self.op.len(), &|c, i| c.op = self.op[i]);
        vary(self.channel.len(), &|c, i| c.channel = self.channel[i]);
        vary(self.clients.len(), &|c, i| c.clients = self.clients[i]);
        vary(self.dataset.len(), &|c, i| c.dataset = self.dataset[i]);
        vary(self.counters.len(), &|c, i| c.sharing = self.counters[i]);
        vary(self.skew.len(), &|c, i| c.skew = self.skew[i]);
        vary(self.multisite.len(), &|c, i| c.multisite = self.multisite[i]);
        vary(self.placement.len(), &|c, i| c.place = self.placement[i]);
        vary(self.rows.len(), &|c, i| c.rows = self.rows[i]);
        vary(self.machines.len(), &|c, i| c.machines = self.machines[i]);
        vary(self.workers.len(), &|c, i| c.workers = self.workers[i]);
        vary(self.islands.len(), &|c, i| c.islands = self.islands[i]);
        cells.iter().try_for_each(cell::Cell::check)?;
        Ok(cells)
    }
}

#[cfg(test)]
mod tests;
