//! Measured windows of one deployment.
//!
//! They are what `bench` measures with these options: the same command line goes through the same
//! sweep, so a trial or a probe cannot differ from the later `bench`.

use crate::bench::{consistent, ping, stamp};
use crate::cli::{Cli, Command};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::sweep::Sweep;
use advisor::Candidate;
use clap::Parser;
use deploy::Interrupt;
use driver::{ResultRow, Session};
use topology::Machine;

/// The windows to measure: values of the options of `bench`.
pub struct Windows {
    pub warmup: &'static str,
    pub duration: &'static str,
    pub repeat: &'static str,
    pub seed: u64,
}

/// Deploys, loads, measures, checks, and takes everything down. `options` are those of `bench` for
/// the workload and its load.
///
/// # Errors
/// Options that bench refuses; a run that fails; an interruption; data that is inconsistent
/// afterwards.
pub fn measure(
    (workload, options): (&str, &[(String, String)]),
    candidate: &Candidate,
    windows: &Windows,
    machine: &Machine,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<ResultRow, Failure> {
    let mut words = vec!["atoll".to_owned(), "bench".to_owned(), workload.to_owned()];
    let mut add = |option: &str, value: &str| words.extend([format!("--{option}"), value.to_owned()]);
    options.iter().for_each(|(option, value)| add(option, value));
    add("warmup", windows.warmup);
    add("duration", windows.duration);
    add("repeat", windows.repeat);
    add("seed", &windows.seed.to_string());
    words.extend(candidate.options());
    let Some(Command::Bench(args)) = Cli::try_parse_from(&words).map_err(Failure::run)?.command else {
        return Err(Failure::Run("a trial is no bench".into()));
    };
    let sweep = Sweep::plan(&args, machine, interrupt)?;
    let nothing = || Failure::Run(format!("{candidate}: there is nothing to run"));
    let stop = sweep.stops.into_iter().next().ok_or_else(nothing)?;
    let placement = stop.placement.name();
    let mut session = Session::open(stop.deployment, stamp(machine), placement, progress)?;
    let (subject, schedule) = &stop.mixes[0];
    let row = session.run(subject, schedule, &|| ping(machine), progress)?;
    if row.interrupted == Some(true) {
        return Err(Failure::Interrupted);
    }
    session.close()?;
    consistent(&row)?;
    Ok(row)
}
