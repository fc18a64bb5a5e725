//! Lost writes: pages that the device acknowledged, and gives back as they were before.
//!
//! ```text
//!   log    ... R1: page 9 ... R2: page 9 ... redo_start ...
//!   file   page 9, LSN of R1, checksum right      R2 lies before the redo: no restart repeats it
//! ```
//!
//! Such a page passes its checksum. But a page has the LSN of its last change, and the log files
//! reach back beyond the last checkpoint, to the begin of a segment. So each page that they name is
//! compared with its last record there, after restart has repeated the records from `redo_start`
//! on. A write that was lost after the last checkpoint needs no check: restart repeats its record.
//! A write of which the record is in no segment any more is not found in this way.

use crate::check::finding::{Finding, TOLD, beyond_told};
use crate::state::store::Store;
use access::{PageUse, each_page};
use base::{Lsn, PageId};
use latch::Coupled;
use std::collections::BTreeMap;
use wal::Span;

/// For each page that is in use and that the log names, the end of its last record.
#[derive(Default)]
pub(super) struct LastChanges(BTreeMap<PageId, Lsn>);

impl LastChanges {
    /// Notes a record; called in log order. Records that change no page are ignored.
    pub fn note(&mut self, span: Span, kind: u8, body: &[u8]) {
        each_page(kind, body, |page, how| match how {
            PageUse::Changed | PageUse::Formatted => drop(self.0.insert(page, span.end)),
            // The bytes of a free page are of no use, and of a page that is only taken as well.
            PageUse::Taken | PageUse::Freed | PageUse::Emptied => drop(self.0.remove(&page)),
        });
    }

    /// Reports the pages that lack their last change. A page that cannot be read is reported
    /// elsewhere.
    pub fn report(&self, store: &Store, findings: &mut Vec<Finding>) {
        let lacking = |(&page, &end): (&PageId, &Lsn)| {
            store.load_page(page).ok()?;
            let found = store.pool.shared::<Coupled>(page).ok()?.lsn();
            (found < end).then_some((page, found, end))
        };
        let lost: Vec<_> = self.0.iter().filter_map(lacking).collect();
        for &(page, found, end) in lost.iter().take(TOLD) {
            let what = format!(
                "{page:?} has LSN {} and lacks a change that the log has up to LSN {}: a write of it was lost",
                found.0, end.0
            );
            findings.push(Finding::in_pages(&store.dir, Some(page), what));
        }
        if let Some(more) = beyond_told(lost.len()) {
            let what = format!("and {more} more pages lack a change that the log has");
            findings.push(Finding::in_pages(&store.dir, None, what));
        }
    }
}
