//! `atoll restore` of a dump: a script of SQL, or a directory of files of rows with such a script.

use super::columns;
use super::place::{Open, Place, in_context};
use super::rows_file;
use super::script::{Piece, Script};
use super::sink::{SCRIPT, beginning, remove};
use super::storing::{BYTES_AT_ONCE, copy};
use crate::cli::RestoreArgs;
use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use base::counted;
use bytes::Bytes;
use deploy::{Interrupt, Standing, standing};
use driver::Watcher;
use futures_util::SinkExt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use tokio_postgres::CopyInSink;

/// Bytes of `INSERT` statements that are sent as one text, which is one transaction.
const INSERTS_AT_ONCE: usize = 64 << 10;

/// Whether this is no backup: standard input, a file that is no `.tar`, a directory with a script.
pub fn is_dump(from: &Path) -> bool {
    let is_tar = from.extension().is_some_and(|ending| ending == "tar");
    from == Path::new("-") || from.join(SCRIPT).is_file() || !is_tar && !from.is_dir() && from.exists()
}

/// # Errors
/// A target that is not empty, statements that fail, an interruption. A directory has nothing in it
/// then; a server keeps what was restored before.
pub fn restore(args: &RestoreArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if rows_file::is_one(&args.from) {
        return rows_file::restore(args, interrupt);
    }
    if args.table.is_some() {
        let why = format!("--table is for a file of Parquet, which {} is not", args.from.display());
        return Err(Failure::Usage(why));
    }
    let mut source = Source::open(&args.from)?;
    let place = args.to.to_str().map_or_else(|| Ok(Place::Directory(args.to.clone())), Place::read)?;
    let mut progress = Progress::new(1);
    progress.next(&format!("restoring {} to {}", args.from.display(), args.to.display()));
    let done = match place {
        Place::Directory(dir) => into_directory(&dir, &mut source, &mut progress, interrupt),
        Place::Server(config) => {
            let open = Open::connect(&config, interrupt)?;
            require_empty(&open, args)?;
            let done = load(&open, &mut source, &mut progress);
            let kept = |failure| match failure {
                Failure::Run(why) => {
                    Failure::Run(format!("{why}; what was restored before is there: drop it to try again"))
                }
                other => other,
            };
            done.map_err(kept).and_then(|done| open.close().map(|()| done))
        }
    };
    progress.finish();
    let done = done?;
    if args.json {
        let line = serde_json::json!({
            "from": args.from.to_string_lossy(), "to": args.to.to_string_lossy(),
            "statements": done.statements, "rows": done.rows,
        });
        return print(&line.to_string());
    }
    let (from, to) = (args.from.display(), args.to.display());
    let rows = counted(usize::try_from(done.rows).unwrap_or(usize::MAX), "row");
    let statements = counted(usize::try_from(done.statements).unwrap_or(usize::MAX), "statement");
    print(&format!("restored {from} to {to}: {statements}, {rows} of COPY"))
}

/// Makes a new database, which gets its name when all is in it.
fn into_directory(
    dir: &Path,
    source: &mut Source,
    progress: &mut Progress,
    interrupt: &Interrupt,
) -> Result<Done, Failure> {
    let is_free = match standing(dir)? {
        Standing::Absent => true,
        Standing::Vacant => std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none()),
        _ => false,
    };
    if !is_free {
        let why = format!(
            "{} is not empty; expected a directory that is not there yet, or is empty, or a running server's \
             connection string such as \"host=127.0.0.1 port=5432\"",
            dir.display()
        );
        return Err(Failure::Usage(why));
    }
    if dir.exists() {
        std::fs::remove_dir(dir).map_err(|why| Failure::Run(format!("{}: {why}", dir.display())))?;
    }
    let partial = Partial(beginning(dir)?);
    let open = Open::serve(&partial.0, &[], interrupt)?;
    let done = load(&open, source, progress);
    let closed = open.close();
    let done = done?;
    closed?;
    std::fs::rename(&partial.0, dir).map_err(|why| Failure::Run(format!("{}: {why}", dir.display())))?;
    Ok(done)
}

/// A directory that is removed unless it was renamed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        remove(&self.0);
    }
}

fn require_empty(open: &Open<'_>, args: &RestoreArgs) -> Result<(), Failure> {
    if args.add {
        return Ok(());
    }
    let rows = open.rows(
        "SELECT relname FROM pg_catalog.pg_class WHERE relkind IN ('r', 'S') AND relnamespace = \
         (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'public') ORDER BY relname",
    )?;
    let names: Vec<&str> = rows.iter().filter_map(|row| row.get(0)).collect();
    if names.is_empty() {
        return Ok(());
    }
    let some = names.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    let more = if names.len() > 5 { ", ..." } else { "" };
    Err(Failure::Usage(format!(
        "{} has tables or sequences already ({some}{more}); expected none: drop them, or add to them with --add",
        args.to.display()
    )))
}

/// What is restored.
struct Source {
    script: Script<BufReader<Box<dyn Read>>>,
    /// The directory of the files that the script names.
    dir: PathBuf,
    length: u64,
}

impl Source {
    fn open(from: &Path) -> Result<Source, Failure> {
        let script = |input: Box<dyn Read>| Script::new(BufReader::with_capacity(BYTES_AT_ONCE, input));
        if from == Path::new("-") {
            return Ok(Source {
                script: script(Box::new(std::io::stdin())),
                dir: PathBuf::from("."),
                length: 0,
            });
        }
        let path = if from.is_dir() { from.join(SCRIPT) } else { from.to_owned() };
        let cannot = |why: std::io::Error| Failure::Run(format!("{}: {why}", path.display()));
        let file = File::open(&path).map_err(cannot)?;
        let length = file.metadata().map_err(cannot)?.len();
        let dir = path.parent().unwrap_or(Path::new(".")).to_owned();
        Ok(Source { script: script(Box::new(file)), dir, length })
    }
}

#[derive(Default)]
struct Done {
    statements: u64,
    rows: u64,
}

/// `INSERT` statements that wait to be sent.
#[derive(Default)]
struct Inserts {
    text: String,
    count: u64,
    line: u64,
}

fn load(open: &Open<'_>, source: &mut Source, progress: &mut Progress) -> Result<Done, Failure> {
    let (mut done, mut inserts) = (Done::default(), Inserts::default());
    loop {
        let piece = source.script.next_piece()?;
        let share = source.script.bytes as f64 / source.length.max(1) as f64;
        progress.progress("running its statements", if source.length == 0 { 0.0 } else { share });
        if let Some(Piece::Statement { text, line }) = &piece
            && is_insert(text)
        {
            if inserts.text.is_empty() {
                inserts.line = *line;
            }
            inserts.text.push_str(text);
            inserts.text.push(';');
            inserts.count += 1;
            if inserts.text.len() < INSERTS_AT_ONCE {
                continue;
            }
        }
        if !inserts.text.is_empty() {
            let Inserts { text, count, line } = std::mem::take(&mut inserts);
            let what = if count == 1 { "the INSERT" } else { "the INSERTs" };
            open.run(&text).map_err(|failure| in_context(&format!("{what} from line {line}"), failure))?;
            done.statements += count;
        }
        match piece {
            None => return Ok(done),
            Some(Piece::Statement { text, .. }) if is_insert(&text) => {}
            Some(Piece::Statement { text, line }) => {
                open.run(&text).map_err(|failure| in_context(&at(line, &text), failure))?;
                done.statements += 1;
            }
            Some(Piece::Rows { statement, line }) => {
                let script = &mut source.script;
                done.rows += copy(open, &statement, &mut || script.row())
                    .map_err(|failure| in_context(&at(line, &statement), failure))?;
                done.statements += 1;
            }
            Some(Piece::File { statement, file, line }) => {
                let path = source.dir.join(file);
                let stored = match of_parquet(&statement) {
                    Some(into) => columns::read(open, into, &path),
                    None => copy_file(open, &statement, &path),
                };
                done.rows += stored.map_err(|failure| in_context(&at(line, &statement), failure))?;
                done.statements += 1;
            }
        }
    }
}

/// The place of a statement, with its first words.
fn at(line: u64, text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(8).collect();
    format!("line {line}, {} ...", words.join(" "))
}

fn is_insert(text: &str) -> bool {
    text.trim_start().get(..7).is_some_and(|word| word.eq_ignore_ascii_case("INSERT "))
}

/// The table with its columns, if the rows of a `COPY` are in a file of Parquet.
fn of_parquet(statement: &str) -> Option<&str> {
    let (what, options) = statement.rsplit_once(" FROM STDIN")?;
    let options: String = options.chars().filter(|c| !c.is_whitespace()).collect();
    let is_parquet = options.eq_ignore_ascii_case("with(formatparquet)");
    what.strip_prefix("COPY ").filter(|_| is_parquet)
}

/// Stores a file of CSV, of which a value may have line ends.
fn copy_file(open: &Open<'_>, statement: &str, path: &Path) -> Result<u64, Failure> {
    let cannot = |why: std::io::Error| Failure::Run(format!("{}: {why}", path.display()));
    let mut file = BufReader::with_capacity(BYTES_AT_ONCE, File::open(path).map_err(cannot)?);
    let sink: CopyInSink<Bytes> = open.wait(open.client.copy_in(statement))?;
    let mut sink = std::pin::pin!(sink);
    loop {
        let bytes = file.fill_buf().map_err(cannot)?;
        if bytes.is_empty() {
            return open.wait(sink.as_mut().finish());
        }
        let length = bytes.len();
        open.wait(sink.send(Bytes::copy_from_slice(bytes)))?;
        file.consume(length);
    }
}
