//! `atoll base`: base copies of islands, put, fetched and shown; and logs trimmed behind them.
//!
//! ```text
//!   put:  milestone -> the log     the log -> the copy in DIR     DIR -> the place, manifest last
//!         older copies are removed    the log is trimmed to a milestone that no kept copy and not
//!                                     the server's own directory needs
//! ```

use crate::cli::{BaseArgs, BaseCommand, BaseGetArgs, BaseListArgs, BasePutArgs};
use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use crate::version;
use base::{InstanceId, counted};
use copies::{CopyError, Found, Go, Head, Listed, Storage};
use deploy::{
    Follower, Interrupt, LogAtRelay, Signs, Standing, make_whole, manifest_in, standing, write_description,
};
use driver::Watcher;
use serde_json::json;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use world::tell;

/// Files of an island's folder that are not its data.
const NO_DATA: &[&str] = &["lock", "relay-mark.new"];
/// The rest of a copy without a manifest is removed when nothing was added for this long, in
/// seconds: another machine may be putting it.
const ABANDONED: u64 = 86_400;

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Failure {
        match error {
            CopyError::Interrupted => Failure::InterruptedAlone("nothing is left of the copy under way"),
            CopyError::Place(_) => Failure::usage(error),
            _ => Failure::run(error),
        }
    }
}

pub fn run(args: &BaseArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    match &args.command {
        BaseCommand::Put(args) => put(args, interrupt),
        BaseCommand::Get(args) => get(args, interrupt),
        BaseCommand::List(args) => list(args),
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Shows how far a copying is, and ends it after a signal.
fn watched<T>(
    what: &str,
    interrupt: &Interrupt,
    copy: impl FnOnce(copies::Watch<'_>) -> Result<T, CopyError>,
) -> Result<T, CopyError> {
    let mut progress = Progress::new(1);
    progress.next(what);
    let copied = copy(&mut |done, total| {
        progress.progress("copying", done as f64 / total.max(1) as f64);
        if interrupt.is_set() { Go::End } else { Go::On }
    });
    progress.finish();
    copied
}

/// The outcome for one island.
struct Put {
    found: Found,
    removed: usize,
    /// The position at which the log begins, and the number of positions that were removed.
    trimmed: Option<(u64, u64)>,
}

fn put(args: &BasePutArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let storage = Storage::open(&args.to)?;
    let follower = Follower::open(&args.data)?;
    let islands = follower.islands();
    if islands.is_empty() {
        return Err(Failure::Run(format!("{}: no island of the database is here", args.data.display())));
    }
    for island in islands {
        let put = put_island(&storage, &follower, island, (args, interrupt))?;
        print(&told(island, &put, args))?;
    }
    Ok(())
}

fn told(island: InstanceId, put: &Put, args: &BasePutArgs) -> String {
    let Put { found: Found { log, id, manifest }, removed, trimmed } = put;
    let (head, files) = (&manifest.head, manifest.files.len());
    if args.json {
        let object = json!({
            "log": log, "island": island.0, "copy": id, "counted": head.counted, "next": head.next, "files": files,
            "bytes": manifest.bytes(), "copies_removed": removed, "begins": trimmed.map(|(begins, _)| begins),
            "positions_removed": trimmed.map(|(_, gone)| gone),
        });
        return object.to_string();
    }
    let trimmed = match trimmed {
        None => String::new(),
        Some((begins, 0)) => format!("; the log begins at position {begins}, nothing can be trimmed yet"),
        Some((begins, gone)) => {
            format!("; the log begins at position {begins} now, {} trimmed", counted(*gone, "position"))
        }
    };
    let mib = manifest.bytes().div_ceil(1 << 20);
    format!(
        "island {island}: base copy {id} has {} of log {log} ({}, {mib} MiB); {} removed{trimmed}",
        counted(head.counted, "entry").replace("entrys", "entries"),
        counted(files, "file"),
        counted(*removed, "older copy").replace("copys", "copies"),
    )
}

/// The way out for a reader that meets the log without its beginning.
fn note(storage: &Storage, name: &str) -> String {
    format!("the newest base copy: atoll base get {} --relay-name {name} --to DIR", storage.url())
}

fn put_island(
    storage: &Storage,
    follower: &Follower,
    island: InstanceId,
    (args, interrupt): (&BasePutArgs, &Interrupt),
) -> Result<Put, Failure> {
    let log = format!("{}-{island}", args.relay_name);
    let at = args.relay.as_ref().map(|relay| LogAtRelay::open(relay, &log)).transpose();
    let at = at.map_err(Failure::Run)?;
    let note = note(storage, &args.relay_name);
    let earlier = storage.whole(&log)?;
    let mut head = Head {
        atoll: version::short(),
        log: log.clone(),
        taken: now_s(),
        description: follower.description().to_owned(),
        milestones: earlier.iter().flat_map(|copy| copy.manifest.head.milestones.clone()).collect(),
        ..Head::default()
    };
    let mut signs =
        earlier.iter().fold(Signs::default(), |all, copy| all.with(signs_of(&copy.manifest.head)));
    let of_folder = |why: String| Failure::Run(format!("{}: {why}", follower.folder(island).display()));
    let mut begins = 1;
    if let Some(at) = &at {
        at.milestone(&note).map_err(of_folder)?;
        let followed = follower.follow(island, at, signs).map_err(of_folder)?;
        head.milestones.extend(followed.milestones);
        signs = followed.signs;
        begins = at.begins().map_err(Failure::Run)?;
    }
    (head.floor, head.renamed, head.sealed) = (signs.floor, signs.renamed, signs.sealed);
    if let Some(reach) = follower.reach(island).map_err(of_folder)? {
        (head.stream, head.term) = (Some(reach.stream), reach.term);
        (head.counted, head.next) = (reach.counted, reach.next);
    }
    require_one_log(storage, &earlier, &head)?;
    head.milestones.retain(|at| (begins..head.next).contains(at));
    head.milestones.sort_unstable();
    head.milestones.dedup();
    let what = format!("putting island {island} of {} to {}", follower.data(), storage.url());
    let number = world::entropy() as u32;
    let folder = follower.folder(island);
    let found = watched(&what, interrupt, |watch| storage.put(&folder, NO_DATA, head, number, watch))?;
    if let Some(at) = &at {
        require_followed(storage, at, &found)?;
    }
    let removed = remove_old(storage, &log, args.keep as usize)?;
    let trimmed = match &at {
        Some(at) if args.trim => Some(trim(storage, at, &log, &note)?),
        _ => None,
    };
    Ok(Put { found, removed, trimmed })
}

/// The signs in a copy of how far the directory of the log's owner is.
fn signs_of(head: &Head) -> Signs {
    Signs { floor: head.floor, renamed: head.renamed, sealed: head.sealed }
}

/// # Errors
/// The place has copies of another log of this name.
fn require_one_log(storage: &Storage, earlier: &[Found], head: &Head) -> Result<(), Failure> {
    let other = |copy: &&Found| matches!((copy.manifest.head.stream, head.stream), (Some(there), Some(here)) if there != here);
    match earlier.iter().find(other) {
        None => Ok(()),
        Some(copy) => Err(Failure::Run(format!(
            "{}: base copy {} is of another log with the name {}, which began anew since; name another place, or \
             another --relay-name",
            storage.url(),
            copy.id,
            head.log
        ))),
    }
}

/// A copy that another keeper has overtaken meanwhile is of no use.
fn require_followed(storage: &Storage, at: &LogAtRelay, found: &Found) -> Result<(), Failure> {
    let begins = at.begins().map_err(Failure::Run)?;
    if begins <= found.manifest.head.next {
        return Ok(());
    }
    storage.remove(&found.log, &found.id)?;
    Err(Failure::Run(format!(
        "log {} was trimmed to position {begins} while its copy was put, which has it up to {} only: another machine keeps \
         base copies of it; let one do so",
        found.log, found.manifest.head.next
    )))
}

/// Removes copies older than the newest `keep`, and the rests of others.
fn remove_old(storage: &Storage, log: &str, keep: usize) -> Result<usize, Failure> {
    let (mut whole, mut old) = (Vec::new(), Vec::new());
    for listed in storage.list(log)? {
        match listed {
            Listed::Whole(found) => whole.push(found.id),
            Listed::Half { id, changed } if changed + ABANDONED < now_s() => old.push(id),
            Listed::Half { .. } | Listed::Damaged { .. } => {}
        }
    }
    old.extend(whole.drain(..whole.len().saturating_sub(keep)));
    old.iter().try_for_each(|id| storage.remove(log, id))?;
    Ok(old.len())
}

/// Trims a log to the last milestone that no kept copy and not the owner's folder needs. Returns
/// where it begins, and how many positions are gone.
fn trim(storage: &Storage, at: &LogAtRelay, log: &str, note: &str) -> Result<(u64, u64), Failure> {
    let kept = storage.whole(log)?;
    kept.iter().try_for_each(|copy| storage.require_whole(copy))?;
    let heads = || kept.iter().map(|copy| &copy.manifest.head);
    let floor = heads().map(|head| head.floor).max().unwrap_or(0);
    let limit = heads().map(|head| head.next).min().unwrap_or(0).min(floor);
    let milestones = heads().flat_map(|head| head.milestones.iter().copied());
    let removed = match milestones.filter(|at| *at <= limit).max() {
        Some(to) => at.trim(to, note).map_err(Failure::Run)?,
        None => 0,
    };
    Ok((at.begins().map_err(Failure::Run)?, removed))
}

/// Makes a database of the newest base copies, if `data` is missing or empty.
///
/// # Errors
/// There are none, or they cannot be used.
pub fn begin_with(place: &str, name: &str, data: &Path, interrupt: &Interrupt) -> Result<(), Failure> {
    if !matches!(standing(data)?, Standing::Absent | Standing::Vacant) {
        return Ok(());
    }
    let storage = Storage::open(place)?;
    let found = find(&storage, name, (&[], None)).map_err(|failure| match failure {
        Failure::Run(why) => Failure::Run(format!("--base {why}; or begin a new database without --base")),
        other => other,
    })?;
    if is_bare(data) {
        fs::remove_dir_all(data).map_err(|e| Failure::Run(format!("{}: {e}", data.display())))?;
    }
    fetch_all(&storage, &found, data, interrupt)?;
    for (island, copy) in found {
        tell(format_args!("atoll: island {island} begins with base copy {} of {place}", copy.id));
    }
    Ok(())
}

/// Whether a directory is there and holds at most what a server leaves that was refused before it
/// made anything: locks and empty folders.
fn is_bare(dir: &Path) -> bool {
    let bare = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => is_bare(&entry.path()),
        Ok(_) => entry.file_name() == "lock",
        Err(_) => false,
    };
    fs::read_dir(dir).is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(bare)))
}

/// The newest copies of the islands, or those that are named.
fn find(
    storage: &Storage,
    name: &str,
    (islands, id): (&[u16], Option<&str>),
) -> Result<Vec<(u16, Found)>, Failure> {
    let numbers = if islands.is_empty() { storage.numbers(name)? } else { islands.to_vec() };
    if numbers.is_empty() {
        let (url, log) = (storage.url().to_owned(), format!("{name}-0"));
        return Err(CopyError::Nothing { url, log }.into());
    }
    let of = |number: u16| Ok((number, storage.find(&format!("{name}-{number}"), id)?));
    numbers.into_iter().map(of).collect()
}

fn fetch(
    storage: &Storage,
    (island, copy): (u16, &Found),
    to: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let what = format!("fetching island {island} from {}", storage.url());
    Ok(watched(&what, interrupt, |watch| storage.fetch(copy, to, watch))?)
}

/// All islands as a database.
fn fetch_all(
    storage: &Storage,
    found: &[(u16, Found)],
    to: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    make_whole(to, |dir| {
        for (island, copy) in found {
            let folder = dir.join(island.to_string());
            let made = fs::DirBuilder::new().mode(0o700).create(&folder);
            made.map_err(|e| Failure::Run(format!("{}: {e}", folder.display())))?;
            fetch(storage, (*island, copy), &folder, interrupt)?;
            write_description(dir, Some(&copy.manifest.head.description))?;
        }
        let islands = manifest_in(dir)?.map_or(0, |manifest| manifest.islands);
        let missing: Vec<String> = (0..islands)
            .filter(|island| found.iter().all(|(there, _)| there != island))
            .map(|island| island.to_string())
            .collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(Failure::Run(format!(
                "{}: of {} of the database there is no base copy of {}; put one of each, or use --copies for an agent",
                storage.url(),
                counted(islands, "island"),
                missing.join(", ")
            ))),
        }
    })
}

/// Islands as copies below the directory of an agent.
fn fetch_copies(
    storage: &Storage,
    found: &[(u16, Found)],
    to: &Path,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    if let (Some((_, copy)), None) = (found.first(), manifest_in(to).ok().flatten()) {
        write_description(to, Some(&copy.manifest.head.description))?;
    }
    for (island, copy) in found {
        if to.join(island.to_string()).exists() {
            let why = format!("{}: island {island} itself is here; name others with --island", to.display());
            return Err(Failure::Run(why));
        }
        make_whole(&to.join(format!("copy-{island}")), |dir| {
            fetch(storage, (*island, copy), dir, interrupt)
        })?;
    }
    Ok(())
}

fn get(args: &BaseGetArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let storage = Storage::open(&args.from)?;
    let found = find(&storage, &args.relay_name, (&args.island, args.copy.as_deref()))?;
    match args.copies {
        true => fetch_copies(&storage, &found, &args.to, interrupt)?,
        false => fetch_all(&storage, &found, &args.to, interrupt)?,
    }
    for (island, Found { log, id, manifest }) in found {
        let (bytes, counted) = (manifest.bytes(), manifest.head.counted);
        print(&match args.json {
            true => json!({ "log": log, "island": island, "copy": id, "counted": counted, "bytes": bytes })
                .to_string(),
            false => format!(
                "island {island}: base copy {id}, {} MiB, up to entry {counted} of log {log}",
                bytes.div_ceil(1 << 20)
            ),
        })?;
    }
    Ok(())
}

fn list(args: &BaseListArgs) -> Result<(), Failure> {
    let storage = Storage::open(&args.place)?;
    let numbers = storage.numbers(&args.relay_name)?;
    if numbers.is_empty() {
        let (url, log) = (storage.url().to_owned(), format!("{}-0", args.relay_name));
        return Err(CopyError::Nothing { url, log }.into());
    }
    for number in numbers {
        let log = format!("{}-{number}", args.relay_name);
        for listed in storage.list(&log)? {
            print(&if args.json { as_json(&log, &listed) } else { in_words(&log, &listed) })?;
        }
    }
    Ok(())
}

fn as_json(log: &str, listed: &Listed) -> String {
    let object = match listed {
        Listed::Whole(Found { id, manifest, .. }) => json!({
            "log": log, "copy": id, "state": "whole", "taken": manifest.head.taken, "counted": manifest.head.counted,
            "next": manifest.head.next, "files": manifest.files.len(), "bytes": manifest.bytes(),
            "version": manifest.head.atoll,
        }),
        Listed::Damaged { id, what } => json!({ "log": log, "copy": id, "state": "damaged", "what": what }),
        Listed::Half { id, changed } => {
            json!({ "log": log, "copy": id, "state": "half", "changed": changed })
        }
    };
    object.to_string()
}

fn in_words(log: &str, listed: &Listed) -> String {
    match listed {
        Listed::Whole(Found { id, manifest, .. }) => {
            let (counted, ago) = (manifest.head.counted, now_s().saturating_sub(manifest.head.taken));
            let mib = manifest.bytes().div_ceil(1 << 20);
            format!("{log} {id}: up to entry {counted}, {mib} MiB, {ago} s old")
        }
        Listed::Damaged { id, what } => format!("{log} {id}: cannot be used: it {what}"),
        Listed::Half { id, .. } => {
            format!("{log} {id}: not complete: it is being put, or that was interrupted")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_with_a_file_of_another_program_is_not_bare() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        assert!(is_bare(path) && !is_bare(&path.join("absent")));
        fs::create_dir(path.join("0")).unwrap();
        fs::write(path.join("lock"), "17").unwrap();
        fs::write(path.join("0/lock"), "").unwrap();
        assert!(is_bare(path));
        fs::write(path.join("0/data"), "").unwrap();
        assert!(!is_bare(path));
    }
}
