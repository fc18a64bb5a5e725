//! The begin of trading after a start: orders that are open in the database go back to the
//! exchange, or Trade-Cleanup cancels them.
//!
//! The exchange keeps nothing on disk. Every order that it can have is a trade with the state SBMT
//! or PNDG, so its queues follow from TRADE, site by site. Initial trades are all completed, so it
//! reads those with later ids.

use super::geometry::Geometry;
use super::market_feed::OpenOrder;
use super::ops::{found, key, security_in};
use super::rows::*;
use super::{Tpce, route, settle};
use serde::{Deserialize, Serialize};
use txn::step::{Each, Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, Range, RowMut};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReopenRequest {
    pub site: u32,
    pub now: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReopenReply {
    /// Submitted, and not completed.
    pub submitted: Vec<OpenOrder>,
    /// Limit orders that wait for their price.
    pub pending: Vec<OpenOrder>,
    /// The stamp of the site's latest order.
    pub latest: i64,
}

/// Reads the open trades of a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenTrades {
    pub site: u32,
    /// The first id that is not of an initial trade.
    pub first: i64,
}

impl OpenTrades {
    fn of(tpce: &Tpce, site: u32) -> OpenTrades {
        OpenTrades { site, first: Geometry::trade_id(site, tpce.geometry.initial + 1) }
    }
}

/// Cancels trades of a site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CancelTrades {
    pub site: u32,
    pub now: i64,
    pub submitted: Vec<i64>,
    pub pending: Vec<i64>,
}

/// Deletes requests at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DropRequests {
    pub site: u32,
    pub trades: Vec<i64>,
}

fn open_order(row: &txn::Row<'_>) -> Result<OpenOrder, Abort> {
    use trade::*;
    let mut trade_type = [0; 3];
    trade_type.copy_from_slice(row.bytes(T_TT_ID));
    let (t, quantity, bid) = (row.int(T_ID), row.int(T_QTY), row.int(T_BID_PRICE));
    Ok(OpenOrder { t, security: security_in(row, T_S_SYMB)?, trade_type, quantity, bid })
}

impl Step for OpenTrades {
    const ID: StepId = 33;
    const EFFECT: Effect = Effect::Reads;
    type Output = ReopenReply;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<ReopenReply, Abort> {
        let (mut submitted, mut pending, mut strange) = (Vec::new(), Vec::new(), Ok(()));
        let (low, end) = (key(self.site, [self.first]), key(self.site, []).prefix_end());
        let range = Range { low: Some(&low), high: end.as_deref() };
        let visit = |_: &[u8], row: txn::Row<'_>| {
            let list = match row.bytes(trade::T_ST_ID) {
                b"SBMT" => &mut submitted,
                b"PNDG" => &mut pending,
                _ => return Flow::More,
            };
            match open_order(&row) {
                Ok(order) => list.push(order),
                Err(abort) => strange = Err(abort),
            }
            Flow::More
        };
        access.scan(TRADE, range, Direction::Forward, visit).await?;
        strange?;
        let read = |row: txn::Row<'_>| row.int(trade_sequence::TQ_DTS);
        let latest = found(access.read(TRADE_SEQUENCE, &key(self.site, []), read).await?)?;
        Ok(ReopenReply { submitted, pending, latest })
    }
}

impl Step for CancelTrades {
    const ID: StepId = 34;
    type Output = ();

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        let pending = self.pending.iter().map(|t| (*t, true));
        for (t, pending) in pending.chain(self.submitted.iter().map(|t| (*t, false))) {
            if pending {
                settle::history(access, t, "SBMT", self.now).await?;
            }
            let cancel = |row: &mut RowMut<'_>| {
                row.set_text(trade::T_ST_ID, "CNCL");
                row.set_int(trade::T_DTS, self.now);
            };
            found(access.update(TRADE, &key(self.site, [t]), cancel).await?)?;
            settle::history(access, t, "CNCL", self.now).await?;
        }
        Ok(())
    }
}

impl Step for DropRequests {
    const ID: StepId = 35;
    type Output = ();

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        for t in &self.trades {
            if !access.delete(TRADE_REQUEST, &key(self.site, [*t])).await? {
                return Err(Abort::BadRequest);
            }
        }
        Ok(())
    }
}

/// The open orders of a site.
pub(super) async fn rebuild<T: Transaction>(
    tpce: &Tpce,
    r: &ReopenRequest,
    txn: &mut T,
) -> Result<ReopenReply, Abort> {
    if r.site >= tpce.geometry.sites() {
        return Err(Abort::BadRequest);
    }
    txn.last(OpenTrades::of(tpce, r.site)).await
}

/// Trade-Cleanup for the trades of one site; returns the cancelled orders.
pub(super) async fn clean_up<T: Transaction>(
    tpce: &Tpce,
    r: &ReopenRequest,
    txn: &mut T,
) -> Result<ReopenReply, Abort> {
    let geometry: &Geometry = &tpce.geometry;
    if r.site >= geometry.sites() {
        return Err(Abort::BadRequest);
    }
    let open = txn.all(OpenTrades::of(tpce, r.site)).await?;
    let group = geometry.group_of(r.site);
    let mut drops: Vec<DropRequests> = Vec::new();
    for order in &open.pending {
        let site = geometry.place_of_security(order.security, group);
        match drops.iter_mut().find(|drop| drop.site == site) {
            Some(drop) => drop.trades.push(order.t),
            None => drops.push(DropRequests { site, trades: vec![order.t] }),
        }
    }
    drops.sort_by_key(|drop| drop.site);
    let ids = |orders: &[OpenOrder]| orders.iter().map(|order| order.t).collect();
    let cancel = CancelTrades {
        site: r.site,
        now: r.now,
        submitted: ids(&open.submitted),
        pending: ids(&open.pending),
    };
    txn.last((cancel, Each::<DropRequests>(drops.into()))).await?;
    Ok(open)
}
