//! The trades of the initial days: the orders of a site's customers
//! arrive one after the other in trading time, complete when the price allows it, and change the
//! holdings in the order of their completion.

use super::fixed::{TRADE_TYPES, charge, commission_rate};
use super::geometry::{Geometry, stream, symbol};
use super::market::exchange_of;
use super::market_time::{Trigger, date_of, price, stamp, wait_for};
use super::ops::insert;
use super::people::{self, Crowd};
use super::rows::*;
use super::{Tpce, names, settle};
use crate::random::Random;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use txn::{Abort, Access};

/// One of 101 orders is rolled back, and its id is lost: those with this remainder.
pub(super) const DISCARDED: (i64, i64) = (101, 51);

/// The facts of an account that its trades need.
struct Account {
    ca: i64,
    broker: i64,
    tier: i64,
    tax_status: i64,
    /// The sum of the customer's rates, in hundred-thousandths.
    tax_rate: i64,
    basket: SmallVec<[u32; 18]>,
    owner: String,
    other: Option<String>,
}

/// An order, with its future.
struct Order {
    id: i64,
    account: usize,
    security: u32,
    trade_type: &'static str,
    is_sell: bool,
    quantity: i64,
    /// T_BID_PRICE, in cents.
    bid: i64,
    is_cash: bool,
    lifo: bool,
    by_other: bool,
    /// Trading times at which it was entered, submitted to the market, and completed.
    entered: i64,
    submitted: i64,
    completed: i64,
    /// T_TRADE_PRICE, in cents.
    price: i64,
    commission: i64,
}

/// The orders of a site, in the order of their entry.
struct Orders<'t> {
    tpce: &'t Tpce,
    site: u32,
    accounts: Vec<Account>,
    /// Of each customer of the site, its first account in `accounts`.
    first: Vec<usize>,
    crowd: Crowd,
    random: Random,
    next: i64,
}

/// T_EXEC_NAME.
pub(super) fn full_name(person: &names::Person) -> String {
    format!("{} {}", person.first, person.last)
}

/// A waiting time with a mean of one second, five at most, in ms.
pub(super) fn market_delay(random: &mut Random) -> i64 {
    ((-(1.0 - random.unit()).ln() * 1_000.0) as i64).min(5_000)
}

/// The price at which an order is traded while the market's is `current`: a limit order does not
/// trade beyond its limit.
pub(super) fn traded_at(trade_type: &[u8], current: i64, limit: i64) -> i64 {
    match trade_type {
        b"TLB" => current.min(limit),
        b"TLS" => current.max(limit),
        _ => current,
    }
}

impl<'t> Orders<'t> {
    fn new(tpce: &'t Tpce, site: u32) -> Orders<'t> {
        let geometry = &tpce.geometry;
        let (mut accounts, mut first) = (Vec::new(), Vec::new());
        for c in geometry.customers_of(site) {
            first.push(accounts.len());
            let owner = full_name(&names::person(c as u64));
            let tax_rate = people::taxes_of(c).iter().map(|(_, rate)| rate).sum();
            for ca in c * 10..c * 10 + geometry.accounts_of(c) {
                let other = people::permitted(ca).last().map(|id| full_name(&names::person(*id)));
                accounts.push(Account {
                    ca,
                    broker: geometry.broker_of(ca),
                    tier: geometry.tier_of(c),
                    tax_status: people::tax_status(ca),
                    tax_rate,
                    basket: geometry.basket_of(ca),
                    owner: owner.clone(),
                    other,
                });
            }
        }
        first.push(accounts.len());
        let crowd = Crowd::new(geometry, site..site + 1);
        Orders { tpce, site, accounts, first, crowd, random: stream(40, site.into()), next: 1 }
    }
}

impl Iterator for Orders<'_> {
    type Item = Order;

    fn next(&mut self) -> Option<Order> {
        let geometry = &self.tpce.geometry;
        if self.next % DISCARDED.0 == DISCARDED.1 {
            self.next += 1;
        }
        if self.next > geometry.initial {
            return None;
        }
        let n = self.next;
        self.next += 1;
        let random = &mut self.random;
        let c = (self.crowd.draw(random) - geometry.customers_of(self.site).start) as usize;
        let account = random.within(self.first[c] as u64..self.first[c + 1] as u64) as usize;
        let of = &self.accounts[account];
        let security = of.basket[random.within(0..of.basket.len() as u64) as usize];
        let trade_type = match random.between(0..=9) {
            0..3 => "TMB",
            3..6 => "TMS",
            6..8 => "TLB",
            8 => "TLS",
            _ => "TSL",
        };
        let is_sell = TRADE_TYPES.iter().any(|row| row.0 == trade_type && row.2 == 1);
        let quantity = 100 << random.between(0..=3);
        let limit = i64::from(random.between(2_000..=3_000));
        let is_cash = is_sell || !random.chance(16.0);
        let lifo = random.chance(35.0);
        let by_other = of.other.is_some() && random.chance(25.0);
        let tenth = f64::from(self.site % super::geometry::UNIT_SITES) / 10.0;
        let entered = ((n as f64 - 1.0 + tenth) * geometry.spacing_ms) as i64;
        let (submitted, bid) = match Trigger::of(trade_type.as_bytes()) {
            None => (entered, price(security, entered)),
            Some(trigger) => match wait_for(security, entered, trigger, limit) {
                0 => (entered + i64::from(random.between(500..=1_500)), limit),
                wait => (entered + wait, limit),
            },
        };
        let completed = submitted + market_delay(random) + 1_000;
        let price = traded_at(trade_type.as_bytes(), price(security, completed), limit);
        let rate = commission_rate(of.tier, exchange_of(security), quantity);
        Some(Order {
            id: Geometry::trade_id(self.site, n),
            account,
            security,
            trade_type,
            is_sell,
            quantity,
            bid,
            is_cash,
            lifo,
            by_other,
            entered,
            submitted,
            completed,
            price,
            commission: settle::commission(rate, quantity, price),
        })
    }
}

/// B_NUM_TRADES and B_COMM_TOTAL of a broker after the initial trades. Computed once for all
/// brokers of a unit: their customers are at all sites of the unit.
pub(super) fn broker_sums(tpce: &Tpce, broker: i64) -> (i64, i64) {
    let brokers = i64::from(super::geometry::UNIT_SITES);
    let unit = broker / brokers;
    let sums = tpce.broker_sums[unit as usize].get_or_init(|| {
        let mut sums = [(0, 0); super::geometry::UNIT_SITES as usize];
        for site in unit * brokers..(unit + 1) * brokers {
            let mut orders = Orders::new(tpce, site as u32);
            while let Some(order) = orders.next() {
                let sum = &mut sums[(orders.accounts[order.account].broker % brokers) as usize];
                *sum = (sum.0 + 1, sum.1 + order.commission);
            }
        }
        sums
    });
    sums[(broker % brokers) as usize]
}

/// A holding: trade, stamp, price, signed quantity.
struct Lot {
    t: i64,
    dts: i64,
    price: i64,
    quantity: i64,
}

/// The holdings of each account and security, oldest first.
type Book = BTreeMap<(i64, u32), VecDeque<Lot>>;

/// The change of one holding: its trade, and its quantity before and after.
type Change = (i64, i64, i64);

/// Applies a completed order: fills the changes of holdings, and returns the gain of the part
/// that was closed.
fn apply(book: &mut Book, account: &Account, order: &Order, changes: &mut Vec<Change>) -> i64 {
    let lots = book.entry((account.ca, order.security)).or_default();
    let mut open = if order.is_sell { -order.quantity } else { order.quantity };
    let (mut bought, mut sold) = (0, 0);
    // Lots of the other sign are closed.
    while let Some(lot) = if order.lifo { lots.back_mut() } else { lots.front_mut() } {
        if open == 0 || (lot.quantity > 0) == (open > 0) {
            break;
        }
        let closed = open.abs().min(lot.quantity.abs());
        let (buy, sell) = if lot.quantity > 0 { (lot.price, order.price) } else { (order.price, lot.price) };
        bought += closed * buy;
        sold += closed * sell;
        let before = lot.quantity;
        lot.quantity += closed * open.signum();
        open -= closed * open.signum();
        changes.push((lot.t, before, lot.quantity));
        if lot.quantity == 0 {
            if order.lifo {
                lots.pop_back()
            } else {
                lots.pop_front()
            };
        }
    }
    if open != 0 {
        changes.push((order.id, 0, open));
        lots.push_back(Lot { t: order.id, dts: stamp(order.completed), price: order.price, quantity: open });
    }
    sold - bought
}

pub(super) async fn load<A: Access>(tpce: &Tpce, site: u32, access: &mut A) -> Result<(), Abort> {
    let mut orders = Orders::new(tpce, site);
    let (mut book, mut changes) = (Book::new(), Vec::new());
    let mut open: BTreeMap<i64, Order> = BTreeMap::new();
    let mut due: BinaryHeap<Reverse<(i64, i64)>> = BinaryHeap::new();
    loop {
        let next = orders.next();
        let now = next.as_ref().map_or(i64::MAX, |order| order.entered);
        while let Some(Reverse((completed, id))) = due.peek().copied()
            && completed <= now
        {
            due.pop();
            let Some(order) = open.remove(&id) else { continue };
            let account = &orders.accounts[order.account];
            changes.clear();
            let gain = apply(&mut book, account, &order, &mut changes);
            insert_trade(tpce, site, account, &order, gain, &changes, access).await?;
        }
        let Some(order) = next else { break };
        due.push(Reverse((order.completed, order.id)));
        open.insert(order.id, order);
    }
    holdings(site, &book, access).await
}

async fn holdings<A: Access>(site: u32, book: &Book, access: &mut A) -> Result<(), Abort> {
    for ((ca, security), lots) in book.iter().filter(|(_, lots)| !lots.is_empty()) {
        let symbol = symbol(*security);
        insert(access, HOLDING_SUMMARY, |row| {
            row.set_int(holding_summary::P, site.into());
            row.set_int(holding_summary::HS_CA_ID, *ca);
            row.set_bytes(holding_summary::HS_S_SYMB, &symbol);
            row.set_int(holding_summary::HS_QTY, lots.iter().map(|lot| lot.quantity).sum());
        })
        .await?;
        for lot in lots {
            insert(access, HOLDING, |row| {
                use holding::*;
                row.set_int(P, site.into());
                row.set_int(H_T_ID, lot.t);
                row.set_int(H_CA_ID, *ca);
                row.set_bytes(H_S_SYMB, &symbol);
                row.set_int(H_DTS, lot.dts);
                row.set_int(H_PRICE, lot.price);
                row.set_int(H_QTY, lot.quantity);
            })
            .await?;
        }
    }
    Ok(())
}

/// Inserts the rows of a completed order, apart from the holdings themselves.
async fn insert_trade<A: Access>(
    tpce: &Tpce,
    site: u32,
    account: &Account,
    order: &Order,
    gain: i64,
    changes: &[Change],
    access: &mut A,
) -> Result<(), Abort> {
    let completed = stamp(order.completed);
    let fee = charge(order.trade_type, account.tier);
    let taxed = gain > 0 && account.tax_status != 0;
    let tax = if taxed { settle::tax(gain, account.tax_rate) } else { 0 };
    let amount = settle::amount(&settle::Settled {
        is_sell: order.is_sell,
        quantity: order.quantity,
        price: order.price,
        charge: fee,
        commission: order.commission,
        tax_withheld: if account.tax_status == 1 { tax } else { 0 },
    });
    insert(access, TRADE, |row| {
        use trade::*;
        row.set_int(P, site.into());
        row.set_int(T_ID, order.id);
        row.set_int(T_DTS, completed);
        row.set_text(T_ST_ID, "CMPT");
        row.set_text(T_TT_ID, order.trade_type);
        row.set_int(T_IS_CASH, order.is_cash.into());
        row.set_bytes(T_S_SYMB, &symbol(order.security));
        row.set_int(T_QTY, order.quantity);
        row.set_int(T_BID_PRICE, order.bid);
        row.set_int(T_CA_ID, account.ca);
        let other = account.other.as_ref().filter(|_| order.by_other);
        row.set_text(T_EXEC_NAME, other.unwrap_or(&account.owner));
        row.set_int(T_TRADE_PRICE, order.price);
        row.set_int(T_CHRG, fee);
        row.set_int(T_COMM, order.commission);
        row.set_int(T_TAX, tax);
        row.set_int(T_LIFO, order.lifo.into());
    })
    .await?;
    let limited = Trigger::of(order.trade_type.as_bytes()).is_some();
    let entered = limited.then_some(("PNDG", stamp(order.entered)));
    let steps = [("SBMT", stamp(order.submitted)), ("CMPT", completed)];
    for (status, dts) in entered.into_iter().chain(steps) {
        settle::history(access, order.id, status, dts).await?;
    }
    settle::insert_settlement(access, order.id, order.is_cash, date_of(completed) + 2, amount).await?;
    if order.is_cash {
        let name = TRADE_TYPES.iter().find(|row| row.0 == order.trade_type).map_or("", |row| row.1);
        let security = tpce.security_name(order.security);
        settle::insert_cash(access, order.id, completed, amount, (name, order.quantity, security)).await?;
    }
    for (holding, before, after) in changes {
        settle::holding_history(access, site, *holding, order.id, (*before, *after)).await?;
    }
    Ok(())
}
