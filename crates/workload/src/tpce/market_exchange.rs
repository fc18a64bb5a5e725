//! The market exchange, in process: it is told of committed orders and
//! answers with results of trades and with the ticker.
//!
//! ```text
//! committed Trade-Order --+-- market: after a short delay -------> result; ticker: entry, padding
//!                         +-- limit:  when the price is reached -> in the money --> padding entry
//! padding entry: the next order in the money, or a random security
//! twenty entries of the ticker -> Market-Feed -> limit orders that it submits, now market orders
//! ```
//!
//! **Parts.** Each site has a part of its own, which knows the orders of the site's customers and
//! is guarded by one short lock. Streams of requests take results and feeds from the parts of their
//! sites, before they draw a card of their deck.
//!
//! **Clock.** Time is virtual: each accepted order moves the clock by the time that passes between
//! two orders at the nominal rate, two a second for a load unit. So as many limit orders wait as at
//! the nominal rate, however fast the engine is.
//!
//! **Nothing is lost or doubled.** Orders enter after their commit is durable. An errand that a
//! stream has taken stays noted until its transaction has committed, and comes again if it fails.
//! The first stream over a site after a start, or after all others have ended, fills the part from
//! the database (`reopen`). Trade-Result ignores trades that are not open, so an order that came
//! twice does no harm.

use super::geometry::{Geometry, stream};
use super::market_feed::{OpenOrder, Ticker};
use super::market_time::{Trigger, price, wait_for};
use super::trades::{market_delay, traded_at};
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of a feed.
pub(super) const FEED: usize = 20;
/// Quantity of an entry for a limit order that is in the money.
const LIMIT_QUANTITY: i64 = 375;

/// The completion of an order by the market.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Completion {
    pub t: i64,
    pub security: u32,
    pub price: i64,
}

/// Something for a stream of requests to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Errand {
    Result(Completion),
    Feed(u64, Vec<Ticker>),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// The order is traded.
    Trade,
    /// The price meets the limit.
    InTheMoney,
}

#[derive(Debug, Default)]
struct State {
    random: Option<Random>,
    /// Orders by the time of their next event.
    due: BinaryHeap<Reverse<(i64, Event, i64)>>,
    /// Orders that are not completed.
    open: HashMap<i64, OpenOrder>,
    /// Limit orders in the money, for the ticker.
    money: VecDeque<Ticker>,
    batch: Vec<Ticker>,
    errands: VecDeque<Errand>,
    /// Errands of which the transactions have not committed.
    results_out: HashMap<i64, Completion>,
    feeds_out: HashMap<u64, Vec<Ticker>>,
    /// Orders that were traded, until their results are committed.
    traded: HashSet<i64>,
    next_feed: u64,
}

#[derive(Debug)]
struct Part {
    state: Mutex<State>,
    /// Errands that wait.
    ready: AtomicU32,
    /// The time of the next event.
    next_due: AtomicI64,
}

/// Milliseconds of virtual time between two runs of Data-Maintenance.
const MAINTENANCE_MS: i64 = 60_000;

/// The exchange of all streams that share one value of the workload.
#[derive(Debug)]
pub(super) struct Exchange {
    clock_ms: AtomicI64,
    /// The time of the last run of Data-Maintenance that a stream has drawn.
    maintained_ms: AtomicI64,
    /// Streams over each site.
    live: Mutex<Vec<u32>>,
    /// Sites with a stream.
    covered: AtomicU32,
    parts: Vec<Part>,
    securities: u32,
    /// Milliseconds between two orders of one site at the nominal rate.
    site_spacing_ms: f64,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    pub fn new(geometry: &Geometry, sf: u32) -> Exchange {
        let part =
            || Part { state: Mutex::default(), ready: AtomicU32::new(0), next_due: AtomicI64::new(i64::MAX) };
        let end = i64::from(geometry.days) * super::market_time::DAY_MS;
        Exchange {
            clock_ms: AtomicI64::new(end),
            maintained_ms: AtomicI64::new(end),
            live: Mutex::new(vec![0; geometry.sites() as usize]),
            covered: AtomicU32::new(0),
            parts: (0..geometry.sites()).map(|_| part()).collect(),
            securities: geometry.securities(),
            site_spacing_ms: f64::from(sf) * 1_000.0 / f64::from(geometry.site_customers()),
        }
    }

    /// Trading time.
    pub fn now_ms(&self) -> i64 {
        self.clock_ms.load(Ordering::Relaxed)
    }

    /// Whether Data-Maintenance is due, which runs once a minute: `true` to one stream for each
    /// run. Exchanges that cover a part of the sites each take their share of the runs.
    pub fn maintenance_is_due(&self) -> bool {
        let (now, last) = (self.now_ms(), self.maintained_ms.load(Ordering::Relaxed));
        let sites = self.parts.len() as i64;
        let covered = i64::from(self.covered.load(Ordering::Relaxed)).clamp(1, sites.max(1));
        now.saturating_sub(last) >= MAINTENANCE_MS * sites / covered
            && self.maintained_ms.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Time has reached this moment.
    pub fn reach(&self, trading_ms: i64) {
        self.clock_ms.fetch_max(trading_ms, Ordering::Relaxed);
    }

    /// A stream over these sites begins. Returns those that had none: their parts are empty now,
    /// and the stream must have them filled.
    pub fn join(&self, sites: Range<u32>) -> Vec<u32> {
        let mut live = held(&self.live);
        let mut first = Vec::new();
        for site in sites {
            let streams = &mut live[site as usize];
            *streams += 1;
            if *streams == 1 {
                self.covered.fetch_add(1, Ordering::Relaxed);
                let part = &self.parts[site as usize];
                let mut state = held(&part.state);
                *state = State { next_feed: state.next_feed, ..State::default() };
                part.note(&state);
                first.push(site);
            }
        }
        first
    }

    pub fn leave(&self, sites: Range<u32>) {
        let mut live = held(&self.live);
        for site in sites {
            let streams = &mut live[site as usize];
            *streams = streams.saturating_sub(1);
            if *streams == 0 {
                self.covered.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The part that takes care of an order: the site's own, or that of `else_site` if no stream
    /// here is over the site.
    fn part_for(&self, site: u32, else_site: u32) -> u32 {
        let live = held(&self.live);
        if live.get(site as usize).is_some_and(|streams| *streams > 0) { site } else { else_site }
    }

    /// An order was committed. Moves the clock.
    pub fn ordered(&self, site: u32, order: OpenOrder) {
        let sites = self.covered.load(Ordering::Relaxed).max(1);
        self.clock_ms.fetch_add((self.site_spacing_ms / f64::from(sites)) as i64, Ordering::Relaxed);
        self.take_in(site, [order], Trigger::of(&order.trade_type).is_none());
    }

    /// Orders that were submitted: as the triggered ones of a feed at `else_site`.
    pub fn submitted(&self, orders: &[OpenOrder], else_site: u32) {
        for order in orders {
            let site = self.part_for(Geometry::site_of_trade(order.t), else_site);
            self.take_in(site, [*order], true);
        }
    }

    /// Adds the orders that are open at a site according to the database.
    pub fn refill(&self, site: u32, submitted: &[OpenOrder], pending: &[OpenOrder]) {
        self.take_in(site, submitted.iter().copied(), true);
        self.take_in(site, pending.iter().copied(), false);
    }

    fn take_in(&self, site: u32, orders: impl IntoIterator<Item = OpenOrder>, process: bool) {
        let Some(part) = self.parts.get(site as usize) else { return };
        let (now, mut state) = (self.now_ms(), held(&part.state));
        for order in orders {
            if state.traded.contains(&order.t) || state.results_out.contains_key(&order.t) {
                continue;
            }
            state.open.insert(order.t, order);
            let (event, wait) = match Trigger::of(&order.trade_type).filter(|_| !process) {
                Some(trigger) => (Event::InTheMoney, wait_for(order.security, now, trigger, order.bid)),
                None => (Event::Trade, market_delay(state.random(site))),
            };
            state.due.push(Reverse((now + wait, event, order.t)));
        }
        part.note(&state);
    }

    /// The next errand of a site, if there is one.
    pub fn take(&self, site: u32) -> Option<Errand> {
        let part = &self.parts[site as usize];
        let now = self.now_ms();
        if part.ready.load(Ordering::Relaxed) == 0 && part.next_due.load(Ordering::Relaxed) > now {
            return None;
        }
        let mut state = held(&part.state);
        state.advance(site, now, self.securities);
        let errand = state.errands.pop_front();
        match &errand {
            Some(Errand::Result(done)) => drop(state.results_out.insert(done.t, *done)),
            Some(Errand::Feed(number, entries)) => drop(state.feeds_out.insert(*number, entries.clone())),
            None => {}
        }
        part.note(&state);
        errand
    }

    /// The result of a trade has committed.
    pub fn completed(&self, t: i64) {
        // Its order may be in the part of another site: one that fed the ticker.
        let site = Geometry::site_of_trade(t);
        let own = self.parts.get(site as usize).is_some_and(|part| part.forget(t));
        if !own {
            self.parts.iter().any(|part| part.forget(t));
        }
    }

    /// A feed has committed.
    pub fn fed(&self, site: u32, number: u64) {
        if let Some(part) = self.parts.get(site as usize) {
            held(&part.state).feeds_out.remove(&number);
        }
    }

    /// The stream that took this errand has ended its transaction, or itself: the errand comes
    /// again unless it has committed.
    pub fn ended(&self, site: u32, errand: &Errand) {
        let part = &self.parts[site as usize];
        let mut state = held(&part.state);
        let again = match errand {
            Errand::Result(done) => state.results_out.remove(&done.t).map(Errand::Result),
            Errand::Feed(number, _) => {
                state.feeds_out.remove(number).map(|entries| Errand::Feed(*number, entries))
            }
        };
        state.errands.extend(again);
        part.note(&state);
    }
}

impl Part {
    fn note(&self, state: &State) {
        self.ready.store(state.errands.len() as u32, Ordering::Relaxed);
        self.next_due.store(state.due.peek().map_or(i64::MAX, |Reverse(due)| due.0), Ordering::Relaxed);
    }

    /// Forgets a trade; `false` if it was not here.
    fn forget(&self, t: i64) -> bool {
        let mut state = held(&self.state);
        state.results_out.remove(&t);
        state.traded.remove(&t)
    }
}

impl State {
    fn random(&mut self, site: u32) -> &mut Random {
        self.random.get_or_insert_with(|| stream(50, site.into()))
    }

    /// Carries out the events that are due.
    fn advance(&mut self, site: u32, now: i64, securities: u32) {
        while let Some(Reverse((at, event, t))) = self.due.peek().copied()
            && at <= now
        {
            self.due.pop();
            let Some(order) = self.open.get(&t).copied() else { continue };
            let current = price(order.security, at);
            match event {
                Event::InTheMoney => {
                    let price = traded_at(&order.trade_type, current, order.bid);
                    self.money.push_back(Ticker {
                        security: order.security,
                        price,
                        quantity: LIMIT_QUANTITY,
                    });
                }
                Event::Trade => {
                    self.open.remove(&t);
                    if !self.traded.insert(t) {
                        continue;
                    }
                    let price = traded_at(&order.trade_type, current, order.bid);
                    self.errands.push_back(Errand::Result(Completion { t, security: order.security, price }));
                    self.tick(Ticker { security: order.security, price: current, quantity: order.quantity });
                    let padding = self.padding(site, at, securities);
                    self.tick(padding);
                }
            }
        }
    }

    fn padding(&mut self, site: u32, now: i64, securities: u32) -> Ticker {
        if let Some(entry) = self.money.pop_front() {
            return entry;
        }
        let random = self.random(site);
        let security = random.between(0..=securities - 1);
        let quantity = if random.chance(50.0) { 325 } else { 425 };
        Ticker { security, price: price(security, now), quantity }
    }

    fn tick(&mut self, entry: Ticker) {
        self.batch.push(entry);
        if self.batch.len() == FEED {
            let number = self.next_feed;
            self.next_feed += 1;
            // Feeds are rare, and the orders that they trigger wait: they go before results.
            self.errands.push_front(Errand::Feed(number, std::mem::take(&mut self.batch)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpce::TpceOptions;

    #[test]
    fn maintenance_is_due_once_a_minute_for_all_streams_together() {
        let options = TpceOptions::new(2);
        let exchange = Exchange::new(&Geometry::new(&options), options.sf);
        let due = |exchange: &Exchange| (0..9).filter(|_| exchange.maintenance_is_due()).count();
        exchange.join(0..20);
        assert_eq!(due(&exchange), 0, "no minute has passed");
        let begun = exchange.now_ms();
        exchange.reach(begun + MAINTENANCE_MS);
        assert_eq!(due(&exchange), 1);
        // An exchange over half of the sites has half of the runs.
        let half = Exchange::new(&Geometry::new(&options), options.sf);
        half.join(0..10);
        half.reach(begun + MAINTENANCE_MS);
        assert_eq!(due(&half), 0);
        half.reach(begun + 2 * MAINTENANCE_MS);
        assert_eq!(due(&half), 1);
    }
}
