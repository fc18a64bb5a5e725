//! Every input of TPC-C and TATP has the distribution that its definition states, over at least
//! 10^5 draws; `generators` has the tests for the other workloads. All seeds are fixed, so a
//! failure means a change.

use crate::generators::{chi_square, limit, requests};
use std::collections::BTreeMap;
use txn::Workload;
use txn::workload::Placement;
use workload::tatp::{Kind, Mix as TatpMix, Popularity, Tatp, TatpOptions, TatpRequest};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Mix, Tpcc, TpccOptions, TpccRequest, Who};

/// Counts of values by the name of an input.
#[derive(Default)]
struct Seen(BTreeMap<&'static str, BTreeMap<i64, u64>>);

impl Seen {
    fn note(&mut self, name: &'static str, value: impl Into<i64>) {
        *self.0.entry(name).or_default().entry(value.into()).or_default() += 1;
    }

    fn draws(&self, name: &str) -> u64 {
        self.0[name].values().sum()
    }

    /// The draws are uniform over `values`, all of them and no others, with at least 10^5 draws.
    fn assert_uniform(&self, name: &str, values: impl Iterator<Item = i64>) {
        let (all, mut counts) = (&self.0[name], Vec::new());
        values.for_each(|v| counts.push(all.get(&v).copied().unwrap_or(0)));
        assert_eq!(counts.iter().sum::<u64>(), self.draws(name), "{name}: values out of range in {all:?}");
        assert!(self.draws(name) >= 100_000, "{name}: {} draws", self.draws(name));
        let found = chi_square(&counts);
        assert!(found < limit(counts.len() as f64 - 1.0), "{name}: chi-square {found} of {counts:?}");
    }

    /// Per cent of the draws that the most popular `share` of `domain` values gets.
    fn hottest(&self, name: &str, domain: usize, share: f64) -> f64 {
        let mut counts: Vec<u64> = self.0[name].values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let some: u64 = counts.iter().take((domain as f64 * share) as usize).sum();
        some as f64 / self.draws(name) as f64 * 100.0
    }
}

fn tpcc(mix: Mix, warehouses: u32, multisite: Option<f64>) -> Tpcc {
    Tpcc::new(TpccOptions { mix, multisite, ..TpccOptions::new(warehouses) }).unwrap()
}

fn note_who(seen: &mut Seen, who: Who) {
    match who {
        Who::Id(id) => seen.note("customer", id),
        Who::Name(number) => seen.note("name", number),
    }
}

fn tpcc_inputs(draws: usize) -> Seen {
    let (order, payment) = (tpcc(Mix::NewOrder, 20, None), tpcc(Mix::Payment, 20, None));
    let mut seen = Seen::default();
    for request in requests(&order, 0..20, draws).chain(requests(&payment, 0..20, draws)) {
        match request {
            TpccRequest::NewOrder(r) => {
                seen.note("warehouse", r.w);
                seen.note("district", r.d);
                seen.note("orderer", r.c);
                seen.note("lines", r.lines.len() as u32);
                for line in &r.lines {
                    seen.note("quantity", line.quantity);
                    seen.note(if line.item > 100_000 { "unused" } else { "item" }, line.item);
                }
            }
            TpccRequest::Payment(r) => {
                seen.note("paying district", r.d);
                seen.note("tenth of the amounts", (r.amount - 100) / 49_991);
                note_who(&mut seen, r.who);
            }
            other => panic!("{other:?}"),
        }
    }
    seen
}

#[test]
fn tpcc_draws_uniformly_what_it_should() {
    let seen = tpcc_inputs(120_000);
    seen.assert_uniform("warehouse", 0..20);
    seen.assert_uniform("district", 1..=10);
    seen.assert_uniform("paying district", 1..=10);
    seen.assert_uniform("lines", 5..=15);
    seen.assert_uniform("quantity", 1..=10);
    // Ten equal ranges of the 499,901 amounts; the last range is one short.
    seen.assert_uniform("tenth of the amounts", 0..=9);
}

/// The concentration of NURand, compared with published samples.
#[test]
fn tpcc_draws_customers_items_and_names_as_nurand_does() {
    let seen = tpcc_inputs(260_000);
    let near = |what: &str, found: f64, expected: f64, tolerance: f64| {
        assert!((found - expected).abs() <= tolerance, "{what}: expected {expected} %, found {found} %");
    };
    for name in ["customer", "orderer"] {
        assert!(seen.draws(name) >= 100_000);
        near(name, seen.hottest(name, 3_000, 0.1), 61.0, 2.0);
        near(name, seen.hottest(name, 3_000, 0.2), 79.0, 2.0);
        assert!(seen.0[name].keys().all(|id| (1..=3_000).contains(id)));
    }
    assert!(seen.draws("item") >= 1_000_000);
    near("item", seen.hottest("item", 100_000, 0.01), 31.0, 2.0);
    near("item", seen.hottest("item", 100_000, 0.1), 72.0, 2.0);
    assert!(seen.0["item"].keys().all(|id| (1..=100_000).contains(id)));
    // A thousand names are few enough for a comparison of the hundred likeliest with the exact law.
    assert!(seen.draws("name") >= 100_000);
    assert!(seen.0["name"].keys().all(|n| (0..1_000).contains(n)));
    let exact = exact_nurand(255, 211, 999);
    let likeliest: f64 = exact[..100].iter().map(|(_, p)| p).sum();
    let hits: u64 = exact[..100].iter().filter_map(|(n, _)| seen.0["name"].get(n)).sum();
    near("name", hits as f64 / seen.draws("name") as f64 * 100.0, likeliest * 100.0, 0.5);
}

/// The values of `((U(0, a) | U(0, top)) + c) mod (top + 1)` with their probabilities, the
/// likeliest first.
fn exact_nurand(a: usize, c: usize, top: usize) -> Vec<(i64, f64)> {
    let mut all: Vec<(i64, f64)> = (0..=top as i64).map(|value| (value, 0.0)).collect();
    for x in 0..=a {
        for y in 0..=top {
            all[((x | y) + c) % (top + 1)].1 += 1.0 / ((a + 1) * (top + 1)) as f64;
        }
    }
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

#[test]
fn the_rare_transactions_of_tpcc_have_their_inputs_too() {
    let mut seen = Seen::default();
    let (mut asked, mut by_name) = (0.0, 0.0);
    for request in requests(&tpcc(Mix::Full, 4, None), 0..4, 2_600_000) {
        match request {
            TpccRequest::OrderStatus(r) => {
                asked += 1.0;
                by_name += f64::from(matches!(r.who, Who::Name(_)));
                seen.note("status district", r.d);
            }
            TpccRequest::Delivery(r) => seen.note("carrier", r.carrier),
            TpccRequest::StockLevel(r) => {
                seen.note("threshold", r.threshold);
                seen.note("level district", r.d);
            }
            _ => {}
        }
    }
    seen.assert_uniform("status district", 1..=10);
    seen.assert_uniform("carrier", 1..=10);
    seen.assert_uniform("threshold", 10..=20);
    seen.assert_uniform("level district", 1..=10);
    assert!((by_name / asked * 100.0 - 60.0_f64).abs() < 0.6, "{by_name} of {asked}");
}

#[test]
fn the_share_of_remote_tpcc_transactions_follows_the_option() {
    const DRAWS: usize = 100_000;
    for asked in [0.0, 20.0, 100.0] {
        for mix in [Mix::NewOrder, Mix::Payment] {
            let tpcc = tpcc(mix, 8, Some(asked));
            let remote = requests(&tpcc, 2..4, DRAWS).filter(|request| match request {
                TpccRequest::NewOrder(r) => {
                    let elsewhere = r.lines.iter().filter(|line| line.supply != r.w).count();
                    assert!((2..4).contains(&r.w) && elsewhere <= 1);
                    elsewhere > 0
                }
                TpccRequest::Payment(r) => r.customer_w != r.w,
                _ => panic!("another kind"),
            });
            let found = remote.count() as f64 / DRAWS as f64 * 100.0;
            assert!((found - asked).abs() < 0.5, "asked for {asked} %, found {found} %");
        }
    }
}

#[test]
fn tatp_draws_uniformly_what_it_should() {
    const DRAWS: usize = 110_000;
    let mut seen = Seen::default();
    for kind in [
        Kind::GetNewDestination,
        Kind::GetAccessData,
        Kind::UpdateSubscriberData,
        Kind::UpdateLocation,
        Kind::InsertCallForwarding,
        Kind::DeleteCallForwarding,
    ] {
        let mix = TatpMix::Only(kind);
        let popularity = Popularity::Uniform;
        let tatp =
            Tatp::new(TatpOptions { mix, popularity, subscribers: 50, ..TatpOptions::new(2) }).unwrap();
        for request in requests(&tatp, 0..2, DRAWS) {
            match request {
                TatpRequest::GetNewDestination(r) => {
                    seen.note("destination type", r.sf_type);
                    seen.note("destination start", r.start);
                    seen.note("destination end", r.end);
                }
                TatpRequest::GetAccessData { s, ai_type } => {
                    seen.note("subscriber", s);
                    seen.note("access type", ai_type);
                }
                TatpRequest::UpdateSubscriberData(r) => {
                    seen.note("bit", r.bit);
                    seen.note("data", r.data_a);
                    seen.note("update type", r.sf_type);
                }
                TatpRequest::UpdateLocation { number, location } => {
                    seen.note("number", number);
                    seen.note("sixteenth of the locations", location >> 28);
                }
                TatpRequest::InsertCallForwarding { number, sf_type, start, end, numberx } => {
                    seen.note("insert number", number);
                    seen.note("insert type", sf_type);
                    seen.note("insert start", start);
                    seen.note("insert end", end);
                    seen.note("called number", numberx);
                }
                TatpRequest::DeleteCallForwarding { number, sf_type, start } => {
                    seen.note("delete number", number);
                    seen.note("delete type", sf_type);
                    seen.note("delete start", start);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    for name in ["destination type", "access type", "update type", "insert type", "delete type"] {
        seen.assert_uniform(name, 1..=4);
    }
    for name in ["destination start", "insert start", "delete start"] {
        seen.assert_uniform(name, [0, 8, 16].into_iter());
    }
    for name in ["destination end", "insert end"] {
        seen.assert_uniform(name, 1..=24);
    }
    for name in ["subscriber", "number", "insert number", "delete number", "called number"] {
        seen.assert_uniform(name, 1..=100);
    }
    seen.assert_uniform("bit", 0..=1);
    seen.assert_uniform("data", 0..=255);
    seen.assert_uniform("sixteenth of the locations", 0..16);
}

/// 0.15 (1 - (w - 1) / (B - 1)) with w of B branches at each instance, as published for B = 24.
#[test]
fn the_distributed_share_of_tpcb_is_that_of_the_table() {
    const DRAWS: usize = 200_000;
    let tpcb = Tpcb::new(TpcbOptions::new(24)).unwrap();
    let schema = tpcb.schema();
    let domain = |table| schema.table(table).unwrap().domain;
    for (instances, expected) in [(1u16, 0.0), (2, 0.0783), (4, 0.1174), (8, 0.1370), (24, 0.15)] {
        let placement = Placement::even(24, instances);
        let distributed = requests(&tpcb, 0..24, DRAWS).filter(|request| {
            let mut owners = Vec::new();
            tpcb.routes(request, &mut |route| {
                owners.push(placement.owner(placement.site(route.key, domain(route.table))));
            });
            owners.iter().any(|owner| *owner != owners[0])
        });
        let found = distributed.count() as f64 / DRAWS as f64;
        assert!((found - expected).abs() < 0.003, "{instances}: expected {expected}, found {found}");
    }
}
