//! Histories over several instances that end and restart, with bugs planted, judged guilty.

use crate::plans::recorded;
use exec::DesignKind::{self, Conventional, Logical, Occ};
use instance::planted::{Bug, plant};
use trials::islands::{Course, Via};
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
