//! Security-Detail: everything about a security and its company.

use super::geometry::{Geometry, security_of, symbol};
use super::ops::{found, key, scan_prefix, symbol_key, text};
use super::rows::*;
use super::{Tpce, route};
use base::Key;
use serde::{Deserialize, Serialize};
use txn::step::{Each, Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, Range};

/// Rows of FINANCIAL that a company has.
const QUARTERS: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SecurityDetailRequest {
    pub home: u32,
    pub security: u32,
    /// Whether the whole text of the news is wanted.
    pub whole_news: bool,
    /// Days of the market, from `start` on.
    pub days: u32,
    pub start: i64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SecurityDetailReply {
    pub name: String,
    pub company: String,
    pub ceo: String,
    pub rating: String,
    /// Line 1, town and division of the company's address, then of the exchange's.
    pub addresses: [[String; 3]; 2],
    pub exchange: String,
    pub num_out: i64,
    /// LT_PRICE, LT_OPEN_PRICE, LT_VOL.
    pub last: [i64; 3],
    /// Names of competing companies and of the industry in which they compete.
    pub competitors: Vec<(String, String)>,
    /// Year, quarter, revenue and net earnings, oldest first.
    pub financials: Vec<[i64; 4]>,
    /// Date, close, high, low and volume, oldest first.
    pub days: Vec<[i64; 5]>,
    /// Texts, or headlines with summaries.
    pub news: Vec<String>,
}

/// All that lies at the place of the security.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadSecurity {
    pub site: u32,
    pub request: SecurityDetailRequest,
}

/// The reply without the names of competitors, and the competitors' ids.
pub type Detail = (SecurityDetailReply, Vec<i64>);

/// CO_NAMEs at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompanyNames {
    pub site: u32,
    pub company: i64,
}

impl Step for CompanyNames {
    const ID: StepId = 15;
    const EFFECT: Effect = Effect::Reads;
    type Output = String;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<String, Abort> {
        let key = key(self.site, [self.company]);
        found(access.read(COMPANY, &key, |row| text(&row, company::CO_NAME)).await?)
    }
}

/// Line 1, town and division.
async fn address<A: Access>(access: &mut A, site: u32, id: i64) -> Result<[String; 3], Abort> {
    let of = |row: txn::Row<'_>| (text(&row, address::AD_LINE1), text(&row, address::AD_ZC_CODE));
    let (line, zip) = found(access.read(ADDRESS, &key(site, [id]), of).await?)?;
    let of = |row: txn::Row<'_>| (text(&row, zip_code::ZC_TOWN), text(&row, zip_code::ZC_DIV));
    let (town, division) = found(access.read(ZIP_CODE, &Key::new().str(&zip), of).await?)?;
    Ok([line, town, division])
}

impl ReadSecurity {
    async fn competitors<A: Access>(
        &self,
        access: &mut A,
        company: i64,
    ) -> Result<(Vec<String>, Vec<i64>), Abort> {
        let (mut industries, mut ids) = (Vec::new(), Vec::new());
        scan_prefix(access, COMPANY_COMPETITOR, &key(self.site, [company]), Direction::Forward, |_, row| {
            ids.push(row.int(company_competitor::CP_COMP_CO_ID));
            industries.push(text(&row, company_competitor::CP_IN_ID));
            Flow::More
        })
        .await?;
        for industry in &mut industries {
            let key = Key::new().str(industry);
            *industry = found(access.read(INDUSTRY, &key, |row| text(&row, industry::IN_NAME)).await?)?;
        }
        Ok((industries, ids))
    }

    async fn days<A: Access>(&self, access: &mut A) -> Result<Vec<[i64; 5]>, Abort> {
        use daily_market::*;
        let of = symbol_key(self.site, &symbol(self.request.security));
        let end = of.prefix_end();
        let (low, mut days) = (of.i64(self.request.start), Vec::new());
        let range = Range { low: Some(&low), high: end.as_deref() };
        access.expect(self.request.days as usize);
        access
            .scan(DAILY_MARKET, range, Direction::Forward, |_, row| {
                days.push([DM_DATE, DM_CLOSE, DM_HIGH, DM_LOW, DM_VOL].map(|column| row.int(column)));
                if days.len() < self.request.days as usize { Flow::More } else { Flow::Enough }
            })
            .await?;
        Ok(days)
    }

    async fn news<A: Access>(&self, access: &mut A, company: i64) -> Result<Vec<String>, Abort> {
        let mut ids = Vec::new();
        scan_prefix(access, NEWS_XREF_COMPANY, &key(self.site, [company]), Direction::Forward, |_, row| {
            ids.push(row.int(news_xref::NX_NI_ID));
            Flow::More
        })
        .await?;
        let mut news = Vec::new();
        for id in ids {
            use news_item::*;
            let of = |row: txn::Row<'_>| match self.request.whole_news {
                true => text(&row, NI_ITEM),
                false => format!("{}\n{}", row.text(NI_HEADLINE), row.text(NI_SUMMARY)),
            };
            news.push(found(access.read(NEWS_ITEM, &key(self.site, [id]), of).await?)?);
        }
        Ok(news)
    }
}

impl Step for ReadSecurity {
    const ID: StepId = 16;
    const EFFECT: Effect = Effect::Reads;
    type Output = Detail;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Detail, Abort> {
        let (site, symbol) = (self.site, symbol(self.request.security));
        debug_assert!(security_of(&symbol).is_some());
        let of_symbol = symbol_key(site, &symbol);
        let mut reply = SecurityDetailReply::default();
        let read = |row: txn::Row<'_>| {
            use security::*;
            reply.name = text(&row, S_NAME);
            reply.num_out = row.int(S_NUM_OUT);
            (row.int(S_CO_ID), text(&row, S_EX_ID))
        };
        let (company, exchange) = found(access.read(SECURITY, &of_symbol, read).await?)?;
        let read = |row: txn::Row<'_>| {
            use company::*;
            reply.company = text(&row, CO_NAME);
            reply.ceo = text(&row, CO_CEO);
            reply.rating = text(&row, CO_SP_RATE);
            row.int(CO_AD_ID)
        };
        let lives = found(access.read(COMPANY, &key(site, [company]), read).await?)?;
        let read = |row: txn::Row<'_>| {
            reply.exchange = text(&row, exchange::EX_NAME);
            row.int(exchange::EX_AD_ID)
        };
        let trades = found(access.read(EXCHANGE, &symbol_key(site, exchange.as_bytes()), read).await?)?;
        reply.addresses = [address(access, site, lives).await?, address(access, site, trades).await?];
        let (industries, ids) = self.competitors(access, company).await?;
        reply.competitors = industries.into_iter().map(|industry| (String::new(), industry)).collect();
        access.expect(QUARTERS);
        scan_prefix(access, FINANCIAL, &key(site, [company]), Direction::Forward, |_, row| {
            use financial::*;
            reply.financials.push([FI_YEAR, FI_QTR, FI_REVENUE, FI_NET_EARN].map(|column| row.int(column)));
            Flow::More
        })
        .await?;
        reply.days = self.days(access).await?;
        let read = |row: txn::Row<'_>| {
            use last_trade::*;
            [LT_PRICE, LT_OPEN_PRICE, LT_VOL].map(|column| row.int(column))
        };
        reply.last = found(access.read(LAST_TRADE, &of_symbol, read).await?)?;
        reply.news = self.news(access, company).await?;
        Ok((reply, ids))
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &SecurityDetailRequest,
    txn: &mut T,
) -> Result<SecurityDetailReply, Abort> {
    let geometry: &Geometry = &tpce.geometry;
    if r.security >= geometry.securities() || r.home >= geometry.sites() {
        return Err(Abort::BadRequest);
    }
    let group = geometry.group_of(r.home);
    let site = geometry.place_of_security(r.security, group);
    let (mut reply, ids) = txn.all(ReadSecurity { site, request: *r }).await?;
    if ids.iter().any(|id| *id >= i64::from(geometry.companies())) {
        return Err(Abort::BadRequest);
    }
    let step = |id: &i64| CompanyNames { site: geometry.place_of_company(*id as u32, group), company: *id };
    let names = txn.last(Each::<CompanyNames>(ids.iter().map(step).collect())).await?;
    reply.competitors.iter_mut().zip(names).for_each(|(competitor, name)| competitor.0 = name);
    Ok(reply)
}
