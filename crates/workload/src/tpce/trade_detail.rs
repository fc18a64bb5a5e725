//! A trade as Trade-Lookup and Trade-Update return it.

use serde::{Deserialize, Serialize};

/// The rows that a scan of a trade's TRADE_HISTORY may look at: three at most, and one more by
/// which it sees that there are no more.
pub(super) const STEPS_OF_TRADE: usize = 4;

/// A trade with its settlement.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TradeDetail {
    pub t: i64,
    pub ca: i64,
    pub dts: i64,
    pub trade_type: String,
    pub is_cash: bool,
    pub is_market: bool,
    pub symbol: String,
    pub quantity: i64,
    pub bid: i64,
    pub executor: String,
    /// `None` before the trade is completed.
    pub price: Option<i64>,
    /// SE_CASH_TYPE, due date and amount.
    pub settlement: Option<(String, i64, i64)>,
    /// Stamp, amount and name of the cash transaction.
    pub cash: Option<(i64, i64, String)>,
    /// Stamps and states, in the order of time.
    pub history: Vec<(i64, String)>,
}
