//! The `atoll` command: from the typed command line to rows on standard output.
//!
//! The typed text becomes values of `cli`. A bench becomes a list of deployments with their request
//! mixes (`sweep`), which is printed first (`forecast`); `deploy` and `driver` run each deployment
//! (`bench`). Rows leave through `output` as JSON lines, a file, or a table (`sheet`) with columns
//! (`columns`) that fit the terminal. `screens` holds the help that is more than a list of options.
//! Without arguments, `tour` chooses the measurements. This crate works with no page, lock or
//! message itself: it calls the crates below and presents their answers.
//!
//! `plan` chooses a deployment by the model of `advisor`, and on this machine by short trials.
//!
//! `load` builds a database that lasts, `check` inspects one (`loaded` does both for an
//! experiment), `backup_command` copies and restores one, and `dump` writes and reads one as SQL;
//! `places` decides which directory a run may use; `stats` counts the records, locks and pages that
//! one transaction touches. `record_command` keeps the transactions of a run for `replay`.
//! `report_command` makes a page from rows, `compare_command` compares two sets of rows, and
//! `results` keeps the directory of rows and page. `figures` and `claims_command` run the papers'
//! experiments (`lab`) and print their results.
//!
//! `cluster_command` runs the agent of a machine, and starts and shows agents; `ground` is what a
//! sweep is planned on.
//!
//! `tracing` records transactions under an emulator, and `cachesim_command` runs a trace on
//! modelled caches.
//!
//! Results go to standard output, everything else to standard error. Exit code 0: success; 1: the
//! run failed or a consistency check did not hold; 2: wrong usage; 130: interrupted (Ctrl-C,
//! SIGTERM, SIGHUP); 141: the reader has closed standard output, as if SIGPIPE had ended the
//! process. Text that cannot be written to standard error is lost, and the run goes on.

#![forbid(unsafe_code)]

mod applies;
mod cli;
mod engine_args;
mod examples;
mod listen;
mod manual;
mod own;
mod papers;
mod screens;
mod usage;
mod values;
mod version;

mod backup_command;
#[cfg(feature = "copies")]
mod base_command;
#[cfg(not(feature = "copies"))]
#[path = "no_base.rs"]
mod base_command;
mod bench;
mod check;
mod choices;
mod counter;
mod demand;
mod dump;
mod ipc;
mod leased;
mod load;
mod loaded;
mod membership;
mod memory;
mod places;
mod plan;
mod record_command;
mod report_command;
mod seen;
mod serve_command;
mod shelf;
mod stats;
mod stop;
mod sweep;
mod topology_command;
mod tour;
mod traced;
mod typed;

mod cachesim_command;
mod claims_command;
mod cluster_command;
mod compare_command;
mod figures;
mod lab;

mod claimed;
mod clock;
mod columns;
mod config_file;
mod failure;
mod forecast;
mod ground;
mod interval;
mod output;
mod patience;
mod plain;
mod progress;
mod results;
mod row_table;
mod service;
mod sheet;
mod signals;
mod simulated;
mod ticker;
mod tracing;
mod units;
mod watch;

use applies::Given;
use clap::{ArgMatches, FromArgMatches};
use cli::{COUNTER, Cli, Command, IPC};
use deploy::Interrupt;
use failure::Failure;
use std::process::ExitCode;
use world::tell;

/// The whole program.
pub fn main() -> ExitCode {
    if let Some(code) = ipc::run_if_peer() {
        return code;
    }
    #[cfg(feature = "rdma")]
    rdma::provide();
    driver::built_from(version::COMMIT);
    workload::recording::read_files_by(|path| std::fs::read(path));
    let words = match config_file::with_its_options(std::env::args_os().collect()) {
        Ok(words) => words,
        Err(failure) => {
            tell(format_args!("atoll: {failure}"));
            return ExitCode::from(failure.code());
        }
    };
    let typed: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut command = cli::command();
    let read = command.try_get_matches_from_mut(words);
    let read = read.and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match read {
        Ok(read) => read,
        Err(error) => return usage::report(&error.format(&mut command), &typed),
    };
    let interrupt = Interrupt::default();
    match signals::watch(&interrupt).and_then(|()| run(cli, &typed, &given(&command, &matches), &interrupt)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // A reader that has closed standard output needs no message.
            if !matches!(failure, Failure::OutputClosed) {
                tell(format_args!("atoll: {failure}"));
            }
            ExitCode::from(failure.code())
        }
    }
}

/// The options that were typed after the command.
fn given(command: &clap::Command, matches: &ArgMatches) -> Given {
    let typed = matches.subcommand().and_then(|(name, of)| Some((command.find_subcommand(name)?, of)));
    typed.map_or_else(Given::default, |(command, of)| Given::of(command, of))
}

fn run(cli: Cli, typed: &[String], given: &Given, interrupt: &Interrupt) -> Result<(), Failure> {
    match cli.command {
        None => tour::run(interrupt),
        Some(Command::Topology(args)) => topology_command::run(&args, interrupt),
        Some(Command::Plan(args)) => plan::run(&args, interrupt),
        Some(Command::Bench(args)) => {
            let args = plan::adopt_bench(args, given, typed)?;
            for remark in applies::check(given, &args)? {
                tell(format_args!("atoll: warning: {remark}"));
            }
            match args.workload.as_str() {
                COUNTER => counter::run(&args, interrupt),
                IPC => ipc::run(&args, interrupt),
                _ => bench::run(&args, interrupt),
            }
        }
        Some(Command::Load(args)) => load::run(&*plan::adopt_load(args, given, typed)?, given, interrupt),
        Some(Command::Stats(args)) => stats::run(&args, interrupt),
        Some(Command::Record(args)) => record_command::run(&args, interrupt),
        Some(Command::Check(args)) => check::run(&args, interrupt),
        Some(Command::Backup(args)) => backup_command::back_up(&args, interrupt),
        Some(Command::Dump(args)) => dump::dump(&args, interrupt),
        Some(Command::Restore(args)) if dump::is_dump(&args.from) => dump::restore(&args, interrupt),
        Some(Command::Restore(args)) => backup_command::restore(&args, interrupt),
        Some(Command::Base(args)) => base_command::run(&args, interrupt),
        Some(Command::Serve(args)) => serve_command::run(&args, interrupt),
        Some(Command::Report(args)) => report_command::run(&args, interrupt),
        Some(Command::Compare(args)) => compare_command::run(&args, interrupt),
        Some(Command::Figures(args)) if args.simulated && !args.list => simulated::figures(&args, interrupt),
        Some(Command::Figures(args)) => figures::run(&args, interrupt),
        Some(Command::Claims(args)) if args.how == [claims::How::Simulated] => {
            simulated::claims(&args, interrupt)
        }
        Some(Command::Claims(args)) => claims_command::run(&args, interrupt),
        Some(Command::Trace(args)) => tracing::run(&args, interrupt),
        Some(Command::Cachesim(args)) => cachesim_command::run(&args, interrupt),
        Some(Command::Completions(args)) => manual::completions(&args),
        Some(Command::Man(args)) => manual::man(&args),
        Some(Command::Agent(args)) => cluster_command::run_agent(&args, interrupt),
        Some(Command::Cluster(args)) => cluster_command::run(&args),
        Some(Command::Instance(_)) => Ok(deploy::host_child_guarded(cluster_command::guards)?),
    }
}
