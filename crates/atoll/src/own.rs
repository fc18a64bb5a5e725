//! Command line options that only some workloads have: the workloads name them, with their values
//! and help ([`workload::spec::own_options`]).

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use workload::benchmark::{OwnOption, Takes};
use workload::spec::{ENTRIES, own_options};

/// The values of each given option, in the order given; an option that was not given has no entry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnOptions(pub BTreeMap<&'static str, Vec<String>>);

/// `workload` is the workload that has the option.
fn argument(workload: &str, option: &'static OwnOption) -> Arg {
    let arg = Arg::new(option.name)
        .long(option.name)
        .help(option.about)
        .value_delimiter(',')
        .action(ArgAction::Append)
        .hide_short_help(true)
        .help_heading(format!("Options of {workload} (a comma list measures each value)"));
    match option.takes {
        Takes::Word(words) => arg.value_name("WORD,...").value_parser(PossibleValuesParser::new(words)),
        Takes::File => arg.value_name("FILE,..."),
        Takes::Number(low, high) => arg
            .value_name("N,...")
            .value_parser(clap::value_parser!(u64).range(low..=high).map(|n| n.to_string())),
    }
}

impl Args for OwnOptions {
    fn augment_args(command: Command) -> Command {
        let named = ENTRIES.iter().filter_map(|entry| Some((entry.forms.first()?.name, entry.options)));
        command.args(named.flat_map(|(name, options)| options.iter().map(move |o| argument(name, o))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for OwnOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OwnOptions, clap::Error> {
        let given = |option: &'static OwnOption| {
            let values: Vec<String> = matches.get_many::<String>(option.name)?.cloned().collect();
            Some((option.name, values))
        };
        Ok(OwnOptions(own_options().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}
