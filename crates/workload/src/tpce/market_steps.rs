//! Steps at the market: rows of a security that several transactions read.

use super::geometry::{Geometry, symbol};
use super::ops::{found, key, symbol_key, text};
use super::route;
use super::rows::*;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use txn::step::{Each, Effect, Route, Step, StepId};
use txn::{Abort, Access};

/// Securities at one place, with their positions in the list that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Placed {
    pub site: u32,
    pub securities: Vec<u32>,
    pub positions: Vec<u32>,
}

/// The securities of a list, by their places in a group's copy.
pub(super) fn by_place(geometry: &Geometry, group: u32, securities: &[u32]) -> Vec<Placed> {
    let mut all: Vec<Placed> = Vec::new();
    let mut at: SmallVec<[u32; 32]> = SmallVec::from_elem(u32::MAX, geometry.group as usize);
    let first = geometry.sites_of_group(group).start;
    for (position, security) in (0..).zip(securities) {
        let site = geometry.place_of_security(*security, group);
        let slot = &mut at[(site - first) as usize];
        if *slot == u32::MAX {
            *slot = all.len() as u32;
            all.push(Placed { site, ..Placed::default() });
        }
        let placed = &mut all[*slot as usize];
        placed.securities.push(*security);
        placed.positions.push(position);
    }
    // In one order: transactions that meet at several places wait for each other in no circle.
    all.sort_unstable_by_key(|placed| placed.site);
    all
}

/// Values of all places, in the order of the list that was asked for.
pub(super) fn in_order<T: Clone + Default>(
    places: &[Placed],
    values: impl IntoIterator<Item = Vec<T>>,
) -> Vec<T> {
    let mut all = vec![T::default(); places.iter().map(|p| p.positions.len()).sum()];
    for (place, values) in places.iter().zip(values) {
        for (position, value) in place.positions.iter().zip(values) {
            all[*position as usize] = value;
        }
    }
    all
}

/// LT_PRICE of securities at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Prices {
    pub site: u32,
    pub securities: Vec<u32>,
}

impl Prices {
    pub(super) fn at(places: &[Placed]) -> Each<Prices> {
        let of = |p: &Placed| Prices { site: p.site, securities: p.securities.clone() };
        Each(places.iter().map(of).collect())
    }
}

impl Step for Prices {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<i64>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<i64>, Abort> {
        let mut prices = Vec::with_capacity(self.securities.len());
        for security in &self.securities {
            let key = symbol_key(self.site, &symbol(*security));
            prices.push(found(access.read(LAST_TRADE, &key, |row| row.int(last_trade::LT_PRICE)).await?)?);
        }
        Ok(prices)
    }
}

/// S_NAME and S_EX_ID of securities at one place, and the name of the exchange.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SecurityNames {
    pub site: u32,
    pub securities: Vec<u32>,
}

impl SecurityNames {
    pub(super) fn at(places: &[Placed]) -> Each<SecurityNames> {
        let of = |p: &Placed| SecurityNames { site: p.site, securities: p.securities.clone() };
        Each(places.iter().map(of).collect())
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SecurityName {
    pub name: String,
    pub exchange: String,
    pub exchange_name: String,
}

impl Step for SecurityNames {
    const ID: StepId = 2;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<SecurityName>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<SecurityName>, Abort> {
        let mut names = Vec::with_capacity(self.securities.len());
        for security in &self.securities {
            let key = symbol_key(self.site, &symbol(*security));
            let of = |row: txn::Row<'_>| (text(&row, security::S_NAME), text(&row, security::S_EX_ID));
            let (name, exchange) = found(access.read(SECURITY, &key, of).await?)?;
            let key = symbol_key(self.site, exchange.as_bytes());
            let exchange_name =
                found(access.read(EXCHANGE, &key, |row| text(&row, exchange::EX_NAME)).await?)?;
            names.push(SecurityName { name, exchange, exchange_name });
        }
        Ok(names)
    }
}

/// S_NAME and S_EX_ID of one security.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SecurityFacts {
    pub site: u32,
    pub security: u32,
}

impl Step for SecurityFacts {
    const ID: StepId = 3;
    const EFFECT: Effect = Effect::Reads;
    type Output = (String, String);

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(String, String), Abort> {
        let key = symbol_key(self.site, &symbol(self.security));
        let of = |row: txn::Row<'_>| (text(&row, security::S_NAME), text(&row, security::S_EX_ID));
        found(access.read(SECURITY, &key, of).await?)
    }
}

/// B_NAME.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BrokerName {
    pub broker: i64,
}

impl Step for BrokerName {
    const ID: StepId = 4;
    const EFFECT: Effect = Effect::Reads;
    type Output = String;

    fn route(&self) -> Route {
        route(self.broker as u32)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<String, Abort> {
        let key = key(self.broker as u32, [self.broker]);
        found(access.read(BROKER, &key, |row| text(&row, broker::B_NAME)).await?)
    }
}
