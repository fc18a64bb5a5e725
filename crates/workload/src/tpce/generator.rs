//! Draws transactions and their inputs.
//!
//! A stream first opens the exchange for the sites that have no stream yet. Then it takes the
//! exchange's errands as they come, and otherwise the next card of a deck of 890 without
//! replacement: with the hundred results and ten feeds that the deck's orders cause, the mix is
//! that of the definition. A stream over some sites draws their customers.

use super::fixed::{INDUSTRIES, SECTORS, industry_name};
use super::geometry::{self, Geometry};
use super::maintenance::{DataMaintenanceRequest, Maintained};
use super::market_exchange::Errand;
use super::market_feed::{MarketFeedRequest, Ticker};
use super::market_time::{self, DAY_MS, market_day, price, stamp};
use super::market_watch::{MarketWatchRequest, Watched};
use super::people::{self, Crowd};
use super::reopen::ReopenRequest;
use super::trade_lookup::{Sought, TradeLookupRequest};
use super::trade_order::TradeOrderRequest;
use super::trade_result::TradeResultRequest;
use super::trade_texts::Change;
use super::trades::DISCARDED;
use super::{
    BrokerVolumeRequest, CustomerPositionRequest, Mix, SecurityDetailRequest, Start, Tpce, TpceRequest,
    TradeStatusRequest, names,
};
use crate::random::Random;
use std::ops::Range;
use txn::Generator;

/// Cards of the deck.
const DECK: [(Card, usize); 8] = [
    (Card::BrokerVolume, 49),
    (Card::CustomerPosition, 130),
    (Card::MarketWatch, 180),
    (Card::SecurityDetail, 140),
    (Card::TradeLookup, 80),
    (Card::TradeOrder, 101),
    (Card::TradeStatus, 190),
    (Card::TradeUpdate, 20),
];
/// Of this many orders in a deck, one is rolled back.
const ORDERS: u32 = 101;

/// A transaction that a client asks for of its own accord; Trade-Result comes from the exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Card {
    BrokerVolume,
    CustomerPosition,
    MarketFeed,
    MarketWatch,
    SecurityDetail,
    TradeLookup,
    TradeOrder,
    TradeStatus,
    TradeUpdate,
    DataMaintenance,
}

/// A stream of requests.
#[derive(Debug)]
pub struct TpceGenerator {
    tpce: Tpce,
    random: Random,
    sites: Range<u32>,
    crowd: Crowd,
    /// The cards of the deck that are left, the next one last.
    deck: Vec<Card>,
    /// Orders until the one that is rolled back, and until the next 101 begin.
    roll_back: (u32, u32),
    /// Sites of which the exchange must be opened.
    to_open: Vec<u32>,
    /// The errand of the request that was drawn last, and its site.
    running: Option<(u32, Errand)>,
    next_site: u32,
    maintenance: u32,
}

impl TpceGenerator {
    /// # Panics
    /// If `sites` is empty or reaches past the last site.
    pub(super) fn new(tpce: Tpce, seed: u64, sites: Range<u32>) -> TpceGenerator {
        assert!(!sites.is_empty() && sites.end <= tpce.geometry.sites(), "a generator for sites {sites:?}");
        let trades = tpce.options.mix.has_exchange();
        let to_open = if trades { tpce.exchange.join(sites.clone()) } else { Vec::new() };
        let mut random = Random::new(seed);
        TpceGenerator {
            crowd: Crowd::new(&tpce.geometry, sites.clone()),
            deck: Vec::new(),
            roll_back: (random.between(0..=ORDERS - 1), ORDERS),
            to_open,
            running: None,
            next_site: sites.start,
            maintenance: random.between(0..=11),
            tpce,
            random,
            sites,
        }
    }

    /// The stamp of the present.
    fn now(&self) -> i64 {
        stamp(self.tpce.exchange.now_ms())
    }

    fn home(&mut self) -> u32 {
        self.random.between(self.sites.start..=self.sites.end - 1)
    }

    fn customer(&mut self) -> i64 {
        self.crowd.draw(&mut self.random)
    }

    fn account(&mut self) -> i64 {
        let c = self.customer();
        c * 10 + self.random.within(0..self.tpce.geometry.accounts_of(c) as u64) as i64
    }

    fn security(&mut self) -> u32 {
        self.random.between(0..=self.tpce.geometry.securities() - 1)
    }

    /// The definition's NURnd: `shift` is its last parameter.
    fn non_uniform(&mut self, low: i64, high: i64, a: u64, shift: u32) -> i64 {
        let span = (high - low + 1).max(1);
        let uniform = low + self.random.within(0..span as u64) as i64;
        let or = uniform | ((self.random.within(0..a + 1) << shift) as i64);
        or % span + low
    }

    fn opening(&mut self) -> Option<TpceRequest> {
        let site = self.to_open.pop()?;
        let open = ReopenRequest { site, now: self.now() };
        Some(match self.tpce.options.start {
            Start::Rebuild => TpceRequest::Rebuild(open),
            Start::Cleanup => TpceRequest::TradeCleanup(open),
        })
    }

    /// An errand of the exchange. Looks at one site for each request, in turn.
    fn errand(&mut self) -> Option<TpceRequest> {
        let site = self.next_site;
        self.next_site = if site + 1 < self.sites.end { site + 1 } else { self.sites.start };
        let mut errand = self.tpce.exchange.take(site)?;
        while let (Errand::Feed(number, _), Mix::Results) = (&errand, self.tpce.options.mix) {
            self.tpce.exchange.fed(site, *number);
            errand = self.tpce.exchange.take(site)?;
        }
        let now = self.now();
        let request = match &errand {
            Errand::Result(done) => TpceRequest::TradeResult(Box::new(TradeResultRequest {
                t: done.t,
                security: done.security,
                price: done.price,
                now,
            })),
            Errand::Feed(feed, entries) => TpceRequest::MarketFeed(Box::new(MarketFeedRequest {
                home: site,
                feed: *feed,
                now,
                entries: entries.clone(),
            })),
        };
        self.running = Some((site, errand));
        Some(request)
    }

    fn card(&mut self) -> Card {
        match self.tpce.options.mix {
            Mix::Only(card) => return card,
            Mix::Trading | Mix::Results => return Card::TradeOrder,
            Mix::Full => {}
        }
        if self.deck.is_empty() {
            let all = DECK.iter().flat_map(|(card, n)| std::iter::repeat_n(*card, *n));
            self.deck = all.collect();
            for last in (1..self.deck.len()).rev() {
                let other = self.random.within(0..last as u64 + 1) as usize;
                self.deck.swap(last, other);
            }
        }
        self.deck.pop().unwrap_or(Card::TradeStatus)
    }

    fn broker_volume(&mut self) -> BrokerVolumeRequest {
        let brokers = self.tpce.geometry.brokers();
        let wanted = self.random.between(20..=40).min(brokers) as usize;
        let mut ids: Vec<u32> = Vec::with_capacity(wanted);
        if wanted == brokers as usize {
            ids.extend(0..brokers);
        }
        while ids.len() < wanted {
            let id = self.random.between(0..=brokers - 1);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        let brokers = ids.into_iter().map(|id| (id, names::broker_name(id.into()))).collect();
        let sector = SECTORS[self.random.within(0..SECTORS.len() as u64) as usize].1.to_owned();
        BrokerVolumeRequest { home: self.home(), brokers, sector }
    }

    fn customer_position(&mut self) -> CustomerPositionRequest {
        let c = self.customer();
        let tax_id = self.random.chance(50.0).then(|| names::person(c as u64).tax_id);
        let accounts = self.tpce.geometry.accounts_of(c) as u32;
        let history = self.random.chance(50.0).then(|| self.random.between(0..=accounts - 1));
        CustomerPositionRequest { c, tax_id, history }
    }

    fn market_watch(&mut self) -> MarketWatchRequest {
        let (home, watched) = match self.random.between(0..=99) {
            0..60 => {
                let c = self.customer();
                (self.tpce.geometry.site_of_customer(c), Watched::List(c))
            }
            60..95 => {
                let ca = self.account();
                (self.tpce.geometry.site_of_account(ca), Watched::Account(ca))
            }
            _ => {
                let name = industry_name(self.random.between(0..=INDUSTRIES - 1));
                let companies = i64::from(self.tpce.geometry.companies());
                let window = companies.min(5_000);
                let first = self.random.within(0..(companies - window + 1) as u64) as i64;
                (self.home(), Watched::Industry(name, first, first + window))
            }
        };
        let week = self.non_uniform(0, 255, 255, 0) + 5;
        let day = match self.random.between(0..=99) {
            0..20 => 0,
            20..27 => 1,
            27..33 => 2,
            33..40 => 3,
            _ => 4,
        };
        let days = i64::from(self.tpce.options.market_days);
        MarketWatchRequest { home, watched, day: market_day((week * 5 + day) % days) }
    }

    fn security_detail(&mut self) -> SecurityDetailRequest {
        let (home, security) = (self.home(), self.security());
        let market_days = self.tpce.options.market_days;
        let days = self.random.between(5..=20);
        let start = self.random.between(0..=market_days.saturating_sub(days));
        let whole_news = self.random.chance(1.0);
        // Calendar days, of which five in seven are days of the market.
        let start = market_time::FIRST_MARKET_DAY + i64::from(start);
        SecurityDetailRequest { home, security, whole_news, days, start }
    }

    /// Ids of initial trades, distinct. A random number of the whole database names unit and site.
    fn trade_ids(&mut self) -> Vec<i64> {
        let geometry = &self.tpce.geometry;
        let (initial, sites) = (geometry.initial, i64::from(geometry.sites()));
        let mut all: Vec<i64> = Vec::with_capacity(super::trade_lookup::MOST);
        let most = (initial * sites * 9 / 10).min(super::trade_lookup::MOST as i64) as usize;
        while all.len() < most {
            let n = self.non_uniform(1, initial * sites, 65_535, 7) - 1;
            let (site, mut number) = ((n % sites) as u32, n / sites + 1);
            if number % DISCARDED.0 == DISCARDED.1 {
                number = if number < initial { number + 1 } else { 1 };
            }
            let t = Geometry::trade_id(site, number);
            if !all.contains(&t) {
                all.push(t);
            }
        }
        all
    }

    /// A range of stamps that begins in the initial period, at least `back_off` minutes before its
    /// end.
    fn stamps(&mut self, back_off: i64) -> (i64, i64) {
        let end = i64::from(self.tpce.options.days) * DAY_MS;
        let most = (end - back_off * 60_000).max(1);
        let from = self.non_uniform(1, most, 4_095, 16);
        (stamp(from), stamp(end) + 15 * 60_000)
    }

    fn sought(&mut self, frame: u32) -> (u32, Sought) {
        match frame {
            1 => (self.home(), Sought::Trades(self.trade_ids())),
            2 => {
                let (ca, (from, to)) = (self.account(), self.stamps(32 * 60));
                (self.tpce.geometry.site_of_account(ca), Sought::OfAccount { ca, from, to })
            }
            3 => {
                let (security, (from, to)) = (self.security(), self.stamps(200));
                (self.home(), Sought::OfSecurity { security, from, to })
            }
            _ => {
                let (ca, (from, _)) = (self.account(), self.stamps(500));
                (self.tpce.geometry.site_of_account(ca), Sought::Holdings { ca, from })
            }
        }
    }

    fn trade_lookup(&mut self) -> TpceRequest {
        let frame = match self.random.between(0..=99) {
            0..30 => 1,
            30..60 => 2,
            60..90 => 3,
            _ => 4,
        };
        let (home, sought) = self.sought(frame);
        TpceRequest::TradeLookup(Box::new(TradeLookupRequest { home, sought }))
    }

    fn trade_update(&mut self) -> TpceRequest {
        let (frame, change) = match self.random.between(0..=99) {
            0..33 => (1, Change::Executor),
            33..66 => (2, Change::CashType),
            _ => (3, Change::CashName(String::new())),
        };
        let (home, sought) = self.sought(frame);
        TpceRequest::TradeUpdate(Box::new((TradeLookupRequest { home, sought }, change)))
    }

    fn trade_order(&mut self) -> TradeOrderRequest {
        let ca = self.account();
        let basket = self.tpce.geometry.basket_of(ca);
        let security = basket[self.random.within(0..basket.len() as u64) as usize];
        let (person, _) = people::executor(ca, &mut self.random);
        let random = &mut self.random;
        let by_name = random.chance(40.0);
        let (market, buy, stop_loss) = (random.chance(60.0), random.chance(50.0), random.chance(50.0));
        let trade_type = match (market || self.tpce.options.mix == Mix::Results, buy) {
            (true, true) => *b"TMB",
            (true, false) => *b"TMS",
            (false, true) => *b"TLB",
            (false, false) if stop_loss => *b"TSL",
            (false, false) => *b"TLS",
        };
        let quantity = 100 << random.between(0..=3);
        let price = i64::from(random.between(2_000..=3_000));
        let on_margin = buy && random.chance(16.0);
        let lifo = random.chance(35.0);
        let (at, left) = self.roll_back;
        let roll_back = at + 1 == left;
        self.roll_back = if left > 1 { (at, left - 1) } else { (random.between(0..=ORDERS - 1), ORDERS) };
        TradeOrderRequest {
            ca,
            executor: [person.first, person.last, person.tax_id],
            security,
            company: by_name.then(|| names::company_name(geometry::company_of(security))),
            trade_type,
            quantity,
            price,
            on_margin,
            lifo,
            roll_back,
            now: self.now(),
        }
    }

    /// A feed without orders, for a mix of feeds alone.
    fn market_feed(&mut self) -> MarketFeedRequest {
        let clock = self.tpce.exchange.now_ms();
        let mut entry = |_| {
            let security = self.security();
            let quantity = if self.random.chance(50.0) { 325 } else { 425 };
            Ticker { security, price: price(security, clock), quantity }
        };
        let entries = (0..super::market_exchange::FEED).map(&mut entry).collect();
        MarketFeedRequest { home: self.home(), feed: u64::MAX, now: self.now(), entries }
    }

    fn data_maintenance(&mut self) -> DataMaintenanceRequest {
        self.maintenance = (self.maintenance + 1) % 12;
        let company = self.random.between(0..=self.tpce.geometry.companies() - 1);
        let (c, security) = (self.customer(), self.security());
        let what = match self.maintenance {
            0 => Maintained::AccountPermission { ca: self.account() },
            1 if self.random.chance(67.0) => Maintained::CustomerAddress { c },
            1 => Maintained::CompanyAddress { company },
            2 => Maintained::Company { company },
            3 => Maintained::Customer { c },
            4 => Maintained::CustomerTaxrate { c },
            5 => {
                let by = i64::from(self.random.between(1..=3));
                let by = if self.random.chance(50.0) { by } else { -by };
                Maintained::DailyMarket { security, day: self.random.between(1..=31).into(), by }
            }
            6 => Maintained::Exchange,
            7 => Maintained::Financial { company },
            8 => Maintained::NewsItem { company },
            9 => Maintained::Security { security },
            10 => {
                let division = self.random.between(0..=people::DIVISIONS - 1);
                let n = self.random.between(1..=people::rates_of(division));
                Maintained::Taxrate { id: people::division_rate(division, n) }
            }
            _ => Maintained::WatchItem { c },
        };
        DataMaintenanceRequest { home: self.home(), what, now: self.now() }
    }
}

impl Generator for TpceGenerator {
    type Request = TpceRequest;

    fn next(&mut self) -> TpceRequest {
        if let Some((site, errand)) = self.running.take() {
            self.tpce.exchange.ended(site, &errand);
        }
        if self.tpce.options.mix.has_exchange() {
            if let Some(request) = self.opening().or_else(|| self.errand()) {
                return request;
            }
            if self.tpce.options.mix == Mix::Full && self.tpce.exchange.maintenance_is_due() {
                return TpceRequest::DataMaintenance(Box::new(self.data_maintenance()));
            }
        }
        match self.card() {
            Card::BrokerVolume => TpceRequest::BrokerVolume(Box::new(self.broker_volume())),
            Card::CustomerPosition => TpceRequest::CustomerPosition(Box::new(self.customer_position())),
            Card::MarketFeed => TpceRequest::MarketFeed(Box::new(self.market_feed())),
            Card::MarketWatch => TpceRequest::MarketWatch(Box::new(self.market_watch())),
            Card::SecurityDetail => TpceRequest::SecurityDetail(Box::new(self.security_detail())),
            Card::TradeLookup => self.trade_lookup(),
            Card::TradeOrder => TpceRequest::TradeOrder(Box::new(self.trade_order())),
            Card::TradeStatus => TpceRequest::TradeStatus(TradeStatusRequest { ca: self.account() }),
            Card::TradeUpdate => self.trade_update(),
            Card::DataMaintenance => TpceRequest::DataMaintenance(Box::new(self.data_maintenance())),
        }
    }
}

impl Drop for TpceGenerator {
    fn drop(&mut self) {
        if let Some((site, errand)) = self.running.take() {
            self.tpce.exchange.ended(site, &errand);
        }
        if self.tpce.options.mix.has_exchange() {
            self.tpce.exchange.leave(self.sites.clone());
        }
    }
}
