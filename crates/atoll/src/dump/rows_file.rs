//! `atoll restore` of one file of Parquet: rows for a table that is there already.

use super::columns;
use super::place::{Open, Place, in_context};
use super::schema::quoted;
use crate::cli::RestoreArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use base::counted;
use deploy::Interrupt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The first bytes of a file of Parquet.
const MAGIC: [u8; 4] = *b"PAR1";

/// Whether a file is one of Parquet, by its name or by its first bytes.
pub fn is_one(path: &Path) -> bool {
    let begins = |mut file: File| {
        let mut first = [0; MAGIC.len()];
        file.read_exact(&mut first).is_ok() && first == MAGIC
    };
    path.is_file()
        && (path.extension().is_some_and(|ending| ending == "parquet") || File::open(path).is_ok_and(begins))
}

/// # Errors
/// No such table, a file that is damaged or has other columns, errors of the server, an
/// interruption. Rows that were stored before stay.
pub fn restore(args: &RestoreArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    columns::require()?;
    let table = match (&args.table, args.from.file_stem()) {
        (Some(table), _) => table.clone(),
        (None, stem) => stem.unwrap_or_default().to_string_lossy().into_owned(),
    };
    let place = args.to.to_str().map_or_else(|| Ok(Place::Directory(args.to.clone())), Place::read)?;
    let open = match place {
        Place::Directory(dir) => Open::directory(&dir, interrupt)?,
        Place::Server(config) => Open::connect(&config, interrupt)?,
    };
    let mut progress = Progress::new(1);
    progress.next(&format!("adding {} to table {table}", args.from.display()));
    let stored = list(&open, args, &table).and_then(|list| {
        let into = format!("public.{} ({list})", quoted(&table));
        columns::read(&open, &into, &args.from)
            .map_err(|failure| in_context(&format!("table {table}"), failure))
    });
    progress.finish();
    let stored = stored?;
    open.close()?;
    if args.json {
        let (from, to) = (args.from.to_string_lossy(), args.to.to_string_lossy());
        let line = serde_json::json!({ "from": from, "to": to, "table": table, "rows": stored });
        return print(&line.to_string());
    }
    let rows = counted(usize::try_from(stored).unwrap_or(usize::MAX), "row");
    print(&format!("added {rows} of {} to table {table} of {}", args.from.display(), args.to.display()))
}

/// The columns of the table that the file has, in the table's order. The table needs to have all of
/// the file, and the file all of the table that have no default.
fn list(open: &Open<'_>, args: &RestoreArgs, table: &str) -> Result<String, Failure> {
    let rows = open.rows(&format!(
        "SELECT a.attname, a.atthasdef OR a.attidentity <> '' FROM pg_catalog.pg_attribute a \
         JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind = 'r' AND n.nspname = 'public' AND c.relname = '{}' AND a.attnum > 0 \
         AND NOT a.attisdropped ORDER BY a.attnum",
        table.replace('\'', "''")
    ))?;
    let known: Vec<(&str, bool)> =
        rows.iter().map(|row| (row.get(0).unwrap_or_default(), row.get(1) == Some("t"))).collect();
    let to = args.to.display();
    if known.is_empty() {
        let why =
            format!("there is no table {table} in {to}; create it first, or name another one with --table");
        return Err(Failure::Run(why));
    }
    let (file, found) = (args.from.display(), columns::names(&args.from)?);
    let told = known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    if let Some(more) = found.iter().find(|name| known.iter().all(|(known, _)| known != name)) {
        let why = format!("{file} has a column {more}, which table {table} does not have; expected: {told}");
        return Err(Failure::Run(why));
    }
    let (there, missing): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|(known, _)| found.iter().any(|name| name == known));
    if let Some((missing, _)) = missing.iter().find(|(_, has_default)| !has_default) {
        let why = format!(
            "{file} has no column {missing}, which has no default in table {table}; expected: {told}"
        );
        return Err(Failure::Run(why));
    }
    Ok(there.into_iter().map(|(name, _)| quoted(name)).collect::<Vec<_>>().join(", "))
}
