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
use crate::memory::{self, Fit};
use crate::places;
use crate::seen::Seen;
use crate::stop::Stop;
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
                "--channel pipe, fifo, mqueue: only bench ipc measures these; expected shm, uds, tcp or ring"
                    .into(),
            )
        };
        let given = list(&self.args.deployment.channel, || vec![ChannelArg::Shm]);
        given.into_iter().map(|c| c.kind().ok_or_else(refuse)).collect()
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
        if c.channel == ChannelKind::Tcp && !listen.ip().is_loopback() {
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
                let name = RELAY_NAME.to_owned();
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
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use deploy::engine::DesignKind;
    use deploy::engine::{Mode, TableKind, TreeKind};
    use std::path::Path;

    fn plan(args: &[&str]) -> Result<Sweep, Failure> {
        let cli = Cli::try_parse_from([&["atoll", "bench"], args].concat()).unwrap();
        let Some(Command::Bench(bench)) = cli.command else { panic!("bench") };
        Sweep::plan(&bench, &Machine::parse("package:2 l3:1 core:2").unwrap(), &Interrupt::default())
    }

    fn refusal(args: &[&str]) -> String {
        let failure = plan(args).err().expect("refused");
        assert_eq!(failure.code(), 2);
        failure.to_string()
    }

    #[test]
    fn every_combination_in_order_and_one_load_per_deployment() {
        let sweep = plan(&[
            "micro",
            "--islands",
            "1,2",
            "--design",
            "conventional,serial",
            "--op",
            "read,update",
            "--multisite",
            "0,20,100",
            "--channel",
            "shm,uds",
        ])
        .unwrap();
        assert_eq!((sweep.stops.len(), sweep.rows()), (8, 48));
        let order: Vec<_> = sweep
            .stops
            .iter()
            .map(|s| (s.deployment.design, s.deployment.islands, s.deployment.channel))
            .collect();
        assert_eq!(order[0], (DesignKind::Conventional, 1, ChannelKind::Shm));
        assert_eq!(order[1], (DesignKind::Conventional, 1, ChannelKind::Uds));
        assert_eq!(order[7], (DesignKind::Serial, 2, ChannelKind::Uds));
        let multisite: Vec<_> =
            sweep.stops[0].mixes.iter().map(|(s, _)| s.labels().multisite.unwrap()).collect();
        assert_eq!(multisite, [0.0, 20.0, 100.0, 0.0, 20.0, 100.0]);
        assert!(sweep.stops.iter().all(|s| s.deployment.design != DesignKind::Serial
            || s.deployment.workers == usize::from(s.deployment.islands)));
        assert!(sweep.remarks.iter().any(|r| r.contains("serial")));
    }

    #[test]
    fn defaults_follow_the_machine() {
        let sweep = plan(&["tpcb"]).unwrap();
        let islands: Vec<_> = sweep.stops.iter().map(|s| s.deployment.islands).collect();
        assert_eq!(islands, [1, 2, 4]);
        assert!(sweep.stops.iter().all(|s| s.deployment.workers == 4 && s.deployment.sites == 4));
        let small = plan(&["tatp", "--scale", "1"]).unwrap();
        assert_eq!(small.stops.iter().map(|s| s.deployment.islands).collect::<Vec<_>>(), [1]);
        assert!(small.remarks.iter().any(|r| r.contains("--islands 2")), "{:?}", small.remarks);
    }

    #[test]
    fn a_listener_that_strangers_reach_is_warned_of() {
        let warns = |args: &[&str]| {
            let sweep = plan(args).unwrap();
            sweep.remarks.iter().filter(|r| r.contains("--listen 0.0.0.0") && r.contains("in clear")).count()
        };
        let far = ["micro", "--channel", "shm,tcp", "--islands", "1,2", "--listen", "0.0.0.0"];
        assert_eq!(warns(&far), 1);
        assert_eq!(warns(&["micro", "--channel", "shm", "--listen", "0.0.0.0"]), 0);
        assert_eq!(warns(&["micro", "--channel", "tcp"]), 0);
    }

    #[test]
    fn time_outs_and_bounds_travel_with_the_deployment() {
        let of = |args: &[&str]| {
            let sweep = plan(&[&["micro"], args].concat()).unwrap();
            let deployment = &sweep.stops[0].deployment;
            let options = &deployment.options;
            (options.lock_timeout_ms, options.distributed_timeout_ms, options.most_requests)
        };
        assert_eq!(of(&[]), (100, None, 1024));
        let all = ["--lock-timeout", "7", "--distributed-timeout", "9s", "--max-requests", "16"];
        assert_eq!(of(&all), (7, Some(9000), 16));
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_runs() {
        assert!(refusal(&["micro", "--islands", "5"]).contains('5'));
        assert!(refusal(&["micro", "--islands", "2", "--memory", "7M"]).contains("8M"));
        assert!(refusal(&["tpcb", "--islands", "4", "--scale", "2"]).contains("2 sites"));
        assert!(refusal(&["tpce", "--islands", "3", "--scale", "1"]).contains("multiple of 3"));
        assert!(refusal(&["tpce", "--islands", "1", "--days", "3"]).contains("expected 5 to 300"));
        assert!(refusal(&["micro", "--channel", "ring", "--host", "process"]).contains("thread"));
        assert!(refusal(&["tpcb", "--rows", "3"]).contains("--rows"));
        let large = ["tpcc", "--islands", "1", "--scale", "60000", "--durability"];
        let text = refusal(&[&large[..], &["sync,memory"]].concat());
        assert!(
            text.contains("--durability memory") && text.contains("MiB") && text.contains("--scale"),
            "{text}"
        );
        let text = refusal(&[&large[..], &["sync", "--memory", "4000G"]].concat());
        assert!(text.contains("4096000M") && text.contains("MiB are free"), "{text}");
        let keep = ["tpcb", "--data", "d", "--keep", "--durability", "sync,memory"];
        assert!(refusal(&keep).contains("--keep"));
        assert!(refusal(&["micro", "--kill", "3"]).contains("tpcb"));
        assert!(refusal(&["tpcb", "--kill", "3", "--durability", "memory"]).contains("memory"));
        assert!(refusal(&["tpcb", "--kill", "3", "--profile"]).contains("--profile"));
        assert!(refusal(&["micro", "--op", "update", "--rows", "9000", "--dataset", "100"]).contains("rows"));
    }

    /// The kill campaign may use only options that `bench` has.
    #[test]
    fn the_kill_campaign_asks_for_what_bench_takes() {
        let deployments = include_str!("../../../xtask/src/kill.txt");
        for line in deployments.lines() {
            let words: Vec<&str> =
                ["tpcb"].into_iter().chain(line.split(' ')).chain(["--kill", "9"]).collect();
            assert!(!plan(&words).unwrap_or_else(|why| panic!("{line}: {why}")).stops.is_empty());
        }
    }

    #[test]
    fn what_comes_in_is_refused_where_it_contradicts_itself() {
        let open = ["micro", "--load-model", "open", "--rate", "1000,5000,1..9/2s"];
        let sweep = plan(&open).unwrap();
        let repeats: Vec<u32> = sweep.stops[0].mixes.iter().map(|(_, s)| s.repeat).collect();
        assert_eq!(repeats, [3, 3, 1]);
        assert!(sweep.stops[0].mixes.iter().all(|(_, s)| s.traffic.clients == 64));
        assert!(refusal(&["micro", "--load-model", "open"]).contains("--rate"));
        assert!(refusal(&["micro", "--rate", "5"]).contains("--load-model open"));
        assert!(refusal(&["micro", "--arrivals", "uniform"]).contains("--load-model open"));
        assert!(refusal(&["micro", "--think", "standard"]).contains("tpcc"));
        assert!(
            refusal(&["tpcc", "--think", "x2", "--load-model", "open", "--rate", "1"]).contains("--think")
        );
        assert!(refusal(&["tpcb", "--kill", "3", "--load-model", "open", "--rate", "1"]).contains("closed"));
        assert!(refusal(&["micro", "--phases", "/nowhere/at.all"]).contains("/nowhere/at.all"));
        let sweep = plan(&["tpcc", "--think", "standard", "--scale", "4", "--islands", "1"]).unwrap();
        let model = sweep.stops[0].mixes[0].1.traffic.model;
        assert!(matches!(model, driver::LoadModel::Terminals { terminals: 40, .. }), "{model:?}");
    }

    #[test]
    fn a_ring_lives_in_one_process_and_is_left_out_beside_others() {
        let sweep = plan(&["micro", "--islands", "2", "--channel", "ring,shm"]).unwrap();
        assert_eq!(sweep.stops[0].deployment.host, Host::Thread);
        assert_eq!(sweep.stops[1].deployment.host, Host::Process);
        let sweep = plan(&["micro", "--islands", "2", "--channel", "ring,shm", "--host", "process"]).unwrap();
        assert_eq!(sweep.stops.len(), 1);
        assert!(sweep.remarks[0].contains("ring"));
    }

    #[test]
    fn databases_of_a_sweep_do_not_meet() {
        let one = plan(&["micro", "--islands", "2", "--data", "d"]).unwrap();
        assert_eq!(one.stops[0].deployment.data.as_deref(), Some(Path::new("d")));
        let directories = |args: &[&str]| -> Vec<_> {
            let sweep = plan(&[&["micro", "--data", "d"], args].concat()).unwrap();
            sweep.stops.into_iter().map(|s| s.deployment.data.unwrap().display().to_string()).collect()
        };
        assert_eq!(directories(&["--islands", "1,2"]), ["d/01-1-islands", "d/02-2-islands"]);
        let designs = ["--islands", "1,2", "--channel", "shm,uds"];
        assert_eq!(
            directories(&designs),
            ["d/01-1-islands", "d/01-1-islands", "d/02-2-islands", "d/02-2-islands"]
        );
        assert_eq!(directories(&["--islands", "2", "--durability", "sync,async"]), ["d", "d"]);
        let kept = directories(&["--islands", "2", "--durability", "sync,async", "--keep"]);
        assert_eq!(kept, ["d/01-conventional-2-islands", "d/02-conventional-2-islands"]);
        let kinds = directories(&["--islands", "1", "--tables", "heap,clustered"]);
        assert_eq!(kinds, ["d/01-1-islands", "d/02-1-islands"]);
        let kinds = plan(&["micro", "--islands", "1", "--tables", "heap,clustered"]).unwrap();
        let tables: Vec<_> = kinds.stops.iter().map(|s| s.deployment.options.tables).collect();
        assert_eq!(tables, TableKind::ALL);
    }

    #[test]
    fn trees_have_partitions_only_where_they_are_multi_rooted() {
        let trees = |args: &[&str]| -> Vec<_> {
            let sweep = plan(&[&["micro", "--islands", "1", "--workers", "2"], args].concat()).unwrap();
            let of = |s: &Stop| {
                (s.deployment.design.name(), s.deployment.options.trees, s.deployment.partitions())
            };
            sweep.stops.iter().map(of).collect()
        };
        use TreeKind::{BTree, MultiRooted};
        assert_eq!(trees(&["--tree", "mrbtree"]), [("conventional", MultiRooted, 2)]);
        let both = trees(&["--tree", "btree,mrbtree", "--partitions", "3,8"]);
        let conventional = |trees, parts| ("conventional", trees, parts);
        assert_eq!(
            both,
            [conventional(BTree, 2), conventional(MultiRooted, 3), conventional(MultiRooted, 8)]
        );
        let occ = ["--design", "occ,logical", "--durability", "memory", "--tree", "btree,mrbtree"];
        let expected = [("occ", BTree, 2), ("logical", BTree, 2), ("logical", MultiRooted, 2)];
        assert_eq!(trees(&occ), expected, "no trees, no difference");
        let plp = trees(&["--design", "plp-regular,logical"]);
        assert_eq!(plp, [("plp-regular", MultiRooted, 2), ("logical", BTree, 2)]);
        let refused = plan(&["micro", "--design", "plp-regular", "--tree", "btree"]).err().unwrap();
        assert!(refused.to_string().contains("expected --tree mrbtree"), "{refused}");
        let refused = plan(&["micro", "--partitions", "4"]).err().unwrap();
        assert!(refused.to_string().contains("--tree mrbtree"), "{refused}");
    }

    #[test]
    fn only_owners_of_keys_have_anything_to_balance() {
        let sweep = |args: &[&str]| -> Vec<_> {
            let sweep = plan(&[&["micro", "--islands", "1", "--scale", "20"], args].concat()).unwrap();
            sweep
                .stops
                .iter()
                .map(|s| (s.deployment.design.name(), s.deployment.options.balance.mode))
                .collect()
        };
        let both = sweep(&["--design", "conventional,logical", "--balance", "off,on"]);
        assert_eq!(both, [("conventional", Mode::Off), ("logical", Mode::Off), ("logical", Mode::On)]);
        let plp = ["micro", "--islands", "1", "--scale", "20", "--design", "plp-regular"];
        let given = |args: &[&str]| plan(&[&plp[..], args].concat());
        let stop = given(&["--balance", "advise", "--balance-every", "1s", "--partitions", "16"]).unwrap();
        let deployment = &stop.stops[0].deployment;
        assert_eq!((deployment.options.balance.every_ms, deployment.partitions()), (1000, 16));
        let refused = |sweep: Result<Sweep, Failure>| sweep.err().unwrap().to_string();
        let text = refused(given(&["--partitions", "21"]));
        assert!(text.contains("--partitions 21") && text.contains("20 sites"), "{text}");
        let text = refused(plan(&["micro", "--islands", "1", "--balance", "on"]));
        assert!(text.contains("--balance on") && text.contains("--design logical"), "{text}");
    }
}
