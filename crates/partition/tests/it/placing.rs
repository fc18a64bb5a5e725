//! Placement compared with all possible placements, on cases small enough to try them all.

use partition::placement::{Placement, PlacementError, Price, Problem, Together, improve, place};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

fn all(problem: &Problem) -> impl Iterator<Item = Placement> {
    let (islands, partitions) = (problem.islands.len(), problem.work.len());
    let of = move |mut n: usize| {
        let mut digit = || {
            let d = n % islands;
            n /= islands;
            d
        };
        Placement((0..partitions).map(|_| digit()).collect())
    };
    (0..islands.pow(partitions as u32)).map(of)
}

fn least(problem: &Problem) -> Price {
    all(problem).map(|p| problem.price(&p)).min_by(|a, b| a.partial_cmp(b).unwrap()).unwrap()
}

fn together(pairs: &[(usize, usize, u64)]) -> Vec<Together> {
    pairs.iter().map(|&(a, b, transactions)| Together { a, b, transactions }).collect()
}

/// Four warehouses with four tables each. Payment touches three tables of one warehouse, and
/// sometimes another one's customers.
fn warehouses() -> Problem {
    let mut pairs = Vec::new();
    for w in 0..4 {
        for (a, b) in [(0, 1), (0, 2), (1, 2), (0, 3)] {
            pairs.push((4 * w + a, 4 * w + b, 100));
        }
        pairs.push((4 * w, 4 * ((w + 1) % 4) + 2, 15));
    }
    Problem { work: vec![1.0; 16], together: together(&pairs), islands: vec![2, 2], slack: 0.1 }
}

#[test]
fn what_is_touched_together_is_placed_together() {
    let problem = warehouses();
    let Placement(at) = place(&problem).unwrap();
    for w in 0..4 {
        assert!((1..4).all(|t| at[4 * w + t] == at[4 * w]), "{at:?}");
    }
    assert_eq!(problem.price(&Placement(at)), Price { overload: 0.0, crossing: 30.0 });
}

#[test]
fn islands_get_work_by_their_cores() {
    let problem = Problem { work: vec![1.0; 12], together: vec![], islands: vec![8, 4], slack: 0.0 };
    let Placement(at) = place(&problem).unwrap();
    assert_eq!(at.iter().filter(|&&i| i == 0).count(), 8);
}

#[test]
fn a_good_placement_stays_and_one_stray_comes_home_alone() {
    let problem = warehouses();
    let good = place(&problem).unwrap();
    assert_eq!(improve(&problem, &good, 1.0).unwrap(), good);
    let problem = Problem { slack: 0.3, ..problem };
    let mut stray = good.clone();
    stray.0[5] = 1 - stray.0[5];
    assert_eq!(improve(&problem, &stray, 50.0).unwrap(), good);
    assert_eq!(improve(&problem, &stray, 500.0).unwrap(), stray, "not worth a move");
    let relabelled = Placement(good.0.iter().map(|i| 1 - i).collect());
    assert_eq!(improve(&problem, &relabelled, 1.0).unwrap(), relabelled, "islands are alike");
}

/// Work in nanoseconds has rounding errors larger than small loads; the search must end with the
/// same answer.
#[test]
fn the_unit_of_work_does_not_matter() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..40 {
        let small = any_problem().new_tree(&mut runner).unwrap().current();
        let large = Problem { work: small.work.iter().map(|w| w * 1.1e15 / 3.0).collect(), ..small.clone() };
        let (a, b) = (place(&small).unwrap(), place(&large).unwrap());
        assert_eq!(small.price(&a).crossing, small.price(&b).crossing, "{small:?}");
    }
}

#[test]
fn problems_that_make_no_sense_are_refused() {
    let good =
        Problem { work: vec![1.0; 2], together: together(&[(0, 1, 5)]), islands: vec![1, 1], slack: 0.1 };
    let refused = |change: fn(&mut Problem)| {
        let mut problem = good.clone();
        change(&mut problem);
        place(&problem).unwrap_err()
    };
    assert_eq!(refused(|p| p.islands.clear()), PlacementError::NoIsland);
    assert_eq!(refused(|p| p.islands[1] = 0), PlacementError::NoCores { island: 1 });
    assert!(matches!(refused(|p| p.work[1] = f64::NAN), PlacementError::Work { partition: 1, .. }));
    assert_eq!(refused(|p| p.together[0].b = 2), PlacementError::Unknown { partition: 2, partitions: 2 });
    assert_eq!(refused(|p| p.slack = -0.1), PlacementError::Slack(-0.1));
    for current in [vec![0], vec![0, 2]] {
        assert!(matches!(improve(&good, &Placement(current), 1.0), Err(PlacementError::Current { .. })));
    }
}

fn any_problem() -> impl Strategy<Value = Problem> {
    (2usize..8, 2usize..4).prop_flat_map(|(partitions, islands)| {
        let work = prop::collection::vec((1u32..20).prop_map(f64::from), partitions);
        let pair = (0..partitions, 0..partitions, 1u64..100);
        let pairs = prop::collection::vec(pair, 0..20);
        let cores = prop::collection::vec(1usize..4, islands);
        (work, pairs, cores, 0.0f64..0.6).prop_map(|(work, pairs, islands, slack)| Problem {
            work,
            together: together(&pairs),
            islands,
            slack,
        })
    })
}

/// Over 300 random problems: how often the heuristic finds the best placement, and how far off it
/// is otherwise.
#[test]
fn placements_are_nearly_always_the_best_there_are() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut best, mut crossing, mut least_crossing, mut overloaded) = (0, 0.0, 0.0, 0);
    for _ in 0..300 {
        let problem = any_problem().new_tree(&mut runner).unwrap().current();
        let (found, least) = (problem.price(&place(&problem).unwrap()), least(&problem));
        let feasible = least.overload < 1e-6;
        overloaded += usize::from(feasible && found.overload > 1e-6);
        if (found.overload - least.overload).abs() < 1e-6 {
            best += usize::from(found.crossing <= least.crossing + 1e-6);
            crossing += found.crossing;
            least_crossing += least.crossing;
        }
    }
    assert!(best >= 260, "{best} of 300");
    assert!(overloaded <= 6, "{overloaded} placements are overloaded although they need not be");
    assert!(crossing <= least_crossing * 1.05, "{crossing} against {least_crossing}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn improving_never_makes_it_worse_and_then_rests(problem in any_problem(), seed: u64, price in 0.0f64..50.0) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let current = Placement(problem.work.iter().map(|_| rng.usize(..problem.islands.len())).collect());
        let next = improve(&problem, &current, price).unwrap();
        let moved = current.0.iter().zip(&next.0).filter(|(a, b)| a != b).count() as f64;
        let (before, after) = (problem.price(&current), problem.price(&next));
        let gained = after.overload < before.overload - 1e-6
            || after.overload <= before.overload + 1e-6 && after.crossing + price * moved <= before.crossing + 1e-6;
        prop_assert!(gained, "{before:?} {after:?} {moved}");
    }
}
