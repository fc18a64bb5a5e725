//! `atoll bench` of a workload: every stop of the sweep, one after the other.

use crate::cli::BenchArgs;
use crate::failure::Failure;
use crate::output::{Output, thousands, title};
use crate::places;
use crate::progress::Progress;
use crate::shelf::{Reload, Shelf};
use crate::sweep::{Stop, Sweep};
use deploy::Interrupt;
use driver::{KillSchedule, MachineStamp, ResultRow, Session, Subject, Watcher};
use topology::{Machine, ping_pong_ns};

pub fn run(args: &BenchArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let machine = live_machine(&args.deployment.machine)?;
    let args = &places::adopt(args)?;
    let sweep = Sweep::plan(args, &machine, interrupt)?;
    let mut progress = match args.results.watch {
        true => Progress::watching(sweep.rows(), interrupt)?,
        false => Progress::new(sweep.rows()),
    };
    let mut output = Output::new(&args.results, &machine)?;
    sweep.remarks.iter().for_each(|r| progress.warn(r));
    let outcome = run_all(sweep, args, &machine, &mut progress, &mut output);
    progress.finish();
    // Rows measured before a failure are shown all the same; the failure decides how it ends.
    let shown = output.finish();
    outcome.and(shown)
}

/// The machine under this process.
///
/// # Errors
/// If another one was asked for: nothing can run there.
pub fn live_machine(argument: &str) -> Result<Machine, Failure> {
    let machine = Machine::parse(argument).map_err(Failure::usage)?;
    if !machine.is_live() {
        return Err(Failure::Usage(format!(
            "--machine {argument}: a described machine plans or simulates, it cannot run a bench; expected live; \
             look at it with atoll topology"
        )));
    }
    Ok(machine)
}

pub fn stamp(machine: &Machine) -> MachineStamp {
    MachineStamp {
        model: machine.model.clone(),
        cores: machine.cores(),
        islands: machine.allowed_islands().len(),
        ..MachineStamp::default()
    }
}

/// One-way latency between two cores that are as far apart as this machine has them, in nanoseconds.
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

/// All request mixes of a stop on one deployment, loaded once.
pub fn measure(
    stop: Stop,
    machine: &Machine,
    progress: &mut Progress,
    output: &mut Output,
) -> Result<(), Failure> {
    let names: Vec<String> = stop.mixes.iter().map(|(subject, _)| name(&stop, subject)).collect();
    progress.next(&names[0]);
    let mut session = Session::open(stop.deployment, stamp(machine), stop.placement.name(), progress)?;
    for (i, (subject, schedule)) in stop.mixes.iter().enumerate() {
        if i > 0 {
            progress.next(&names[i]);
        }
        let row = session.run(subject, schedule, &|| ping(machine), progress)?;
        progress.done(&format!("{} /s", thousands(row.tps)));
        progress.suspend(|| output.add(row))?;
    }
    Ok(session.close()?)
}

/// Each request mix on a database of its own: a ledger must have seen every transaction in it.
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
        let row = driver::torment(&mut session, subject, schedule, kills, &|| ping(machine), progress)?;
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
