//! The state that a killed process, a power cut or random bytes leave of a log, and the result of
//! opening it.

use crate::files::{RING, WHOSE};
use crate::segment::HEADER;
use crate::tests::{DIR, add, contents, image, numbers, open, options, poke, segments};
use crate::{Durability, Insert, Log, LogFault, LogOptions, Span};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use world::{Deed, Intervention, Open, memory, watched};

/// A log in async mode with a stuck flusher, and three threads that have each an open extent. The
/// first appends records 0 to 9, the second 10 to 19, the third 20 to 29, in turn. Returns a copy
/// of the folder as a kill would leave it, and the place of each record.
fn killed(insert: Insert) -> (tempfile::TempDir, Vec<Span>) {
    killed_after(insert, |_| Vec::new())
}

/// As [`killed`]. Before the kill `then` runs and returns the places of the records from 30 on.
fn killed_after(insert: Insert, then: impl FnOnce(&Log) -> Vec<Span>) -> (tempfile::TempDir, Vec<Span>) {
    let folder = tempfile::tempdir().unwrap();
    let stuck = Arc::new(AtomicBool::new(false));
    let files = watched(world::real(), {
        let stuck = stuck.clone();
        move |_, deed| {
            while matches!(deed, Deed::Write { .. }) && stuck.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Intervention::Do
        }
    });
    let options = LogOptions { insert, segment_bytes: 1 << 16, ..options(Durability::Async) };
    let log = Log::open(files, folder.path(), options).unwrap();
    stuck.store(true, Ordering::SeqCst);
    let mut spans = vec![None; 30];
    // The flusher meets this record at once and sticks. It is not part of the image.
    let first = add(&log, 1000);
    crate::tests::until(|| {
        log.kick(first.end);
        log.shared.inserter.counts().records == 1
    });
    std::thread::sleep(std::time::Duration::from_millis(80));
    std::thread::scope(|s| {
        let (done, told) = mpsc::channel();
        let turns: Vec<mpsc::Sender<u64>> = (0..3)
            .map(|_| {
                let (turn, mine) = mpsc::channel::<u64>();
                let (log, done) = (&log, done.clone());
                s.spawn(move || mine.iter().for_each(|n| done.send((n, add(log, n))).unwrap()));
                turn
            })
            .collect();
        for n in 0..30 {
            turns[n % 3].send((n % 3 * 10 + n / 3) as u64).unwrap();
            let (n, span) = told.recv().unwrap();
            spans[n as usize] = Some(span);
        }
        spans.extend(then(&log).into_iter().map(Some));
    });
    let copy = tempfile::tempdir().unwrap();
    for name in world::real().list(folder.path()).unwrap() {
        put(&copy.path().join(&name), &contents(&world::real(), &folder.path().join(&name)));
    }
    stuck.store(false, Ordering::SeqCst);
    drop(log);
    (copy, spans.into_iter().map(Option::unwrap).collect())
}

fn put(path: &Path, bytes: &[u8]) {
    world::real().open(path, Open::Create).unwrap().write_all_at(bytes, 0).unwrap();
}

fn reopen(folder: &Path) -> Result<Vec<u64>, LogFault> {
    reopen_as(folder, Insert::default())
}

fn reopen_as(folder: &Path, insert: Insert) -> Result<Vec<u64>, LogFault> {
    let log = Log::open(world::real(), folder, LogOptions { insert, ..options(Durability::Sync) })?;
    numbers(&log)
}

/// The numbers of the records of `killed` in the order of their places, with the record before
/// them.
fn by_place(spans: &[Span]) -> Vec<u64> {
    let mut order: Vec<u64> = (0..spans.len() as u64).collect();
    order.sort_unstable_by_key(|&n| spans[n as usize].start);
    order.insert(0, 1000);
    order
}

fn change(folder: &Path, f: impl FnOnce(&mut Vec<u8>)) {
    let path = folder.join(RING);
    let mut bytes = contents(&world::real(), &path);
    f(&mut bytes);
    put(&path, &bytes);
}

fn boot_again(ring: &mut [u8]) {
    let whose = ring.len() - WHOSE;
    ring[whose + 16] ^= 1;
    let sum = base::crc32c(&ring[whose..whose + 24]);
    ring[whose + 24..whose + 28].copy_from_slice(&sum.to_le_bytes());
}

#[test]
fn a_kill_with_open_extents_loses_nothing() {
    for insert in Insert::ALL {
        let (folder, spans) = killed(insert);
        if insert == Insert::Extents {
            assert!(spans.iter().zip(&spans[1..]).filter(|(a, b)| a.end != b.start).count() >= 2, "no holes");
        }
        assert_eq!(reopen(folder.path()).unwrap(), by_place(&spans), "{insert:?}");
        assert_eq!(reopen(folder.path()).unwrap(), by_place(&spans), "{insert:?}: once more");
    }
}

#[test]
fn a_log_opens_with_another_way_of_inserting() {
    for insert in Insert::ALL {
        let (folder, spans) = killed(insert);
        for next in Insert::ALL {
            assert_eq!(reopen_as(folder.path(), next).unwrap(), by_place(&spans), "{insert}, then {next}");
        }
    }
}

/// The last append of a thread was under way: its record is lost, and no other.
#[test]
fn an_unfinished_append_in_an_open_extent_is_no_damage() {
    for victim in [9u64, 19, 29] {
        let (folder, spans) = killed(Insert::Extents);
        change(folder.path(), |ring| {
            let at = spans[victim as usize].start.0 as usize % (ring.len() - WHOSE);
            ring[at + 4..at + 30].fill(0);
        });
        let mut expected = by_place(&spans);
        expected.retain(|&n| n != victim);
        assert_eq!(reopen(folder.path()).unwrap(), expected);
    }
}

/// Threads are in the middle of an append when another thread closes their extents, by a pad or by
/// giving the rest back. Then the process is killed. Opening must not report this as damage.
#[test]
fn an_unfinished_append_in_a_closed_extent_is_no_damage() {
    let close = |log: &Log| {
        log.fence();
        let own = [add(log, 30), add(log, 31)];
        log.fence();
        let others = std::thread::scope(|s| s.spawn(|| [add(log, 32), add(log, 33)]).join().unwrap());
        assert_eq!(others[0].start.0, own[1].end.0 + 16, "the rest was given to the next");
        [own, others].concat()
    };
    for victim in [9u64, 19, 29, 31, 33] {
        let (folder, spans) = killed_after(Insert::Extents, close);
        let mut expected = by_place(&spans);
        assert_eq!(expected.len(), 35);
        change(folder.path(), |ring| {
            let at = spans[victim as usize].start.0 as usize % (ring.len() - WHOSE);
            ring[at + 4..at + 30].fill(0);
        });
        expected.retain(|&n| n != victim);
        assert_eq!(reopen(folder.path()).unwrap(), expected, "{victim}");
        assert_eq!(reopen(folder.path()).unwrap(), expected, "{victim}: once more");
    }
    for victim in [15usize, 32] {
        let (folder, spans) = killed_after(Insert::Extents, close);
        change(folder.path(), |ring| {
            let at = spans[victim].start.0 as usize % (ring.len() - WHOSE);
            ring[at + 30] ^= 4;
        });
        let error = reopen(folder.path()).unwrap_err();
        assert!(matches!(&error, LogFault::Corrupt { .. }), "{victim}: {error}");
    }
}

#[test]
fn a_hole_with_a_record_behind_it_is_damage() {
    let (folder, spans) = killed(Insert::Extents);
    change(folder.path(), |ring| {
        let at = spans[15].start.0 as usize % (ring.len() - WHOSE);
        ring[at + 30] ^= 4;
    });
    let error = reopen(folder.path()).unwrap_err();
    assert!(matches!(&error, LogFault::Corrupt { file, .. } if file.ends_with(RING)), "{error}");
}

/// After a power cut the ring holds the pages that the kernel happened to write. A hole may be a
/// lost record, and records that depend on it must not come back.
#[test]
fn after_a_power_cut_the_log_ends_at_the_first_hole() {
    let (folder, spans) = killed(Insert::Extents);
    change(folder.path(), |ring| boot_again(ring));
    let found = reopen(folder.path()).unwrap();
    assert!(by_place(&spans).len() > 30, "the first record's thread left a hole right behind it");
    assert_eq!(found, [1000]);
}

/// Bits are flipped all over a log. Each flip is reported, or hits bytes without meaning, or the
/// tail that a crash explains.
#[test]
fn turned_bits_are_told() {
    const RECORDS: u64 = 300;
    const SAFE: u64 = 290;
    let files = memory();
    let log = open(&files).unwrap();
    for n in 0..RECORDS {
        let span = add(&log, n);
        if n < SAFE {
            log.wait_durable(span.end).unwrap();
        }
    }
    drop(log);
    let names = segments(&files);
    let (mut told, mut cut, mut harmless) = (0, 0, 0);
    let mut state = 7u64;
    for _ in 0..1500 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let crashed = image(&files);
        let name = &names[(state >> 40) as usize % names.len()];
        let path: PathBuf = Path::new(DIR).join(name);
        let mut bytes = contents(&files, &path);
        let bit = (state >> 16) as usize % (bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        poke(&crashed, name, (bit / 8) as u64, &bytes[bit / 8..=bit / 8]);
        match open(&crashed).and_then(|log| numbers(&log)) {
            Err(LogFault::Corrupt { file, .. } | LogFault::Version { file, .. }) if file == path => told += 1,
            Err(LogFault::Missing { .. }) => told += 1,
            Err(other) => panic!("{other} after a bit of {} turned", path.display()),
            Ok(found) if found.len() as u64 == RECORDS => harmless += 1,
            Ok(found) => {
                assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>());
                assert!(
                    found.len() as u64 + 1 >= SAFE,
                    "{} records are gone, and nobody says so",
                    RECORDS - found.len() as u64
                );
                assert_eq!(name, names.last().unwrap(), "a segment with a successor has no torn tail");
                cut += 1;
            }
        }
    }
    assert!(told > 300 && harmless > 100 && cut > 0, "{told} told, {harmless} harmless, {cut} cut");
}

/// Lengths, marks and pads that lead anywhere: no panic, no allocation of that size, no endless
/// reading.
#[test]
fn arbitrary_bytes_are_no_log() {
    let files = memory();
    drop(open(&files).unwrap());
    let name = segments(&files).pop().unwrap();
    let mut state = 11u64;
    for round in 0..400u64 {
        let crashed = image(&files);
        let bytes: Vec<u8> = (0..512)
            .flat_map(|n| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n + round);
                // Every other word is the position of a frame there, so that the reader looks at
                // the rest of it.
                let place = 64 + n * 8 - 8;
                if n % 2 == 1 { place.to_le_bytes() } else { (state >> 8).to_le_bytes() }
            })
            .collect();
        poke(&crashed, &name, HEADER, &bytes);
        let log = open(&crashed).unwrap();
        assert_eq!(numbers(&log).unwrap(), [0; 0]);
    }
}
