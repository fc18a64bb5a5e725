//! The books of one instance: its trades and holdings as the consistency conditions need them,
//! and the conditions that an instance can decide alone.

use super::Tpce;
use super::geometry::{Geometry, security_of};
use super::people;
use super::rows::*;
use crate::findings::Findings;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use txn::Row;

/// States of a trade, as bits of its history.
const PNDG: u8 = 1;
const SBMT: u8 = 2;
const CMPT: u8 = 4;
const CNCL: u8 = 8;

fn state(text: &[u8]) -> u8 {
    match text {
        b"PNDG" => PNDG,
        b"SBMT" => SBMT,
        b"CMPT" => CMPT,
        b"CNCL" => CNCL,
        _ => 0,
    }
}

/// The findings of one instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TpceAudit {
    pub sites: Range<u32>,
    /// Trades since loading.
    pub orders: u64,
    /// Trades with the state SBMT.
    pub submitted: u64,
    /// Trades with the state PNDG, with the brokers of their accounts.
    pub pending: Vec<(i64, i64)>,
    /// Rows of TRADE_REQUEST: trades and brokers.
    pub requests: Vec<(i64, i64)>,
    /// By broker: B_NUM_TRADES and B_COMM_TOTAL, if the broker's row is here; number and
    /// commissions of the completed trades that are here.
    pub brokers: Vec<(i64, [i64; 4])>,
    /// By copy of the market: the sum of digests of the rows of LAST_TRADE that are here.
    pub feeds: Vec<(u32, u64)>,
    /// Rows by table, of the tables that are not fixed.
    pub rows: Vec<(u16, u64)>,
    /// Violations, one per line.
    pub damage: Vec<String>,
}

/// A trade, with the rows of other tables about it.
struct Trade {
    t: i64,
    ca: i64,
    quantity: i64,
    state: u8,
    is_limit: bool,
    is_cash: bool,
    commission: i64,
    history: u8,
    /// The change of holdings.
    moved: i64,
    settled: Option<i64>,
    paid: Option<i64>,
}

pub(super) struct Books<'t> {
    tpce: &'t Tpce,
    sites: Range<u32>,
    damage: Findings,
    /// In the order of their ids.
    trades: Vec<Trade>,
    brokers: BTreeMap<i64, [i64; 4]>,
    holdings: BTreeMap<i64, i64>,
    held: BTreeMap<(i64, u32), [i64; 2]>,
    /// The holding that is being read: its id, and its quantities before and after each change.
    chain: (i64, Vec<(i64, i64)>),
    balances: i64,
    requests: Vec<(i64, i64)>,
    feeds: BTreeMap<u32, u64>,
    sequences: Vec<(u32, i64)>,
}

impl<'t> Books<'t> {
    pub fn new(tpce: &'t Tpce, sites: Range<u32>) -> Books<'t> {
        Books {
            tpce,
            sites,
            damage: Findings::default(),
            trades: Vec::new(),
            brokers: BTreeMap::new(),
            holdings: BTreeMap::new(),
            held: BTreeMap::new(),
            chain: (-1, Vec::new()),
            balances: 0,
            requests: Vec::new(),
            feeds: BTreeMap::new(),
            sequences: Vec::new(),
        }
    }

    fn find(&mut self, table: &str, t: i64) -> Option<&mut Trade> {
        match self.trades.binary_search_by_key(&t, |trade| trade.t) {
            Ok(at) => Some(&mut self.trades[at]),
            Err(_) => {
                self.damage.add(|| format!("{table}: a row of trade {t}, which is not here"));
                None
            }
        }
    }

    pub fn trade(&mut self, row: &Row<'_>) {
        use trade::*;
        let sell = matches!(row.bytes(T_TT_ID), b"TMS" | b"TLS" | b"TSL");
        let quantity = row.int(T_QTY);
        let trade = Trade {
            t: row.int(T_ID),
            ca: row.int(T_CA_ID),
            quantity: if sell { -quantity } else { quantity },
            state: state(row.bytes(T_ST_ID)),
            is_limit: !matches!(row.bytes(T_TT_ID), b"TMB" | b"TMS"),
            is_cash: row.int(T_IS_CASH) == 1,
            commission: row.int(T_COMM),
            history: 0,
            moved: 0,
            settled: None,
            paid: None,
        };
        if trade.state == CMPT {
            let sums = self.brokers.entry(self.tpce.geometry.broker_of(trade.ca)).or_default();
            sums[2] += 1;
            sums[3] += trade.commission;
        }
        let (t, site) = (trade.t, self.tpce.geometry.site_of_account(trade.ca));
        if Geometry::site_of_trade(t) != site {
            self.damage.add(|| format!("TRADE {t} is of an account of site {site}"));
        }
        self.trades.push(trade);
    }

    pub fn trade_history(&mut self, row: &Row<'_>) {
        let state = state(row.bytes(trade_history::TH_ST_ID));
        if let Some(trade) = self.find("TRADE_HISTORY", row.int(trade_history::TH_T_ID)) {
            trade.history |= state;
        }
    }

    pub fn settlement(&mut self, row: &Row<'_>) {
        let amount = row.int(settlement::SE_AMT);
        if let Some(trade) = self.find("SETTLEMENT", row.int(settlement::SE_T_ID)) {
            trade.settled = Some(amount);
        }
    }

    pub fn cash(&mut self, row: &Row<'_>) {
        let (t, amount) = (row.int(cash_transaction::CT_T_ID), row.int(cash_transaction::CT_AMT));
        if Geometry::number_of_trade(t) > self.tpce.geometry.initial {
            self.balances -= amount;
        }
        if let Some(trade) = self.find("CASH_TRANSACTION", t) {
            trade.paid = Some(amount);
        }
    }

    pub fn account(&mut self, row: &Row<'_>) {
        use customer_account::*;
        let ca = row.int(CA_ID);
        self.balances += row.int(CA_BAL) - people::balance(ca);
        if row.int(CA_B_ID) != self.tpce.geometry.broker_of(ca) {
            self.damage.add(|| format!("CUSTOMER_ACCOUNT {ca} has another broker than it was loaded with"));
        }
    }

    pub fn broker(&mut self, row: &Row<'_>) {
        use broker::*;
        let sums = self.brokers.entry(row.int(B_ID)).or_default();
        sums[0] = row.int(B_NUM_TRADES);
        sums[1] = row.int(B_COMM_TOTAL);
    }

    pub fn holding(&mut self, row: &Row<'_>) {
        use holding::*;
        let (t, quantity) = (row.int(H_T_ID), row.int(H_QTY));
        if quantity == 0 {
            self.damage.add(|| format!("HOLDING {t} of nothing"));
        }
        self.holdings.insert(t, quantity);
        match security_of(row.bytes(H_S_SYMB)) {
            Some(security) => self.held.entry((row.int(H_CA_ID), security)).or_default()[1] += quantity,
            None => self.damage.add(|| format!("HOLDING {t} of an unknown symbol")),
        }
    }

    pub fn summary(&mut self, row: &Row<'_>) {
        use holding_summary::*;
        let (ca, quantity) = (row.int(HS_CA_ID), row.int(HS_QTY));
        match security_of(row.bytes(HS_S_SYMB)) {
            Some(security) if quantity != 0 => {
                self.held.entry((ca, security)).or_default()[0] += quantity;
            }
            _ => self.damage.add(|| format!("3: HOLDING_SUMMARY of account {ca} with quantity {quantity}")),
        }
    }

    /// Rows come in the order of holdings.
    pub fn holding_history(&mut self, row: &Row<'_>) {
        use holding_history::*;
        let (holding, t) = (row.int(HH_H_T_ID), row.int(HH_T_ID));
        let (before, after) = (row.int(HH_BEFORE_QTY), row.int(HH_AFTER_QTY));
        if holding != self.chain.0 {
            self.close_chain();
            self.chain.0 = holding;
        }
        self.chain.1.push((before, after));
        if let Some(trade) = self.find("HOLDING_HISTORY", t) {
            trade.moved += after - before;
        }
    }

    /// Condition 6. A holding only shrinks, so the order of its changes follows from them.
    pub fn close_chain(&mut self) {
        let (holding, mut changes) = std::mem::replace(&mut self.chain, (-1, Vec::new()));
        if changes.is_empty() {
            return;
        }
        changes.sort_by_key(|(before, _)| (*before != 0, -before.abs()));
        let mut quantity = 0;
        for (before, after) in changes {
            if before != quantity {
                self.damage.add(|| {
                    format!("6: holding {holding}: {before} before a change, {quantity} after the last")
                });
            }
            quantity = after;
        }
        let found = self.holdings.remove(&holding).unwrap_or(0);
        if found != quantity {
            self.damage.expect(&format!("6: quantity of holding {holding}"), quantity, found);
        }
    }

    pub fn request(&mut self, row: &Row<'_>) {
        self.requests.push((row.int(trade_request::TR_T_ID), row.int(trade_request::TR_B_ID)));
    }

    pub fn last_trade(&mut self, row: &Row<'_>) {
        use last_trade::*;
        let (price, volume) = (row.int(LT_PRICE), row.int(LT_VOL));
        let Some(security) = security_of(row.bytes(LT_S_SYMB)) else {
            return self.damage.add(|| "LAST_TRADE of an unknown symbol".into());
        };
        if !(super::market_time::LOW..=super::market_time::HIGH).contains(&price) {
            self.damage
                .add(|| format!("LAST_TRADE of security {security}: {price} cents, expected 2000 to 3000"));
        }
        let group = self.tpce.geometry.group_of(row.int(P) as u32);
        let digest = self.feeds.entry(group).or_default();
        let values = [i64::from(security), price, volume];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        *digest = digest.wrapping_add(base::hash64(&bytes));
    }

    pub fn sequence(&mut self, row: &Row<'_>) {
        self.sequences.push((row.int(trade_sequence::P) as u32, row.int(trade_sequence::TQ_NEXT)));
    }

    /// Conditions 4, 5 and 7.
    fn judge_trades(&mut self) {
        for trade in &self.trades {
            let (t, complete) = (trade.t, trade.state == CMPT);
            if trade.settled.is_some() != complete {
                self.damage
                    .add(|| format!("4: trade {t}: completed: {complete}, settled: {:?}", trade.settled));
            }
            if trade.paid != trade.settled.filter(|_| trade.is_cash) {
                self.damage.add(|| {
                    format!("4: trade {t}: settled {:?}, cash transaction {:?}", trade.settled, trade.paid)
                });
            }
            let expected = if complete { trade.quantity } else { 0 };
            if trade.moved != expected {
                self.damage.expect(&format!("5: change of holdings by trade {t}"), expected, trade.moved);
            }
            let first = if trade.is_limit { PNDG } else { 0 };
            let expected = match trade.state {
                PNDG => first,
                SBMT => first | SBMT,
                state => first | SBMT | state,
            };
            if trade.history != expected || trade.state == 0 {
                self.damage.expect(&format!("7: states of trade {t}"), expected, trade.history);
            }
        }
    }

    /// Condition 3, and the sequences.
    fn judge_sums(&mut self) {
        for ((ca, security), [summary, sum]) in &self.held {
            if summary != sum {
                let what = format!("3: holdings of account {ca} in security {security}");
                self.damage.expect(&what, *summary, *sum);
            }
        }
        for (t, quantity) in &self.holdings {
            self.damage.add(|| format!("6: holding {t} of {quantity} without a history"));
        }
        let initial = self.tpce.geometry.initial;
        for (site, next) in &self.sequences {
            let of = |t: i64| Geometry::site_of_trade(t) == *site && Geometry::number_of_trade(t) > initial;
            let added = self.trades.iter().filter(|trade| of(trade.t)).count() as i64;
            if added != next - 1 - initial {
                self.damage.expect(
                    &format!("TRADE: rows since loading, site {site}"),
                    next - 1 - initial,
                    added,
                );
            }
        }
    }

    pub fn close(mut self, rows: Vec<(u16, u64)>) -> TpceAudit {
        self.close_chain();
        self.judge_trades();
        self.judge_sums();
        let (initial, geometry) = (self.tpce.geometry.initial, &self.tpce.geometry);
        let added = |trade: &&Trade| Geometry::number_of_trade(trade.t) > initial;
        let with = |state: u8| self.trades.iter().filter(move |trade| trade.state == state);
        if self.balances != 0 {
            self.damage.expect("CA_BAL: change of all balances against cash transactions", 0, self.balances);
        }
        TpceAudit {
            orders: self.trades.iter().filter(added).count() as u64,
            submitted: with(SBMT).count() as u64,
            pending: with(PNDG).map(|trade| (trade.t, geometry.broker_of(trade.ca))).collect(),
            requests: self.requests,
            brokers: self.brokers.into_iter().collect(),
            feeds: self.feeds.into_iter().collect(),
            rows,
            damage: self.damage.into_lines(),
            sites: self.sites,
        }
    }
}
