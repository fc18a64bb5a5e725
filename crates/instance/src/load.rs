//! Loading and auditing: work of the workers that comes from no client.
//!
//! Both run while nothing else does, so they take no locks. Loading is divided into pieces that the
//! workers take one by one. Into an empty store rows go page by page, logged once, and the last
//! worker builds the trees. Otherwise each piece is a transaction of inserts. In both cases the
//! caller learns whether the load has ended, and a checkpoint makes it durable.

use crate::local::Local;
use crate::plan::{LoadPlan, Way};
use base::SiteId;
use exec::{Engine, Load, Protection, Scope};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use txn::Workload;

/// The data that workers have filled in during a bulk load. The last worker to finish assembles it.
pub(crate) struct Filled<E: Load>(Arc<Mutex<Vec<E::Filled>>>);

impl<E: Load> Default for Filled<E> {
    fn default() -> Self {
        Filled(Arc::default())
    }
}

impl<E: Load> Clone for Filled<E> {
    fn clone(&self) -> Self {
        Filled(Arc::clone(&self.0))
    }
}

impl<E: Load> Filled<E> {
    fn add(&self, filled: E::Filled) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(filled);
    }

    fn take(&self) -> Vec<E::Filled> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One worker's part of a load.
pub(crate) async fn load<W: Workload, E: Load>(
    local: &Rc<Local<W, E>>,
    plan: &LoadPlan,
    filled: &Filled<E>,
) -> Result<(), String> {
    let decide = || if local.shared.engine.is_blank() { Way::Bulk } else { Way::Inserts };
    match plan.way(decide) {
        Way::Bulk => fill(local, plan, filled).await,
        Way::Inserts => insert(local, plan).await,
    }
}

async fn fill<W: Workload, E: Load>(
    local: &Rc<Local<W, E>>,
    plan: &LoadPlan,
    filled: &Filled<E>,
) -> Result<(), String> {
    let (workload, engine) = (local.workload(), &local.shared.engine);
    let mut filling = engine.filling(&local.ctx);
    let failed = |piece, why: &str| {
        let fault = engine.fault().or_else(|| engine.full()).unwrap_or(why.to_owned());
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
    filled.add(engine.filled(filling)?);
    if !plan.is_last() {
        return Ok(());
    }
    engine.assemble(filled.take())
}

fn named(piece: Option<(SiteId, u32)>) -> String {
    piece.map_or("the replicated tables".into(), |(site, n)| format!("piece {n} of site {site}"))
}

async fn insert<W: Workload, E: Engine>(local: &Rc<Local<W, E>>, plan: &LoadPlan) -> Result<(), String> {
    let workload = local.workload();
    let (engine, ctx) = (&local.shared.engine, &local.ctx);
    let mut txn = local.take_txn();
    let mut replicated = local.worker == 0;
    loop {
        let piece = if replicated { None } else { plan.take() };
        if piece.is_none() && !replicated {
            break;
        }
        engine.begin(ctx, &mut txn, Protection::Exclusive);
        let loaded = match piece {
            None => workload.load_replicated(&mut local.access(&mut txn)).await,
            Some((site, number)) => workload.load(site, number, &mut local.access(&mut txn)).await,
        };
        if let Err(abort) = loaded {
            let undone = engine.rollback(ctx, &mut txn);
            let what = named(piece);
            let why = engine.fault().or_else(|| engine.full()).unwrap_or(abort.name().to_string());
            return Err(format!("{what}: {why} {}", if undone.is_err() { "(not undone)" } else { "" }));
        }
        let certain = engine.validate(ctx, &local.executor, &mut txn, Scope::Home).await;
        certain.map_err(|a| a.name().to_string())?;
        let lsn = engine.commit(ctx, &mut txn).map_err(|a| a.name().to_string())?;
        if piece.is_some() {
            plan.done.fetch_add(1, Ordering::Relaxed);
        }
        replicated = false;
        local.durable(lsn).await.map_err(|a| a.name().to_string())?;
        exec::yield_now().await;
    }
    local.spares.give_txn(txn);
    Ok(())
}

/// The workload's report on the data of this instance, encoded.
pub(crate) async fn audit<W: Workload, E: Engine>(local: &Rc<Local<W, E>>) -> Result<Vec<u8>, String> {
    let workload = local.workload();
    let (engine, ctx) = (&local.shared.engine, &local.ctx);
    let mut txn = local.take_txn();
    engine.begin(ctx, &mut txn, Protection::Exclusive);
    let sites = local.shared.config.placement.sites_of(local.me());
    let audit = workload.audit(sites, &mut local.access(&mut txn)).await;
    let ended = engine.commit(ctx, &mut txn);
    local.spares.give_txn(txn);
    let audit = audit.map_err(|a| format!("reading the tables ended with '{}'", a.name()))?;
    ended.map_err(|a| a.name().to_string())?;
    postcard::to_stdvec(&audit).map_err(|e| e.to_string())
}
