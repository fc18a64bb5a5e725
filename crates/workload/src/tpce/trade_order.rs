//! Trade-Order: an order for an account; estimates of its cost; and its rows. One of 101 is rolled
//! back at the end.
//!
//! ```text
//! {R CUSTOMER_ACCOUNT, CUSTOMER, (PERMISSION) (c) || R SECURITY, COMPANY, LAST_TRADE (symbol)}
//!   -> {R HOLDING_SUMMARY, HOLDING (ca, symbol), rates || R BROKER (b)}
//!   -> (margin: R LAST_TRADE x k)
//!   -> {I TRADE, TRADE_HISTORY (t)} -> (limit: {I TRADE_REQUEST (symbol)}) -> commit, or rollback
//! ```
//!
//! The id of the trade is drawn from its site's sequence when the trade is inserted: the row is
//! locked for the last phase only.

use super::customer_position::holdings_of;
use super::geometry::{Geometry, ISSUES, first_security, symbol};
use super::market_steps::{BrokerName, Prices, by_place, in_order};
use super::market_time::Trigger;
use super::ops::{found, insert, key, scan_prefix, symbol_key, text};
use super::rows::*;
use super::{NOT_PERMITTED, ROLLED_BACK, Tpce, route, settle};
use base::Key;
use serde::{Deserialize, Serialize};
use txn::step::{Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, RowMut};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TradeOrderRequest {
    pub ca: i64,
    /// First name, last name and tax id of the executor.
    pub executor: [String; 3],
    pub security: u32,
    /// The company's name, if the security is given by it and by its issue.
    pub company: Option<String>,
    pub trade_type: [u8; 3],
    pub quantity: i64,
    /// The requested price of a limit order, in cents.
    pub price: i64,
    pub on_margin: bool,
    pub lifo: bool,
    pub roll_back: bool,
    pub now: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TradeOrderReply {
    pub t: i64,
    /// The requested price, or the market's for a market order.
    pub price: i64,
    pub buy_value: i64,
    pub sell_value: i64,
    pub tax: i64,
    pub commission: i64,
    pub charge: i64,
    /// Balance and worth of the holdings, for an order on margin.
    pub assets: Option<i64>,
    pub status: String,
    pub broker: String,
    pub company: String,
    pub security: String,
}

impl TradeOrderRequest {
    pub(super) fn is_limit(&self) -> bool {
        Trigger::of(&self.trade_type).is_some()
    }
}

fn is_sell(trade_type: [u8; 3]) -> bool {
    matches!(&trade_type, b"TMS" | b"TLS" | b"TSL")
}

/// Frames 1 and 2: the account, its owner, and the executor's permission.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderAccount {
    pub site: u32,
    pub ca: i64,
    pub executor: [String; 3],
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Orderer {
    pub broker: i64,
    pub c: i64,
    pub tax_status: i64,
    pub tier: i64,
    pub balance: i64,
    pub permitted: bool,
}

/// The security, given by symbol or by the name of its company and its issue.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OrderSecurity {
    pub site: u32,
    pub security: u32,
    pub company: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ordered {
    pub name: String,
    pub company: String,
    pub exchange: String,
    pub price: i64,
}

/// Frame 3 at the account's site.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    pub site: u32,
    pub ca: i64,
    pub c: i64,
    pub tier: i64,
    pub taxable: bool,
    pub security: u32,
    pub trade_type: [u8; 3],
    pub exchange: [u8; 6],
    pub quantity: i64,
    pub price: i64,
    pub lifo: bool,
    pub on_margin: bool,
    pub backward: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Estimated {
    pub buy_value: i64,
    pub sell_value: i64,
    pub tax: i64,
    /// CR_RATE.
    pub rate: i64,
    pub charge: i64,
    /// For an order on margin.
    pub held: Vec<(u32, i64)>,
}

/// Frame 4: the trade; returns its id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InsertTrade {
    pub site: u32,
    pub ca: i64,
    pub executor: String,
    pub security: u32,
    pub trade_type: [u8; 3],
    pub quantity: i64,
    pub price: i64,
    pub is_cash: bool,
    pub lifo: bool,
    pub charge: i64,
    pub commission: i64,
    pub now: i64,
}

/// Frame 4: the request of a limit order, at the place of its security.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InsertRequest {
    pub site: u32,
    pub t: i64,
    pub security: u32,
    pub trade_type: [u8; 3],
    pub quantity: i64,
    pub bid: i64,
    pub broker: i64,
}

impl Step for OrderAccount {
    const ID: StepId = 24;
    const EFFECT: Effect = Effect::Reads;
    type Output = Orderer;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Orderer, Abort> {
        let mut orderer = Orderer::default();
        let read = |row: txn::Row<'_>| {
            use customer_account::*;
            orderer.broker = row.int(CA_B_ID);
            orderer.c = row.int(CA_C_ID);
            orderer.tax_status = row.int(CA_TAX_ST);
            orderer.balance = row.int(CA_BAL);
        };
        found(access.read(CUSTOMER_ACCOUNT, &key(self.site, [self.ca]), read).await?)?;
        let [first, last, tax_id] = &self.executor;
        let read = |row: txn::Row<'_>| {
            use customer::*;
            orderer.tier = row.int(C_TIER);
            orderer.permitted =
                row.text(C_F_NAME) == first && row.text(C_L_NAME) == last && row.text(C_TAX_ID) == tax_id;
        };
        found(access.read(CUSTOMER, &key(self.site, [orderer.c]), read).await?)?;
        if !orderer.permitted {
            let key = key(self.site, [self.ca]).str(tax_id);
            let read = |row: txn::Row<'_>| {
                use account_permission::*;
                row.text(AP_F_NAME) == first && row.text(AP_L_NAME) == last
            };
            orderer.permitted = access.read(ACCOUNT_PERMISSION, &key, read).await? == Some(true);
        }
        Ok(orderer)
    }
}

impl Step for OrderSecurity {
    const ID: StepId = 25;
    const EFFECT: Effect = Effect::Reads;
    type Output = Ordered;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Ordered, Abort> {
        let mut ordered = Ordered::default();
        let mut symbol = symbol(self.security);
        if let Some(name) = &self.company {
            let prefix = Key::new().i64(self.site.into()).str(name);
            let mut company = None;
            scan_prefix(access, COMPANY_NAME, &prefix, Direction::Forward, |_, row| {
                company = Some(row.int(company::CO_ID));
                Flow::Enough
            })
            .await?;
            let company = found(company)?;
            let issue = self.security.checked_sub(first_security(company as u32)).ok_or(Abort::BadRequest)?;
            let issue = ISSUES.get(issue as usize).ok_or(Abort::BadRequest)?.0;
            let prefix = key(self.site, [company]).str(issue);
            let mut of_company = None;
            scan_prefix(access, SECURITY_COMPANY, &prefix, Direction::Forward, |_, row| {
                of_company = Some(super::ops::symbol_in(&row, security::S_SYMB));
                Flow::Enough
            })
            .await?;
            symbol = found(of_company)?;
        }
        let of_symbol = symbol_key(self.site, &symbol);
        let read = |row: txn::Row<'_>| {
            use security::*;
            ordered.name = text(&row, S_NAME);
            ordered.exchange = text(&row, S_EX_ID);
            row.int(S_CO_ID)
        };
        let company = found(access.read(SECURITY, &of_symbol, read).await?)?;
        let read = |row: txn::Row<'_>| text(&row, company::CO_NAME);
        ordered.company = found(access.read(COMPANY, &key(self.site, [company]), read).await?)?;
        let read = |row: txn::Row<'_>| row.int(last_trade::LT_PRICE);
        ordered.price = found(access.read(LAST_TRADE, &of_symbol, read).await?)?;
        Ok(ordered)
    }
}

/// The sum of a customer's tax rates, in hundred-thousandths.
pub(super) async fn tax_rate<A: Access>(access: &mut A, site: u32, c: i64) -> Result<i64, Abort> {
    let mut ids: smallvec::SmallVec<[[u8; 4]; 2]> = smallvec::SmallVec::new();
    scan_prefix(access, CUSTOMER_TAXRATE, &key(site, [c]), Direction::Forward, |_, row| {
        ids.extend(<[u8; 4]>::try_from(row.bytes(customer_taxrate::CX_TX_ID)));
        Flow::More
    })
    .await?;
    let mut sum = 0;
    for id in ids {
        let key = symbol_key(site, &id);
        sum += found(access.read(TAXRATE, &key, |row| row.int(taxrate::TX_RATE)).await?)?;
    }
    Ok(sum)
}

/// CR_RATE.
pub(super) async fn commission_rate<A: Access>(
    access: &mut A,
    tier: i64,
    trade_type: [u8; 3],
    exchange: &str,
    quantity: i64,
) -> Result<i64, Abort> {
    use commission_rate::*;
    let prefix = Key::new().i64(tier).bytes(&trade_type).str(exchange);
    let mut rate = None;
    // The last row that begins at the quantity or below.
    let high = prefix.clone().i64(quantity + 1);
    access
        .scan(COMMISSION_RATE, txn::Range::new(&prefix, &high), Direction::Backward, |_, row| {
            rate = (row.int(CR_TO_QTY) >= quantity).then(|| row.int(CR_RATE));
            Flow::Enough
        })
        .await?;
    found(rate.filter(|rate| *rate > 0))
}

impl Step for Estimate {
    const ID: StepId = 26;
    const EFFECT: Effect = Effect::Reads;
    type Output = Estimated;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Estimated, Abort> {
        let mut estimated = Estimated::default();
        let symbol = symbol(self.security);
        let of_holding = key(self.site, [self.ca]).bytes(&symbol);
        let held = access.read(HOLDING_SUMMARY, &of_holding, |row| row.int(holding_summary::HS_QTY)).await?;
        let (is_sell, held) = (is_sell(self.trade_type), held.unwrap_or(0));
        if (is_sell && held > 0) || (!is_sell && held < 0) {
            let mut needed = self.quantity;
            let mut take = |row: txn::Row<'_>| {
                let lot = row.int(holding::H_QTY).abs().min(needed);
                let (old, new) = (lot * row.int(holding::H_PRICE), lot * self.price);
                let (buy, sell) = if is_sell { (old, new) } else { (new, old) };
                estimated.buy_value += buy;
                estimated.sell_value += sell;
                needed -= lot;
                needed > 0
            };
            walk_holdings(access, (self.site, self.ca, &symbol), self.lifo, self.backward, &mut take).await?;
        }
        let gain = estimated.sell_value - estimated.buy_value;
        if gain > 0 && self.taxable {
            estimated.tax = settle::tax(gain, tax_rate(access, self.site, self.c).await?);
        }
        let exchange = std::str::from_utf8(&self.exchange).map_err(|_| Abort::BadRequest)?.trim_end();
        let rate = commission_rate(access, self.tier, self.trade_type, exchange, self.quantity);
        estimated.rate = rate.await?;
        let of_charge = Key::new().bytes(&self.trade_type).i64(self.tier);
        estimated.charge = found(access.read(CHARGE, &of_charge, |row| row.int(charge::CH_CHRG)).await?)?;
        if self.on_margin {
            estimated.held = holdings_of(access, self.site, self.ca).await?;
        }
        Ok(estimated)
    }
}

/// Visits the holdings of an account in a security by age, the newest first if `lifo`, until `take`
/// returns `false`.
async fn walk_holdings<A: Access>(
    access: &mut A,
    (site, ca, symbol): (u32, i64, &[u8]),
    lifo: bool,
    backward: bool,
    take: &mut impl FnMut(txn::Row<'_>) -> bool,
) -> Result<(), Abort> {
    let prefix = key(site, [ca]).bytes(symbol);
    let direction = if lifo && backward { Direction::Backward } else { Direction::Forward };
    if lifo && !backward {
        // Without scans backward, all are read to find the newest.
        let mut keys = Vec::new();
        scan_prefix(access, HOLDING_ACCOUNT, &prefix, Direction::Forward, |_, row| {
            keys.push(row.int(holding::H_T_ID));
            Flow::More
        })
        .await?;
        for t in keys.into_iter().rev() {
            if !found(access.read(HOLDING, &key(site, [t]), &mut *take).await?)? {
                break;
            }
        }
        return Ok(());
    }
    scan_prefix(access, HOLDING_ACCOUNT, &prefix, direction, |_, row| {
        if take(row) { Flow::More } else { Flow::Enough }
    })
    .await
}

impl Step for InsertTrade {
    const ID: StepId = 27;
    type Output = i64;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let draw = |row: &mut RowMut<'_>| {
            use trade_sequence::*;
            let n = row.int(TQ_NEXT);
            row.set_int(TQ_NEXT, n + 1);
            row.set_int(TQ_DTS, row.int(TQ_DTS).max(self.now));
            n
        };
        let n = found(access.update(TRADE_SEQUENCE, &key(self.site, []), draw).await?)?;
        let t = Geometry::trade_id(self.site, n);
        let status = if Trigger::of(&self.trade_type).is_some() { "PNDG" } else { "SBMT" };
        insert(access, TRADE, |row| {
            use trade::*;
            row.set_int(P, self.site.into());
            row.set_int(T_ID, t);
            row.set_int(T_DTS, self.now);
            row.set_text(T_ST_ID, status);
            row.set_bytes(T_TT_ID, &self.trade_type);
            row.set_int(T_IS_CASH, self.is_cash.into());
            row.set_bytes(T_S_SYMB, &symbol(self.security));
            row.set_int(T_QTY, self.quantity);
            row.set_int(T_BID_PRICE, self.price);
            row.set_int(T_CA_ID, self.ca);
            row.set_text(T_EXEC_NAME, &self.executor);
            row.set_int(T_CHRG, self.charge);
            row.set_int(T_COMM, self.commission);
            row.set_int(T_LIFO, self.lifo.into());
        })
        .await?;
        settle::history(access, t, status, self.now).await?;
        Ok(t)
    }
}

impl Step for InsertRequest {
    const ID: StepId = 28;
    type Output = ();

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        insert(access, TRADE_REQUEST, |row| {
            use trade_request::*;
            row.set_int(P, self.site.into());
            row.set_int(TR_T_ID, self.t);
            row.set_bytes(TR_TT_ID, &self.trade_type);
            row.set_bytes(TR_S_SYMB, &symbol(self.security));
            row.set_int(TR_QTY, self.quantity);
            row.set_int(TR_BID_PRICE, self.bid);
            row.set_int(TR_B_ID, self.broker);
        })
        .await
    }
}

/// The worth of holdings, at the market's prices.
async fn worth<T: Transaction>(
    tpce: &Tpce,
    site: u32,
    held: &[(u32, i64)],
    txn: &mut T,
) -> Result<i64, Abort> {
    if held.is_empty() {
        return Ok(0);
    }
    let securities: Vec<u32> = held.iter().map(|(security, _)| *security).collect();
    let places = by_place(&tpce.geometry, tpce.geometry.group_of(site), &securities);
    let prices = in_order(&places, txn.all(Prices::at(&places)).await?);
    Ok(held.iter().zip(prices).map(|((_, quantity), price)| quantity * price).sum())
}

/// The step of frame 3.
fn estimate(
    tpce: &Tpce,
    r: &TradeOrderRequest,
    (orderer, ordered): (&Orderer, &Ordered),
    price: i64,
) -> Result<Estimate, Abort> {
    let mut exchange = [b' '; 6];
    exchange.iter_mut().zip(ordered.exchange.bytes()).for_each(|(to, from)| *to = from);
    Ok(Estimate {
        site: tpce.customer_site(r.ca / 10)?,
        ca: r.ca,
        c: orderer.c,
        tier: orderer.tier,
        taxable: orderer.tax_status != 0,
        security: r.security,
        trade_type: r.trade_type,
        exchange,
        quantity: r.quantity,
        price,
        lifo: r.lifo,
        on_margin: r.on_margin,
        backward: tpce.options.backward,
    })
}

/// The step of frame 4 at the account's site.
fn insert_of(r: &TradeOrderRequest, site: u32, price: i64, (charge, commission): (i64, i64)) -> InsertTrade {
    InsertTrade {
        site,
        ca: r.ca,
        executor: format!("{} {}", r.executor[0], r.executor[1]),
        security: r.security,
        trade_type: r.trade_type,
        quantity: r.quantity,
        price,
        is_cash: !r.on_margin,
        lifo: r.lifo,
        charge,
        commission,
        now: r.now,
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &TradeOrderRequest,
    txn: &mut T,
) -> Result<TradeOrderReply, Abort> {
    let site = tpce.customer_site(r.ca / 10)?;
    let known = super::fixed::TRADE_TYPES.iter().any(|row| row.0.as_bytes() == r.trade_type);
    if r.security >= tpce.geometry.securities()
        || !known
        || !(1..=999_999).contains(&r.quantity)
        || !PRICES.contains(&r.price)
    {
        return Err(Abort::BadRequest);
    }
    let place = tpce.geometry.place_of_security(r.security, tpce.geometry.group_of(site));
    let account = OrderAccount { site, ca: r.ca, executor: r.executor.clone() };
    let security = OrderSecurity { site: place, security: r.security, company: r.company.clone() };
    let (orderer, ordered) = txn.all((account, security)).await?;
    if !orderer.permitted {
        return Err(Abort::User(NOT_PERMITTED));
    }
    let price = if r.is_limit() { r.price } else { ordered.price };
    let estimate = estimate(tpce, r, (&orderer, &ordered), price)?;
    let (estimated, broker) = txn.all((estimate, BrokerName { broker: orderer.broker })).await?;
    let assets = match r.on_margin {
        true => Some(orderer.balance + worth(tpce, site, &estimated.held, txn).await?),
        false => None,
    };
    let commission = settle::commission(estimated.rate, r.quantity, price);
    let trade = insert_of(r, site, price, (estimated.charge, commission));
    let t = if r.is_limit() || r.roll_back { txn.all(trade).await? } else { txn.last(trade).await? };
    if r.is_limit() {
        let request = InsertRequest {
            site: place,
            t,
            security: r.security,
            trade_type: r.trade_type,
            quantity: r.quantity,
            bid: price,
            broker: orderer.broker,
        };
        if r.roll_back { txn.all(request).await? } else { txn.last(request).await? }
    }
    if r.roll_back {
        return Err(Abort::User(ROLLED_BACK));
    }
    Ok(TradeOrderReply {
        t,
        price,
        buy_value: estimated.buy_value,
        sell_value: estimated.sell_value,
        tax: estimated.tax,
        commission,
        charge: estimated.charge,
        assets,
        status: if r.is_limit() { "PNDG" } else { "SBMT" }.into(),
        broker,
        company: ordered.company,
        security: ordered.name,
    })
}
