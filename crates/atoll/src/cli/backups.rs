//! The arguments of `atoll backup` and `atoll restore`.

use clap::Args;
use std::path::PathBuf;

const BACKUP_EXAMPLES: &str = "\
Nothing may run on the database meanwhile; it may have been left by a crash. The backup has a checksum of every file. It gets
its name when it is whole and on the device: an attempt that fails or is interrupted leaves nothing, and one that was killed
leaves NAME.atoll-partial, which the next attempt removes.

Examples:
  atoll backup bank --to bank-monday          a directory
  atoll backup bank --to bank-monday.tar      one file

Exit code: 0 the backup is there; 1 it could not be made, or the database is in use or not whole; 2 wrong usage; 130 interrupted.";

const RESTORE_EXAMPLES: &str = "\
Every file is held against its length and its checksum before the database gets its name; as with a backup, an attempt that
fails leaves nothing.

Examples:
  atoll restore bank-monday --to bank
  atoll restore bank-monday.tar --to bank && atoll check --data bank

Exit code: 0 the database is there; 1 it could not be made, or the backup is damaged; 2 wrong usage; 130 interrupted.";

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
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArgs {
    /// The file or directory that `backup` made
    #[arg(value_name = "BACKUP")]
    pub from: PathBuf,
    /// Where the database goes: a directory that is not there yet, or is empty
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Print the result as a JSON line
    #[arg(long)]
    pub json: bool,
}
