//! An instance of one of the page-based designs.

use super::{Committed, Examined, Finding, NO_COMMIT, NO_PREPARE, audit};
use base::Gtid;
use exec::{Conventional, PageEngine, PageOptions};
use latch::Coupled;
use locks::{LockOptions, LockTuning};
use std::path::Path;
use std::sync::Arc;
use store::{InDoubt, NoteId, Store, StoreFault, StoreOptions};
use twophase::{CommitNote, PrepareNote};
use txn::Workload;
use wal::Durability;
use world::Files;

/// Segment size of the log that restart itself writes during the examination: small, since it is in
/// memory.
const SEGMENT_BYTES: u64 = 1 << 20;

/// An instance that opened.
pub(super) struct Opened {
    store: Store,
    in_doubt: Vec<InDoubt>,
}

/// Opens an instance in `dir`. Returns it with the transactions that it remembers as committed.
pub(super) fn open(
    files: &Arc<dyn Files>,
    dir: &Path,
    pool_pages: usize,
    examined: &mut Examined,
    watch: store::CheckProgress<'_>,
) -> Result<(Opened, Vec<Gtid>), StoreFault> {
    // Opening creates missing files: a folder without a database would pass for an empty one.
    store::expect_database(&**files, dir)?;
    examined.findings.extend(store::scan_files(&**files, dir, watch)?);
    let mut options = StoreOptions::new(Durability::Sync, pool_pages);
    options.log.segment_bytes = SEGMENT_BYTES;
    watch("restart", 0, 1);
    let (store, recovered) = Store::open(files.clone(), dir, options)?;
    let (report, findings) = store.examine(watch);
    examined.report = report;
    examined.findings.extend(findings);
    examined.in_doubt = recovered.in_doubt.len();
    let mut committed = Vec::new();
    for (NoteId(end), note) in &recovered.notes {
        match postcard::from_bytes::<CommitNote>(note) {
            Ok(note) => committed.push(note.gtid),
            Err(_) => {
                let fault = StoreFault::Note { end: *end, what: NO_COMMIT };
                examined.findings.push(Finding::of(&fault, dir));
            }
        }
    }
    Ok((Opened { store, in_doubt: recovered.in_doubt }, committed))
}

impl Opened {
    /// Ends the transactions in doubt, as their homes decided. Returns the faults.
    pub(super) fn settle(&mut self, committed: &Committed) -> Vec<StoreFault> {
        let store = &self.store;
        let mut faults = Vec::new();
        for InDoubt { txn, mut others, note, .. } in self.in_doubt.drain(..) {
            let prepared = txn.last_record();
            others.push(txn);
            let note: Option<PrepareNote> = postcard::from_bytes(&note).ok();
            if note.is_none() {
                faults.push(StoreFault::Record { lsn: prepared, what: NO_PREPARE });
            }
            if note.is_some_and(|note| committed.contains(&note.gtid)) {
                match store.commit_together(&mut others.iter_mut().collect::<Vec<_>>(), None) {
                    Ok(_) => others.iter_mut().for_each(|txn| store.committed::<Coupled>(txn)),
                    Err(fault) => faults.push(fault),
                }
            } else {
                faults.extend(others.iter_mut().filter_map(|txn| roll_back(store, txn).err()));
            }
        }
        faults
    }

    /// The workload's report on the data.
    pub(super) fn audit<W: Workload>(
        self,
        workload: &W,
        sites: std::ops::Range<u32>,
    ) -> Result<Vec<u8>, String> {
        let options = PageOptions {
            locks: LockOptions { buckets: 64, tuning: LockTuning::PLAIN },
            lock_timeout_ns: 1_000_000_000,
            waits_for_log: false,
        };
        let engine: PageEngine<Conventional> = PageEngine::new(self.store, options);
        audit(workload, &Arc::new(engine), sites)
    }
}

fn roll_back(store: &Store, txn: &mut store::Txn) -> Result<(), StoreFault> {
    loop {
        match store.rollback::<Coupled>(txn) {
            Err(pages::Stop::Page(page)) => store.load_page(page)?,
            Err(pages::Stop::Again) => {}
            Err(pages::Stop::Fault(fault)) => return Err(StoreFault::Page(fault)),
            Err(stop) => return Err(StoreFault::Schema(stop.to_string())),
            Ok(()) => return Ok(()),
        }
    }
}
