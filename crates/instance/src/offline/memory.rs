//! An instance of `occ`. Opening reads every block of its files and reports damage; then rows and
//! indexes are compared.

use super::{Committed, Examined, NO_COMMIT, NO_PREPARE, RESTORE, audit, damage};
use base::Gtid;
use exec::{DesignKind, Engine, EngineFault, EngineOptions, MemoryEngine, Setup, SiteRange};
use locks::LockTuning;
use std::path::Path;
use std::sync::Arc;
use store::{CheckReport, Finding, NoteId, TableReport};
use twophase::{CommitNote, PrepareNote};
use txn::{TableKind, Workload};
use wal::Durability;
use world::Files;

/// Segment size of the log that restart itself writes during the examination: small, since it is in
/// memory.
const SEGMENT_BYTES: u64 = 1 << 20;
const PAGE: u64 = 8192;
/// Upper bound for the memory of rows, index and old versions, per byte of the files. A row of
/// eight bytes takes at least 24 bytes in the files, and sixty more than its own size in memory.
const MEMORY_PER_BYTE: u64 = 8;
/// Added to that bound, for databases with few rows.
const LEAST_MEMORY: u64 = 256 << 20;

/// An instance that opened.
pub(super) struct Opened {
    engine: Arc<MemoryEngine>,
    in_doubt: Vec<(Vec<u8>, <MemoryEngine as Engine>::InDoubt)>,
}

/// Opens an instance in `dir`. Returns it with the transactions that it remembers as committed.
pub(super) fn open<W: Workload>(
    files: &Arc<dyn Files>,
    dir: &Path,
    workload: &W,
    examined: &mut Examined,
    watch: store::CheckProgress<'_>,
) -> Result<(Opened, Vec<Gtid>), EngineFault> {
    watch("files and restart", 0, 1);
    // Opening creates missing files: a folder without a store would pass for an empty store.
    exec::memory::expect_files(&**files, dir)?;
    let names = files.list(dir)?;
    let sizes =
        names.iter().filter_map(|name| files.open(&dir.join(name), world::Open::Read).ok()?.len().ok());
    let memory = sizes.sum::<u64>() * MEMORY_PER_BYTE + LEAST_MEMORY;
    let setup = Setup {
        design: DesignKind::Occ,
        dir: dir.to_owned(),
        durability: Durability::Sync,
        pool_pages: (memory / PAGE) as usize,
        workers: 1,
        options: EngineOptions {
            locks: LockTuning::PLAIN,
            lock_timeout_ms: 1_000,
            ..EngineOptions::of(DesignKind::Occ)
        },
        schema: workload.schema(),
        site_range: SiteRange::whole(),
    };
    let small = MemoryEngine::open_on(files.clone(), &setup, |log| log.segment_bytes = SEGMENT_BYTES);
    let (engine, recovered) = small?;
    examined.in_doubt = recovered.in_doubt.len();
    let mut committed = Vec::new();
    for (NoteId(number), note) in &recovered.notes {
        match postcard::from_bytes::<CommitNote>(note) {
            Ok(note) => committed.push(note.gtid),
            Err(_) => {
                let what = format!("note {} of the log is malformed ({NO_COMMIT})", number.0);
                examined.findings.push(damage(dir, None, what, RESTORE));
            }
        }
    }
    Ok((Opened { engine: Arc::new(engine), in_doubt: recovered.in_doubt }, committed))
}

/// A fault at opening, as a finding.
pub(super) fn finding(fault: &EngineFault, dir: &Path) -> Finding {
    let (file, offset) = fault.place().unwrap_or((dir, None));
    let text = fault.to_string();
    let text = text.strip_prefix("the main-memory store: ").unwrap_or(&text);
    // The finding holds the place apart from the text, and the remedy follows the last semicolon.
    let text = text.strip_prefix(&format!("{}: ", file.display())).unwrap_or(text);
    let (what, remedy) = text.split_once("; ").unwrap_or((text, RESTORE));
    damage(file, offset, what.into(), remedy)
}

impl Opened {
    /// Ends the transactions in doubt, as their homes decided, and then compares rows and indexes.
    pub(super) fn settle(
        &mut self,
        committed: &Committed,
        report: &mut CheckReport,
        dir: &Path,
    ) -> Vec<Finding> {
        let ctx = self.engine.worker_context(0, Arc::new(|| {}));
        let mut findings = Vec::new();
        for (note, in_doubt) in self.in_doubt.drain(..) {
            let mut txn = self.engine.adopt(&ctx, in_doubt);
            let note: Option<PrepareNote> = postcard::from_bytes(&note).ok();
            if note.is_none() {
                let what = format!("a prepared transaction of the log is malformed ({NO_PREPARE})");
                findings.push(damage(dir, None, what, RESTORE));
            }
            let ended = if note.is_some_and(|note| committed.contains(&note.gtid)) {
                self.engine.commit(&ctx, &mut txn).map(drop)
            } else {
                self.engine.rollback(&ctx, &mut txn)
            };
            if ended.is_err() {
                let what = self.engine.fault().unwrap_or("a transaction in doubt could not be ended".into());
                findings.push(damage(dir, None, what, RESTORE));
            }
        }
        drop(ctx);
        let checked = self.engine.check(&mut |_, _, _| {});
        report.tables = checked.tables.into_iter().map(table_report).collect();
        let wrong = checked.wrong.into_iter();
        findings.extend(wrong.map(|(table, what)| {
            let name = report.tables.iter().find(|t| t.id == table).map_or("", |t| &t.name);
            Finding { table: Some(table), ..damage(dir, None, format!("table {name}: {what}"), RESTORE) }
        }));
        findings
    }

    /// The workload's report on the data.
    pub(super) fn audit<W: Workload>(
        self,
        workload: &W,
        sites: std::ops::Range<u32>,
    ) -> Result<Vec<u8>, String> {
        audit(workload, &self.engine, sites)
    }
}

fn table_report(count: exec::memory::TableCount) -> TableReport {
    let mut report = TableReport {
        id: count.id,
        name: count.name,
        kind: TableKind::Heap,
        heap: Default::default(),
        trees: vec![],
        form: exec::HeapForm::default(),
        undivided: 0,
    };
    (report.heap.rows, report.heap.row_bytes) = (count.rows, count.bytes);
    report
}
