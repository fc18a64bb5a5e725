//! `atoll bench ipc`: round trips of a message between two cores, for every mechanism, polling and
//! blocking.
//!
//! The peer of a measurement is this program in another process ([`run_if_peer`]).

use crate::bench::{live_machine, ping, stamp};
use crate::cli::{BenchArgs, ChannelArg};
use crate::failure::Failure;
use crate::forecast::{Forecast, Leg, Windows};
use crate::output::Output;
use crate::progress::Progress;
use crate::sheet::error_width;
use channel::ipc::{Figures, IpcError, Mechanism, Plan, Waiting, launch_self, measure};
use deploy::Interrupt;
use driver::noise::Moment;
use driver::{Labels, LatencyUs, MachineStamp, RepetitionRow, ResultRow, Settings, Watcher};
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use topology::{CpuId, Machine, pin_thread};
use world::tell;

/// The longest message: a pipe moves it in one piece.
const MESSAGE_BYTES: usize = 256;

/// `Some` in the process that is the peer of a measurement: its part is done.
pub fn run_if_peer() -> Option<ExitCode> {
    let outcome = channel::ipc::run_if_peer(pin)?;
    Some(outcome.map_or_else(
        |e| {
            tell(format_args!("atoll: far side of bench ipc: {e}"));
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

fn pin(cpu: usize) {
    if let Err(e) = pin_thread(CpuId(cpu as u32)) {
        tell(format_args!("atoll: warning: {e}"));
    }
}

/// Two CPUs and the distance between them.
#[derive(Clone, Copy)]
struct Pair {
    name: &'static str,
    cpus: [usize; 2],
}

pub fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let machine = live_machine(&args.deployment.machine)?;
    let forecast = forecast(args, &machine)?;
    if args.results.dry_run {
        return forecast.print(args.results.json);
    }
    tell(forecast.words(error_width()));
    let mut output = Output::new(&args.results, &machine)?;
    output.expect(&forecast.rows());
    let outcome = measure_all(args, &machine, interrupt, &mut output);
    let shown = output.finish();
    outcome.and(shown)
}

fn mechanisms(args: &BenchArgs) -> Result<Vec<Mechanism>, Failure> {
    match &args.deployment.channel[..] {
        [] => Ok(Mechanism::ALL.into()),
        given => given.iter().map(|&c| mechanism_of(c)).collect(),
    }
}

/// A mechanism between a pair, and how each side waits.
type Variant = (Pair, Mechanism, Waiting);

fn variants(args: &BenchArgs, machine: &Machine) -> Result<Vec<Variant>, Failure> {
    let mechanisms = mechanisms(args)?;
    let of_pair = |pair: Pair| {
        let of = move |&mechanism: &Mechanism| Waiting::ALL.into_iter().map(move |w| (pair, mechanism, w));
        mechanisms.iter().flat_map(of).collect::<Vec<_>>()
    };
    Ok(pairs(machine)?.into_iter().flat_map(of_pair).collect())
}

/// The greatest number of rows: a mechanism that the system does not have is left out.
pub fn rows(args: &BenchArgs, machine: &Machine) -> Result<usize, Failure> {
    Ok(variants(args, machine)?.len())
}

/// The least time that a measurement takes on an idle machine.
const LEAST: Duration = Duration::from_millis(200);

fn forecast(args: &BenchArgs, machine: &Machine) -> Result<Forecast, Failure> {
    let repeat = repeat(args);
    let leg = |variant: Variant| {
        let row = ResultRow {
            latency_us: Some(LatencyUs::default()),
            messages_per_second: Some(0.0),
            ..planned(variant)
        };
        let windows = Windows { warmup: Duration::ZERO, duration: LEAST, repeat };
        Leg { rows: vec![row], windows: vec![windows], before: Duration::ZERO, size: None }
    };
    Ok(Forecast::new(variants(args, machine)?.into_iter().map(leg).collect()))
}

fn repeat(args: &BenchArgs) -> u32 {
    args.measuring.repeat.unwrap_or(crate::demand::REPEAT)
}

/// Measures every mechanism between every pair, one after the other.
pub fn measure_all(
    args: &BenchArgs,
    machine: &Machine,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(), Failure> {
    let variants = variants(args, machine)?;
    let directory = tempfile::Builder::new()
        .prefix("atoll-ipc-")
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|e| {
            Failure::Run(format!("cannot create a temporary directory: {e}; set TMPDIR to another place"))
        })?;
    let mut progress = Progress::planned(variants.len(), forecast(args, machine)?.clock(), None);
    for variant in variants {
        if interrupt.is_set() {
            return Err(Failure::Interrupted);
        }
        let (pair, mechanism, waiting) = variant;
        progress.next(&format!("ipc, {mechanism}, {waiting}, {}", pair.name));
        progress.progress("measuring", 0.0);
        let plan = Plan {
            message_bytes: MESSAGE_BYTES,
            cpus: pair.cpus,
            ..Plan::new(mechanism, waiting, directory.path().join("links"))
        };
        match row(machine, variant, &plan, repeat(args)) {
            Ok(row) => progress.suspend(|| output.add(row))?,
            Err(e @ IpcError::Unavailable { .. }) => progress.warn(&format!("left out: {e}")),
            Err(e) => return Err(Failure::Run(format!("{mechanism}, {waiting}: {e}"))),
        }
    }
    progress.finish();
    Ok(())
}

fn mechanism_of(channel: ChannelArg) -> Result<Mechanism, Failure> {
    Ok(match channel {
        ChannelArg::Shm => Mechanism::Shm,
        ChannelArg::Uds => Mechanism::Uds,
        ChannelArg::Tcp => Mechanism::Tcp,
        ChannelArg::Ring => Mechanism::Ring,
        ChannelArg::Pipe => Mechanism::Pipe,
        ChannelArg::Fifo => Mechanism::Fifo,
        ChannelArg::Mqueue => Mechanism::Mqueue,
        ChannelArg::Rdma => {
            return Err(Failure::Usage(
                "bench ipc --channel rdma: it measures two cores of one machine; expected shm, uds, tcp, ring, pipe, fifo or \
                 mqueue"
                    .into(),
            ));
        }
    })
}

/// Two cores of one island, and two of different islands, if the machine has them.
fn pairs(machine: &Machine) -> Result<Vec<Pair>, Failure> {
    let islands = machine.allowed_islands();
    let core = |cpu: &CpuId| machine.pu(*cpu).map(|pu| pu.core);
    let pair = |name, a: CpuId, b: CpuId| Pair { name, cpus: [a.0 as usize, b.0 as usize] };
    let near = islands.iter().find_map(|island| {
        let first = island.cpus.first()?;
        let other = island.cpus.iter().find(|cpu| core(cpu) != core(first))?;
        Some(pair("same island", *first, *other))
    });
    let far = match &islands[..] {
        [first, .., last] => Some((first, last)),
        _ => None,
    };
    let far = far.and_then(|(a, b)| Some(pair("different islands", *a.cpus.first()?, *b.cpus.first()?)));
    let pairs: Vec<Pair> = near.into_iter().chain(far).collect();
    if pairs.is_empty() {
        return Err(Failure::Run(
            "bench ipc needs two cores, and this process may use one: widen its CPU set".into(),
        ));
    }
    Ok(pairs)
}

/// The fields of a row that are certain before the measurement.
fn planned((pair, mechanism, waiting): Variant) -> ResultRow {
    let labels = Labels {
        peers: Some(pair.name.into()),
        waiting: Some(waiting.name().into()),
        message_bytes: Some(MESSAGE_BYTES as u64),
        ..Labels::default()
    };
    ResultRow::new(Settings {
        workload: "ipc".into(),
        channel: Some(mechanism.name().into()),
        labels,
        ..Settings::default()
    })
}

fn latency(figures: &Figures) -> LatencyUs {
    LatencyUs {
        p50: figures.p50_ns as f64 / 1000.0,
        p99: figures.p99_ns as f64 / 1000.0,
        ..LatencyUs::default()
    }
}

/// The median of `repeat` measurements; for an even number, the slower of the two in the middle.
fn row(machine: &Machine, variant: Variant, plan: &Plan, repeat: u32) -> Result<ResultRow, IpcError> {
    let before = ping(machine);
    let mut runs = Vec::new();
    for _ in 0..repeat {
        let (moment, start) = (Moment::now(), Instant::now());
        let figures = measure(plan, launch_self, pin)?;
        // The peer, a process of its own, is as busy as this one.
        let far = if plan.mechanism == Mechanism::Ring { 0 } else { start.elapsed().as_nanos() as u64 };
        runs.push((moment.noise_until(&Moment::now(), far), start.elapsed().as_secs_f64(), figures));
    }
    let rate = |f: &Figures| 1e9 / f.mean_ns.max(1) as f64;
    let repetitions = runs.iter().map(|(noise, _, f)| RepetitionRow {
        tps: rate(f),
        noise: *noise,
        latency_us: Some(latency(f)),
    });
    let repetitions = repetitions.collect();
    runs.sort_by_key(|(.., f)| f.mean_ns);
    let (fastest, slowest) = (rate(&runs[0].2), rate(&runs[runs.len() - 1].2));
    let (noise, seconds, figures) = &runs[runs.len() / 2];
    let mut row = planned(variant);
    (row.tps, row.tps_min, row.tps_max) = (rate(figures), slowest, fastest);
    row.committed = figures.round_trips as u64;
    row.repetitions = repetitions;
    row.latency_us = Some(latency(figures));
    row.messages_per_second = Some(figures.messages_per_s);
    row.seconds = *seconds;
    row.noise = *noise;
    row.machine =
        MachineStamp { latency_before_ns: before, latency_after_ns: ping(machine), ..stamp(machine) };
    Ok(row)
}
