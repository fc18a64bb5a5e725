//! [`Steps`] and [`Transaction`] behind one pointer each.

use super::{ErasedAccess, Local};
use crate::erased::AnyAccess;
use crate::{Abort, Access, Effect, Route, Spread, StepId, Steps, Transaction};
use std::cell::Cell;

/// The methods of [`Steps`]; see there. The outputs stay with the steps.
pub trait AnySteps {
    fn count(&self) -> usize;
    fn effect(&self) -> Effect;
    fn effect_of(&self, i: usize) -> Effect;
    fn route(&self, i: usize) -> Route;
    fn id(&self, i: usize) -> StepId;
    fn encode(&self, i: usize, out: &mut Vec<u8>);
    fn run<'a>(&'a self, i: usize, access: &'a mut dyn AnyAccess) -> Local<'a, Result<(), Abort>>;
    fn accept(&self, i: usize, bytes: &[u8]) -> Result<(), Abort>;
    fn run_all<'a>(&'a self, access: &'a mut dyn AnyAccess) -> Local<'a, Result<(), Abort>>;
}

/// Steps with the outputs received so far.
struct Kept<S: Steps> {
    steps: S,
    /// Taken out while a step runs.
    partial: Cell<Option<S::Partial>>,
    /// Those of [`Steps::run_all`].
    outputs: Cell<Option<S::Outputs>>,
}

impl<S: Steps> Kept<S> {
    fn new(steps: S) -> Kept<S> {
        Kept { steps, partial: Cell::new(None), outputs: Cell::new(None) }
    }

    fn partial(&self) -> S::Partial {
        self.partial.take().unwrap_or_else(|| self.steps.partial())
    }

    fn finish(self) -> S::Outputs {
        let partial = || S::finish(self.partial());
        self.outputs.take().unwrap_or_else(partial)
    }
}

impl<S: Steps> AnySteps for Kept<S> {
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

    fn run<'a>(&'a self, i: usize, access: &'a mut dyn AnyAccess) -> Local<'a, Result<(), Abort>> {
        Box::pin(async move {
            let mut partial = self.partial();
            let outcome = self.steps.run(i, &mut ErasedAccess(access), &mut partial).await;
            self.partial.set(Some(partial));
            outcome
        })
    }

    fn accept(&self, i: usize, bytes: &[u8]) -> Result<(), Abort> {
        let mut partial = self.partial();
        let outcome = self.steps.accept(i, bytes, &mut partial);
        self.partial.set(Some(partial));
        outcome
    }

    fn run_all<'a>(&'a self, access: &'a mut dyn AnyAccess) -> Local<'a, Result<(), Abort>> {
        Box::pin(async move {
            let outputs = self.steps.run_all(&mut ErasedAccess(access)).await?;
            self.outputs.set(Some(outputs));
            Ok(())
        })
    }
}

/// A phase that leaves its outputs where its steps are.
impl Steps for &dyn AnySteps {
    type Outputs = ();
    type Partial = ();

    fn count(&self) -> usize {
        (**self).count()
    }

    fn effect(&self) -> Effect {
        (**self).effect()
    }

    fn effect_of(&self, i: usize) -> Effect {
        (**self).effect_of(i)
    }

    fn route(&self, i: usize) -> Route {
        (**self).route(i)
    }

    fn id(&self, i: usize) -> StepId {
        (**self).id(i)
    }

    fn encode(&self, i: usize, out: &mut Vec<u8>) {
        (**self).encode(i, out);
    }

    fn partial(&self) {}

    async fn run<A: Access>(&self, i: usize, access: &mut A, (): &mut ()) -> Result<(), Abort> {
        (**self).run(i, access).await
    }

    fn accept(&self, i: usize, bytes: &[u8], (): &mut ()) -> Result<(), Abort> {
        (**self).accept(i, bytes)
    }

    fn finish((): ()) {}

    async fn run_all<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        (**self).run_all(access).await
    }
}

/// The methods of [`Transaction`]; see there. Steps over many sites are not among them.
pub trait AnyTransaction {
    fn all<'a>(&'a mut self, steps: &'a dyn AnySteps) -> Local<'a, Result<(), Abort>>;
    fn last<'a>(&'a mut self, steps: &'a dyn AnySteps) -> Local<'a, Result<(), Abort>>;
    fn last_elsewhere<'a>(&'a mut self, steps: &'a dyn AnySteps) -> Local<'a, Result<(), Abort>>;
    fn hear(&mut self, said: Vec<u8>) -> Local<'_, Result<Vec<u8>, Abort>>;
    fn abandon(&mut self);
}

impl<T: Transaction> AnyTransaction for T {
    fn all<'a>(&'a mut self, steps: &'a dyn AnySteps) -> Local<'a, Result<(), Abort>> {
        Box::pin(Transaction::all(self, steps))
    }

    fn last<'a>(&'a mut self, steps: &'a dyn AnySteps) -> Local<'a, Result<(), Abort>> {
        Box::pin(Transaction::last(self, steps))
    }

    fn last_elsewhere<'a>(&'a mut self, steps: &'a dyn AnySteps) -> Local<'a, Result<(), Abort>> {
        Box::pin(Transaction::last_elsewhere(self, steps))
    }

    fn hear(&mut self, said: Vec<u8>) -> Local<'_, Result<Vec<u8>, Abort>> {
        Box::pin(Transaction::hear(self, said))
    }

    fn abandon(&mut self) {
        Transaction::abandon(self);
    }
}

/// A [`Transaction`] that calls another through a pointer.
pub struct ErasedTransaction<'a>(pub &'a mut dyn AnyTransaction);

impl Transaction for ErasedTransaction<'_> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let kept = Kept::new(steps);
        self.0.all(&kept).await?;
        Ok(kept.finish())
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let kept = Kept::new(steps);
        self.0.last(&kept).await?;
        Ok(kept.finish())
    }

    async fn last_elsewhere<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let kept = Kept::new(steps);
        self.0.last_elsewhere(&kept).await?;
        Ok(kept.finish())
    }

    /// # Errors
    /// [`Abort::BadRequest`]: a step over many sites cannot be cut behind a pointer.
    async fn over<S: Spread>(&mut self, _: S) -> Result<S::Output, Abort> {
        Err(Abort::BadRequest)
    }

    async fn hear(&mut self, said: Vec<u8>) -> Result<Vec<u8>, Abort> {
        self.0.hear(said).await
    }

    fn abandon(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::{AnySteps, ErasedTransaction, Kept};
    use crate::step::{Each, Step, encode};
    use crate::{Abort, Access, Effect, Inserted, NewRows, Route, StepId, Steps, Transaction};
    use base::TableId;
    use serde::{Deserialize, Serialize};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[derive(Serialize, Deserialize)]
    struct Double(u64);

    impl Step for Double {
        const ID: StepId = 7;
        const EFFECT: Effect = Effect::Reads;
        type Output = u64;

        fn route(&self) -> Route {
            Route { table: TableId(1), key: self.0 }
        }

        async fn run<A: Access>(&self, _: &mut A) -> Result<u64, Abort> {
            Ok(2 * self.0)
        }
    }

    struct NoRows;

    impl NewRows for NoRows {
        fn put(&mut self, _: TableId, _: Option<&[u8]>, _: &[u8]) -> Result<Inserted, Abort> {
            Err(Abort::BadRequest)
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    /// The steps with even numbers run in place, the others elsewhere.
    struct Half;

    impl Transaction for Half {
        async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
            let mut partial = steps.partial();
            for i in 0..steps.count() {
                let key = steps.route(i).key;
                if key.is_multiple_of(2) {
                    steps.run(i, &mut NoRows, &mut partial).await?;
                } else {
                    let (mut args, mut out) = (Vec::new(), Vec::new());
                    steps.encode(i, &mut args);
                    assert_eq!((steps.id(i), args[0]), (Double::ID, key as u8));
                    encode(&(2 * key), &mut out);
                    steps.accept(i, &out, &mut partial)?;
                }
            }
            Ok(S::finish(partial))
        }

        async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
            assert_eq!((steps.effect(), steps.effect_of(0)), (Effect::Reads, Effect::Reads));
            steps.run_all(&mut NoRows).await
        }
    }

    fn phase() -> (Double, Each<Double>) {
        (Double(10), Each((1..5).map(Double).collect()))
    }

    #[test]
    fn outputs_are_the_same_as_without_a_pointer() {
        let expected = now(Half.all(phase())).unwrap();
        let mut half = Half;
        let mut erased = ErasedTransaction(&mut half);
        assert_eq!(now(erased.all(phase())).unwrap(), expected, "one by one");
        assert_eq!(now(erased.last(phase())).unwrap(), expected, "whole");
        assert_eq!(now(erased.last_elsewhere(phase())).unwrap(), expected);
        assert_eq!((expected.0, expected.1.as_slice()), (20, &[2, 4, 6, 8][..]));
    }

    #[test]
    fn an_output_of_another_form_is_refused() {
        let kept = Kept::new(phase());
        assert_eq!(AnySteps::accept(&kept, 0, &[0xff]), Err(Abort::BadRequest));
    }
}
