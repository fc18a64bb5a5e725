//! The figures that a run of TPC-C is compared with: the shares that clause 5.2.3 prescribes for
//! the mix, and clauses 2.4.1 to 2.6.1 for the inputs, with the margins that an audit allows; and
//! the number of customers with a requested name.

use super::{Mix, Tpcc, TpccReply, TpccRequest, Who};
use crate::benchmark::{Counted, Statistics};

/// Ranges in per cent: NewOrders that roll back, lines that another warehouse supplies, Payments by
/// customers of another warehouse, customers requested by name; and the number of lines per order.
const ROLLBACKS: (f64, f64) = (0.9, 1.1);
const REMOTE_LINES: (f64, f64) = (0.95, 1.05);
const REMOTE_PAYMENTS: (f64, f64) = (14.0, 16.0);
const BY_NAME: (f64, f64) = (57.0, 63.0);
const LINES: (f64, f64) = (9.5, 10.5);
/// The range over all allowed differences between the constants of loading and running.
const BEARERS: (f64, f64) = (1.8, 3.9);
/// The allowed deviation of each transaction's share of the mix, in points.
const MIX_MARGIN: f64 = 0.5;

fn who(who: Who, bearers: Option<u32>, add: &mut dyn FnMut(&'static str, u64)) {
    add("customers", 1);
    if let Who::Name(_) = who {
        add("customers_by_name", 1);
        add("name_bearers", bearers.unwrap_or(0).into());
    }
}

pub(super) fn observe(
    request: &TpccRequest,
    reply: Option<&TpccReply>,
    add: &mut dyn FnMut(&'static str, u64),
) {
    match request {
        TpccRequest::NewOrder(r) => {
            add("lines", r.lines.len() as u64);
            add("remote_lines", r.lines.iter().filter(|line| line.supply != r.w).count() as u64);
        }
        TpccRequest::Payment(r) => {
            add("remote_payments", u64::from(r.customer_w != r.w));
            let bearers = match reply {
                Some(TpccReply::Payment(reply)) => Some(reply.bearers),
                _ => None,
            };
            who(r.who, bearers, add);
        }
        TpccRequest::OrderStatus(r) => {
            let bearers = match reply {
                Some(TpccReply::OrderStatus(reply)) => Some(reply.bearers),
                _ => None,
            };
            who(r.who, bearers, add);
        }
        TpccRequest::Delivery(_) | TpccRequest::StockLevel(_) => {}
    }
}

pub(super) fn statistics(tpcc: &Tpcc, counted: Counted<'_>) -> Statistics {
    let (options, mut all) = (tpcc.options(), Statistics::default());
    for (kind, share) in options.mix.shares() {
        let margin = if share == 100.0 { 0.0 } else { MIX_MARGIN };
        let within = (share - margin, share + margin);
        if share > 0.0 {
            all.share(format!("mix_{kind}_percent"), counted.ended(kind), counted.ended_in_all(), within);
        }
    }
    let (orders, payments) = (counted.ended("new_order"), counted.ended("payment"));
    let (lines, customers) = (counted.observed("lines"), counted.observed("customers"));
    all.share("rollbacks_percent", counted.rolled_back("new_order"), orders, ROLLBACKS);
    all.mean("lines_per_order", lines, orders, LINES);
    if options.multisite.is_none() && options.warehouses > 1 {
        all.share("remote_lines_percent", counted.observed("remote_lines"), lines, REMOTE_LINES);
        all.share("remote_payments_percent", counted.observed("remote_payments"), payments, REMOTE_PAYMENTS);
    }
    let by_name = counted.observed("customers_by_name");
    all.share("by_name_percent", by_name, customers, BY_NAME);
    if options.customers == super::TpccOptions::new(1).customers {
        all.mean("matches_per_name", counted.observed("name_bearers"), by_name, BEARERS);
    }
    all
}

impl Mix {
    /// Each transaction with its share in per cent.
    pub(super) fn shares(self) -> [(&'static str, f64); 5] {
        let shares = match self {
            Mix::Full => [45.0, 43.0, 4.0, 4.0, 4.0],
            Mix::Payment => [0.0, 100.0, 0.0, 0.0, 0.0],
            Mix::NewOrder => [100.0, 0.0, 0.0, 0.0, 0.0],
            Mix::Prime => [50.0, 50.0, 0.0, 0.0, 0.0],
        };
        let kinds = ["new_order", "payment", "order_status", "delivery", "stock_level"];
        std::array::from_fn(|i| (kinds[i], shares[i]))
    }
}
