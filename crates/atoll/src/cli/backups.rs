//! The arguments of `atoll backup`, `atoll dump` and `atoll restore`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

const BACKUP_EXAMPLES: &str = "\
Nothing may run on the database meanwhile; it may have been left by a crash. The backup has a checksum of every file. It gets
its name when it is whole and on the device: an attempt that fails or is interrupted leaves nothing, and one that was killed
leaves NAME.atoll-partial, which the next attempt removes.

Examples:
  atoll backup bank --to bank-monday          a directory
  atoll backup bank --to bank-monday.tar      one file

Exit code: 0 the backup is there; 1 it could not be made, or the database is in use or not whole; 2 wrong usage; 130 interrupted.";

const DUMP_EXAMPLES: &str = "\
The dump is of one moment: other transactions that write the same rows wait for it. A directory may be one that a server
serves, or a closed one. Sequences skip a number. What a file is called appears when it is whole: an attempt that fails or is
interrupted leaves nothing. psql runs a dump too, and so does PostgreSQL, which needs --postgresql if tables say where
their rows lie. Servers are reached without TLS; PGPASSWORD has the password.

Examples:
  atoll dump bank --to bank.sql                          a closed database, or a served one
  atoll dump \"host=127.0.0.1 port=5432\" --to bank.sql  a server
  atoll dump bank --format csv --to bank-csv             load.sql, and a file for each table
  atoll dump bank --format parquet --to bank-columns     with Parquet in place of CSV (builds with --features parquet)
  atoll dump bank --table t --data-only | psql other     rows of one table, to another server

Exit code: 0 the dump is there; 1 it could not be made; 2 wrong usage; 130 interrupted.";

const RESTORE_EXAMPLES: &str = "\
Of a backup, every file is held against its length and its checksum before the database gets its name; as with a backup, an attempt that
fails leaves nothing. A dump is run statement by statement: into a new database, or into a running server, which keeps what was
restored before an error. A script of pg_dump (--format=plain) is taken too, as far as Atoll has its statements. A file of Parquet,
also one of another program, is added to a table that is there (builds with --features parquet).

Examples:
  atoll restore bank-monday --to bank
  atoll restore bank-monday.tar --to bank && atoll check --data bank
  atoll restore bank.sql --to bank                       a dump, into a new database
  pg_dump shop | atoll restore - --to \"port=5432\"      from PostgreSQL, into a running server
  atoll restore may.parquet --table sales --to bank      rows of a file, into a table of a database or a server

Exit code: 0 the database is there; 1 it could not be made, or the backup or a statement is wrong; 2 wrong usage; 130 interrupted.";

#[derive(Args, Debug)]
#[command(after_help = BACKUP_EXAMPLES)]
pub struct BackupArgs {
    /// The directory that `load` or `bench --data` built
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Where the backup goes: a file if the name ends in .tar, else a directory; nothing may be
    /// there yet
    #[arg(long, value_name = "FILE_OR_DIR")]
    pub to: PathBuf,
    /// Print the result as a JSON line
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = DUMP_EXAMPLES)]
pub struct DumpArgs {
    /// The directory of a database, or a server: "host=127.0.0.1 port=5432 user=atoll", or
    /// postgres://atoll@127.0.0.1:5432/atoll
    #[arg(value_name = "DIR_OR_SERVER")]
    pub from: String,
    /// Where the dump goes; nothing may be there yet [default: standard output]
    #[arg(long, value_name = "FILE_OR_DIR")]
    pub to: Option<PathBuf>,
    /// The form of the dump
    #[arg(long, value_name = "F", value_enum, default_value = "sql")]
    pub format: DumpFormat,
    /// Only this table; may be given several times
    #[arg(long, value_name = "TABLE")]
    pub table: Vec<String>,
    /// Leave the rows out
    #[arg(long, conflicts_with = "data_only")]
    pub schema_only: bool,
    /// Leave the definitions out
    #[arg(long)]
    pub data_only: bool,
    /// Leave out what PostgreSQL does not have: where the rows of tables lie
    #[arg(long)]
    pub postgresql: bool,
    /// Print the result as a JSON line
    #[arg(long, requires = "to")]
    pub json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum DumpFormat {
    /// One script: definitions, and COPY with the rows
    Sql,
    /// A directory: load.sql with the definitions, and a file of CSV for each table
    Csv,
    /// The same with files of Parquet, in builds with --features parquet
    Parquet,
}

impl DumpFormat {
    /// How files of rows end.
    pub fn ending(self) -> &'static str {
        match self {
            DumpFormat::Sql => "sql",
            DumpFormat::Csv => "csv",
            DumpFormat::Parquet => "parquet",
        }
    }
}

#[derive(Args, Debug)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// The file or directory that `backup` or `dump` made; - is a script on standard input; or a
    /// file of Parquet
    #[arg(value_name = "BACKUP_OR_DUMP")]
    pub from: PathBuf,
    /// Where the database goes: a directory that is not there yet, or is empty; for a dump also a
    /// running server, "host=127.0.0.1 port=5432"; for a file of Parquet a database that is there
    #[arg(long, value_name = "DIR_OR_SERVER")]
    pub to: PathBuf,
    /// The table that takes the rows of a file of Parquet [default: the name of the file]
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    /// Restore a dump to a server that has tables already
    #[arg(long)]
    pub add: bool,
    /// Print the result as a JSON line
    #[arg(long)]
    pub json: bool,
}
