//! Wrong usage in one line: which value of which option, what was expected, where to look.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::process::ExitCode;

/// Prints help and version as they are, every other complaint of the parser as one line on standard error.
pub fn report(error: &clap::Error) -> ExitCode {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let _ = error.print(); // a closed standard output is no failure of `--help`
        return ExitCode::SUCCESS;
    }
    eprintln!("atoll: {}", one_line(error));
    ExitCode::from(2)
}

fn one_line(error: &clap::Error) -> String {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(s)) => Some(s.clone()),
        Some(ContextValue::Strings(all)) => Some(all.join(", ")),
        _ => None,
    };
    let rendered = error.render().to_string();
    let first =
        rendered.lines().next().unwrap_or_default().trim_start_matches("error: ").trim_end_matches(':');
    let mut line = first.split(" [possible values").next().unwrap_or(first).to_string();
    if error.kind() == ErrorKind::MissingRequiredArgument {
        line += &format!(": {}", text(ContextKind::InvalidArg).unwrap_or_default());
    }
    if let Some(valid) = text(ContextKind::ValidValue).or_else(|| text(ContextKind::ValidSubcommand)) {
        line += &format!("; expected one of {valid}");
    }
    for (kind, what) in [
        (ContextKind::SuggestedValue, ""),
        (ContextKind::SuggestedArg, ""),
        (ContextKind::SuggestedSubcommand, "command "),
    ] {
        if let Some(suggestion) = text(kind) {
            line += &format!("; did you mean {what}{suggestion}?");
        }
    }
    line + "; see --help"
}

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use clap::Parser;

    fn complaint(args: &[&str]) -> String {
        let error = Cli::try_parse_from([&["atoll"], args].concat()).expect_err("wrong usage");
        super::one_line(&error)
    }

    #[test]
    fn every_complaint_is_one_line_with_value_and_expectation() {
        for (args, parts) in [
            (&["bench", "micro", "--op", "write"][..], &["write", "--op", "read, update"][..]),
            (&["bench", "micro", "--islands", "x"], &["x", "--islands", "per-core"]),
            (&["bench", "micro", "--duration", "5 parsecs"], &["5 parsecs", "--duration", "500ms"]),
            (&["bench", "micro", "--multisite", "120"], &["120", "--multisite", "0 to 100"]),
            (&["bench", "micro", "--island", "1"], &["--island"]),
            (&["bench"], &["WORKLOAD"]),
            (&["bench", "tpcz"], &["tpcz", "micro"]),
            (&["benhc"], &["benhc", "bench"]),
        ] {
            let line = complaint(args);
            assert!(!line.contains('\n'), "{line}");
            for part in parts {
                assert!(line.contains(part), "{part:?} in {line:?}");
            }
        }
    }
}
