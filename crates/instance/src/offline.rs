//! Looking at instances that do not run: their files, what restart makes of them, and what the workload says of the data.
//!
//! Every file is covered by an overlay, so restart (redo, undo, a checkpoint) happens in memory and the files stay as they
//! are. Transactions in doubt are settled as they would be by asking: committed if their home remembers it, else
//! rolled back (presumed abort); that needs all instances of a deployment at once.

use base::{Gtid, InstanceId};
use exec::{Conventional, EngineOptions, Executor, Here, PageEngine, Protection};
use latch::Coupled;
use locks::{LockOptions, LockTuning};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use store::{CheckReport, Finding, InDoubt, Store, StoreFault, StoreOptions};
use twophase::{CommitNote, PrepareNote};
use txn::{Placement, Workload};
use wal::Durability;
use world::Files;

/// Log that restart itself writes while it is looked at: little, and in memory.
const SEGMENT_BYTES: u64 = 1 << 20;

/// What was found in one instance.
#[derive(Debug)]
pub struct Examined {
    pub instance: InstanceId,
    pub findings: Vec<Finding>,
    pub report: CheckReport,
    /// Transactions found prepared, and settled for the look.
    pub in_doubt: usize,
    /// The workload's report (an encoded [`Workload::Audit`]), where the store could be opened.
    pub audit: Option<Vec<u8>>,
}

/// Told which instance is looked at, what of it, how much of that is done, and how much there is.
pub type Watch<'a> = &'a mut dyn FnMut(InstanceId, &str, u64, u64);

/// An instance whose files are being looked at.
struct Looked {
    examined: Examined,
    dir: PathBuf,
    /// `None` if it does not open.
    store: Option<Store>,
    in_doubt: Vec<InDoubt>,
    committed: Vec<Gtid>,
}

/// Looks at the instances of a deployment, whose folders are `dirs` in the order of their numbers. `pool_pages` of 8 KiB
/// are the page memory of each.
pub fn examine<W: Workload>(
    workload: &W,
    placement: &Placement,
    dirs: Vec<PathBuf>,
    pool_pages: usize,
    watch: Watch<'_>,
) -> Vec<Examined> {
    let look = |(i, dir): (usize, PathBuf)| {
        let id = InstanceId(i as u16);
        look_at(id, dir, pool_pages, &mut |what, done, total| watch(id, what, done, total))
    };
    let mut all: Vec<Looked> = dirs.into_iter().enumerate().map(look).collect();
    let committed: BTreeSet<Gtid> = all.iter().flat_map(|l| l.committed.iter().copied()).collect();
    for looked in &mut all {
        watch(looked.examined.instance, "consistency conditions", 0, 1);
        looked.settle(&committed);
        looked.audit(workload, placement);
    }
    all.into_iter().map(|looked| looked.examined).collect()
}

fn look_at(id: InstanceId, dir: PathBuf, pool_pages: usize, watch: store::Watch<'_>) -> Looked {
    let files = world::overlay(world::real());
    let examined =
        Examined { instance: id, findings: vec![], report: CheckReport::default(), in_doubt: 0, audit: None };
    let mut looked = Looked { examined, dir, store: None, in_doubt: Vec::new(), committed: Vec::new() };
    if let Err(fault) = looked.open(&files, pool_pages, watch) {
        looked.found(&fault);
    }
    looked
}

impl Looked {
    fn found(&mut self, fault: &StoreFault) {
        let finding = Finding::of(fault, &self.dir);
        // Restart meets the same damaged page that the look through the file has met already.
        let known = |f: &Finding| f.file == finding.file && f.offset == finding.offset && f.offset.is_some();
        if !self.examined.findings.iter().any(known) {
            self.examined.findings.push(finding);
        }
    }

    fn open(
        &mut self,
        files: &Arc<dyn Files>,
        pool_pages: usize,
        watch: store::Watch<'_>,
    ) -> Result<(), StoreFault> {
        let dir = self.dir.clone();
        // Opening makes what is missing: a folder without a database would pass for an empty one.
        if !files.list(&dir)?.iter().any(|name| name.starts_with("control-")) {
            return Err(StoreFault::NotADatabase {
                what: "it has no control file, so it holds no database or has lost it; restore it from a backup",
                dir,
            });
        }
        self.examined.findings = store::scan_files(&**files, &dir, watch)?;
        let mut options = StoreOptions::new(Durability::Sync, pool_pages);
        options.log.segment_bytes = SEGMENT_BYTES;
        watch("restart", 0, 1);
        let (store, recovered) = Store::open(files.clone(), &dir, options)?;
        let (report, findings) = store.examine(watch);
        self.examined.report = report;
        self.examined.findings.extend(findings);
        self.examined.in_doubt = recovered.in_doubt.len();
        self.in_doubt = recovered.in_doubt;
        let notes = recovered.notes.iter().filter_map(|(_, note)| postcard::from_bytes(note).ok());
        self.committed = notes.map(|note: CommitNote| note.gtid).collect();
        self.store = Some(store);
        Ok(())
    }

    /// Ends the transactions in doubt, as their homes decided.
    fn settle(&mut self, committed: &BTreeSet<Gtid>) {
        let Some(store) = &self.store else { return };
        let mut faults = Vec::new();
        for InDoubt { txn, mut others, note, .. } in self.in_doubt.drain(..) {
            others.push(txn);
            let note: Option<PrepareNote> = postcard::from_bytes(&note).ok();
            if note.is_some_and(|note| committed.contains(&note.gtid)) {
                match store.commit_together(&mut others.iter_mut().collect::<Vec<_>>(), None) {
                    Ok(_) => others.iter_mut().for_each(|txn| store.committed::<Coupled>(txn)),
                    Err(fault) => faults.push(fault),
                }
            } else {
                faults.extend(others.iter_mut().filter_map(|txn| roll_back(store, txn).err()));
            }
        }
        faults.iter().for_each(|fault| self.found(fault));
    }

    fn audit<W: Workload>(&mut self, workload: &W, placement: &Placement) {
        let Some(store) = self.store.take() else { return };
        let sites = placement.sites_of(self.examined.instance);
        match audit(workload, store, sites) {
            Ok(audit) => self.examined.audit = Some(audit),
            Err(what) => {
                let fault =
                    StoreFault::Schema(format!("the consistency conditions cannot be checked: {what}"));
                self.found(&fault);
            }
        }
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

/// The workload's report on the data of a store that nobody else uses.
fn audit<W: Workload>(workload: &W, store: Store, sites: std::ops::Range<u32>) -> Result<Vec<u8>, String> {
    let options = EngineOptions {
        locks: LockOptions { buckets: 64, tuning: LockTuning::PLAIN },
        lock_timeout_ns: 1_000_000_000,
        waits_for_log: false,
    };
    let engine: Arc<PageEngine<Conventional>> = Arc::new(PageEngine::new(store, options));
    let executor = Rc::new(Executor::new(Arc::new(|| {})));
    let outcome = Rc::new(RefCell::new(Err("it did not end".to_owned())));
    let task = {
        let (engine, executor, outcome) = (engine.clone(), executor.clone(), outcome.clone());
        let workload = workload.clone();
        async move {
            let mut part = engine.part();
            engine.begin(&mut part, 0, Protection::Alone);
            let mut here = Here { engine: &engine, executor: &executor, part: &mut part };
            let audit = workload.audit(sites, &mut here).await;
            let ended = engine.commit(&mut part);
            let fault = || engine.store().fault().map(|fault| fault.to_string());
            *outcome.borrow_mut() =
                match (audit, ended) {
                    (Ok(audit), Ok(_)) => postcard::to_stdvec(&audit).map_err(|e| e.to_string()),
                    (Err(abort), _) | (_, Err(abort)) => Err(fault()
                        .unwrap_or_else(|| format!("reading the tables ended with '{}'", abort.name()))),
                };
        }
    };
    if !executor.spawn(task) {
        return Err("no task is free".into());
    }
    while executor.tasks() > 0 {
        let turned = engine.turn();
        if executor.turn(world::now_ns()) == 0 && !turned {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
    outcome.replace(Ok(Vec::new()))
}
