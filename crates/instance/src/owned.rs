//! Steps of other workers of this instance, where each owns keys.
//!
//! ```text
//!   home's worker: steps by owner --letters--> owners: a task for each visit runs the steps
//!                  own steps inline
//!                  rendezvous <---letters----- results by value; the last one wakes the home's task
//! ```
//!
//! A phase that reads has all of its steps under way at once. One that writes visits the owners one after the other, in the
//! order of their numbers: transactions of one such phase never wait for each other in a circle. What circles are left (over
//! several phases) are found on the engine's board.

use crate::groups::{Group, Groups, group};
use crate::home::Run;
use crate::local::{Local, Place};
use exec::{Engine, Visit};
use probe::Component;
use txn::{Abort, Effect, StepId, Steps, Workload};
use wire::BatchReader;

/// Whether the home's own steps are run while the others are under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Run,
    Skip,
}

impl<W: Workload, E: Engine> Run<'_, W, E> {
    /// Runs the steps of a phase that belong to this instance.
    pub(crate) async fn run_owned<S: Steps>(
        &mut self,
        steps: &S,
        partial: &mut S::Partial,
    ) -> Result<(), Abort> {
        let local = self.local;
        let others = |route| match local.place(route) {
            Place::Worker(owner) => Some(owner),
            Place::Here | Place::Instance(_) => None,
        };
        let mut groups: Groups<usize> =
            probe::within(Component::Communication, || group(local, steps, others));
        let outcome = match steps.effect() {
            Effect::Reads => self.meet(&groups, Own::Run, steps, partial).await,
            Effect::Writes => self.meet_in_turn(&mut groups, steps, partial).await,
        };
        groups.into_iter().for_each(|group| local.give_batch(group.steps));
        outcome
    }

    async fn meet_in_turn<S: Steps>(
        &mut self,
        groups: &mut [Group<usize>],
        steps: &S,
        partial: &mut S::Partial,
    ) -> Result<(), Abort> {
        groups.sort_by_key(|group| group.owner);
        let before = groups.partition_point(|group| group.owner < self.local.worker);
        for group in &groups[..before] {
            self.meet(std::slice::from_ref(group), Own::Skip, steps, partial).await?;
        }
        self.run_own(steps, partial).await?;
        for group in &groups[before..] {
            self.meet(std::slice::from_ref(group), Own::Skip, steps, partial).await?;
        }
        Ok(())
    }

    /// Sends steps, runs the home's own meanwhile, and waits for all results, whatever has failed: every branch comes home.
    async fn meet<S: Steps>(
        &mut self,
        groups: &[Group<usize>],
        own: Own,
        steps: &S,
        partial: &mut S::Partial,
    ) -> Result<(), Abort> {
        let local = self.local;
        let (engine, desk) = (&local.shared.engine, &local.desk);
        let meeting = engine.meeting(desk);
        for group in groups {
            let bytes = local.take_buffer(group.steps.bytes());
            engine.send(desk, self.part, meeting, group.owner, bytes);
        }
        let mut outcome = match own {
            Own::Run => self.run_own(steps, partial).await,
            Own::Skip => Ok(()),
        };
        for answer in engine.rendezvous(desk, self.part, meeting).await {
            let group = groups.iter().find(|group| group.owner == answer.owner);
            outcome = outcome
                .and(answer.outcome)
                .and_then(|()| group.map_or(Ok(()), |group| group.accept(&answer.outputs, steps, partial)));
            local.give_buffer(answer.outputs);
        }
        outcome
    }

    async fn run_own<S: Steps>(&mut self, steps: &S, partial: &mut S::Partial) -> Result<(), Abort> {
        let local = self.local;
        for i in 0..steps.count() {
            if local.place(steps.route(i)) == Place::Here {
                steps.run(i, &mut local.here(self.part), partial).await?;
            }
        }
        Ok(())
    }
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// Runs the steps of a visit, and sends the results back.
    pub(crate) async fn serve_visit(&self, mut visit: Visit<E::Part>) {
        let mut outputs = self.take_batch();
        let steps = std::mem::take(&mut visit.steps);
        let outcome = self.run_batch(&mut visit.part, &steps, &mut outputs).await;
        self.give_buffer(steps);
        let bytes = self.take_buffer(if outcome.is_ok() { outputs.bytes() } else { &[] });
        self.give_batch(outputs);
        self.shared.engine.answer(&self.desk, visit, outcome, bytes);
    }

    /// Has a step that came from another instance run by the worker it belongs to.
    pub(crate) async fn send_on(
        &self,
        part: &mut E::Part,
        owner: usize,
        (id, args): (StepId, &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let (engine, desk) = (&self.shared.engine, &self.desk);
        let mut step = self.take_batch();
        let body = step.open(id);
        step.buffer().extend_from_slice(args);
        step.close(body);
        let meeting = engine.meeting(desk);
        engine.send(desk, part, meeting, owner, self.take_buffer(step.bytes()));
        self.give_batch(step);
        let mut outcome = Ok(());
        for answer in engine.rendezvous(desk, part, meeting).await {
            outcome = answer.outcome;
            if let Some((_, output)) = BatchReader::new(&answer.outputs).next() {
                out.extend_from_slice(output);
            }
            self.give_buffer(answer.outputs);
        }
        outcome
    }
}
