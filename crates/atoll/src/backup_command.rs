//! `atoll backup` and `atoll restore`: copy a database with checksums, and restore such a copy.

use crate::failure::Failure;
use crate::output::print;
use crate::places::name_one;
use crate::progress::Progress;
use clap::Args;
use deploy::{Copied, Copying, DeployError, Interrupt};
use driver::Watcher;
use std::path::{Path, PathBuf};

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

pub fn back_up(args: &BackupArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let what = format!("copying {} to {}", args.data.display(), args.to.display());
    let copied = watched(&what, interrupt, |watch| deploy::back_up(&args.data, &args.to, watch));
    let copied = copied.map_err(|e| {
        name_one(e, |one| format!("`atoll backup {} --to {}`", one.display(), args.to.display()))
    })?;
    report("backed up", &copied, (&args.data, &args.to), args.json)
}

pub fn restore(args: &RestoreArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let what = format!("restoring {} to {}", args.from.display(), args.to.display());
    let copied = watched(&what, interrupt, |watch| deploy::restore(&args.from, &args.to, watch))?;
    report("restored", &copied, (&args.from, &args.to), args.json)
}

fn watched(
    what: &str,
    interrupt: &Interrupt,
    copy: impl FnOnce(Copying<'_>) -> Result<Copied, DeployError>,
) -> Result<Copied, DeployError> {
    let mut progress = Progress::new(1);
    progress.next(what);
    let mut tell = |done: u64, total: u64| progress.progress("copying", done as f64 / total.max(1) as f64);
    let copied = copy(Copying { interrupt, progress: &mut tell });
    progress.finish();
    copied
}

fn report(done: &str, copied: &Copied, (from, to): (&Path, &Path), json: bool) -> Result<(), Failure> {
    let Copied { data, files, bytes } = copied;
    if json {
        let line = serde_json::json!({
            "data": data, "from": from.to_string_lossy(), "to": to.to_string_lossy(), "files": files, "bytes": bytes,
        });
        return print(&line.to_string());
    }
    let mib = bytes.div_ceil(1 << 20);
    print(&format!("{done} {data} from {} to {}: {files} files, {mib} MiB", from.display(), to.display()))
}
