//! Requests and replies of all transactions, and their properties by kind.
//!
//! Arguments lie behind a box: requests are moved several times on their way, and the arguments of
//! most are some dozens of bytes.

use super::Tpce;
use super::broker_volume::{
    self, BrokerVolumeReply, BrokerVolumeRequest, FindBroker, SectorIndustries, SectorVolumes,
};
use super::customer_position::{self, CustomerPositionReply, CustomerPositionRequest, ReadPosition};
use super::geometry::Geometry;
use super::maintenance::{self, DataMaintenanceRequest, Maintain};
use super::market_feed::{self, FeedPlace, MarketFeedReply, MarketFeedRequest, OpenOrder, SubmitTrades};
use super::market_steps::{BrokerName, Prices, SecurityFacts, SecurityNames};
use super::market_time::trading_ms;
use super::market_watch::{
    self, FindIndustry, IndustryWorth, ListSecurities, MarketWatchReply, MarketWatchRequest, Watched, Worth,
};
use super::reopen::{self, CancelTrades, DropRequests, OpenTrades, ReopenReply, ReopenRequest};
use super::security_detail::{self, CompanyNames, ReadSecurity, SecurityDetailReply, SecurityDetailRequest};
use super::trade_lookup::{
    self, ChangedHoldings, Changing, Sought, TradeLookupReply, TradeLookupRequest, TradesById,
    TradesOfAccount, TradesOfSecurity,
};
use super::trade_order::{
    self, Estimate, InsertRequest, InsertTrade, OrderAccount, OrderSecurity, TradeOrderReply,
    TradeOrderRequest,
};
use super::trade_result::{self, ChangeHoldings, CreditBroker, Settle, TradeResultReply, TradeResultRequest};
use super::trade_status::{self, ReadStatus, TradeStatusReply, TradeStatusRequest};
use super::trade_texts::Change;
use serde::{Deserialize, Serialize};
use std::pin::pin;
use txn::step::{StepId, Transaction};
use txn::{Abort, Access};

/// The inputs of one transaction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TpceRequest {
    BrokerVolume(Box<BrokerVolumeRequest>),
    CustomerPosition(Box<CustomerPositionRequest>),
    MarketFeed(Box<MarketFeedRequest>),
    MarketWatch(Box<MarketWatchRequest>),
    SecurityDetail(Box<SecurityDetailRequest>),
    TradeLookup(Box<TradeLookupRequest>),
    TradeOrder(Box<TradeOrderRequest>),
    TradeResult(Box<TradeResultRequest>),
    TradeStatus(TradeStatusRequest),
    TradeUpdate(Box<(TradeLookupRequest, Change)>),
    DataMaintenance(Box<DataMaintenanceRequest>),
    TradeCleanup(ReopenRequest),
    /// Reads the open orders of a site, for the exchange.
    Rebuild(ReopenRequest),
}

/// The output that the driver is given.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TpceReply {
    BrokerVolume(BrokerVolumeReply),
    CustomerPosition(Box<CustomerPositionReply>),
    MarketFeed(Box<MarketFeedReply>),
    MarketWatch(MarketWatchReply),
    SecurityDetail(Box<SecurityDetailReply>),
    TradeLookup(Box<TradeLookupReply>),
    TradeOrder(Box<TradeOrderReply>),
    TradeResult(TradeResultReply),
    TradeStatus(Box<TradeStatusReply>),
    TradeUpdate(Box<TradeLookupReply>),
    /// Rows that were changed.
    DataMaintenance(u32),
    TradeCleanup(Box<ReopenReply>),
    Rebuild(Box<ReopenReply>),
}

impl TpceRequest {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            TpceRequest::BrokerVolume(_) => "broker_volume",
            TpceRequest::CustomerPosition(_) => "customer_position",
            TpceRequest::MarketFeed(_) => "market_feed",
            TpceRequest::MarketWatch(_) => "market_watch",
            TpceRequest::SecurityDetail(_) => "security_detail",
            TpceRequest::TradeLookup(_) => "trade_lookup",
            TpceRequest::TradeOrder(_) => "trade_order",
            TpceRequest::TradeResult(_) => "trade_result",
            TpceRequest::TradeStatus(_) => "trade_status",
            TpceRequest::TradeUpdate(_) => "trade_update",
            TpceRequest::DataMaintenance(_) => "data_maintenance",
            TpceRequest::TradeCleanup(_) => "trade_cleanup",
            TpceRequest::Rebuild(_) => "exchange_rebuild",
        }
    }

    pub(super) fn only_reads(&self) -> bool {
        use TpceRequest::*;
        matches!(
            self,
            BrokerVolume(_)
                | CustomerPosition(_)
                | MarketWatch(_)
                | SecurityDetail(_)
                | TradeLookup(_)
                | TradeStatus(_)
                | Rebuild(_)
        )
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    request: &TpceRequest,
    txn: &mut T,
) -> Result<TpceReply, Abort> {
    match request {
        TpceRequest::BrokerVolume(r) => {
            pin!(broker_volume::run(tpce, r, txn)).await.map(TpceReply::BrokerVolume)
        }
        TpceRequest::CustomerPosition(r) => {
            let reply = pin!(customer_position::run(tpce, r, txn)).await?;
            Ok(TpceReply::CustomerPosition(Box::new(reply)))
        }
        TpceRequest::MarketFeed(r) => {
            Ok(TpceReply::MarketFeed(Box::new(pin!(market_feed::run(tpce, r, txn)).await?)))
        }
        TpceRequest::MarketWatch(r) => {
            pin!(market_watch::run(tpce, r, txn)).await.map(TpceReply::MarketWatch)
        }
        TpceRequest::SecurityDetail(r) => {
            Ok(TpceReply::SecurityDetail(Box::new(pin!(security_detail::run(tpce, r, txn)).await?)))
        }
        TpceRequest::TradeLookup(r) => {
            let reply = pin!(trade_lookup::run(tpce, r, &Change::Nothing, txn)).await?;
            Ok(TpceReply::TradeLookup(Box::new(reply)))
        }
        TpceRequest::TradeOrder(r) => {
            Ok(TpceReply::TradeOrder(Box::new(pin!(trade_order::run(tpce, r, txn)).await?)))
        }
        TpceRequest::TradeResult(r) => {
            pin!(trade_result::run(tpce, r, txn)).await.map(TpceReply::TradeResult)
        }
        TpceRequest::TradeStatus(r) => {
            Ok(TpceReply::TradeStatus(Box::new(pin!(trade_status::run(tpce, r, txn)).await?)))
        }
        TpceRequest::TradeUpdate(r) => {
            let reply = pin!(trade_lookup::run(tpce, &r.0, &r.1, txn)).await?;
            Ok(TpceReply::TradeUpdate(Box::new(reply)))
        }
        TpceRequest::DataMaintenance(r) => {
            pin!(maintenance::run(tpce, r, txn)).await.map(TpceReply::DataMaintenance)
        }
        TpceRequest::TradeCleanup(r) => {
            Ok(TpceReply::TradeCleanup(Box::new(pin!(reopen::clean_up(tpce, r, txn)).await?)))
        }
        TpceRequest::Rebuild(r) => {
            Ok(TpceReply::Rebuild(Box::new(pin!(reopen::rebuild(tpce, r, txn)).await?)))
        }
    }
}

pub(super) async fn run_step<A: Access>(
    id: StepId,
    args: &[u8],
    access: &mut A,
    out: &mut Vec<u8>,
) -> Result<(), Abort> {
    txn::run_one_of!(id, args, access, out; Prices, SecurityNames, SecurityFacts, BrokerName, FindBroker, SectorIndustries, SectorVolumes, ReadPosition, FeedPlace, SubmitTrades, ListSecurities, FindIndustry, Worth, IndustryWorth, CompanyNames, ReadSecurity, TradesById, Changing<TradesById>, TradesOfAccount, Changing<TradesOfAccount>, TradesOfSecurity, ChangedHoldings, ReadStatus, OrderAccount, OrderSecurity, Estimate, InsertTrade, InsertRequest, ChangeHoldings, Settle, CreditBroker, Maintain, OpenTrades, CancelTrades, DropRequests)
}

/// The sites that a request touches, its home first, as far as its arguments tell.
pub(super) fn sites(tpce: &Tpce, request: &TpceRequest, visit: &mut dyn FnMut(u32)) {
    let geometry: &Geometry = &tpce.geometry;
    let last = geometry.sites() - 1;
    let of_account = |ca: i64| geometry.site_of_account(ca.max(0)).min(last);
    // The securities of an account or a list may be anywhere in the group's copy of the market.
    let mut with_market = |home: u32| {
        visit(home.min(last));
        geometry.sites_of_group(geometry.group_of(home.min(last))).for_each(&mut *visit);
    };
    let everywhere = |home: u32, visit: &mut dyn FnMut(u32)| {
        visit(home.min(last));
        (0..=last).for_each(visit);
    };
    match request {
        TpceRequest::BrokerVolume(r) => everywhere(r.home, visit),
        TpceRequest::CustomerPosition(r) => with_market(geometry.site_of_customer(r.c.max(0))),
        TpceRequest::MarketFeed(r) => everywhere(r.home, visit),
        TpceRequest::MarketWatch(r) => with_market(match r.watched {
            Watched::List(c) => geometry.site_of_customer(c.max(0)),
            Watched::Account(ca) => of_account(ca),
            Watched::Industry(..) => r.home,
        }),
        TpceRequest::SecurityDetail(r) => with_market(r.home),
        TpceRequest::TradeLookup(r) => sought(tpce, r, visit),
        TpceRequest::TradeUpdate(r) => sought(tpce, &r.0, visit),
        TpceRequest::TradeOrder(r) => {
            let home = of_account(r.ca);
            visit(home);
            visit(geometry.place_of_security(r.security, geometry.group_of(home)).min(last));
            visit(geometry.broker_of(r.ca.max(0)) as u32);
        }
        TpceRequest::TradeResult(r) => {
            let home = Geometry::site_of_trade(r.t.max(0)).min(last);
            visit(home);
            visit(geometry.place_of_security(r.security, geometry.group_of(home)).min(last));
            // The broker is one of the unit's.
            let unit = home / super::geometry::UNIT_SITES * super::geometry::UNIT_SITES;
            (unit..unit + super::geometry::UNIT_SITES).for_each(visit);
        }
        TpceRequest::TradeStatus(r) => with_market(of_account(r.ca)),
        TpceRequest::DataMaintenance(r) => {
            maintenance::sites(tpce, &r.what).unwrap_or_default().into_iter().for_each(visit);
        }
        TpceRequest::TradeCleanup(r) => with_market(r.site),
        TpceRequest::Rebuild(r) => visit(r.site.min(last)),
    }
}

fn sought(tpce: &Tpce, r: &TradeLookupRequest, visit: &mut dyn FnMut(u32)) {
    let last = tpce.geometry.sites() - 1;
    match &r.sought {
        Sought::Trades(trades) => {
            visit(r.home.min(last));
            trades.iter().for_each(|t| visit(Geometry::site_of_trade((*t).max(0)).min(last)));
        }
        Sought::OfAccount { ca, .. } | Sought::Holdings { ca, .. } => {
            visit(tpce.geometry.site_of_account((*ca).max(0)).min(last));
        }
        Sought::OfSecurity { .. } => {
            visit(r.home.min(last));
            (0..=last).for_each(visit);
        }
    }
}

/// Tells the exchange of a commit.
pub(super) fn committed(tpce: &Tpce, request: &TpceRequest, reply: &TpceReply) {
    let exchange = &tpce.exchange;
    match (request, reply) {
        (TpceRequest::TradeOrder(r), TpceReply::TradeOrder(reply)) => {
            let order = OpenOrder {
                t: reply.t,
                security: r.security,
                trade_type: r.trade_type,
                quantity: r.quantity,
                bid: reply.price,
            };
            exchange.ordered(Geometry::site_of_trade(reply.t), order);
        }
        (TpceRequest::TradeResult(r), TpceReply::TradeResult(_)) => exchange.completed(r.t),
        (TpceRequest::MarketFeed(r), TpceReply::MarketFeed(reply)) => {
            exchange.submitted(&reply.triggered, r.home);
            exchange.fed(r.home, r.feed);
        }
        (TpceRequest::Rebuild(r), TpceReply::Rebuild(reply)) => {
            exchange.reach(trading_ms(reply.latest));
            exchange.refill(r.site, &reply.submitted, &reply.pending);
        }
        (TpceRequest::TradeCleanup(_), TpceReply::TradeCleanup(reply)) => {
            exchange.reach(trading_ms(reply.latest));
        }
        _ => {}
    }
}
