//! Output that follows from the definition of the options: completions for shells, and manual
//! pages.

use crate::cli::{self, CompletionsArgs, ManArgs};
use crate::failure::Failure;
use crate::output::print;
use clap_mangen::Man;
use std::path::Path;

const NAME: &str = "atoll";

/// # Errors
/// Standard output is closed.
pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), NAME, &mut script);
    print(String::from_utf8_lossy(&script).trim_end())
}

/// # Errors
/// A directory that cannot be written; standard output is closed.
pub fn man(args: &ManArgs) -> Result<(), Failure> {
    let Some(dir) = &args.out else {
        let mut page = Vec::new();
        Man::new(cli::command()).render(&mut page).map_err(Failure::run)?;
        return print(String::from_utf8_lossy(&page).trim_end());
    };
    let written = std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command(), dir));
    written.map_err(|e| {
        let dir = dir.display();
        Failure::Run(format!("cannot write the manual into {dir}: {e}; name another directory with --out"))
    })?;
    print(&format!("{}: {}", dir.display(), pages(dir).join(", ")))
}

/// The command tree that is shown to users.
fn command() -> clap::Command {
    cli::command().disable_help_subcommand(true)
}

fn pages(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut pages: Vec<String> =
        names.filter(|name| name.starts_with(NAME) && name.ends_with(".1")).collect();
    pages.sort();
    pages
}
