//! The options of the engine on the command line: the table [`deploy::engine::OPTIONS`] as
//! arguments.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use deploy::engine::{EngineOption, EngineOptions, OPTIONS, Takes, Values};
use std::collections::BTreeMap;
use std::time::Duration;

/// The values of each option, typed or by default. A length of time is a number of milliseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EngineArgs(BTreeMap<&'static str, Vec<String>>);

impl EngineArgs {
    /// The values of an option; none if none is typed and it has no default.
    pub fn values(&self, option: &str) -> &[String] {
        debug_assert!(deploy::engine::option(option).is_some(), "--{option} is in no table");
        self.0.get(option).map_or(&[], Vec::as_slice)
    }

    pub fn has(&self, option: &str, value: &str) -> bool {
        self.values(option).iter().any(|known| known == value)
    }

    /// Gives an option this value, unless it has one.
    pub fn set_if_absent(&mut self, option: &'static str, value: impl ToString) {
        self.0.entry(option).or_insert_with(|| vec![value.to_string()]);
    }
}

impl Args for EngineArgs {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EngineArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<EngineArgs, clap::Error> {
        Ok(EngineArgs(OPTIONS.iter().filter_map(|option| given(option, matches)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.extend(Self::from_arg_matches(matches)?.0);
        Ok(())
    }
}

/// The options of `atoll load`: those that shape the data, each with one value.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShapeArgs(EngineArgs);

impl ShapeArgs {
    /// Gives `bench` these values.
    pub fn put_into(&self, bench: &mut EngineArgs) {
        for option in OPTIONS.iter().filter(|option| option.load.is_some()) {
            match self.0.0.get(option.name) {
                Some(values) => drop(bench.0.insert(option.name, values.clone())),
                None => drop(bench.0.remove(option.name)),
            }
        }
    }
}

impl Args for ShapeArgs {
    fn augment_args(command: Command) -> Command {
        command.args(OPTIONS.iter().filter_map(argument_of_load))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ShapeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ShapeArgs, clap::Error> {
        let shaping = OPTIONS.iter().filter(|option| option.load.is_some());
        Ok(ShapeArgs(EngineArgs(shaping.filter_map(|option| given(option, matches)).collect())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.0.extend(Self::from_arg_matches(matches)?.0.0);
        Ok(())
    }
}

fn given(option: &EngineOption, matches: &ArgMatches) -> Option<(&'static str, Vec<String>)> {
    Some((option.name, matches.get_many::<String>(option.name)?.cloned().collect()))
}

/// An argument of `bench`.
fn argument(option: &'static EngineOption) -> Arg {
    let arg = plain(option, option.help).help_heading(option.section.heading());
    let arg = option.more.iter().fold(arg, |arg, more| arg.long_help(format!("{}\n\n{more}", option.help)));
    let arg = option.default.iter().fold(arg, |arg, default| arg.default_value(*default));
    match option.values {
        Values::One => arg,
        Values::List => {
            arg.value_name(format!("{},...", option.value)).value_delimiter(',').action(ArgAction::Append)
        }
    }
}

/// An argument of `load`, if the option shapes the data.
fn argument_of_load(option: &'static EngineOption) -> Option<Arg> {
    let load = option.load?;
    let arg = plain(option, load.help);
    Some(load.default.iter().fold(arg, |arg, default| arg.default_value(*default)))
}

fn plain(option: &'static EngineOption, help: &'static str) -> Arg {
    Arg::new(option.name)
        .long(option.name)
        .value_name(option.value)
        .value_parser(parser(option))
        .help(help)
        .hide_short_help(true)
}

/// Takes the values that the option takes, as text.
fn parser(option: &'static EngineOption) -> ValueParser {
    match option.takes {
        Takes::Words(words) => {
            let words = words.iter().map(|(word, help)| PossibleValue::new(*word).help(*help));
            PossibleValuesParser::new(words).into()
        }
        Takes::Number(least, most) => {
            ValueParser::new(clap::value_parser!(u64).range(least..=most).map(|n| n.to_string()))
        }
        Takes::Millis(least, most) => ValueParser::new(move |text: &str| millis(text, least, most)),
        Takes::Time(least, most) => ValueParser::new(move |text: &str| time(text, least, most)),
        Takes::Text => ValueParser::new(move |text: &str| -> Result<String, String> {
            (option.set)(&mut EngineOptions::default(), text)?;
            Ok(text.to_owned())
        }),
    }
}

/// A length of time in this range, in ms. A number alone is in ms.
fn millis(text: &str, least: u64, most: u64) -> Result<String, String> {
    let range = Duration::from_millis(least)..=Duration::from_millis(most);
    traffic::parse_time_in(text, "ms", range).map(|time| time.as_millis().to_string())
}

/// The same. A number alone is in seconds.
fn time(text: &str, least: u64, most: u64) -> Result<String, String> {
    let time = traffic::parse_time(text)?;
    let (least, most) = (Duration::from_millis(least), Duration::from_millis(most));
    match (least..=most).contains(&time) {
        true => Ok(time.as_millis().to_string()),
        false => Err(format!("expected {} to {}", traffic::in_words(least), traffic::in_words(most))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_become_milliseconds() {
        let ms = |text: &str| millis(text, 1, 600_000);
        assert_eq!([ms("100"), ms("1s"), ms("1.5s")], ["100", "1000", "1500"].map(|n| Ok(n.to_owned())));
        assert!(ms("0").is_err() && ms("11m").is_err() && ms("50us").is_err());
        let of = |text: &str| time(text, 10, 600_000);
        assert_eq!([of("1"), of("250ms")], ["1000", "250"].map(|n| Ok(n.to_owned())));
        assert_eq!(of("9ms"), Err("expected 10ms to 10m".into()));
        assert!(of("11m").is_err() && of("soon").is_err());
    }

    /// The values that are set if nothing is typed are the engine's own.
    #[test]
    fn nothing_typed_is_the_default() {
        let command = EngineArgs::augment_args(Command::new("bench"));
        let args = EngineArgs::from_arg_matches(&command.get_matches_from(["bench"])).unwrap();
        let mut options = EngineOptions::default();
        for option in OPTIONS {
            let values = args.values(option.name);
            values.iter().for_each(|value| (option.set)(&mut options, value).unwrap());
        }
        assert_eq!(options, EngineOptions::default());
    }
}
