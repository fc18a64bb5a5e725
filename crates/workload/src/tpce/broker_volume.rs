//! Broker-Volume: the open limit orders of some brokers for the securities of one sector.

use super::geometry::security_of;
use super::ops::{scan_prefix, text};
use super::rows::*;
use super::{Tpce, route};
use base::Key;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use txn::step::{Each, Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow};

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BrokerVolumeRequest {
    pub home: u32,
    /// Names of brokers, each with the site that has its row.
    pub brokers: Vec<(u32, String)>,
    pub sector: String,
}

/// The brokers that have such orders, with their volume in cents, the largest first.
pub type BrokerVolumeReply = Vec<(String, i64)>;

/// B_ID of a broker's name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FindBroker {
    pub site: u32,
    pub name: String,
}

/// The industries of a sector, given by its name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SectorIndustries {
    pub home: u32,
    pub sector: String,
}

/// The volume of brokers in the securities of some industries at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SectorVolumes {
    pub site: u32,
    pub industries: Vec<[u8; 2]>,
    pub brokers: Vec<i64>,
}

impl Step for FindBroker {
    const ID: StepId = 5;
    const EFFECT: Effect = Effect::Reads;
    type Output = Option<i64>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Option<i64>, Abort> {
        let prefix = Key::new().i64(self.site.into()).str(&self.name);
        let mut id = None;
        scan_prefix(access, BROKER_NAME, &prefix, Direction::Forward, |_, row| {
            id = Some(row.int(broker::B_ID));
            Flow::Enough
        })
        .await?;
        Ok(id)
    }
}

impl Step for SectorIndustries {
    const ID: StepId = 6;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<[u8; 2]>;

    fn route(&self) -> Route {
        route(self.home)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<[u8; 2]>, Abort> {
        let mut sector = None;
        let prefix = Key::new().str(&self.sector);
        scan_prefix(access, SECTOR_NAME, &prefix, Direction::Forward, |_, row| {
            sector = Some(text(&row, sector::SC_ID));
            Flow::Enough
        })
        .await?;
        let prefix = Key::new().str(&sector.ok_or(Abort::BadRequest)?);
        let mut industries = Vec::new();
        scan_prefix(access, INDUSTRY_SECTOR, &prefix, Direction::Forward, |_, row| {
            industries.extend(<[u8; 2]>::try_from(row.bytes(industry::IN_ID)));
            Flow::More
        })
        .await?;
        Ok(industries)
    }
}

impl Step for SectorVolumes {
    const ID: StepId = 7;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<(i64, i64)>;

    fn route(&self) -> Route {
        route(self.site)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<(i64, i64)>, Abort> {
        let site = i64::from(self.site);
        let (mut companies, mut securities) = (Vec::new(), Vec::new());
        for industry in &self.industries {
            let prefix = Key::new().i64(site).bytes(industry);
            scan_prefix(access, COMPANY_INDUSTRY, &prefix, Direction::Forward, |_, row| {
                companies.push(row.int(company::CO_ID));
                Flow::More
            })
            .await?;
        }
        for company in companies {
            let prefix = Key::new().i64(site).i64(company);
            scan_prefix(access, SECURITY_COMPANY, &prefix, Direction::Forward, |_, row| {
                securities.push(super::ops::symbol_in(&row, security::S_SYMB));
                Flow::More
            })
            .await?;
        }
        let mut volumes: SmallVec<[(i64, i64); 8]> = SmallVec::new();
        for symbol in securities {
            debug_assert!(security_of(&symbol).is_some());
            let prefix = Key::new().i64(site).bytes(&symbol);
            scan_prefix(access, TRADE_REQUEST_SYMBOL, &prefix, Direction::Forward, |_, row| {
                use trade_request::*;
                let (broker, volume) = (row.int(TR_B_ID), row.int(TR_QTY) * row.int(TR_BID_PRICE));
                if self.brokers.contains(&broker) {
                    match volumes.iter_mut().find(|(b, _)| *b == broker) {
                        Some((_, sum)) => *sum += volume,
                        None => volumes.push((broker, volume)),
                    }
                }
                Flow::More
            })
            .await?;
        }
        Ok(volumes.into_vec())
    }
}

pub(super) async fn run<T: Transaction>(
    tpce: &Tpce,
    r: &BrokerVolumeRequest,
    txn: &mut T,
) -> Result<BrokerVolumeReply, Abort> {
    let find = |(site, name): &(u32, String)| FindBroker { site: *site, name: name.clone() };
    let brokers = Each::<FindBroker>(r.brokers.iter().map(find).collect());
    let (ids, industries) =
        txn.all((brokers, SectorIndustries { home: r.home, sector: r.sector.clone() })).await?;
    let of_sites = |site| SectorVolumes {
        site,
        industries: industries.clone(),
        brokers: ids.iter().flatten().copied().collect(),
    };
    let steps = Each::<SectorVolumes>((0..tpce.geometry.sites()).map(of_sites).collect());
    let volumes = txn.last(steps).await?;
    let of = |id: i64| volumes.iter().flatten().filter(|(b, _)| *b == id).map(|(_, v)| v).sum::<i64>();
    let has = |id: i64| volumes.iter().flatten().any(|(b, _)| *b == id);
    let found = r.brokers.iter().zip(&ids).filter_map(|((_, name), id)| Some((name.clone(), (*id)?)));
    let mut all: BrokerVolumeReply =
        found.filter(|(_, id)| has(*id)).map(|(name, id)| (name, of(id))).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    Ok(all)
}
