//! One combination of an entry's lists, and its row.

use super::place::{self, Islands, Place};
use super::{Load, Remote, Sharing, Simulate};
use crate::row::Row;
use deploysim::transaction::{tpcb, tpcc_new_order, tpcc_payment};
use deploysim::{
    Case, Channel, Clients, Component, Deployment, Durability, EngineProfile, MachineModel, Mix, ModelError,
    Outcome, RunOptions, Transactions, simulate,
};
use serde_json::json;
use workload::micro::{MicroOptions, Op};

/// The measured transactions of a run, at least and per worker.
const LEAST: u64 = 6_000;
const PER_WORKER: u64 = 250;
/// The warm-up is this part of them.
const WARM_UP: u64 = 4;

#[derive(Clone, Debug)]
pub(super) struct Cell<'a> {
    pub entry: &'a Simulate,
    pub machine: &'a MachineModel,
    pub profile: &'a EngineProfile,
    design: String,
    pub op: Op,
    pub channel: Channel,
    pub clients: u32,
    pub dataset: u64,
    pub sharing: Sharing,
    pub skew: f64,
    pub multisite: f64,
    pub place: Place,
    pub rows: u32,
    pub machines: usize,
    pub workers: usize,
    pub islands: Islands,
}

/// Mean, extremes and standard deviation over repetitions.
pub(super) struct Spread {
    pub mean: f64,
    least: f64,
    most: f64,
    deviation: f64,
}

impl Spread {
    pub fn of(values: &[f64]) -> Spread {
        let n = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        Spread { mean, least, most, deviation: (squares / (n - 1.0).max(1.0)).sqrt() }
    }

    /// Sets `tps` and its spread; `tps_deviation` is relative to the mean.
    pub fn put_on(&self, row: &mut Row) {
        row.set("tps", self.mean);
        row.set("tps_min", self.least);
        row.set("tps_max", self.most);
        row.set("tps_deviation", self.deviation / self.mean);
    }
}

impl<'a> Cell<'a> {
    /// The cell of the first value of each list.
    ///
    /// # Errors
    /// A design that the profile does not have, if it has several.
    pub fn first(
        entry: &'a Simulate,
        machine: &'a MachineModel,
        profile: &'a EngineProfile,
    ) -> Result<Cell<'a>, ModelError> {
        let only = || profile.designs.keys().next().filter(|_| profile.designs.len() == 1);
        let design = match (profile.design(&entry.design), only()) {
            (Ok(_), _) => entry.design.clone(),
            (Err(_), Some(only)) => only.clone(),
            (Err(unknown), None) => return Err(unknown),
        };
        Ok(Cell {
            entry,
            machine,
            profile,
            design,
            op: Op::Read,
            channel: Channel::Shm,
            clients: 1,
            dataset: 0,
            sharing: Sharing::Single,
            skew: 0.0,
            multisite: 0.0,
            place: Place::Island,
            rows: 10,
            machines: 0,
            workers: 0,
            islands: Islands::Count(1),
        })
    }

    pub fn cores(&self, seed: u64) -> Result<Vec<usize>, ModelError> {
        place::cores(self.machine, self.machines, self.workers, self.place, seed)
    }

    fn deployment(&self, seed: u64) -> Result<Deployment, ModelError> {
        let cores = self.cores(seed)?;
        let islands = place::count(self.machine, &cores, self.islands);
        if islands == 0 || !cores.len().is_multiple_of(islands) {
            let text = format!("{} workers do not divide evenly over {islands} instances", cores.len());
            return Err(ModelError::Deployment(text));
        }
        Ok(Deployment {
            design: self.design.clone(),
            instances: cores.chunks(cores.len() / islands).map(<[usize]>::to_vec).collect(),
            channel: self.channel,
            durability: self.entry.durability,
            clients: Clients::Closed(self.clients),
            bounds: Vec::new(),
        })
    }

    /// The transactions of a deployment of `islands` instances.
    fn transactions(&self, sites: u32, islands: usize) -> Result<Transactions, ModelError> {
        let remote = self.multisite / 100.0;
        let mix = |mix: Mix| match self.entry.remote {
            Remote::Instance => Transactions::mix(Mix { together: sites / islands as u32, ..mix }),
            Remote::Site => Transactions::mix(mix),
        };
        match self.entry.workload {
            Load::Tpcb => mix(tpcb(sites, remote)),
            Load::TpccPayment => mix(tpcc_payment(sites, remote)),
            Load::TpccNeworder => mix(tpcc_new_order(sites, remote)),
            Load::Micro | Load::Counter | Load::Distances => {
                let base = MicroOptions::new(sites);
                let dataset = if self.dataset == 0 { base.dataset } else { self.dataset };
                let (op, rows, multisite, skew) = (self.op, self.rows, self.multisite, self.skew);
                Transactions::micro(MicroOptions { dataset, op, rows, multisite, skew, ..base })
            }
        }
    }

    pub fn check(&self) -> Result<(), ModelError> {
        let deployment = self.deployment(1)?;
        let transactions = self.transactions(deployment.workers() as u32, deployment.instances.len())?;
        Case::new(self.machine, self.profile, &transactions, &deployment).map(|_| ())
    }

    /// # Errors
    /// As [`Simulate::check`].
    pub fn row(&self, repeat: u64) -> Result<Row, ModelError> {
        let mut outcomes = Vec::new();
        let mut transactions = None;
        for seed in 1..=repeat.max(1) {
            let deployment = self.deployment(seed)?;
            let requests = self.transactions(deployment.workers() as u32, deployment.instances.len())?;
            let case = Case::new(self.machine, self.profile, &requests, &deployment)?;
            let measured = LEAST.max(PER_WORKER * deployment.workers() as u64);
            let options = RunOptions {
                transactions: measured,
                warm_up: measured / WARM_UP,
                ..RunOptions::default().seeded(seed)
            };
            outcomes.push(simulate(&case, &options));
            transactions = Some(requests);
        }
        let mut row = self.labels()?;
        if let Some(transactions) = &transactions {
            row.set("dataset", transactions.dataset());
        }
        let tps: Vec<f64> = outcomes.iter().map(|outcome| outcome.tps).collect();
        Spread::of(&tps).put_on(&mut row);
        if let Some(outcome) = outcomes.first() {
            results(&mut row, outcome);
        }
        Ok(row)
    }

    /// The columns that say which cell this is.
    pub fn labels(&self) -> Result<Row, ModelError> {
        let cores = self.cores(1)?;
        let mut row = Row::default();
        let (workload, has_rows) = match self.entry.workload {
            Load::Micro => ("micro", true),
            Load::Tpcb => ("tpcb", false),
            Load::TpccPayment => ("tpcc-payment", false),
            Load::TpccNeworder => ("tpcc-neworder", false),
            Load::Counter | Load::Distances => ("counter", false),
        };
        row.set("workload", workload);
        row.set("placement", self.place.name());
        row.set("workers", cores.len());
        row.set("machine", json!({ "model": self.machine.name(), "cores": self.machine.cores() }));
        if self.entry.workload == Load::Counter {
            return Ok(row);
        }
        row.set("design", self.design.as_str());
        row.set("islands", place::count(self.machine, &cores, self.islands));
        row.set("deploy", self.islands.to_string());
        row.set("machines", place::count(self.machine, &cores, Islands::Per(super::Per::PerMachine)));
        row.set("channel", self.channel.name());
        row.set("durability", durability(self.entry.durability));
        row.set("clients", u64::from(self.clients) * cores.len() as u64);
        row.set("multisite", self.multisite);
        row.set("scale", cores.len());
        if has_rows {
            let op = match self.op {
                Op::Read => "read",
                Op::Update => "update",
                Op::Mixed => "mixed",
            };
            row.set("op", op);
            row.set("rows", self.rows);
            row.set("skew", self.skew);
        }
        Ok(row)
    }
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Memory => "memory",
        Durability::Async => "async",
        Durability::Sync => "sync",
    }
}

/// The columns of the result. A worker that waits does nothing else, so its idle time counts as
/// waiting for replies, but for the waits for locks.
fn results(row: &mut Row, o: &Outcome) {
    let committed = o.committed.max(1) as f64;
    let us = |ns: f64| ns / 1_000.0;
    row.set("committed", o.committed);
    row.set("aborted", json!({ "conflict": o.aborts }));
    row.set("distributed", o.distributed as f64 / committed);
    row.set("participants", o.participants as f64 / o.distributed.max(1) as f64);
    row.set("messages_per_txn", o.messages.protocol() as f64 / committed);
    let l = &o.latency;
    row.set(
        "latency_us",
        json!({ "mean": us(l.mean_ns), "p50": us(l.p50_ns), "p90": us(l.p90_ns), "p99": us(l.p99_ns), "max": us(l.max_ns) }),
    );
    let part = |component| o.per_transaction_ns(component);
    row.set(
        "time_ns_per_txn",
        json!({
            "execution": part(Component::Work) + part(Component::Aborted),
            "locking": part(Component::Sharing),
            "latching": 0,
            "logging": part(Component::Logging),
            "management": part(Component::Management) + part(Component::Loop),
            "communication": part(Component::Communication),
        }),
    );
    let idle: f64 = o.workers.iter().map(|w| w.idle_ns).sum::<f64>() / committed;
    let lock = o.lock_wait_ns / committed;
    row.set(
        "waiting_ns_per_txn",
        json!({ "reply": (idle - lock).max(0.0), "decision": 0, "lock": lock, "log": 0 }),
    );
    row.set("utilisation", o.utilisation());
    row.set("utilisation_of_the_others", others(o));
    row.set("limit", o.limit.to_string());
}

/// The busy share of the workers of all instances but the busiest one.
fn others(o: &Outcome) -> f64 {
    let count = o.workers.iter().map(|w| w.instance + 1).max().unwrap_or(0);
    let mut busy = vec![(0.0, 0.0); count];
    for w in &o.workers {
        busy[w.instance].0 += w.busy_ns;
        busy[w.instance].1 += w.busy_ns + w.idle_ns;
    }
    busy.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    if count > 1 {
        busy.pop();
    }
    busy.iter().map(|b| b.0).sum::<f64>() / busy.iter().map(|b| b.1).sum::<f64>()
}
