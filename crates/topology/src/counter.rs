//! The smallest experiment about islands: threads increment counters in a tight loop (VLDB 2012,
//! section 3).
//!
//! `workers` threads form as many groups as there are counters, and each group increments its own
//! counter. One counter for all threads shows the cost of sharing across the machine. One counter
//! per island or socket shows the cost of sharing at short distance, and one per core the cost
//! without sharing. The placement decides where a group's threads run: `island` keeps a group (and
//! its counter's memory) together, `spread` scatters it, `os` lets it float.
//!
//! Access rules:
//! - The first thread of a group makes its counter after that thread was pinned, so its page is
//!   local by first touch.
//! - Only the threads of the group increment it.
//! - The main thread reads it after all threads have ended, and compares it with the sum of the
//!   threads' own counts.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::bind::{bind_thread_memory, pin_thread};
use crate::cpu::{CpuId, NodeId};
use crate::error::{PinError, PlacementError};
use crate::latency::median;
use crate::machine::Machine;
use crate::placement::{InstancePlace, Placement, place};
use crate::sizes::IslandCount;

/// Increments between two checks of the stop flag. The flag's cache line stays shared, so a check
/// is cheap, but not free.
const BATCH: u64 = 64;

/// How many threads share a counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// One counter for all threads.
    Single,
    /// One a socket.
    PerSocket,
    /// One an island (L3 group).
    PerIsland,
    /// One a core: with one worker a core, private.
    PerCore,
}

impl Sharing {
    /// All four, coarsest first.
    pub const ALL: [Sharing; 4] = [Sharing::Single, Sharing::PerSocket, Sharing::PerIsland, Sharing::PerCore];

    /// The word in tables and result rows.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Single => "single",
            Sharing::PerSocket => "per-socket",
            Sharing::PerIsland => "per-island",
            Sharing::PerCore => "per-core",
        }
    }

    fn count(self) -> IslandCount {
        match self {
            Sharing::Single => IslandCount::Shared,
            Sharing::PerSocket => IslandCount::PerSocket,
            Sharing::PerIsland => IslandCount::PerL3,
            Sharing::PerCore => IslandCount::PerCore,
        }
    }
}

/// The protection of an increment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// A mutex around it, as in the paper.
    Lock,
    /// One atomic add.
    Atomic,
}

impl Protection {
    /// The word in tables and result rows.
    pub fn name(self) -> &'static str {
        match self {
            Protection::Lock => "lock",
            Protection::Atomic => "atomic",
        }
    }
}

/// One variant of the experiment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CounterSpec {
    /// Threads in total.
    pub workers: usize,
    /// Where a group's threads run.
    pub placement: Placement,
    /// How many threads share a counter.
    pub sharing: Sharing,
    /// Lock or atomic.
    pub protection: Protection,
    /// Length of one repetition.
    pub duration: Duration,
    /// Repetitions; at least 1.
    pub repeats: usize,
}

/// The result of one variant. Rates are increments per second over all threads.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CounterResult {
    /// As requested.
    pub sharing: Sharing,
    /// As requested.
    pub placement: Placement,
    /// As requested.
    pub protection: Protection,
    /// Threads.
    pub workers: usize,
    /// Counters on this machine.
    pub counters: usize,
    /// Median over the repetitions.
    pub per_second: f64,
    /// Slowest repetition.
    pub per_second_min: f64,
    /// Fastest repetition.
    pub per_second_max: f64,
    /// Standard deviation over the repetitions in per cent of their mean; 0 for one repetition.
    pub stddev_percent: f64,
    /// Whether the counters held exactly the sum of the threads' increments, in every repetition.
    pub consistent: bool,
    /// More threads than cores.
    pub oversubscribed: bool,
}

/// The reason why the experiment could not run.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CounterError {
    /// The threads do not fit the machine.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A thread could not be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The machine is only described, not the one under this process.
    #[error("cannot count on a described machine; expected --machine live; leave --machine out")]
    NotLive,
    /// No repetition asked for.
    #[error("repeat 0: expected at least 1; leave --repeat out for the default")]
    NoRepeat,
    /// A thread could not be started.
    #[error("cannot start a counting thread: {0}; expected room for all workers; ask for fewer --workers")]
    Thread(String),
}

/// Runs each sharing under each given placement, coarsest sharing first. A variant with as many
/// counters as the one before it (one socket, one island) is skipped.
///
/// # Errors
/// As [`run_counter`].
pub fn run_counters(
    machine: &Machine,
    spec: CounterSpec,
    placements: &[Placement],
    mut each: impl FnMut(&CounterResult),
) -> Result<Vec<CounterResult>, CounterError> {
    let mut results = Vec::new();
    for &placement in placements {
        let mut counts_seen = Vec::new();
        for sharing in Sharing::ALL {
            let count = sharing.count().resolve(machine, spec.workers)?;
            if counts_seen.contains(&count) {
                continue;
            }
            counts_seen.push(count);
            let result = run_counter(machine, CounterSpec { placement, sharing, ..spec })?;
            each(&result);
            results.push(result);
        }
    }
    Ok(results)
}

/// Runs one variant on the live machine.
///
/// # Errors
/// The machine is only described, the workers do not fit it, or a thread cannot be started or
/// pinned.
pub fn run_counter(machine: &Machine, spec: CounterSpec) -> Result<CounterResult, CounterError> {
    if !machine.is_live() {
        return Err(CounterError::NotLive);
    }
    if spec.repeats == 0 {
        return Err(CounterError::NoRepeat);
    }
    let counters = spec.sharing.count().resolve(machine, spec.workers)?;
    let layout = place(machine, counters, spec.workers, spec.placement)?;
    let runs =
        (0..spec.repeats).map(|_| repetition(&layout.instances, spec)).collect::<Result<Vec<_>, _>>()?;
    let rates: Vec<f64> = runs.iter().map(|run| run.per_second).collect();
    Ok(CounterResult {
        sharing: spec.sharing,
        placement: spec.placement,
        protection: spec.protection,
        workers: spec.workers,
        counters,
        per_second: median(rates.clone()).unwrap_or(0.0),
        per_second_min: rates.iter().copied().fold(f64::INFINITY, f64::min),
        per_second_max: rates.iter().copied().fold(0.0, f64::max),
        stddev_percent: stddev_percent(&rates),
        consistent: runs.iter().all(|run| run.exact),
        oversubscribed: layout.oversubscribed,
    })
}

fn stddev_percent(rates: &[f64]) -> f64 {
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    if rates.len() < 2 || mean == 0.0 {
        return 0.0;
    }
    let squares: f64 = rates.iter().map(|rate| (rate - mean).powi(2)).sum();
    (squares / (rates.len() - 1) as f64).sqrt() / mean * 100.0
}

/// A counter alone on its pair of cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Counter {
    locked: Mutex<u64>,
    atomic: AtomicU64,
}

impl Counter {
    fn value(&self) -> u64 {
        *self.locked.lock().unwrap_or_else(PoisonError::into_inner) + self.atomic.load(Ordering::Relaxed)
    }

    /// `BATCH` increments, one by one.
    fn increment_batch(&self, protection: Protection) {
        for _ in 0..BATCH {
            match protection {
                Protection::Lock => *self.locked.lock().unwrap_or_else(PoisonError::into_inner) += 1,
                // The counter publishes no other data, so it needs no order beside its own.
                Protection::Atomic => _ = self.atomic.fetch_add(1, Ordering::Relaxed),
            }
        }
    }
}

struct Run {
    per_second: f64,
    exact: bool,
}

/// State that the threads of one repetition share. Only the main thread sets `phase`, and only
/// forward.
struct Shared {
    counters: Vec<OnceLock<Box<Counter>>>,
    phase: AtomicU8,
}

/// The threads are being started and placed.
const PLACING: u8 = 0;
/// All threads are placed and all counters exist: the threads increment.
const COUNTING: u8 = 1;
/// The threads stop.
const STOPPED: u8 = 2;

/// One thread's part.
#[derive(Clone, Copy)]
struct Seat {
    group: usize,
    first_of_group: bool,
    cpu: Option<CpuId>,
    node: Option<NodeId>,
}

fn repetition(groups: &[InstancePlace], spec: CounterSpec) -> Result<Run, CounterError> {
    let counters = groups.iter().map(|_| OnceLock::new()).collect();
    let shared = Arc::new(Shared { counters, phase: AtomicU8::new(PLACING) });
    let seats = seats(groups);
    let (ready, placed) = mpsc::channel();
    let mut threads = Vec::with_capacity(seats.len());
    let mut outcome = Ok(());
    for seat in seats {
        match start(seat, spec.protection, &shared, ready.clone()) {
            Ok(thread) => threads.push(thread),
            Err(error) => outcome = Err(error),
        }
    }
    drop(ready);
    for pinned in placed.iter().take(threads.len()) {
        outcome = outcome.and(pinned.map_err(CounterError::Pin));
    }
    let started = Instant::now();
    if outcome.is_ok() {
        // Release: a thread that sees COUNTING also sees the counters that others made.
        shared.phase.store(COUNTING, Ordering::Release);
        thread::sleep(spec.duration);
    }
    shared.phase.store(STOPPED, Ordering::Release);
    let mut added = 0;
    for thread in threads {
        added += thread.join().map_err(|_| CounterError::Thread("it panicked".to_owned()))?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let held: u64 = shared.counters.iter().filter_map(OnceLock::get).map(|counter| counter.value()).sum();
    outcome.map(|()| Run { per_second: added as f64 / seconds, exact: held == added })
}

fn seats(groups: &[InstancePlace]) -> Vec<Seat> {
    let of_group = |(group, place): (usize, &InstancePlace)| {
        let node = place.node;
        let seat = move |(rank, cpu): (usize, &Option<CpuId>)| Seat {
            group,
            first_of_group: rank == 0,
            cpu: *cpu,
            node,
        };
        place.cpus.iter().enumerate().map(seat).collect::<Vec<_>>()
    };
    groups.iter().enumerate().flat_map(of_group).collect()
}

fn start(
    seat: Seat,
    protection: Protection,
    shared: &Arc<Shared>,
    ready: mpsc::Sender<Result<(), PinError>>,
) -> Result<thread::JoinHandle<u64>, CounterError> {
    let shared = Arc::clone(shared);
    let work = move || {
        let pinned = seat.cpu.map_or(Ok(()), pin_thread);
        if seat.first_of_group {
            // If the call is refused, first touch still places the counter.
            let _ = bind_thread_memory(seat.node);
            shared.counters[seat.group].get_or_init(Box::default);
        }
        // The main thread receives a message from each thread before it goes on, so the channel is
        // open.
        let _ = ready.send(pinned);
        drop(ready);
        count(&shared, seat.group, protection)
    };
    let named = thread::Builder::new().name(format!("counter-{}", seat.group));
    named.spawn(work).map_err(|e| CounterError::Thread(e.to_string()))
}

/// Increments from COUNTING to STOPPED. Returns the number of increments.
fn count(shared: &Shared, group: usize, protection: Protection) -> u64 {
    while shared.phase.load(Ordering::Acquire) == PLACING {
        thread::yield_now();
    }
    let Some(counter) = shared.counters[group].get() else { return 0 };
    let mut added = 0;
    while shared.phase.load(Ordering::Relaxed) == COUNTING {
        counter.increment_batch(protection);
        added += BATCH;
    }
    added
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviation_is_in_per_cent_of_the_mean() {
        assert_eq!(stddev_percent(&[5.0]), 0.0);
        assert!((stddev_percent(&[90.0, 110.0]) - 14.142).abs() < 0.001);
    }
}
