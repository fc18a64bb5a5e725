//! `atoll report`: rows of earlier runs, from any number of files, as one page.
//!
//! What can be read makes the report; what cannot is named, and then the exit code says that something is missing.

use crate::cli::ReportArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::patience::interruptibly;
use crate::results::{MACHINE, ROWS, write};
use base::counted;
use deploy::Interrupt;
use report::{Report, Rows};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use topology::Machine;
use world::tell;

pub fn run(args: &ReportArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let files: Vec<PathBuf> = args.rows.iter().map(|path| rows_file(path)).collect();
    check_out(&args.out, &files)?;
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
        return Err(Failure::Run(format!("no rows to report; {} was not written", args.out.display())));
    }
    let count = rows.rows.len();
    let notes = troubles.iter().cloned().chain(rows.remarks).collect();
    write(&args.out, Report { rows: rows.rows, machines, notes }.html())?;
    print(&format!("{}: the report of {}", args.out.display(), counted(count, "row")))?;
    match troubles.len() {
        0 => Ok(()),
        1 => Err(Failure::Run("the report lacks something, see above".into())),
        n => Err(Failure::Run(format!("the report lacks {n} things, see above"))),
    }
}

/// A directory that `bench --out` made stands for the rows in it.
fn rows_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(ROWS) } else { path.into() }
}

/// Before anything is read: the page must not land on what it is made from.
fn check_out(out: &Path, files: &[PathBuf]) -> Result<(), Failure> {
    if out.is_dir() {
        return Err(Failure::Usage(format!(
            "--out {}: a directory; expected a file such as report.html in it",
            out.display()
        )));
    }
    let same = |file: &PathBuf| match (file.canonicalize(), out.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    };
    if files.iter().any(same) {
        return Err(Failure::Usage(format!(
            "--out {}: one of the rows files; expected another file, such as report.html",
            out.display()
        )));
    }
    Ok(())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
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

/// The machine that `bench --out` wrote beside its rows; `None` where there is none.
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
        // The file's own trouble has been told.
        Err(_) if !file.exists() => return Ok(None),
        Err(e) => return Err(trouble(e.to_string())),
    };
    let machine: Machine = serde_json::from_slice(&bytes).map_err(|e| trouble(e.to_string()))?;
    if machine.pus.is_empty() { Err(trouble("it has no CPU".into())) } else { Ok(Some(machine)) }
}
