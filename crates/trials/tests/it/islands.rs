//! Histories over several instances that end and come back; and with bugs planted, judged guilty.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use trials::islands::{Course, Outcome, Trouble, record};

fn recorded(course: &Course) -> Result<Outcome, Trouble> {
    record(course, Path::new(env!("CARGO_BIN_EXE_trials")), &AtomicBool::new(false))
}

fn again(course: &Course) -> String {
    let Course { seed, transactions, .. } = course;
    format!("again: cargo xtask histories islands --seed {seed} --histories 1 --transactions {transactions}")
}

#[cfg(not(feature = "planted"))]
mod sound {
    use super::*;

    /// Transactions of one history here; `cargo xtask histories islands` records 3,000 each.
    const TRANSACTIONS: usize = 300;

    /// Each design over each channel, and on simulated disks; in four tests, which share the processors.
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
        innocent((0..7).chain(28..35));
    }

    #[test]
    fn histories_over_sockets_and_processes_that_are_killed_are_strictly_serialisable() {
        innocent((7..14).chain(35..42));
    }

    #[test]
    fn histories_over_shared_memory_and_processes_that_are_killed_are_strictly_serialisable() {
        innocent((14..21).chain(42..49));
    }

    #[test]
    fn histories_over_simulated_disks_whose_power_is_cut_are_strictly_serialisable() {
        innocent((21..28).chain(49..56));
    }
}

/// Run alone by `cargo test -p trials --features planted planted`.
#[cfg(feature = "planted")]
mod guilty {
    use super::*;
    use exec::DesignKind;
    use instance::planted::{Bug, plant};
    use trials::islands::Via;
    use wal::Durability;

    /// Histories in which a bug is looked for at most.
    const TRIES: u64 = 12;

    /// Many ends of processes, some of them of all at once, with parts in doubt at each.
    fn torn(design: DesignKind, islands: u16, seed: u64) -> Course {
        let (workers, via, durability) = (4, Via::Uds, Durability::Sync);
        let drawn = Course::drawn(seed, 600);
        Course { design, islands, workers, via, durability, clients: 8, ends: 10, ..drawn }
    }

    /// Where the bug shows.
    fn course(bug: Bug, seed: u64) -> Course {
        use DesignKind::{Conventional, Logical, Occ};
        match bug {
            Bug::None | Bug::WrongWorker => torn([Conventional, Occ][seed as usize % 2], 2, seed),
            Bug::DoubtAcknowledged => torn([Conventional, Logical][seed as usize % 2], 2, seed),
            Bug::FirstAcknowledgement => torn(Conventional, 4, seed),
            Bug::UndurableReads | Bug::EarlyLife => torn(Conventional, 3, seed),
            Bug::EarlyRelease => {
                let (via, durability, drawn) = (Via::Ring, Durability::Memory, Course::drawn(seed, 3000));
                Course { design: Occ, islands: 4, workers: 2, via, durability, clients: 8, ends: 0, ..drawn }
            }
        }
    }

    #[test]
    fn every_planted_bug_between_instances_is_found() {
        let _alone = crate::alone();
        plant(Bug::None);
        for seed in 0..2 {
            let course = course(Bug::None, seed);
            let outcome = recorded(&course).unwrap();
            assert!(outcome.is_sound(), "{course}: {outcome}");
        }
        for bug in Bug::ALL {
            plant(bug);
            let found = (0..TRIES).find_map(|seed| {
                let course = course(bug, seed);
                let outcome = recorded(&course).unwrap();
                eprintln!("{bug:?}: {course}: {outcome}");
                (!outcome.is_sound()).then_some(seed)
            });
            assert!(found.is_some(), "{bug:?} was not found");
            println!("{bug:?} found in history {}", found.unwrap_or_default());
        }
        plant(Bug::None);
    }
}
