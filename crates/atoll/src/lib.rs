//! The `atoll` command: from what was typed to rows on standard output.
//!
//! Typed text becomes `cli` values; a bench becomes a list of deployments with their request mixes (`sweep`), each
//! run by `deploy` and `driver` (`bench`); rows leave through `output` as JSON lines, a file, or a table. Without
//! arguments the `tour` chooses for itself what to show. This room knows no page, lock or message: it asks the rooms
//! below and words their answers for people. `load` builds a database that lasts, `check` looks at one (`loaded` does both for an experiment),
//! `backup_command` copies one and makes it anew; `places` decides which directory a run may use; `stats` counts what one
//! transaction touches. `report_command` makes a page of rows, and `results` keeps the directory that rows and page go into.
//! `figures` and `claims_command` run the papers' experiments (`lab`) and say what came of them.
//!
//! Results go to standard output, everything else to standard error. Exit code 0: success; 1: the run failed or a
//! consistency check did not hold; 2: wrong usage; 130: interrupted.

#![forbid(unsafe_code)]

mod cli;
mod own;
mod papers;
mod usage;
mod values;

mod backup_command;
mod bench;
mod check;
mod choices;
mod counter;
mod demand;
mod ipc;
mod load;
mod loaded;
mod places;
mod report_command;
mod shelf;
mod stats;
mod sweep;
mod topology_command;
mod tour;
mod typed;

mod claims_command;
mod figures;
mod lab;

mod failure;
mod output;
mod progress;
mod results;
mod watch;

use clap::Parser;
use cli::{COUNTER, Cli, Command, IPC};
use deploy::Interrupt;
use failure::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;

/// The whole program.
pub fn main() -> ExitCode {
    if let Some(code) = ipc::run_if_peer() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    let interrupt = Interrupt::default();
    match watch_signals(&interrupt).and_then(|()| run(cli, &interrupt)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("atoll: {failure}");
            ExitCode::from(failure.code())
        }
    }
}

fn run(cli: Cli, interrupt: &Interrupt) -> Result<(), Failure> {
    match cli.command {
        None => tour::run(interrupt),
        Some(Command::Topology(args)) => topology_command::run(&args),
        Some(Command::Bench(args)) => match args.workload.as_str() {
            COUNTER | IPC if args.measuring.profile => Err(Failure::Usage(format!(
                "--profile: only transactions have one; expected bench {}",
                cli::workload_names()
            ))),
            COUNTER | IPC if args.results.watch => Err(Failure::Usage(format!(
                "--watch: only transactions are shown as they run; expected bench {}",
                cli::workload_names()
            ))),
            COUNTER => counter::run(&args, interrupt),
            IPC => ipc::run(&args, interrupt),
            _ => bench::run(&args, interrupt),
        },
        Some(Command::Load(args)) => load::run(&args, interrupt),
        Some(Command::Stats(args)) => stats::run(&args, interrupt),
        Some(Command::Check(args)) => check::run(&args, interrupt),
        Some(Command::Backup(args)) => backup_command::back_up(&args, interrupt),
        Some(Command::Restore(args)) => backup_command::restore(&args, interrupt),
        Some(Command::Report(args)) => report_command::run(&args),
        Some(Command::Figures(args)) => figures::run(&args, interrupt),
        Some(Command::Claims(args)) => claims_command::run(&args, interrupt),
        Some(Command::Instance(_)) => Ok(deploy::host_child()?),
    }
}

/// The first Ctrl-C ends the run in order, the second one at once: the children notice that on their own.
fn watch_signals(interrupt: &Interrupt) -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_default(signal, interrupt.flag())
            .and_then(|_| signal_hook::flag::register(signal, interrupt.flag()))
            .map_err(|e| Failure::Run(format!("cannot catch signal {signal}: {e}")))?;
    }
    Ok(())
}
