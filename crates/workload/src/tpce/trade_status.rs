//! Trade-Status: the 50 newest trades of an account.

use super::customer_position::{newest, status_name};
use super::market_steps::{BrokerName, SecurityNames, by_place, in_order};
use super::ops::{found, key, security_in, text};
use super::rows::*;
use super::{Tpce, route};
use base::Key;
use serde::{Deserialize, Serialize};
use txn::step::{Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access};

pub(super) const TRADES: usize = 50;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TradeStatusRequest {
    pub ca: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TradeStatusReply {
    /// The newest first.
    pub trades: Vec<StatusRow>,
    pub customer: (String, String),
    pub broker: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct StatusRow {
    pub t: i64,
    pub dts: i64,
    pub status: String,
    pub trade_type: String,
    pub security: u32,
    pub quantity: i64,
    pub executor: String,
    pub charge: i64,
    pub security_name: String,
    pub exchange: String,
}

/// All that lies at the customer's site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadStatus {
    pub site: u32,
    pub ca: i64,
    pub backward: bool,
}

/// The reply, as far as the site knows it, and the broker.
pub type Status = (TradeStatusReply, i64);

impl Step for ReadStatus {
    const ID: StepId = 23;
    const EFFECT: Effect = Effect::Reads;
    type Output = Status;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Status, Abort> {
        let read = |row: txn::Row<'_>| {
            use trade::*;
            Ok(StatusRow {
                t: row.int(T_ID),
                dts: row.int(T_DTS),
                status: text(&row, T_ST_ID),
                trade_type: text(&row, T_TT_ID),
                security: security_in(&row, T_S_SYMB)?,
                quantity: row.int(T_QTY),
                executor: row.text(T_EXEC_NAME).to_owned(),
                charge: row.int(T_CHRG),
                ..StatusRow::default()
            })
        };
        let prefix = key(self.site, [self.ca]);
        let rows = newest(access, (TRADE_ACCOUNT, &prefix), TRADES, self.backward, read).await?;
        let mut trades = rows.into_iter().collect::<Result<Vec<_>, Abort>>()?;
        for trade in &mut trades {
            trade.status = status_name(access, &trade.status).await?;
            let of_type = Key::new().str(&trade.trade_type);
            let name = access.read(TRADE_TYPE, &of_type, |row| text(&row, trade_type::TT_NAME)).await?;
            trade.trade_type = found(name)?;
        }
        let read =
            |row: txn::Row<'_>| (row.int(customer_account::CA_C_ID), row.int(customer_account::CA_B_ID));
        let (c, broker) = found(access.read(CUSTOMER_ACCOUNT, &prefix, read).await?)?;
        let read = |row: txn::Row<'_>| (text(&row, customer::C_L_NAME), text(&row, customer::C_F_NAME));
        let customer = found(access.read(CUSTOMER, &key(self.site, [c]), read).await?)?;
        Ok((TradeStatusReply { trades, customer, broker: String::new() }, broker))
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &TradeStatusRequest,
    txn: &mut T,
) -> Result<TradeStatusReply, Abort> {
    let site = tpce.customer_site(r.ca / 10)?;
    let step = ReadStatus { site, ca: r.ca, backward: tpce.options.backward };
    let (mut reply, broker) = txn.all(step).await?;
    let mut wanted: Vec<u32> = reply.trades.iter().map(|trade| trade.security).collect();
    wanted.sort_unstable();
    wanted.dedup();
    if broker < 0 || broker >= i64::from(tpce.geometry.brokers()) {
        return Err(Abort::BadRequest);
    }
    let places = by_place(&tpce.geometry, tpce.geometry.group_of(site), &wanted);
    let (names, broker) = txn.last((SecurityNames::at(&places), BrokerName { broker })).await?;
    let names = in_order(&places, names);
    for trade in &mut reply.trades {
        let at = wanted.binary_search(&trade.security).map_err(|_| Abort::BadRequest)?;
        trade.security_name.clone_from(&names[at].name);
        trade.exchange.clone_from(&names[at].exchange_name);
    }
    reply.broker = broker;
    Ok(reply)
}
