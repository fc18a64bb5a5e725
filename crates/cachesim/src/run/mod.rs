//! Transactions on a chip of many cores under a scheduler (thesis, chapters 7 and 8).
//!
//! ```text
//!   policy -- assigns transactions to the queues of contexts, moves them --> Run
//!   Run: the context that is furthest behind runs its transaction for a slice of time
//!   Chip: caches, latencies, counts
//! ```
//!
//! A context is one hardware thread; contexts of one core share its caches and its pipeline.
//!
//! - [`chip`]: the caches of all cores. [`driver`]: contexts, queues and time.
//! - [`strex`], [`slicc`], [`addict`]: the schedulers; [`plain`]: the baselines.
//! - [`settings`]: all parameters, with the values of the thesis.

pub mod addict;
pub mod chip;
pub mod driver;
pub mod plain;
pub mod settings;
pub mod slicc;
pub mod strex;

pub use driver::Outcome;
pub use settings::{Scheduler, Settings};

use crate::code::Code;
use crate::machine::Machine;
use driver::Run;
use trace::Trace;

/// Runs the transactions `chosen` (numbers of the trace's transactions, in the order of their
/// arrival) under a scheduler.
///
/// # Panics
/// If the machine has no shared cache.
pub fn run(trace: &Trace, code: &Code, machine: &Machine, settings: &Settings, chosen: &[usize]) -> Outcome {
    let run = Run::new(trace, code, machine, settings, chosen);
    match settings.scheduler {
        Scheduler::Baseline | Scheduler::NextLine | Scheduler::Pif => run.all(&mut plain::Plain),
        Scheduler::Strex => run.all(&mut strex::Strex::new(settings)),
        Scheduler::Slicc => run.all(&mut slicc::Slicc::new(settings, machine)),
        Scheduler::Addict => {
            let profiled: Vec<usize> = match settings.profile {
                0 => chosen.to_vec(),
                n => (0..n.min(trace.transactions.len())).collect(),
            };
            let profile = addict::profile(trace, code, machine.l1i, &profiled);
            run.all(&mut addict::Addict::new(settings, &profile))
        }
    }
}

#[cfg(test)]
mod tests;
