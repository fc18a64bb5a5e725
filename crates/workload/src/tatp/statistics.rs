//! The figures that a run of TATP is compared with: the mix, and the success rate of each
//! transaction.
//!
//! The success rates follow from the population. Those of InsertCallForwarding and
//! DeleteCallForwarding are constant: 5/8 (the facility exists) times 1/2 (its start is taken, or
//! free). The more starts are taken, the fewer inserts and the more deletes succeed, so the mix
//! balances at half of them taken. The rate of GetNewDestination rises with the age of the data. A
//! loaded row ends 1 to 8 hours after its start, but an inserted row ends at any hour: rows that
//! have been deleted and inserted again match more queries. [`destinations`] returns both ends: all
//! rows as loaded, and all rows replaced. A run on data of any age lies between them.

use super::{Kind, Mix, Population, Predicate, Tatp};
use crate::benchmark::{Counted, Statistics};

/// The allowed deviation of a rate, in points, and of a transaction's share of the mix.
const RATE_MARGIN: f64 = 1.0;
const MIX_MARGIN: f64 = 0.5;
/// A subscriber has 1, 2, 3 or 4 of the four types, equally often.
const TYPE_THERE: f64 = 2.5 / 4.0;
const ACTIVE: f64 = 0.85;
const STARTS: [u32; 3] = [0, 8, 16];

pub(super) const MIX: [(Kind, f64); 7] = [
    (Kind::GetSubscriberData, 35.0),
    (Kind::GetNewDestination, 10.0),
    (Kind::GetAccessData, 35.0),
    (Kind::UpdateSubscriberData, 2.0),
    (Kind::UpdateLocation, 14.0),
    (Kind::InsertCallForwarding, 2.0),
    (Kind::DeleteCallForwarding, 2.0),
];

/// The sets of starts that a facility can have, as bits, each with its probability.
fn loaded_starts(population: Population) -> Vec<(u32, f64)> {
    (0..8u32)
        .map(|set| {
            let probability = match population {
                // 0 to 3 starts, equally often; all sets of one size are equally likely.
                Population::Subset => 0.25 / [1.0, 3.0, 3.0, 1.0][set.count_ones() as usize],
                Population::Prefix => 0.25 * f64::from(u8::from([0b000, 0b001, 0b011, 0b111].contains(&set))),
            };
            (set, probability)
        })
        .collect()
}

/// Per cent of GetNewDestinations that find a row: with the data as loaded, and after every row has
/// been replaced.
pub(super) fn destinations(population: Population, predicate: Predicate) -> (f64, f64) {
    let loaded_end = |start: u32, end: u32| (1..=8).filter(|n| start + n > end).count() as f64 / 8.0;
    let any_end = |_: u32, end: u32| (1..=24).filter(|e| *e > end).count() as f64 / 24.0;
    let any_starts: Vec<(u32, f64)> = (0..8).map(|set| (set, 1.0 / 8.0)).collect();
    let rate = |starts: &[(u32, f64)], ends_after: &dyn Fn(u32, u32) -> f64| {
        let mut found = 0.0;
        for asked in STARTS {
            for end in 1..=24 {
                let fits = |start: u32| match predicate {
                    Predicate::Standard => start <= asked,
                    Predicate::Reversed => start >= asked,
                };
                for &(set, probability) in starts {
                    let there = (0..3).filter(|i| set >> i & 1 == 1).map(|i| STARTS[i]);
                    let none: f64 = there.filter(|s| fits(*s)).map(|s| 1.0 - ends_after(s, end)).product();
                    found += probability * (1.0 - none);
                }
            }
        }
        found / (3.0 * 24.0) * TYPE_THERE * ACTIVE * 100.0
    };
    (rate(&loaded_starts(population), &loaded_end), rate(&any_starts, &any_end))
}

pub(super) fn statistics(tatp: &Tatp, counted: Counted<'_>) -> Statistics {
    let (options, mut all) = (tatp.options(), Statistics::default());
    let destinations = destinations(options.distribution, options.predicate);
    let there = TYPE_THERE * 100.0;
    for (kind, share) in MIX {
        let (name, ended) = (kind.name(), counted.ended(kind.name()));
        if options.mix == Mix::Full {
            let within = (share - MIX_MARGIN, share + MIX_MARGIN);
            all.share(format!("mix_{name}_percent"), ended, counted.ended_in_all(), within);
        }
        let (low, high) = match kind {
            Kind::GetSubscriberData | Kind::UpdateLocation => (100.0, 100.0),
            Kind::GetAccessData | Kind::UpdateSubscriberData => (there, there),
            // A mix of only one of them does not reach the balance: it runs out of starts to fill,
            // or of rows to delete.
            Kind::InsertCallForwarding | Kind::DeleteCallForwarding if options.mix != Mix::Full => continue,
            Kind::InsertCallForwarding | Kind::DeleteCallForwarding => (there / 2.0, there / 2.0),
            Kind::GetNewDestination if options.mix == Mix::Full => {
                (destinations.0.min(destinations.1), destinations.0.max(destinations.1))
            }
            Kind::GetNewDestination => (destinations.0, destinations.0),
        };
        let within = (low - RATE_MARGIN, high + RATE_MARGIN);
        all.share(format!("success_{name}_percent"), ended - counted.rolled_back(name), ended, within);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_found_as_often_as_the_facts_say() {
        for (population, predicate, loaded) in [
            (Population::Subset, Predicate::Standard, 14.79),
            (Population::Subset, Predicate::Reversed, 24.6),
            (Population::Prefix, Predicate::Standard, 13.2),
            (Population::Prefix, Predicate::Reversed, 15.7),
        ] {
            let (found, aged) = destinations(population, predicate);
            assert!((found - loaded).abs() < 0.06, "{population:?} {predicate:?}: {found}");
            // With a random end, the query's direction makes no difference: it matches a third of
            // the starts either way.
            assert!((aged - 20.43).abs() < 0.05, "{population:?} {predicate:?}: {aged}");
        }
    }
}
