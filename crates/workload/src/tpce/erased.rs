//! The code that runs transactions, called through pointers: it is compiled here, once for all
//! engines, and not again for each. There is much of it, and a transaction reads some 150 rows, so
//! that the boxes weigh little (`results/building.md`).

use super::requests::{self, TpceReply, TpceRequest};
use super::{Tpce, TpceAudit, check, fixed, load};
use base::SiteId;
use std::ops::Range;
use txn::erased::{AnyAccess, AnyTransaction, ErasedAccess, ErasedTransaction, Local};
use txn::{Abort, StepId};

pub(super) fn run<'a>(
    tpce: &'a Tpce,
    request: &'a TpceRequest,
    txn: &'a mut dyn AnyTransaction,
) -> Local<'a, Result<TpceReply, Abort>> {
    Box::pin(async move { requests::run(tpce, request, &mut ErasedTransaction(txn)).await })
}

pub(super) fn run_step<'a>(
    id: StepId,
    args: &'a [u8],
    access: &'a mut dyn AnyAccess,
    out: &'a mut Vec<u8>,
) -> Local<'a, Result<(), Abort>> {
    Box::pin(async move { requests::run_step(id, args, &mut ErasedAccess(access), out).await })
}

pub(super) fn load<'a>(
    tpce: &'a Tpce,
    site: SiteId,
    part: u32,
    access: &'a mut dyn AnyAccess,
) -> Local<'a, Result<(), Abort>> {
    Box::pin(async move { load::load(tpce, site.0, part, &mut ErasedAccess(access)).await })
}

pub(super) fn load_replicated(access: &mut dyn AnyAccess) -> Local<'_, Result<(), Abort>> {
    Box::pin(async move { fixed::load(&mut ErasedAccess(access)).await })
}

pub(super) fn audit<'a>(
    tpce: &'a Tpce,
    sites: Range<u32>,
    access: &'a mut dyn AnyAccess,
) -> Local<'a, Result<TpceAudit, Abort>> {
    Box::pin(async move { check::audit(tpce, sites, &mut ErasedAccess(access)).await })
}
