//! The market's initial rows: companies, with their news and figures, and their securities.

use super::Tpce;
use super::fixed::{EXCHANGES, INDUSTRIES, address, industry_id};
use super::geometry::{self, Geometry, ISSUES, stream};
use super::market_time::{self, date, market_day, midnight};
use super::names;
use super::ops::insert;
use super::rows::*;
use crate::random::Random;
use txn::{Abort, Access};

const RATINGS: usize = 39;

/// The industry of a company: uneven, at least 4 companies of 5,000 each.
pub(super) fn industry_of(company: u32) -> u32 {
    // Each industry has the same chance in four of ten draws; the others prefer the first ones.
    let mut random = stream(30, company.into());
    if random.chance(40.0) {
        random.between(0..=INDUSTRIES - 1)
    } else {
        (random.unit() * random.unit() * f64::from(INDUSTRIES)) as u32
    }
}

/// The exchange of a security.
pub(super) fn exchange_of(security: u32) -> &'static str {
    let draw = stream(31, security.into()).between(0..=6_849);
    let at = [1_704, 3_453, 5_119].iter().filter(|end| draw >= **end).count();
    EXCHANGES[at].0
}

/// One of the 39 ratings of three letters.
fn rating(n: usize) -> &'static str {
    const ALL: [&str; RATINGS] = [
        "AAA", "AAB", "AAC", "ABA", "ABB", "ABC", "ACA", "ACB", "ACC", "BAA", "BAB", "BAC", "BBA", "BBB",
        "BBC", "BCA", "BCB", "BCC", "CAA", "CAB", "CAC", "CBA", "CBB", "CBC", "CCA", "CCB", "CCC", "A++",
        "A+ ", "A  ", "A- ", "B++", "B+ ", "B  ", "B- ", "C++", "C+ ", "C  ", "C- ",
    ];
    ALL[n]
}

pub(super) async fn load<A: Access>(tpce: &Tpce, site: u32, access: &mut A) -> Result<(), Abort> {
    exchanges(&tpce.geometry, site, access).await?;
    insert(access, TRADE_SEQUENCE, |row| {
        row.set_int(trade_sequence::P, site.into());
        row.set_int(trade_sequence::TQ_NEXT, tpce.geometry.initial + 1);
        row.set_int(trade_sequence::TQ_DTS, tpce.load_end());
    })
    .await?;
    for company in tpce.geometry.companies_of(site) {
        load_company(tpce, site, company, access).await?;
        let first = geometry::first_security(company);
        for security in first..first + geometry::securities_of_company(company) {
            load_security(tpce, site, security, access).await?;
        }
    }
    Ok(())
}

/// A copy of the four exchanges and their addresses for each site: Data-Maintenance changes them
/// all, and every look-up finds them at home.
async fn exchanges<A: Access>(geometry: &Geometry, site: u32, access: &mut A) -> Result<(), Abort> {
    for (n, (id, name)) in (0..).zip(EXCHANGES) {
        let listed = (0..geometry.securities()).filter(|s| exchange_of(*s) == id).count();
        insert(access, EXCHANGE, |row| {
            use exchange::*;
            row.set_int(P, site.into());
            row.set_text(EX_ID, id);
            row.set_text(EX_NAME, name);
            row.set_int(EX_NUM_SYMB, listed as i64);
            row.set_int(EX_OPEN, 930);
            row.set_int(EX_CLOSE, 1_600);
            row.set_text(EX_DESC, &format!("{name}, an exchange for securities"));
            row.set_int(EX_AD_ID, n);
        })
        .await?;
        address(access, site, n, 3_000 + n as u32).await?;
    }
    Ok(())
}

async fn load_company<A: Access>(tpce: &Tpce, site: u32, company: u32, access: &mut A) -> Result<(), Abort> {
    let mut random = stream(32, company.into());
    let id = i64::from(company);
    insert(access, COMPANY, |row| {
        use company::*;
        row.set_int(P, site.into());
        row.set_int(CO_ID, id);
        row.set_text(CO_ST_ID, "ACTV");
        row.set_text(CO_NAME, &names::company_name(company));
        row.set_text(CO_IN_ID, &industry_id(industry_of(company)));
        row.set_text(CO_SP_RATE, &format!("{} ", rating(random.within(0..RATINGS as u64) as usize)));
        row.set_text(CO_CEO, &names::prose(&mut random, 30));
        row.set_int(CO_AD_ID, Geometry::address_of_company(company));
        let length = random.between(100..=150) as usize;
        row.set_text(CO_DESC, &names::prose(&mut random, length));
        let span = date(2000, 1, 2) - date(1800, 1, 1);
        row.set_int(CO_OPEN_DATE, date(1800, 1, 1) + random.within(0..span as u64) as i64);
    })
    .await?;
    address(access, site, Geometry::address_of_company(company), names::draw_zip(&mut random)).await?;
    competitors(tpce, site, company, &mut random, access).await?;
    financials(site, id, &mut random, access).await?;
    news(tpce, site, id, &mut random, access).await
}

async fn competitors<A: Access>(
    tpce: &Tpce,
    site: u32,
    company: u32,
    random: &mut Random,
    access: &mut A,
) -> Result<(), Abort> {
    let mut all: Vec<u32> = Vec::new();
    while all.len() < 3 {
        let other = random.between(0..=tpce.geometry.companies() - 1);
        if other != company && !all.contains(&other) {
            all.push(other);
        }
    }
    for other in all {
        let industry = if random.chance(90.0) { industry_of(company) } else { industry_of(other) };
        insert(access, COMPANY_COMPETITOR, |row| {
            row.set_int(company_competitor::P, site.into());
            row.set_int(company_competitor::CP_CO_ID, company.into());
            row.set_int(company_competitor::CP_COMP_CO_ID, other.into());
            row.set_text(company_competitor::CP_IN_ID, &industry_id(industry));
        })
        .await?;
    }
    Ok(())
}

/// Twenty quarters from 2000 on.
async fn financials<A: Access>(
    site: u32,
    company: i64,
    random: &mut Random,
    access: &mut A,
) -> Result<(), Abort> {
    let mut value = random.within(1_000_000_000..1_600_000_000) as f64;
    let shares = random.within(400_000_000..900_000_000) as i64;
    for quarter in 0..20 {
        value *= 0.9 + random.unit() * 0.25;
        let cents = |part: f64| (value * part) as i64;
        insert(access, FINANCIAL, |row| {
            use financial::*;
            row.set_int(P, site.into());
            row.set_int(FI_CO_ID, company);
            row.set_int(FI_YEAR, 2_000 + quarter / 4);
            row.set_int(FI_QTR, quarter % 4 + 1);
            row.set_int(FI_QTR_START_DATE, date(2_000 + quarter / 4, quarter % 4 * 3 + 1, 1));
            row.set_int(FI_REVENUE, cents(1.0));
            row.set_int(FI_NET_EARN, cents(0.1));
            row.set_int(FI_BASIC_EPS, cents(10.0) / shares);
            row.set_int(FI_DILUT_EPS, cents(9.0) / shares);
            row.set_int(FI_MARGIN, 10);
            row.set_int(FI_INVENTORY, cents(0.3));
            row.set_int(FI_ASSETS, cents(3.0));
            row.set_int(FI_LIABILITY, cents(2.0));
            row.set_int(FI_OUT_BASIC, shares);
            row.set_int(FI_OUT_DILUT, shares + shares / 10);
        })
        .await?;
    }
    Ok(())
}

async fn news<A: Access>(
    tpce: &Tpce,
    site: u32,
    company: i64,
    random: &mut Random,
    access: &mut A,
) -> Result<(), Abort> {
    for id in company * 2 + 1..=company * 2 + 2 {
        let text = names::prose(random, tpce.options.news_bytes as usize);
        insert(access, NEWS_ITEM, |row| {
            use news_item::*;
            row.set_int(P, site.into());
            row.set_int(NI_ID, id);
            row.set_text(NI_HEADLINE, &text[..text.len().min(80)]);
            row.set_text(NI_SUMMARY, &text[..text.len().min(255)]);
            row.set_text(NI_ITEM, &text);
            let age = random.within(0..50) as i64;
            row.set_int(NI_DTS, midnight(date(2005, 1, 3) - age));
            row.set_text(NI_SOURCE, &names::prose(random, 20));
            row.set_text(NI_AUTHOR, &names::prose(random, 20));
        })
        .await?;
        insert(access, NEWS_XREF, |row| {
            row.set_int(news_xref::P, site.into());
            row.set_int(news_xref::NX_NI_ID, id);
            row.set_int(news_xref::NX_CO_ID, company);
        })
        .await?;
    }
    Ok(())
}

async fn load_security<A: Access>(
    tpce: &Tpce,
    site: u32,
    security: u32,
    access: &mut A,
) -> Result<(), Abort> {
    let (mut random, symbol) = (stream(33, security.into()), geometry::symbol(security));
    let company = geometry::company_of(security);
    insert(access, SECURITY, |row| {
        use security::*;
        row.set_int(P, site.into());
        row.set_bytes(S_SYMB, &symbol);
        row.set_text(S_ISSUE, ISSUES[(security - geometry::first_security(company)) as usize].0);
        row.set_text(S_ST_ID, "ACTV");
        row.set_text(S_NAME, &names::security_name(security));
        row.set_text(S_EX_ID, exchange_of(security));
        row.set_int(S_CO_ID, company.into());
        row.set_int(S_NUM_OUT, num_out(security));
        row.set_int(S_START_DATE, date(2000, 1, 3) - random.within(1..36_500) as i64);
        row.set_int(S_EXCH_DATE, date(2000, 1, 3) - random.within(1..36_500) as i64);
        row.set_int(S_PE, random.within(100..12_001) as i64);
        row.set_int(S_52WK_HIGH, random.within(2_800..3_201) as i64);
        row.set_int(S_52WK_HIGH_DATE, date(2004, 1, 3) + random.within(0..365) as i64);
        row.set_int(S_52WK_LOW, random.within(1_800..2_201) as i64);
        row.set_int(S_52WK_LOW_DATE, date(2004, 1, 3) + random.within(0..365) as i64);
        if random.chance(60.0) {
            row.set_int(S_DIVIDEND, random.within(1..1_001) as i64);
            row.set_int(S_YIELD, random.within(1..1_001) as i64);
        }
    })
    .await?;
    insert(access, LAST_TRADE, |row| {
        let price = market_time::price(security, 0);
        row.set_int(last_trade::P, site.into());
        row.set_bytes(last_trade::LT_S_SYMB, &symbol);
        row.set_int(last_trade::LT_DTS, tpce.load_end());
        row.set_int(last_trade::LT_PRICE, price);
        row.set_int(last_trade::LT_OPEN_PRICE, price);
    })
    .await?;
    for day in 0..i64::from(tpce.options.market_days) {
        insert(access, DAILY_MARKET, |row| {
            use daily_market::*;
            row.set_int(P, site.into());
            row.set_bytes(DM_S_SYMB, &symbol);
            row.set_int(DM_DATE, market_day(day));
            let close = random.within(2_000..3_001) as i64;
            row.set_int(DM_CLOSE, close);
            row.set_int(DM_HIGH, close * 105 / 100);
            row.set_int(DM_LOW, close * 92 / 100);
            row.set_int(DM_VOL, random.within(1_000..10_001) as i64);
        })
        .await?;
    }
    Ok(())
}

/// S_NUM_OUT.
pub(super) fn num_out(security: u32) -> i64 {
    stream(34, security.into()).within(4_000_000..9_500_000_000) as i64
}
