//! The findings of a check, worded for the operator that must act on them.

use crate::fault::offset_of;
use crate::{DATA, StoreFault};
use base::{PageId, TableId};
use pages::PageFault;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use wal::LogFault;

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Data is lost, wrong, or contradicts itself.
    Damage,
    /// Something to know: lost space, or a write that opening repairs.
    Note,
}

/// One problem that a check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    pub weight: Weight,
    /// The file it is in.
    pub file: PathBuf,
    /// The position in the file, in bytes.
    pub offset: Option<u64>,
    pub what: String,
    /// The recommended action.
    pub remedy: String,
    /// The table concerned, if there is one.
    #[serde(skip)]
    pub table: Option<TableId>,
}

/// The remedy for damage that the log cannot repair.
pub(crate) const RESTORE: &str = "restore the database from a backup, or load it again";

/// Maximum number of findings reported per kind and tree. One more finding counts the others.
pub(super) const TOLD: usize = 5;

/// The number of findings of a kind that are counted and not listed, if there are any.
pub(super) fn beyond_told(found: usize) -> Option<usize> {
    found.checked_sub(TOLD).filter(|more| *more > 0)
}

impl Finding {
    /// Damage to `page`, or to the data file in `dir` as a whole.
    pub(crate) fn in_pages(dir: &Path, page: Option<PageId>, what: String) -> Finding {
        Finding::damage(&dir.join(DATA), page.map(offset_of), what)
    }

    pub(crate) fn damage(file: &Path, offset: Option<u64>, what: String) -> Finding {
        let remedy = RESTORE.to_owned();
        Finding { weight: Weight::Damage, file: file.into(), offset, what, remedy, table: None }
    }

    pub(crate) fn note(file: &Path, offset: Option<u64>, what: String, remedy: &str) -> Finding {
        Finding { weight: Weight::Note, remedy: remedy.into(), ..Finding::damage(file, offset, what) }
    }

    pub fn is_damage(&self) -> bool {
        self.weight == Weight::Damage
    }

    /// The fault that keeps the store in `dir` from opening or continuing, as a finding.
    pub fn of(fault: &StoreFault, dir: &Path) -> Finding {
        let (file, offset) = place(fault, dir);
        let text = fault.to_string();
        // A finding has the place in fields of its own. The remedy in the text follows the first
        // semicolon.
        let text = text.strip_prefix(&format!("{}: ", file.display())).unwrap_or(&text);
        match text.split_once("; ") {
            Some((what, remedy)) => {
                Finding { remedy: remedy.into(), ..Finding::damage(&file, offset, what.into()) }
            }
            None => Finding::damage(&file, offset, text.into()),
        }
    }
}

/// The file of a fault, and the position in it.
fn place(fault: &StoreFault, dir: &Path) -> (PathBuf, Option<u64>) {
    match fault {
        StoreFault::Log(log) => log_place(log, dir),
        StoreFault::Page(page) => page_place(page, dir),
        StoreFault::Version { file, .. } => (file.clone(), Some(0)),
        StoreFault::Unfit { file, offset } => (file.clone(), Some(*offset)),
        StoreFault::Missing { file } => (file.clone(), None),
        StoreFault::Short { file, found, .. } => (file.clone(), Some(*found)),
        StoreFault::InUse { dir, .. }
        | StoreFault::NotADatabase { dir, .. }
        | StoreFault::Control { dir, .. }
        | StoreFault::Gone { dir }
        | StoreFault::HasLog { dir }
        | StoreFault::LogBehind { dir, .. } => (dir.clone(), None),
        StoreFault::Record { .. } | StoreFault::Note { .. } => (dir.join("log"), None),
        _ => (dir.to_owned(), None),
    }
}

fn log_place(fault: &LogFault, dir: &Path) -> (PathBuf, Option<u64>) {
    match fault {
        LogFault::Corrupt { file, offset, .. } => (file.clone(), Some(*offset)),
        LogFault::Version { file, .. } => (file.clone(), Some(0)),
        LogFault::Missing { file, .. } => (file.clone(), None),
        _ => (dir.join("log"), None),
    }
}

fn page_place(fault: &PageFault, dir: &Path) -> (PathBuf, Option<u64>) {
    let data = dir.join(crate::DATA);
    match fault {
        PageFault::Corrupt { file, offset, .. } | PageFault::Newer { file, offset, .. } => {
            (file.clone(), Some(*offset))
        }
        PageFault::Malformed { page } => (data, Some(offset_of(*page))),
        PageFault::File { file, .. } => (file.clone(), Some(0)),
        PageFault::Log(log) => log_place(log, dir),
        _ => (data, None),
    }
}
