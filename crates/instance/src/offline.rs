//! Examines instances that do not run: their files, the result of a restart, and the workload's
//! report on the data.
//!
//! Every file is covered by an overlay, so restart (redo, undo, a checkpoint) happens in memory and
//! the files stay unchanged. Transactions in doubt are settled as an inquiry would settle them:
//! committed if their home remembers the commit, else rolled back (presumed abort). That needs all
//! instances of a deployment at once.

mod memory;
mod pages;

use base::{Gtid, InstanceId};
use exec::{Engine, Executor, Protection, Scope};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use store::CheckReport;
pub use store::{Finding, Weight};
use txn::{Placement, Workload};

/// The result for one instance.
#[derive(Debug)]
pub struct Examined {
    pub instance: InstanceId,
    pub findings: Vec<Finding>,
    pub report: CheckReport,
    /// Transactions found prepared; they are settled in memory only.
    pub in_doubt: usize,
    /// The workload's report (an encoded [`Workload::Audit`]), if the store could be opened.
    pub audit: Option<Vec<u8>>,
}

/// Designs of one family share their files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Pages,
    /// `occ`.
    Memory,
}

/// Progress callback: the instance, the present activity, the amount done, and the total amount.
pub type ExamineProgress<'a> = &'a mut dyn FnMut(InstanceId, &str, u64, u64);

/// Transactions that some instance remembers as committed.
type Committed = BTreeSet<Gtid>;

/// A note of two-phase commit that is none: damage, or another version wrote it.
const NO_COMMIT: &str = "its commit note is none of this version";
const NO_PREPARE: &str = "its prepare note is none of this version";

/// Why the instance in the folder `dir` does not open, as far as its files show before any data is
/// read. Opening uses the same checks. Changes nothing.
pub fn missing(family: Family, dir: &Path) -> Option<Finding> {
    let files = world::real();
    match family {
        Family::Pages => store::expect_database(&*files, dir).err().map(|fault| Finding::of(&fault, dir)),
        Family::Memory => {
            exec::memory::expect_files(&*files, dir).err().map(|fault| memory::finding(&fault, dir))
        }
    }
}

/// An instance that is being examined.
struct Looked {
    examined: Examined,
    dir: PathBuf,
    opened: Opened,
}

/// An opened store, by family.
enum Opened {
    /// It does not open.
    Nothing,
    Pages(Box<pages::Opened>),
    Memory(memory::Opened),
}

/// A folder of an instance, and the findings about it so far. A folder with damage is not opened.
pub type Folder = (PathBuf, Vec<Finding>);

/// Examines the instances of a deployment; `folders` are in the order of their numbers. Each
/// instance gets page memory of `pool_pages` pages of 8 KiB; rows in main memory take as much
/// memory as they need.
pub fn examine<W: Workload>(
    workload: &W,
    placement: &Placement,
    folders: Vec<Folder>,
    (family, pool_pages): (Family, usize),
    watch: ExamineProgress<'_>,
) -> Vec<Examined> {
    let (mut all, mut committed) = (Vec::new(), Committed::new());
    for (i, (dir, findings)) in folders.into_iter().enumerate() {
        let id = InstanceId(i as u16);
        let mut watch = |what: &str, done, total| watch(id, what, done, total);
        let (report, audit) = (CheckReport::default(), None);
        let opens = !findings.iter().any(Finding::is_damage);
        let examined = Examined { instance: id, findings, report, in_doubt: 0, audit };
        let mut looked = Looked { examined, dir, opened: Opened::Nothing };
        if opens {
            committed.extend(looked.open(workload, (family, pool_pages), &mut watch));
        }
        all.push(looked);
    }
    for looked in &mut all {
        watch(looked.examined.instance, "consistency conditions", 0, 1);
        looked.settle(&committed);
        looked.audit(workload, placement);
    }
    all.into_iter().map(|looked| looked.examined).collect()
}

impl Looked {
    fn found(&mut self, finding: Finding) {
        // Restart meets the same damaged page that the scan of the file has already reported.
        let known = |f: &Finding| f.file == finding.file && f.offset == finding.offset && f.offset.is_some();
        if !self.examined.findings.iter().any(known) {
            self.examined.findings.push(finding);
        }
    }

    /// Opens the instance. Returns the transactions that it remembers as committed.
    fn open<W: Workload>(
        &mut self,
        workload: &W,
        (family, pool_pages): (Family, usize),
        watch: store::CheckProgress<'_>,
    ) -> Vec<Gtid> {
        let files = world::overlay(world::real());
        let (dir, examined) = (&self.dir, &mut self.examined);
        let opened = match family {
            Family::Pages => pages::open(&files, dir, pool_pages, examined, watch)
                .map(|(opened, committed)| (Opened::Pages(Box::new(opened)), committed))
                .map_err(|fault| Finding::of(&fault, dir)),
            Family::Memory => memory::open(&files, dir, workload, examined, watch)
                .map(|(opened, committed)| (Opened::Memory(opened), committed))
                .map_err(|fault| memory::finding(&fault, dir)),
        };
        match opened {
            Ok((opened, committed)) => {
                self.opened = opened;
                committed
            }
            Err(finding) => {
                self.found(finding);
                Vec::new()
            }
        }
    }

    /// Ends the transactions in doubt, as their homes decided.
    fn settle(&mut self, committed: &Committed) {
        let dir = self.dir.clone();
        let findings = match &mut self.opened {
            Opened::Nothing => Vec::new(),
            Opened::Pages(opened) => {
                opened.settle(committed).iter().map(|fault| Finding::of(fault, &dir)).collect()
            }
            Opened::Memory(opened) => opened.settle(committed, &mut self.examined.report, &dir),
        };
        findings.into_iter().for_each(|finding| self.found(finding));
    }

    fn audit<W: Workload>(&mut self, workload: &W, placement: &Placement) {
        let sites = placement.sites_of(self.examined.instance);
        let audit = match std::mem::replace(&mut self.opened, Opened::Nothing) {
            Opened::Nothing => return,
            Opened::Pages(opened) => opened.audit(workload, sites),
            Opened::Memory(opened) => opened.audit(workload, sites),
        };
        match audit {
            Ok(audit) => self.examined.audit = Some(audit),
            Err(what) => {
                let what = format!("the consistency conditions cannot be checked: {what}");
                let finding = damage(&self.dir, None, what, RESTORE);
                self.found(finding);
            }
        }
    }
}

/// The remedy for damage that the log cannot repair.
pub const RESTORE: &str = "restore the database from a backup, or load it again";

/// Damage to `file`, at byte `offset` of it; `remedy` tells the operator how to mend it.
pub fn damage(file: &Path, offset: Option<u64>, what: String, remedy: &str) -> Finding {
    let weight = Weight::Damage;
    Finding { weight, file: file.into(), offset, what, remedy: remedy.into(), table: None }
}

/// The workload's report on the data of an engine that no other thread uses.
fn audit<W: Workload, E: Engine>(
    workload: &W,
    engine: &Arc<E>,
    sites: std::ops::Range<u32>,
) -> Result<Vec<u8>, String> {
    let executor = Rc::new(Executor::new(Arc::new(|| {})));
    let ctx = Rc::new(engine.worker_context(0, Arc::new(|| {})));
    let outcome = Rc::new(RefCell::new(Err("it did not end".to_owned())));
    let task = {
        let (engine, executor, ctx) = (engine.clone(), executor.clone(), ctx.clone());
        let (workload, outcome) = (workload.clone(), outcome.clone());
        async move {
            let mut txn = engine.local_txn(&ctx);
            engine.begin(&ctx, &mut txn, Protection::Exclusive);
            let audit = workload.audit(sites, &mut engine.access(&ctx, &executor, &mut txn)).await;
            let certain = engine.validate(&ctx, &executor, &mut txn, Scope::Home).await;
            let ended = certain.and_then(|()| engine.commit(&ctx, &mut txn));
            let fault = |abort: txn::Abort| {
                engine.fault().unwrap_or_else(|| format!("reading the tables ended with '{}'", abort.name()))
            };
            *outcome.borrow_mut() = match (audit, ended) {
                (Ok(audit), Ok(_)) => postcard::to_stdvec(&audit).map_err(|e| e.to_string()),
                (Err(abort), _) | (_, Err(abort)) => Err(fault(abort)),
            };
        }
    };
    if !executor.spawn(task) {
        return Err("no task is free".into());
    }
    while executor.tasks() > 0 {
        let turned = engine.turn(&ctx);
        if executor.turn(world::now_ns()) == 0 && !turned {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    }
    engine.leave(&ctx);
    outcome.replace(Ok(Vec::new()))
}
