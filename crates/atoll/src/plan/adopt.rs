//! `bench --plan FILE` and `load --plan FILE`: the options of a plan, unless they are typed.

use crate::applies::Given;
use crate::cli::{BenchArgs, Cli, Command, LoadArgs};
use crate::failure::Failure;
use advisor::Plan;
use clap::{CommandFactory, Parser};
use std::path::Path;
use workload::WorkloadSpec;
use world::tell;

/// The arguments of a bench with those of its plan.
///
/// # Errors
/// A file that is no plan; a plan for another workload.
pub fn adopt_bench(args: Box<BenchArgs>, given: &Given, typed: &[String]) -> Result<Box<BenchArgs>, Failure> {
    let Some(path) = &args.deployment.plan else { return Ok(args) };
    let plan = read(path)?;
    if plan.workload.name != args.workload {
        return Err(other(path, &plan, "bench", &args.workload));
    }
    match with(&plan, "bench", given, typed)? {
        Some(Command::Bench(args)) => Ok(args),
        _ => Err(Failure::Run("a bench with a plan is no bench".into())),
    }
}

/// The arguments of a load with those of a plan that shape the data.
///
/// # Errors
/// As [`adopt_bench`].
pub fn adopt_load(args: Box<LoadArgs>, given: &Given, typed: &[String]) -> Result<Box<LoadArgs>, Failure> {
    let Some(path) = &args.plan else { return Ok(args) };
    let plan = read(path)?;
    if !WorkloadSpec::new(&plan.workload.name, 1).is_kin_of(&WorkloadSpec::new(&args.workload, 1)) {
        return Err(other(path, &plan, "load", &args.workload));
    }
    match with(&plan, "load", given, typed)? {
        Some(Command::Load(args)) => Ok(args),
        _ => Err(Failure::Run("a load with a plan is no load".into())),
    }
}

fn other(path: &Path, plan: &Plan, command: &str, workload: &str) -> Failure {
    let (file, name) = (path.display(), &plan.workload.name);
    Failure::Usage(format!(
        "--plan {file}: a plan for {name}, not for {workload}; expected {command} {name}, or another plan"
    ))
}

fn read(path: &Path) -> Result<Plan, Failure> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Failure::Usage(format!("--plan {file}: {e}; expected a plan file as atoll plan --out writes it"))
    })?;
    let plan = Plan::parse(&file, &text).map_err(Failure::usage)?;
    if plan.machine.argument != "live" {
        let (name, cores) = (&plan.machine.name, plan.machine.cores);
        tell(format_args!(
            "atoll: warning: {file} is a plan for {name} with {cores} cores, not for this machine"
        ));
    }
    Ok(plan)
}

/// The command line as typed, followed by the plan's options that the command has and that were not
/// typed.
fn with(plan: &Plan, command: &str, given: &Given, typed: &[String]) -> Result<Option<Command>, Failure> {
    let all = Cli::command();
    let of = all.find_subcommand(command);
    let has = |option: &str| of.is_some_and(|c| c.get_arguments().any(|a| a.get_long() == Some(option)));
    let mut words = typed.to_vec();
    // The options follow the name of the command and of the workload, in pairs.
    let options = plan.bench_words().split_off(2);
    for pair in options.chunks(2) {
        let name = pair[0].trim_start_matches("--");
        if has(name) && !given.has(name) {
            words.extend_from_slice(pair);
        }
    }
    let cli = Cli::try_parse_from(&words).map_err(|e| {
        let why = e.to_string();
        Failure::Usage(format!("the plan's options do not fit: {}", why.lines().next().unwrap_or_default()))
    })?;
    Ok(cli.command)
}
