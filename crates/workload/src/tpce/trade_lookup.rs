//! Trade-Lookup and Trade-Update: up to twenty trades with all that belongs to them, found in one
//! of four ways; an update changes one text of each.

use super::geometry::{Geometry, symbol};
use super::market_steps::SecurityFacts;
use super::ops::{found, key, scan_prefix, symbol_key, text};
use super::rows::*;
use super::trade_detail::{STEPS_OF_TRADE, TradeDetail};
use super::trade_texts::{Change, change};
use super::{Tpce, route};
use base::Key;
use serde::{Deserialize, Serialize};
use txn::step::{Each, Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, Range};

/// Trades of a request, at most.
pub(super) const MOST: usize = 20;

/// Which trades.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Sought {
    /// Frame 1: by id.
    Trades(Vec<i64>),
    /// Frame 2: the first of an account between two stamps.
    OfAccount { ca: i64, from: i64, to: i64 },
    /// Frame 3: the first of a security between two stamps, in the whole database.
    OfSecurity { security: u32, from: i64, to: i64 },
    /// Frame 4, look-up only: the holdings that the first trade of an account from a stamp on has
    /// changed.
    Holdings { ca: i64, from: i64 },
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TradeLookupRequest {
    pub home: u32,
    pub sought: Sought,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TradeLookupReply {
    pub trades: Vec<TradeDetail>,
    /// Frame 4: the trade, then rows of HOLDING_HISTORY: holding, trade, before, after.
    pub holdings: Vec<[i64; 4]>,
    /// Texts that an update changed.
    pub updated: u32,
}

/// Trades of one site, given by id; changes a text of each if `change` says so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TradesById {
    pub site: u32,
    pub trades: Vec<i64>,
    pub change: Change,
}

/// The first trades of an account between two stamps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TradesOfAccount {
    pub site: u32,
    pub ca: i64,
    pub from: i64,
    pub to: i64,
    pub change: Change,
}

/// As [`TradesById`] and [`TradesOfAccount`], for steps that may write.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Changing<S>(pub S);

/// The first trades of a security at one site: stamps and ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TradesOfSecurity {
    pub site: u32,
    pub security: u32,
    pub from: i64,
    pub to: i64,
}

/// Frame 4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangedHoldings {
    pub site: u32,
    pub ca: i64,
    pub from: i64,
}

/// Reads a trade; `None` if there is none with this id.
async fn detail<A: Access>(
    access: &mut A,
    site: u32,
    t: i64,
    how: &Change,
    updated: &mut u32,
) -> Result<Option<TradeDetail>, Abort> {
    let of_trade = key(site, [t]);
    let read = |row: txn::Row<'_>| {
        use trade::*;
        TradeDetail {
            t,
            ca: row.int(T_CA_ID),
            dts: row.int(T_DTS),
            trade_type: text(&row, T_TT_ID),
            is_cash: row.int(T_IS_CASH) == 1,
            symbol: text(&row, T_S_SYMB),
            quantity: row.int(T_QTY),
            bid: row.int(T_BID_PRICE),
            executor: row.text(T_EXEC_NAME).to_owned(),
            price: (!row.is_null(T_TRADE_PRICE)).then(|| row.int(T_TRADE_PRICE)),
            ..TradeDetail::default()
        }
    };
    let trade = match how {
        // Locked as for a change from the first access on: two readers never both want to change
        // it.
        Change::Executor => access.update(TRADE, &of_trade, |row| read(row.row())).await?,
        _ => access.read(TRADE, &of_trade, read).await?,
    };
    let Some(mut detail) = trade else { return Ok(None) };
    let of_type = Key::new().str(&detail.trade_type);
    let read = |row: txn::Row<'_>| (row.int(trade_type::TT_IS_MRKT) == 1, text(&row, trade_type::TT_NAME));
    let (is_market, type_name) = found(access.read(TRADE_TYPE, &of_type, read).await?)?;
    detail.is_market = is_market;
    *updated += u32::from(change(access, site, how, &mut detail, &type_name).await?);
    let read = |row: txn::Row<'_>| {
        use settlement::*;
        (text(&row, SE_CASH_TYPE), row.int(SE_CASH_DUE_DATE), row.int(SE_AMT))
    };
    detail.settlement = access.read(SETTLEMENT, &of_trade, read).await?;
    if detail.is_cash {
        let read = |row: txn::Row<'_>| {
            use cash_transaction::*;
            (row.int(CT_DTS), row.int(CT_AMT), text(&row, CT_NAME))
        };
        detail.cash = access.read(CASH_TRANSACTION, &of_trade, read).await?;
    }
    access.expect(STEPS_OF_TRADE);
    scan_prefix(access, TRADE_HISTORY, &of_trade, Direction::Forward, |_, row| {
        detail.history.push((row.int(trade_history::TH_DTS), text(&row, trade_history::TH_ST_ID)));
        Flow::More
    })
    .await?;
    detail.history.sort_by_key(|(dts, _)| *dts);
    Ok(Some(detail))
}

/// Trades, and the number of texts that were changed.
pub type Details = (Vec<TradeDetail>, u32);

impl TradesById {
    async fn details<A: Access>(&self, access: &mut A) -> Result<Details, Abort> {
        let (mut all, mut updated) = (Vec::with_capacity(self.trades.len()), 0);
        for t in &self.trades {
            all.extend(detail(access, self.site, *t, &self.change, &mut updated).await?);
        }
        Ok((all, updated))
    }
}

impl TradesOfAccount {
    async fn details<A: Access>(&self, access: &mut A) -> Result<Details, Abort> {
        let (low, high) = (key(self.site, [self.ca, self.from]), key(self.site, [self.ca, self.to + 1]));
        let trades = first_trades(access, TRADE_ACCOUNT, Range::new(&low, &high)).await?;
        let trades = trades.into_iter().map(|(_, t)| t).collect();
        TradesById { site: self.site, trades, change: self.change.clone() }.details(access).await
    }
}

/// Stamps and ids of the first trades in a range of an index.
async fn first_trades<A: Access>(
    access: &mut A,
    index: base::TableId,
    range: Range<'_>,
) -> Result<Vec<(i64, i64)>, Abort> {
    let mut all = Vec::with_capacity(MOST);
    access.expect(MOST);
    access
        .scan(index, range, Direction::Forward, |_, row| {
            all.push((row.int(trade::T_DTS), row.int(trade::T_ID)));
            if all.len() < MOST { Flow::More } else { Flow::Enough }
        })
        .await?;
    Ok(all)
}

impl Step for TradesById {
    const ID: StepId = 17;
    const EFFECT: Effect = Effect::Reads;
    type Output = Details;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Details, Abort> {
        self.details(access).await
    }
}

impl Step for Changing<TradesById> {
    const ID: StepId = 18;
    type Output = Details;

    fn route(&self) -> Route {
        route(self.0.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Details, Abort> {
        self.0.details(access).await
    }
}

impl Step for TradesOfAccount {
    const ID: StepId = 19;
    const EFFECT: Effect = Effect::Reads;
    type Output = Details;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Details, Abort> {
        self.details(access).await
    }
}

impl Step for Changing<TradesOfAccount> {
    const ID: StepId = 20;
    type Output = Details;

    fn route(&self) -> Route {
        route(self.0.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Details, Abort> {
        self.0.details(access).await
    }
}

impl Step for TradesOfSecurity {
    const ID: StepId = 21;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<(i64, i64)>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<(i64, i64)>, Abort> {
        let of = symbol_key(self.site, &symbol(self.security));
        let (low, high) = (of.clone().i64(self.from), of.i64(self.to + 1));
        first_trades(access, TRADE_SYMBOL, Range::new(&low, &high)).await
    }
}

impl Step for ChangedHoldings {
    const ID: StepId = 22;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<[i64; 4]>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<[i64; 4]>, Abort> {
        use holding_history::*;
        let (low, end) = (key(self.site, [self.ca, self.from]), key(self.site, [self.ca]).prefix_end());
        let mut trade = None;
        let range = Range { low: Some(&low), high: end.as_deref() };
        access
            .scan(TRADE_ACCOUNT, range, Direction::Forward, |_, row| {
                trade = Some(row.int(trade::T_ID));
                Flow::Enough
            })
            .await?;
        let Some(trade) = trade else { return Ok(Vec::new()) };
        let mut holdings = Vec::new();
        let prefix = key(self.site, [trade]);
        scan_prefix(access, HOLDING_HISTORY_TRADE, &prefix, Direction::Forward, |_, row| {
            holdings.push(row.int(HH_H_T_ID));
            Flow::More
        })
        .await?;
        let mut all = vec![[trade, 0, 0, 0]];
        for holding in holdings {
            scan_prefix(access, HOLDING_HISTORY, &key(self.site, [holding]), Direction::Forward, |_, row| {
                all.push([HH_H_T_ID, HH_T_ID, HH_BEFORE_QTY, HH_AFTER_QTY].map(|column| row.int(column)));
                if all.len() <= MOST { Flow::More } else { Flow::Enough }
            })
            .await?;
            if all.len() > MOST {
                break;
            }
        }
        Ok(all)
    }
}

/// Trades as steps, one for each site.
fn by_site(mut trades: Vec<i64>, how: &Change) -> Vec<TradesById> {
    trades.sort_unstable();
    trades.dedup();
    let site_of = |t: &i64| Geometry::site_of_trade(*t);
    trades
        .chunk_by(|a, b| site_of(a) == site_of(b))
        .map(|of| TradesById { site: site_of(&of[0]), trades: of.to_vec(), change: how.clone() })
        .collect()
}

/// Runs the last phase, with steps that may write if texts are changed.
async fn last_by_id<T: Transaction>(txn: &mut T, steps: Vec<TradesById>) -> Result<Details, Abort> {
    if steps.is_empty() {
        return Ok(Details::default());
    }
    let parts: Vec<Details> = if steps.iter().all(|step| step.change == Change::Nothing) {
        txn.last(Each::<TradesById>(steps.into())).await?.into_iter().collect()
    } else {
        let steps = steps.into_iter().map(Changing).collect();
        txn.last(Each::<Changing<TradesById>>(steps)).await?.into_iter().collect()
    };
    Ok(parts.into_iter().fold(Details::default(), |(mut all, updated), (trades, more)| {
        all.extend(trades);
        (all, updated + more)
    }))
}

/// Runs a look-up, or an update that changes texts as `how` says.
pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &TradeLookupRequest,
    how: &Change,
    txn: &mut T,
) -> Result<TradeLookupReply, Abort> {
    let geometry = &tpce.geometry;
    let (trades, updated) = match &r.sought {
        Sought::Trades(trades) => {
            if trades.iter().any(|t| *t < 0 || Geometry::site_of_trade(*t) >= geometry.sites()) {
                return Err(Abort::BadRequest);
            }
            let (mut all, updated) = last_by_id(txn, by_site(trades.clone(), how)).await?;
            let place = |t: i64| trades.iter().position(|sought| *sought == t);
            all.sort_by_key(|trade| place(trade.t));
            (all, updated)
        }
        Sought::OfAccount { ca, from, to } => {
            let site = tpce.customer_site(ca / 10)?;
            let step = TradesOfAccount { site, ca: *ca, from: *from, to: *to, change: how.clone() };
            if *how == Change::Nothing { txn.last(step).await? } else { txn.last(Changing(step)).await? }
        }
        Sought::OfSecurity { security, from, to } => {
            if *security >= geometry.securities() || r.home >= geometry.sites() {
                return Err(Abort::BadRequest);
            }
            let step = |site| TradesOfSecurity { site, security: *security, from: *from, to: *to };
            let of_sites = Each::<TradesOfSecurity>((0..geometry.sites()).map(step).collect());
            let place = geometry.place_of_security(*security, geometry.group_of(r.home));
            let facts = SecurityFacts { site: place, security: *security };
            let (found, (name, _)) = txn.all((of_sites, facts)).await?;
            let mut first: Vec<(i64, i64)> = found.into_iter().flatten().collect();
            first.sort_unstable();
            first.truncate(MOST);
            let how = how.clone().with_security(&name);
            let steps = by_site(first.into_iter().map(|(_, t)| t).collect(), &how);
            let (mut all, updated) = last_by_id(txn, steps).await?;
            all.sort_by_key(|trade| (trade.dts, trade.t));
            (all, updated)
        }
        Sought::Holdings { ca, from } => {
            let site = tpce.customer_site(ca / 10)?;
            let holdings = txn.last(ChangedHoldings { site, ca: *ca, from: *from }).await?;
            return Ok(TradeLookupReply { holdings, ..TradeLookupReply::default() });
        }
    };
    Ok(TradeLookupReply { trades, updated, ..TradeLookupReply::default() })
}
