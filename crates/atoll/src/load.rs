//! `atoll load`: a database that outlives the command, for later runs of any design and durability.
//!
//! A load is a deployment without requests: its instances write the data and close in order, which
//! puts everything on the device, and only then the directory is marked as a database. So a load
//! that ends early, for any reason, leaves a directory that is known as unfinished, and the next
//! load starts it anew.

use crate::applies::{self, Given};
use crate::bench::live_machine;
use crate::cli::{BenchArgs, COUNTER, Command, IPC, LoadArgs, workload_names};
use crate::failure::Failure;
use crate::output::print;
use crate::places::require_place_to_load;
use crate::progress::Progress;
use crate::sweep::Sweep;
use base::counted;
use clap::Parser;
use deploy::engine::Durability;
use deploy::{DataUse, Deployment, Interrupt};
use driver::Watcher;
use std::path::Path;
use std::time::Instant;
use world::tell;

/// Effects that were committed since loading; none in fresh data.
const NO_EFFECTS: Option<u64> = Some(0);

/// The result of a load.
pub struct Built {
    /// A description of the data.
    data: String,
    /// The same database was there already.
    was_there: bool,
    seconds: f64,
}

pub fn run(args: &LoadArgs, given: &Given, interrupt: &Interrupt) -> Result<(), Failure> {
    applies::check(given, &as_bench(args)?)?;
    report(args, &build(args, interrupt)?)
}

/// Loads, with no output but progress.
///
/// # Errors
/// Impossible options; a directory that holds something else; a failure to write it.
pub fn build(args: &LoadArgs, interrupt: &Interrupt) -> Result<Built, Failure> {
    if [COUNTER, IPC].contains(&args.workload.as_str()) {
        let expected = workload_names();
        return Err(Failure::Usage(format!("counter and ipc have no data to load; expected {expected}")));
    }
    let mut bench = as_bench(args)?;
    bench.workload = args.workload.clone();
    bench.requests.own = args.own.clone();
    let sweep = Sweep::plan(&bench, &live_machine("live")?, interrupt)?;
    let mut progress = Progress::new(1);
    sweep.remarks.iter().for_each(|remark| progress.warn(remark));
    let Some(stop) = sweep.stops.into_iter().next() else {
        return Err(Failure::Usage("nothing to load".into()));
    };
    // Commits are not waited for: the checkpoint at the end makes the data durable.
    let (durability, data) = (Durability::Async, Some(args.data.clone()));
    let deployment = Deployment { durability, data, data_use: DataUse::Load, ..stop.deployment };
    require_place_to_load(&args.data, &deployment)?;
    let data = format!("{} on {}", deployment.data_name, counted(deployment.islands, "island"));
    progress.next(&data);
    let start = Instant::now();
    let outcome = load(deployment, &mut progress);
    progress.finish();
    if let Err(Failure::Interrupted) = outcome {
        let dir = args.data.display();
        tell(format_args!("atoll: {dir} is unfinished; the same command starts the load anew"));
    }
    Ok(Built { data, was_there: outcome?, seconds: start.elapsed().as_secs_f64() })
}

/// The options that shape data, as options of a bench with one deployment.
fn as_bench(args: &LoadArgs) -> Result<BenchArgs, Failure> {
    let defaults = crate::cli::Cli::try_parse_from(["atoll", "bench", "micro"]).map_err(Failure::run)?;
    let Some(Command::Bench(defaults)) = defaults.command else {
        return Err(Failure::Run("the bench command has lost its defaults".into()));
    };
    let mut bench = *defaults;
    bench.deployment.islands = vec![args.islands];
    bench.deployment.design = vec![args.design];
    bench.deployment.workers = args.workers.into_iter().collect();
    args.shape.put_into(&mut bench.deployment.engine);
    bench.deployment.memory = args.memory;
    bench.deployment.memory_unchecked = args.memory_unchecked;
    bench.requests.dataset = args.dataset.into_iter().collect();
    bench.requests.scale = args.scale.into_iter().collect();
    Ok(bench)
}

/// Loads, unless the data is there already; returns whether it was.
fn load(deployment: Deployment, progress: &mut Progress) -> Result<bool, Failure> {
    let mut running = deployment.launch()?;
    let (was_there, effects) = (running.is_loaded(), running.effects_at_start());
    running.load(&mut |done, total| progress.progress("loading", done as f64 / total.max(1) as f64))?;
    progress.progress("writing", 1.0);
    running.stop(if was_there { effects } else { NO_EFFECTS })?;
    Ok(was_there)
}

fn report(args: &LoadArgs, built: &Built) -> Result<(), Failure> {
    let Built { data, was_there, seconds } = built;
    let (dir, bytes) = (args.data.display(), bytes_below(&args.data));
    if args.json {
        let line = serde_json::json!({
            "data": data, "dir": dir.to_string(), "loaded": !was_there, "seconds": seconds, "bytes": bytes,
        });
        return print(&line.to_string());
    }
    let mib = bytes.div_ceil(1 << 20);
    match was_there {
        true => print(&format!("{dir} holds {data} already, {mib} MiB; nothing was changed")),
        false => print(&format!("loaded {data} into {dir}: {mib} MiB in {seconds:.1} s")),
    }
}

/// Bytes of all files in a directory; files that cannot be read count as 0.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(m) if m.is_dir() => bytes_below(&entry.path()),
            Ok(m) => m.len(),
            Err(_) => 0,
        })
        .sum()
}
