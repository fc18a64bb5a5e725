//! Chooses the directory of each database of a bench or a load: the directory of `--data` itself,
//! or a directory below it for each shape.
//!
//! | the directory has | one shape of data is asked for | several |
//! |---|---|---|
//! | nothing of Atoll's | it becomes the database | it becomes a sweep's, a database per shape |
//! | a database | it is used if it fits, else refused | refused, unless it fits all |
//! | a sweep's databases | the one that fits, or a new one | for each, one that fits or a new one |
//! | half a load, a backup | refused | refused |
//!
//! A refusal names the existing data, the request, and the commands that fit. It comes before any
//! file is touched.

use crate::choices::design_of;
use crate::cli::{BenchArgs, DesignArg};
use crate::failure::Failure;
use crate::stop::{Stop, bases};
use crate::typed::Typed;
use base::counted;
use deploy::engine::{DesignKind, HeapForm, TreeKind};
use deploy::{DataUse, DeployError, Deployment, Manifest, Standing, Within, free_name, name_in_sweep};
use std::path::{Path, PathBuf};
use topology::IslandCount;
use workload::WorkloadSpec;
use workload::benchmark::Shapes;
use workload::spec::own_options;

/// Fills in the options that describe the shape of an existing database, unless the options set
/// them.
///
/// # Errors
/// The description of a data directory cannot be read; designs cannot run on its data.
pub fn adopt(args: &BenchArgs) -> Result<BenchArgs, Failure> {
    let mut args = args.clone();
    let Some(path) = args.deployment.data.clone().filter(|_| args.deployment.hosts.is_none()) else {
        return Ok(args);
    };
    let Standing::Database(manifest) = deploy::standing(&path)? else { return Ok(args) };
    let shape = &manifest.workload;
    let kin = shape.is_kin_of(&WorkloadSpec::new(&args.workload, 1));
    if kin {
        require_designs(&args, &path, &manifest)?;
    }
    let d = &mut args.deployment;
    if d.islands.is_empty() {
        d.islands = vec![IslandCount::Count(manifest.islands.into())];
    }
    d.engine.set_if_absent("tables", manifest.tables.name());
    d.engine.set_if_absent("tree", manifest.trees.name());
    d.engine.set_if_absent("heap", manifest.heaps.name());
    if manifest.trees == TreeKind::MultiRooted && d.engine.has("tree", TreeKind::MultiRooted.name()) {
        d.engine.set_if_absent("partitions", manifest.partitions);
    }
    if kin {
        if args.requests.scale.is_empty() {
            args.requests.scale = vec![shape.scale.unwrap_or(shape.cores)];
        }
        if args.requests.dataset.is_empty() {
            args.requests.dataset = shape.dataset.into_iter().collect();
        }
        for option in own_options().filter(|o| o.shapes == Shapes::Data) {
            if let Some(value) = shape.own.get(option.name) {
                args.requests.own.0.entry(option.name).or_insert_with(|| vec![value.clone()]);
            }
        }
    }
    Ok(args)
}

/// Refuses designs with owners if the database is not divided in the way they need, unless the
/// options ask for other trees or heap pages themselves.
fn require_designs(args: &BenchArgs, path: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let d = &args.deployment;
    let lacks = |design: &DesignKind| {
        let is_free = |option| d.engine.values(option).is_empty();
        (design.owns_pages() && manifest.trees != TreeKind::MultiRooted && is_free("tree"))
            || (design.heap_form() != HeapForm::Shared
                && manifest.heaps != design.heap_form()
                && is_free("heap"))
    };
    let Some(design) = d.design.iter().map(|d| design_of(*d)).find(lacks) else { return Ok(()) };
    let needs = match design.heap_form() {
        HeapForm::Shared => "trees of kind mrbtree".into(),
        form => format!("trees of kind mrbtree and heap pages of kind {}", form.name()),
    };
    let difference = format!(
        "--design {design} needs {needs}, it has {} and {}",
        manifest.trees.name(),
        manifest.heaps.name()
    );
    Err(refusal(args, path, manifest, &[difference]))
}

/// Gives each stop the directory of its database; returns the directory of the sweep if they share
/// one.
///
/// # Errors
/// A directory that cannot be used, with the commands that fit.
pub fn assign(args: &BenchArgs, stops: &mut [Stop]) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = args.deployment.data.clone().filter(|_| args.deployment.hosts.is_none()) else {
        return Ok(None);
    };
    let bases = bases(stops)?;
    let keeps = args.deployment.keep && stops.len() > 1;
    match deploy::standing(&path)? {
        Standing::Database(manifest) => {
            fit_all(args, &path, &manifest, stops)?;
            Ok(None)
        }
        Standing::Sweep(within) => {
            share_out(&path, &within, &bases, stops)?;
            Ok(Some(path))
        }
        Standing::Absent | Standing::Vacant if keeps || bases.iter().any(|base| *base > 0) => {
            share_out(&path, &[], &bases, stops)?;
            Ok(Some(path))
        }
        Standing::Absent | Standing::Vacant => Ok(None),
        Standing::Unfinished => Err(DeployError::Unfinished { path }.into()),
        Standing::Backup => {
            let restored = free_name(&path, "restored");
            Err(DeployError::Backup { path, restored }.into())
        }
    }
}

fn fit_all(args: &BenchArgs, path: &Path, manifest: &Manifest, stops: &[Stop]) -> Result<(), Failure> {
    deploy::require_schema(path, manifest)?;
    for stop in stops {
        let wanted = stop.deployment.manifest()?;
        if !manifest.fits(&wanted) {
            return Err(refusal(args, path, manifest, &differences(manifest, &wanted)));
        }
    }
    if args.deployment.keep && stops.len() > 1 {
        return Err(Failure::Usage(format!(
            "--keep: {} deployments would change the one database in {}, one after the other; expected one deployment, or leave \
             --keep out: each runs on a copy then",
            stops.len(),
            path.display()
        )));
    }
    Ok(())
}

/// Assigns a database, existing or new, to each shape of data, or with `--keep` to each deployment.
fn share_out(path: &Path, within: &[Within], bases: &[usize], stops: &mut [Stop]) -> Result<(), Failure> {
    let mut taken: Vec<PathBuf> = Vec::new();
    let mut of_base: Vec<Option<PathBuf>> = vec![None; bases.len()];
    for (stop, &base) in stops.iter_mut().zip(bases) {
        let d = &mut stop.deployment;
        let keeps = d.data_use == DataUse::Keep;
        let ending = match keeps {
            true => format!("{}-{}-islands", d.design, d.islands),
            false => format!("{}-islands", d.islands),
        };
        let at = match of_base[base].clone().filter(|_| !keeps) {
            Some(at) => at,
            None => {
                let wanted = d.manifest()?;
                let is_kind = |name: &str| name.split_once('-').is_some_and(|(_, rest)| rest == ending);
                let fits = |w: &&Within| {
                    is_kind(&w.name) && w.manifest.fits(&wanted) && !taken.contains(&path.join(&w.name))
                };
                match within.iter().find(fits) {
                    Some(there) => path.join(&there.name),
                    None => name_in_sweep(path, &ending, &taken)?,
                }
            }
        };
        taken.push(at.clone());
        of_base[base] = Some(at.clone());
        d.data = Some(at);
    }
    Ok(())
}

/// Checks that `path` may hold this one load.
///
/// # Errors
/// The directory holds something else; the error names the commands that fit.
pub fn require_place_to_load(path: &Path, deployment: &Deployment) -> Result<(), Failure> {
    let elsewhere = Typed::here().on(&free_name(path, "2"));
    match deploy::standing(path)? {
        Standing::Database(manifest) => {
            deploy::require_schema(path, &manifest)?;
            let wanted = deployment.manifest()?;
            if manifest.fits(&wanted) {
                return Ok(());
            }
            Err(Failure::Usage(format!(
                "data directory {} holds {}: {}; {elsewhere} loads into another directory",
                path.display(),
                shape(&manifest),
                differences(&manifest, &wanted).join(", ")
            )))
        }
        Standing::Sweep(within) => {
            let what = within.iter().map(|w| format!("{} ({})", w.name, shape(&w.manifest)));
            let what = what.collect::<Vec<_>>().join(", ");
            Err(Failure::Usage(format!(
                "{} is the directory of a sweep, with these databases: {what}; {elsewhere} loads into another directory",
                path.display()
            )))
        }
        Standing::Backup => {
            let restored = free_name(path, "restored");
            Err(DeployError::Backup { path: path.into(), restored }.into())
        }
        Standing::Absent | Standing::Vacant | Standing::Unfinished => Ok(()),
    }
}

/// For a command that takes one database and was given the directory of a sweep: `typed` makes the
/// command line for one database of it.
pub fn name_one(error: DeployError, typed: impl FnOnce(&Path) -> String) -> Failure {
    let DeployError::Sweep { path, .. } = &error else { return error.into() };
    match deploy::standing(path) {
        Ok(Standing::Sweep(within)) if !within.is_empty() => {
            let one = path.join(&within[0].name);
            Failure::Usage(format!("{error}; name one of them: {}", typed(&one)))
        }
        _ => error.into(),
    }
}

/// A database in a few words.
fn shape(manifest: &Manifest) -> String {
    let family = if manifest.family == deploy::MEMORY { " of design occ" } else { "" };
    format!("{} on {}{family}", manifest.data, islands(manifest))
}

fn islands(manifest: &Manifest) -> String {
    counted(manifest.islands, "island")
}

/// Each difference between the database and the request, as a sentence.
fn differences(found: &Manifest, wanted: &Manifest) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |has: String, asked: String| {
        if has != asked {
            all.push(format!("it has {has}, asked for is {asked}"));
        }
    };
    add(found.data.clone(), wanted.data.clone());
    let of = |m: &Manifest| format!("{} (--islands {})", islands(m), m.islands);
    add(of(found), of(wanted));
    if found.family != wanted.family {
        let of = |m: &Manifest| match m.family == deploy::MEMORY {
            true => "rows in main memory (--design occ)",
            false => "pages, in disk format (any --design but occ)",
        };
        add(of(found).into(), of(wanted).into());
        return all;
    }
    let of = |m: &Manifest| format!("{} tables (--tables {0})", m.tables.name());
    add(of(found), of(wanted));
    let of = |m: &Manifest| match m.trees {
        TreeKind::BTree => "btree (--tree btree)".into(),
        kind => format!(
            "{} of {} (--tree {0} --partitions {})",
            kind.name(),
            counted(m.partitions as u64, "partition"),
            m.partitions
        ),
    };
    add(of(found), of(wanted));
    let of = |m: &Manifest| format!("{} heap pages (--heap {0})", m.heaps.name());
    add(of(found), of(wanted));
    all
}

/// Options that shape the data, apart from the number of islands and the design.
fn shaping() -> Vec<String> {
    let own = own_options().filter(|o| o.shapes == Shapes::Data).map(|o| format!("--{}", o.name));
    let common = ["--tables", "--tree", "--heap", "--partitions", "--scale", "--dataset"];
    common.into_iter().map(str::to_owned).chain(own).collect()
}

/// Options that only some workloads take, and options that describe the requests of one workload.
fn of_the_workload() -> Vec<String> {
    let own = own_options().map(|o| format!("--{}", o.name));
    let common =
        ["--multisite", "--rows", "--op", "--skew", "--hot", "--think", "--terminals", "--phases", "--kill"];
    common.into_iter().map(str::to_owned).chain(own).collect()
}

/// Refuses a bench that does not fit the existing database, with the command that runs on that
/// database and the command that gets the requested one.
fn refusal(args: &BenchArgs, path: &Path, manifest: &Manifest, differences: &[String]) -> Failure {
    let kin = manifest.workload.is_kin_of(&WorkloadSpec::new(&args.workload, 1));
    let mut fits = Typed::here().without(&shaping()).without(&["--islands".to_owned()]);
    if !kin {
        fits = fits.without(&of_the_workload()).replace(&args.workload, &manifest.workload.name);
    }
    let runs = |design: &&DesignArg| runs_on(design_of(**design), manifest);
    let designs: Vec<String> =
        args.deployment.design.iter().filter(runs).map(|design| design_of(*design).to_string()).collect();
    fits = match (designs.is_empty(), manifest.family == deploy::MEMORY) {
        _ if designs.len() == args.deployment.design.len() => fits,
        (true, true) => fits.with("--design", "occ"),
        (true, false) => fits.without(&["--design".to_owned()]),
        (false, _) => fits.with("--design", &designs.join(",")),
    };
    let elsewhere = Typed::here().on(&free_name(path, "2"));
    Failure::Usage(format!(
        "data directory {} holds {}: {}; {fits} runs on what is there, {elsewhere} loads what was asked for into a directory of \
         its own",
        path.display(),
        shape(manifest),
        differences.join(", ")
    ))
}

fn runs_on(design: DesignKind, manifest: &Manifest) -> bool {
    let form = design.heap_form();
    match manifest.family == deploy::MEMORY {
        true => design.is_in_memory(),
        false => {
            !design.is_in_memory()
                && (!design.owns_pages() || manifest.trees == TreeKind::MultiRooted)
                && (form == HeapForm::Shared || form == manifest.heaps)
        }
    }
}
