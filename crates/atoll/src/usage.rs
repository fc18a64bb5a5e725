//! Errors of usage in one line: the value, the option, the expected values, and where to read more.

use crate::cli::Cli;
use crate::output::print;
use crate::screens::screen;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::process::ExitCode;
use world::tell;

/// Prints help and version as they are, and every other error of the parser as one line on standard
/// error. `typed`: the whole command line.
pub fn report(error: &clap::Error, typed: &[String]) -> ExitCode {
    if error.kind() == ErrorKind::DisplayHelp
        && let Some(text) = screen(typed.get(1..).unwrap_or_default())
    {
        let _ = print(&text); // a closed standard output is no failure of `--help`
        return ExitCode::SUCCESS;
    }
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print(); // a closed standard output is no failure of `--help`
        return ExitCode::SUCCESS;
    }
    tell(format_args!("atoll: {}", one_line(error, typed)));
    ExitCode::from(2)
}

fn one_line(error: &clap::Error, typed: &[String]) -> String {
    let told = |line: String| line + "; see --help";
    if let Some(line) = not_a_value(error, typed).or_else(|| empty(error)) {
        return told(line);
    }
    let rendered = error.render().to_string();
    let first =
        rendered.lines().next().unwrap_or_default().trim_start_matches("error: ").trim_end_matches(':');
    let first = first.split(" [possible values").next().unwrap_or(first);
    let mut line = reason(error).unwrap_or_else(|| first.to_owned());
    if error.kind() == ErrorKind::MissingRequiredArgument {
        line += &format!(": {}", text(error, ContextKind::InvalidArg).unwrap_or_default());
    }
    let valid = list(error, ContextKind::ValidValue);
    if !valid.is_empty() {
        return told(line + &among(&text(error, ContextKind::InvalidValue).unwrap_or_default(), &valid));
    }
    if error.kind() == ErrorKind::InvalidSubcommand {
        let given = text(error, ContextKind::InvalidSubcommand).unwrap_or_default();
        return told(line + &among(&given, &commands()));
    }
    for kind in [ContextKind::SuggestedValue, ContextKind::SuggestedArg] {
        if let Some(suggestion) = text(error, kind) {
            line += &format!("; did you mean {suggestion}?");
        }
    }
    told(line)
}

fn list(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(all)) => all.clone(),
        _ => Vec::new(),
    }
}

fn text(error: &clap::Error, kind: ContextKind) -> Option<String> {
    Some(list(error, kind).join(", ")).filter(|text| !text.is_empty())
}

/// The commands that are shown to users.
fn commands() -> Vec<String> {
    let all = Cli::command();
    all.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| c.get_name().to_owned()).collect()
}

/// The parser takes the `-5s` of `--seed -5s` for an option `-5`: the error names the option before
/// it instead.
fn not_a_value(error: &clap::Error, typed: &[String]) -> Option<String> {
    let given =
        text(error, ContextKind::InvalidArg).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    if !given.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let (option, value) = typed
        .windows(2)
        .map(|pair| (&pair[0], &pair[1]))
        .find(|(option, value)| value.starts_with(&given) && option.starts_with("--"))?;
    Some(format!("invalid value '{value}' for '{option}': expected one that does not begin with '-'"))
}

/// An option with an empty value.
fn empty(error: &clap::Error) -> Option<String> {
    let is_empty =
        matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(v)) if v.is_empty());
    if error.kind() != ErrorKind::InvalidValue || !is_empty {
        return None;
    }
    let arg = text(error, ContextKind::InvalidArg)?;
    let (option, value) = arg.split_once(' ').unwrap_or(("", &arg));
    let value = value.trim_matches(['<', '>']);
    let valid = list(error, ContextKind::ValidValue);
    let expected = if valid.is_empty() { value.to_owned() } else { format!("one of {}", valid.join(", ")) };
    Some(format!(
        "{}: the value is empty; expected {expected}",
        if option.is_empty() { value } else { option }
    ))
}

/// The valid values, after those that `given` may mean; the nearest come first.
fn among(given: &str, valid: &[String]) -> String {
    let mut near: Vec<(usize, &String)> = valid.iter().map(|name| (distance(given, name), name)).collect();
    // Stable: values at the same distance keep the order of the help.
    near.sort_by_key(|(distance, _)| *distance);
    let (least, letters) = (near.first().map_or(usize::MAX, |n| n.0), given.chars().count());
    let meant: Vec<&str> =
        near.iter().filter(|n| n.0 == least && least <= letters / 3).map(|n| n.1.as_str()).collect();
    let all: Vec<&str> = near.iter().map(|n| n.1.as_str()).collect();
    let hint = match &meant[..] {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        [others @ .., last] => format!("; did you mean {} or {last}?", others.join(", ")),
    };
    format!("{hint}; expected one of {}", all.join(", "))
}

/// The Damerau-Levenshtein distance; upper case equals lower case.
fn distance(given: &str, name: &str) -> usize {
    strsim::damerau_levenshtein(&given.to_lowercase(), &name.to_lowercase())
}

/// The reason why the option's own parser refused a value, with the option and the value named
/// once.
fn reason(error: &clap::Error) -> Option<String> {
    let (
        ErrorKind::ValueValidation,
        Some(ContextValue::String(option)),
        Some(ContextValue::String(value)),
        Some(reason),
    ) = (
        error.kind(),
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::InvalidValue),
        std::error::Error::source(error),
    )
    else {
        return None;
    };
    let (option, reason) = (option.split(' ').next()?, reason.to_string());
    let name = option.trim_start_matches('-');
    // Some parsers name the option themselves, because they also have other callers.
    let reason = reason.trim_end_matches(&format!("; correct {option}"));
    let quoted = format!("{value:?}");
    let heads = [format!("{name} {value}: "), format!("{name} {quoted}: "), format!("{quoted}: ")];
    let bare = heads.iter().find_map(|head| reason.strip_prefix(head.as_str())).unwrap_or(reason);
    let bare = &in_words(bare, value);
    Some(match () {
        () if bare.contains(option) => bare.to_owned(),
        () if bare.starts_with(&quoted) => format!("{option} {bare}"),
        () => format!("{option} {value}: {bare}"),
    })
}

/// The errors of the number parsers, in words that name the expected values.
fn in_words(reason: &str, value: &str) -> String {
    let range = reason.strip_prefix(&format!("{value} is not in ")).and_then(|range| range.split_once(".."));
    match range {
        Some((low, "")) => return format!("expected {low} or more"),
        Some((low, high)) => return format!("expected {low} to {}", high.trim_start_matches('=')),
        None => {}
    }
    let numbers = ["invalid digit found in string", "cannot parse integer from empty string"];
    match reason {
        _ if numbers.contains(&reason) => "expected a whole number".into(),
        "number too large to fit in target type" => "expected a smaller number".into(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    fn complaint(args: &[&str]) -> String {
        let typed: Vec<String> = [&["atoll"], args].concat().iter().map(|s| s.to_string()).collect();
        let error = Cli::try_parse_from(&typed).expect_err("wrong usage");
        super::one_line(&error, &typed)
    }

    #[test]
    fn every_complaint_is_one_line_with_value_and_expectation() {
        for (args, parts) in [
            (&["bench", "micro", "--op", "write"][..], &["write", "--op", "read, update"][..]),
            (&["bench", "micro", "--islands", "x"], &["x", "--islands", "per-core"]),
            (&["bench", "micro", "--duration", "5 parsecs"], &["5 parsecs", "--duration", "500ms"]),
            (&["bench", "micro", "--multisite", "120"], &["120", "--multisite", "0 to 100"]),
            (&["bench", "micro", "--island", "1"], &["--island"]),
            (&["bench", "micro", "--workers", "0"], &["--workers 0: expected 1 to 4096;"]),
            (&["bench", "micro", "--seed", "x"], &["--seed x: expected a whole number;"]),
            (&["bench"], &["WORKLOAD"]),
            (&["bench", "tpcz"], &["tpcz", "micro"]),
            (&["benhc"], &["benhc", "did you mean bench?"]),
            (&["bench", "micro", "--out", ""], &["--out: the value is empty; expected DIR"]),
            (&["bench", "micro", "--data", ""], &["--data: the value is empty; expected DIR"]),
            (&["bench", "micro", "--phases="], &["--phases: the value is empty; expected FILE|LINES"]),
            (&["bench", "micro", "--op", ""], &["--op", "empty; expected one of read, update"]),
            (&["bench", ""], &["WORKLOAD: the value is empty; expected one of micro"]),
            (&["bench", "micro", "--seed", "-5s"], &["-5s", "--seed", "whole number"]),
            (&["bench", "micro", "--repeat", "-5"], &["-5", "--repeat"]),
            (&["bench", "micro", "--duration", "-5s"], &["-5s", "--duration"]),
            (&["bench", "micro", "--lock-timeout", "soon"], &["soon", "--lock-timeout", "500ms"]),
        ] {
            let line = complaint(args);
            assert!(!line.contains('\n') && !line.contains("one of ;"), "{line}");
            for part in parts {
                assert!(line.contains(part), "{part:?} in {line:?}");
            }
        }
    }

    #[test]
    fn the_nearest_name_comes_first_and_capital_letters_do_not_matter() {
        assert!(complaint(&["bench", "TPCC"]).contains("did you mean tpcc?; expected one of tpcc, tpcb"));
        assert!(
            complaint(&["bench", "tpcd"]).contains("did you mean tpcb, tpcc or tpce?; expected one of tpcb,")
        );
        assert!(!complaint(&["bench", "benchmark"]).contains("did you mean"));
        let line = complaint(&["init"]);
        assert!(
            line.contains("expected one of") && line.contains("bench") && !line.contains("instance"),
            "{line}"
        );
    }
}
