//! Turns comma lists into work: the deployments to set up, in order, and the request mixes to run
//! on each.
//!
//! All options are checked here, before the first instance starts: a wrong value late in a list
//! must not cost the minutes that the earlier values take.

use crate::choices::{Choice, design_of, durability_of, list, op_of, optional, times, with_options};
use crate::cli::{BenchArgs, ChannelArg};
use crate::demand::{self, Demand};
use crate::failure::Failure;
use crate::ground::{Ground, Places};
use crate::leased::log_name;
use crate::memory::{self, Fit};
use crate::places;
use crate::seen::Seen;
use crate::stop::Stop;
use crate::values::require_rdma;
use deploy::engine::{Backing, Durability, OccConflict};
use deploy::{ChannelKind, DataUse, Deployment, Host, Interrupt, Machines, RelayPlace};
use driver::{Schedule, Subject};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use topology::{IslandCount, Machine};
use workload::WorkloadSpec;
use workload::benchmark::Shapes;
use workload::spec::own_options;

/// The stops of a sweep, and the remarks to print before it runs.
pub struct Sweep {
    pub stops: Vec<Stop>,
    pub remarks: Vec<String>,
    /// The directory that holds their databases side by side; `None` if there is one database, or
    /// if the databases are temporary.
    pub directory: Option<PathBuf>,
}

impl Sweep {
    pub fn rows(&self) -> usize {
        self.stops.iter().map(|s| s.mixes.len()).sum()
    }

    /// # Errors
    /// Options that contradict each other, or that leave no combination to run.
    pub fn plan(args: &BenchArgs, machine: &Machine, interrupt: &Interrupt) -> Result<Sweep, Failure> {
        let demand = Demand::new(&args.measuring, interrupt)?;
        let ground = Ground::of(args, machine)?;
        let mut planner =
            Planner { args, demand, ground, interrupt, seen: Seen::default(), remarks: Vec::new() };
        let mut stops = planner.stops()?;
        let remarks = [planner.remarks, planner.seen.remarks()].concat();
        if stops.is_empty() {
            return Err(Failure::Usage(remarks.join("; ")));
        }
        let d = &args.deployment;
        memory::hold(stops.iter().map(|s| &s.deployment), d.memory, Fit::unless(d.memory_unchecked))?;
        let directory = places::assign(args, &mut stops)?;
        Ok(Sweep { stops, remarks, directory })
    }
}

struct Planner<'a> {
    args: &'a BenchArgs,
    demand: Demand<'a>,
    ground: Ground<'a>,
    interrupt: &'a Interrupt,
    seen: Seen,
    remarks: Vec<String>,
}

impl Planner<'_> {
    fn remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    fn stops(&mut self) -> Result<Vec<Stop>, Failure> {
        let channels = self.channels()?;
        let mut stops = Vec::new();
        for choice in self.choices(&channels)? {
            if let Some(stop) = self.stop(choice)? {
                stops.push(stop);
            }
        }
        Ok(stops)
    }

    fn channels(&self) -> Result<Vec<ChannelKind>, Failure> {
        let refuse = || {
            Failure::Usage(
                "--channel pipe, fifo, mqueue: only bench ipc measures these; expected shm, uds, tcp, rdma or ring"
                    .into(),
            )
        };
        let given = list(&self.args.deployment.channel, || vec![ChannelArg::Shm]);
        if given.contains(&ChannelArg::Rdma) {
            self.check_rdma()?;
        }
        given.into_iter().map(|c| c.kind().ok_or_else(refuse)).collect()
    }

    /// Whether RDMA can join the instances. Agents find out on their machines.
    fn check_rdma(&self) -> Result<(), Failure> {
        match self.ground.fleet() {
            Some(fleet) if fleet.is_sealed() => Err(Failure::Usage(
                "--channel rdma: links by RDMA are not encrypted, and these hosts have certificates; expected tcp or shm, or \
                 a hosts file without a line `tls`"
                    .into(),
            )),
            Some(_) => Ok(()),
            None => require_rdma(self.args.deployment.listen.ip())
                .map_err(|why| Failure::Usage(format!("--channel rdma: {why}"))),
        }
    }

    /// Every combination; the first option varies slowest.
    fn choices(&self, channels: &[ChannelKind]) -> Result<Vec<Choice>, Failure> {
        let (d, r) = (&self.args.deployment, &self.args.requests);
        let islands = list(&d.islands, || {
            let workers = d.workers.iter().min().map_or(self.ground.default_workers(), |w| *w as usize);
            let sizes = self.ground.default_islands(workers);
            sizes.into_iter().map(IslandCount::Count).collect()
        });
        let all = times(vec![Choice::default()], &d.design, |c, v| c.design = design_of(v));
        let all = times(all, &islands, |c, v| c.islands = v);
        let all = times(all, channels, |c, v| c.channel = v);
        let all = times(all, &optional(&d.host), |c, v| {
            let default = if c.channel.connects(Host::Process) { Host::Process } else { Host::Thread };
            c.host = v.map_or(default, Host::from);
        });
        let all = times(all, &d.durability, |c, v| c.durability = durability_of(v));
        let all = with_options(all, &d.engine)?;
        let all = times(all, &d.placement, |c, v| c.placement = v);
        let all = times(all, &optional(&d.workers), |c, v| c.workers = v);
        let all = times(all, &optional(&r.dataset), |c, v| c.dataset = v);
        let all = times(all, &optional(&r.scale), |c, v| c.scale = v);
        Ok(self.own(Shapes::Data, all, |c| &mut c.own))
    }

    /// `None` for a combination that makes no sense, if other combinations do.
    fn stop(&mut self, c: Choice) -> Result<Option<Stop>, Failure> {
        let total = c.workers.map_or(self.ground.default_workers(), |w| w as usize);
        let islands = self.ground.resolve(c.islands, total)?;
        let workers = if c.design.is_single_threaded() { islands } else { total };
        if workers != total {
            self.remark(format!(
                "serial has one worker per instance: its rows run one worker per island, {workers} of {total} with --islands {islands}"
            ));
        }
        if self.seen.again(&c, islands, workers) {
            return Ok(None);
        }
        let listen = self.args.deployment.listen;
        if matches!(c.channel, ChannelKind::Tcp | ChannelKind::Rdma) && !listen.ip().is_loopback() {
            self.remark(format!(
                "--listen {}: links are told from strangers' by a secret number that is sent in clear, and nothing is encrypted; \
                 expected a network that you trust",
                listen.ip()
            ));
        }
        if let Some(fleet) = self.ground.fleet()
            && !fleet.is_sealed()
        {
            self.remark(
                "--hosts: nothing between the hosts is encrypted, and links are told from strangers' by a secret number that is \
                 sent in clear; expected a network that you trust, or certificates (atoll cluster certificates)"
                    .into(),
            );
        }
        if !c.channel.connects(c.host) {
            self.remark(
                "--channel ring connects instances of one process: left out with --host process, add thread"
                    .into(),
            );
            return Ok(None);
        }
        if self.args.measuring.kill.is_some() {
            self.check_kill(&c)?;
        }
        if self.args.deployment.keep && c.durability == Durability::Memory {
            return Err(Failure::Usage(
                "--keep with --durability memory: what a log in memory forgets cannot be kept; expected sync or async, or \
                 leave --keep out"
                    .into(),
            ));
        }
        let mixes = self.mixes(&c)?;
        let places = self.ground.place(islands, workers, c.placement)?;
        if places.layout.oversubscribed {
            let cores = self.ground.cores();
            self.remark(format!("{workers} workers on {cores} cores: rows are marked oversubscribed"));
        }
        let subject = &mixes[0].0;
        let divides = subject.check_islands(islands);
        let too_many = islands > subject.most_islands() || divides.is_err();
        if self.args.deployment.islands.is_empty() && too_many && islands > 1 {
            self.remark(format!(
                "--islands {islands} is left out: data of this scale divides into {} at most; raise --scale or --dataset",
                subject.most_islands()
            ));
            return Ok(None);
        }
        divides.map_err(Failure::Usage)?;
        let deployment = self.deployment(&c, subject, (islands, workers), places)?;
        deployment.check()?;
        Ok(Some(Stop { deployment, placement: c.placement, mixes }))
    }

    /// The deployment for a combination of options, with the places of its workers.
    fn deployment(
        &mut self,
        c: &Choice,
        subject: &Subject,
        (islands, workers): (usize, usize),
        Places { layout, worker_islands }: Places,
    ) -> Result<Deployment, Failure> {
        let d = &self.args.deployment;
        Ok(Deployment {
            spec: subject.spec().clone(),
            sites: subject.sites(),
            islands: u16::try_from(islands)
                .map_err(|_| Failure::Usage(format!("--islands {islands}: at most 65535")))?,
            workers,
            worker_islands,
            places: layout.instances,
            design: c.design,
            host: c.host,
            channel: c.channel,
            durability: c.durability,
            options: c.options,
            data: d.data.clone(),
            data_use: if d.keep { DataUse::Keep } else { DataUse::Copy },
            data_name: subject.data_name(),
            data_bytes: subject.data_bytes(),
            pool_bytes: match c.design.is_in_memory() {
                true => self.budget(subject, islands)?,
                false => self.pool_bytes(subject, islands, c.durability)?,
            },
            backing: if d.populate { Backing::AtStart } else { Backing::AsUsed },
            listen: d.listen,
            machines: self.ground.fleet().map(|fleet| Arc::clone(fleet) as Arc<dyn Machines>),
            oversubscribed: layout.oversubscribed,
            number: deployment_number(),
            relay: self.relay(c.durability)?,
            interrupt: self.interrupt.clone(),
        })
    }

    /// Where the logs are kept besides.
    fn relay(&self, durability: Durability) -> Result<Option<RelayPlace>, Failure> {
        match (durability, &self.args.deployment.relay) {
            (Durability::Replicated, Some(address)) => {
                let name = self.relay_name()?;
                Ok(Some(RelayPlace { address: address.clone(), name, accept_loss: false, claim: None }))
            }
            (Durability::Replicated, None) => {
                let why = "--durability replicated: a relay must keep the logs; expected --relay nats://HOST:PORT,.. or \
                           kafka://HOST:PORT,..";
                Err(Failure::Usage(why.into()))
            }
            _ => Ok(None),
        }
    }

    /// What the names of the logs at the relay begin with.
    fn relay_name(&self) -> Result<String, Failure> {
        let (Some(fleet), Some(data)) = (self.ground.fleet(), &self.args.deployment.data) else {
            return Ok(RELAY_NAME.to_owned());
        };
        match fleet.has_leases() {
            true => Ok(log_name(fleet.cluster(), data.display())),
            false => Err(Failure::Usage(
                "--durability replicated with --hosts and --data: leases tell which host has an island; expected a line \
                 `etcd http://HOST:PORT,..` in the hosts file"
                    .into(),
            )),
        }
    }

    fn check_kill(&self, c: &Choice) -> Result<(), Failure> {
        let refuse = |text: &str| Err(Failure::Usage(format!("--kill: {text}")));
        match () {
            () if self.args.workload != "tpcb" => refuse("only tpcb keeps a ledger; expected bench tpcb"),
            () if self.args.measuring.profile => refuse(
                "its clients are outside the instances, and a killed one takes its profile along; run --profile without it",
            ),
            () if c.host == Host::Thread => refuse("a thread cannot be killed; expected --host process"),
            () if c.durability == Durability::Memory => {
                refuse("with --durability memory a killed instance loses its data; expected sync or async")
            }
            () => Ok(()),
        }
    }

    /// The request mixes; the rate varies fastest, then multisite.
    fn mixes(&self, c: &Choice) -> Result<Vec<(Subject, Schedule)>, Failure> {
        let r = &self.args.requests;
        let spec = WorkloadSpec {
            scale: c.scale,
            dataset: c.dataset,
            own: c.own.clone(),
            ..WorkloadSpec::new(&self.args.workload, self.ground.cores() as u32)
        };
        let all = times(vec![spec], &optional(&r.op), |spec, v| spec.op = v.map(op_of));
        let all = times(all, &optional(&r.rows), |spec, v| spec.rows = v);
        let all = times(all, &optional(&r.skew), |spec, v| spec.skew = v);
        let all = times(all, &optional(&r.hot), |spec, v| spec.hot = v);
        let all = times(all, &optional(&r.multisite), |spec, v| spec.multisite = v);
        let all = self.own(Shapes::Requests, all, |spec| &mut spec.own);
        let outline = demand::outline(&self.args.measuring);
        let mut mixes = Vec::new();
        for spec in all {
            let subject = Subject::new(spec).map_err(Failure::usage)?;
            let schedules = self.demand.schedules(&subject, &outline, backoff_of(c))?;
            mixes.extend(schedules.into_iter().map(|schedule| (subject.clone(), schedule)));
        }
        Ok(mixes)
    }

    /// Each of `all` with every combination of the given options of the workload that have this
    /// `shapes`.
    fn own<T: Clone>(
        &self,
        shapes: Shapes,
        mut all: Vec<T>,
        own: impl Fn(&mut T) -> &mut BTreeMap<String, String>,
    ) -> Vec<T> {
        let given = &self.args.requests.own.0;
        for option in own_options().filter(|o| o.shapes == shapes) {
            if let Some(values) = given.get(option.name) {
                all = times(all, values, |one, value| drop(own(one).insert(option.name.into(), value)));
            }
        }
        all
    }

    /// Bytes that rows in main memory may take: half of the machine's free memory, because such
    /// rows cannot be evicted.
    ///
    /// # Errors
    /// Data that does not fit.
    fn budget(&self, subject: &Subject, islands: usize) -> Result<u64, Failure> {
        let there = memory::free();
        let least = islands as u64 * deploy::MIN_INSTANCE_MEMORY;
        let half = there.map(|there| (there / 2).max(least));
        let budget = self.args.deployment.memory.or(half).unwrap_or(4 * subject.pool_bytes());
        if budget < subject.data_bytes().max(least) {
            return Err(Failure::Usage(format!(
                "--design occ: the rows take about {} MiB, and the memory for them is {} MiB; expected a smaller --scale or \
                 --dataset, or a larger --memory",
                subject.data_bytes().max(least) >> 20,
                budget >> 20
            )));
        }
        Ok(budget)
    }

    /// Bytes of page memory: as many as the data needs, but at most half of the machine's free
    /// memory.
    ///
    /// # Errors
    /// Less memory than the instances need; too little memory for all of the data with durability
    /// `memory`, which needs it.
    fn pool_bytes(
        &mut self,
        subject: &Subject,
        islands: usize,
        durability: Durability,
    ) -> Result<u64, Failure> {
        let there = memory::free();
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        if let Some(bytes) = self.args.deployment.memory {
            let least = islands as u64 * deploy::MIN_INSTANCE_MEMORY;
            if bytes < least {
                return Err(Failure::Usage(format!(
                    "--memory {bytes}: expected at least {}M with --islands {islands}",
                    least.div_ceil(1 << 20)
                )));
            }
            return Ok(bytes);
        }
        let (wanted, most) = (subject.pool_bytes(), there.map(|there| there / 2));
        if let Some(most) =
            most.filter(|most| durability == Durability::Memory && subject.data_bytes() > *most)
        {
            return Err(Failure::Usage(format!(
                "--durability memory: the data takes about {} MiB of page memory, and half of the free memory is {} MiB; expected \
                 a smaller --scale or --dataset, or --memory with the memory that it may take while the rest is read from disk",
                mib(subject.data_bytes()),
                mib(most)
            )));
        }
        Ok(match most {
            Some(most) if wanted > most => {
                self.remark(format!(
                    "the data needs {} MiB of page memory and gets {}, half of the free memory: it will be read from disk",
                    wanted >> 20,
                    most >> 20
                ));
                most
            }
            _ => wanted,
        })
    }
}

/// The first pause before a retry, unless the options set one. With `--occ-conflict abort`, a
/// transaction that aborts at a prepared row meets the row again if it retries at once, because the
/// decision takes a round trip. 10 us is a fraction of the shortest round trip; 64 times 10 us is
/// more than most round trips. Where workers own keys, a transaction at several owners acquires
/// their locks side by side, in no common order. Two that met in a circle meet again if both retry
/// at once: TPC-E under `plp-partition` committed nothing for five seconds.
fn backoff_of(c: &Choice) -> Duration {
    let in_memory = c.design.is_in_memory() && c.options.occ_conflict == OccConflict::Abort;
    let spins = in_memory || c.design.owns_keys();
    if spins { Duration::from_micros(10) } else { Duration::ZERO }
}

/// Logs at a relay have this in their names, unless the database has a name of its own there.
const RELAY_NAME: &str = "atoll";

/// A number that differs from those of all deployments that may be alive on this machine.
fn deployment_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let parts = [u64::from(std::process::id()), COUNT.fetch_add(1, Ordering::Relaxed), now.as_nanos() as u64];
    base::hash64(&parts.map(u64::to_le_bytes).concat())
}

#[cfg(test)]
mod tests;
