//! Loading and auditing: work of the workers that is not a client's.
//!
//! Both run when nothing else does, so they take no locks. Loading is divided into pieces that the workers take one by
//! one; each piece is a transaction of its own.

use crate::local::Local;
use crate::plan::LoadPlan;
use exec::{Design, Protection};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use txn::Workload;

pub(crate) async fn load<W: Workload, D: Design>(
    local: &Rc<Local<W, D>>,
    plan: &LoadPlan,
) -> Result<(), String> {
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
            let what =
                piece.map_or("the replicated tables".into(), |(s, n)| format!("piece {n} of site {s}"));
            let why = engine.store().fault().map_or(abort.name().to_string(), |fault| fault.to_string());
            return Err(format!("{what}: {why} {}", if undone.is_err() { "(not undone)" } else { "" }));
        }
        let lsn = engine.commit(&mut part).map_err(|a| a.name().to_string())?;
        if piece.is_some() {
            plan.done.fetch_add(1, Ordering::Relaxed);
        }
        replicated = false;
        engine.durable(lsn).await.map_err(|a| a.name().to_string())?;
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
