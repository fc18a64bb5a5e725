//! Trade-Result: the market has carried out an order: holdings, taxes, commission, settlement and
//! balance.
//!
//! ```text
//! {R TRADE (t), CUSTOMER_ACCOUNT, CUSTOMER, tax rates; U HOLDING_SUMMARY; walk HOLDING;
//!   I HOLDING_HISTORY || R SECURITY (symbol)}
//!   -> {U TRADE; I TRADE_HISTORY, SETTLEMENT, CASH_TRANSACTION; U CUSTOMER_ACCOUNT (ca)
//!   || U BROKER (b)} -> commit
//! ```
//!
//! A result for a trade that is not submitted any more changes nothing: results may be delivered
//! twice.

use super::geometry::{Geometry, symbol};
use super::market_steps::SecurityFacts;
use super::market_time::date_of;
use super::ops::{found, insert, key, text};
use super::rows::*;
use super::trade_order::{commission_rate, tax_rate};
use super::{Tpce, route, settle};
use base::Key;
use serde::{Deserialize, Serialize};
use txn::step::{Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, Range, RowMut};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TradeResultRequest {
    pub t: i64,
    pub security: u32,
    /// In cents.
    pub price: i64,
    pub now: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TradeResultReply {
    Done {
        ca: i64,
        /// CA_BAL.
        balance: i64,
        tax: i64,
        commission: i64,
        /// SE_AMT.
        amount: i64,
    },
    /// The trade was completed or cancelled before.
    Before,
}

/// Frames 1 to 3.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangeHoldings {
    pub site: u32,
    pub request: TradeResultRequest,
    pub backward: bool,
}

/// The values that the last frames need.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Closed {
    pub ca: i64,
    pub broker: i64,
    pub tier: i64,
    pub trade_type: [u8; 3],
    pub type_name: String,
    pub is_sell: bool,
    pub is_cash: bool,
    pub quantity: i64,
    pub charge: i64,
    pub tax_status: i64,
    pub tax: i64,
}

/// Frames 4 to 6 at the customer's site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Settle {
    pub site: u32,
    pub request: TradeResultRequest,
    pub closed: Closed,
    pub security_name: String,
    pub exchange: String,
}

/// Frame 5: the broker.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CreditBroker {
    pub broker: i64,
    pub commission: i64,
}

/// A holding as it is walked over: trade, price, quantity.
type Lot = (i64, i64, i64);

impl ChangeHoldings {
    /// The holdings that the order closes, as many as it needs.
    async fn lots<A: Access>(
        &self,
        access: &mut A,
        prefix: &Key,
        quantity: i64,
        lifo: bool,
    ) -> Result<Vec<Lot>, Abort> {
        use holding::*;
        let end = prefix.prefix_end();
        let range = Range { low: Some(prefix), high: end.as_deref() };
        let (mut lots, mut needed): (Vec<Lot>, i64) = (Vec::new(), quantity);
        let backward = lifo && self.backward;
        let direction = if backward { Direction::Backward } else { Direction::Forward };
        access
            .scan_for_update(HOLDING_ACCOUNT, range, direction, |_, row| {
                lots.push((row.int(H_T_ID), row.int(H_PRICE), row.int(H_QTY)));
                needed -= row.int(H_QTY).abs();
                // Without scans backward, all are read to find the newest.
                if needed > 0 || lifo && !backward { Flow::More } else { Flow::Enough }
            })
            .await?;
        if lifo && !backward {
            lots.reverse();
        }
        Ok(lots)
    }

    /// Frame 2: changes holdings; returns the gain of the closed part.
    async fn change<A: Access>(&self, access: &mut A, closed: &Closed, lifo: bool) -> Result<i64, Abort> {
        let (site, r, symbol) = (self.site, &self.request, symbol(self.request.security));
        let of_summary = key(site, [closed.ca]).bytes(&symbol);
        let signed = if closed.is_sell { -closed.quantity } else { closed.quantity };
        let add = |row: &mut RowMut<'_>| {
            let held = row.int(holding_summary::HS_QTY);
            row.set_int(holding_summary::HS_QTY, held + signed);
            held
        };
        let held = access.update(HOLDING_SUMMARY, &of_summary, add).await?;
        if held.is_none() {
            insert(access, HOLDING_SUMMARY, |row| {
                row.set_int(holding_summary::P, site.into());
                row.set_int(holding_summary::HS_CA_ID, closed.ca);
                row.set_bytes(holding_summary::HS_S_SYMB, &symbol);
                row.set_int(holding_summary::HS_QTY, signed);
            })
            .await?;
        }
        let held = held.unwrap_or(0);
        let (mut needed, mut gain) = (closed.quantity, 0);
        if held.signum() * signed.signum() < 0 {
            for (t, price, quantity) in self.lots(access, &of_summary, needed, lifo).await? {
                if needed == 0 {
                    break;
                }
                let taken = quantity.abs().min(needed);
                let left = quantity - quantity.signum() * taken;
                settle::holding_history(access, site, t, r.t, (quantity, left)).await?;
                if left == 0 {
                    access.delete(HOLDING, &key(site, [t])).await?;
                } else {
                    let set = |row: &mut RowMut<'_>| row.set_int(holding::H_QTY, left);
                    found(access.update(HOLDING, &key(site, [t]), set).await?)?;
                }
                gain += taken * if closed.is_sell { r.price - price } else { price - r.price };
                needed -= taken;
            }
        }
        if needed > 0 {
            let opened = signed.signum() * needed;
            settle::holding_history(access, site, r.t, r.t, (0, opened)).await?;
            insert(access, HOLDING, |row| {
                use holding::*;
                row.set_int(P, site.into());
                row.set_int(H_T_ID, r.t);
                row.set_int(H_CA_ID, closed.ca);
                row.set_bytes(H_S_SYMB, &symbol);
                row.set_int(H_DTS, r.now);
                row.set_int(H_PRICE, r.price);
                row.set_int(H_QTY, opened);
            })
            .await?;
        } else if held + signed == 0 {
            access.delete(HOLDING_SUMMARY, &of_summary).await?;
        }
        Ok(gain)
    }
}

impl Step for ChangeHoldings {
    const ID: StepId = 29;
    type Output = Option<Closed>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Option<Closed>, Abort> {
        let (site, r) = (self.site, &self.request);
        let mut closed = Closed::default();
        let (mut submitted, mut lifo, mut same) = (false, false, false);
        let read = |row: &mut RowMut<'_>| {
            use trade::*;
            let row = row.row();
            submitted = row.bytes(T_ST_ID) == b"SBMT";
            closed.ca = row.int(T_CA_ID);
            closed.trade_type.copy_from_slice(row.bytes(T_TT_ID));
            closed.is_cash = row.int(T_IS_CASH) == 1;
            closed.quantity = row.int(T_QTY);
            closed.charge = row.int(T_CHRG);
            lifo = row.int(T_LIFO) == 1;
            same = row.bytes(T_S_SYMB) == &symbol(r.security)[..];
        };
        // Locked as for a change: the last frames change the trade.
        found(access.update(TRADE, &key(site, [r.t]), read).await?)?;
        if !submitted {
            return Ok(None);
        }
        if !same {
            return Err(Abort::BadRequest);
        }
        let of_type = Key::new().bytes(&closed.trade_type);
        let read = |row: txn::Row<'_>| {
            closed.is_sell = row.int(trade_type::TT_IS_SELL) == 1;
            closed.type_name = text(&row, trade_type::TT_NAME);
        };
        found(access.read(TRADE_TYPE, &of_type, read).await?)?;
        let read = |row: txn::Row<'_>| {
            use customer_account::*;
            closed.broker = row.int(CA_B_ID);
            closed.tax_status = row.int(CA_TAX_ST);
            row.int(CA_C_ID)
        };
        let c = found(access.read(CUSTOMER_ACCOUNT, &key(site, [closed.ca]), read).await?)?;
        let tier = access.read(CUSTOMER, &key(site, [c]), |row| row.int(customer::C_TIER)).await?;
        closed.tier = found(tier)?;
        let gain = self.change(access, &closed, lifo).await?;
        if gain > 0 && closed.tax_status != 0 {
            closed.tax = settle::tax(gain, tax_rate(access, site, c).await?);
        }
        Ok(Some(closed))
    }
}

impl Step for Settle {
    const ID: StepId = 30;
    /// CA_BAL, commission, amount.
    type Output = (i64, i64, i64);

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(i64, i64, i64), Abort> {
        let (site, r, closed) = (self.site, &self.request, &self.closed);
        let rate =
            commission_rate(access, closed.tier, closed.trade_type, &self.exchange, closed.quantity).await?;
        let commission = settle::commission(rate, closed.quantity, r.price);
        let complete = |row: &mut RowMut<'_>| {
            use trade::*;
            row.set_int(T_COMM, commission);
            row.set_int(T_DTS, r.now);
            row.set_text(T_ST_ID, "CMPT");
            row.set_int(T_TRADE_PRICE, r.price);
            row.set_int(T_TAX, closed.tax);
        };
        found(access.update(TRADE, &key(site, [r.t]), complete).await?)?;
        settle::history(access, r.t, "CMPT", r.now).await?;
        let amount = settle::amount(&settle::Settled {
            is_sell: closed.is_sell,
            quantity: closed.quantity,
            price: r.price,
            charge: closed.charge,
            commission,
            tax_withheld: if closed.tax_status == 1 { closed.tax } else { 0 },
        });
        settle::insert_settlement(access, r.t, closed.is_cash, date_of(r.now) + 2, amount).await?;
        let of_account = key(site, [closed.ca]);
        if !closed.is_cash {
            let read = |row: txn::Row<'_>| row.int(customer_account::CA_BAL);
            let balance = found(access.read(CUSTOMER_ACCOUNT, &of_account, read).await?)?;
            return Ok((balance, commission, amount));
        }
        let pay = |row: &mut RowMut<'_>| {
            let balance = row.int(customer_account::CA_BAL) + amount;
            row.set_int(customer_account::CA_BAL, balance);
            balance
        };
        let balance = found(access.update(CUSTOMER_ACCOUNT, &of_account, pay).await?)?;
        let name = (&*closed.type_name, closed.quantity, &*self.security_name);
        settle::insert_cash(access, r.t, r.now, amount, name).await?;
        Ok((balance, commission, amount))
    }
}

impl Step for CreditBroker {
    const ID: StepId = 31;
    type Output = ();

    fn route(&self) -> Route {
        route(self.broker as u32)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        let credit = |row: &mut RowMut<'_>| {
            row.set_int(broker::B_NUM_TRADES, row.int(broker::B_NUM_TRADES) + 1);
            row.set_int(broker::B_COMM_TOTAL, row.int(broker::B_COMM_TOTAL) + self.commission);
        };
        found(access.update(BROKER, &key(self.broker as u32, [self.broker]), credit).await?)
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &TradeResultRequest,
    txn: &mut T,
) -> Result<TradeResultReply, Abort> {
    let site = Geometry::site_of_trade(r.t.max(0));
    let known = site < tpce.geometry.sites() && r.security < tpce.geometry.securities();
    if r.t < 0 || !known || !PRICES.contains(&r.price) {
        return Err(Abort::BadRequest);
    }
    let place = tpce.geometry.place_of_security(r.security, tpce.geometry.group_of(site));
    let holdings = ChangeHoldings { site, request: *r, backward: tpce.options.backward };
    let facts = SecurityFacts { site: place, security: r.security };
    let (closed, (security_name, exchange)) = txn.all((holdings, facts)).await?;
    let Some(closed) = closed else { return Ok(TradeResultReply::Before) };
    let (ca, broker, tax) = (closed.ca, closed.broker, closed.tax);
    // The same value as the one that the settling step computes: the broker need not wait for it.
    let rate = super::fixed::commission_rate(closed.tier, &exchange, closed.quantity);
    let credit = CreditBroker { broker, commission: settle::commission(rate, closed.quantity, r.price) };
    let settle = Settle { site, request: *r, closed, security_name, exchange };
    let ((balance, commission, amount), ()) = txn.last((settle, credit)).await?;
    Ok(TradeResultReply::Done { ca, balance, tax, commission, amount })
}
