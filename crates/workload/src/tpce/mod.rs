//! TPC-E: a brokerage; twelve transactions on 33 tables (behaviour of revision 1.14).
//!
//! ```text
//! site s        a tenth of a load unit: customers, accounts, holdings, trades; one broker
//! the market    companies, securities, LAST_TRADE, TRADE_REQUEST: by company over the sites of a
//!               load unit, each unit with a copy of its own, or over all sites
//! fixed tables  in every instance; EXCHANGE and TAXRATE, which are changed, at every site
//!
//! a customer's transaction   {its site} -> {places of its securities, broker} -> {its site}
//! Market-Feed                {places of twenty securities, every copy} -> {sites of trades}
//! the exchange               in process: is told of committed orders, gives results and feeds
//! ```
//!
//! Read it in this order: where everything lies ([`geometry`]), tables ([`rows`]), the population
//! (`fixed`, `load`, `market`, `trades`), the transactions, one file each, the exchange
//! (`market_exchange`), the inputs (`generator`), the check. The reasons for the partitioning are
//! in `docs/tpce.md`. Ids are not shifted, money is in cents, and time is virtual.

mod benchmark;
mod books;
mod broker_volume;
mod check;
mod customer_position;
mod erased;
mod fixed;
mod generator;
pub mod geometry;
mod load;
mod maintenance;
mod market;
mod market_exchange;
mod market_feed;
mod market_steps;
mod market_time;
mod market_watch;
mod names;
mod ops;
mod people;
mod reopen;
mod requests;
pub mod rows;
mod security_detail;
mod settle;
mod statistics;
mod trade_detail;
mod trade_lookup;
mod trade_order;
mod trade_result;
mod trade_status;
mod trade_texts;
mod trades;

pub use books::TpceAudit;
pub use broker_volume::{BrokerVolumeReply, BrokerVolumeRequest};

pub use customer_position::{CustomerPositionReply, CustomerPositionRequest, HistoryRow};
pub use generator::{Card, TpceGenerator};
pub use geometry::Geometry;
pub use maintenance::{DataMaintenanceRequest, Maintained};
pub use market_feed::{MarketFeedReply, MarketFeedRequest, OpenOrder, Ticker};
pub use market_watch::{MarketWatchReply, MarketWatchRequest, Watched};
pub use reopen::{ReopenReply, ReopenRequest};
pub use requests::{TpceReply, TpceRequest};
pub use security_detail::{SecurityDetailReply, SecurityDetailRequest};
pub use trade_detail::TradeDetail;
pub use trade_lookup::{Sought, TradeLookupReply, TradeLookupRequest};
pub use trade_order::{TradeOrderReply, TradeOrderRequest};
pub use trade_result::{TradeResultReply, TradeResultRequest};
pub use trade_status::{StatusRow, TradeStatusReply, TradeStatusRequest};
pub use trade_texts::Change;

use crate::spec::{SpecError, in_range};
use base::SiteId;
use market_exchange::Exchange;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use txn::schema::Schema;
use txn::step::{Route, StepId, Transaction};
use txn::workload::Verdict;
use txn::{Abort, Access, Workload};

/// One order of 101 is rolled back with this reason.
pub const ROLLED_BACK: u16 = 1;
/// The executor of an order has no permission for the account.
pub const NOT_PERMITTED: u16 = 2;

/// The transactions that are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// The deck, with the errands of the exchange.
    Full,
    /// Trade-Orders, and the Trade-Results and feeds that they cause.
    Trading,
    /// Trade-Results, and the market orders that they need; no feeds.
    Results,
    /// One transaction alone.
    Only(Card),
}

impl Mix {
    fn has_exchange(self) -> bool {
        matches!(self, Mix::Full | Mix::Trading | Mix::Results)
    }
}

/// The fate of open orders when a run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// They go back to the exchange.
    Rebuild,
    /// Trade-Cleanup cancels them.
    Cleanup,
}

#[derive(Clone, PartialEq, Debug)]
pub struct TpceOptions {
    /// Load units.
    pub units: u32,
    pub mix: Mix,
    /// Customers of a unit: 1,000 by default, otherwise a multiple of 200.
    pub unit: u32,
    /// Days of initial trades.
    pub days: u32,
    /// Customers for one trade a second: 500 by default.
    pub sf: u32,
    /// Days of DAILY_MARKET.
    pub market_days: u32,
    pub news_bytes: u32,
    /// Whether each unit has a copy of the market.
    pub market_copies: bool,
    /// Whether the newest rows are found by scans backward.
    pub backward: bool,
    pub start: Start,
}

impl TpceOptions {
    pub fn new(units: u32) -> TpceOptions {
        TpceOptions {
            units,
            mix: Mix::Full,
            unit: 1_000,
            days: 20,
            sf: 500,
            market_days: market_time::MARKET_DAYS as u32,
            news_bytes: 10_000,
            market_copies: true,
            backward: true,
            start: Start::Rebuild,
        }
    }
}

/// B_NUM_TRADES and B_COMM_TOTAL of the brokers of a unit, as loaded.
type BrokerSums = [(i64, i64); geometry::UNIT_SITES as usize];

#[derive(Clone, Debug)]
pub struct Tpce {
    options: TpceOptions,
    geometry: Arc<Geometry>,
    exchange: Arc<Exchange>,
    /// By unit.
    broker_sums: Arc<[OnceLock<BrokerSums>]>,
    security_names: Arc<OnceLock<Vec<String>>>,
}

impl Tpce {
    /// # Errors
    /// An option out of its range, named with the expected range.
    pub fn new(options: TpceOptions) -> Result<Tpce, SpecError> {
        in_range("scale", options.units, 1..=900)?;
        in_range("days", options.days, 5..=300)?;
        in_range("unit", options.unit, 200..=1_000)?;
        in_range("sf", options.sf, 1..=1_000_000)?;
        in_range("market-days", options.market_days, 50..=market_time::MARKET_DAYS as u32)?;
        in_range("news-bytes", options.news_bytes, 255..=100_000)?;
        if !options.unit.is_multiple_of(200) {
            let (value, expected) = (options.unit.to_string(), "a multiple of 200".into());
            return Err(SpecError::Value { option: "unit".into(), value, expected });
        }
        let geometry = Geometry::new(&options);
        let exchange = Arc::new(Exchange::new(&geometry, options.sf));
        let broker_sums = (0..options.units).map(|_| OnceLock::new()).collect();
        let geometry = Arc::new(geometry);
        Ok(Tpce { options, geometry, exchange, broker_sums, security_names: Arc::default() })
    }

    pub fn options(&self) -> &TpceOptions {
        &self.options
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The stamp of the end of the initial period.
    fn load_end(&self) -> i64 {
        market_time::stamp(i64::from(self.options.days) * market_time::DAY_MS)
    }

    fn security_name(&self, security: u32) -> &str {
        let all = || (0..self.geometry.securities()).map(names::security_name).collect();
        &self.security_names.get_or_init(all)[security as usize]
    }

    /// The site of a customer.
    ///
    /// # Errors
    /// [`Abort::BadRequest`] if there is no such customer.
    fn customer_site(&self, c: i64) -> Result<u32, Abort> {
        let exists = (0..i64::from(self.geometry.customers())).contains(&c);
        if exists { Ok(self.geometry.site_of_customer(c)) } else { Err(Abort::BadRequest) }
    }
}

fn route(site: u32) -> Route {
    Route { table: rows::CUSTOMER, key: site.into() }
}

impl Workload for Tpce {
    type Request = TpceRequest;
    type Reply = TpceReply;
    type Generator = TpceGenerator;
    type Audit = TpceAudit;

    fn name(&self) -> String {
        benchmark::name_of(self.options.mix).into()
    }

    fn schema(&self) -> Schema {
        rows::schema(self.geometry.sites())
    }

    fn sites(&self) -> u32 {
        self.geometry.sites()
    }

    async fn run<T: Transaction>(&self, request: &TpceRequest, txn: &mut T) -> Result<TpceReply, Abort> {
        erased::run(self, request, txn).await
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        erased::run_step(id, args, access, out).await
    }

    fn routes(&self, request: &TpceRequest, visit: &mut dyn FnMut(Route)) {
        requests::sites(self, request, &mut |site| visit(route(site)));
    }

    fn only_reads(&self, request: &TpceRequest) -> bool {
        request.only_reads()
    }

    fn kind(&self, request: &TpceRequest) -> &'static str {
        request.kind()
    }

    fn committed(&self, request: &TpceRequest, reply: &TpceReply) {
        requests::committed(self, request, reply);
    }

    fn observe(
        &self,
        request: &TpceRequest,
        reply: Option<&TpceReply>,
        add: &mut dyn FnMut(&'static str, u64),
    ) {
        statistics::observe(self, request, reply, add);
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> TpceGenerator {
        TpceGenerator::new(self.clone(), seed, sites)
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        load::PARTS
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        erased::load(self, site, part, access).await
    }

    async fn load_replicated<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        erased::load_replicated(access).await
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<TpceAudit, Abort> {
        erased::audit(self, sites, access).await
    }

    fn judge(&self, audits: Vec<TpceAudit>, committed: Option<u64>) -> Verdict {
        check::judge(self, &audits, committed)
    }
}
