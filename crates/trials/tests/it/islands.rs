//! Histories over several instances that end and restart.

use crate::plans::recorded;
use trials::islands::Course;

fn again(course: &Course) -> String {
    let Course { seed, transactions, .. } = course;
    format!("again: cargo xtask histories islands --seed {seed} --histories 1 --transactions {transactions}")
}

/// Transactions of one history here; `cargo xtask histories islands` records 3,000 each.
const TRANSACTIONS: usize = 300;

/// Each design over each channel, and on simulated disks; in four tests, which share the
/// processors.
fn innocent(seeds: impl Iterator<Item = u64>) {
    for seed in seeds {
        let course = Course::drawn(seed, TRANSACTIONS);
        let outcome = recorded(&course).unwrap_or_else(|why| panic!("{course}: {why}\n{}", again(&course)));
        assert!(outcome.is_sound(), "{course}: {outcome}\n{}", again(&course));
        assert!(outcome.verdict.committed >= TRANSACTIONS, "{course}: {outcome}\n{}", again(&course));
    }
}

#[test]
fn histories_over_several_instances_in_threads_are_strictly_serialisable() {
    innocent(0..7);
}

#[test]
fn histories_over_sockets_and_processes_that_are_killed_are_strictly_serialisable() {
    innocent(7..14);
}

#[test]
fn histories_over_shared_memory_and_processes_that_are_killed_are_strictly_serialisable() {
    innocent(14..21);
}

#[test]
fn histories_over_simulated_disks_whose_power_is_cut_are_strictly_serialisable() {
    innocent(21..28);
}
