//! Help screens that are more than the list of a command's options: the first screen, and the
//! screen of one workload.
//!
//! `atoll -h` is written by hand. `atoll bench tpcc --help` is the list of `bench` without the
//! options that do not apply to tpcc.

use crate::applies::{OF_COUNTER, OF_IPC};
use crate::cli::{self, COUNTER, IPC};
use crate::examples::FIRST;
use clap::{Arg, Command};
use driver::Subject;
use workload::WorkloadSpec;
use workload::benchmark::Form;
use workload::micro::Op;
use workload::spec::{Entry, forms, own_options};

/// The help screen for a command line; `None` for the parser's own screen.
pub fn screen(args: &[String]) -> Option<String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let Some(command) = words.iter().find(|word| !word.starts_with('-')) else {
        return words.contains(&"-h").then(|| FIRST.to_owned());
    };
    if !["bench", "load", "stats"].contains(command) {
        return None;
    }
    let form = words.iter().find_map(|word| forms().find(|form| form.name == *word));
    let experiment = words.iter().find(|word| [COUNTER, IPC].contains(word));
    match (form, experiment) {
        (Some(form), _) => of_workload(command, form),
        (None, Some(name)) => of_experiment(command, name),
        (None, None) => words.contains(&"-h").then(|| short(command)).flatten(),
    }
}

/// The screen without the names of the workloads, which fill half a screen.
fn short(command: &str) -> Option<String> {
    let mut root = cli::command();
    root.build();
    let about = "micro, tpcb, tpcc, tatp or a part of one; counter, ipc; --help lists all";
    let sub = root.find_subcommand(command)?.clone();
    Some(render(sub.mut_arg("workload", |arg| arg.hide_possible_values(true).help(about))))
}

fn of_experiment(command: &str, name: &str) -> Option<String> {
    let (options, about) = match name {
        COUNTER => (
            OF_COUNTER,
            "Threads add to shared counters: one counter for all, per socket, per island, per core",
        ),
        _ => (OF_IPC, "Messages of 256 bytes go to and fro between two cores, over every mechanism"),
    };
    let applies = |long: &str| options.contains(&long);
    let sub = subcommand(command, name, about)?.mut_args(|arg| {
        let shown = arg.get_long().is_some_and(|long| long != "machine" && applies(long));
        arg.hide(!shown).hide_short_help(!shown)
    });
    Some(render(sub))
}

fn of_workload(command: &str, form: &'static Form) -> Option<String> {
    let spec = WorkloadSpec::new(form.name, 1);
    let entry = spec.entry().ok()?;
    let people = Subject::new(spec.clone()).is_ok_and(|subject| subject.terminals().is_some());
    let sub = subcommand(command, form.name, form.about)?;
    let sub = sub.mut_args(|arg| {
        let Some(long) = arg.get_long().map(ToOwned::to_owned) else { return arg.hide(true) };
        let arg = without_name(arg, form.name);
        if own_options().any(|o| o.name == long) || SHARED.contains(&long.as_str()) {
            let applies = knows(entry, &spec, &long);
            return arg.hide(!applies).hide_short_help(!applies);
        }
        match long.as_str() {
            "think" | "terminals" => arg.hide(!people).hide_short_help(!people),
            "kill" => arg.hide(form.name != "tpcb").hide_short_help(form.name != "tpcb"),
            "load-model" | "rate" if command == "bench" => arg.hide_short_help(false),
            _ => arg,
        }
    });
    let kin = entry.forms.iter().map(|form| format!("  {:<28}  {}", form.name, form.about));
    let kin: Vec<String> = kin.collect();
    let names =
        if kin.len() > 1 { format!("\n\nOn the same data:\n{}", kin.join("\n")) } else { String::new() };
    Some(render(
        sub.after_help(format!("More options, and what each value means: atoll {command} --help.{names}")),
    ))
}

/// Options that several workloads share, but not all of them use.
const SHARED: &[&str] = &["multisite", "rows", "op", "skew", "hot", "dataset"];

/// Asks the workload itself: it refuses an option that does not apply to it.
fn knows(entry: &Entry, spec: &WorkloadSpec, option: &str) -> bool {
    let with = |spec: WorkloadSpec| {
        let refused = spec.build().err();
        !matches!(refused, Some(workload::SpecError::NotApplicable { .. }))
    };
    let spec = spec.clone();
    match option {
        "multisite" => with(WorkloadSpec { multisite: Some(0.0), ..spec }),
        "rows" => with(WorkloadSpec { rows: Some(1), ..spec }),
        "op" => with(WorkloadSpec { op: Some(Op::Read), ..spec }),
        "skew" => with(WorkloadSpec { skew: Some(0.0), ..spec }),
        "hot" => "50/30".parse().is_ok_and(|hot| with(WorkloadSpec { hot: Some(hot), ..spec })),
        "dataset" => with(WorkloadSpec { dataset: Some(1000), ..spec }),
        own => entry.options.iter().any(|o| o.name == own),
    }
}

/// The screen of a workload does not repeat its name behind each of its options.
fn without_name(arg: Arg, name: &str) -> Arg {
    let family = name.split('-').next().unwrap_or(name);
    let help = arg.get_help().map(|help| help.to_string().replace(&format!(" ({family})"), ""));
    match help {
        Some(help) => arg.help(help),
        None => arg,
    }
}

fn subcommand(command: &str, name: &str, about: &str) -> Option<Command> {
    let mut root = cli::command();
    root.build();
    let sub = root.find_subcommand(command)?.clone();
    let usage = format!("atoll {command} {name} [OPTIONS]");
    let sub = sub.about(about.to_owned()).override_usage(usage);
    Some(["workload", "help"].into_iter().fold(sub, |sub, arg| sub.mut_arg(arg, |arg| arg.hide(true))))
}

fn render(mut command: Command) -> String {
    command.render_help().to_string().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        screen(&args).unwrap_or_else(|| panic!("no screen for {args:?}"))
    }

    #[test]
    fn a_workload_shows_its_own_options_and_the_common_ones() {
        let text = shown(&["bench", "tpcc", "--help"]);
        for has in
            ["--items", "--customers", "--multisite", "--think", "--islands", "tpcc-payment", "--duration"]
        {
            assert!(text.contains(has), "{has} in\n{text}");
        }
        for not in ["--accounts", "--skew", "--op ", "--kill", "--ids", "(tpcc)", "--occ-reads"] {
            assert!(!text.contains(not), "{not} in\n{text}");
        }
        assert!(text.contains("atoll bench tpcc [OPTIONS]") && text.contains("nine tables"), "{text}");
        assert!(shown(&["bench", "micro", "-h"]).contains("--skew"));
        assert!(shown(&["bench", "tpcb", "-h"]).contains("--kill"));
        assert!(shown(&["load", "--data", "x", "tatp", "-h"]).contains("--subscribers"));
    }

    #[test]
    fn experiments_without_transactions_show_what_they_look_at() {
        let text = shown(&["bench", "ipc", "--help"]);
        assert!(text.contains("--channel") && !text.contains("--islands"), "{text}");
        assert!(shown(&["bench", "counter", "-h"]).contains("--placement"));
    }

    #[test]
    fn every_form_has_a_screen_that_is_short() {
        for form in forms() {
            let text = shown(&["bench", form.name, "--help"]);
            assert!(text.lines().count() < 80, "{}: {} lines", form.name, text.lines().count());
        }
    }

    #[test]
    fn other_helps_are_the_parsers() {
        for args in [&["--help"][..], &["bench", "--help"], &["topology", "-h"], &["help", "bench"]] {
            let args: Vec<String> = args.iter().map(ToString::to_string).collect();
            assert!(screen(&args).is_none(), "{args:?}");
        }
        assert_eq!(shown(&["-h"]), FIRST);
        assert!(!shown(&["bench", "-h"]).contains("tatp-scan"));
    }
}
