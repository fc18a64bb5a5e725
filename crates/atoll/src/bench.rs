//! `atoll bench` of a workload: every stop of the sweep, one after the other.

use crate::cli::BenchArgs;
use crate::failure::Failure;
use crate::forecast::Forecast;
use crate::output::{Output, title};
use crate::places;
use crate::progress::Progress;
use crate::sheet::error_width;
use crate::shelf::{Reload, Shelf};
use crate::stop::Stop;
use crate::sweep::Sweep;
use crate::units::scaled;
use deploy::{DeployError, Interrupt};
use driver::{KillSchedule, MachineStamp, ResultRow, Session, Subject, Watcher};
use topology::{Machine, ping_pong_ns};
use world::tell;

pub fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let machine = live_machine(&args.deployment.machine)?;
    let args = &places::adopt(args)?;
    let sweep = Sweep::plan(args, &machine, interrupt)?;
    let forecast = Forecast::of(&sweep, args.measuring.kill)?;
    if args.results.dry_run {
        sweep.remarks.iter().for_each(|remark| tell(format_args!("atoll: warning: {remark}")));
        return forecast.print(args.results.json);
    }
    tell(forecast.words(error_width()));
    let (rows, clock) = (sweep.rows(), forecast.clock());
    let mut progress = match args.results.watch {
        true => Progress::watching(rows, clock, interrupt)?,
        false => Progress::planned(rows, clock, args.results.progress),
    };
    let mut output = Output::new(&args.results, &machine)?;
    // The dashboard shows finished rows itself: they are printed when it closes.
    if !args.results.watch {
        output.expect(&forecast.rows());
    }
    sweep.remarks.iter().chain(&forecast.too_long()).for_each(|r| progress.warn(r));
    let outcome = run_all(sweep, args, &machine, &mut progress, &mut output);
    progress.finish();
    // Rows measured before a failure are shown as well; the failure decides the exit code.
    let shown = output.finish();
    outcome.and(shown)
}

/// The machine that this process runs on.
///
/// # Errors
/// Another machine was asked for: nothing can run there.
pub fn live_machine(argument: &str) -> Result<Machine, Failure> {
    // A machine description is not read here: it may be a pipe without a writer.
    if argument.trim() != "live" {
        return Err(Failure::Usage(format!(
            "--machine {argument}: a described machine plans or simulates, it cannot run a bench; expected live; \
             look at it with atoll topology"
        )));
    }
    Machine::live().map_err(Failure::run)
}

/// # Errors
/// The consistency check of the row's data did not hold; its findings are told.
pub fn consistent(row: &ResultRow) -> Result<(), Failure> {
    if row.consistent == Some(false) {
        row.violations.iter().for_each(|violation| world::tell(format_args!("atoll: {violation}")));
        return Err(Failure::Inconsistent { count: 1, rows: 1 });
    }
    Ok(())
}

pub fn stamp(machine: &Machine) -> MachineStamp {
    MachineStamp {
        model: machine.model.clone(),
        cores: machine.cores(),
        islands: machine.allowed_islands().len(),
        ..MachineStamp::default()
    }
}

/// The one-way latency between two cores with the greatest distance on this machine, in
/// nanoseconds.
pub fn ping(machine: &Machine) -> Option<f64> {
    let (a, b) = machine.stamp_pair()?;
    ping_pong_ns(a, b).ok()
}

fn run_all(
    sweep: Sweep,
    args: &BenchArgs,
    machine: &Machine,
    progress: &mut Progress,
    output: &mut Output,
) -> Result<(), Failure> {
    let kills = args.measuring.kill.map(|kills| KillSchedule {
        kills,
        check_every: args.measuring.check_every,
        clients: args.measuring.clients.first().unwrap_or(&4) * 2,
    });
    if let Some(dir) = &sweep.directory {
        deploy::begin_sweep(dir)?;
    }
    let mut shelf = Shelf::of(&sweep.stops, if kills.is_some() { Reload::EachMix } else { Reload::Never })?;
    for (i, mut stop) in sweep.stops.into_iter().enumerate() {
        shelf.lend(i, &mut stop)?;
        match &kills {
            None => measure(stop, machine, progress, output)?,
            Some(kills) => torment(stop, kills, machine, progress, output)?,
        }
    }
    Ok(())
}

/// Measures all request mixes of a stop on one deployment, loaded once. An interruption keeps the
/// rows measured so far.
pub fn measure(
    stop: Stop,
    machine: &Machine,
    progress: &mut Progress,
    output: &mut Output,
) -> Result<(), Failure> {
    let names: Vec<String> = stop.mixes.iter().map(|(subject, _)| name(&stop, subject)).collect();
    progress.next(&names[0]);
    let outcome = measure_mixes(stop, &names, machine, progress, output);
    if let Err(Failure::Interrupted) = outcome {
        progress.tell_interrupted();
    }
    outcome
}

fn measure_mixes(
    stop: Stop,
    names: &[String],
    machine: &Machine,
    progress: &mut Progress,
    output: &mut Output,
) -> Result<(), Failure> {
    let mut session = Session::open(stop.deployment, stamp(machine), stop.placement.name(), progress)?;
    for (i, (subject, schedule)) in stop.mixes.iter().enumerate() {
        if i > 0 {
            progress.next(&names[i]);
        }
        let row = session.run(subject, schedule, &|| ping(machine), progress)?;
        let interrupted = row.interrupted == Some(true);
        progress.done(&format!("{} /s", scaled(row.tps)));
        progress.suspend(|| output.add(row))?;
        if interrupted {
            return Err(Failure::Interrupted);
        }
    }
    Ok(session.close()?)
}

/// Runs each request mix on a database of its own: the ledger must record every transaction in its
/// database.
fn torment(
    stop: Stop,
    kills: &KillSchedule,
    machine: &Machine,
    progress: &mut Progress,
    output: &mut Output,
) -> Result<(), Failure> {
    for (subject, schedule) in &stop.mixes {
        progress.next(&name(&stop, subject));
        let mut session =
            Session::open(stop.deployment.clone(), stamp(machine), stop.placement.name(), progress)?;
        let row = driver::torment(&mut session, subject, schedule, kills, &|| ping(machine), progress);
        if let Err(DeployError::Interrupted) = row {
            progress.tell_interrupted();
        }
        let row = row?;
        progress.suspend(|| output.add(row))?;
        session.close()?;
    }
    Ok(())
}

fn name(stop: &Stop, subject: &Subject) -> String {
    let d = &stop.deployment;
    let mut row = ResultRow::default();
    row.settings.workload = subject.spec().name.clone();
    row.settings.design = Some(d.design.to_string());
    row.settings.islands = Some(d.islands);
    row.settings.channel = Some(d.channel.name().into());
    row.settings.labels = subject.labels();
    title(&row)
}
