//! Steps, and how they form a transaction.

pub mod spread;

pub use crate::route::Route;

use crate::{Abort, Access};
use serde::{Serialize, de::DeserializeOwned};
use spread::{Share, Spread};
use std::pin::pin;

/// Number of a kind of step within its workload; sent with the step's bytes.
pub type StepId = u16;

/// Whether a step may change rows. A step that declares [`Effect::Reads`] and writes anyway is
/// still correct, only more likely to meet a deadlock over several instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    Reads,
    Writes,
}

/// A part of a transaction that runs in one place: plain values, and the code that they select.
pub trait Step: Serialize + DeserializeOwned + 'static {
    const ID: StepId;
    const EFFECT: Effect = Effect::Writes;
    type Output: Serialize + DeserializeOwned + 'static;

    fn route(&self) -> Route;
    async fn run<A: Access>(&self, access: &mut A) -> Result<Self::Output, Abort>;
}

/// A phase: steps that may run in any order or in parallel. Implemented for a single step, for
/// vectors of one kind, and for tuples of up to eight groups.
///
/// An engine drives it in one of two ways: whole ([`Steps::run_all`], if every step is at home:
/// static calls only), or one by one ([`Steps::encode`] at home, [`Steps::accept`] when the reply
/// is back).
pub trait Steps {
    type Outputs;
    /// The outputs received so far.
    type Partial;

    fn count(&self) -> usize;
    /// [`Effect::Writes`] if any step declares it.
    fn effect(&self) -> Effect;
    /// The effect of step `i`; that of the phase if all steps are of one kind.
    fn effect_of(&self, _i: usize) -> Effect {
        self.effect()
    }
    fn route(&self, i: usize) -> Route;
    fn id(&self, i: usize) -> StepId;
    /// Appends step `i`'s arguments to `out`.
    fn encode(&self, i: usize, out: &mut Vec<u8>);

    fn partial(&self) -> Self::Partial;
    async fn run<A: Access>(&self, i: usize, access: &mut A, into: &mut Self::Partial) -> Result<(), Abort>;
    /// Takes step `i`'s output in the form in which a channel delivers it.
    fn accept(&self, i: usize, bytes: &[u8], into: &mut Self::Partial) -> Result<(), Abort>;
    /// # Panics
    /// If an output is missing: the engine must first collect the output of every step.
    fn finish(partial: Self::Partial) -> Self::Outputs;

    async fn run_all<A: Access>(&self, access: &mut A) -> Result<Self::Outputs, Abort>;
}

/// One run of a procedure: it issues its steps through this. If a step ends with an abort, the
/// transaction aborts, even if the procedure ignores it: the step may have done half of its work.
pub trait Transaction {
    /// Runs the steps of one phase; returns when all are done.
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort>;

    /// As [`Transaction::all`], for the last phase: the prepare request of a distributed commit may
    /// be sent with its steps. No steps may follow; any that do end the transaction with
    /// [`Abort::AfterLast`].
    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort>;

    /// As [`Transaction::all`], for a phase after which only the home instance goes on: the prepare
    /// request may be sent with the steps that run elsewhere. Later steps must have the route of
    /// the procedure's home. A step that reaches an instance which was asked to prepare ends the
    /// transaction with [`Abort::AfterLast`].
    async fn last_elsewhere<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        self.all(steps).await
    }

    /// Runs a step over all the sites that it reaches; returns when all the shares that it needs
    /// are done. Counts as one phase or several.
    async fn over<S: Spread>(&mut self, step: S) -> Result<S::Output, Abort> {
        self.all(Share::whole(step)).await
    }

    /// Sends `said` to the client, and waits for its next message: the procedure is a conversation
    /// ([`crate::Workload::converses`]), in which the client decides step by step. Locks stay
    /// meanwhile.
    ///
    /// # Errors
    /// [`Abort::Abandoned`] if the client has gone, [`Abort::Stopping`] if the instance stops,
    /// [`Abort::BadRequest`] if the client cannot converse.
    async fn hear(&mut self, _said: Vec<u8>) -> Result<Vec<u8>, Abort> {
        Err(Abort::BadRequest)
    }

    /// Makes the transaction end without effect, and its reply be delivered all the same: an answer
    /// such as "there is such a row already". As with [`Abort::User`], a reply that depends on rows
    /// is delivered only if all that was read was there at one moment.
    fn abandon(&mut self) {}
}

/// Appends a plain value's encoding to `out`.
#[inline]
pub fn encode<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    *out = postcard::serialize_with_flavor(value, Bytes(std::mem::take(out)))
        .expect("it is a plain value and a Vec takes every byte");
}

/// The largest number of bytes of an encoded 64-bit number.
const NUMBER_BYTES: usize = 10;

/// Collects an encoding byte by byte, in which form most of it arrives. Through `io::Write` each
/// byte would cost a copy of one byte.
struct Bytes(Vec<u8>);

impl postcard::ser_flavors::Flavor for Bytes {
    type Output = Vec<u8>;

    #[inline]
    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    #[inline]
    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        // Numbers arrive as a few bytes each, for which a call costs more than the loop.
        if bytes.len() <= NUMBER_BYTES {
            self.0.reserve(NUMBER_BYTES);
            bytes.iter().for_each(|&byte| self.0.push(byte));
        } else {
            self.0.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn finalize(self) -> postcard::Result<Vec<u8>> {
        Ok(self.0)
    }
}

/// A plain value from its encoding.
///
/// # Errors
/// [`Abort::BadRequest`]: the bytes are no such value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Abort> {
    postcard::from_bytes(bytes).map_err(|_| Abort::BadRequest)
}

impl<S: Step> Steps for S {
    type Outputs = S::Output;
    type Partial = Option<S::Output>;

    fn count(&self) -> usize {
        1
    }
    fn effect(&self) -> Effect {
        S::EFFECT
    }
    fn route(&self, _: usize) -> Route {
        Step::route(self)
    }
    fn id(&self, _: usize) -> StepId {
        S::ID
    }
    fn encode(&self, _: usize, out: &mut Vec<u8>) {
        encode(self, out);
    }
    fn partial(&self) -> Self::Partial {
        None
    }
    async fn run<A: Access>(&self, _: usize, access: &mut A, into: &mut Self::Partial) -> Result<(), Abort> {
        *into = Some(pin!(Step::run(self, access)).await?);
        Ok(())
    }
    fn accept(&self, _: usize, bytes: &[u8], into: &mut Self::Partial) -> Result<(), Abort> {
        *into = Some(decode(bytes)?);
        Ok(())
    }
    fn finish(partial: Self::Partial) -> Self::Outputs {
        partial.expect("a step's output")
    }
    async fn run_all<A: Access>(&self, access: &mut A) -> Result<Self::Outputs, Abort> {
        pin!(Step::run(self, access)).await
    }
}

/// Many steps of one kind; the outputs are in the same order.
#[derive(Clone, Debug)]
pub struct Each<S, const N: usize = 4>(pub smallvec::SmallVec<[S; N]>);

impl<S: Step, const N: usize> Steps for Each<S, N> {
    type Outputs = smallvec::SmallVec<[S::Output; N]>;
    type Partial = smallvec::SmallVec<[Option<S::Output>; N]>;

    fn count(&self) -> usize {
        self.0.len()
    }
    fn effect(&self) -> Effect {
        S::EFFECT
    }
    fn route(&self, i: usize) -> Route {
        self.0[i].route()
    }
    fn id(&self, _: usize) -> StepId {
        S::ID
    }
    fn encode(&self, i: usize, out: &mut Vec<u8>) {
        encode(&self.0[i], out);
    }
    fn partial(&self) -> Self::Partial {
        self.0.iter().map(|_| None).collect()
    }
    async fn run<A: Access>(&self, i: usize, access: &mut A, into: &mut Self::Partial) -> Result<(), Abort> {
        into[i] = Some(pin!(Step::run(&self.0[i], access)).await?);
        Ok(())
    }
    fn accept(&self, i: usize, bytes: &[u8], into: &mut Self::Partial) -> Result<(), Abort> {
        into[i] = Some(decode(bytes)?);
        Ok(())
    }
    fn finish(partial: Self::Partial) -> Self::Outputs {
        partial.into_iter().map(|o| o.expect("a step's output")).collect()
    }
    async fn run_all<A: Access>(&self, access: &mut A) -> Result<Self::Outputs, Abort> {
        let mut out = smallvec::SmallVec::new();
        for step in &self.0 {
            out.push(pin!(Step::run(step, access)).await?);
        }
        Ok(out)
    }
}

macro_rules! tuple {
    ($($s:ident $i:tt),+) => {
        impl<$($s: Steps),+> Steps for ($($s,)+) {
            type Outputs = ($($s::Outputs,)+);
            type Partial = ($($s::Partial,)+);

            fn count(&self) -> usize {
                0 $(+ self.$i.count())+
            }
            fn effect(&self) -> Effect {
                if $(self.$i.effect() == Effect::Reads)&&+ { Effect::Reads } else { Effect::Writes }
            }
            fn effect_of(&self, mut i: usize) -> Effect {
                $(if i < self.$i.count() { return self.$i.effect_of(i); } i -= self.$i.count();)+
                unreachable!("step {i} past the end")
            }
            fn route(&self, mut i: usize) -> Route {
                $(if i < self.$i.count() { return self.$i.route(i); } i -= self.$i.count();)+
                unreachable!("step {i} past the end")
            }
            fn id(&self, mut i: usize) -> StepId {
                $(if i < self.$i.count() { return self.$i.id(i); } i -= self.$i.count();)+
                unreachable!("step {i} past the end")
            }
            fn encode(&self, mut i: usize, out: &mut Vec<u8>) {
                $(if i < self.$i.count() { return self.$i.encode(i, out); } i -= self.$i.count();)+
                unreachable!("step {i} past the end")
            }
            fn partial(&self) -> Self::Partial {
                ($(self.$i.partial(),)+)
            }
            async fn run<AC: Access>(&self, mut i: usize, access: &mut AC, into: &mut Self::Partial) -> Result<(), Abort> {
                $(if i < self.$i.count() { return pin!(self.$i.run(i, access, &mut into.$i)).await; } i -= self.$i.count();)+
                unreachable!("step {i} past the end")
            }
            fn accept(&self, mut i: usize, bytes: &[u8], into: &mut Self::Partial) -> Result<(), Abort> {
                $(if i < self.$i.count() { return self.$i.accept(i, bytes, &mut into.$i); } i -= self.$i.count();)+
                unreachable!("step {i} past the end")
            }
            fn finish(partial: Self::Partial) -> Self::Outputs {
                ($($s::finish(partial.$i),)+)
            }
            async fn run_all<AC: Access>(&self, access: &mut AC) -> Result<Self::Outputs, Abort> {
                Ok(($({
                    let outputs = pin!(self.$i.run_all(access)).await?;
                    outputs
                },)+))
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// The body of a [`crate::Workload::run_step`]: runs the encoded step with the given number, one of
/// the listed kinds.
///
/// ```text
/// run_one_of!(id, args, access, out; ReadRows, UpdateRows)
/// ```
#[macro_export]
macro_rules! run_one_of {
    ($id:expr, $args:expr, $access:expr, $out:expr; $($step:ty),+ $(,)?) => {
        match $id {
            $(<$step as $crate::step::Step>::ID => ::std::pin::pin!($crate::step::run_encoded::<$step, _>($args, $access, $out)).await,)+
            _ => Err($crate::Abort::BadRequest),
        }
    };
}

/// Runs an encoded step and appends its encoded output. A workload's [`crate::Workload::run_step`]
/// does this for each kind.
pub async fn run_encoded<S: Step, A: Access>(
    args: &[u8],
    access: &mut A,
    out: &mut Vec<u8>,
) -> Result<(), Abort> {
    let step: S = decode(args)?;
    access.enter(step.route())?;
    let output = pin!(Step::run(&step, access)).await?;
    encode(&output, out);
    Ok(())
}
