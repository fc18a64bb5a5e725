//! Market-Watch: the change of the worth of some securities since a day: those on a customer's
//! watch list, those of an account, or those of an industry.

use super::customer_position::holdings_of;
use super::geometry::symbol;
use super::market_steps::by_place;
use super::ops::{found, key, scan_prefix, security_in, symbol_key};
use super::rows::*;
use super::{Tpce, route};
use base::Key;
use serde::{Deserialize, Serialize};
use txn::step::{Each, Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow, Range};

/// Rows of WATCH_ITEM that a list has on average.
const WATCHED: usize = 100;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Watched {
    /// The watch list of a customer.
    List(i64),
    /// The holdings of an account.
    Account(i64),
    /// The companies of an industry with ids from the second to before the third value.
    Industry(String, i64, i64),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MarketWatchRequest {
    pub home: u32,
    pub watched: Watched,
    /// The day with which prices are compared.
    pub day: i64,
}

/// The worth of all securities outstanding, in cents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MarketWatchReply {
    pub securities: u32,
    pub then: i64,
    pub now: i64,
}

impl MarketWatchReply {
    fn add(&mut self, other: MarketWatchReply) {
        self.securities += other.securities;
        self.then += other.then;
        self.now += other.now;
    }

    /// The change in per cent; 0 if there are no securities.
    pub fn change(&self) -> f64 {
        if self.then == 0 { 0.0 } else { 100.0 * (self.now as f64 / self.then as f64 - 1.0) }
    }
}

/// The securities of a watch list or an account.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListSecurities {
    pub site: u32,
    pub watched: Watched,
}

/// IN_ID of an industry's name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FindIndustry {
    pub home: u32,
    pub name: String,
}

/// The worth of securities at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worth {
    pub site: u32,
    pub day: i64,
    pub securities: Vec<u32>,
}

/// The worth of the securities of an industry at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IndustryWorth {
    pub site: u32,
    pub day: i64,
    pub industry: [u8; 2],
    pub companies: (i64, i64),
}

impl Step for ListSecurities {
    const ID: StepId = 11;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<u32>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<u32>, Abort> {
        let c = match self.watched {
            Watched::List(c) => c,
            Watched::Account(ca) => {
                let held = holdings_of(access, self.site, ca).await?;
                return Ok(held.into_iter().map(|(security, _)| security).collect());
            }
            Watched::Industry(..) => return Err(Abort::BadRequest),
        };
        let mut list = None;
        scan_prefix(access, WATCH_LIST_OWNER, &key(self.site, [c]), Direction::Forward, |_, row| {
            list = Some(row.int(watch_list::WL_ID));
            Flow::Enough
        })
        .await?;
        let (prefix, mut all, mut strange) = (key(self.site, [found(list)?]), Vec::new(), Ok(()));
        access.expect(WATCHED);
        scan_prefix(access, WATCH_ITEM, &prefix, Direction::Forward, |_, row| {
            match security_in(&row, watch_item::WI_S_SYMB) {
                Ok(security) => all.push(security),
                Err(abort) => strange = Err(abort),
            }
            Flow::More
        })
        .await?;
        strange.map(|()| all)
    }
}

impl Step for FindIndustry {
    const ID: StepId = 12;
    const EFFECT: Effect = Effect::Reads;
    type Output = [u8; 2];

    fn route(&self) -> Route {
        route(self.home)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<[u8; 2], Abort> {
        let mut id = None;
        scan_prefix(access, INDUSTRY_NAME, &Key::new().str(&self.name), Direction::Forward, |_, row| {
            id = <[u8; 2]>::try_from(row.bytes(industry::IN_ID)).ok();
            Flow::Enough
        })
        .await?;
        found(id)
    }
}

/// The worth of one security.
async fn worth<A: Access>(
    access: &mut A,
    site: u32,
    symbol: &[u8],
    day: i64,
) -> Result<MarketWatchReply, Abort> {
    let of = symbol_key(site, symbol);
    let new = found(access.read(LAST_TRADE, &of, |row| row.int(last_trade::LT_PRICE)).await?)?;
    let shares = found(access.read(SECURITY, &of, |row| row.int(security::S_NUM_OUT)).await?)?;
    let old = access.read(DAILY_MARKET, &of.i64(day), |row| row.int(daily_market::DM_CLOSE)).await?;
    Ok(MarketWatchReply { securities: 1, then: shares * found(old)?, now: shares * new })
}

impl Step for Worth {
    const ID: StepId = 13;
    const EFFECT: Effect = Effect::Reads;
    type Output = MarketWatchReply;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<MarketWatchReply, Abort> {
        let mut all = MarketWatchReply::default();
        for security in &self.securities {
            all.add(worth(access, self.site, &symbol(*security), self.day).await?);
        }
        Ok(all)
    }
}

impl Step for IndustryWorth {
    const ID: StepId = 14;
    const EFFECT: Effect = Effect::Reads;
    type Output = MarketWatchReply;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<MarketWatchReply, Abort> {
        let of = Key::new().i64(self.site.into()).bytes(&self.industry);
        let (low, high) = (of.clone().i64(self.companies.0), of.i64(self.companies.1));
        let mut companies = Vec::new();
        access
            .scan(COMPANY_INDUSTRY, Range::new(&low, &high), Direction::Forward, |_, row| {
                companies.push(row.int(company::CO_ID));
                Flow::More
            })
            .await?;
        let mut symbols = Vec::new();
        for company in companies {
            let prefix = key(self.site, [company]);
            scan_prefix(access, SECURITY_COMPANY, &prefix, Direction::Forward, |_, row| {
                symbols.push(super::ops::symbol_in(&row, security::S_SYMB));
                Flow::More
            })
            .await?;
        }
        let mut all = MarketWatchReply::default();
        for symbol in symbols {
            all.add(worth(access, self.site, &symbol, self.day).await?);
        }
        Ok(all)
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &MarketWatchRequest,
    txn: &mut T,
) -> Result<MarketWatchReply, Abort> {
    let geometry = &tpce.geometry;
    if r.home >= geometry.sites() {
        return Err(Abort::BadRequest);
    }
    let group = geometry.group_of(r.home);
    let parts = match &r.watched {
        Watched::Industry(name, from, to) => {
            let industry = txn.all(FindIndustry { home: r.home, name: name.clone() }).await?;
            let step = |site| IndustryWorth { site, day: r.day, industry, companies: (*from, *to) };
            txn.last(Each::<IndustryWorth>(geometry.sites_of_group(group).map(step).collect())).await?
        }
        Watched::List(_) | Watched::Account(_) => {
            let c = if let Watched::Account(ca) = r.watched { ca / 10 } else { watcher(r) };
            let site = tpce.customer_site(c)?;
            let list = txn.all(ListSecurities { site, watched: r.watched.clone() }).await?;
            let places = by_place(geometry, group, &list).into_iter();
            let step =
                |p: super::market_steps::Placed| Worth { site: p.site, day: r.day, securities: p.securities };
            txn.last(Each::<Worth>(places.map(step).collect())).await?
        }
    };
    let mut all = MarketWatchReply::default();
    parts.into_iter().for_each(|part| all.add(part));
    Ok(all)
}

/// The customer of a watch list.
fn watcher(r: &MarketWatchRequest) -> i64 {
    if let Watched::List(c) = r.watched { c } else { -1 }
}
