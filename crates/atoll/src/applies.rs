//! Which option applies to which run.
//!
//! An option that changes nothing in the requested run is refused, because its user would believe
//! something false about the result. In a sweep, an option is accepted if one of the deployments
//! uses it. The designs that an option of the engine needs are in its declaration
//! ([`deploy::engine::OPTIONS`]). One table here lists the other options. Checks that depend on the
//! values of several options are made where those are read (`demand`, `sweep`,
//! [`deploy::engine::EngineOptions::check`]).

use crate::choices::design_of;
use crate::cli::{BenchArgs, COUNTER, ChannelArg, IPC, workload_names};
use crate::failure::Failure;
use clap::ArgMatches;
use clap::parser::ValueSource;
use deploy::engine::{Designs, EngineOption, OPTIONS};
use std::collections::BTreeSet;
use topology::IslandCount;

/// The options that were typed, by their long names.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// The options of a command, as it is defined and as it was typed.
    pub fn of(command: &clap::Command, matches: &ArgMatches) -> Given {
        let typed =
            |arg: &&clap::Arg| matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
        let names = command.get_arguments().filter(typed).filter_map(|arg| arg.get_long());
        Given(names.map(str::to_owned).collect())
    }

    pub fn has(&self, option: &str) -> bool {
        self.0.contains(option)
    }
}

/// The properties of a run that the table looks at.
struct Asked<'a> {
    args: &'a BenchArgs,
    given: &'a Given,
}

impl Asked<'_> {
    /// Whether one of the designs is among these.
    fn has_any(&self, designs: Designs) -> bool {
        self.args.deployment.design.iter().any(|design| designs.has(design_of(*design)))
    }

    /// Whether the option is given with a value that could change something.
    fn counts_on(&self, option: &EngineOption) -> bool {
        let values = self.args.deployment.engine.values(option.name);
        self.given.has(option.name) && values.iter().any(|value| option.harmless != Some(value.as_str()))
    }
}

/// Options that apply to a run if `when` holds.
struct Rule {
    options: &'static [&'static str],
    when: fn(&Asked) -> bool,
    /// The reason when they do not apply; continues "--option: ".
    otherwise: &'static str,
    weight: Weight,
}

/// The outcome of a run with an option that does not apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Weight {
    Refused,
    /// A remark: the option changes nothing that a reader of the rows could believe.
    Told,
}

use Weight::{Refused, Told};

const TRANSACTIONS: &[Rule] = &[
    Rule {
        options: &["balance-every"],
        when: |a| a.args.deployment.engine.values("balance").iter().any(|mode| mode != "off"),
        otherwise: "keys do not follow the load; expected --balance on or advise with it, or leave it out",
        weight: Refused,
    },
    Rule {
        options: &["listen"],
        when: |a| {
            let channels = &a.args.deployment.channel;
            channels.contains(&ChannelArg::Tcp) || channels.contains(&ChannelArg::Rdma)
        },
        otherwise: "only TCP and RDMA listen at an address; expected --channel tcp or rdma with it, or leave it out",
        weight: Refused,
    },
    Rule {
        options: &["distributed-timeout"],
        when: |a| {
            let islands = &a.args.deployment.islands;
            islands.is_empty() || islands.iter().any(|islands| *islands != IslandCount::Count(1))
        },
        otherwise: "with one island no transaction is over several instances; expected more --islands with it, or leave it out",
        weight: Refused,
    },
    Rule {
        options: &["max-requests"],
        when: |a| a.args.measuring.kill.is_some(),
        otherwise: "clients inside an instance are not held back; expected --kill N with it (its clients are outside), or leave \
                    it out",
        weight: Refused,
    },
    Rule {
        options: &["check-every"],
        when: |a| a.args.measuring.kill.is_some(),
        otherwise: "it counts kills; expected --kill N with it, or leave it out",
        weight: Refused,
    },
    Rule {
        options: &["backoff"],
        when: |a| a.args.measuring.retries.0 != Some(0),
        otherwise: "with --retries 0 nothing is tried again; expected more retries, or leave it out",
        weight: Refused,
    },
    Rule {
        options: &["duration", "warmup", "repeat"],
        when: |a| a.args.measuring.kill.is_none(),
        otherwise: "a run with --kill lasts as long as its kills take",
        weight: Told,
    },
];

/// The options of experiments without transactions.
pub const OF_COUNTER: &[&str] = &[
    "machine",
    "workers",
    "placement",
    "duration",
    "repeat",
    "out",
    "append",
    "overwrite",
    "json",
    "csv",
    "dry-run",
];
pub const OF_IPC: &[&str] =
    &["machine", "channel", "repeat", "out", "append", "overwrite", "json", "csv", "dry-run"];

/// Returns the remarks for a run that goes on.
///
/// # Errors
/// The first option that does not apply to this run.
pub fn check(given: &Given, args: &BenchArgs) -> Result<Vec<String>, Failure> {
    match args.workload.as_str() {
        COUNTER => only(given, COUNTER, OF_COUNTER),
        IPC => only(given, IPC, OF_IPC),
        _ => transactions(&Asked { args, given }),
    }
}

/// Refuses options of the engine that none of the designs has.
fn engine(asked: &Asked) -> Result<(), Failure> {
    for designs in Designs::ALL.into_iter().filter(|designs| !asked.has_any(*designs)) {
        let of = OPTIONS.iter().filter(|option| option.needs == designs && asked.counts_on(option));
        let in_vain: Vec<String> = of.map(|option| format!("--{}", option.name)).collect();
        if !in_vain.is_empty() {
            return Err(Failure::Usage(format!("{}: {}", in_vain.join(", "), designs.otherwise())));
        }
    }
    Ok(())
}

fn transactions(asked: &Asked) -> Result<Vec<String>, Failure> {
    engine(asked)?;
    let mut told = Vec::new();
    for rule in TRANSACTIONS.iter().filter(|rule| !(rule.when)(asked)) {
        let in_vain: Vec<String> = rule
            .options
            .iter()
            .filter(|option| asked.given.has(option))
            .map(|option| format!("--{option}"))
            .collect();
        if in_vain.is_empty() {
            continue;
        }
        let line = format!("{}: {}", in_vain.join(", "), rule.otherwise);
        match rule.weight {
            Refused => return Err(Failure::Usage(line)),
            Told => told.push(line),
        }
    }
    Ok(told)
}

/// Options that set the duration and the seed of a measurement: scripts give them to every workload
/// alike.
const OF_ANY: &[&str] = &["duration", "warmup", "seed"];

fn only(given: &Given, workload: &str, known: &[&str]) -> Result<Vec<String>, Failure> {
    let unknown = || given.0.iter().filter(|option| !known.contains(&option.as_str()));
    let Some(other) = unknown().find(|option| !OF_ANY.contains(&option.as_str())) else {
        return Ok(unknown().map(|option| format!("--{option}: {workload} makes nothing of it")).collect());
    };
    let known: Vec<String> = known.iter().map(|option| format!("--{option}")).collect();
    Err(Failure::Usage(format!(
        "--{other}: {workload} runs no transactions, and takes {}; expected one of these, or bench {}",
        known.join(", "),
        workload_names()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::{CommandFactory, FromArgMatches};

    fn checked(args: &[&str]) -> Result<Vec<String>, String> {
        let command = Cli::command();
        let matches = command.clone().try_get_matches_from([&["atoll", "bench"], args].concat()).unwrap();
        let bench = command.find_subcommand("bench").unwrap();
        let given = Given::of(bench, matches.subcommand_matches("bench").unwrap());
        let Some(Command::Bench(args)) = Cli::from_arg_matches(&matches).unwrap().command else {
            panic!("it is a bench")
        };
        check(&given, &args).map_err(|failure| {
            assert_eq!(failure.code(), 2);
            failure.to_string()
        })
    }

    #[test]
    fn an_option_without_a_reader_is_refused_with_what_would_read_it() {
        for (args, option, expected) in [
            (&["micro", "--occ-reads", "snapshot"][..], "--occ-reads", "--design occ"),
            (&["micro", "--occ-conflict", "wait", "--design", "serial"], "--occ-conflict", "--design occ"),
            (&["micro", "--design", "serial", "--latching", "coupled"], "--latching", "--design"),
            (&["micro", "--design", "occ", "--tree", "mrbtree"], "--tree", "--design"),
            (&["micro", "--design", "occ", "--sli", "off"], "--sli", "--design"),
            (&["micro", "--balance", "on"], "--balance", "--design logical"),
            (&["micro", "--design", "logical", "--balance-every", "1s"], "--balance-every", "--balance on"),
            (&["micro", "--listen", "7000"], "--listen", "--channel tcp"),
            (
                &["micro", "--islands", "1", "--distributed-timeout", "5s"],
                "--distributed-timeout",
                "more --islands",
            ),
            (&["tpcb", "--max-requests", "20"], "--max-requests", "--kill"),
            (&["tpcb", "--check-every", "2"], "--check-every", "--kill"),
            (&["micro", "--retries", "0", "--backoff", "1ms"], "--backoff", "--retries 0"),
            (&["ipc", "--kill", "3"], "--kill", "--channel"),
            (&["counter", "--islands", "2"], "--islands", "--placement"),
            (&["counter", "--profile"], "--profile", "bench micro"),
        ] {
            let line = checked(args).expect_err(option);
            assert!(line.starts_with(&format!("{option}: ")) && line.contains(expected), "{args:?}: {line}");
        }
    }

    #[test]
    fn one_reader_in_a_sweep_is_enough_and_defaults_need_none() {
        for args in [
            &["micro"][..],
            &["micro", "--design", "serial,occ"],
            &["micro", "--design", "conventional,occ", "--occ-reads", "snapshot", "--latching", "coupled"],
            &["micro", "--design", "serial,logical", "--balance", "off,on", "--balance-every", "1s"],
            &["micro", "--balance", "off"],
            &["micro", "--channel", "shm,tcp", "--listen", "7000"],
            &["micro", "--distributed-timeout", "5s"],
            &["micro", "--islands", "1,2", "--distributed-timeout", "5s"],
            &["tpcb", "--kill", "3", "--max-requests", "20"],
            &["counter", "--placement", "island,os", "--json"],
            &["ipc", "--channel", "shm", "--out", "d", "--append"],
        ] {
            assert_eq!(checked(args), Ok(Vec::new()), "{args:?}");
        }
    }

    #[test]
    fn what_misleads_nobody_is_only_told() {
        let told = checked(&["tpcb", "--kill", "3", "--duration", "1s", "--repeat", "1"]).unwrap();
        assert_eq!(told, ["--duration, --repeat: a run with --kill lasts as long as its kills take"]);
        let told = checked(&["ipc", "--duration", "1s", "--warmup", "1s"]).unwrap();
        assert_eq!(told, ["--duration: ipc makes nothing of it", "--warmup: ipc makes nothing of it"]);
    }

    /// An option in the table that the command line does not define can never be given.
    #[test]
    fn the_table_names_options_that_there_are() {
        let command = Cli::command();
        let bench = command.find_subcommand("bench").unwrap();
        let known: BTreeSet<&str> = bench.get_arguments().filter_map(|arg| arg.get_long()).collect();
        let named = TRANSACTIONS.iter().flat_map(|rule| rule.options).chain(OF_COUNTER).chain(OF_IPC);
        assert_eq!(named.filter(|option| !known.contains(**option)).collect::<Vec<_>>(), [&""; 0]);
    }
}
