//! `atoll bench counter`: threads that increment a shared counter, one counter per socket, island
//! or core, under each placement.

use crate::bench::{live_machine, ping, stamp};
use crate::cli::BenchArgs;
use crate::failure::Failure;
use crate::forecast::{Forecast, Leg, Windows};
use crate::output::Output;
use crate::progress::Progress;
use crate::sheet::error_width;
use deploy::Interrupt;
use driver::noise::Moment;
use driver::{Labels, MachineStamp, ResultRow, Settings, Watcher};
use std::time::Duration;
use topology::{CounterResult, CounterSpec, IslandCount, Machine, Protection, Sharing, run_counter};
use world::tell;

/// Shorter windows give no meaningful figures.
const SHORTEST: Duration = Duration::from_millis(50);

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

/// The number of rows.
pub fn rows(args: &BenchArgs, machine: &Machine) -> Result<usize, Failure> {
    Ok(variants(args, machine)?.len())
}

fn forecast(args: &BenchArgs, machine: &Machine) -> Result<Forecast, Failure> {
    let leg = |spec: CounterSpec| Leg {
        rows: vec![ResultRow { consistent: Some(true), ..planned(spec) }],
        windows: vec![Windows {
            warmup: Duration::ZERO,
            duration: spec.duration,
            repeat: spec.repeats as u32,
        }],
        before: Duration::ZERO,
        size: None,
    };
    Ok(Forecast::new(variants(args, machine)?.into_iter().map(leg).collect()))
}

/// Measures every variant, one after the other.
pub fn measure_all(
    args: &BenchArgs,
    machine: &Machine,
    interrupt: &Interrupt,
    output: &mut Output,
) -> Result<(), Failure> {
    let variants = variants(args, machine)?;
    let mut progress = Progress::planned(variants.len(), forecast(args, machine)?.clock(), None);
    let mut outcome = Ok(());
    for spec in variants {
        if interrupt.is_set() {
            outcome = Err(Failure::Interrupted);
            break;
        }
        progress.next(&format!(
            "counter, {} of them, {}, {}",
            spec.sharing.name(),
            spec.protection.name(),
            spec.placement
        ));
        progress.progress("counting", 0.0);
        let row = measure(machine, spec)?;
        progress.suspend(|| output.add(row))?;
    }
    progress.finish();
    outcome
}

/// Every variant that differs from the others on this machine: on one socket, a counter per socket
/// is the same as a single counter.
fn variants(args: &BenchArgs, machine: &Machine) -> Result<Vec<CounterSpec>, Failure> {
    let workers: Vec<usize> = match &args.deployment.workers[..] {
        [] => vec![machine.default_workers()],
        given => given.iter().map(|&w| w as usize).collect(),
    };
    let mut all = Vec::new();
    for workers in workers {
        for &placement in &args.deployment.placement {
            for protection in [Protection::Atomic, Protection::Lock] {
                all.extend(sharings(machine, workers)?.into_iter().map(|sharing| CounterSpec {
                    workers,
                    placement,
                    sharing,
                    protection,
                    duration: args.measuring.duration.max(SHORTEST),
                    repeats: args.measuring.repeat.unwrap_or(crate::demand::REPEAT) as usize,
                }));
            }
        }
    }
    Ok(all)
}

fn sharings(machine: &Machine, workers: usize) -> Result<Vec<Sharing>, Failure> {
    let sizes = [IslandCount::Shared, IslandCount::PerSocket, IslandCount::PerL3, IslandCount::PerCore];
    let mut counts = Vec::new();
    let mut different = Vec::new();
    for (sharing, size) in Sharing::ALL.into_iter().zip(sizes) {
        let count = size.resolve(machine, workers).map_err(Failure::usage)?;
        if !counts.contains(&count) {
            counts.push(count);
            different.push(sharing);
        }
    }
    Ok(different)
}

fn measure(machine: &Machine, spec: CounterSpec) -> Result<ResultRow, Failure> {
    let before = ping(machine);
    let start = Moment::now();
    let result = run_counter(machine, spec).map_err(Failure::run)?;
    let noise = start.noise_until(&Moment::now(), 0);
    let mut row = row_of(&result, spec);
    row.noise = noise;
    row.machine =
        MachineStamp { latency_before_ns: before, latency_after_ns: ping(machine), ..stamp(machine) };
    Ok(row)
}

/// The fields of a row that are certain before the measurement.
fn planned(spec: CounterSpec) -> ResultRow {
    let labels = Labels {
        counters: Some(spec.sharing.name().into()),
        protection: Some(spec.protection.name().into()),
        ..Labels::default()
    };
    ResultRow::new(Settings {
        workload: "counter".into(),
        workers: Some(spec.workers),
        placement: Some(spec.placement.name().into()),
        labels,
        ..Settings::default()
    })
}

fn row_of(result: &CounterResult, spec: CounterSpec) -> ResultRow {
    let mut row = planned(spec);
    (row.tps, row.tps_min, row.tps_max) = (result.per_second, result.per_second_min, result.per_second_max);
    row.seconds = spec.duration.as_secs_f64();
    row.committed = (result.per_second * row.seconds) as u64;
    row.consistent = Some(result.consistent);
    row.oversubscribed = result.oversubscribed;
    row
}
