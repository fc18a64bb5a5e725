//! The request streams have the distributions that the definitions state. All seeds are fixed, so a
//! failure means a change.

use std::collections::HashSet;
use txn::workload::Placement;
use txn::{Generator, Workload};
use workload::micro::{Micro, MicroOptions, MicroRequest, Op};
use workload::tpcb::{RemoteRow, Tpcb, TpcbOptions, TpcbRequest};

fn micro(options: MicroOptions) -> Micro {
    Micro::new(options).unwrap()
}

pub fn requests<W: Workload>(
    w: &W,
    sites: std::ops::Range<u32>,
    n: usize,
) -> impl Iterator<Item = W::Request> {
    let mut generator = w.generator(42, sites);
    std::iter::repeat_with(move || generator.next()).take(n)
}

fn owners(placement: &Placement, request: &MicroRequest, dataset: u64) -> usize {
    let owner = |id: &u64| placement.owner(placement.site(*id, dataset));
    request.ids.iter().map(owner).collect::<HashSet<_>>().len()
}

/// P(distributed | multisite) = 1 - (1/P)^(N-1), and the expected number of instances touched.
#[test]
fn multisite_transactions_are_distributed_as_often_as_the_formula_says() {
    const DRAWS: usize = 100_000;
    for rows in [2, 4, 10] {
        let m = micro(MicroOptions { rows, multisite: 100.0, ..MicroOptions::new(24) });
        let all: Vec<_> = requests(&m, 0..24, DRAWS).collect();
        for p in [2u16, 4, 8] {
            let placement = Placement::even(24, p);
            let touched: Vec<usize> =
                all.iter().map(|r| owners(&placement, r, m.options().dataset)).collect();
            let (p, others) = (f64::from(p), rows as i32 - 1);
            let share = touched.iter().filter(|&&n| n > 1).count() as f64 / DRAWS as f64;
            let expected = 1.0 - (1.0 / p).powi(others);
            assert!((share - expected).abs() < 0.01, "N={rows} P={p}: expected {expected}, found {share}");
            let mean = touched.iter().sum::<usize>() as f64 / DRAWS as f64;
            let expected = 1.0 + (p - 1.0) * (1.0 - (1.0 - 1.0 / p).powi(others));
            assert!((mean - expected).abs() < 0.03, "N={rows} P={p}: expected {expected}, found {mean}");
        }
    }
}

/// The cluster experiment: every distributed transaction updates a row at home and reads the others
/// elsewhere.
#[test]
fn who_updates_one_row_and_reads_the_others_reads_them_elsewhere_if_multisite() {
    for skew in [0.0, 0.9] {
        let m =
            micro(MicroOptions { op: Op::Mixed, rows: 3, multisite: 100.0, skew, ..MicroOptions::new(2) });
        for r in requests(&m, 0..2, 20_000) {
            let home = m.site_of(r.home);
            let others = r.ids.iter().filter(|id| **id != r.home);
            assert_eq!(others.filter(|id| m.site_of(**id) != home).count(), 2, "{r:?}");
        }
        let local = MicroOptions { multisite: 0.0, ..m.options().clone() };
        for r in requests(&micro(local), 0..2, 1000) {
            assert!(r.ids.iter().all(|id| m.site_of(*id) == m.site_of(r.home)), "{r:?}");
        }
    }
}

#[test]
fn local_transactions_stay_in_one_of_the_generators_sites() {
    let m = micro(MicroOptions { dataset: 100_003, ..MicroOptions::new(24) });
    let mut homes = HashSet::new();
    for r in requests(&m, 6..12, 20_000) {
        let site = m.site_of(r.home);
        assert!(
            r.ids.iter().all(|&id| m.site_of(id) == site) && r.ids.contains(&r.home) && r.ids.len() == 10
        );
        homes.insert(site);
    }
    assert_eq!(homes, (6..12).collect());
}

#[test]
fn the_share_of_multisite_transactions_is_as_asked() {
    for asked in [0.0, 0.5, 20.0, 100.0] {
        let m = micro(MicroOptions { multisite: asked, ..MicroOptions::new(24) });
        let spread = |r: &MicroRequest| r.ids.iter().any(|&id| m.site_of(id) != m.site_of(r.home));
        let found = requests(&m, 0..24, 100_000).filter(spread).count() as f64 / 1_000.0;
        assert!((found - asked).abs() < 0.3, "asked for {asked} %, found {found} %");
    }
}

#[test]
fn updates_are_distinct_and_ascending_even_when_they_take_the_whole_site() {
    for skew in [0.0, 1.0, 5.0] {
        let m = micro(MicroOptions { dataset: 48, rows: 12, op: Op::Update, skew, ..MicroOptions::new(4) });
        for r in requests(&m, 0..4, 200) {
            assert!(r.ids.windows(2).all(|w| w[0] < w[1]) && r.ids.len() == 12);
        }
    }
    let reads = micro(MicroOptions { dataset: 48, rows: 12, ..MicroOptions::new(4) });
    assert!(requests(&reads, 0..4, 200).any(|r| r.ids.windows(2).any(|w| w[0] == w[1])), "reads may repeat");
    assert!(requests(&reads, 0..4, 200).all(|r| r.ids.is_sorted()));
}

#[test]
fn rows_of_a_site_are_uniform() {
    let m = micro(MicroOptions { dataset: 200, rows: 2, ..MicroOptions::new(2) });
    let mut counts = vec![0u64; 200];
    requests(&m, 0..2, 100_000).for_each(|r| r.ids.iter().for_each(|&id| counts[id as usize] += 1));
    assert!(chi_square(&counts) < limit(199.0), "{}", chi_square(&counts));
}

/// Pearson's statistic against the uniform distribution.
pub fn chi_square(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum()
}

/// The bound that chi-square with `freedom` degrees of freedom exceeds in about one case of 10,000
/// (Wilson-Hilferty).
pub fn limit(freedom: f64) -> f64 {
    let v = 2.0 / (9.0 * freedom);
    freedom * (1.0 - v + 3.72 * v.sqrt()).powi(3)
}

/// The shares of the top row, of the first site of 24, and of the first four, as published.
#[test]
fn zipf_shares_are_those_of_the_table() {
    let table = [
        (0.25, 0.00007, 0.092, 0.261),
        (0.5, 0.0010, 0.203, 0.407),
        (0.75, 0.0118, 0.430, 0.624),
        (1.0, 0.0771, 0.755, 0.862),
    ];
    const DRAWS: usize = 200_000;
    for (skew, top, first, four) in table {
        let m = micro(MicroOptions { skew, rows: 1, ..MicroOptions::new(24) });
        let homes: Vec<u64> = requests(&m, 0..24, DRAWS).map(|r| r.home).collect();
        let share = |below: u64| homes.iter().filter(|&&h| h < below).count() as f64 / DRAWS as f64;
        assert!((share(1) - top).abs() < 0.002, "s={skew}: top row {}", share(1));
        assert!((share(10_000) - first).abs() < 0.005, "s={skew}: first site {}", share(10_000));
        assert!((share(40_000) - four).abs() < 0.005, "s={skew}: first four sites {}", share(40_000));
    }
}

/// The further rows of a skewed local transaction follow the law over the table, conditioned on the
/// home site.
#[test]
fn skewed_local_transactions_stay_at_home() {
    let m = micro(MicroOptions { skew: 1.0, rows: 2, dataset: 40, ..MicroOptions::new(4) });
    let mut counts = [0f64; 10];
    for r in requests(&m, 0..4, 200_000) {
        assert_eq!(m.site_of(r.ids[0]), m.site_of(r.ids[1]));
        if m.site_of(r.home) == 1 {
            r.ids.iter().for_each(|&id| counts[(id - 10) as usize] += 1.0);
        }
    }
    let (total, weights) = (counts.iter().sum::<f64>(), (10..20).map(|id| 1.0 / f64::from(id + 1)));
    let norm: f64 = weights.clone().sum();
    for (i, w) in weights.enumerate() {
        let (expected, found) = (w / norm, counts[i] / total);
        assert!((expected - found).abs() < 0.01, "row {}: expected {expected}, found {found}", 10 + i);
    }
}

fn tpcb(options: TpcbOptions) -> Tpcb {
    Tpcb::new(options).unwrap()
}

fn is_remote(r: &TpcbRequest) -> bool {
    r.account / 100_000 != u64::from(r.branch) || r.teller / 10 != u64::from(r.branch)
}

#[test]
fn deposits_have_the_statistics_of_the_specification() {
    const DRAWS: usize = 100_000;
    let all: Vec<_> = requests(&tpcb(TpcbOptions::new(24)), 0..24, DRAWS).collect();
    let n = DRAWS as f64;
    let remote = all.iter().filter(|r| is_remote(r)).count() as f64 / n;
    assert!((remote - 0.15).abs() < 3.0 * (0.1275 / n).sqrt(), "remote {remote}");
    assert!(all.iter().all(|r| r.teller / 10 == u64::from(r.branch)), "the branch is the teller's");

    let mut tellers = vec![0u64; 240];
    all.iter().for_each(|r| tellers[r.teller as usize] += 1);
    assert!(chi_square(&tellers) < limit(239.0), "tellers {}", chi_square(&tellers));

    let mut others = vec![0u64; 23];
    for r in all.iter().filter(|r| is_remote(r)) {
        let (home, other) = (u64::from(r.branch), r.account / 100_000);
        others[(other - u64::from(other > home)) as usize] += 1;
    }
    assert!(chi_square(&others) < limit(22.0), "other branches {}", chi_square(&others));

    let mean = all.iter().map(|r| r.delta as f64).sum::<f64>() / n;
    let deviation = (all.iter().map(|r| (r.delta as f64 - mean).powi(2)).sum::<f64>() / n).sqrt();
    assert!(mean.abs() < 4.0 * 577_350.0 / n.sqrt(), "mean {mean}");
    assert!((deviation - 577_350.0).abs() < 4_000.0, "deviation {deviation}");
    assert!(all.iter().all(|r| r.delta.abs() <= 999_999));
}

#[test]
fn the_remote_share_follows_the_option() {
    for asked in [0.0, 50.0, 100.0] {
        for remote in [RemoteRow::Account, RemoteRow::Teller] {
            let w = tpcb(TpcbOptions { multisite: asked, remote, ..TpcbOptions::new(3) });
            let found = requests(&w, 1..2, 100_000).inspect(|r| {
                assert_eq!(r.branch, 1, "bound to its sites");
                let elsewhere = match remote {
                    RemoteRow::Account => r.teller / 10,
                    RemoteRow::Teller => r.account / 100_000,
                };
                assert_eq!(elsewhere, 1, "one row at most is remote");
            });
            let share = found.filter(is_remote).count() as f64 / 1_000.0;
            assert!((share - asked).abs() < 0.6, "asked for {asked} %, found {share} %");
        }
    }
    let alone = tpcb(TpcbOptions { multisite: 100.0, ..TpcbOptions::new(1) });
    assert!(requests(&alone, 0..1, 1_000).all(|r| !is_remote(&r)), "one branch has no other");
}

#[test]
fn request_numbers_are_unique_over_streams_and_equal_seeds_give_equal_streams() {
    let w = tpcb(TpcbOptions::new(2));
    let mut seen = HashSet::new();
    // Seeds with equal low bits, and seeds with equal high bits: a driver counts in either.
    for seed in (0..64).chain((1..64).map(|high| high << 24)).chain((1..64).map(|high| high << 56)) {
        let mut stream = w.generator(seed, 0..2);
        assert!((0..1_000).all(|_| seen.insert(stream.next().request)));
    }
    let again = |seed| {
        let mut stream = w.generator(seed, 0..2);
        (0..100).map(|_| stream.next()).collect::<Vec<_>>()
    };
    assert_eq!(again(7), again(7));
    let deltas = |seed| again(seed).iter().map(|r| r.delta).collect::<Vec<_>>();
    assert_ne!(deltas(7), deltas(8));
}

/// Half of the requests go to three tenths of the rows, and all rows of a local request lie in its
/// home site.
#[test]
fn a_hot_range_gets_its_share_of_requests() {
    const DRAWS: usize = 100_000;
    let hot: workload::Hot = "50/30@20".parse().unwrap();
    for op in [Op::Read, Op::Update] {
        let m = micro(MicroOptions { rows: 4, op, hot: Some(hot), ..MicroOptions::new(10) });
        assert_eq!(m.clients(), txn::Clients::Routed);
        let hot = hot.range(m.options().dataset);
        let all: Vec<_> = requests(&m, 0..10, DRAWS).collect();
        let share = all.iter().filter(|r| hot.contains(&r.home)).count() as f64 / DRAWS as f64;
        assert!((share - 0.5).abs() < 5.0 * 0.5 / (DRAWS as f64).sqrt(), "{share}");
        assert!(all.iter().all(|r| r.ids.iter().all(|id| m.site_of(*id) == m.site_of(r.home))));
    }
    let tatp = workload::WorkloadSpec {
        hot: Some(hot),
        ..workload::WorkloadSpec::new("tatp-get-subscriber-data", 4)
    };
    let workload::AnyWorkload::Tatp(tatp) = tatp.build().unwrap() else { panic!("tatp") };
    let subscriber = |r: workload::tatp::TatpRequest| match r {
        workload::tatp::TatpRequest::GetSubscriberData { s } => u64::from(s) - 1,
        other => panic!("{other:?}"),
    };
    let hot = hot.range(40_000);
    let hits = requests(&tatp, 0..4, DRAWS).filter(|r| hot.contains(&subscriber(*r))).count();
    let share = hits as f64 / DRAWS as f64;
    assert!((share - 0.5).abs() < 5.0 * 0.5 / (DRAWS as f64).sqrt(), "{share}");
}

/// A terminal keeps its warehouse and asks for the stock of its own district; its mix equals that
/// of other clients.
#[test]
fn tpcc_terminals_stay_where_they_are() {
    use workload::tpcc::{Tpcc, TpccOptions, TpccRequest};
    let tpcc = Tpcc::new(TpccOptions::new(5)).unwrap();
    let mut generator = tpcc.generator(1, 0..5);
    let mut orders = 0.0;
    for i in 0..100_000u32 {
        let (site, number) = (i % 5, i % 17);
        let request = generator.next_at(site, number);
        let mut home = None;
        tpcc.routes(&request, &mut |route| _ = home.get_or_insert(route.key));
        assert_eq!(home, Some(site.into()), "{request:?}");
        assert!(tpcc.pauses(&request).is_some_and(|p| p.keying_s >= 2.0 && p.think_s >= 5.0));
        match request {
            TpccRequest::StockLevel(level) => assert_eq!(level.d, number % 10 + 1),
            TpccRequest::NewOrder(_) => orders += 1.0,
            _ => {}
        }
    }
    assert!((orders / 100_000.0 - 0.45f64).abs() < 0.01, "{orders}");
}
