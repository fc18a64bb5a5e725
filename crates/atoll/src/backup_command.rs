//! `atoll backup` and `atoll restore`: copy a database with checksums, and restore such a copy.

use crate::cli::{BackupArgs, RestoreArgs};
use crate::failure::Failure;
use crate::output::print;
use crate::places::name_one;
use crate::progress::Progress;
use deploy::{Copied, Copying, DeployError, Interrupt};
use driver::Watcher;
use std::path::Path;

pub fn back_up(args: &BackupArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let what = format!("copying {} to {}", args.data.display(), args.to.display());
    let copied = watched(&what, interrupt, |watch| deploy::back_up(&args.data, &args.to, watch));
    let copied = copied.map_err(|e| {
        name_one(e, |one| format!("`atoll backup {} --to {}`", one.display(), args.to.display()))
    })?;
    report("backed up", &copied, (&args.data, &args.to), args.json)
}

pub fn restore(args: &RestoreArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if args.add {
        let why = "--add restores a dump to a running server; a backup becomes a database of its own";
        return Err(Failure::Usage(why.into()));
    }
    if args.table.is_some() {
        return Err(Failure::Usage("--table is for a file of Parquet; a backup has all tables".into()));
    }
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
