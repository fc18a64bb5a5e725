//! Loading and auditing: work of the workers that is not a client's.
//!
//! Both run when nothing else does, so they take no locks. Loading is divided into pieces that the workers take one by
//! one. Into an empty store rows go page by page, logged once, and the last worker builds the trees; else each piece is a
//! transaction of inserts. Either way whoever ordered the load knows whether it has ended, and a checkpoint makes it durable.

use crate::local::Local;
use crate::plan::{LoadPlan, Way};
use base::{SiteId, TableId};
use exec::{Design, Protection};
use latch::LatchPolicy;
use pages::Stop;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use store::{Loader, Store, Table};
use txn::{Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut, Workload};

pub(crate) async fn load<W: Workload, D: Design>(
    local: &Rc<Local<W, D>>,
    plan: &LoadPlan,
) -> Result<(), String> {
    let store = local.shared.engine.store();
    let decide = || if matches!(store.is_blank::<D::Latch>(), Ok(true)) { Way::Bulk } else { Way::Inserts };
    match plan.way(decide) {
        Way::Bulk => fill(local, plan).await,
        Way::Inserts => insert(local, plan).await,
    }
}

/// The rows of an empty store on their way in. Takes new rows only: nothing can be read before all are there.
struct Filling<'s, L> {
    store: &'s Store,
    loader: Loader<'s>,
    policy: PhantomData<L>,
}

impl<'s, L: LatchPolicy> Filling<'s, L> {
    fn add(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<(), Abort> {
        let table: &'s Table = self.store.table(table).ok_or(Abort::BadRequest)?;
        self.loader.add::<L>(table, key, row).map_err(|stop| match stop {
            Stop::NoSpace => Abort::NoSpace,
            _ => Abort::Fault,
        })
    }
}

impl<L: LatchPolicy> Access for Filling<'_, L> {
    async fn read<R>(
        &mut self,
        _: TableId,
        _: &[u8],
        _: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        Err(Abort::BadRequest)
    }

    async fn update<R>(
        &mut self,
        _: TableId,
        _: &[u8],
        _: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        Err(Abort::BadRequest)
    }

    /// A key that is there twice is found when the tree is built.
    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        self.add(table, Some(key), row).map(|()| Inserted::Done)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        self.add(table, None, row)
    }

    async fn delete(&mut self, _: TableId, _: &[u8]) -> Result<bool, Abort> {
        Err(Abort::BadRequest)
    }

    async fn scan(
        &mut self,
        _: TableId,
        _: Range<'_>,
        _: Direction,
        _: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        Err(Abort::BadRequest)
    }
}

async fn fill<W: Workload, D: Design>(local: &Rc<Local<W, D>>, plan: &LoadPlan) -> Result<(), String> {
    let (workload, store) = (local.workload(), local.shared.engine.store());
    let mut filling = Filling::<D::Latch> { store, loader: store.loader(), policy: PhantomData };
    let failed = |piece, why: &str| {
        let fault = store.fault().map_or(why.to_owned(), |fault| fault.to_string());
        format!("{}: {fault}", named(piece))
    };
    if local.worker == 0 {
        let loaded = workload.load_replicated(&mut filling).await;
        loaded.map_err(|abort| failed(None, abort.name()))?;
    }
    while let Some((site, number)) = plan.take() {
        let loaded = workload.load(site, number, &mut filling).await;
        loaded.map_err(|abort| failed(Some((site, number)), abort.name()))?;
        plan.done.fetch_add(1, Ordering::Relaxed);
        exec::yield_now().await;
    }
    let loaded = filling.loader.finish::<D::Latch>().map_err(|stop| stop.to_string())?;
    match plan.collect(loaded) {
        Some(all) => store.build_trees::<D::Latch>(all).map_err(|stop| format!("the indexes: {stop}")),
        None => Ok(()),
    }
}

fn named(piece: Option<(SiteId, u32)>) -> String {
    piece.map_or("the replicated tables".into(), |(site, n)| format!("piece {n} of site {site}"))
}

async fn insert<W: Workload, D: Design>(local: &Rc<Local<W, D>>, plan: &LoadPlan) -> Result<(), String> {
    let workload = local.workload();
    let engine = &local.shared.engine;
    let mut part = local.take_part();
    let mut replicated = local.worker == 0;
    loop {
        let piece = if replicated { None } else { plan.take() };
        if piece.is_none() && !replicated {
            break;
        }
        engine.begin(&mut part, local.worker, Protection::Quiet);
        let loaded = match piece {
            None => workload.load_replicated(&mut local.here(&mut part)).await,
            Some((site, number)) => workload.load(site, number, &mut local.here(&mut part)).await,
        };
        if let Err(abort) = loaded {
            let undone = engine.rollback(&mut part);
            let what = named(piece);
            let why = engine.store().fault().map_or(abort.name().to_string(), |fault| fault.to_string());
            return Err(format!("{what}: {why} {}", if undone.is_err() { "(not undone)" } else { "" }));
        }
        let lsn = engine.commit(&mut part).map_err(|a| a.name().to_string())?;
        if piece.is_some() {
            plan.done.fetch_add(1, Ordering::Relaxed);
        }
        replicated = false;
        local.durable(lsn).await.map_err(|a| a.name().to_string())?;
        exec::yield_now().await;
    }
    local.give_part(part);
    Ok(())
}

pub(crate) async fn audit<W: Workload, D: Design>(local: &Rc<Local<W, D>>) -> Result<Vec<u8>, String> {
    let workload = local.workload();
    let engine = &local.shared.engine;
    let mut part = local.take_part();
    engine.begin(&mut part, local.worker, Protection::Quiet);
    let sites = local.shared.config.placement.sites_of(local.me());
    let audit = workload.audit(sites, &mut local.here(&mut part)).await;
    let ended = engine.commit(&mut part);
    local.give_part(part);
    let audit = audit.map_err(|a| format!("reading the tables ended with '{}'", a.name()))?;
    ended.map_err(|a| a.name().to_string())?;
    postcard::to_stdvec(&audit).map_err(|e| e.to_string())
}
