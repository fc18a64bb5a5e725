//! Core-to-core latency, measured: two pinned threads pass one cache line to and fro by
//! compare-and-swap.
//!
//! Protocol: the value of the line is a turn. Only `ping` changes PING to PONG, and only `pong`
//! changes PONG to PING. Either may set STOP, and both obey it. A round trip is two one-way
//! transfers, so a sample is half of its mean round trip. The result is the median of the samples,
//! so a sample during which a thread was descheduled does not count.
//!
//! Each wait spins, and yields after [`SPINS`] tries. If the other thread is not running (a busy or
//! throttled machine), further spinning would only take CPU time from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::bind::pin_thread;
use crate::cpu::CpuId;
use crate::error::ProbeError;
use crate::latency::{LatencyMatrix, median};
use crate::machine::Machine;

const PING: u32 = 0;
const PONG: u32 = 1;
const STOP: u32 = 2;

/// Tries before a wait yields: about 20 µs, far more than any latency between cores.
const SPINS: u32 = 10_000;

/// The amount of measurement.
#[derive(Clone, Copy, Debug)]
pub struct ProbeSpec {
    /// Round trips in a sample.
    pub round_trips: u32,
    /// Samples a pair.
    pub samples: u32,
    /// Wall-clock time after which a pair uses the samples that it has.
    pub limit: Duration,
}

impl ProbeSpec {
    /// A few milliseconds; for result rows.
    pub const QUICK: ProbeSpec =
        ProbeSpec { round_trips: 500, samples: 15, limit: Duration::from_millis(50) };

    /// For the matrix: 200,000 round trips a pair at most, 10 to 100 ms.
    pub const THOROUGH: ProbeSpec =
        ProbeSpec { round_trips: 2_000, samples: 100, limit: Duration::from_millis(500) };
}

/// The result of [`measure_latency`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// Medians over the process' CPUs; with one CPU a matrix without a pair.
    pub latency: LatencyMatrix,
    /// A warning about the figures: there is only one CPU, or there are fewer CPUs than threads.
    pub note: Option<String>,
}

/// One-way latency between two CPUs in ns, by [`ProbeSpec::QUICK`]: 5 ms on an idle machine, at
/// most about 50 ms.
///
/// # Errors
/// The CPUs are the same, one is outside this process' set, or they are too busy for one sample.
pub fn ping_pong_ns(cpu_a: CpuId, cpu_b: CpuId) -> Result<f64, ProbeError> {
    ping_pong(cpu_a, cpu_b, ProbeSpec::QUICK)
}

/// One-way latency between each two CPUs that this process may use. Calls `progress(done, pairs)`
/// after each pair.
///
/// # Errors
/// The machine is only described, or as [`ping_pong_ns`].
pub fn measure_latency(
    machine: &Machine,
    spec: ProbeSpec,
    mut progress: impl FnMut(usize, usize),
) -> Result<Probe, ProbeError> {
    if !machine.is_live() {
        return Err(ProbeError::NotLive);
    }
    let cpus = machine.allowed_cpus();
    let pairs = cpus.len() * cpus.len().saturating_sub(1) / 2;
    let mut ns = Vec::with_capacity(pairs);
    for (row, a) in cpus.iter().enumerate() {
        for b in &cpus[..row] {
            ns.push(ping_pong(*b, *a, spec)?);
            progress(ns.len(), pairs);
        }
    }
    let note = note(machine, cpus.len());
    let latency =
        LatencyMatrix::new(cpus, ns).expect("one positive latency was pushed for each pair of distinct CPUs");
    Ok(Probe { latency, note })
}

fn note(machine: &Machine, cpus: usize) -> Option<String> {
    if cpus < 2 {
        return Some("this process has one CPU only: there is no pair to measure, and one island".to_owned());
    }
    let quota = machine.limits.cpus.filter(|quota| *quota < 2.0)?;
    Some(format!(
        "the control group gives {quota:.1} CPUs of time, a ping-pong needs 2: latencies may be too high"
    ))
}

/// One-way latency between two CPUs in ns, measured as `spec` says.
///
/// # Errors
/// As [`ping_pong_ns`].
pub fn ping_pong(cpu_a: CpuId, cpu_b: CpuId, spec: ProbeSpec) -> Result<f64, ProbeError> {
    if cpu_a == cpu_b {
        return Err(ProbeError::SameCpu(cpu_a));
    }
    let line = Arc::new(Line(AtomicU32::new(PING)));
    let (ready, pong_ready) = mpsc::channel();
    let their_line = Arc::clone(&line);
    let pong = start(move || {
        let pinned = pin_thread(cpu_b);
        let go = pinned.is_ok();
        // The receiver waits for exactly this message, so sending cannot fail meanwhile.
        let _ = ready.send(pinned);
        if go {
            while their_line.hand_over(PONG, PING, None) {}
        }
    })?;
    let their_line = Arc::clone(&line);
    let ping = start(move || {
        let samples = pin_thread(cpu_a).and_then(|()| match pong_ready.recv() {
            Ok(pinned) => pinned.map(|()| sample(&their_line, spec)),
            Err(_) => Ok(Vec::new()),
        });
        their_line.0.store(STOP, Ordering::Release);
        samples
    });
    let samples = match ping {
        Ok(ping) => ping.join(),
        Err(error) => {
            line.0.store(STOP, Ordering::Release);
            let _ = pong.join();
            return Err(error);
        }
    };
    let pong = pong.join();
    let samples = samples.and_then(|samples| pong.map(|()| samples));
    let samples = samples.map_err(|_| ProbeError::Thread("it panicked".to_owned()))??;
    median(samples).ok_or(ProbeError::Starved(cpu_a, cpu_b))
}

fn start<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<thread::JoinHandle<T>, ProbeError> {
    let named = thread::Builder::new().name("ping-pong".to_owned());
    named.spawn(work).map_err(|e| ProbeError::Thread(e.to_string()))
}

/// The samples, each in ns one way; fewer than requested if the time runs out. The first is
/// dropped: it includes the start of the other thread.
fn sample(line: &Line, spec: ProbeSpec) -> Vec<f64> {
    let deadline = Instant::now() + spec.limit;
    let mut samples = Vec::with_capacity(spec.samples as usize);
    for number in 0..=spec.samples {
        let started = Instant::now();
        for _ in 0..spec.round_trips {
            if !line.hand_over(PING, PONG, Some(deadline)) {
                return samples;
            }
        }
        // A 100 ns clock could read zero, and a latency of zero would break the matrix' invariant.
        let ns = started.elapsed().as_nanos().max(1) as f64;
        if number > 0 {
            samples.push(ns / f64::from(spec.round_trips) / 2.0);
        }
        if Instant::now() > deadline {
            break;
        }
    }
    samples
}

/// The word that travels, alone on its cache line (128 bytes: adjacent lines are fetched in pairs).
#[repr(align(128))]
struct Line(AtomicU32);

impl Line {
    /// Waits for `mine` and changes it to `theirs`. False if the line says STOP or the deadline has
    /// passed.
    fn hand_over(&self, mine: u32, theirs: u32, deadline: Option<Instant>) -> bool {
        let mut tries = 0_u32;
        loop {
            // AcqRel as in a lock's hand-over. Relaxed on success would cost the same here and
            // model it less well.
            match self.0.compare_exchange(mine, theirs, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(STOP) => return false,
                Err(_) => {}
            }
            tries += 1;
            if tries < SPINS {
                std::hint::spin_loop();
                continue;
            }
            if deadline.is_some_and(|deadline| Instant::now() > deadline) {
                return false;
            }
            thread::yield_now();
            tries = 0;
        }
    }
}
