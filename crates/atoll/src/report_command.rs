//! `atoll report`: makes one page from the rows of earlier runs, out of any number of files.
//!
//! Readable files go into the report; unreadable ones are named, and then the exit code is 1.

use crate::cli::ReportArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::patience::interruptibly;
use crate::results::{MACHINE, REPORT, ROWS, write};
use base::counted;
use deploy::Interrupt;
use report::flat::csv_of;
use report::{Report, Rows};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use topology::Machine;
use world::tell;

pub fn run(args: &ReportArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let files: Vec<PathBuf> = args.rows.iter().map(|path| rows_file(path)).collect();
    let outs = [("--out", page(args)), ("--csv", args.csv.as_deref().filter(|path| *path != Path::new("-")))];
    for (option, out) in outs {
        out.map_or(Ok(()), |out| check_out(option, out, &files))?;
    }
    let (mut rows, mut machines, mut troubles) = (Rows::default(), Vec::new(), Vec::new());
    for file in &files {
        if file == Path::new("-") && std::io::stdin().is_terminal() {
            tell("atoll: reading rows from standard input, one a line; Ctrl-D ends them");
        }
        let (path, beside) = (file.clone(), file.clone());
        match interruptibly(interrupt, move || read(&path))? {
            Ok(bytes) => rows.add(&file.display().to_string(), &bytes),
            Err(trouble) => troubles.push(trouble),
        }
        match interruptibly(interrupt, move || machine_beside(&beside))? {
            Ok(Some(machine)) if !machines.contains(&machine) => machines.push(machine),
            Ok(_) => {}
            Err(trouble) => troubles.push(trouble),
        }
    }
    troubles.extend(rows.complaints.iter().map(ToString::to_string));
    troubles.iter().for_each(|trouble| tell(format_args!("atoll: {trouble}")));
    rows.remarks.iter().for_each(|remark| tell(format_args!("atoll: {remark}")));
    if rows.rows.is_empty() {
        let unwritten: Vec<String> =
            outs.iter().filter_map(|(_, out)| Some(out.as_ref()?.display().to_string())).collect();
        let told = if unwritten.is_empty() { "the CSV".to_string() } else { unwritten.join(" and ") };
        return Err(Failure::Run(format!("no rows to report; {told} was not written")));
    }
    let count = counted(rows.rows.len(), "row");
    if let Some(csv) = &args.csv {
        let text = csv_of(rows.rows.iter().map(|row| &row.json));
        if csv == Path::new("-") {
            print(text.trim_end())?;
        } else {
            write(csv, text)?;
            print(&format!("{}: {count} as CSV", csv.display()))?;
        }
    }
    if let Some(out) = page(args) {
        let notes = troubles.iter().cloned().chain(rows.remarks).collect();
        write(out, Report { rows: rows.rows, machines, notes }.html())?;
        let text = format!("{}: the report of {count}", out.display());
        // With `--csv -`, standard output belongs to the CSV.
        if args.csv.as_deref() == Some(Path::new("-")) { tell(text) } else { print(&text)? }
    }
    match troubles.len() {
        0 => Ok(()),
        1 => Err(Failure::Run("the report lacks something, see above".into())),
        n => Err(Failure::Run(format!("the report lacks {n} things, see above"))),
    }
}

/// The path of the page; `None` if CSV was asked for and no page was named.
fn page(args: &ReportArgs) -> Option<&Path> {
    match (&args.out, &args.csv) {
        (Some(out), _) => Some(out),
        (None, None) => Some(Path::new(REPORT)),
        (None, Some(_)) => None,
    }
}

/// The rows file of a directory that `bench --out` made; `path` itself for a file.
pub fn rows_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(ROWS) } else { path.into() }
}

/// Runs before any file is read: the output must not overwrite an input.
fn check_out(option: &str, out: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    if out.is_dir() {
        return Err(Failure::Usage(format!(
            "{option} {}: a directory; expected a file such as {} in it",
            out.display(),
            if option == "--csv" { "rows.csv" } else { REPORT }
        )));
    }
    let same = |file: &PathBuf| match (file.canonicalize(), out.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    if files.iter().any(same) {
        return Err(Failure::Usage(format!(
            "{option} {}: one of the rows files; expected another file, such as {}",
            out.display(),
            if option == "--csv" { "rows.csv" } else { REPORT }
        )));
    }
    Ok(())
}

/// # Errors
/// Why the file cannot be read, and the expected content.
pub fn read(file: &Path) -> Result<Vec<u8>, String> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        return read.map(|_| bytes).map_err(|e| format!("standard input: {e}"));
    }
    std::fs::read(file).map_err(|e| {
        format!(
            "{}: {e}; left out; expected the rows.jsonl of atoll bench --out, or its directory",
            file.display()
        )
    })
}

/// The machine that `bench --out` wrote beside its rows; `None` if there is none.
fn machine_beside(file: &Path) -> Result<Option<Machine>, String> {
    let path = file.with_file_name(MACHINE);
    let trouble = |why: String| {
        format!(
            "{}: no machine ({why}); left out; expected what atoll topology --json prints",
            path.display()
        )
    };
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        // The trouble with the rows file itself has been reported already.
        Err(_) if !file.exists() => return Ok(None),
        Err(e) => return Err(trouble(e.to_string())),
    };
    let machine: Machine = serde_json::from_slice(&bytes).map_err(|e| trouble(e.to_string()))?;
    if machine.pus.is_empty() { Err(trouble("it has no CPU".into())) } else { Ok(Some(machine)) }
}
