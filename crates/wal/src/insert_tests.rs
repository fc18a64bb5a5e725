//! The rules of [`crate::insert`], each with a test that fails without it, and all three ways under
//! many threads.
//!
//! One thread with several slots plays several workers, so that each test fixes the order of
//! reservations.

use crate::insert::{Content, Draft, Slot};
use crate::tests::{DIR, add, numbers, options};
use crate::{Durability, Insert, Log, LogOptions, LogOrder, RecordHeader, Span, frame};
use base::{Lsn, TxnId};
use std::path::Path;
use std::sync::Arc;
use std::thread::scope;

fn log(insert: Insert, durability: Durability) -> Log {
    let options = LogOptions { insert, ..options(durability) };
    Log::open(world::memory(), Path::new(DIR), options).unwrap()
}

fn extents() -> Log {
    log(Insert::Extents, Durability::Sync)
}

/// Workers with slots of their own. Records are numbered as [`add`] numbers them.
struct Workers {
    slots: Vec<Arc<Slot>>,
    next: u64,
}

impl Workers {
    fn new(log: &Log, count: usize) -> Workers {
        Workers { slots: (0..count).map(|_| log.shared.inserter.slot()).collect(), next: 0 }
    }

    fn append(&mut self, log: &Log, who: usize, order: LogOrder) -> Span {
        let n = self.next;
        self.next += 1;
        let mut frame = Vec::new();
        let depends_on = match order {
            LogOrder::Dependent(_) => Lsn(log.shared.inserter.depends_on(&self.slots[who])),
            LogOrder::After(_) | LogOrder::Last => Lsn(0),
        };
        let header =
            RecordHeader { kind: n as u8, txn: TxnId(n), prev: Lsn(n * 2), depends_on, ..Default::default() };
        let body: [&[u8]; 2] = [&n.to_le_bytes(), &vec![n as u8; (n % 97) as usize]];
        let sum = frame::build(&mut frame, &header, &body, log.shared.life);
        let bytes = frame.len() as u64;
        let mut draft = Draft { content: Content::Built(&mut frame, sum), stable: 0 };
        loop {
            match log.shared.inserter.append(&self.slots[who], &mut draft, order, &log.shared.room()) {
                Ok(placed) => {
                    return Span::new(placed.start, placed.start + bytes, depends_on);
                }
                Err(crowded) => log.wait_for_room(crowded, &log.shared.room()),
            }
        }
    }
}

/// Records that take the shorter path are found like the others, also where one wraps round the end
/// of the ring.
#[test]
fn plain_records_are_read_back_like_others() {
    for (durability, insert) in [
        (Durability::Memory, Insert::Extents),
        (Durability::Memory, Insert::Mutex),
        (Durability::Memory, Insert::Consolidated),
        (Durability::Sync, Insert::Extents),
    ] {
        let log = log(insert, durability);
        let ring = log.shared.ring.bytes() as u64;
        let (mut n, mut prev) = (0u64, Lsn(0));
        let mut places = Vec::new();
        while log.end().0 < 3 * ring {
            let body: [&[u8]; 3] = [&n.to_le_bytes(), &vec![n as u8; (n % 61) as usize], b"end"];
            let (start, end) = log.append_plain(7, TxnId(n), prev, prev, &body);
            places.push((start, end, TxnId(n), prev, body.concat()));
            prev = start;
            n += 1;
            if n % 5 == 0 {
                add(&log, n);
            }
        }
        let recent = &places[places.len() - 20..];
        let found = log.read_from(recent[0].0).map(|record| record.unwrap());
        let found: Vec<_> = found.filter(|(_, header, _)| header.kind == 7).collect();
        assert_eq!(found.len(), recent.len(), "{durability:?}, {insert:?}");
        for ((span, header, body), (start, end, txn, prev, written)) in found.iter().zip(recent) {
            assert_eq!((span.start, span.end, header.txn, header.prev), (*start, *end, *txn, *prev));
            assert_eq!(body, written);
        }
    }
}

fn sorted(log: &Log) -> Vec<u64> {
    let mut found = numbers(log).unwrap();
    found.sort_unstable();
    found
}

#[test]
fn workers_fill_extents_of_their_own_and_orders_hold() {
    let log = extents();
    let mut workers = Workers::new(&log, 2);
    let a1 = workers.append(&log, 0, LogOrder::ANY);
    let b1 = workers.append(&log, 1, LogOrder::ANY);
    let a2 = workers.append(&log, 0, LogOrder::ANY);
    assert!(a2.start == a1.end && a2.end < b1.start, "one worker's records touch");
    // Past the other worker's record: in an extent of its own.
    let a3 = workers.append(&log, 0, LogOrder::After(b1.end));
    assert!(a3.start >= b1.end);
    let b2 = workers.append(&log, 1, LogOrder::Last);
    assert!(b2.start >= a3.end, "a short record that comes last leaves its worker's extent");
    let b3 = workers.append(&log, 1, LogOrder::ANY);
    assert!(b3.start == b1.end, "which its worker goes on to fill");
    assert_eq!(sorted(&log), (0..6).collect::<Vec<_>>());
}

#[test]
fn a_resting_record_stays_where_its_worker_is_and_what_it_rests_on_is_reached() {
    for durability in [Durability::Sync, Durability::Async, Durability::Memory] {
        let log = log(Insert::Extents, durability);
        let mut workers = Workers::new(&log, 2);
        let a1 = workers.append(&log, 0, LogOrder::ANY);
        let alone = workers.append(&log, 0, LogOrder::Dependent(a1.end));
        assert_eq!(
            (alone.start, alone.holds),
            (a1.end, alone.end),
            "a worker alone rests on what lies before"
        );
        let b1 = workers.append(&log, 1, LogOrder::ANY);
        let a2 = workers.append(&log, 0, LogOrder::Dependent(a1.end));
        assert!(a2.start == alone.end && a2.end <= b1.start, "no other place than without");
        assert!(a2.holds > b1.end, "it rests on all that is reserved");
        let b2 = workers.append(&log, 1, LogOrder::Dependent(Lsn(0)));
        assert!(b2.start == b1.end && b2.holds == a2.holds, "what one record rests on the next one does");
        assert!(log.end() >= a2.holds, "the end is behind what records rest on");
        let last = workers.append(&log, 1, LogOrder::Last);
        assert!(last.start >= a2.holds, "a record that comes last also comes after what others rest on");
        log.wait_durable(a2.holds).unwrap();
        log.wait_stable(last.end).unwrap();
        assert_eq!(sorted(&log), (0..6).collect::<Vec<_>>());
    }
}

/// No further append comes: the flusher itself must reach the end that the youngest extent had when
/// a record came to depend on it.
#[test]
fn what_is_rested_on_becomes_durable_by_itself() {
    let log = Arc::new(extents());
    let mut workers = Workers::new(&log, 2);
    workers.append(&log, 0, LogOrder::ANY);
    let other = workers.append(&log, 1, LogOrder::ANY);
    let commit = workers.append(&log, 0, LogOrder::Dependent(Lsn(0)));
    assert!(commit.end < other.start && commit.holds > other.end);
    // On a thread of its own that keeps the log: a flusher that never gets there fails the test and
    // does not hang it.
    let (tell, told) = std::sync::mpsc::channel();
    let waits = Arc::clone(&log);
    std::thread::spawn(move || tell.send(waits.wait_durable(commit.holds)));
    let durable = told.recv_timeout(std::time::Duration::from_secs(20));
    durable.expect("what the commit rests on is given back and becomes durable").unwrap();
    assert_eq!(log.fence(), commit.holds);
}

/// A commit that has seen another must not count without it: neither in the life that finds it nor
/// in a later one, when the log has long grown past the lost part.
#[test]
fn a_record_whose_rest_was_lost_is_gone_for_ever() {
    let files = world::memory();
    let log = crate::tests::open(&files).unwrap();
    let mut workers = Workers::new(&log, 2);
    workers.append(&log, 0, LogOrder::ANY);
    let other = workers.append(&log, 1, LogOrder::ANY);
    let commit = workers.append(&log, 0, LogOrder::Dependent(Lsn(0)));
    assert!(commit.end < other.start && other.end <= commit.holds);
    log.wait_durable(commit.holds).unwrap();
    drop(log);
    let name = crate::tests::segments(&files).pop().unwrap();
    let lost = crate::tests::image(&files);
    let at = crate::segment::HEADER + other.start.0 - 64;
    crate::tests::poke(&lost, &name, at, &[0; 64]);
    for (files, first) in [(&files, vec![0, 2, 1]), (&lost, vec![0])] {
        let mut expected = first;
        for round in 1..4 {
            let log = crate::tests::open(files).unwrap();
            assert_eq!(numbers(&log).unwrap(), expected, "opening {round}");
            for n in 0..40 {
                expected.push(round * 100 + n);
                add(&log, round * 100 + n);
            }
            assert!(log.end() > commit.holds);
        }
    }
}

#[test]
fn the_youngest_extent_gives_its_rest_back() {
    let log = extents();
    let mut last = log.end();
    for n in 0..200 {
        let span = add(&log, n);
        assert_eq!(span.start, last, "a worker alone leaves no holes");
        last = span.end;
        if n % 7 == 0 {
            assert_eq!(log.fence(), last);
        }
    }
    assert_eq!(log.stats().padding, 0);
}

#[test]
fn an_older_extent_is_padded_and_counted() {
    let log = extents();
    let mut workers = Workers::new(&log, 2);
    let a = workers.append(&log, 0, LogOrder::ANY);
    let b = workers.append(&log, 1, LogOrder::ANY);
    log.fence();
    let stats = log.stats();
    assert_eq!(stats.padding, b.start.0 - a.end.0);
    let records = (a.end.0 - a.start.0) + (b.end.0 - b.start.0);
    assert_eq!((stats.records, stats.bytes), (2, records + stats.padding));
    assert_eq!(sorted(&log), [0, 1]);
}

/// An open extent of a worker that never comes back stops neither a waiter for the device nor an
/// appender that needs room.
#[test]
fn nobody_waits_for_an_idle_worker() {
    for durability in [Durability::Sync, Durability::Async, Durability::Memory] {
        let log = log(Insert::Extents, durability);
        let mut workers = Workers::new(&log, 2);
        let idle = workers.append(&log, 0, LogOrder::ANY);
        let span = workers.append(&log, 1, LogOrder::ANY);
        assert!(span.start > idle.end, "the idle worker's extent is open below");
        log.wait_durable(span.end).unwrap();
        log.wait_stable(span.end).unwrap();
        workers.append(&log, 0, LogOrder::ANY);
        let mut last = span;
        while last.end.0 < 10 * (1 << 14) {
            last = workers.append(&log, 1, LogOrder::ANY);
        }
        let late = workers.append(&log, 0, LogOrder::ANY);
        assert!(late.end.0 + (1 << 14) > last.start.0, "its old extent is long overwritten");
        if durability != Durability::Memory {
            assert_eq!(sorted(&log), (0..workers.next).collect::<Vec<_>>());
        }
    }
}

/// Random workers, orders, fences, waits and sizes, against the rules.
#[test]
fn orders_hold_at_random() {
    for seed in 0..30u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let log = extents();
        let mut workers = Workers::new(&log, 4);
        let (mut spans, mut floor): (Vec<Span>, _) = (vec![], Lsn(0));
        for _ in 0..400 {
            let (order, at_least) = match random(5) {
                0 => (LogOrder::Last, spans.iter().map(|s| s.end).max().unwrap_or_default()),
                1 | 2 if !spans.is_empty() => {
                    let after = spans[random(spans.len() as u64) as usize].end;
                    (LogOrder::After(after), after)
                }
                _ => (LogOrder::ANY, Lsn(0)),
            };
            let span = workers.append(&log, random(4) as usize, order);
            assert!(span.start >= at_least, "{order:?} at {span:?}");
            assert!(span.start >= floor, "before a fence");
            spans.push(span);
            match random(60) {
                0 => {
                    floor = log.fence();
                    assert!(
                        spans.iter().all(|s| s.start < floor),
                        "appended before the fence, and behind it"
                    );
                }
                1 => log.wait_durable(span.end).unwrap(),
                _ => {}
            }
        }
        let mut by_place: Vec<(Span, u64)> = spans.iter().copied().zip(0..).collect();
        by_place.sort_unstable_by_key(|(span, _)| span.start);
        assert!(by_place.windows(2).all(|w| w[0].0.end <= w[1].0.start), "two records share bytes");
        let expected: Vec<u64> = by_place.into_iter().map(|(_, n)| n).collect();
        assert_eq!(numbers(&log).unwrap(), expected, "seed {seed}");
    }
}

/// The records that a thread wrote in order come back in order, and none is lost, for each way to
/// insert.
#[test]
fn threads_lose_nothing() {
    const EACH: u64 = 3_000;
    for insert in Insert::ALL {
        for durability in [Durability::Sync, Durability::Async] {
            let files = world::memory();
            let options = LogOptions { insert, ..options(durability) };
            let log = Log::open(files.clone(), Path::new(DIR), options.clone()).unwrap();
            scope(|s| {
                for t in 0..4u64 {
                    let log = &log;
                    s.spawn(move || {
                        let mut last = Lsn(0);
                        for i in 0..EACH {
                            let n = t * EACH + i;
                            let body: [&[u8]; 2] = [&n.to_le_bytes(), &vec![n as u8; (n % 97) as usize]];
                            let header = RecordHeader {
                                kind: n as u8,
                                txn: TxnId(n),
                                prev: Lsn(n * 2),
                                ..Default::default()
                            };
                            let order = if i % 6 == 5 { LogOrder::Last } else { LogOrder::After(last) };
                            let span = log.append(&header, order, &body);
                            assert!(span.start >= last);
                            last = span.end;
                            if i % 500 == 499 {
                                log.wait_durable(span.end).unwrap();
                            }
                        }
                    });
                }
                s.spawn(|| (0..50).for_each(|_| _ = log.fence()));
            });
            assert_eq!(log.stats().records, 4 * EACH, "{insert:?}");
            drop(log);
            let log = Log::open(files, Path::new(DIR), options).unwrap();
            let found = numbers(&log).unwrap();
            let mut next = [0u64; 4];
            for n in found {
                let (thread, i) = ((n / EACH) as usize, n % EACH);
                assert_eq!(i, next[thread], "{insert:?}: a thread's records out of order, or lost");
                next[thread] += 1;
            }
            assert_eq!(next, [EACH; 4], "{insert:?}");
        }
    }
}

/// Threads come and go. Their slots, and the extents that they leave open, are taken over.
#[test]
fn short_lived_threads_share_few_slots() {
    let log = extents();
    for n in 0..50 {
        scope(|s| drop(s.spawn(|| add(&log, n))));
    }
    assert_eq!(sorted(&log), (0..50).collect::<Vec<_>>());
}
