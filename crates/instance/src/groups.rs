//! The steps of one phase, grouped by owner: other instances (`home`), or other workers of this one
//! (`owners::visits`).

use crate::local::Local;
use crate::phase::AnyPhase;
use exec::Engine;
use smallvec::SmallVec;
use txn::{Abort, Effect, Route, Workload};
use wire::{Batch, BatchReader};

/// The steps that belong to one owner.
pub(crate) struct Group<O, C = ()> {
    pub owner: O,
    pub steps: Batch,
    indexes: SmallVec<[u16; 16]>,
    /// The caller's data about the request that carries these steps; the default until it is sent.
    pub call: C,
}

/// The steps of a phase, grouped by owner.
pub(crate) type Groups<O, C = ()> = SmallVec<[Group<O, C>; 4]>;

/// Encodes and groups the steps for which `elsewhere` names an owner. `elsewhere` gets a step's
/// position in its phase, and its route.
pub(crate) fn group<W: Workload, E: Engine, O: PartialEq, C: Default>(
    local: &Local<W, E>,
    phase: &dyn AnyPhase<E>,
    mut elsewhere: impl FnMut(usize, Route) -> Option<O>,
) -> Groups<O, C> {
    let mut groups = Groups::new();
    for i in 0..phase.count() {
        let Some(owner) = elsewhere(i, phase.route(i)) else { continue };
        let at = groups.iter().position(|group: &Group<O, C>| group.owner == owner).unwrap_or_else(|| {
            let (steps, indexes) = (local.spares.take_batch(), SmallVec::new());
            groups.push(Group { owner, steps, indexes, call: C::default() });
            groups.len() - 1
        });
        let group = &mut groups[at];
        let body = group.steps.open(phase.id(i));
        phase.encode(i, group.steps.buffer());
        group.steps.close(body);
        group.indexes.push(i as u16);
    }
    groups
}

impl<O, C> Group<O, C> {
    /// The positions of these steps in the phase.
    pub fn indexes(&self) -> impl Iterator<Item = usize> {
        self.indexes.iter().map(|&i| usize::from(i))
    }

    /// Whether none of these steps writes.
    pub fn only_reads<E: Engine>(&self, phase: &dyn AnyPhase<E>) -> bool {
        self.indexes().all(|i| phase.effect_of(i) == Effect::Reads)
    }

    /// Accepts the results of these steps.
    ///
    /// # Errors
    /// [`Abort::BadRequest`] if there are fewer results than steps; any abort of a step itself.
    pub fn accept<E: Engine>(&self, outputs: &[u8], phase: &mut dyn AnyPhase<E>) -> Result<(), Abort> {
        let mut outputs = BatchReader::new(outputs);
        self.indexes.iter().try_for_each(|&i| {
            let (_, bytes) = outputs.next().ok_or(Abort::BadRequest)?;
            phase.accept(i as usize, bytes)
        })
    }
}
