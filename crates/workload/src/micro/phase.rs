//! The only phase of a transaction: one step for each site of its rows.
//!
//! If steps go to several instances, each becomes a value ([`super::ReadRows`],
//! [`super::UpdateRows`]). If all are at home, the rows are used where they lie in the request,
//! without a copy: a multisite transaction that stays in one instance costs no more than a local
//! one.

use super::steps::RowStep;
use super::{Ids, MICRO, Micro};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::pin::pin;
use txn::step::{Effect, Route, StepId, Steps};
use txn::{Abort, Access};

pub(super) struct RowsBySite<'a, S> {
    /// Ascending, so grouped by site.
    ids: &'a [u64],
    /// The end of each group in `ids`.
    ends: SmallVec<[u32; 8]>,
    step: PhantomData<S>,
}

/// The running sum of the outputs.
pub(super) struct Sum {
    sum: i64,
    missing: usize,
}

impl Sum {
    fn add(&mut self, output: i64) {
        self.sum = self.sum.wrapping_add(output);
        self.missing -= 1;
    }
}

impl<'a, S: RowStep> RowsBySite<'a, S> {
    pub fn new(micro: &Micro, ids: &'a [u64]) -> Self {
        let mut end = 0;
        let mut grow = |group: &[u64]| {
            end += group.len() as u32;
            end
        };
        RowsBySite { ids, ends: micro.by_site(ids).map(&mut grow).collect(), step: PhantomData }
    }

    fn group(&self, i: usize) -> &'a [u64] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.ids[start as usize..self.ends[i] as usize]
    }
}

impl<S: RowStep> Steps for RowsBySite<'_, S> {
    type Outputs = i64;
    type Partial = Sum;

    fn count(&self) -> usize {
        self.ends.len()
    }

    fn effect(&self) -> Effect {
        S::EFFECT
    }

    fn route(&self, i: usize) -> Route {
        Route { table: MICRO, key: self.group(i)[0] }
    }

    fn id(&self, _: usize) -> StepId {
        S::ID
    }

    fn encode(&self, i: usize, out: &mut Vec<u8>) {
        Steps::encode(&S::of(Ids::from_slice(self.group(i))), 0, out);
    }

    fn partial(&self) -> Sum {
        Sum { sum: 0, missing: self.count() }
    }

    async fn run<A: Access>(&self, i: usize, access: &mut A, into: &mut Sum) -> Result<(), Abort> {
        into.add(pin!(S::run_on(self.group(i), access)).await?);
        Ok(())
    }

    fn accept(&self, i: usize, bytes: &[u8], into: &mut Sum) -> Result<(), Abort> {
        let step = S::of(Ids::new());
        let mut output = step.partial();
        Steps::accept(&step, i, bytes, &mut output)?;
        into.add(S::finish(output));
        Ok(())
    }

    fn finish(partial: Sum) -> i64 {
        assert_eq!(partial.missing, 0, "every step brings its output");
        partial.sum
    }

    async fn run_all<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        pin!(S::run_on(self.ids, access)).await
    }
}
