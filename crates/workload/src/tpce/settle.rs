//! The money of a trade, and rows that loading and Trade-Result both insert.

use super::geometry::Geometry;
use super::ops::insert;
use super::rows::*;
use txn::{Abort, Access};

/// `n / d`, rounded to the nearest, halves up; `n` is not negative.
fn rounded(n: i64, d: i64) -> i64 {
    (n + d / 2) / d
}

/// In cents. `rate` is CR_RATE, in hundredths of a per cent.
pub(super) fn commission(rate: i64, quantity: i64, price: i64) -> i64 {
    rounded(rate * quantity * price, 10_000)
}

/// In cents. `rate` is a sum of TX_RATEs, in hundred-thousandths.
pub(super) fn tax(gain: i64, rate: i64) -> i64 {
    rounded(gain * rate, 100_000)
}

pub(super) struct Settled {
    pub is_sell: bool,
    pub quantity: i64,
    pub price: i64,
    pub charge: i64,
    pub commission: i64,
    /// The tax, for accounts from which it is withheld.
    pub tax_withheld: i64,
}

/// SE_AMT.
pub(super) fn amount(s: &Settled) -> i64 {
    let (value, fees) = (s.quantity * s.price, s.charge + s.commission);
    (if s.is_sell { value - fees } else { -(value + fees) }) - s.tax_withheld
}

pub(super) async fn history<A: Access>(access: &mut A, t: i64, status: &str, dts: i64) -> Result<(), Abort> {
    insert(access, TRADE_HISTORY, |row| {
        row.set_int(trade_history::P, Geometry::site_of_trade(t).into());
        row.set_int(trade_history::TH_T_ID, t);
        row.set_text(trade_history::TH_ST_ID, status);
        row.set_int(trade_history::TH_DTS, dts);
    })
    .await
}

pub(super) async fn insert_settlement<A: Access>(
    access: &mut A,
    t: i64,
    is_cash: bool,
    due: i64,
    amount: i64,
) -> Result<(), Abort> {
    insert(access, SETTLEMENT, |row| {
        row.set_int(settlement::P, Geometry::site_of_trade(t).into());
        row.set_int(settlement::SE_T_ID, t);
        row.set_text(settlement::SE_CASH_TYPE, if is_cash { "Cash Account" } else { "Margin" });
        row.set_int(settlement::SE_CASH_DUE_DATE, due);
        row.set_int(settlement::SE_AMT, amount);
    })
    .await
}

/// The last argument: TT_NAME, T_QTY and S_NAME.
pub(super) async fn insert_cash<A: Access>(
    access: &mut A,
    t: i64,
    dts: i64,
    amount: i64,
    (trade_type, quantity, security): (&str, i64, &str),
) -> Result<(), Abort> {
    insert(access, CASH_TRANSACTION, |row| {
        row.set_int(cash_transaction::P, Geometry::site_of_trade(t).into());
        row.set_int(cash_transaction::CT_T_ID, t);
        row.set_int(cash_transaction::CT_DTS, dts);
        row.set_int(cash_transaction::CT_AMT, amount);
        row.set_text(cash_transaction::CT_NAME, &format!("{trade_type} {quantity} shares of {security}"));
    })
    .await
}

/// `holding` is the trade that opened the holding, `t` the trade that changed it.
pub(super) async fn holding_history<A: Access>(
    access: &mut A,
    site: u32,
    holding: i64,
    t: i64,
    (before, after): (i64, i64),
) -> Result<(), Abort> {
    insert(access, HOLDING_HISTORY, |row| {
        row.set_int(holding_history::P, site.into());
        row.set_int(holding_history::HH_H_T_ID, holding);
        row.set_int(holding_history::HH_T_ID, t);
        row.set_int(holding_history::HH_BEFORE_QTY, before);
        row.set_int(holding_history::HH_AFTER_QTY, after);
    })
    .await
}
