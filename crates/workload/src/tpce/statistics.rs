//! The figures that a run of TPC-E is compared with.

use super::generator::Card;
use super::trade_lookup::Sought;
use super::{Mix, Tpce, TpceReply, TpceRequest, TradeResultReply, Watched, names, trade_status};
use crate::benchmark::{Counted, Statistics};

/// Each transaction's share of the mix, in per cent.
const MIX: [(&str, f64); 10] = [
    ("broker_volume", 4.9),
    ("customer_position", 13.0),
    ("market_feed", 1.0),
    ("market_watch", 18.0),
    ("security_detail", 14.0),
    ("trade_lookup", 8.0),
    ("trade_order", 10.1),
    ("trade_result", 10.0),
    ("trade_status", 19.0),
    ("trade_update", 2.0),
];
/// The allowed deviation, in points.
const MARGIN: f64 = 0.1;

/// Frames of the definition that a committed transaction has run. The last frame of
/// Customer-Position, Trade-Order and Trade-Result ends the transaction.
fn frames(request: &TpceRequest, reply: &TpceReply) -> u64 {
    match (request, reply) {
        (TpceRequest::CustomerPosition(_), _) => 2,
        // The account, permission of another executor, estimates, insertion, commit.
        (TpceRequest::TradeOrder(r), _) => {
            4 + u64::from(names::person((r.ca / 10) as u64).tax_id != r.executor[2])
        }
        // The trade, holdings, tax of a gain, commission, the trade and its broker, settlement.
        (_, TpceReply::TradeResult(TradeResultReply::Done { tax, .. })) => 5 + u64::from(*tax > 0),
        _ => 1,
    }
}

pub(super) fn observe(
    _: &Tpce,
    request: &TpceRequest,
    reply: Option<&TpceReply>,
    add: &mut dyn FnMut(&'static str, u64),
) {
    if let Some(reply) = reply {
        add("frames", frames(request, reply));
    }
    match (request, reply) {
        (TpceRequest::CustomerPosition(r), _) => {
            add("position_history", r.history.is_some().into());
            add("position_by_tax_id", r.tax_id.is_some().into());
        }
        (TpceRequest::MarketWatch(r), _) => match r.watched {
            Watched::List(_) => add("watch_lists", 1),
            Watched::Account(_) => add("watch_accounts", 1),
            Watched::Industry(..) => add("watch_industries", 1),
        },
        (TpceRequest::TradeLookup(r), _) => add(
            match r.sought {
                Sought::Trades(_) => "lookup_1",
                Sought::OfAccount { .. } => "lookup_2",
                Sought::OfSecurity { .. } => "lookup_3",
                Sought::Holdings { .. } => "lookup_4",
            },
            1,
        ),
        (TpceRequest::TradeUpdate(_), Some(TpceReply::TradeUpdate(reply))) => {
            add("updated", reply.updated.into());
        }
        (TpceRequest::TradeOrder(r), _) => {
            add("orders_on_margin", r.on_margin.into());
            add("orders_lifo", r.lifo.into());
            add("orders_by_name", r.company.is_some().into());
            add("orders_limit", r.is_limit().into());
        }
        (TpceRequest::TradeResult(_), Some(TpceReply::TradeResult(reply))) => {
            add("results", u64::from(matches!(reply, TradeResultReply::Done { .. })));
        }
        (TpceRequest::TradeStatus(_), Some(TpceReply::TradeStatus(reply))) => {
            add("status_full", u64::from(reply.trades.len() == trade_status::TRADES));
        }
        (TpceRequest::MarketFeed(_), Some(TpceReply::MarketFeed(reply))) => {
            add("triggered", reply.triggered.len() as u64);
        }
        _ => {}
    }
}

pub(super) fn statistics(tpce: &Tpce, counted: Counted<'_>) -> Statistics {
    let mut all = Statistics::default();
    let mix = tpce.options.mix;
    let ended = |kind: &str| counted.ended(kind);
    if mix == Mix::Full {
        let in_mix = MIX.iter().map(|(kind, _)| ended(kind)).sum();
        for (kind, share) in MIX {
            let within = (share - MARGIN, share + MARGIN);
            all.share(format!("mix_{kind}_percent"), ended(kind), in_mix, within);
        }
        all.mean("results_per_feed", ended("trade_result"), ended("market_feed"), (9.5, 10.5));
    }
    let orders = ended("trade_order");
    if mix.has_exchange() {
        let committed = orders - counted.rolled_back("trade_order");
        all.mean("results_per_order", counted.observed("results"), committed, (0.98, 1.02));
    }
    if mix.has_exchange() || mix == Mix::Only(Card::TradeOrder) {
        let observed = |name| counted.observed(name);
        all.share("rollbacks_percent", counted.rolled_back("trade_order"), orders, (0.89, 1.09));
        all.share("orders_on_margin_percent", observed("orders_on_margin"), orders, (7.0, 9.0));
        all.share("orders_lifo_percent", observed("orders_lifo"), orders, (33.0, 37.0));
        all.share("orders_by_name_percent", observed("orders_by_name"), orders, (38.0, 42.0));
        let limits = if mix == Mix::Results { (0.0, 0.0) } else { (38.0, 42.0) };
        all.share("orders_limit_percent", observed("orders_limit"), orders, limits);
    }
    let positions = ended("customer_position");
    all.share("position_history_percent", counted.observed("position_history"), positions, (48.0, 52.0));
    let watches = ended("market_watch");
    for (name, share) in [("watch_lists", 60.0), ("watch_accounts", 35.0), ("watch_industries", 5.0)] {
        all.share(format!("{name}_percent"), counted.observed(name), watches, (share - 2.0, share + 2.0));
    }
    let lookups = ended("trade_lookup");
    for (name, share) in [("lookup_1", 30.0), ("lookup_2", 30.0), ("lookup_3", 30.0), ("lookup_4", 10.0)] {
        all.share(format!("{name}_percent"), counted.observed(name), lookups, (share - 2.0, share + 2.0));
    }
    let full = (99.0, 100.0);
    all.share("status_full_percent", counted.observed("status_full"), ended("trade_status"), full);
    all
}
