//! Steps at other workers of this instance, where each worker owns keys.
//!
//! ```text
//!   home's worker: steps by owner --messages--> owners: one task for each visit runs the steps
//!                  own steps inline
//!                  rendezvous <-----messages--- results by value; the last wakes the home's task
//! ```
//!
//! A phase that reads has all its steps under way at once. A phase that writes runs its steps kind
//! by kind, in the order of the procedure; for each kind it visits the owners in the order of their
//! numbers. All transactions of such a phase lock their rows in this one order, wherever their home
//! is. So they never wait for each other in a circle.
//!
//! The procedure names the rows that many transactions want, such as a branch or a warehouse, last.
//! They are therefore not locked while the transaction waits for others. Circles over several
//! phases or procedures remain possible; the engine's waits-for graph finds them.

use crate::groups::{Groups, group};
use crate::home::Run;
use crate::local::{Local, StepPlace};
use crate::phase::{AnyPhase, Open};
use exec::{Engine, KeyOwners, MapVersion, Visit};
use probe::Component;
use smallvec::{SmallVec, smallvec};
use txn::{Abort, Effect, StepId, Workload};
use wire::BatchReader;

/// Steps by the worker that owns their keys, each group with the map version under which it was
/// addressed.
type Visits = Groups<usize, Option<MapVersion>>;

/// Whether the home's own steps run while the others are under way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Run,
    Skip,
}

impl<W: Workload, E: Engine> Run<'_, W, E> {
    /// Runs the steps of a phase that belong to this instance.
    pub(crate) async fn run_owned(
        &mut self,
        owners: &E::Owners,
        phase: &mut dyn AnyPhase<E>,
    ) -> Result<(), Abort> {
        let local = self.local;
        let mut open: Open = smallvec![true; phase.count()];
        loop {
            match self.run_open(owners, phase, &mut open).await {
                // Some of them have another owner by now.
                Err(Abort::NotHere(_)) => {}
                Ok(()) if is_left(local, &*phase, &open) => {}
                outcome => return outcome,
            }
        }
    }

    /// Runs the steps that have not been run.
    async fn run_open(
        &mut self,
        owners: &E::Owners,
        phase: &mut dyn AnyPhase<E>,
        open: &mut Open,
    ) -> Result<(), Abort> {
        let local = self.local;
        let is_here = |i: usize| local.place(phase.route(i)) == StepPlace::Here;
        if (0..open.len()).any(|i| open[i] && is_here(i)) && !owners.admit(self.txn) {
            Box::pin(owners.pass(&local.ctx, &local.executor, self.txn)).await?;
        }
        match phase.effect() {
            Effect::Reads => {
                let visits =
                    probe::within(Component::Communication, || visits(local, owners, &*phase, |i| open[i]));
                self.meet(owners, visits, Own::Run, phase, open).await
            }
            Effect::Writes => self.meet_in_turn(owners, phase, open).await,
        }
    }

    async fn meet_in_turn(
        &mut self,
        owners: &E::Owners,
        phase: &mut dyn AnyPhase<E>,
        open: &mut Open,
    ) -> Result<(), Abort> {
        let local = self.local;
        let turns = turns(local, &*phase, open);
        for turn in turns.chunk_by(|one, next| one.owner == next.owner) {
            let is_in = |i| turn.iter().any(|step| step.index == i);
            if turn[0].owner == local.worker {
                self.run_own(phase, is_in, open).await?;
                continue;
            }
            let visits = probe::within(Component::Communication, || visits(local, owners, &*phase, is_in));
            self.meet(owners, visits, Own::Skip, phase, open).await?;
        }
        Ok(())
    }

    /// Sends steps, runs the home's own meanwhile, and waits for all results. It waits even after a
    /// failure: every visit must return its local transaction.
    async fn meet(
        &mut self,
        owners: &E::Owners,
        visits: Visits,
        own: Own,
        phase: &mut dyn AnyPhase<E>,
        open: &mut Open,
    ) -> Result<(), Abort> {
        let local = self.local;
        let ctx = &local.ctx;
        let meeting = owners.meeting(ctx);
        for group in &visits {
            let bytes = local.spares.take_buffer(group.steps.bytes());
            owners.send(
                ctx,
                self.txn,
                meeting,
                (group.owner, group.call.clone().expect("each visit is stamped")),
                bytes,
            );
        }
        let mut outcome = match own {
            Own::Run => self.run_own(phase, |_| true, open).await,
            Own::Skip => Ok(()),
        };
        let mut moved = Ok(());
        for answer in owners.rendezvous(ctx, self.txn, meeting).await {
            let group = visits.iter().find(|group| group.owner == answer.owner);
            if let Err(Abort::NotHere(_)) = answer.outcome {
                moved = answer.outcome;
                local.spares.give_buffer(answer.outputs);
                continue;
            }
            outcome = outcome.and(answer.outcome).and_then(|()| {
                let Some(group) = group else { return Ok(()) };
                group.accept(&answer.outputs, phase)?;
                group.indexes().for_each(|i| open[i] = false);
                Ok(())
            });
            local.spares.give_buffer(answer.outputs);
        }
        visits.into_iter().for_each(|group| local.spares.give_batch(group.steps));
        outcome.and(moved)
    }

    /// Runs the home's own steps for which `is_asked` is true.
    async fn run_own(
        &mut self,
        phase: &mut dyn AnyPhase<E>,
        is_asked: impl Fn(usize) -> bool,
        open: &mut Open,
    ) -> Result<(), Abort> {
        let local = self.local;
        let is_here = |i, route| is_asked(i) && local.place(route) == StepPlace::Here;
        if (0..open.len()).any(|i| open[i] && is_here(i, phase.route(i))) {
            phase.run(open, &is_here, local.access(self.txn)).await?;
        }
        Ok(())
    }
}

/// Whether a step of this instance has not been run. A step stays open if its key came to this
/// worker and left again meanwhile: neither worker ran it.
fn is_left<W: Workload, E: Engine>(local: &Local<W, E>, phase: &dyn AnyPhase<E>, open: &Open) -> bool {
    let is_ours = |i: usize| !matches!(local.place(phase.route(i)), StepPlace::Instance(_));
    (0..open.len()).any(|i| open[i] && is_ours(i))
}

/// A step and its owner.
struct Turn {
    /// Adjacent steps of one kind share a number, which rises along the phase.
    kind: u16,
    owner: usize,
    index: usize,
}

/// The steps of a phase in the order in which they run.
type Turns = SmallVec<[Turn; 16]>;

/// The open steps of this instance in the order in which they are run. Adjacent steps with one
/// owner form one visit, even of different kinds.
fn turns<W: Workload, E: Engine>(local: &Local<W, E>, phase: &dyn AnyPhase<E>, open: &Open) -> Turns {
    let mut turns = Turns::new();
    let mut kind = 0;
    for index in 0..open.len() {
        kind += u16::from(index > 0 && phase.id(index) != phase.id(index - 1));
        let owner = match local.place(phase.route(index)) {
            StepPlace::Here => local.worker,
            StepPlace::Worker(owner) => owner,
            StepPlace::Instance(_) => continue,
        };
        if open[index] {
            turns.push(Turn { kind, owner, index });
        }
    }
    turns.sort_by_key(|turn| (turn.kind, turn.owner));
    turns
}

/// The steps for which `is_asked` is true and that belong to other workers.
fn visits<W: Workload, E: Engine>(
    local: &Local<W, E>,
    owners: &E::Owners,
    phase: &dyn AnyPhase<E>,
    is_asked: impl Fn(usize) -> bool,
) -> Visits {
    // Taken before the owner map is read: a change in between makes the owner refuse the visit.
    let unmoved = owners.map_version();
    let mut visits: Visits = group(local, phase, |i, route| match is_asked(i).then(|| local.place(route)) {
        Some(StepPlace::Worker(owner)) => Some(owner),
        _ => None,
    });
    for visit in &mut visits {
        let mut map_version = unmoved.clone();
        visit
            .indexes()
            .filter_map(|i| owners.site_owner(phase.route(i)))
            .for_each(|owner| map_version.widen(owner.site));
        visit.call = Some(map_version);
    }
    visits
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// Runs the steps of a visit, and sends the results back.
    pub(crate) async fn serve_visit(&self, owners: &E::Owners, mut visit: Visit<E::LocalTxn>) {
        let mut outputs = self.spares.take_batch();
        let steps = std::mem::take(&mut visit.steps);
        owners.begin_visit(&mut visit.txn);
        let outcome = self.run_batch(&mut visit.txn, &steps, &mut outputs).await;
        self.spares.give_buffer(steps);
        let bytes = self.spares.take_buffer(if outcome.is_ok() { outputs.bytes() } else { &[] });
        self.spares.give_batch(outputs);
        owners.answer(&self.ctx, visit, outcome, bytes);
    }

    /// Sends a step that came from another instance to the worker that owns its key under the map
    /// version of `to`, and waits for the result.
    ///
    /// # Errors
    /// [`Abort::NotHere`] if the key has another owner by now; nothing was done.
    pub(crate) async fn send_on(
        &self,
        owners: &E::Owners,
        txn: &mut E::LocalTxn,
        to: (usize, MapVersion),
        (id, args): (StepId, &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        let ctx = &self.ctx;
        let mut step = self.spares.take_batch();
        let body = step.open(id);
        step.buffer().extend_from_slice(args);
        step.close(body);
        let meeting = owners.meeting(ctx);
        owners.send(ctx, txn, meeting, to, self.spares.take_buffer(step.bytes()));
        self.spares.give_batch(step);
        let mut outcome = Ok(());
        for answer in owners.rendezvous(ctx, txn, meeting).await {
            outcome = answer.outcome;
            if outcome.is_ok()
                && let Some((_, output)) = BatchReader::new(&answer.outputs).next()
            {
                out.extend_from_slice(output);
            }
            self.spares.give_buffer(answer.outputs);
        }
        outcome
    }
}
