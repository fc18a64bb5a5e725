//! Threads of one instance in critical sections: laws, and the anchor of the access histogram.

use crate::machines;
use deploysim::sections::{Class, DESIGNS, Homes, Load, Part, SectionCase, SectionOutcome, Way, simulate};
use deploysim::{EngineProfile, MachineModel, RunOptions};

const SHORT: RunOptions = RunOptions { seed: 1, transactions: 6_000, warm_up: 3_000, most_ns: f64::INFINITY };

fn machine(name: &str) -> MachineModel {
    MachineModel::parse(&machines(name)).unwrap()
}

fn sun() -> MachineModel {
    machine("sun-t5220.toml")
}

fn opteron() -> MachineModel {
    machine("quad-socket-opteron-8356.toml")
}

fn papers_engine() -> EngineProfile {
    EngineProfile::builtin("shore-mt").unwrap()
}

fn run(machine: &MachineModel, load: &Load, design: &str, contexts: usize) -> SectionOutcome {
    let profile = papers_engine();
    simulate(&SectionCase::new(machine, &profile, load, design, contexts).unwrap(), &SHORT)
}

fn loads(sites: u32) -> Vec<Load> {
    vec![
        Load::get_subscriber_data(sites),
        Load::tatp(sites),
        Load::tpcb(sites).without_padding(),
        Load::new_order_and_payment(sites),
        Load::stock_level(sites, 20),
        Load::range_scan(sites, 100, true),
        Load::range_scan(sites, 100, false),
        Load::probe_insert(sites, 0.5),
    ]
}

#[test]
fn the_time_of_all_contexts_is_spent_or_idle() {
    let machine = opteron();
    for load in loads(16) {
        for design in DESIGNS {
            let outcome = run(&machine, &load, design.name, 0);
            let spent: f64 = outcome.parts.iter().sum::<f64>() + outcome.idle_ns;
            let all = outcome.window_ns * outcome.contexts as f64;
            // A step that begins in the window may end after it.
            assert!((spent / all - 1.0).abs() < 0.02, "{} {}: {spent} of {all}", load.name, design.name);
            assert!(outcome.parts.iter().all(|ns| *ns >= 0.0), "{:?}", outcome.parts);
        }
    }
}

#[test]
fn equal_seeds_give_equal_outcomes() {
    for load in loads(16) {
        let (a, b) = (run(&opteron(), &load, "logical", 0), run(&opteron(), &load, "logical", 0));
        assert_eq!(a, b, "{}", load.name);
    }
}

/// One thread waits for nothing and moves no line: its rate follows from the sum of the costs.
#[test]
fn one_context_has_the_rate_of_its_costs() {
    let (machine, profile) = (opteron(), papers_engine());
    let costs = &profile.designs["conventional"];
    // Begin and commit, a row with its locks and latches, and the two visits of the root.
    let ns = costs.work.read.at(1.0) + costs.shared.read.per_row + 2.0 * profile.lines.t0_ns;
    let outcome = run(&machine, &Load::get_subscriber_data(16), "conventional", 1);
    let expected = 1e9 * profile.speed_on(&machine) / ns;
    assert!((outcome.tps / expected - 1.0).abs() < 0.02, "{} and not {expected}", outcome.tps);
    for part in [Part::LatchWait, Part::LockWait, Part::LockHead, Part::SplitWait, Part::MessageWait] {
        assert_eq!(outcome.per_transaction(part), 0.0, "{}", part.name());
    }
}

/// The thesis, Figure 3.6: Logical latches as many pages as Conventional, Regular no index pages,
/// and Partition and Leaf none at all.
#[test]
fn designs_latch_what_they_are_built_to_latch() {
    for load in loads(16) {
        let latches = |design: &str| {
            let outcome = run(&opteron(), &load, design, 0);
            outcome.latches.map(|latches| latches / outcome.committed as f64)
        };
        let [index, heap] = latches("conventional");
        let logical = latches("logical");
        assert!(index > 0.0 && heap > 0.0, "{}", load.name);
        let is_range = load.kinds[0].phases[0][0].way;
        if !matches!(is_range, Way::Range | Way::RangeNotAligned) {
            assert!((logical[0] / index - 1.0).abs() < 0.05, "{}: {logical:?} {index}", load.name);
        }
        assert!((logical[1] / heap - 1.0).abs() < 0.05, "{}: {logical:?} {heap}", load.name);
        let regular = latches("plp-regular");
        assert!((regular[1] / heap - 1.0).abs() < 0.05, "{}: {regular:?} {heap}", load.name);
        if is_range != Way::RangeNotAligned {
            assert_eq!(regular[0], 0.0, "{}", load.name);
            assert_eq!(latches("plp-leaf"), [0.0; 2], "{}", load.name);
        }
        let many = latches("conventional-mrbt");
        assert!(many[0] < index, "{}: {many:?}", load.name);
    }
}

#[test]
fn owners_take_no_central_locks_and_enter_more_fixed_sections() {
    let load = Load::tpcb(16);
    let (conventional, leaf) =
        (run(&opteron(), &load, "conventional", 0), run(&opteron(), &load, "plp-leaf", 0));
    assert!(conventional.row_locks > 0.0 && leaf.row_locks == 0.0);
    assert_eq!(leaf.entries_per_transaction(Class::Unbounded), 0.0);
    assert!(leaf.entries_per_transaction(Class::Fixed) > conventional.entries_per_transaction(Class::Fixed));
    let log = |o: &SectionOutcome| o.entries_per_transaction(Class::Cooperative);
    assert!((log(&leaf) / log(&conventional) - 1.0).abs() < 0.05, "the log is the same");
}

/// All that wait for a cooperative section share its next turn, however many they are.
#[test]
fn cooperative_and_fixed_sections_bound_the_waiting() {
    let load = Load::tpcb(64).without_padding();
    let waited = |contexts| run(&sun(), &load, "conventional", contexts);
    let (few, many) = (waited(8), waited(64));
    let bound = |o: &SectionOutcome| o.turns_waited(Class::Cooperative);
    assert!(bound(&few) <= 1.05 && bound(&many) <= 1.05, "{} {}", bound(&few), bound(&many));
    let wait = |o: &SectionOutcome| o.wait_per_entry(Class::Unbounded);
    assert!(wait(&many) > 4.0 * wait(&few), "{} {}", wait(&few), wait(&many));
}

#[test]
fn splits_block_one_tree_and_no_sub_tree() {
    let load = Load::probe_insert(64, 1.0);
    let wait = |design: &str| run(&sun(), &load, design, 0).per_transaction(Part::SplitWait);
    assert!(wait("conventional") > 100.0 * wait("conventional-mrbt"));
    assert_eq!(
        run(&sun(), &Load::probe_insert(64, 0.0), "conventional", 0).per_transaction(Part::SplitWait),
        0.0
    );
}

/// Half of the requests for 30 % of the partitions are 5/3 of the even load of a partition.
#[test]
fn a_hot_range_slows_owners_by_its_load_at_most() {
    let (even, hot) = (
        Load::get_subscriber_data(16),
        Load::get_subscriber_data(16).with_homes(Homes::Hot { sites: 0.3125, requests: 0.5 }),
    );
    let tps = |load: &Load, design: &str| run(&opteron(), load, design, 0).tps;
    let drop = 1.0 - tps(&hot, "plp-leaf") / tps(&even, "plp-leaf");
    // Five of sixteen partitions get 1.6 times the even load.
    assert!(drop > 0.1 && drop < 1.0 - 1.0 / 1.6, "{drop}");
    let flat = tps(&hot, "conventional") / tps(&even, "conventional");
    assert!((flat - 1.0).abs() < 0.02, "{flat}");
}

#[test]
fn contexts_of_a_core_share_its_pipelines() {
    let pipelines = sun().terms().pipelines.unwrap();
    assert_eq!(pipelines.stretch(1), 1.0);
    let stretches: Vec<f64> = (1..=8).map(|running| pipelines.stretch(running)).collect();
    assert!(stretches.is_sorted() && stretches[7] < 3.0, "{stretches:?}");
    // Eight contexts retire more than one instruction a cycle, of two (thesis, Figure 5.8).
    let usual = 1.0 - pipelines.busy + pipelines.busy * stretches[7];
    let retired = 8.0 * pipelines.busy / usual;
    assert!(retired > 1.0 && retired < 2.0, "{retired}");
}

/// The anchor of `histogram_ns`: 6 % of the throughput on average (thesis s4.5.2).
#[test]
fn the_histogram_costs_what_it_was_fitted_to() {
    let (machine, profile, load) = (sun(), papers_engine(), Load::get_subscriber_data(64));
    let tps = |contexts, histogram| {
        let case = SectionCase::new(&machine, &profile, &load, "plp-regular", contexts).unwrap();
        let case = if histogram { case.with_histogram(100) } else { case };
        simulate(&case, &RunOptions { transactions: 12_000, ..SHORT }).tps
    };
    let losses: Vec<f64> = [8, 16, 32, 64]
        .into_iter()
        .map(|contexts| 1.0 - tps(contexts, true) / tps(contexts, false))
        .collect();
    let mean = losses.iter().sum::<f64>() / 4.0;
    assert!((mean - 0.06).abs() < 0.015, "{losses:?}");
}

#[test]
fn bad_cases_are_refused_with_what_is_expected() {
    let (machine, load) = (opteron(), Load::tatp(16));
    let said = |profile: &str, load: &Load, design: &str, contexts| {
        let profile = EngineProfile::builtin(profile).unwrap();
        SectionCase::new(&machine, &profile, load, design, contexts).unwrap_err().to_string()
    };
    assert!(said("shore-mt", &load, "plp", 0).contains("plp-regular"));
    assert!(said("shore-mt", &load, "logical", 17).contains("17 threads on 16 contexts"));
    assert!(said("atoll", &load, "logical", 0).contains("critical sections"));
    let empty = Load { kinds: Vec::new(), ..Load::tatp(16) };
    assert!(said("shore-mt", &empty, "logical", 0).contains("add up to 0"));
}
