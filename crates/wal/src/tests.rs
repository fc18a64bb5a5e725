//! The log under crashes, damage and failing devices. Segments and rings are tiny, so that every
//! edge comes early.

use crate::segment::HEADER;
use crate::{CLR, Durability, FlushBy, Log, LogFault, LogOptions, LogOrder, RecordHeader, Span};
use base::{Lsn, TxnId};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::scope;
use std::time::{Duration, Instant};
use world::{Deed, Files, Intervention, Open, memory, watched};

pub(crate) const DIR: &str = "log";

pub(crate) fn options(durability: Durability) -> LogOptions {
    LogOptions { segment_bytes: 1 << 13, buffer_bytes: 1 << 14, ..LogOptions::new(durability) }
}

pub(crate) fn open(files: &Arc<dyn Files>) -> Result<Log, LogFault> {
    Log::open(files.clone(), Path::new(DIR), options(Durability::Sync))
}

/// Appends record `n`. Its body and its length depend on `n`.
pub(crate) fn add(log: &Log, n: u64) -> Span {
    let header = RecordHeader { kind: n as u8, txn: TxnId(n), prev: Lsn(n * 2), ..Default::default() };
    log.append(&header, LogOrder::ANY, &[&n.to_le_bytes(), &vec![n as u8; (n % 97) as usize]])
}

pub(crate) fn numbers(log: &Log) -> Result<Vec<u64>, LogFault> {
    log.read_from(Lsn(0))
        .map(|record| {
            let (_, header, body) = record?;
            let n = u64::from_le_bytes(body[..8].try_into().unwrap());
            assert_eq!((header.txn, header.prev, header.kind), (TxnId(n), Lsn(n * 2), n as u8));
            assert!(body.len() == 8 + (n % 97) as usize && body[8..].iter().all(|&b| b == n as u8));
            Ok(n)
        })
        .collect()
}

/// A copy of the log's folder, file by file.
pub(crate) fn image(files: &Arc<dyn Files>) -> Arc<dyn Files> {
    let copy = memory();
    for name in files.list(Path::new(DIR)).unwrap() {
        let path = Path::new(DIR).join(name);
        let bytes = contents(files, &path);
        copy.open(&path, Open::Create).unwrap().write_all_at(&bytes, 0).unwrap();
    }
    copy
}

pub(crate) fn contents(files: &Arc<dyn Files>, path: &Path) -> Vec<u8> {
    let file = files.open(path, Open::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

pub(crate) fn segments(files: &Arc<dyn Files>) -> Vec<String> {
    files.list(Path::new(DIR)).unwrap().into_iter().filter(|n| n.starts_with("log-")).collect()
}

pub(crate) fn poke(files: &Arc<dyn Files>, name: &str, offset: u64, bytes: &[u8]) {
    files.open(&Path::new(DIR).join(name), Open::ReadWrite).unwrap().write_all_at(bytes, offset).unwrap();
}

#[test]
fn records_come_back_in_order_over_segments_and_openings() {
    let files = memory();
    for round in 0..3u64 {
        let log = open(&files).unwrap();
        assert_eq!(numbers(&log).unwrap(), (0..round * 300).collect::<Vec<_>>());
        let mut last = log.end();
        for n in round * 300..(round + 1) * 300 {
            let span = add(&log, n);
            assert_eq!(span.start, last);
            last = span.end;
        }
        assert_eq!(log.end(), last);
        assert_eq!(numbers(&log).unwrap().len() as u64, (round + 1) * 300);
        assert_eq!(log.stats().records, 300);
    }
    assert!(segments(&files).len() > 3);
}

#[test]
fn compensation_records_keep_where_to_undo_next() {
    let files = memory();
    let header = RecordHeader {
        kind: 3,
        flags: CLR,
        txn: TxnId(1),
        prev: Lsn(5),
        undo_next: Lsn(4),
        ..Default::default()
    };
    open(&files).unwrap().append(&header, LogOrder::ANY, &[b"x"]);
    let log = open(&files).unwrap();
    let (_, found, body) = log.read_from(Lsn(0)).next().unwrap().unwrap();
    assert_eq!((found, &body[..]), (header, &b"x"[..]));
}

#[test]
fn reading_starts_where_it_is_told() {
    let files = memory();
    let log = open(&files).unwrap();
    let spans: Vec<Span> = (0..200).map(|n| add(&log, n)).collect();
    for (n, span) in spans.iter().enumerate().step_by(7) {
        let found: Vec<_> = log.read_from(span.start).map(|r| r.unwrap().0).collect();
        assert_eq!(found, spans[n..]);
    }
}

/// For each prefix of the last writes that reached the device: the records before it are there, the
/// log continues, and the part that was cut off never comes back.
#[test]
fn a_torn_tail_is_cut_for_ever() {
    let files = memory();
    let log = open(&files).unwrap();
    let mut ends = vec![];
    for n in 0..20 {
        ends.push(add(&log, n).end);
    }
    log.wait_durable(ends[4]).unwrap();
    drop(log);
    let name = segments(&files).pop().unwrap();
    let start = u64::from_str_radix(&name[4..], 16).unwrap();
    for cut in (0..ends[19].0 - start).step_by(5) {
        let crashed = image(&files);
        let path = Path::new(DIR).join(&name);
        crashed.open(&path, Open::ReadWrite).unwrap().set_len(HEADER + cut).unwrap();
        let kept = ends.iter().filter(|e| e.0 - start <= cut).count() as u64;
        let log = open(&crashed).unwrap();
        assert_eq!(numbers(&log).unwrap(), (0..kept).collect::<Vec<_>>());
        add(&log, kept);
        drop(log);
        let log = open(&crashed).unwrap();
        assert_eq!(numbers(&log).unwrap(), (0..=kept).collect::<Vec<_>>());
    }
}

/// Sectors reach the device in any order. A hole before intact frames of the same unsynced group is
/// a torn tail, and those frames stay dead even if new records end exactly where they start.
#[test]
fn frames_behind_a_torn_one_never_come_back() {
    let files = memory();
    let log = open(&files).unwrap();
    let spans: Vec<Span> = (0..10).map(|_| add(&log, 5)).collect();
    drop(log);
    let name = segments(&files).pop().unwrap();
    let start = spans[0].start.0;
    poke(&files, &name, HEADER + spans[4].start.0 - start, &[0; 24]);
    for (kept, span) in spans.iter().enumerate().skip(4) {
        let log = open(&files).unwrap();
        assert_eq!(numbers(&log).unwrap().len(), kept, "a dead record came back");
        assert_eq!(add(&log, 5), *span);
    }
}

#[test]
fn damage_to_what_was_durable_is_told_from_a_torn_tail() {
    let files = memory();
    let log = open(&files).unwrap();
    let spans: Vec<Span> = (0..20)
        .map(|n| {
            let span = add(&log, n);
            log.wait_durable(span.end).unwrap();
            span
        })
        .collect();
    drop(log);
    let name = segments(&files).pop().unwrap();
    let at = HEADER + spans[7].start.0 - spans[0].start.0;
    poke(&files, &name, at + 33, &[0xee]);
    match open(&files).map(drop) {
        Err(LogFault::Corrupt { file, offset, .. }) => {
            assert_eq!((file, offset), (Path::new(DIR).join(&name), at));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn damage_in_an_earlier_segment_is_found_by_the_reader() {
    let files = memory();
    let log = open(&files).unwrap();
    (0..400).for_each(|n| assert_eq!(add(&log, n).end, log.end()));
    drop(log);
    let name = &segments(&files)[1];
    poke(&files, name, HEADER + 3000, &[0x55; 3]);
    let log = open(&files).unwrap();
    let error = numbers(&log).unwrap_err();
    let LogFault::Corrupt { file, offset, .. } = &error else { panic!("{error:?}") };
    assert_eq!(file, &Path::new(DIR).join(name));
    assert!((HEADER + 2800..=HEADER + 3003).contains(offset), "{error}");
    assert!(log.read_from(Lsn(0)).filter(Result::is_err).count() == 1, "the reader ends after an error");
}

#[test]
fn a_missing_segment_another_version_and_another_file_are_named() {
    let files = memory();
    let log = open(&files).unwrap();
    (0..400).for_each(|n| assert_eq!(add(&log, n).end, log.end()));
    drop(log);
    let names = segments(&files);
    let told = |change: &dyn Fn(&Arc<dyn Files>)| {
        let files = image(&files);
        change(&files);
        open(&files).map(drop).unwrap_err()
    };
    let missing = told(&|f| f.remove(&Path::new(DIR).join(&names[1])).unwrap());
    assert!(matches!(&missing, LogFault::Missing { file, .. } if file.ends_with(&names[1])), "{missing}");
    let version = told(&|f| poke(f, &names[1], 8, &[9]));
    assert!(matches!(version, LogFault::Version { found: 9, expected: 3, .. }), "{version}");
    let magic = told(&|f| poke(f, &names[0], 0, b"x"));
    assert!(matches!(magic, LogFault::Corrupt { offset: 0, .. }), "{magic}");
    let header = told(&|f| poke(f, &names[2], 33, &[1, 2]));
    assert!(matches!(header, LogFault::Corrupt { offset: 12, .. }), "{header}");
}

#[test]
fn truncation_drops_whole_segments_and_says_so_to_readers() {
    let files = memory();
    let log = open(&files).unwrap();
    let spans: Vec<Span> = (0..400).map(|n| add(&log, n)).collect();
    log.wait_durable(log.end()).unwrap();
    let before = segments(&files).len();
    log.truncate_before(spans[200].start).unwrap();
    assert!(segments(&files).len() < before);
    assert!(log.first() <= spans[200].start && log.first() > spans[100].start);
    assert_eq!(log.read_from(spans[200].start).map(Result::unwrap).count(), 200);
    let read: Vec<_> = log.read_from(spans[0].start).collect();
    assert!(matches!(&read[..], [Err(LogFault::Missing { .. })]), "{read:?}");
    drop(log);
    let log = open(&files).unwrap();
    assert_eq!(log.read_from(spans[399].start).count(), 1);
    log.truncate_before(log.end()).unwrap();
    assert_eq!(segments(&files).len(), 1);
    drop(log);
    assert_eq!(open(&files).unwrap().end(), spans[399].end, "positions go on");
}

#[test]
fn archived_segments_are_read_from_the_archive() {
    let files = memory();
    let options = LogOptions { archive: Some("archive".into()), ..options(Durability::Sync) };
    let open = || Log::open(files.clone(), Path::new(DIR), options.clone()).unwrap();
    let log = open();
    assert_eq!(log.archived_from().unwrap(), None);
    let spans: Vec<Span> = (0..600).map(|n| add(&log, n)).collect();
    log.wait_durable(log.end()).unwrap();
    log.truncate_before(spans[300].start).unwrap();
    let first = log.archived_from().unwrap().unwrap();
    assert!(first == spans[0].start && log.first() > spans[200].start);
    drop(log);
    let log = open();
    log.truncate_before(spans[450].start).unwrap();
    let found: Vec<Span> = log.read_from(first).map(|r| r.unwrap().0).collect();
    assert_eq!(found, spans);
    assert_eq!(
        numbers(&log).unwrap().first(),
        spans.iter().position(|s| s.start == log.first()).map(|n| n as u64).as_ref()
    );
    // A segment that is in both folders after a crash is read once. One that is in neither is named
    // in the error.
    let archive = Path::new("archive");
    let names = files.list(archive).unwrap();
    let kept = segments(&files)[0].clone();
    let copy = contents(&files, &Path::new(DIR).join(&kept));
    files.open(&archive.join(&kept), Open::Create).unwrap().write_all_at(&copy, 0).unwrap();
    assert_eq!(log.read_from(first).count(), 600);
    files.remove(&archive.join(&kept)).unwrap();
    files.remove(&archive.join(names.last().unwrap())).unwrap();
    let error = log.read_from(first).next().unwrap().unwrap_err();
    assert!(
        matches!(&error, LogFault::Missing { file, .. } if file.ends_with(names.last().unwrap())),
        "{error}"
    );
}

#[test]
fn many_committers_share_few_syncs() {
    let slow = watched(memory(), |_, deed| {
        if matches!(deed, Deed::Sync) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Intervention::Do
    });
    let log = open(&slow).unwrap();
    scope(|s| {
        for t in 0..8u64 {
            let log = &log;
            s.spawn(move || {
                for i in 0..50 {
                    let span = add(log, t * 50 + i);
                    log.wait_durable(span.end).unwrap();
                    assert!(log.durable() >= span.end);
                }
            });
        }
    });
    let stats = log.stats();
    assert_eq!(stats.records, 400);
    assert!(stats.fsyncs < 250, "{stats:?}");
    let mut found = numbers(&log).unwrap();
    found.sort_unstable();
    assert_eq!(found, (0..400).collect::<Vec<_>>());
}

struct Count(AtomicU64);
impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(10), "it never happened");
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_task_is_woken_when_its_record_is_durable() {
    let gate = Arc::new(AtomicBool::new(false));
    let files = watched(memory(), {
        let gate = gate.clone();
        move |path, deed| {
            if matches!(deed, Deed::Sync) && path.to_string_lossy().contains("spare") {
                while !gate.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            }
            Intervention::Do
        }
    });
    gate.store(true, Ordering::SeqCst);
    let log = open(&files).unwrap();
    gate.store(false, Ordering::SeqCst);
    let span = add(&log, 1);
    let count = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    for _ in 0..3 {
        assert!(log.poll_durable(span.end, FlushBy::Flusher, &mut cx).is_pending());
    }
    assert_eq!(count.0.load(Ordering::SeqCst), 0);
    gate.store(true, Ordering::SeqCst);
    until(|| count.0.load(Ordering::SeqCst) > 0);
    assert_eq!(count.0.load(Ordering::SeqCst), 1, "woken once");
    assert!(matches!(log.poll_durable(span.end, FlushBy::Flusher, &mut cx), Poll::Ready(Ok(()))));
}

/// The flusher also writes records that no waiter asks for, but does not sync them. A later waiter
/// needs a sync of its own.
#[test]
fn who_asks_for_what_was_written_already_is_woken() {
    for flush_by in [FlushBy::Flusher, FlushBy::Caller] {
        let log = open(&memory()).unwrap();
        let span = add(&log, 1);
        // Reading makes the flusher write the log, without a sync.
        assert_eq!(numbers(&log).unwrap(), [1]);
        assert!(log.durable() < span.end);
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = Waker::from(count.clone());
        assert!(log.poll_durable(span.end, flush_by, &mut Context::from_waker(&waker)).is_pending());
        if flush_by == FlushBy::Caller {
            log.flush_here();
        }
        until(|| count.0.load(Ordering::SeqCst) > 0);
        assert!(log.durable() >= span.end);
    }
}

/// Files that note which threads sync segments.
fn syncers() -> (Arc<dyn Files>, Arc<Mutex<Vec<std::thread::ThreadId>>>) {
    let syncers: Arc<Mutex<Vec<_>>> = Arc::default();
    let theirs = syncers.clone();
    let files = watched(memory(), move |path, deed| {
        if matches!(deed, Deed::Sync) && path.to_string_lossy().contains("spare") {
            theirs.lock().unwrap().push(std::thread::current().id());
        }
        Intervention::Do
    });
    (files, syncers)
}

#[test]
fn a_caller_who_is_alone_flushes_on_his_own_thread() {
    let (files, syncers) = syncers();
    let log = open(&files).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for n in 0..10 {
        syncers.lock().unwrap().clear();
        let span = add(&log, n);
        assert!(log.poll_durable(span.end, FlushBy::Caller, &mut cx).is_pending());
        log.flush_here();
        until(|| log.durable() >= span.end);
        let mine = syncers.lock().unwrap().iter().filter(|id| **id == std::thread::current().id()).count();
        if mine > 0 {
            return;
        }
        // The flusher's thread may sync now and then.
    }
    panic!("never on the caller's thread");
}

/// The queue for the next flush is a critical section, which a profile counts once for each wait.
#[test]
fn a_wait_for_the_log_is_counted_as_the_section_it_is() {
    use probe::{Profiling, Section};
    let gate = Arc::new(AtomicBool::new(true));
    let files = watched(memory(), {
        let gate = gate.clone();
        move |_, deed| {
            while matches!(deed, Deed::Sync) && !gate.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Intervention::Do
        }
    });
    let log = Log::open(files, Path::new(DIR), LogOptions::new(Durability::Sync)).unwrap();
    // The log becomes durable only after all have asked.
    gate.store(false, Ordering::SeqCst);
    let spans: Vec<_> = (0..5).map(|n| add(&log, n)).collect();
    probe::profile(Profiling::ON);
    let mut cx = Context::from_waker(Waker::noop());
    let waits =
        spans.iter().filter(|span| log.poll_durable(span.end, FlushBy::Caller, &mut cx).is_pending()).count();
    let profile = probe::window().expect("this thread profiles");
    probe::profile(Profiling::Off);
    gate.store(true, Ordering::SeqCst);
    assert_eq!((waits, profile.entered[Section::LogWaiters as usize]), (5, 5));
}

#[test]
fn what_a_caller_cannot_flush_himself_the_thread_does() {
    let gate = Arc::new(AtomicBool::new(true));
    let is_held = Arc::new(AtomicBool::new(false));
    let files = watched(memory(), {
        let (gate, is_held) = (gate.clone(), is_held.clone());
        move |path, deed| {
            while matches!(deed, Deed::Sync)
                && path.to_string_lossy().contains("spare")
                && !gate.load(Ordering::SeqCst)
            {
                is_held.store(true, Ordering::SeqCst);
                std::thread::yield_now();
            }
            Intervention::Do
        }
    });
    let log = Log::open(files, Path::new(DIR), LogOptions::new(Durability::Sync)).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    gate.store(false, Ordering::SeqCst);
    let first = add(&log, 1);
    scope(|s| {
        let flushing = s.spawn(|| {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(log.poll_durable(first.end, FlushBy::Caller, &mut cx).is_pending());
            log.flush_here();
        });
        until(|| is_held.load(Ordering::SeqCst));
        let second = add(&log, 2);
        assert!(log.poll_durable(second.end, FlushBy::Caller, &mut cx).is_pending());
        // Returns at once, or the scope never ends.
        log.flush_here();
        gate.store(true, Ordering::SeqCst);
        until(|| log.durable() >= second.end);
        flushing.join().unwrap();
    });
}

fn failing(kind: fn(&Deed<'_>) -> bool) -> (Arc<dyn Files>, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(false));
    let files = watched(memory(), {
        let broken = broken.clone();
        move |_, deed| {
            if broken.load(Ordering::SeqCst) && kind(&deed) {
                return Intervention::Fail(ErrorKind::StorageFull);
            }
            Intervention::Do
        }
    });
    (files, broken)
}

#[test]
fn a_failed_write_or_sync_poisons_the_log_for_ever() {
    for kind in [(|d| matches!(d, Deed::Sync)) as fn(&Deed<'_>) -> bool, |d| matches!(d, Deed::Write { .. })]
    {
        for durability in [Durability::Sync, Durability::Async] {
            let (files, broken) = failing(kind);
            let log = Log::open(files.clone(), Path::new(DIR), options(durability)).unwrap();
            let good = add(&log, 1);
            log.wait_stable(good.end).unwrap();
            broken.store(true, Ordering::SeqCst);
            let bad = add(&log, 2);
            let error = log.wait_stable(bad.end).unwrap_err();
            assert!(matches!(&error, LogFault::Io(e) if e.kind() == ErrorKind::StorageFull), "{error}");
            broken.store(false, Ordering::SeqCst);
            // Far more than the ring holds: no append may wait for room that never comes.
            let later = (0..1000).fold(bad, |_, n| add(&log, n));
            assert!(log.wait_durable(later.end).is_err() && log.wait_stable(bad.end).is_err());
            let mut cx = Context::from_waker(Waker::noop());
            assert!(matches!(log.poll_durable(later.end, FlushBy::Flusher, &mut cx), Poll::Ready(Err(_))));
            assert!(log.wait_durable(good.end).is_ok(), "what was durable is");
            assert!(log.poisoned().is_some() && log.durable() < later.end);
            drop(log);
            let log = Log::open(files, Path::new(DIR), options(durability)).unwrap();
            assert_eq!(numbers(&log).unwrap()[0], 1);
        }
    }
}

#[test]
fn a_flusher_that_panics_leaves_nobody_waiting() {
    let armed = Arc::new(AtomicBool::new(false));
    let files = watched(memory(), {
        let armed = armed.clone();
        move |_, _| {
            assert!(!armed.load(Ordering::SeqCst), "planted");
            Intervention::Do
        }
    });
    let log = open(&files).unwrap();
    armed.store(true, Ordering::SeqCst);
    assert!(log.wait_durable(add(&log, 1).end).is_err());
}

#[test]
fn a_full_ring_waits_for_the_flusher() {
    let files = memory();
    let log = open(&files).unwrap();
    let total = 60 * (1 << 14);
    let mut n = 0;
    while log.stats().bytes < total {
        add(&log, n);
        n += 1;
    }
    assert_eq!(numbers(&log).unwrap(), (0..n).collect::<Vec<_>>());
}

/// The flusher can write past a waiter's position while it waits: that counts as room.
#[test]
fn appenders_that_wait_for_room_are_overtaken_and_go_on() {
    let files = world::memory();
    let log = open(&files).unwrap();
    scope(|s| {
        for t in 0..4u64 {
            let log = &log;
            s.spawn(move || (0..3_000).for_each(|i| _ = add(log, t * 3_000 + i)));
        }
    });
    log.wait_durable(log.end()).unwrap();
    let shared = &log.shared;
    let written = shared.written.load(Ordering::SeqCst);
    assert!(written > 1 << 15, "the ring was never full");
    assert!(!shared.room().must_wait(written - 7_900), "a position that was written long ago has no room");
    assert_eq!(numbers(&log).unwrap().len(), 12_000);
}

#[test]
fn memory_keeps_what_fits_and_never_waits() {
    let log = Log::open(memory(), Path::new(DIR), options(Durability::Memory)).unwrap();
    let spans: Vec<Span> = (0..1000).map(|n| add(&log, n)).collect();
    assert!(log.durable() >= log.end());
    log.wait_durable(log.end()).unwrap();
    log.wait_stable(log.end()).unwrap();
    let recent: Vec<Span> = log.read_from(spans[990].start).map(|r| r.unwrap().0).collect();
    assert_eq!(recent, spans[990..]);
    let error = log.read_from(spans[0].start).next().unwrap().unwrap_err();
    assert!(matches!(error, LogFault::Forgotten { .. }), "{error}");
}

/// The process dies before the flusher writes: the ring, shared with the kernel, has all records.
#[test]
fn async_survives_the_death_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let dead = Arc::new(AtomicBool::new(false));
    let files = watched(world::real(), {
        let dead = dead.clone();
        move |_, deed| match deed {
            Deed::Write { .. } if dead.load(Ordering::SeqCst) => Intervention::Swallow,
            _ => Intervention::Do,
        }
    });
    // No segment begins after the death: a dead process renames nothing.
    let options = LogOptions { segment_bytes: 1 << 16, ..options(Durability::Async) };
    let mut expected = 0;
    for round in 1..4 {
        let log = Log::open(files.clone(), folder.path(), options.clone()).unwrap();
        assert_eq!(numbers(&log).unwrap(), (0..expected).collect::<Vec<_>>());
        for n in expected..expected + 20 * round {
            log.wait_stable(add(&log, n).end).unwrap();
        }
        expected += 20 * round;
        dead.store(true, Ordering::SeqCst);
        for n in expected..expected + 30 {
            let span = add(&log, n);
            assert!(log.durable() >= span.end, "async does not wait");
        }
        expected += 30;
        drop(log);
        dead.store(false, Ordering::SeqCst);
    }
    let log =
        Log::open(files, folder.path(), LogOptions { durability: Durability::Sync, ..options }).unwrap();
    assert_eq!(numbers(&log).unwrap(), (0..expected).collect::<Vec<_>>());
}

/// Async mode promises less, but a task can still ask for the device, and is woken when the log is
/// there.
#[test]
fn what_was_asked_for_on_the_device_survives_a_power_cut_in_async_mode() {
    for (seed, flush_by) in (0..20).flat_map(|seed| [(seed, FlushBy::Flusher), (seed, FlushBy::Caller)]) {
        let disk = world::sim::Disk::new();
        let log = Log::open(disk.files(), Path::new(DIR), options(Durability::Async)).unwrap();
        add(&log, 0);
        let span = add(&log, 1);
        assert!(log.durable() >= span.end);
        let count = Arc::new(Count(AtomicU64::new(0)));
        let waker = Waker::from(count.clone());
        while log.poll_stable(span.end, flush_by, &mut Context::from_waker(&waker)).is_pending() {
            if flush_by == FlushBy::Caller {
                log.flush_here();
            }
            let before = count.0.load(Ordering::SeqCst);
            until(|| count.0.load(Ordering::SeqCst) > before || log.ask_stable(span.end));
        }
        assert!(log.ask_stable(span.end));
        let after = Log::open(disk.crash_image(seed).files(), Path::new(DIR), options(Durability::Sync));
        assert_eq!(numbers(&after.unwrap()).unwrap(), [0, 1], "{seed} {flush_by:?}");
    }
}

#[test]
fn a_record_may_be_larger_than_a_segment() {
    let files = memory();
    let options = LogOptions { buffer_bytes: 1 << 17, ..options(Durability::Sync) };
    let log = Log::open(files.clone(), Path::new(DIR), options.clone()).unwrap();
    let sizes: Vec<usize> = (0..12).map(|n| if n % 3 == 1 { log.max_body() - n } else { 50 * n }).collect();
    for size in &sizes {
        log.append(&RecordHeader::default(), LogOrder::ANY, &[&vec![*size as u8; *size]]);
    }
    drop(log);
    let log = Log::open(files, Path::new(DIR), options).unwrap();
    let found: Vec<Vec<u8>> = log.read_from(Lsn(0)).map(|r| r.unwrap().2).collect();
    assert!(found.iter().zip(&sizes).all(|(body, size)| body == &vec![*size as u8; *size]));
    assert_eq!(found.len(), sizes.len());
}

#[test]
fn options_that_cannot_work_are_refused() {
    for (segment_bytes, buffer_bytes) in [(1 << 20, 5000), (1 << 20, 64), (100, 1 << 16)] {
        let options = LogOptions { segment_bytes, buffer_bytes, ..options(Durability::Sync) };
        let error = Log::open(memory(), Path::new(DIR), options).map(drop).unwrap_err();
        assert!(error.to_string().contains("expected"), "{error}");
    }
}

/// A log with segments of 64 KiB, and its disk, which has `spare` bytes more than the log uses.
fn log_on_a_full_disk(durability: Durability, spare: u64) -> (world::sim::Disk, Log) {
    let disk = world::sim::Disk::new();
    let options = LogOptions { segment_bytes: 1 << 16, ..options(durability) };
    let log = Log::open(disk.files(), Path::new(DIR), options).unwrap();
    disk.set_capacity(Some(disk.used() + spare));
    (disk, log)
}

#[test]
fn a_log_without_room_for_its_next_segment_says_so_before_it_needs_it() {
    let (disk, log) = log_on_a_full_disk(Durability::Sync, 0);
    let mut number = 0;
    let mut more = || {
        number += 1;
        log.wait_stable(add(&log, number).end).unwrap();
    };
    while !log.is_short() {
        more();
        assert!(log.end().0 < 1 << 16, "the segment is used up, and it is not told");
    }
    let told = log.room().unwrap_err();
    assert!(told.is_want_of_room() && told.to_string().contains(DIR), "{told}");
    (0..50).for_each(|_| more());
    disk.set_capacity(None);
    until(|| log.room().is_ok());
    (0..2000).for_each(|_| more());
    assert!(segments(&disk.files()).len() > 1 && log.poisoned().is_none());
    assert_eq!(numbers(&log).unwrap(), (1..=number).collect::<Vec<_>>());
}

#[test]
fn no_change_begins_without_room_for_its_end_however_fast_others_append() {
    for round in 0..40 {
        let (disk, log) = log_on_a_full_disk(Durability::Async, round % 4 * 40_000);
        let refused = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0.. {
                        match log.room() {
                            Ok(()) => {
                                add(&log, number);
                                assert!(log.poisoned().is_none());
                            }
                            Err(full) => {
                                assert!(full.is_want_of_room(), "{full}");
                                refused.fetch_add(1, Ordering::Relaxed);
                                return;
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(refused.into_inner(), 4);
        // There is room for ends.
        for number in 0..100 {
            add(&log, number);
        }
        log.wait_stable(log.end()).unwrap();
        disk.set_capacity(None);
        until(|| log.room().is_ok());
        for number in 0..4000 {
            add(&log, number);
        }
        log.wait_stable(log.end()).unwrap();
        assert!(log.poisoned().is_none());
    }
}

#[test]
fn a_log_that_got_its_segment_after_all_is_not_short_for_ever() {
    let (disk, log) = log_on_a_full_disk(Durability::Sync, 0);
    let more = || log.wait_stable(add(&log, 1).end).unwrap();
    while !log.is_short() {
        more();
    }
    // The next segment begins as soon as there is room, maybe before the look ahead meets it.
    disk.set_capacity(None);
    let end = (log.end().0 / (1 << 16) + 1) << 16;
    while log.end().0 < end + 1000 {
        more();
    }
    until(|| !log.is_short());
}
