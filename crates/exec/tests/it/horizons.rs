//! The position in the log for which a reader's answer waits: at least the last commit that it has
//! seen, and not a commit of other rows.

use crate::isolation::{Bench, Done, T, bench_that};
use base::Lsn;
use fastrand::Rng;
use locks::{Inheritance, LockTuning};
use std::collections::BTreeMap;
use txn::{Direction, Inserted};

fn bench(inheritance: Inheritance, ids: impl Iterator<Item = i64>) -> Bench {
    bench_that(true, LockTuning { inheritance, ..LockTuning::PLAIN }, T, ids)
}

fn write(bench: &Bench, id: i64) -> Lsn {
    let mut writer = bench.begin();
    assert_eq!(bench.write(&mut writer, id, id), Done(Some(())));
    writer.commit()
}

#[test]
fn a_reader_waits_for_the_row_that_it_read_and_not_for_others() {
    let bench = bench(Inheritance::On, 0..100);
    let written = write(&bench, 7);
    let mut reader = bench.begin();
    assert_eq!(bench.read(&mut reader, 8), Done(Some(0)));
    assert!(reader.commit() < written);
    let mut reader = bench.begin();
    assert_eq!(bench.read(&mut reader, 7), Done(Some(7)));
    assert!(reader.commit() >= written);
}

#[test]
fn a_row_that_is_gone_is_waited_for_too() {
    let bench = bench(Inheritance::On, 0..100);
    let mut writer = bench.begin();
    assert_eq!(bench.delete(&mut writer, 7), Done(true));
    let deleted = writer.commit();
    let mut reader = bench.begin();
    assert_eq!(bench.read(&mut reader, 7), Done(None));
    assert!(reader.commit() >= deleted);
    let mut reader = bench.begin();
    assert_eq!(bench.scan(&mut reader, 7, 8, Direction::Forward), Done(vec![]));
    assert!(reader.commit() >= deleted);
    let mut reader = bench.begin();
    assert_eq!(bench.scan(&mut reader, 20, 22, Direction::Forward), Done(vec![20, 21]));
    assert!(reader.commit() < deleted);
}

#[test]
fn a_reader_of_a_whole_table_waits_for_all() {
    let bench = bench(Inheritance::On, 0..100);
    let written = write(&bench, 7);
    let mut reader = bench.begin();
    let all = bench.scan(&mut reader, i64::MIN, i64::MAX, Direction::Forward);
    assert!(matches!(all, Done(rows) if rows.len() == 100));
    assert!(reader.commit() >= written);
}

/// Transactions one after the other, of random changes. A reader's horizon is compared with the
/// last commit that changed each key that it asked for, there or not.
#[test]
fn no_commit_that_was_seen_is_missed() {
    for (seed, inheritance) in [(1, Inheritance::On), (2, Inheritance::Off), (3, Inheritance::On)] {
        let (bench, mut random) = (bench(inheritance, (0..60).map(|i| i * 2)), Rng::with_seed(seed));
        let mut changed: BTreeMap<i64, Lsn> = BTreeMap::new();
        let (mut readers, mut free) = (0, 0);
        for round in 0..3000 {
            let mut scene = bench.begin();
            if random.bool() {
                let mut changes = Vec::new();
                for _ in 0..random.usize(1..4) {
                    let id = random.i64(0..120);
                    let has_changed = match random.u32(..3) {
                        0 => bench.insert(&mut scene, id) == Done(Inserted::Done),
                        1 => bench.delete(&mut scene, id) == Done(true),
                        _ => bench.write(&mut scene, id, round) == Done(Some(())),
                    };
                    changes.extend(has_changed.then_some(id));
                }
                if random.u32(..5) == 0 {
                    scene.rollback();
                } else {
                    let end = scene.commit();
                    changed.extend(changes.into_iter().map(|id| (id, end)));
                }
                continue;
            }
            let low = random.i64(0..120);
            let high = low + [1, 1, 3, 30][random.usize(..4)];
            if high == low + 1 && random.bool() {
                assert!(matches!(bench.read(&mut scene, low), Done(_)));
            } else {
                let direction = [Direction::Forward, Direction::Backward][random.usize(..2)];
                assert!(matches!(bench.scan(&mut scene, low, high, direction), Done(_)));
            }
            let horizon = scene.commit();
            let seen = changed.range(low..high).map(|(_, end)| *end).max().unwrap_or(Lsn(0));
            assert!(horizon >= seen, "round {round} of seed {seed}: {low}..{high}: {horizon:?} of {seen:?}");
            readers += 1;
            free += u32::from(horizon < bench.engine.store().log().end());
        }
        assert!(free * 4 > readers, "{free} of {readers} readers wait for less than the whole log");
    }
}
