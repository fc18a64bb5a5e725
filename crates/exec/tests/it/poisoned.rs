//! A store that has met a fault undoes nothing: from then on no answer may show its state.

use crate::isolation::{Done, bench_with, row};
use locks::LockTuning;
use store::StoreFault;
use txn::{Abort, Access};

use crate::isolation::{T, once};

#[test]
fn a_reader_that_decides_to_abort_does_not_tell_of_what_could_not_be_taken_back() {
    let bench = bench_with(LockTuning::PLAIN, T, 1..=3);
    let mut writer = bench.engine.local_txn();
    bench.engine.begin(&mut writer, 0, exec::Protection::Locks);
    let bytes = row(9, 1);
    let put = once(bench.access(&mut writer).insert(T, crate::isolation::key(9).as_slice(), &bytes));
    assert!(matches!(put, Done(_)), "{put:?}");
    bench.engine.store().poison(StoreFault::NotUndone { why: "planted".to_owned() });
    assert_eq!(bench.engine.rollback(&mut writer), Err(Abort::Fault));

    let mut reader = bench.engine.local_txn();
    bench.engine.begin(&mut reader, 0, exec::Protection::Locks);
    let read = once(bench.access(&mut reader).read(T, crate::isolation::key(9).as_slice(), |_| ()));
    assert_eq!(read, Done(Some(())), "the row is still there");
    assert_eq!(bench.engine.rollback(&mut reader), Err(Abort::Fault));
}
