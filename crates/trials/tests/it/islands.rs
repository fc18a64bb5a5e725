//! Histories over several instances that end and restart; and with bugs planted, judged guilty.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use trials::islands::{Course, Outcome, Trouble, record};

fn recorded(course: &Course) -> Result<Outcome, Trouble> {
    record(course, Path::new(env!("CARGO_BIN_EXE_trials")), &AtomicBool::new(false))
}

#[cfg(not(feature = "planted"))]
fn again(course: &Course) -> String {
    let Course { seed, transactions, .. } = course;
    format!("again: cargo xtask histories islands --seed {seed} --histories 1 --transactions {transactions}")
}

#[cfg(not(feature = "planted"))]
mod sound {
    use super::*;

    /// Transactions of one history here; `cargo xtask histories islands` records 3,000 each.
    const TRANSACTIONS: usize = 300;

    /// Each design over each channel, and on simulated disks; in four tests, which share the
    /// processors.
    fn innocent(seeds: impl Iterator<Item = u64>) {
        for seed in seeds {
            let course = Course::drawn(seed, TRANSACTIONS);
            let outcome =
                recorded(&course).unwrap_or_else(|why| panic!("{course}: {why}\n{}", again(&course)));
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
}

/// Run alone by `cargo test -p trials --features planted planted`.
#[cfg(feature = "planted")]
mod guilty {
    use super::*;
    use exec::DesignKind::{self, Conventional, Logical, Occ};
    use instance::planted::{Bug, plant};
    use trials::islands::Via;
    use wal::Durability;

    /// The largest number of histories in which a bug is looked for.
    const TRIES: u64 = 24;

    /// Processes that end often, some of them all at once, with transactions in doubt at each end.
    fn torn(design: DesignKind, islands: u16, (clients, ends): (usize, usize), seed: u64) -> Course {
        let (workers, via, durability) = (4, Via::Uds, Durability::Sync);
        let drawn = Course::drawn(seed, 600);
        Course { design, islands, workers, via, durability, clients, ends, ..drawn }
    }

    fn found(bug: Bug, course: impl Fn(u64) -> Course) {
        let _alone = crate::alone();
        plant(bug);
        let found = (0..TRIES).find(|seed| {
            let course = course(*seed);
            let outcome = recorded(&course).unwrap();
            eprintln!("{bug:?}: {course}: {outcome}");
            !outcome.is_sound()
        });
        plant(Bug::None);
        assert!(found.is_some(), "{bug:?} was not found");
    }

    #[test]
    fn planted_nothing_is_found_where_nothing_is_planted() {
        let _alone = crate::alone();
        plant(Bug::None);
        for seed in 0..2 {
            let course = torn([Conventional, Occ][seed as usize % 2], 2, (8, 10), seed);
            let outcome = recorded(&course).unwrap();
            assert!(outcome.is_sound(), "{course}: {outcome}");
        }
    }

    #[test]
    fn planted_early_release_of_readers_is_found() {
        let (via, durability) = (Via::Ring, Durability::Memory);
        found(Bug::EarlyRelease, |seed| {
            let drawn = Course::drawn(seed, 3000);
            Course { design: Occ, islands: 4, workers: 2, via, durability, clients: 8, ends: 0, ..drawn }
        });
    }

    #[test]
    fn planted_messages_at_the_wrong_worker_are_found() {
        found(Bug::WrongWorker, |seed| torn([Conventional, Occ][seed as usize % 2], 2, (8, 10), seed));
    }

    #[test]
    fn planted_acknowledgement_of_a_part_in_doubt_is_found() {
        let design = |seed| [Conventional, Logical][seed as usize % 2];
        found(Bug::DoubtAcknowledged, |seed| torn(design(seed), 2, (8, 10), seed));
    }
}
