//! Notes of two-phase commit that are none: a check of the files names them, and an instance does
//! not start.

use crate::support::{Deployment, Via, any, config, private_dir};
use base::TableId;
use exec::{
    Conventional, DesignKind, Engine, EngineOptions, Executor, LockPoint, MemoryEngine, PageEngine,
    Protection, Scope, Setup, SiteRange,
};
use instance::Instance;
use instance::offline::{Family, examine};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use txn::{Access, Placement, RowBuf, Workload};
use wal::Durability;
use workload::AnyWorkload;
use workload::tpcb::{Tpcb, TpcbOptions};

const HISTORY: TableId = TableId(4);
/// Ends in the middle of a number.
const NO_NOTE: &[u8] = &[0xff, 0xff];

/// The outcome of work that waits for pages at most.
fn outcome<E: Engine, T>(engine: &Arc<E>, ctx: &E::WorkerContext, doing: impl Future<Output = T>) -> T {
    let mut doing = pin!(doing);
    loop {
        match doing.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => return done,
            Poll::Pending => drop(engine.turn(ctx)),
        }
    }
}

/// Leaves a commit note and a prepare note that are none in the files of an instance.
fn leave_notes<E: Engine>(workload: &AnyWorkload, dir: &Path, design: DesignKind) {
    let schema = workload.schema();
    let mut row = RowBuf::new(schema.table(HISTORY).unwrap());
    row.start();
    let row = row.bytes().to_vec();
    let setup = Setup {
        design,
        dir: dir.to_owned(),
        durability: Durability::Sync,
        pool_pages: 4096,
        workers: 1,
        options: EngineOptions::of(design),
        schema,
        site_range: SiteRange::whole(),
    };
    let (engine, _) = E::open(&setup).unwrap();
    let (engine, executor) = (Arc::new(engine), Executor::new(Arc::new(|| {})));
    let ctx = engine.worker_context(0, Arc::new(|| {}));
    let begun = || {
        let mut txn = engine.local_txn(&ctx);
        engine.begin(&ctx, &mut txn, Protection::Locks);
        let mut access = engine.access(&ctx, &executor, &mut txn);
        outcome(&engine, &ctx, access.append(HISTORY, &row)).unwrap();
        drop(access);
        outcome(&engine, &ctx, engine.validate(&ctx, &executor, &mut txn, Scope::Distributed)).unwrap();
        txn
    };
    engine.commit_with_note(&ctx, &mut begun(), NO_NOTE).unwrap();
    let mut prepared = begun();
    engine.prepare(&ctx, &mut prepared, NO_NOTE, LockPoint::Reached).unwrap();
    engine.abandon(&ctx, &mut prepared);
    engine.leave(&ctx);
}

fn malformed_notes_are_told<E: Engine>(design: DesignKind, family: Family) {
    let room = private_dir();
    let workload = any(Tpcb::new(TpcbOptions { accounts: 100, ..TpcbOptions::new(1) }));
    let config = config(&workload, room.path(), design, Durability::Sync, (0, 1), 1, Via::Ring);
    let deployment = Deployment::start(workload.clone(), vec![config.clone()]);
    deployment.load();
    deployment.stop();
    leave_notes::<E>(&workload, &config.dir, design);
    let (placement, folders) = (Placement::even(1, 1), vec![(config.dir.clone(), Vec::new())]);
    let all = examine(&workload, &placement, folders, (family, 2048), &mut |_, _, _, _| {});
    for note in ["commit note", "prepare note"] {
        let told = all[0].findings.iter().find(|finding| finding.what.contains(note));
        let told = told.unwrap_or_else(|| panic!("{design}: no {note} in {:?}", all[0].findings));
        assert!(told.is_damage() && told.file.starts_with(&config.dir), "{told:?}");
    }
    let refused = Instance::start(workload, config).map(drop).unwrap_err().to_string();
    assert!(refused.contains("note") && refused.contains("damaged"), "{refused}");
}

#[test]
fn malformed_notes_in_pages_are_told() {
    malformed_notes_are_told::<PageEngine<Conventional>>(DesignKind::Conventional, Family::Pages);
}

#[test]
fn malformed_notes_in_main_memory_are_told() {
    malformed_notes_are_told::<MemoryEngine>(DesignKind::Occ, Family::Memory);
}
