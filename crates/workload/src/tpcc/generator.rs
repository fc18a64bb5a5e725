//! Draws transactions and their inputs (clauses 2.4.1 to 2.8.1 and 5.2.3).

use super::draw::{C_CUSTOMER, C_ITEM, C_LAST_RUN};
use super::new_order::{Line, MOST_LINES, NewOrderRequest};
use super::rows::DISTRICTS;
use super::{
    DeliveryRequest, Mix, OrderStatusRequest, PaymentRequest, StockLevelRequest, TpccOptions, TpccRequest,
    Who,
};
use crate::random::Random;
use smallvec::SmallVec;
use std::ops::Range;
use txn::Generator;

/// The specified shares, in per cent.
const REMOTE_PAYMENTS: f64 = 15.0;
const REMOTE_LINES: f64 = 1.0;
const INVALID_ORDERS: f64 = 1.0;
const BY_NAME: f64 = 60.0;

#[derive(Clone, Debug)]
pub struct TpccGenerator {
    options: TpccOptions,
    random: Random,
    sites: Range<u32>,
    /// The position of the request in its stream, used as its date.
    drawn: i64,
}

impl TpccGenerator {
    /// # Panics
    /// If `sites` is empty or reaches past the last warehouse.
    pub(super) fn new(options: TpccOptions, seed: u64, sites: Range<u32>) -> TpccGenerator {
        assert!(!sites.is_empty() && sites.end <= options.warehouses, "a generator for sites {sites:?}");
        TpccGenerator { options, random: Random::new(seed), sites, drawn: super::load::LOAD_DATE }
    }

    /// A warehouse other than `w`; `w` if there is no other.
    fn another(&mut self, w: u32) -> u32 {
        match self.options.warehouses {
            1 => w,
            n => {
                let other = self.random.between(0..=n - 2);
                other + u32::from(other >= w)
            }
        }
    }

    fn district(&mut self) -> u32 {
        self.random.between(1..=DISTRICTS)
    }

    fn customer(&mut self) -> u32 {
        self.random.non_uniform(1023, C_CUSTOMER, 1..=self.options.customers)
    }

    fn item(&mut self) -> u32 {
        self.random.non_uniform(8191, C_ITEM, 1..=self.options.items)
    }

    fn who(&mut self) -> Who {
        if self.random.chance(BY_NAME) {
            let names = self.options.customers.min(1_000);
            Who::Name(self.random.non_uniform(255, C_LAST_RUN, 0..=names - 1))
        } else {
            Who::Id(self.customer())
        }
    }

    fn new_order(&mut self, w: u32) -> NewOrderRequest {
        let (d, c, count) = (self.district(), self.customer(), self.random.between(5..=15));
        // The index of the remote line, if `--multisite` sets the share of orders with one.
        let remote = self
            .options
            .multisite
            .and_then(|share| self.random.chance(share).then(|| self.random.between(0..=count - 1)));
        let mut line = |number| {
            let elsewhere = match self.options.multisite {
                None => self.random.chance(REMOTE_LINES),
                Some(_) => remote == Some(number),
            };
            let supply = if elsewhere { self.another(w) } else { w };
            Line { item: self.item(), supply, quantity: self.random.between(1..=10) }
        };
        let mut lines: SmallVec<[Line; MOST_LINES]> = (0..count).map(&mut line).collect();
        if self.random.chance(INVALID_ORDERS) {
            lines[count as usize - 1].item = self.options.items + 1;
        }
        NewOrderRequest { w, d, c, date: self.drawn, lines }
    }

    fn payment(&mut self, w: u32) -> PaymentRequest {
        let d = self.district();
        let remote = self.random.chance(self.options.multisite.unwrap_or(REMOTE_PAYMENTS));
        let (customer_w, customer_d) = match self.another(w) {
            other if remote && other != w => (other, self.district()),
            _ => (w, d),
        };
        let amount = self.random.between(100..=500_000).into();
        PaymentRequest { w, d, customer_w, customer_d, who: self.who(), amount, date: self.drawn }
    }
}

impl TpccGenerator {
    /// A request from a terminal at warehouse `w`; with `district`, its StockLevels are for that
    /// district.
    fn request(&mut self, w: u32, district: Option<u32>) -> TpccRequest {
        self.drawn += 1;
        let shares = match self.options.mix {
            Mix::Full => [45, 43, 4, 4, 4],
            Mix::Payment => [0, 100, 0, 0, 0],
            Mix::NewOrder => [100, 0, 0, 0, 0],
            Mix::Prime => [50, 50, 0, 0, 0],
        };
        let mut draw = self.random.between(0..=99);
        let below = |share: u32| {
            let hit = draw < share;
            draw = draw.wrapping_sub(share);
            hit
        };
        match shares.into_iter().position(below) {
            Some(0) => TpccRequest::NewOrder(Box::new(self.new_order(w))),
            Some(1) => TpccRequest::Payment(self.payment(w)),
            Some(2) => {
                TpccRequest::OrderStatus(OrderStatusRequest { w, d: self.district(), who: self.who() })
            }
            Some(3) => {
                let carrier = self.random.between(1..=10);
                TpccRequest::Delivery(DeliveryRequest { w, carrier, date: self.drawn })
            }
            _ => {
                let threshold = self.random.between(10..=20);
                let d = district.unwrap_or_else(|| self.district());
                TpccRequest::StockLevel(StockLevelRequest { w, d, threshold })
            }
        }
    }
}

impl Generator for TpccGenerator {
    type Request = TpccRequest;

    fn next(&mut self) -> TpccRequest {
        let w = self.random.between(self.sites.start..=self.sites.end - 1);
        self.request(w, None)
    }

    /// Clause 2.8.1.1: a terminal has a fixed district.
    fn next_at(&mut self, site: u32, number: u32) -> TpccRequest {
        self.request(site, Some(number % DISTRICTS + 1))
    }
}
