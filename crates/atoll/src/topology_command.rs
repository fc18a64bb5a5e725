//! `atoll topology`: the machine as a picture or as JSON.

use crate::cli::TopologyArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::patience::interruptibly;
use crate::progress::Progress;
use deploy::Interrupt;
use driver::Watcher;
use topology::{Machine, ProbeSpec, measure_latency, picture};

pub fn run(args: &TopologyArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let argument = args.machine.clone();
    let machine = interruptibly(interrupt, move || Machine::parse(&argument))?;
    let mut machine = machine.map_err(Failure::usage)?;
    if args.probe {
        machine = probe(machine, ProbeSpec::THOROUGH)?;
    }
    if args.json {
        return print(&serde_json::to_string_pretty(&machine).map_err(Failure::run)?);
    }
    print(picture(&machine).trim_end())
}

/// The machine with its measured latencies, and the islands found from them.
pub fn probe(machine: Machine, spec: ProbeSpec) -> Result<Machine, Failure> {
    if !machine.is_live() {
        return Err(Failure::Usage(
            "--probe measures the machine under this process; expected --machine live; leave one of the two out".into(),
        ));
    }
    let mut progress = Progress::new(1);
    let probe = measure_latency(&machine, spec, |done, pairs| {
        progress.progress("measuring core-to-core latency", done as f64 / pairs.max(1) as f64);
    });
    let probe = probe.map_err(Failure::run)?;
    if let Some(note) = &probe.note {
        progress.warn(note);
    }
    Ok(if probe.latency.cpus().len() > 1 { machine.with_latency(probe.latency) } else { machine })
}
