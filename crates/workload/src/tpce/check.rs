//! The consistency conditions.
//!
//! An instance checks the trades, holdings and balances of its own sites: conditions 3 to 7. For
//! conditions over instances it reports parts: the sums of brokers (1 and 2), which have accounts
//! at all sites of a unit; limit orders and their requests, which lie at different sites; and a
//! digest of each copy of LAST_TRADE.

use super::books::{Books, TpceAudit};
use super::geometry::first_security;
use super::rows::*;
use super::{Tpce, people};
use crate::findings::{Findings, check_cover};
use base::TableId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use txn::workload::Verdict;
use txn::{Abort, Access, Direction, Flow, Row};

async fn each<A: Access>(
    access: &mut A,
    table: TableId,
    rows: &mut Vec<(u16, u64)>,
    mut f: impl FnMut(&Row<'_>),
) -> Result<(), Abort> {
    let mut count = 0;
    access
        .scan(table, txn::Range::ALL, Direction::Forward, |_, row| {
            f(&row);
            count += 1;
            Flow::More
        })
        .await?;
    rows.push((table.0, count));
    Ok(())
}

/// Tables of which only the number of rows is checked.
const COUNTED: [TableId; 17] = [
    ACCOUNT_PERMISSION,
    CUSTOMER,
    CUSTOMER_TAXRATE,
    WATCH_ITEM,
    WATCH_LIST,
    COMPANY,
    COMPANY_COMPETITOR,
    DAILY_MARKET,
    EXCHANGE,
    FINANCIAL,
    NEWS_ITEM,
    NEWS_XREF,
    SECURITY,
    ADDRESS,
    TAXRATE,
    ZIP_CODE,
    COMMISSION_RATE,
];

pub(super) async fn audit<A: Access>(
    tpce: &Tpce,
    sites: Range<u32>,
    access: &mut A,
) -> Result<TpceAudit, Abort> {
    let (mut books, mut rows) = (Books::new(tpce, sites), Vec::new());
    each(access, TRADE, &mut rows, |row| books.trade(row)).await?;
    each(access, TRADE_HISTORY, &mut rows, |row| books.trade_history(row)).await?;
    each(access, SETTLEMENT, &mut rows, |row| books.settlement(row)).await?;
    each(access, CASH_TRANSACTION, &mut rows, |row| books.cash(row)).await?;
    each(access, CUSTOMER_ACCOUNT, &mut rows, |row| books.account(row)).await?;
    each(access, BROKER, &mut rows, |row| books.broker(row)).await?;
    each(access, HOLDING, &mut rows, |row| books.holding(row)).await?;
    each(access, HOLDING_SUMMARY, &mut rows, |row| books.summary(row)).await?;
    each(access, HOLDING_HISTORY, &mut rows, |row| books.holding_history(row)).await?;
    books.close_chain();
    each(access, TRADE_REQUEST, &mut rows, |row| books.request(row)).await?;
    each(access, LAST_TRADE, &mut rows, |row| books.last_trade(row)).await?;
    each(access, TRADE_SEQUENCE, &mut rows, |row| books.sequence(row)).await?;
    for table in COUNTED {
        each(access, table, &mut rows, |_| ()).await?;
    }
    Ok(books.close(rows))
}

/// Rows that do not change in number, for some sites.
fn expected(tpce: &Tpce, sites: Range<u32>) -> Vec<(TableId, u64)> {
    let geometry = &tpce.geometry;
    let customers: Vec<i64> = sites.clone().flat_map(|site| geometry.customers_of(site)).collect();
    let companies: Vec<u32> = sites.clone().flat_map(|site| geometry.companies_of(site)).collect();
    let (c, co, n) = (customers.len() as u64, companies.len() as u64, sites.len() as u64);
    let securities: u64 =
        companies.iter().map(|k| u64::from(first_security(k + 1) - first_security(*k))).sum();
    let accounts = |c: &i64| c * 10..c * 10 + geometry.accounts_of(*c);
    let permissions = |ca: i64| {
        let mut ids: BTreeSet<u64> = people::permitted(ca).into_iter().collect();
        ids.insert(ca as u64 / 10);
        ids.len() as u64
    };
    vec![
        (CUSTOMER, c),
        (CUSTOMER_ACCOUNT, customers.iter().map(|c| geometry.accounts_of(*c) as u64).sum()),
        (ACCOUNT_PERMISSION, customers.iter().flat_map(accounts).map(permissions).sum()),
        (CUSTOMER_TAXRATE, 2 * c),
        (WATCH_LIST, c),
        (WATCH_ITEM, customers.iter().map(|c| geometry.watched_by(*c).len() as u64).sum()),
        (BROKER, n),
        (COMPANY, co),
        (COMPANY_COMPETITOR, 3 * co),
        (FINANCIAL, 20 * co),
        (NEWS_ITEM, 2 * co),
        (NEWS_XREF, 2 * co),
        (SECURITY, securities),
        (LAST_TRADE, securities),
        (DAILY_MARKET, u64::from(tpce.options.market_days) * securities),
        (ADDRESS, c + co + 4 * n),
        (EXCHANGE, 4 * n),
        (TAXRATE, 320 * n),
        (TRADE_SEQUENCE, n),
        (ZIP_CODE, u64::from(super::names::ZIP_CODES)),
        (COMMISSION_RATE, 240),
    ]
}

/// `committed`: the number of Trade-Orders since loading.
pub(super) fn judge(tpce: &Tpce, audits: &[TpceAudit], committed: Option<u64>) -> Verdict {
    let mut findings = Findings::default();
    let schema = super::rows::schema(1);
    check_cover(audits.iter().map(|a| a.sites.clone()), tpce.geometry.sites(), &mut findings);
    for audit in audits {
        audit.damage.iter().for_each(|line| findings.add(|| line.clone()));
        for (table, rows) in expected(tpce, audit.sites.clone()) {
            let found = audit.rows.iter().find(|(id, _)| *id == table.0).map_or(0, |(_, n)| *n);
            let name = schema.table(table).map_or("", |table| &table.name);
            findings.expect(&format!("rows of {name}, sites {:?}", audit.sites), rows, found);
        }
    }
    let mut brokers: BTreeMap<i64, [i64; 4]> = BTreeMap::new();
    for (broker, sums) in audits.iter().flat_map(|a| &a.brokers) {
        brokers.entry(*broker).or_default().iter_mut().zip(sums).for_each(|(sum, n)| *sum += n);
    }
    for (broker, [trades, commissions, found, sum]) in brokers {
        findings.expect(&format!("1: B_NUM_TRADES of broker {broker} against trades"), found, trades);
        findings.expect(&format!("2: B_COMM_TOTAL of broker {broker} against trades"), sum, commissions);
    }
    let set = |of: fn(&TpceAudit) -> &Vec<(i64, i64)>| -> BTreeSet<(i64, i64)> {
        audits.iter().flat_map(of).copied().collect()
    };
    let (pending, requests) = (set(|a| &a.pending), set(|a| &a.requests));
    for (t, broker) in pending.symmetric_difference(&requests) {
        findings.add(|| format!("TRADE_REQUEST and pending trades disagree on trade {t}, broker {broker}"));
    }
    let mut feeds: BTreeMap<u32, u64> = BTreeMap::new();
    for (group, digest) in audits.iter().flat_map(|a| &a.feeds) {
        let sum = feeds.entry(*group).or_default();
        *sum = sum.wrapping_add(*digest);
    }
    if feeds.values().any(|digest| Some(digest) != feeds.values().next()) {
        findings.add(|| "LAST_TRADE: the copies of the market differ".into());
    }
    if let Some(committed) = committed {
        let orders = audits.iter().map(|a| a.orders).sum::<u64>();
        findings.expect("Trade-Orders committed", committed, orders);
    }
    findings.into_verdict()
}
