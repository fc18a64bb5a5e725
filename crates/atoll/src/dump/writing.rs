//! `atoll dump`.

use super::columns;
use super::place::{Open, Place, in_context};
use super::schema::{Placement, Schema, Table};
use super::sink::{SCRIPT, Sink};
use crate::cli::{DumpArgs, DumpFormat};
use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use base::counted;
use deploy::Interrupt;
use driver::Watcher;
use futures_util::StreamExt;

/// All that a dump reads is of one moment.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// # Errors
/// No database, a name that is taken, errors of the server, an interruption. Nothing is left then.
pub fn dump(args: &DumpArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if args.format == DumpFormat::Parquet {
        columns::require()?;
    }
    let mut sink = match (&args.to, args.format) {
        (Some(to), DumpFormat::Sql) => Sink::file(to)?,
        (Some(to), _) => Sink::directory(to)?,
        (None, DumpFormat::Sql) => Sink::output(),
        (None, format) => {
            let why = format!("--format {} writes a directory; expected --to DIR", format.ending());
            return Err(Failure::Usage(why));
        }
    };
    let open = match Place::read(&args.from)? {
        Place::Directory(dir) => Open::directory(&dir, interrupt)?,
        Place::Server(config) => Open::connect(&config, interrupt)?,
    };
    let mut progress = Progress::new(1);
    progress.next(&format!("dumping {}", args.from));
    let written = write(args, &open, &mut sink, &mut progress);
    progress.finish();
    let tables = written?;
    open.close()?;
    let bytes = sink.bytes;
    sink.finish()?;
    let Some(to) = &args.to else { return Ok(()) };
    if args.json {
        let line = serde_json::json!({ "from": args.from, "to": to.to_string_lossy(), "tables": tables, "bytes": bytes });
        return print(&line.to_string());
    }
    let mib = bytes.div_ceil(1 << 20);
    print(&format!("dumped {} to {}: {}, {mib} MiB", args.from, to.display(), counted(tables, "table")))
}

/// Returns the number of tables.
fn write(
    args: &DumpArgs,
    open: &Open<'_>,
    sink: &mut Sink,
    progress: &mut Progress,
) -> Result<usize, Failure> {
    let placement = if args.postgresql { Placement::LeftOut } else { Placement::Told };
    open.run(BEGIN)?;
    let schema = Schema::read(open, &args.table).map_err(|failure| in_context("the definitions", failure))?;
    sink.write(head(args).as_bytes())?;
    if !args.data_only {
        sink.write(schema.before(placement).as_bytes())?;
    }
    if !args.schema_only {
        for (at, table) in schema.tables.iter().enumerate() {
            let phase = format!("table {}", table.plain);
            progress.progress(&phase, at as f64 / schema.tables.len() as f64);
            rows(args, open, sink, table).map_err(|failure| in_context(&phase, failure))?;
        }
    }
    open.run("COMMIT")?;
    if !args.schema_only {
        // After the rows, so that no row has a number that the sequence gives later.
        sink.write(schema.numbers(open)?.as_bytes())?;
    }
    if !args.data_only {
        sink.write(schema.after().as_bytes())?;
    }
    Ok(schema.tables.len())
}

fn head(args: &DumpArgs) -> String {
    let restored = match args.format {
        DumpFormat::Csv => {
            format!("atoll restore DIRECTORY --to ..., or, in this directory, psql -f {SCRIPT}")
        }
        DumpFormat::Parquet => "atoll restore DIRECTORY --to ...".into(),
        DumpFormat::Sql => "atoll restore FILE --to ..., or psql -f FILE".into(),
    };
    format!(
        "-- Made by atoll dump. Restore it by {restored}\n\
         SET client_encoding = 'UTF8';\nSET standard_conforming_strings = on;\nSET timezone = 'UTC';\n"
    )
}

fn rows(args: &DumpArgs, open: &Open<'_>, sink: &mut Sink, table: &Table) -> Result<(), Failure> {
    if table.columns.is_empty() {
        return Ok(());
    }
    let (name, columns) = (&table.name, table.list());
    let options = match args.format {
        DumpFormat::Sql => {
            sink.write(format!("\nCOPY public.{name} {columns} FROM stdin;\n").as_bytes())?;
            ""
        }
        DumpFormat::Csv => {
            begin_file(sink, table, args.format, "format csv, header true")?;
            " WITH (FORMAT csv, HEADER true)"
        }
        DumpFormat::Parquet => {
            begin_file(sink, table, args.format, "format parquet")?;
            let Some(file) = sink.take_rows() else { return Ok(()) };
            let file = columns::write(open, &format!("public.{name}"), &columns, file)?;
            sink.give_rows(file)?;
            return sink.end_rows();
        }
    };
    let statement = format!("COPY public.{name} {columns} TO STDOUT{options}");
    let stream = open.wait(open.client.copy_out(statement.as_str()))?;
    let mut stream = std::pin::pin!(stream);
    while let Some(bytes) = open.wait(async { stream.next().await.transpose() })? {
        sink.write_rows(&bytes)?;
    }
    if args.format == DumpFormat::Sql {
        sink.write(b"\\.\n")?;
    }
    sink.end_rows()
}

/// Begins a file of a table's rows, and tells the script of it.
fn begin_file(sink: &mut Sink, table: &Table, format: DumpFormat, options: &str) -> Result<(), Failure> {
    let file = file_name(&table.plain, format.ending());
    let (name, columns, quoted) = (&table.name, table.list(), file.replace('\'', "''"));
    let copy = format!("\\copy public.{name} {columns} from '{quoted}' with ({options})\n");
    sink.write(copy.as_bytes())?;
    sink.begin_rows(&file)
}

/// The file of a table's rows. Characters that paths cannot have become `%` with their numbers.
fn file_name(table: &str, ending: &str) -> String {
    let mut name = String::new();
    for c in table.chars() {
        match c {
            '/' | '\0' | '%' => name.push_str(&format!("%{:02x}", u32::from(c))),
            '.' if name.is_empty() => name.push_str("%2e"),
            c => name.push(c),
        }
    }
    name.push('.');
    name.push_str(ending);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_a_file_of_its_own_in_the_directory() {
        let names = ["a", "A b", "../x", "a/b", "a%2fb"].map(|table| file_name(table, "csv"));
        assert_eq!(names, ["a.csv", "A b.csv", "%2e.%2fx.csv", "a%2fb.csv", "a%252fb.csv"]);
    }
}
