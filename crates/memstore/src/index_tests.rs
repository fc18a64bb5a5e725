//! The index against a `BTreeMap`, alone and under threads that insert, remove, look up and scan at
//! the same time. Nodes are tiny here, so every few operations split one or remove one.

use crate::arena::{Arena, Full, Local, Ref};
use crate::batched_lookup::LANES;
use crate::epoch::{EpochUse, Epochs, IDLE};
use crate::head::{load_key, store_key};
use crate::index::{Chunk, Index, Insertion, Removal, Seek, Spot};
use crate::node::{LEAF_CAP, ROW_KEY, ROW_LENGTHS};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

struct World {
    arena: Arena,
    epochs: Epochs,
    index: Index,
}

fn world(bytes: u64, workers: usize) -> (World, Vec<Local>) {
    let arena = Arena::new(bytes, world::PageSize::Normal).unwrap();
    let mut locals: Vec<Local> = (0..workers).map(|_| Local::new()).collect();
    let index = Index::new(&arena, &mut locals[0]).unwrap();
    (World { arena, epochs: Epochs::new(workers, 1), index }, locals)
}

fn pin(world: &World, worker: usize) {
    world.epochs.publish(worker, EpochUse::Reading, world.epochs.now());
}

fn words(key: &[u8]) -> usize {
    ROW_KEY + key.len().div_ceil(8)
}

impl World {
    fn row(&self, local: &mut Local, key: &[u8]) -> Result<Ref, Full> {
        let row = local.alloc(&self.arena, words(key))?;
        let block = self.arena.block(row, words(key));
        block[ROW_LENGTHS].store(key.len() as u64, Relaxed);
        store_key(&block[ROW_KEY..], key);
        Ok(row)
    }

    fn key_of(&self, row: Ref) -> Vec<u8> {
        let len = (self.arena.block(row, ROW_KEY)[ROW_LENGTHS].load(Relaxed) & 0xffff) as usize;
        let mut key = Vec::new();
        load_key(&self.arena.block(row, ROW_KEY + len.div_ceil(8))[ROW_KEY..], len, &mut key);
        key
    }

    fn insert(&self, local: &mut Local, key: &[u8]) -> Option<Ref> {
        let row = self.row(local, key).unwrap();
        match self.index.insert(&self.arena, local, &self.epochs, key, row, &mut Spot::default()).unwrap() {
            Insertion::Done(done) => {
                assert_ne!(done.before, done.after);
                Some(row)
            }
            Insertion::Exists(..) => {
                local.free(row, words(key));
                None
            }
            Insertion::Reserved(leaf) => panic!("nobody guards {leaf:?}"),
        }
    }

    fn remove(&self, local: &mut Local, key: &[u8], row: Ref) {
        let removal = self.index.remove(&self.arena, local, &self.epochs, key, row);
        assert!(matches!(removal, Removal::Done | Removal::Last), "{key:?}: {removal:?}");
        local.retire(&self.epochs, row, words(key));
    }

    fn find_batch(&self, keys: &[Vec<u8>]) -> Vec<Option<Ref>> {
        let mut all = vec![None; keys.len()];
        self.index.find_batch(&self.arena, keys, |i, found| {
            assert_eq!(all[i].replace(found.row), None, "found twice");
        });
        all.into_iter().map(|found| found.expect("every key gets an answer")).collect()
    }

    /// All rows from `seek` to `until`, and the number of leaves with them.
    fn scan(&self, seek: Seek<'_>, until: Option<&[u8]>) -> (Vec<Ref>, usize) {
        let (mut rows, mut chunk, mut leaves) = (Vec::new(), Chunk::default(), 1);
        self.index.chunk(&self.arena, seek, until, &mut chunk);
        loop {
            rows.append(&mut chunk.rows);
            let Some(next) = chunk.next.take() else { return (rows, leaves) };
            let on = match seek {
                Seek::Up(_) => Seek::Up(Some(&next[..])),
                Seek::Down(_) => Seek::Down(Some(&next[..])),
            };
            self.index.chunk(&self.arena, on, until, &mut chunk);
            leaves += 1;
        }
    }
}

/// Keys that share long beginnings, end in zeros, or are the beginning of another key.
fn random_key(random: &mut Rng) -> Vec<u8> {
    let beginning = [&b""[..], b"a", b"warehouse 0001 ", b"warehouse 0001 district 7 order \0\0"];
    let mut key = beginning[random.usize(0..4)].to_vec();
    let bytes = [0, 0, 1, b'x', 255];
    key.extend((0..random.usize(0..5)).map(|_| bytes[random.usize(0..5)]));
    key
}

#[test]
fn it_is_an_ordered_map() {
    for seed in 0..12 {
        let (world, mut locals) = world(8 << 20, 1);
        let local = &mut locals[0];
        let (mut random, mut model) = (Rng::with_seed(seed), BTreeMap::new());
        for step in 0..6000 {
            let key = random_key(&mut random);
            // Growing and shrinking in turns, down to nothing.
            let grows = step / 1000 % 2 == 0;
            match random.u32(..10) {
                0..6 if grows => match world.insert(local, &key) {
                    Some(row) => assert_eq!(model.insert(key, row), None),
                    None => assert!(model.contains_key(&key)),
                },
                0..6 => {
                    let near = model.range(key..).next().or(model.iter().next());
                    if let Some((key, row)) = near.map(|(k, r)| (k.clone(), *r)) {
                        world.remove(local, &key, row);
                        model.remove(&key);
                    }
                }
                6 => assert_eq!(world.index.find(&world.arena, &key).row, model.get(&key).copied()),
                7 => {
                    let keys: Vec<_> = (0..random.usize(..=LANES)).map(|_| random_key(&mut random)).collect();
                    let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
                    assert_eq!(world.find_batch(&keys), expected);
                }
                _ => compare_scans(&world, &model, &key, &random_key(&mut random)),
            }
            local.reclaim(&world.arena, &world.epochs);
        }
        compare_scans(&world, &model, b"", b"");
    }
}

fn compare_scans(world: &World, model: &BTreeMap<Vec<u8>, Ref>, a: &[u8], b: &[u8]) {
    let (low, high) = (a.min(b), a.max(b));
    let up: Vec<Ref> = model.range(low.to_vec()..high.to_vec()).map(|(_, row)| *row).collect();
    let down: Vec<Ref> = up.iter().rev().copied().collect();
    assert_eq!(world.scan(Seek::Up(Some(low)), Some(high)).0, up);
    assert_eq!(world.scan(Seek::Down(Some(high)), Some(low)).0, down);
    let all: Vec<Ref> = model.values().copied().collect();
    assert_eq!(world.scan(Seek::Up(None), None).0, all);
    assert_eq!(world.scan(Seek::Down(None), None).0, all.iter().rev().copied().collect::<Vec<_>>());
}

/// Keys in runs, mostly one behind the other. Each inserter remembers the place of its last row,
/// while other rows come and go around it.
#[test]
fn an_inserter_who_remembers_its_spot_enters_rows_where_they_belong() {
    for seed in 0..20 {
        let (world, mut locals) = world(16 << 20, 1);
        pin(&world, 0);
        let (local, mut random) = (&mut locals[0], Rng::with_seed(seed));
        let (mut model, mut spots) = (BTreeMap::new(), [Spot::default(); 2]);
        let mut runs = [0u64, 1 << 20];
        for _ in 0..3000 {
            let who = random.usize(..2);
            runs[who] = match random.u8(..10) {
                0 => random.u64(..1 << 21),
                1 => runs[who].saturating_sub(random.u64(..4)),
                _ => runs[who] + random.u64(..3),
            };
            let mut key = runs[who].to_be_bytes().to_vec();
            // Now and then longer than heads and marks.
            key.extend(std::iter::repeat_n(7, random.usize(..2) * 8));
            let row = world.row(local, &key).unwrap();
            let spot = if random.u8(..8) == 0 { &mut Spot::default() } else { &mut spots[who] };
            match world.index.insert(&world.arena, local, &world.epochs, &key, row, spot).unwrap() {
                Insertion::Done(_) => assert_eq!(model.insert(key, row), None),
                Insertion::Exists(other, _) => assert_eq!(model.get(&key), Some(&other)),
                Insertion::Reserved(leaf) => panic!("nobody guards {leaf:?}"),
            }
            if random.u8(..6) == 0 {
                let near = model.range(runs[who].to_be_bytes().to_vec()..).next();
                if let Some((key, row)) = near.map(|(key, row)| (key.clone(), *row)) {
                    world.remove(local, &key, row);
                    model.remove(&key);
                }
            }
        }
        compare_scans(&world, &model, b"", b"");
        assert!(model.iter().all(|(key, row)| world.index.find(&world.arena, key).row == Some(*row)));
    }
}

/// Full leaves share with a neighbour before they are split. With splits alone, leaves as small as
/// these are 62 % full.
#[test]
fn leaves_of_keys_in_no_order_are_well_filled() {
    for behind in [0, 8] {
        let (world, mut locals) = world(16 << 20, 1);
        pin(&world, 0);
        let (mut keys, mut random): (Vec<u64>, _) = ((0..20_000).collect(), Rng::with_seed(behind as u64));
        random.shuffle(&mut keys);
        for key in &keys {
            let key = [&key.to_be_bytes()[..], &vec![7; behind]].concat();
            world.insert(&mut locals[0], &key).expect("a new key");
        }
        let (rows, leaves) = world.scan(Seek::Up(None), None);
        assert_eq!(rows.len(), keys.len());
        let fill = rows.len() as f64 / (leaves * LEAF_CAP) as f64;
        assert!(fill > 0.7, "leaves are {fill:.3} full");
    }
}

#[test]
fn memory_of_removed_entries_comes_back() {
    let (world, mut locals) = world(4 << 20, 1);
    let local = &mut locals[0];
    let mut used = 0;
    for round in 0..50u64 {
        // A queue: in at the upper end, out at the lower, as orders are.
        let keys: Vec<_> = (0..500).map(|i| (round * 500 + i).to_be_bytes()).collect();
        let rows: Vec<_> = keys.iter().map(|key| world.insert(local, key).unwrap()).collect();
        keys.iter().zip(rows).for_each(|(key, row)| world.remove(local, key, row));
        world.epochs.tick();
        local.reclaim(&world.arena, &world.epochs);
        if round == 5 {
            used = world.arena.used_bytes();
        }
    }
    assert_eq!(world.arena.used_bytes(), used);
    assert_eq!(world.scan(Seek::Up(None), None), (vec![], 1), "empty leaves were left behind");
}

#[test]
fn runs_of_keys_that_come_in_order_leave_full_leaves_behind() {
    let (world, mut locals) = world(4 << 20, 1);
    pin(&world, 0);
    for order in 0..100u8 {
        for (district, line) in (0..4u8).flat_map(|district| (0..10u8).map(move |line| (district, line))) {
            world.insert(&mut locals[0], &[district, order, line]).unwrap();
        }
    }
    let (rows, leaves) = world.scan(Seek::Up(None), None);
    assert_eq!(rows.len(), 4000);
    let least = rows.len() / crate::node::LEAF_CAP;
    assert!(leaves < least + least / 4, "{leaves} leaves, {least} would do");
}

#[test]
fn a_full_arena_is_an_error_and_changes_nothing() {
    for bytes in (1..20).map(|n| (1 << 16) + (n << 12)) {
        let (world, mut locals) = world(bytes, 1);
        let mut rows = Vec::new();
        let mut filler = Vec::new();
        let mut random = Rng::with_seed(bytes);
        loop {
            let key = (random.u64(..), 0u64);
            let key = [key.0.to_be_bytes(), key.1.to_be_bytes()].concat();
            let Ok(row) = world.row(&mut locals[0], &key) else { break };
            match world.index.insert(
                &world.arena,
                &mut locals[0],
                &world.epochs,
                &key,
                row,
                &mut Spot::default(),
            ) {
                Ok(Insertion::Done(_)) => rows.push((key, row)),
                Ok(Insertion::Exists(..)) => {}
                Ok(Insertion::Reserved(leaf)) => panic!("nobody guards {leaf:?}"),
                Err(Full) => filler.push((key, row)),
            }
        }
        assert!(!rows.is_empty());
        for (key, row) in &rows {
            assert_eq!(world.index.find(&world.arena, key).row, Some(*row));
        }
        for (key, _) in &filler {
            assert_eq!(world.index.find(&world.arena, key).row, None);
        }
        assert_eq!(world.scan(Seek::Up(None), None).0.len(), rows.len());
    }
}

#[test]
fn whatever_comes_or_goes_moves_the_version_of_its_leaf() {
    let (world, mut locals) = world(8 << 20, 1);
    let local = &mut locals[0];
    let mut random = Rng::with_seed(5);
    let mut model = BTreeMap::new();
    for step in 0..4000 {
        let key = random_key(&mut random);
        let found = world.index.find(&world.arena, &key);
        assert!(found.seen.holds(&world.arena));
        match found.row {
            Some(row) if step / 500 % 2 == 1 || random.bool() => {
                world.remove(local, &key, row);
                model.remove(&key);
            }
            Some(_) => continue,
            None => drop(model.insert(key.clone(), world.insert(local, &key).unwrap())),
        }
        assert!(!found.seen.holds(&world.arena));
    }
    assert_eq!(world.scan(Seek::Up(None), None).0.len(), model.len());
}

/// Each thread owns the keys with its own number modulo the threads, and knows at every moment
/// whether they are there. It also scans all keys, and finds its own among them in order, all of
/// them and no others.
#[test]
fn threads_find_what_they_entered_and_nothing_they_removed() {
    const THREADS: usize = 4;
    let (world, locals) = world(32 << 20, THREADS);
    std::thread::scope(|scope| {
        for (me, mut local) in locals.into_iter().enumerate() {
            let world = &world;
            scope.spawn(move || owner(world, &mut local, me, THREADS as u64));
        }
    });
    assert_eq!(world.scan(Seek::Down(None), None), (vec![], 1));
}

fn key_of(number: u64) -> Vec<u8> {
    let mut key = b"a beginning that is shared ".to_vec();
    key.truncate((number % 3) as usize * 13);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn owner(world: &World, local: &mut Local, me: usize, threads: u64) {
    let mut random = Rng::with_seed(me as u64);
    let mut own: BTreeMap<Vec<u8>, Ref> = BTreeMap::new();
    for step in 0..8000u64 {
        pin(world, me);
        let key = key_of(random.u64(..60) * threads + me as u64);
        match random.u32(..20) {
            0..8 => match world.insert(local, &key) {
                Some(row) => assert_eq!(own.insert(key, row), None),
                None => assert!(own.contains_key(&key), "a key of my own that I did not insert"),
            },
            8..15 => match own.remove(&key) {
                Some(row) => world.remove(local, &key, row),
                None => assert_eq!(world.index.find(&world.arena, &key).row, None),
            },
            15..17 => assert_eq!(world.index.find(&world.arena, &key).row, own.get(&key).copied()),
            17..19 => {
                let keys: Vec<_> = (0..8).map(|_| key_of(random.u64(..60) * threads + me as u64)).collect();
                let expected: Vec<_> = keys.iter().map(|key| own.get(key).copied()).collect();
                assert_eq!(world.find_batch(&keys), expected);
            }
            _ => scan_as_owner(world, &own, threads, me, step % 2 == 0),
        }
        world.epochs.withdraw(me, EpochUse::Reading, IDLE);
        if step % 16 == 0 {
            world.epochs.tick();
            local.reclaim(&world.arena, &world.epochs);
        }
    }
    pin(world, me);
    own.iter().for_each(|(key, row)| world.remove(local, key, *row));
    world.epochs.withdraw(me, EpochUse::Reading, IDLE);
}

fn scan_as_owner(world: &World, own: &BTreeMap<Vec<u8>, Ref>, threads: u64, me: usize, up: bool) {
    let seek = if up { Seek::Up(None) } else { Seek::Down(None) };
    let mut keys: Vec<_> = world.scan(seek, None).0.iter().map(|row| world.key_of(*row)).collect();
    if !up {
        keys.reverse();
    }
    assert!(keys.is_sorted_by(|a, b| a < b), "out of order");
    let number = |key: &[u8]| u64::from_be_bytes(*key.last_chunk().unwrap());
    keys.retain(|key| number(key) % threads == me as u64);
    assert!(keys.iter().eq(own.keys()), "a scan missed or invented a key that was not changing");
}

/// A scan that started over at every change would never end here.
#[test]
fn a_reverse_scan_ends_while_keys_come_and_go() {
    let (world, mut locals) = world(8 << 20, 2);
    let stop = AtomicBool::new(false);
    let mut churner = locals.remove(0);
    let steady: Vec<_> = (0..200u64).map(|n| (n * 1000).to_be_bytes()).collect();
    let rows: Vec<_> = steady.iter().map(|key| world.insert(&mut churner, key).unwrap()).collect();
    std::thread::scope(|scope| {
        let (world, stop) = (&world, &stop);
        scope.spawn(move || {
            let mut random = Rng::with_seed(3);
            while !stop.load(Relaxed) {
                pin(world, 0);
                let key = (random.u64(..200_000) | 1).to_be_bytes();
                if let Some(row) = world.insert(&mut churner, &key) {
                    std::hint::spin_loop();
                    world.remove(&mut churner, &key, row);
                }
                world.epochs.withdraw(0, EpochUse::Reading, IDLE);
                churner.reclaim(&world.arena, &world.epochs);
            }
        });
        for _ in 0..300 {
            pin(world, 1);
            let (found, _) = world.scan(Seek::Down(None), None);
            let kept: Vec<_> = found.into_iter().filter(|row| rows.contains(row)).collect();
            assert!(kept.iter().eq(rows.iter().rev()), "a row that was there all the time was missed");
            world.epochs.withdraw(1, EpochUse::Reading, IDLE);
            world.epochs.tick();
        }
        stop.store(true, Relaxed);
    });
}
