//! The calibration of a plan: read from a file, or measured now, and written to the file.
//!
//! Without `--calibration` the file lies in the user's cache directory, one for each workload,
//! operation and durability. A file that does not fit is measured anew there; one that was named is
//! refused.

use super::PlanArgs;
use super::probes;
use super::question::Question;
use super::trials::BUDGET;
use crate::failure::Failure;
use crate::units::in_words;
use base::counted;
use deploy::Interrupt;
use deploy::engine::DesignKind;
use deploysim::calibration::Kept;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use world::tell;

/// Reads the calibration of the question, or measures it, and gives it to the question.
///
/// It is measured if `--calibrate` asks for it, or if trials are run, no file fits, and half of the
/// budget pays for it.
///
/// # Errors
/// A file that was named and cannot be used; a budget too small; a probe that fails; an
/// interruption.
pub fn adopt(question: &mut Question<'_>, interrupt: &Interrupt) -> Result<(), Failure> {
    let args = question.args;
    let Some(machine) = question.live.clone() else { return refuse_options(args) };
    let path = args.calibration.clone().or_else(|| default_path(question));
    let budget = match args.calibrate {
        Some(budget) => Some(budget),
        None => {
            let found = path.as_deref().map_or(Ok(None), |path| known(question, path))?;
            if let Some(kept) = found {
                return question.adopt(kept);
            }
            let half = args.budget.unwrap_or(BUDGET) / 2;
            let needed = probes::PROBE_S * designs(question).len() as f64;
            let is_tried = question.is_tried() && args.map.is_empty() && args.explain.is_empty();
            (is_tried && half.as_secs_f64() >= needed).then_some(half)
        }
    };
    let Some(budget) = budget else { return Ok(()) };
    let names = designs(question);
    let begun = Instant::now();
    let kept = probes::run(question, &names, budget, &machine, interrupt)?;
    question.probed = begun.elapsed();
    if let Some(path) = path {
        keep(args, &path, &kept)?;
    }
    question.adopt(kept)
}

/// A described machine has nothing to measure.
fn refuse_options(args: &PlanArgs) -> Result<(), Failure> {
    let given = [("--calibrate", args.calibrate.is_some()), ("--calibration", args.calibration.is_some())];
    match given.into_iter().find(|(_, given)| *given) {
        Some((option, _)) => Err(Failure::Usage(format!(
            "{option}: a calibration is of the machine under this process; leave it out, or leave out --machine {}",
            args.machine
        ))),
        None => Ok(()),
    }
}

/// The designs to calibrate: those asked for, else all.
fn designs(question: &Question<'_>) -> Vec<&'static str> {
    let asked = &question.args.designs;
    let is_asked =
        |kind: &DesignKind| asked.is_empty() || asked.iter().any(|d| crate::choices::design_of(*d) == *kind);
    DesignKind::ALL.into_iter().filter(is_asked).map(DesignKind::name).collect()
}

/// `atoll/calibration/micro-read-async.toml` in the user's cache directory; `None` without such a
/// directory.
fn default_path(question: &Question<'_>) -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")))?;
    let conditions = question.conditions();
    let op = conditions.op.map_or_else(String::new, |op| format!("-{op}"));
    let file = format!("{}{op}-{}.toml", conditions.workload, conditions.durability.name());
    Some(cache.join("atoll/calibration").join(file))
}

/// The calibration in the file, if it fits.
///
/// # Errors
/// The file was named, and is unreadable or does not fit.
fn known(question: &Question<'_>, path: &Path) -> Result<Option<Kept>, Failure> {
    let args = question.args;
    let is_named = args.calibration.is_some();
    let file = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound && (!is_named || question.is_tried()) => return Ok(None),
        Err(e) if is_named => {
            return Err(Failure::Usage(format!(
                "--calibration {file}: {e}; expected a calibration as atoll plan --calibrate writes it"
            )));
        }
        Err(_) => return Ok(None),
    };
    let read = Kept::parse(&file, &text);
    let why = match read {
        Ok(kept) => match kept.misfit(&question.conditions()) {
            None => return Ok(Some(kept)),
            Some(why) => format!("{file}: {why}; expected another file, or --calibrate to measure anew"),
        },
        Err(e) => e.to_string(),
    };
    if is_named {
        return Err(Failure::Usage(format!("--calibration {why}")));
    }
    tell(format_args!("atoll: warning: the calibration {why}"));
    Ok(None)
}

/// Writes the file. At the default place a failure is a warning: the plan is as good without it.
fn keep(args: &PlanArgs, path: &Path, kept: &Kept) -> Result<(), Failure> {
    let text = kept.to_toml().map_err(Failure::run)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), std::fs::create_dir_all);
    match made.and_then(|()| std::fs::write(path, text)) {
        Ok(()) => tell(format_args!("calibration: {}", path.display())),
        Err(e) if args.calibration.is_some() => {
            return Err(Failure::Run(format!("cannot write {}: {e}", path.display())));
        }
        Err(e) => tell(format_args!("atoll: warning: the calibration is not kept: {}: {e}", path.display())),
    }
    Ok(())
}

/// `26 cells of 2026-11-25 20:15 (5 min ago), spread of windows 4 %`.
pub fn words(kept: &Kept) -> String {
    let age = (OffsetDateTime::now_utc().unix_timestamp() - kept.unix_s).max(0) as u64;
    let age = if age < 60 { "now".to_owned() } else { format!("{} ago", in_words(Duration::from_secs(age))) };
    let spread = match kept.spread() {
        Some(spread) => format!("spread of windows {:.0} %", spread * 100.0),
        None => "one window each".to_owned(),
    };
    format!("{} of {} ({age}), {spread}", counted(kept.cells().len(), "cell"), kept.date)
}
