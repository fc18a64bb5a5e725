//! Draws transactions, their subscribers and their inputs.

use super::population::{kit, members};
use super::updates::UpdateSubscriber;
use super::{Destination, First, Flip, Kind, Mix, Popularity, ScanRequest, TatpOptions, TatpRequest};
use crate::random::Random;
use std::ops::Range;
use txn::Generator;

/// Shares of the mix, in per cent.
pub(super) const SHARES: [(Kind, u32); 7] = [
    (Kind::GetSubscriberData, 35),
    (Kind::GetNewDestination, 10),
    (Kind::GetAccessData, 35),
    (Kind::UpdateSubscriberData, 2),
    (Kind::UpdateLocation, 14),
    (Kind::InsertCallForwarding, 2),
    (Kind::DeleteCallForwarding, 2),
];

#[derive(Clone, Debug)]
pub struct TatpGenerator {
    options: TatpOptions,
    random: Random,
    /// The subscribers of the generator's sites.
    subscribers: Range<u32>,
}

/// The mask A of the non-uniform draw among this many subscribers.
fn mask(subscribers: u32) -> u32 {
    match subscribers {
        0..=1_000_000 => 65_535,
        1_000_001..=10_000_000 => 1_048_575,
        _ => 2_097_151,
    }
}

impl TatpGenerator {
    /// # Panics
    /// If `sites` is empty or reaches past the last site.
    pub(super) fn new(options: TatpOptions, seed: u64, sites: Range<u32>) -> TatpGenerator {
        assert!(!sites.is_empty() && sites.end <= options.scale, "a generator for sites {sites:?}");
        TatpGenerator { subscribers: options.subscribers_of(sites), options, random: Random::new(seed) }
    }

    /// A subscriber of the generator's sites: `((U(0,A) | U(1,N)) mod N) + 1`, uniform, or by a hot
    /// range.
    fn subscriber(&mut self) -> u32 {
        let (first, n) = (self.subscribers.start, self.subscribers.len() as u32);
        if let Some(hot) = self.options.hot {
            return first + hot.draw(&mut self.random, n.into()) as u32;
        }
        match self.options.popularity {
            Popularity::Uniform => self.random.between(first..=first + n - 1),
            Popularity::NonUniform => {
                let draw = self.random.between(0..=mask(n)) | self.random.between(1..=n);
                first + draw % n
            }
        }
    }

    fn type_1_to_4(&mut self) -> u32 {
        self.random.between(1..=4)
    }

    fn start(&mut self) -> u32 {
        self.random.between(0..=2) * 8
    }

    fn end(&mut self) -> u32 {
        self.random.between(1..=24)
    }

    fn request(&mut self, kind: Kind) -> TatpRequest {
        let s = self.subscriber();
        match kind {
            Kind::GetSubscriberData => TatpRequest::GetSubscriberData { s },
            Kind::GetNewDestination => TatpRequest::GetNewDestination(Destination {
                s,
                sf_type: self.type_1_to_4(),
                start: self.start(),
                end: self.end(),
                predicate: self.options.predicate,
            }),
            Kind::GetAccessData => TatpRequest::GetAccessData { s, ai_type: self.type_1_to_4() },
            Kind::UpdateSubscriberData => TatpRequest::UpdateSubscriberData(UpdateSubscriber {
                s,
                sf_type: self.type_1_to_4(),
                bit: self.random.between(0..=1) as u8,
                data_a: self.random.between(0..=255) as u8,
            }),
            Kind::UpdateLocation => {
                TatpRequest::UpdateLocation { number: s, location: self.random.between(0..=u32::MAX) }
            }
            Kind::InsertCallForwarding => TatpRequest::InsertCallForwarding {
                number: s,
                sf_type: self.type_1_to_4(),
                start: self.start(),
                end: self.end(),
                numberx: self.subscriber(),
            },
            Kind::DeleteCallForwarding => TatpRequest::DeleteCallForwarding {
                number: s,
                sf_type: self.type_1_to_4(),
                start: self.start(),
            },
        }
    }

    /// A row with an existing parent, so that every request of the insert and the delete bench
    /// succeeds.
    fn toggle(&mut self, first: First) -> TatpRequest {
        let s = self.subscriber();
        let facilities = kit(self.options.distribution, s).facilities;
        let nth = self.random.between(0..=facilities.count_ones() - 1);
        let sf_type = members(facilities).nth(nth as usize).map_or(1, |i| i + 1);
        let (start, end, numberx) = (self.start(), self.end(), self.subscriber());
        TatpRequest::Toggle(Flip { s, sf_type, start, end, numberx, first })
    }
}

impl Generator for TatpGenerator {
    type Request = TatpRequest;

    fn next(&mut self) -> TatpRequest {
        match self.options.mix {
            Mix::Only(kind) => self.request(kind),
            Mix::Insert => self.toggle(First::Insert),
            Mix::Delete => self.toggle(First::Delete),
            Mix::InsertDelete if self.random.chance(50.0) => self.toggle(First::Insert),
            Mix::InsertDelete => self.toggle(First::Delete),
            Mix::Scan => {
                TatpRequest::Scan(ScanRequest { number: self.subscriber(), rows: self.options.rows })
            }
            Mix::Full => {
                let mut draw = self.random.between(0..=99);
                let hit = SHARES.iter().find(|(_, share)| {
                    let below = draw < *share;
                    draw = draw.wrapping_sub(*share);
                    below
                });
                self.request(hit.map_or(Kind::GetSubscriberData, |(kind, _)| *kind))
            }
        }
    }
}
