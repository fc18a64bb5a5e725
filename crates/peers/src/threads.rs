//! Client threads of another engine. Each repeats transactions without think time until a window
//! has been measured.
//!
//! Access rules:
//!
//! - Each client thread owns its [`Client`] and writes its own counters.
//! - The measuring thread reads the counters and sets `stop`. A client thread that fails sets it,
//!   too.

use crate::contestant::{Rate, Work};
use crate::fault::PeerFault;
use latch::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Instant;
use topology::CpuId;

/// One thread's connection and request stream.
pub trait Client {
    /// Draws the next request.
    fn draw(&mut self);
    /// Runs it.
    ///
    /// # Errors
    /// [`PeerFault::Conflict`]: the request must be run again. Any other error ends the comparison.
    fn attempt(&mut self) -> Result<(), PeerFault>;
}

/// The counters of a client, on a cache line of their own.
#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    retries: AtomicU64,
}

fn add_one(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

fn repeat(client: &mut impl Client, mine: &Counts, stop: &AtomicBool) -> Result<(), PeerFault> {
    while !stop.load(Relaxed) {
        client.draw();
        loop {
            match client.attempt() {
                Ok(()) => break,
                Err(PeerFault::Conflict) => add_one(&mine.retries),
                Err(fault) => return Err(fault),
            }
        }
        add_one(&mine.committed);
    }
    Ok(())
}

/// Runs `work.clients` threads, the first of them on `cpus`. `make` makes each thread's client on
/// that thread. Returns the rate in the window, and the total number of committed transactions.
///
/// # Errors
/// The first error of a client.
pub fn drive<C: Client>(
    name: &str,
    work: &Work,
    cpus: &[Option<CpuId>],
    make: impl Fn(usize) -> Result<C, PeerFault> + Sync,
) -> Result<(Rate, u64), PeerFault> {
    let counts: Vec<CachePadded<Counts>> = (0..work.clients).map(|_| CachePadded::default()).collect();
    let stop = AtomicBool::new(false);
    let sum = |of: fn(&Counts) -> &AtomicU64| counts.iter().map(|c| of(c).load(Relaxed)).sum::<u64>();
    let now = || (Instant::now(), world::usage().cpu_ns, sum(|c| &c.committed), sum(|c| &c.retries));
    let client = |number: usize| {
        if let Some(cpu) = cpus.get(number).copied().flatten() {
            topology::pin_thread(cpu)?;
        }
        repeat(&mut make(number)?, &counts[number], &stop)
    };
    let rate = std::thread::scope(|scope| {
        let (client, stop) = (&client, &stop);
        let start = |number| {
            scope.spawn(move || {
                let ended = client(number);
                if ended.is_err() {
                    stop.store(true, Relaxed);
                }
                ended
            })
        };
        let threads: Vec<_> = (0..work.clients).map(start).collect();
        sleep(work.warm_up);
        let (from, cpu, committed, retries) = now();
        sleep(work.window);
        let end = now();
        stop.store(true, Relaxed);
        for thread in threads {
            thread.join().map_err(|_| PeerFault::Panicked(name.into()))??;
        }
        let seconds = end.0.duration_since(from).as_secs_f64();
        Ok::<_, PeerFault>(Rate::new(end.2 - committed, end.3 - retries, seconds, end.1 - cpu))
    })?;
    let total = sum(|c| &c.committed);
    if rate.tps > 0.0 { Ok((rate, total)) } else { Err(PeerFault::Idle(name.into())) }
}
