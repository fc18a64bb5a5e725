//! The options of `atoll plan` as values: the machine, the transactions, and the deployments that
//! they allow.

use super::PlanArgs;
use crate::choices::{design_of, op_of};
use crate::cli::ChannelArg;
use crate::failure::Failure;
use crate::memory;
use crate::topology_command::probe;
use crate::values::require_rdma;
use advisor::search::SearchOptions;
use advisor::simulated::{ClosedForm, Setting, Simulation, levels};
use advisor::{AdviceError, Candidate, Design, Found, Levels, Objective, Preference, Space, search};
use clap::ValueEnum;
use deploy::Interrupt;
use deploy::engine::DesignKind;
use deploysim::calibration::{Conditions, Kept};
use deploysim::transaction::takes_share;
use deploysim::{Channel, Clients, Durability, EngineProfile, MachineModel, ModelError, Transactions};
use driver::Subject;
use std::net::Ipv4Addr;
use std::time::Duration;
use topology::{Machine, Placement, ProbeSpec};
use workload::WorkloadSpec;

/// Everything that is asked, checked.
pub struct Question<'a> {
    pub args: &'a PlanArgs,
    pub machine: MachineModel,
    /// The machine under this process, if the plan is for it.
    pub live: Option<Machine>,
    pub levels: Levels,
    /// The costs that the model uses.
    pub profile: EngineProfile,
    /// The built-in profile that a calibration scales.
    pub base: EngineProfile,
    pub calibration: Option<Kept>,
    /// The time that probes took for this plan.
    pub probed: Duration,
    pub spec: WorkloadSpec,
    pub subject: Subject,
    pub transactions: Transactions,
    pub candidates: Vec<Candidate>,
    pub remarks: Vec<String>,
}

impl<'a> Question<'a> {
    /// # Errors
    /// A machine without latencies, a workload without recorded steps, options that exclude each
    /// other, rules that leave no deployment.
    pub fn read(args: &'a PlanArgs, interrupt: &Interrupt) -> Result<Question<'a>, Failure> {
        let is_live = args.machine.trim() == "live";
        if !is_live && args.budget.is_some() {
            return Err(Failure::Usage(format!(
                "--budget: nothing is measured on a described machine; leave it out, or leave out --machine {}",
                args.machine
            )));
        }
        if is_live && !args.no_trials && args.channels.contains(&ChannelArg::Rdma) {
            require_rdma(Ipv4Addr::LOCALHOST.into()).map_err(|why| {
                Failure::Usage(format!("--channels rdma: {why}; with --no-trials nothing is measured"))
            })?;
        }
        let profile = EngineProfile::builtin(&args.engine_profile).map_err(Failure::usage)?;
        // Everything that a typing error can spoil comes before the latencies are measured.
        spec(args, 2).and_then(|spec| transactions(&spec))?;
        let (machine, live) = if is_live {
            let live = probe(Machine::live().map_err(Failure::run)?, ProbeSpec::QUICK)?;
            (live_model(&live)?, Some(live))
        } else {
            (described(&args.machine)?, None)
        };
        if interrupt.is_set() {
            return Err(Failure::Interrupted);
        }
        let levels = live.as_ref().map_or_else(|| levels(&machine), levels_here);
        let spec = spec(args, levels.cores as u32)?;
        let subject = Subject::new(spec.clone()).map_err(Failure::usage)?;
        let transactions = transactions(&spec)?;
        let mut question = Question {
            args,
            machine,
            live,
            levels,
            base: profile.clone(),
            profile,
            calibration: None,
            probed: Duration::ZERO,
            spec,
            subject,
            transactions,
            candidates: Vec::new(),
            remarks: Vec::new(),
        };
        question.candidates = question.space()?.candidates().map_err(super::refused)?;
        question.remark();
        Ok(question)
    }

    fn remark(&mut self) {
        let unknown = || self.spec.own.keys().filter(|name| *name != "recording");
        if unknown().next().is_some() {
            let names: Vec<String> = unknown().map(|name| format!("--{name}")).collect();
            self.remarks.push(format!(
                "the model does not know {}: it predicts without; measured trials have it",
                names.join(", ")
            ));
        }
    }

    /// The costs of the model from now on, and the deployments that they allow: designs without
    /// costs of their own are among them if their work was measured.
    ///
    /// # Errors
    /// Fits that the profile cannot take; rules that leave no deployment.
    pub fn adopt(&mut self, kept: Kept) -> Result<(), Failure> {
        self.machine =
            self.machine.clone().with_measured(kept.memory_ns, kept.flush_ns).map_err(Failure::usage)?;
        let transactions = |multisite, dataset| self.probe_transactions(multisite, dataset);
        self.profile = kept.profile(&self.base, &self.machine, &transactions).map_err(Failure::usage)?;
        self.candidates = self.space()?.candidates().map_err(super::refused)?;
        self.remark_on(&kept);
        self.calibration = Some(kept);
        Ok(())
    }

    fn remark_on(&mut self, kept: &Kept) {
        let other = kept.differences(&self.conditions());
        if !other.is_empty() {
            let told = other.join(", ");
            self.remarks
                .push(format!("the costs were measured at {told}; --calibrate measures them for this load"));
        }
        let disturbed = kept.disturbed();
        if disturbed > 0 {
            self.remarks.push(format!(
                "{disturbed} of {} cells were only measured beside other work, which makes their costs too high; \
                 --calibrate measures them anew",
                kept.cells().len()
            ));
        }
        let bounds = kept.at_bound();
        if !bounds.is_empty() {
            self.remarks.push(format!("no cost explains the measured {}", bounds.join(", ")));
        }
    }

    /// What a calibration for this question holds under. Cells have no skew, so that it is for any.
    pub fn conditions(&self) -> Conditions {
        let mut labels = self.subject.labels();
        // Recordings differ as workloads do.
        let recording = labels.options.remove("recording").map(|name| format!("-{name}"));
        let workload = format!("{}{}", self.args.workload, recording.unwrap_or_default());
        let mut options: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            options.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("rows", labels.rows.map(|n| n.to_string()));
        add("dataset", labels.dataset.map(|n| n.to_string()));
        add("scale", labels.scale.map(|n| n.to_string()));
        labels.options.into_iter().for_each(|(name, value)| add(&name, Some(value)));
        Conditions {
            machine: self.machine.name().to_owned(),
            cores: self.levels.cores,
            profile: format!("{} of {}", self.base.name, self.base.date),
            workload,
            op: labels.op,
            durability: self.durability(),
            clients: self.args.clients,
            options,
        }
    }

    /// The options of `bench` for a probe: those of the question without skew, this share of
    /// distributed transactions in per cent, and the size of the data and the durability if they
    /// are others.
    pub fn probe_options(
        &self,
        multisite: f64,
        dataset: Option<u64>,
        durability: Option<Durability>,
    ) -> Vec<(String, String)> {
        let mut options = self.bench_options();
        options.retain(|(name, _)| !["multisite", "skew", "hot"].contains(&name.as_str()));
        if self.takes_share() {
            options.push(("multisite".to_owned(), multisite.to_string()));
        }
        if let Some(rows) = dataset {
            options.retain(|(name, _)| name != "dataset");
            options.push(("dataset".to_owned(), rows.to_string()));
        }
        if let Some(durability) = durability {
            options.retain(|(name, _)| name != "durability");
            options.push(("durability".to_owned(), durability.name().to_owned()));
        }
        options
    }

    /// Whether the workload has a share of distributed transactions that can be set.
    pub fn takes_share(&self) -> bool {
        takes_share(&self.spec)
    }

    /// The transactions of a probe.
    ///
    /// # Errors
    /// A workload that cannot be made.
    pub fn probe_transactions(
        &self,
        multisite: f64,
        dataset: Option<u64>,
    ) -> Result<Transactions, ModelError> {
        Transactions::of_cell(&self.spec, multisite, dataset)
    }

    /// The channels that the options allow; without options the one that reaches all instances.
    ///
    /// # Errors
    /// One that joins no instances.
    pub fn channels(&self) -> Result<Vec<Channel>, Failure> {
        if self.args.channels.is_empty() {
            let is_cluster = self.machine.network_ns().is_some();
            return Ok(vec![if is_cluster { Channel::Tcp } else { Channel::Shm }]);
        }
        self.args.channels.iter().map(|c| channel(*c)).collect()
    }

    /// Whether measured trials decide.
    pub fn is_tried(&self) -> bool {
        self.live.is_some() && !self.args.no_trials
    }

    pub fn setting(&self) -> Setting<'_> {
        self.setting_with(&self.transactions)
    }

    /// The same question about other transactions.
    pub fn setting_with<'s>(&'s self, transactions: &'s Transactions) -> Setting<'s> {
        Setting {
            machine: &self.machine,
            profile: &self.profile,
            transactions,
            durability: self.durability(),
            clients: Clients::Closed(self.args.clients),
            spread: self.calibration.as_ref().and_then(Kept::spread).unwrap_or(0.0),
            seed: self.args.seed,
        }
    }

    fn durability(&self) -> Durability {
        use crate::cli::DurabilityArg as Given;
        match self.args.durability {
            // Without the time that a relay takes: it is added to the device's in the calibration.
            Given::Sync | Given::Replicated => Durability::Sync,
            Given::Async => Durability::Async,
            Given::Memory => Durability::Memory,
        }
    }

    /// The transactions with other values of these options.
    pub fn transactions_at(&self, axes: &[(&str, f64)]) -> Result<Transactions, Failure> {
        let mut spec = self.spec.clone();
        for (axis, value) in axes {
            match *axis {
                "multisite" => spec.multisite = Some(*value),
                "skew" => spec.skew = Some(*value),
                "rows" => spec.rows = Some(*value as u32),
                other => {
                    return Err(Failure::Usage(format!(
                        "--map {other}: no such axis; expected two of multisite, skew, rows"
                    )));
                }
            }
        }
        transactions(&spec)
    }

    pub fn options(&self) -> SearchOptions {
        let default_design = DesignKind::Conventional.name().to_owned();
        let preference = Preference { default_design, current: None };
        SearchOptions { objective: self.args.objective, preference, ..SearchOptions::default() }
    }

    pub fn search(&self) -> Result<Found, AdviceError> {
        self.search_for(&self.transactions)
    }

    pub fn search_for(&self, transactions: &Transactions) -> Result<Found, AdviceError> {
        let setting = self.setting_with(transactions);
        search(&self.candidates, &ClosedForm(setting), Some(&Simulation(setting)), &self.options())
    }

    fn space(&self) -> Result<Space, Failure> {
        let names: Vec<String> = match self.args.designs.is_empty() {
            true => self.profile.designs.keys().cloned().collect(),
            false => self.args.designs.iter().map(|d| design_of(*d).name().to_owned()).collect(),
        };
        let kind = |name: &str| DesignKind::ALL.into_iter().find(|kind| kind.name() == name);
        let designs = names.into_iter().map(|name| Design {
            is_single_threaded: kind(&name).is_some_and(DesignKind::is_single_threaded),
            is_in_memory: kind(&name).is_some_and(DesignKind::is_in_memory),
            name,
        });
        let cores = self.levels.cores;
        // Fewer workers compete only where a worker has a price.
        let workers = match self.args.objective {
            Objective::TpsPerCore => (0..).map(|n| cores >> n).take_while(|n| *n > 0).collect(),
            Objective::Tps | Objective::P99Below(_) => vec![cores],
        };
        let room = self.live.as_ref().and_then(|_| memory::free());
        Ok(Space {
            levels: self.levels,
            designs: designs.collect(),
            workers,
            placements: vec![Placement::Island],
            channels: self.channels()?,
            sites: self.subject.sites(),
            rows_fit: room.is_none_or(|free| self.subject.data_bytes() <= free / 2),
            site_load: Vec::new(),
        })
    }

    /// The options of `bench` for the workload and its load.
    pub fn bench_options(&self) -> Vec<(String, String)> {
        let (args, r) = (self.args, &self.args.requests);
        let mut options: Vec<(String, String)> = Vec::new();
        let mut add = |name: &str, value: Option<String>| {
            options.extend(value.map(|value| (name.to_owned(), value)));
        };
        add("multisite", r.multisite.first().map(f64::to_string));
        add("rows", r.rows.first().map(u32::to_string));
        add("op", r.op.first().and_then(word));
        add("skew", r.skew.first().map(f64::to_string));
        add("hot", r.hot.first().map(|hot| hot.to_string()));
        add("dataset", r.dataset.first().map(u64::to_string));
        add("scale", r.scale.first().map(u32::to_string));
        for (name, values) in &r.own.0 {
            add(name, values.first().cloned());
        }
        add("durability", word(&args.durability));
        add("clients", Some(args.clients.to_string()));
        options
    }
}

fn word(value: &impl ValueEnum) -> Option<String> {
    value.to_possible_value().map(|value| value.get_name().to_owned())
}

fn channel(arg: ChannelArg) -> Result<Channel, Failure> {
    match arg {
        ChannelArg::Shm => Ok(Channel::Shm),
        ChannelArg::Uds => Ok(Channel::Uds),
        ChannelArg::Tcp => Ok(Channel::Tcp),
        ChannelArg::Rdma => Ok(Channel::Rdma),
        ChannelArg::Ring => Ok(Channel::Ring),
        ChannelArg::Pipe | ChannelArg::Fifo | ChannelArg::Mqueue => {
            Err(Failure::Usage("--channels pipe, fifo, mqueue: expected shm, uds, tcp, rdma or ring".into()))
        }
    }
}

/// # Errors
/// The machine has no latencies: a model needs them.
fn described(argument: &str) -> Result<MachineModel, Failure> {
    MachineModel::parse(argument).map_err(Failure::usage)
}

fn live_model(live: &Machine) -> Result<MachineModel, Failure> {
    match MachineModel::from_topology(live) {
        // A single core has no distances, and needs none.
        Err(deploysim::ModelError::NoLatencies { .. }) if live.cores() == 1 => {
            MachineModel::uniform(1, 50.0).map_err(Failure::run)
        }
        model => model.map_err(Failure::run),
    }
}

fn levels_here(machine: &Machine) -> Levels {
    Levels { packages: machine.packages(), l3_groups: machine.l3_groups(), cores: machine.default_workers() }
}

/// The workload's specification on a machine of `cores` cores.
///
/// # Errors
/// An option with several values.
fn spec(args: &PlanArgs, cores: u32) -> Result<WorkloadSpec, Failure> {
    let r = &args.requests;
    let lengths = [
        ("multisite", r.multisite.len()),
        ("rows", r.rows.len()),
        ("op", r.op.len()),
        ("skew", r.skew.len()),
        ("hot", r.hot.len()),
        ("dataset", r.dataset.len()),
        ("scale", r.scale.len()),
    ];
    let own = r.own.0.iter().map(|(name, values)| (*name, values.len()));
    if let Some((name, _)) = lengths.into_iter().chain(own).find(|(_, n)| *n > 1) {
        return Err(Failure::Usage(format!(
            "--{name}: a plan is for one load; expected one value, or --map multisite,skew"
        )));
    }
    let own = r.own.0.iter().filter_map(|(name, values)| Some(((*name).to_owned(), values.first()?.clone())));
    Ok(WorkloadSpec {
        op: r.op.first().copied().map(op_of),
        rows: r.rows.first().copied(),
        skew: r.skew.first().copied(),
        hot: r.hot.first().copied(),
        multisite: r.multisite.first().copied(),
        dataset: r.dataset.first().copied(),
        scale: r.scale.first().copied(),
        own: own.collect(),
        ..WorkloadSpec::new(&args.workload, cores)
    })
}

/// The transactions as the model draws them.
///
/// # Errors
/// A wrong option; a workload without recorded steps.
fn transactions(spec: &WorkloadSpec) -> Result<Transactions, Failure> {
    spec.build().map_err(Failure::usage)?;
    Transactions::of(spec).map_err(Failure::usage)
}
