//! Scans through a secondary index: the rows and entries they protect, and those they leave to
//! others.

use crate::isolation::{Bench, Done, INDEXED, Tried, Waits, bench_with, key, row};
use locks::{Inheritance, LockTuning};
use std::task::{Context, Poll, Waker};
use txn::{Access, Direction, Inserted};

const WAYS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// Rows 0, 10, 20, ... 190, and row `i` has the value `i`.
fn bench(inheritance: Inheritance) -> Bench {
    let tuning = LockTuning { inheritance, ..LockTuning::PLAIN };
    let bench = bench_with(tuning, INDEXED, (0..20).map(|i| i * 10));
    let mut values = bench.begin();
    (0..20).for_each(|i| assert_eq!(bench.write(&mut values, i * 10, i * 10), Done(Some(()))));
    values.commit();
    bench
}

fn every_way(script: impl Fn(&Bench, Direction)) {
    for (inheritance, way) in
        [Inheritance::On, Inheritance::Off].into_iter().flat_map(|i| WAYS.map(|w| (i, w)))
    {
        for entries_alone in [false, true] {
            let bench = bench(inheritance);
            bench.entries_alone.set(entries_alone);
            script(&bench, way);
        }
    }
}

fn ordered(way: Direction, ids: impl DoubleEndedIterator<Item = i64>) -> Tried<Vec<(i64, i64)>> {
    Done(match way {
        Direction::Forward => ids.map(|i| (i, i)).collect(),
        Direction::Backward => ids.rev().map(|i| (i, i)).collect(),
    })
}

#[test]
pub fn no_value_appears_in_or_leaves_a_scanned_range() {
    every_way(|b, way| {
        let mut one = b.begin();
        assert_eq!(b.scan_values(&mut one, 45, 95, way), ordered(way, (5..10).map(|i| i * 10)));
        let moved_in = |from, to| {
            let mut two = b.begin();
            assert_eq!(b.write(&mut two, from, to), Waits, "row {from} gets value {to} {way:?}");
            two.rollback();
        };
        [(10, 45), (10, 50), (10, 77), (150, 94)].into_iter().for_each(|(from, to)| moved_in(from, to));
        [(50, 10), (90, 150), (70, 71)].into_iter().for_each(|(from, to)| moved_in(from, to));
        let mut two = b.begin();
        assert_eq!(b.delete(&mut two, 60), Waits);
        two.rollback();
        one.commit();
        let mut two = b.begin();
        assert_eq!(b.write(&mut two, 50, 10), Done(Some(())));
        assert_eq!(b.write(&mut two, 150, 77), Done(Some(())));
        two.commit();
    });
}

#[test]
pub fn values_beside_a_scanned_range_may_change() {
    every_way(|b, way| {
        let (mut one, mut two) = (b.begin(), b.begin());
        assert_eq!(b.scan_values(&mut one, 45, 95, way), ordered(way, (5..10).map(|i| i * 10)));
        assert_eq!(b.write(&mut two, 10, 11), Done(Some(())));
        assert_eq!(b.write(&mut two, 150, 12), Done(Some(())));
        assert_eq!(b.write(&mut two, 160, 500), Done(Some(())));
        assert_eq!(b.delete(&mut two, 190), Done(true));
        assert_eq!(b.insert(&mut two, 1000), Done(Inserted::Done));
        two.commit();
        one.commit();
    });
}

#[test]
pub fn a_scan_waits_for_values_that_are_not_committed() {
    every_way(|b, way| {
        let scans = |low, high, want: Option<Vec<i64>>| {
            let mut two = b.begin();
            let got = b.scan_values(&mut two, low, high, way);
            assert_eq!(
                got,
                want.map_or(Waits, |ids| ordered(way, ids.into_iter())),
                "{low} to {high} {way:?}"
            );
        };
        let mut one = b.begin();
        assert_eq!(b.write(&mut one, 50, 105), Done(Some(())));
        scans(45, 55, None);
        scans(101, 109, None);
        scans(52, 58, None);
        scans(15, 35, Some(vec![20, 30]));
        scans(115, 135, Some(vec![120, 130]));
        one.rollback();
        scans(45, 55, Some(vec![50]));
        scans(101, 109, Some(vec![]));
        let mut one = b.begin();
        assert_eq!(b.delete(&mut one, 70), Done(true));
        scans(65, 75, None);
        one.rollback();
        scans(65, 75, Some(vec![70]));
    });
}

#[test]
pub fn two_changes_of_neighbouring_values_do_not_wait_for_each_other() {
    every_way(|b, way| {
        let (mut one, mut two) = (b.begin(), b.begin());
        assert_eq!(b.insert(&mut one, 1), Done(Inserted::Done));
        assert_eq!(b.insert(&mut two, 2), Done(Inserted::Done));
        one.commit();
        two.commit();
        let mut three = b.begin();
        let seen = match way {
            Direction::Forward => vec![(0, 0), (0, 1), (0, 2)],
            Direction::Backward => vec![(0, 2), (0, 1), (0, 0)],
        };
        assert_eq!(b.scan_values(&mut three, 0, 5, way), Done(seen));
    });
}

#[test]
pub fn a_scan_to_the_end_of_an_index_protects_what_lies_behind() {
    every_way(|b, way| {
        let mut one = b.begin();
        assert_eq!(b.scan_values(&mut one, 175, 10_000, way), ordered(way, [180, 190].into_iter()));
        let mut two = b.begin();
        assert_eq!(b.write(&mut two, 10, 600), Waits);
        two.rollback();
        one.commit();
    });
}

/// A scan through the index reads the row: it waits for a writer of another column as well, unless
/// it wanted the entry alone.
#[test]
pub fn a_row_met_through_an_index_is_locked_itself() {
    every_way(|b, way| {
        let (mut one, mut two) = (b.begin(), b.begin());
        assert_eq!(b.scan_values(&mut one, 50, 51, way), ordered(way, [50].into_iter()));
        let written = if b.entries_alone.get() { Done(Some(())) } else { Waits };
        assert_eq!(b.write(&mut two, 50, 50), written);
        two.rollback();
        let mut two = b.begin();
        assert_eq!(b.read(&mut two, 50), Done(Some(50)));
    });
}

/// An inserter has locked its entry's neighbour and then waits for the row's gap. Meanwhile another
/// entry comes in between, is committed and scanned up to.
#[test]
pub fn an_entry_whose_neighbour_changed_waits_for_the_new_ones_reader() {
    let b = bench(Inheritance::On);
    let mut other = b.begin();
    let mut inserter = b.begin();
    let mut rows = b.begin();
    assert_eq!(b.scan(&mut rows, 1, 9, Direction::Forward), Done(vec![]));
    let (key, row) = (key(5), row(5, 0));
    let mut access = b.access(inserter.txn());
    let mut insert = Box::pin(access.insert(INDEXED, &key, &row));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(insert.as_mut().poll(&mut cx).is_pending(), "the gap between rows 0 and 10 was read");
    assert_eq!(b.write(&mut other, 100, 5), Done(Some(())));
    other.commit();
    let mut values = b.begin();
    assert_eq!(b.scan_values(&mut values, 0, 5, Direction::Forward), Done(vec![(0, 0)]));
    rows.commit();
    assert!(insert.as_mut().poll(&mut cx).is_pending(), "value 0 of row 5 would be a phantom");
    values.commit();
    assert_eq!(insert.as_mut().poll(&mut cx), Poll::Ready(Ok(Inserted::Done)));
    drop(insert);
    inserter.commit();
    let mut values = b.begin();
    let all = b.scan_values(&mut values, 0, 11, Direction::Forward);
    assert_eq!(all, Done(vec![(0, 0), (0, 5), (5, 100), (10, 10)]));
}
