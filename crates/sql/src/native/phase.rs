//! Phases: steps that are issued together.

use super::step::{Place, Step};
use crate::{SqlError, SqlState};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::vec::IntoIter;

/// A step that is to be issued.
pub struct Wanted {
    pub(super) step: &'static str,
    pub(super) only_reads: bool,
    pub(super) place: Place,
    pub(super) args: Vec<u8>,
}

/// Steps that may run in any order, or at the same time: a step, a vector of steps of one type, or
/// a tuple of phases.
pub trait Phase {
    type Outputs;

    /// Appends the steps.
    ///
    /// # Errors
    /// When arguments cannot be encoded.
    fn wanted(&self, into: &mut Vec<Wanted>) -> Result<(), SqlError>;

    /// Takes the outputs of its steps, in the order of [`Phase::wanted`].
    ///
    /// # Errors
    /// When an output is not what the step returns.
    fn outputs(&self, from: &mut IntoIter<Vec<u8>>) -> Result<Self::Outputs, SqlError>;
}

impl<S: Step> Phase for S {
    type Outputs = S::Output;

    fn wanted(&self, into: &mut Vec<Wanted>) -> Result<(), SqlError> {
        let args = encode(self)?;
        into.push(Wanted { step: S::NAME, only_reads: S::ONLY_READS, place: self.place(), args });
        Ok(())
    }

    fn outputs(&self, from: &mut IntoIter<Vec<u8>>) -> Result<S::Output, SqlError> {
        decode(&from.next().ok_or_else(unreadable)?)
    }
}

impl<S: Step> Phase for Vec<S> {
    type Outputs = Vec<S::Output>;

    fn wanted(&self, into: &mut Vec<Wanted>) -> Result<(), SqlError> {
        self.iter().try_for_each(|step| step.wanted(into))
    }

    fn outputs(&self, from: &mut IntoIter<Vec<u8>>) -> Result<Self::Outputs, SqlError> {
        self.iter().map(|step| step.outputs(from)).collect()
    }
}

macro_rules! tuples {
    ($(($($name:ident),+)),+) => {$(
        #[allow(non_snake_case)]
        impl<$($name: Phase),+> Phase for ($($name,)+) {
            type Outputs = ($($name::Outputs,)+);

            fn wanted(&self, into: &mut Vec<Wanted>) -> Result<(), SqlError> {
                let ($($name,)+) = self;
                $($name.wanted(into)?;)+
                Ok(())
            }

            fn outputs(&self, from: &mut IntoIter<Vec<u8>>) -> Result<Self::Outputs, SqlError> {
                let ($($name,)+) = self;
                Ok(($($name.outputs(from)?,)+))
            }
        }
    )+};
}

tuples!((A, B), (A, B, C), (A, B, C, D), (A, B, C, D, E), (A, B, C, D, E, F));

/// A plain value as bytes, in the form of messages.
///
/// # Errors
/// `XX000` if it is of a type that has no such form.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, SqlError> {
    postcard::to_stdvec(value).map_err(|why| {
        let message = format!("a value of type {} cannot travel: {why}", std::any::type_name::<T>());
        SqlError::new(SqlState::INTERNAL, message)
    })
}

/// The value of these bytes.
///
/// # Errors
/// `XX000` if they are none of this type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, SqlError> {
    postcard::from_bytes(bytes).map_err(|_| unreadable())
}

fn unreadable() -> SqlError {
    SqlError::new(SqlState::INTERNAL, "bytes that came from another instance are not what was expected")
        .with_hint("All instances must run the same program.")
}
