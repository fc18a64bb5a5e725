//! Customer-Position: the worth of a customer's accounts, and perhaps the last trades of one
//! account.

use super::market_steps::{Prices, by_place, in_order};
use super::ops::{found, key, scan_prefix, security_in, text};
use super::rows::*;
use super::trade_detail::STEPS_OF_TRADE;
use super::{Tpce, route};
use base::Key;
use serde::{Deserialize, Serialize};
use txn::step::{Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow};

/// Rows of HOLDING_SUMMARY that an account has at most, as loaded.
const HOLDINGS: usize = 18;

const TRADES: usize = 10;
const HISTORY_ROWS: usize = 30;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CustomerPositionRequest {
    /// The customer; its site is the home. A request by tax id names the customer with it.
    pub c: i64,
    pub tax_id: Option<String>,
    /// The account, counted from 0 among the customer's, of which the history is wanted.
    pub history: Option<u32>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CustomerPositionReply {
    pub c: i64,
    pub tier: i64,
    pub last_name: String,
    /// Account, balance and worth of the holdings in cents; the least worth first.
    pub accounts: Vec<(i64, i64, i64)>,
    /// The newest first.
    pub history: Vec<HistoryRow>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct HistoryRow {
    pub t: i64,
    pub symbol: String,
    pub quantity: i64,
    pub status: String,
    pub dts: i64,
}

/// Everything at the customer's site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadPosition {
    pub site: u32,
    pub request: CustomerPositionRequest,
    pub backward: bool,
}

/// An account's balance and holdings.
type Holdings = (i64, i64, Vec<(u32, i64)>);

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Position {
    pub reply: CustomerPositionReply,
    pub accounts: Vec<Holdings>,
}

/// The holdings of an account: security and quantity.
pub(super) async fn holdings_of<A: Access>(
    access: &mut A,
    site: u32,
    ca: i64,
) -> Result<Vec<(u32, i64)>, Abort> {
    let (mut all, mut strange) = (Vec::new(), Ok(()));
    access.expect(HOLDINGS);
    scan_prefix(access, HOLDING_SUMMARY, &key(site, [ca]), Direction::Forward, |_, row| {
        match security_in(&row, holding_summary::HS_S_SYMB) {
            Ok(security) => all.push((security, row.int(holding_summary::HS_QTY))),
            Err(abort) => strange = Err(abort),
        }
        Flow::More
    })
    .await?;
    strange.map(|()| all)
}

/// The newest `most` rows under a prefix of an index, the newest first. Without scans backward, all
/// of them are read.
pub(super) async fn newest<A: Access, R>(
    access: &mut A,
    (index, prefix): (base::TableId, &Key),
    most: usize,
    backward: bool,
    mut read: impl FnMut(txn::Row<'_>) -> R,
) -> Result<Vec<R>, Abort> {
    if backward {
        let mut all = Vec::with_capacity(most);
        access.expect(most);
        scan_prefix(access, index, prefix, Direction::Backward, |_, row| {
            all.push(read(row));
            if all.len() < most { Flow::More } else { Flow::Enough }
        })
        .await?;
        return Ok(all);
    }
    let mut all = std::collections::VecDeque::with_capacity(most);
    scan_prefix(access, index, prefix, Direction::Forward, |_, row| {
        if all.len() == most {
            all.pop_back();
        }
        all.push_front(read(row));
        Flow::More
    })
    .await?;
    Ok(all.into())
}

impl Step for ReadPosition {
    const ID: StepId = 8;
    const EFFECT: Effect = Effect::Reads;
    type Output = Position;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Position, Abort> {
        let (site, r) = (self.site, &self.request);
        let mut c = Some(r.c);
        if let Some(tax_id) = &r.tax_id {
            c = None;
            let prefix = Key::new().i64(site.into()).str(tax_id);
            scan_prefix(access, CUSTOMER_TAX_ID, &prefix, Direction::Forward, |_, row| {
                c = Some(row.int(customer::C_ID));
                Flow::Enough
            })
            .await?;
        }
        let c = found(c)?;
        let of = |row: txn::Row<'_>| (row.int(customer::C_TIER), text(&row, customer::C_L_NAME));
        let (tier, last_name) = found(access.read(CUSTOMER, &key(site, [c]), of).await?)?;
        let mut position = Position::default();
        scan_prefix(access, CUSTOMER_ACCOUNT_OWNER, &key(site, [c]), Direction::Forward, |_, row| {
            let (ca, balance) = (row.int(customer_account::CA_ID), row.int(customer_account::CA_BAL));
            position.accounts.push((ca, balance, Vec::new()));
            Flow::More
        })
        .await?;
        for (ca, _, holdings) in &mut position.accounts {
            *holdings = holdings_of(access, site, *ca).await?;
        }
        position.reply = CustomerPositionReply { c, tier, last_name, ..CustomerPositionReply::default() };
        if let Some(n) = r.history {
            let account = position.accounts.get(n as usize).ok_or(Abort::BadRequest)?.0;
            position.reply.history = history(access, site, account, self.backward).await?;
        }
        Ok(position)
    }
}

/// The steps of the last ten trades of an account.
async fn history<A: Access>(
    access: &mut A,
    site: u32,
    ca: i64,
    backward: bool,
) -> Result<Vec<HistoryRow>, Abort> {
    use trade::*;
    let read = |row: txn::Row<'_>| (row.int(T_ID), text(&row, T_S_SYMB), row.int(T_QTY));
    let trades = newest(access, (TRADE_ACCOUNT, &key(site, [ca])), TRADES, backward, read).await?;
    let mut all = Vec::new();
    for (t, symbol, quantity) in trades {
        let mut steps = Vec::new();
        access.expect(STEPS_OF_TRADE);
        scan_prefix(access, TRADE_HISTORY, &key(site, [t]), Direction::Forward, |_, row| {
            steps.push((row.int(trade_history::TH_DTS), text(&row, trade_history::TH_ST_ID)));
            Flow::More
        })
        .await?;
        for (dts, status) in steps {
            let status = status_name(access, &status).await?;
            all.push(HistoryRow { t, symbol: symbol.clone(), quantity, status, dts });
        }
    }
    all.sort_by_key(|row| std::cmp::Reverse((row.dts, row.t)));
    all.truncate(HISTORY_ROWS);
    Ok(all)
}

/// ST_NAME.
pub(super) async fn status_name<A: Access>(access: &mut A, status: &str) -> Result<String, Abort> {
    let key = Key::new().str(status);
    found(access.read(STATUS_TYPE, &key, |row| text(&row, status_type::ST_NAME)).await?)
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &CustomerPositionRequest,
    txn: &mut T,
) -> Result<CustomerPositionReply, Abort> {
    let site = tpce.customer_site(r.c)?;
    let step = ReadPosition { site, request: r.clone(), backward: tpce.options.backward };
    let Position { mut reply, accounts } = txn.all(step).await?;
    let mut wanted: Vec<u32> = accounts.iter().flat_map(|(.., held)| held.iter().map(|h| h.0)).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let places = by_place(&tpce.geometry, tpce.geometry.group_of(site), &wanted);
    let prices = in_order(&places, txn.last(Prices::at(&places)).await?);
    let worth = |held: &[(u32, i64)]| {
        let one = |(security, quantity): &(u32, i64)| {
            wanted.binary_search(security).map_or(0, |at| prices[at] * quantity)
        };
        held.iter().map(one).sum::<i64>()
    };
    reply.accounts = accounts.iter().map(|(ca, balance, held)| (*ca, *balance, worth(held))).collect();
    reply.accounts.sort_by_key(|(ca, _, worth)| (*worth, *ca));
    reply.accounts.truncate(10);
    Ok(reply)
}
