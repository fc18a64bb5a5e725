//! One phase of a procedure behind a pointer: its steps, and the results that have arrived.
//!
//! A phase that stays on its worker runs its steps directly. The part that leaves the worker is the
//! same for every kind of step, so it takes the phase by pointer, and is compiled once for each
//! engine instead of once for each kind of phase of each workload:
//!
//! ```text
//!   all(steps) -> all rows here?  --yes--> steps.run_all                     per kind of phase
//!                                 --no---> everywhere(&mut dyn AnyPhase<E>)     once per engine
//!                                             requests, rendezvous, own steps
//! ```
//!
//! The steps that run here in such a phase cost one box, some 20 to 50 ns; its messages cost more
//! than ten times as much.

use exec::Engine;
use smallvec::SmallVec;
use std::future::Future;
use std::pin::Pin;
use txn::{Abort, Effect, Route, StepId, Steps};

/// Which steps of a phase are still to be run.
pub(crate) type Open = SmallVec<[bool; 16]>;

/// Steps under way.
pub(crate) type Ran<'a> = Pin<Box<dyn Future<Output = Result<(), Abort>> + 'a>>;

/// The steps of one phase ([`Steps`]), and their outputs so far.
pub(crate) trait AnyPhase<E: Engine> {
    fn count(&self) -> usize;
    fn effect(&self) -> Effect;
    fn effect_of(&self, i: usize) -> Effect;
    fn route(&self, i: usize) -> Route;
    fn id(&self, i: usize) -> StepId;
    /// Appends step `i`'s arguments to `out`.
    fn encode(&self, i: usize, out: &mut Vec<u8>);
    /// Runs those open steps, in their order, for which `is_asked` is true just before, and keeps
    /// their outputs. A step that has run is no longer open.
    fn run<'a>(
        &'a mut self,
        open: &'a mut Open,
        is_asked: &'a dyn Fn(usize, Route) -> bool,
        access: E::RowAccess<'a>,
    ) -> Ran<'a>;
    /// Keeps step `i`'s output, in the form in which a channel delivers it.
    fn accept(&mut self, i: usize, bytes: &[u8]) -> Result<(), Abort>;
}

/// Steps with the outputs that have arrived.
pub(crate) struct Collected<'s, S: Steps> {
    pub steps: &'s S,
    pub outputs: S::Partial,
}

impl<S: Steps, E: Engine> AnyPhase<E> for Collected<'_, S> {
    fn count(&self) -> usize {
        self.steps.count()
    }

    fn effect(&self) -> Effect {
        self.steps.effect()
    }

    fn effect_of(&self, i: usize) -> Effect {
        self.steps.effect_of(i)
    }

    fn route(&self, i: usize) -> Route {
        self.steps.route(i)
    }

    fn id(&self, i: usize) -> StepId {
        self.steps.id(i)
    }

    fn encode(&self, i: usize, out: &mut Vec<u8>) {
        self.steps.encode(i, out);
    }

    fn run<'a>(
        &'a mut self,
        open: &'a mut Open,
        is_asked: &'a dyn Fn(usize, Route) -> bool,
        mut access: E::RowAccess<'a>,
    ) -> Ran<'a> {
        Box::pin(async move {
            for i in 0..open.len() {
                if open[i] && is_asked(i, self.steps.route(i)) {
                    self.steps.run(i, &mut access, &mut self.outputs).await?;
                    open[i] = false;
                }
            }
            Ok(())
        })
    }

    fn accept(&mut self, i: usize, bytes: &[u8]) -> Result<(), Abort> {
        self.steps.accept(i, bytes, &mut self.outputs)
    }
}
