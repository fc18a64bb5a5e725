//! `atoll record`: the transactions of a workload, kept for `replay`, and for plans.

use crate::bench::{consistent, live_machine, stamp};
use crate::cli::{Cli, Command, RecordArgs};
use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use crate::stop::Stop;
use crate::sweep::Sweep;
use base::TableId;
use clap::Parser;
use deploy::Interrupt;
use driver::Session;
use std::path::Path;
use std::time::Instant;
use workload::recording::{Op, Recorded};
use workload::{AnyWorkload, Recorder, Recording};

pub fn run(args: &RecordArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    refuse_place(&args.out)?;
    let machine = live_machine("live")?;
    let sweep = Sweep::plan(&as_bench(args)?, &machine, interrupt)?;
    let Some(Stop { deployment, placement, mut mixes }) = sweep.stops.into_iter().next() else {
        return Err(Failure::Usage("nothing to run".into()));
    };
    let (subject, schedule) = mixes.swap_remove(0);
    let workload = deployment.spec.build().map_err(Failure::usage)?;
    let mut progress = Progress::new(1);
    progress.next(&args.workload);
    let mut session = Session::open(deployment, stamp(&machine), placement.name(), &mut progress)?;
    let recorder = begin(&workload, &args.workload, args.transactions, &[])?;
    let begun = Instant::now();
    while !recorder.is_full() && begun.elapsed() < args.limit {
        let row = session.run(&subject, &schedule, &|| None, &mut progress)?;
        if row.interrupted == Some(true) {
            return Err(Failure::Interrupted);
        }
        consistent(&row)?;
    }
    session.close()?;
    progress.finish();
    let recording = recorder.finish();
    let recording = recording.ok_or_else(|| {
        Failure::Run(format!("no transaction has ended within {:?}; try a longer --limit", args.limit))
    })?;
    keep(&recording, &args.out)?;
    print(&summary(&recording, &args.out))
}

/// # Errors
/// Another recording is under way in this process.
pub fn begin(
    workload: &AnyWorkload,
    source: &str,
    transactions: u64,
    besides: &[TableId],
) -> Result<Recorder, Failure> {
    Recorder::start(workload, source, transactions as usize, besides)
        .ok_or_else(|| Failure::Run("another recording is under way in this process".into()))
}

/// # Errors
/// The place of a recording cannot be written; found out before anything is recorded.
pub fn refuse_place(out: &Path) -> Result<(), Failure> {
    let dir = out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let why = match (out.is_dir(), dir.is_dir()) {
        (true, _) => "is a directory; expected the name of a file",
        (false, false) => "its directory is not there; make it first",
        (false, true) => return Ok(()),
    };
    Err(Failure::Usage(format!("{}: {why}", out.display())))
}

/// # Errors
/// The file cannot be written.
pub fn keep(recording: &Recording, out: &Path) -> Result<(), Failure> {
    let mut name = out.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    // Beside its place at first, so that no half of it is ever there.
    let part = out.with_file_name(name);
    let write = || {
        std::fs::write(&part, recording.bytes())?;
        std::fs::rename(&part, out)
    };
    write().map_err(|why| {
        let _ = std::fs::remove_file(&part);
        Failure::Run(format!("{}: {why}", out.display()))
    })
}

/// What is in a recording, in a few lines.
pub fn summary(recording: &Recording, out: &Path) -> String {
    let (header, all) = (&recording.header, &recording.transactions);
    let spread = all.iter().filter(|recorded| recording.sites_of(recorded).len() > 1).count();
    let spread = 100.0 * spread as f64 / all.len().max(1) as f64;
    let touches = || all.iter().flat_map(Recorded::touches);
    let writes = touches().filter(|touch| touch.op.writes()).count();
    let scans = touches().filter(|touch| touch.op == Op::Scan).count();
    let mean = |n: usize| n as f64 / all.len().max(1) as f64;
    format!(
        "{} transactions of {} over {} sites, {spread:.1} % of them over several; {:.1} accesses each ({:.1} writes, \
         {:.1} scans), {} tables\nkept in {out}; next: atoll plan replay --recording {out}",
        all.len(),
        header.source,
        header.sites,
        mean(touches().count()),
        mean(writes),
        mean(scans),
        header.tables.len(),
        out = out.display(),
    )
}

/// A bench of one worker, in this process.
fn as_bench(args: &RecordArgs) -> Result<crate::cli::BenchArgs, Failure> {
    let words =
        "atoll bench WORKLOAD --islands 1 --workers 1 --host thread --repeat 1 --warmup 1ms --duration 1s";
    let words = words.split(' ').map(|word| if word == "WORKLOAD" { args.workload.as_str() } else { word });
    let Ok(Cli { command: Some(Command::Bench(bench)) }) = Cli::try_parse_from(words) else {
        return Err(Failure::Run("the command has lost its bench".into()));
    };
    let mut bench = *bench;
    bench.deployment.design = vec![args.design];
    bench.deployment.durability = vec![crate::cli::DurabilityArg::Memory];
    bench.measuring.seed = args.seed;
    bench.requests = args.requests.clone();
    Ok(bench)
}
