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
//! - [`chip`]: the caches of all cores. [`driver`]: contexts, queues and time. `earliest`: the
//!   context that is furthest behind. `stacks`: where the stacks of transactions in flight lie.
//! - [`strex`], [`slicc`], [`addict`]: the schedulers; [`plain`]: the baselines.
//! - [`settings`]: all parameters, with the values of the thesis.

pub mod addict;
pub mod chip;
pub mod driver;
mod earliest;
pub mod plain;
pub mod settings;
pub mod slicc;
mod stacks;
pub mod strex;

pub use driver::Outcome;
pub use settings::{Scheduler, Settings};

use crate::code::Code;
use crate::course::Course;
use crate::machine::Machine;
use addict::Profile;
use driver::Run;
use trace::Trace;

/// A trace, and the part of it that is to run.
#[derive(Clone, Copy, Debug)]
pub struct Input<'t> {
    pub trace: &'t Trace,
    pub code: &'t Code,
    /// The numbers of transactions, in the order of their arrival.
    pub chosen: &'t [usize],
}

impl Input<'_> {
    /// What ADDICT's first step finds with these settings.
    pub fn profile(&self, machine: &Machine, settings: &Settings) -> Profile {
        let first: Vec<usize>;
        let profiled = match settings.profile {
            0 => self.chosen,
            n => {
                first = (0..n.min(self.trace.transactions.len())).collect();
                &first
            }
        };
        addict::profile(self.trace, self.code, machine.l1i, profiled)
    }
}

/// Runs transactions under a scheduler. `profile` is [`Input::profile`] of the same settings, asked
/// for by ADDICT only. An outcome is not complete after `course` was stopped.
///
/// # Panics
/// If the machine has no shared cache.
pub fn run<'p>(
    input: Input<'_>,
    machine: &Machine,
    settings: &Settings,
    profile: impl FnOnce() -> &'p Profile,
    course: &Course,
) -> Outcome {
    let run = Run::new(input, machine, settings);
    match settings.scheduler {
        Scheduler::Baseline | Scheduler::NextLine | Scheduler::Pif => run.all(&mut plain::Plain, course),
        Scheduler::Strex => run.all(&mut strex::Strex::new(settings), course),
        Scheduler::Slicc => run.all(&mut slicc::Slicc::new(settings, machine), course),
        Scheduler::Addict => run.all(&mut addict::Addict::new(settings, profile()), course),
    }
}

#[cfg(test)]
mod tests;
