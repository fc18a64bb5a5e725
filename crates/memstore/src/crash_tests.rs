//! Crash by construction. One recorded life gives the disk at every moment at which it can be cut.
//! Each such disk is opened and compared with a model.
//!
//! One thread runs two workers, so the events have an order, and epochs grow along it. The state
//! after a crash must be exactly the state after one of the events, and contain all events that
//! were acknowledged.

use crate::durable_tests::{Rows, T, log_options, open_with, rows};
use crate::{Durability, InDoubt, LogOptions, Memstore, NoteId, Recovered, Scope, Txn, Worker};
use fastrand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use world::sim::{Disk, Tape};

type Changes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Everything a store keeps.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct State {
    rows: Rows,
    /// By note.
    undecided: BTreeMap<Vec<u8>, Changes>,
    notes: BTreeSet<Vec<u8>>,
}

impl State {
    fn change(&mut self, changes: &Changes) {
        for (key, value) in changes {
            match value {
                Some(value) => drop(self.rows.insert(key.clone(), value.clone())),
                None => drop(self.rows.remove(key)),
            }
        }
    }
}

/// The states of a life, one after each event. `acknowledged` says up to which event the store had
/// acknowledged at which moment of the disk.
struct History {
    states: Vec<State>,
    acknowledged: Vec<(usize, usize)>,
}

impl History {
    fn acknowledged_at(&self, position: usize) -> usize {
        let known = self.acknowledged.partition_point(|(at, _)| *at <= position);
        known.checked_sub(1).map_or(0, |i| self.acknowledged[i].1)
    }
}

/// The epoch of an event that needs no acknowledgement.
const UNTOLD: u64 = 0;

struct Life<'a> {
    store: Arc<Memstore>,
    workers: [Worker; 2],
    disk: &'a Disk,
    random: Rng,
    state: State,
    history: History,
    open: Vec<(Vec<u8>, usize, Box<Txn>)>,
    notes: BTreeMap<Vec<u8>, NoteId>,
    next: u64,
    /// The epoch on which the last event depends.
    epoch: u64,
}

fn options(seed: u64) -> LogOptions {
    let durability = if seed % 3 == 2 { Durability::Async } else { Durability::Sync };
    let streams = if seed.is_multiple_of(4) { 2 } else { 1 };
    // A short time, so that the disk often has records that no test thread has waited for.
    let leisure = std::time::Duration::from_micros(200);
    LogOptions { segment_bytes: 1 << 14, streams, leisure, ..log_options(durability) }
}

impl<'a> Life<'a> {
    fn begin(disk: &'a Disk, seed: u64, before: State) -> Life<'a> {
        let (store, recovered) = open_with(disk.files(), options(seed)).unwrap();
        let workers = [store.worker(0).unwrap(), store.worker(1).unwrap()];
        let history = History { states: vec![before.clone()], acknowledged: vec![(disk.changes(), 0)] };
        let random = Rng::with_seed(seed);
        let (state, next) = (before, seed << 32);
        let (open, notes, epoch) = (Vec::new(), BTreeMap::new(), 0);
        let mut life = Life { store, workers, disk, random, state, history, open, notes, next, epoch };
        life.notes = recovered.notes.into_iter().map(|(id, note)| (note, id)).collect();
        for doubt in recovered.in_doubt {
            life.adopt(doubt);
        }
        life
    }

    fn adopt(&mut self, doubt: InDoubt) {
        let (note, worker) = (doubt.note.clone(), self.random.usize(0..2));
        let txn = self.workers[worker].adopt(doubt).map_err(|(refused, _)| refused).unwrap();
        self.open.push((note, worker, txn));
    }

    fn name(&mut self) -> Vec<u8> {
        self.next += 1;
        self.next.to_be_bytes().to_vec()
    }

    /// An event happened in this epoch, or without one ([`UNTOLD`]).
    fn happened(&mut self, epoch: u64) {
        self.epoch = self.epoch.max(epoch);
        self.history.states.push(self.state.clone());
        if self.random.u8(0..4) == 0 {
            if epoch == UNTOLD {
                self.epoch = self.store.tick() - 1;
            }
            self.store.wait_durable(self.epoch).unwrap();
            self.acknowledge();
        }
    }

    fn acknowledge(&mut self) {
        self.history.acknowledged.push((self.disk.changes(), self.history.states.len() - 1));
    }

    /// A transaction on keys that no undecided transaction has; returns its changes.
    fn transaction(&mut self, worker: usize) -> (Box<Txn>, Changes) {
        let w = &mut self.workers[worker];
        let (mut txn, mut changes) = (w.begin(), Changes::new());
        for _ in 0..self.random.usize(1..5) {
            let key = vec![self.random.u8(0..60)];
            let is_taken = self.state.undecided.values().flatten().any(|(k, _)| *k == key);
            if is_taken || changes.iter().any(|(k, _)| *k == key) {
                continue;
            }
            let mut value = vec![self.random.u8(..); self.random.usize(0..400)];
            // Many are changed, and logged, only in part.
            let row = self.state.rows.get(&key).filter(|row| !row.is_empty());
            if let (Some(row), true) = (row, self.random.bool()) {
                value.clone_from(row);
                let at = self.random.usize(0..value.len());
                value[at] = self.random.u8(..);
            }
            let is_there = self.state.rows.contains_key(&key);
            if is_there && self.random.u8(0..3) == 0 {
                assert_eq!(w.delete(&mut txn, T, &key), Ok(true));
                changes.push((key, None));
                continue;
            }
            if is_there {
                w.update(&mut txn, T, &key, |row| row.clone_from(&value)).unwrap();
            } else {
                w.insert(&mut txn, T, &key, &value).unwrap();
            }
            changes.push((key, Some(value)));
        }
        (txn, changes)
    }

    fn step(&mut self) {
        let worker = self.random.usize(0..2);
        match self.random.u8(0..20) {
            0..=9 => {
                let (txn, changes) = self.transaction(worker);
                let done = self.workers[worker].commit(txn).map_err(|(refused, _)| refused).unwrap();
                self.state.change(&changes);
                self.happened(done.epoch);
            }
            10..=11 => {
                let (mut txn, changes) = self.transaction(worker);
                if self.random.bool() {
                    self.workers[worker].pre_commit(&mut txn, Scope::Distributed).unwrap();
                    self.store.tick();
                }
                let note = self.name();
                let done = self.workers[worker].commit_with_note(txn, &note);
                let (done, id) = done.map_err(|(refused, _)| refused).unwrap();
                self.state.change(&changes);
                self.state.notes.insert(note.clone());
                self.notes.insert(note, id);
                self.happened(done.epoch);
            }
            12..=14 => self.prepare(worker),
            15..=17 => self.decide(),
            18 => {
                if let Some((note, id)) = self.notes.pop_first() {
                    self.workers[worker].forget(id);
                    self.state.notes.remove(&note);
                    self.happened(UNTOLD);
                }
            }
            _ => {
                let (txn, _) = self.transaction(worker);
                self.workers[worker].abort(txn);
            }
        }
    }

    fn prepare(&mut self, worker: usize) {
        let (mut txn, changes) = self.transaction(worker);
        if changes.is_empty() {
            return self.workers[worker].abort(txn);
        }
        let note = self.name();
        let epoch = self.workers[worker].prepare(&mut txn, &note).unwrap();
        self.open.push((note.clone(), worker, txn));
        self.state.undecided.insert(note, changes);
        self.happened(epoch);
    }

    fn decide(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let (note, worker, txn) = self.open.swap_remove(self.random.usize(0..self.open.len()));
        let changes = self.state.undecided.remove(&note).unwrap();
        if self.random.bool() {
            self.workers[worker].abort(txn);
            // No caller waits for an abort.
            return self.happened(UNTOLD);
        }
        let done = self.workers[worker].post_commit(txn);
        self.state.change(&changes);
        self.happened(done.epoch);
    }

    fn run(mut self, steps: usize) -> History {
        for n in 0..steps {
            self.step();
            if n == steps / 2 || (n == steps / 4 && self.random.bool()) {
                self.store.checkpoint().unwrap();
            }
        }
        self.history
    }
}

/// The contents of a store that was just opened. In-doubt transactions are given by their notes.
fn found(store: &Arc<Memstore>, recovered: &Recovered) -> (Rows, BTreeSet<Vec<u8>>, BTreeSet<Vec<u8>>) {
    let mut w = store.worker(0).unwrap();
    // Rows in doubt are locked: a snapshot reads through the lock.
    let snapshot = w.open_snapshot();
    let mut rows = Rows::new();
    let all = w.scan_past(&snapshot, T, txn::Range::ALL, txn::Direction::Forward, |key, row| {
        rows.insert(key.to_vec(), row.to_vec());
        txn::Flow::More
    });
    all.unwrap();
    w.close_snapshot(snapshot);
    let in_doubt = recovered.in_doubt.iter().map(|doubt| doubt.note.clone()).collect();
    (rows, in_doubt, recovered.notes.iter().map(|(_, note)| note.clone()).collect())
}

/// Opens a disk and returns the number of the state that it is in. Then something is committed
/// there, and the disk is cut and opened again.
fn open_and_compare(image: &Disk, history: &History, least: usize, seed: u64, moment: &str) -> usize {
    let (store, recovered) =
        open_with(image.files(), options(seed)).unwrap_or_else(|e| panic!("{moment}: {e}"));
    let (rows_found, in_doubt, notes) = found(&store, &recovered);
    let is_it = |state: &State| {
        state.rows == rows_found && state.notes == notes && state.undecided.keys().eq(in_doubt.iter())
    };
    let which = history.states.iter().rposition(is_it).unwrap_or_else(|| panic!("{moment}: what never was"));
    assert!(which >= least, "{moment}: it knows {which} of {least} things that were acknowledged");
    if which % 3 == 0 {
        let mut w = store.worker(1).unwrap();
        let mut expected = rows_found;
        // More epochs than the part that was cut off had.
        for n in 0..5 {
            expected.insert(vec![200], vec![n]);
            let done = crate::durable_tests::put(&mut w, &[200], &[n]);
            store.wait_durable(done.epoch).unwrap();
        }
        drop((w, store, recovered));
        let image = if options(seed).durability == Durability::Sync {
            image.crash_image(seed)
        } else {
            image.killed()
        };
        let (store, recovered) = open_with(image.files(), options(seed)).unwrap();
        let again = found(&store, &recovered);
        assert_eq!(again, (expected, in_doubt, notes), "{moment}: what had been cut off came back");
        if recovered.in_doubt.is_empty() {
            assert_eq!(rows(&mut store.worker(0).unwrap()), again.0, "{moment}: no lock is left");
        }
    }
    which
}

/// A few lives, each on a disk that was cut in the life before. Returns the number of disks opened.
fn chain(seed: u64, lives: usize, images: usize) -> usize {
    let (mut disk, mut state, mut opened) = (Disk::new(), State::default(), 0);
    for life in 0..lives {
        let own = seed * 16 + life as u64;
        // The durability and the number of streams of a store do not change.
        let seed = seed + 12 * life as u64;
        let recording = disk.clone().recording();
        let history = Life::begin(&recording, seed, state.clone()).run(60);
        let tape: Tape = recording.tape();
        let mut random = Rng::with_seed(own);
        let mut cuts: Vec<usize> = tape.syncs();
        random.shuffle(&mut cuts);
        cuts.truncate(images * 2 / 3);
        while cuts.len() < images {
            cuts.push(random.usize(0..=tape.len()));
        }
        cuts.sort_unstable();
        let (mut player, mut next) = (tape.player(), None);
        for position in cuts {
            player.go_to(position);
            let is_killed = random.u8(0..4) == 0;
            let image = if is_killed { player.killed() } else { player.crash_image(random.u64(..)) };
            let is_sync = options(seed).durability == Durability::Sync;
            // In mode `async` a power cut may take any part of the end.
            let least = if is_sync || is_killed { history.acknowledged_at(position) } else { 0 };
            let moment = format!("seed {seed}, life {life}, change {position}, killed: {is_killed}");
            let kept = image.killed();
            let which = open_and_compare(&image, &history, least, seed, &moment);
            opened += 1;
            if which > 20 {
                next = Some((kept, history.states[which].clone()));
            }
        }
        let Some(chosen) = next else { break };
        (disk, state) = chosen;
    }
    opened
}

#[test]
fn acknowledged_commits_survive_every_cut_and_nothing_survives_by_half() {
    let opened: usize = (1..9).map(|seed| chain(seed, 2, 16)).sum();
    assert!(opened >= 200, "{opened} disks are too few");
}

/// The test can fail: a device that only pretends to sync is found out.
#[test]
fn a_device_that_lies_about_syncs_is_noticed() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let noticed = (0..20u64).any(|seed| {
        let disk = Disk::new().recording();
        let files = world::watched(disk.files(), |path, deed| {
            let is_log = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
            match deed {
                world::Deed::Sync if is_log => world::Intervention::Swallow,
                _ => world::Intervention::Do,
            }
        });
        let (store, _) = open_with(files, log_options(Durability::Sync)).unwrap();
        let mut w = store.worker(0).unwrap();
        let done = crate::durable_tests::put(&mut w, b"a", &[1; 3000]);
        store.wait_durable(done.epoch).unwrap();
        let image = disk.crash_image(seed);
        let reopened =
            catch_unwind(AssertUnwindSafe(|| open_with(image.files(), log_options(Durability::Sync))));
        !matches!(reopened, Ok(Ok((store, _))) if rows(&mut store.worker(0).unwrap()).len() == 1)
    });
    assert!(noticed);
}
