//! Market-Feed: twenty entries of the ticker set the prices of securities, in every copy of the
//! market, and submit the limit orders that wait for them.
//!
//! ```text
//! {U LAST_TRADE (symbol) in every copy; D TRADE_REQUEST (symbol) in the copy of the feed's group}
//!   -> {U TRADE (t); I TRADE_HISTORY (t)} of the orders that the new prices trigger -> commit
//! ```
//!
//! The orders of another group are triggered by feeds of that group. The feed is one transaction.

use super::geometry::{Geometry, symbol};
use super::market_time::Trigger;
use super::ops::{found, key, symbol_key};
use super::rows::*;
use super::{Tpce, route, settle};
use serde::{Deserialize, Serialize};
use txn::step::{Each, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, Range, RowMut};

/// An entry of the ticker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ticker {
    pub security: u32,
    /// In cents.
    pub price: i64,
    pub quantity: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MarketFeedRequest {
    pub home: u32,
    /// The number of the feed at its exchange.
    pub feed: u64,
    pub now: i64,
    pub entries: Vec<Ticker>,
}

/// An order at the market.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenOrder {
    pub t: i64,
    pub security: u32,
    pub trade_type: [u8; 3],
    pub quantity: i64,
    /// The limit, or the market price at which it was entered; in cents.
    pub bid: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MarketFeedReply {
    /// Rows of LAST_TRADE that were updated in one copy, each as often as the ticker names it.
    pub updated: u32,
    /// Limit orders that were submitted.
    pub triggered: Vec<OpenOrder>,
}

/// The entries for the securities of one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FeedPlace {
    pub site: u32,
    pub now: i64,
    pub entries: Vec<Ticker>,
    /// Whether orders here may be triggered.
    pub triggers: bool,
}

/// Marks trades of one site as submitted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SubmitTrades {
    pub site: u32,
    pub now: i64,
    pub trades: Vec<i64>,
}

impl Step for FeedPlace {
    const ID: StepId = 9;
    type Output = Vec<OpenOrder>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<OpenOrder>, Abort> {
        let mut triggered = Vec::new();
        for entry in &self.entries {
            let symbol = symbol(entry.security);
            let key = symbol_key(self.site, &symbol);
            let feed = |row: &mut RowMut<'_>| {
                use last_trade::*;
                row.set_int(LT_PRICE, entry.price);
                row.set_int(LT_VOL, row.int(LT_VOL) + entry.quantity);
                row.set_int(LT_DTS, self.now);
            };
            found(access.update(LAST_TRADE, &key, feed).await?)?;
            if self.triggers {
                trigger(access, self.site, entry, &mut triggered).await?;
            }
        }
        Ok(triggered)
    }
}

/// Deletes the requests that an entry triggers.
async fn trigger<A: Access>(
    access: &mut A,
    site: u32,
    entry: &Ticker,
    triggered: &mut Vec<OpenOrder>,
) -> Result<(), Abort> {
    use trade_request::*;
    let prefix = symbol_key(site, &symbol(entry.security));
    let end = prefix.prefix_end();
    let range = Range { low: Some(&prefix), high: end.as_deref() };
    let first = triggered.len();
    access
        .scan_for_update(TRADE_REQUEST_SYMBOL, range, Direction::Forward, |_, row| {
            let mut trade_type = [0; 3];
            trade_type.copy_from_slice(row.bytes(TR_TT_ID));
            let bid = row.int(TR_BID_PRICE);
            if Trigger::of(&trade_type).is_some_and(|trigger| trigger.holds(entry.price, bid)) {
                let (t, quantity, security) = (row.int(TR_T_ID), row.int(TR_QTY), entry.security);
                triggered.push(OpenOrder { t, security, trade_type, quantity, bid });
            }
            Flow::More
        })
        .await?;
    for order in &triggered[first..] {
        access.delete(TRADE_REQUEST, &key(site, [order.t])).await?;
    }
    Ok(())
}

impl Step for SubmitTrades {
    const ID: StepId = 10;
    type Output = ();

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        for t in &self.trades {
            let submit = |row: &mut RowMut<'_>| {
                row.set_text(trade::T_ST_ID, "SBMT");
                row.set_int(trade::T_DTS, self.now);
            };
            found(access.update(TRADE, &key(self.site, [*t]), submit).await?)?;
            settle::history(access, *t, "SBMT", self.now).await?;
        }
        Ok(())
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &MarketFeedRequest,
    txn: &mut T,
) -> Result<MarketFeedReply, Abort> {
    let geometry = &tpce.geometry;
    let wrong = |e: &Ticker| e.security >= geometry.securities() || !PRICES.contains(&e.price);
    if r.entries.iter().any(wrong) || r.home >= geometry.sites() {
        return Err(Abort::BadRequest);
    }
    // In one order of securities: two feeds that meet do not wait for each other in a circle.
    let mut entries = r.entries.clone();
    entries.sort_by_key(|entry| entry.security);
    let own = geometry.group_of(r.home);
    let mut steps: Vec<FeedPlace> = Vec::new();
    for group in 0..geometry.groups() {
        let first = steps.len();
        for entry in &entries {
            let site = geometry.place_of_security(entry.security, group);
            match steps[first..].iter_mut().find(|step| step.site == site) {
                Some(step) => step.entries.push(*entry),
                None => {
                    let triggers = group == own;
                    steps.push(FeedPlace { site, now: r.now, entries: vec![*entry], triggers });
                }
            }
        }
        steps[first..].sort_by_key(|step| step.site);
    }
    let fed = txn.all(Each::<FeedPlace>(steps.into())).await?;
    let triggered: Vec<OpenOrder> = fed.into_iter().flatten().collect();
    let mut trades: Vec<i64> = triggered.iter().map(|order| order.t).collect();
    trades.sort_unstable();
    if !trades.is_empty() {
        let of_site = trades.chunk_by(|a, b| Geometry::site_of_trade(*a) == Geometry::site_of_trade(*b));
        let step = |trades: &[i64]| SubmitTrades {
            site: Geometry::site_of_trade(trades[0]),
            now: r.now,
            trades: trades.to_vec(),
        };
        txn.last(Each::<SubmitTrades>(of_site.map(step).collect())).await?;
    }
    Ok(MarketFeedReply { updated: entries.len() as u32, triggered })
}
