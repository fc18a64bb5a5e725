//! An escalated table goes back to key locks before its holder waits.

use crate::{Table, granted, is_granted};
use base::TableId;
use locks::{Acquired, Escalation, LockName, LockOptions, LockTuning, Locker, Mode};

const LINES: LockName = LockName::table(TableId(1));
const STOCK: LockName = LockName::table(TableId(2));

fn line(i: u64) -> LockName {
    LockName::key(TableId(1), i)
}

fn escalating(reads: u32, writes: u32) -> Table {
    let escalation = Escalation { reads: Some(reads), writes: Some(writes) };
    Table::with(LockOptions { buckets: 64, tuning: LockTuning { escalation, ..LockTuning::PLAIN } })
}

fn lock(table: &Table, locker: &mut Locker, i: u64, mode: Mode) -> Acquired {
    table.acquire_below(locker, &[LINES], line(i), mode)
}

fn stock(table: &Table, locker: &mut Locker, mode: Mode) -> Acquired {
    table.acquire_below(locker, &[STOCK], LockName::key(TableId(2), 7), mode)
}

fn end<const N: usize>(table: &Table, lockers: [&mut Locker; N]) {
    lockers.into_iter().for_each(|l| table.release_all(l));
    assert_eq!(table.requests(), 0);
}

fn read_lines(table: &Table, locker: &mut Locker, lines: std::ops::Range<u64>) {
    lines.for_each(|i| assert!(granted(lock(table, locker, i, Mode::ROW_AND_GAP_S))));
}

/// TPC-C: a StockLevel has read order lines of one district and is about to read the stock. A
/// NewOrder of another district has updated the stock and is about to insert its lines.
#[test]
fn an_escalated_reader_that_waits_lets_others_into_the_table() {
    let table = escalating(25, 1000);
    let (mut level, mut order) = (table.locker(), table.locker());
    read_lines(&table, &mut level, 0..200);
    assert_eq!(level.holds(LINES), Mode::S);
    assert!(granted(stock(&table, &mut order, Mode::ROW_X)));
    assert_eq!(lock(&table, &mut order, 500, Mode::ROW_AND_GAP_X), Acquired::Waiting);
    assert_eq!(stock(&table, &mut level, Mode::ROW_S), Acquired::Waiting);
    assert!(is_granted(&table, &mut order), "the table is held by its keys now");
    assert!(granted(lock(&table, &mut order, 500, Mode::ROW_AND_GAP_X)));
    assert_eq!((level.holds(LINES), level.held().count()), (Mode::IS, 202), "two tables, 200 keys");
    assert_eq!((0..200).map(|i| level.holds(line(i))).find(|m| *m != Mode::ROW_AND_GAP_S), None);
    table.release_all(&mut order);
    assert!(is_granted(&table, &mut level));
    let stats = table.stats();
    assert_eq!((stats.escalations, stats.de_escalations, stats.deadlocks), (1, 1, 0));
    end(&table, [&mut level, &mut order]);
}

#[test]
fn what_the_table_covered_stays_protected() {
    let table = escalating(10, 1000);
    let (mut reader, mut writer, mut third) = (table.locker(), table.locker(), table.locker());
    read_lines(&table, &mut reader, 0..40);
    assert!(granted(stock(&table, &mut third, Mode::ROW_X)));
    assert_eq!(stock(&table, &mut reader, Mode::ROW_S), Acquired::Waiting);
    for i in [0, 9, 10, 11, 39] {
        assert_eq!(lock(&table, &mut writer, i, Mode::ROW_X), Acquired::Waiting, "line {i}");
        table.cancel(&mut writer);
    }
    assert!(granted(lock(&table, &mut writer, 40, Mode::ROW_X)));
    end(&table, [&mut third, &mut reader, &mut writer]);
}

#[test]
fn it_escalates_again_after_twice_as_many() {
    let table = escalating(10, 1000);
    let (mut reader, mut third) = (table.locker(), table.locker());
    read_lines(&table, &mut reader, 0..40);
    assert!(granted(stock(&table, &mut third, Mode::ROW_X)));
    assert_eq!(stock(&table, &mut reader, Mode::ROW_S), Acquired::Waiting);
    table.release_all(&mut third);
    assert!(is_granted(&table, &mut reader));
    read_lines(&table, &mut reader, 40..80);
    assert_eq!(reader.holds(LINES), Mode::IS);
    read_lines(&table, &mut reader, 80..200);
    assert_eq!((reader.holds(LINES), table.stats().escalations), (Mode::S, 2));
    end(&table, [&mut reader, &mut third]);
}

/// Both have read much of the table, and then write to it: each would wait for the other's S.
#[test]
fn two_escalated_readers_that_go_on_to_write_do_not_deadlock() {
    let table = escalating(10, 1000);
    let (mut a, mut b) = (table.locker(), table.locker());
    read_lines(&table, &mut a, 0..20);
    read_lines(&table, &mut b, 100..120);
    assert_eq!((a.holds(LINES), b.holds(LINES)), (Mode::S, Mode::S));
    assert_eq!(lock(&table, &mut a, 5, Mode::ROW_X), Acquired::Waiting);
    assert!(granted(lock(&table, &mut b, 105, Mode::ROW_X)));
    assert!(is_granted(&table, &mut a));
    assert!(granted(lock(&table, &mut a, 5, Mode::ROW_X)));
    assert_eq!((a.holds(line(5)), table.stats().deadlocks), (Mode::ROW_AND_GAP_S.with(Mode::ROW_X), 0));
    end(&table, [&mut a, &mut b]);
}

#[test]
fn written_keys_are_locked_to_be_written_again() {
    let table = escalating(1000, 10);
    let (mut writer, mut other, mut third) = (table.locker(), table.locker(), table.locker());
    (0..30).for_each(|i| assert!(granted(lock(&table, &mut writer, i, Mode::ROW_AND_GAP_X))));
    assert_eq!(writer.holds(LINES), Mode::X);
    assert!(granted(stock(&table, &mut third, Mode::ROW_X)));
    assert_eq!(stock(&table, &mut writer, Mode::ROW_X), Acquired::Waiting);
    assert_eq!((writer.holds(LINES), writer.holds(line(29))), (Mode::IX, Mode::ROW_AND_GAP_X));
    assert_eq!(lock(&table, &mut other, 29, Mode::ROW_S), Acquired::Waiting);
    end(&table, [&mut third, &mut writer, &mut other]);
}

#[test]
fn a_table_asked_for_as_a_whole_stays_one() {
    let table = escalating(10, 1000);
    let (mut reader, mut writer, mut third) = (table.locker(), table.locker(), table.locker());
    read_lines(&table, &mut reader, 0..20);
    assert!(granted(table.acquire(&mut reader, LINES, Mode::S)));
    assert!(granted(stock(&table, &mut third, Mode::ROW_X)));
    assert_eq!(stock(&table, &mut reader, Mode::ROW_S), Acquired::Waiting);
    assert_eq!(reader.holds(LINES), Mode::S);
    assert_eq!(lock(&table, &mut writer, 999, Mode::ROW_X), Acquired::Waiting);
    end(&table, [&mut third, &mut reader, &mut writer]);
}

/// More keys than are remembered: the table stays locked, and a cycle through it is found.
#[test]
fn too_many_keys_stay_a_table() {
    let table = escalating(10, 1000);
    let (mut reader, mut writer) = (table.locker(), table.locker());
    read_lines(&table, &mut reader, 0..5000);
    assert!(granted(stock(&table, &mut writer, Mode::ROW_X)));
    assert_eq!(lock(&table, &mut writer, 7000, Mode::ROW_X), Acquired::Waiting);
    assert_eq!(stock(&table, &mut reader, Mode::ROW_S), Acquired::Deadlock);
    assert_eq!((reader.holds(LINES), table.stats().de_escalations), (Mode::S, 0));
    end(&table, [&mut reader, &mut writer]);
}

/// A few keys that are read often must not fill the memory for keys, or the table would stay
/// locked.
#[test]
fn few_keys_read_often_are_remembered_once() {
    let table = escalating(10, 1000);
    let (mut reader, mut writer) = (table.locker(), table.locker());
    (0..300).for_each(|_| read_lines(&table, &mut reader, 0..20));
    (0..20).for_each(|i| assert!(granted(lock(&table, &mut reader, i, Mode::ROW_S))));
    assert!(granted(stock(&table, &mut writer, Mode::ROW_X)));
    assert_eq!(lock(&table, &mut writer, 7000, Mode::ROW_X), Acquired::Waiting);
    assert_eq!(stock(&table, &mut reader, Mode::ROW_S), Acquired::Waiting);
    assert!(is_granted(&table, &mut writer), "the table is held by its keys now");
    assert_eq!((reader.holds(LINES), table.stats().de_escalations), (Mode::IS, 1));
    assert_eq!((0..20).map(|i| reader.holds(line(i))).find(|m| *m != Mode::ROW_AND_GAP_S), None);
    // It escalates again after twice as many keys, not accesses.
    table.release_all(&mut writer);
    assert!(is_granted(&table, &mut reader));
    read_lines(&table, &mut reader, 20..60);
    assert_eq!(reader.holds(LINES), Mode::S);
    end(&table, [&mut reader, &mut writer]);
}

/// A request that is repeated once the keys are locked counts once.
#[test]
fn a_request_that_waits_with_keys_is_counted_once() {
    use probe::{Counter, Profiling};
    probe::profile(Profiling::ON);
    let table = escalating(10, 1000);
    let (mut reader, mut third) = (table.locker(), table.locker());
    assert!(granted(stock(&table, &mut third, Mode::ROW_X)));
    assert!(granted(table.acquire(&mut third, LockName::table(TableId(3)), Mode::X)));
    for asked in [false, true] {
        let begun = reader.counts();
        drop(probe::window());
        read_lines(&table, &mut reader, 0..40);
        assert!(granted(stock(&table, &mut reader, Mode::GAP_S)));
        let before = reader.counts();
        let waits = match asked {
            false => stock(&table, &mut reader, Mode::ROW_S),
            true => table.acquire(&mut reader, LockName::table(TableId(3)), Mode::IS),
        };
        assert_eq!(waits, Acquired::Waiting);
        let (now, granules) = (reader.counts(), u64::from(asked));
        assert_eq!((now.requests - before.requests, now.waited - before.waited), (1, 1));
        assert_eq!(now.granule_requests - before.granule_requests, granules);
        // The lock of the table that goes back to keys is changed once.
        assert_eq!(now.granule_calls - before.granule_calls, 1 + granules);
        // The profile is reported at the end.
        table.release_all(&mut reader);
        let counted = probe::window().expect("it is on");
        assert_eq!(counted.count(Counter::LockRequests), now.requests - begun.requests);
    }
    probe::profile(Profiling::Off);
    end(&table, [&mut reader, &mut third]);
}

#[test]
fn the_next_transaction_remembers_nothing() {
    let table = escalating(10, 1000);
    let (mut reader, mut third) = (table.locker(), table.locker());
    read_lines(&table, &mut reader, 0..40);
    table.release_all(&mut reader);
    assert!(granted(stock(&table, &mut third, Mode::ROW_X)));
    assert!(granted(lock(&table, &mut reader, 1, Mode::ROW_S)));
    assert_eq!(stock(&table, &mut reader, Mode::ROW_S), Acquired::Waiting);
    assert_eq!((reader.held().count(), table.stats().de_escalations), (3, 0));
    end(&table, [&mut third, &mut reader]);
}
