//! The procedures and steps of the program, by name.
//!
//! A name stands for a type, and the types of a program do not change while it runs. So the table
//! belongs to the process, not to a database: all instances in it use the same one. A process that
//! hosts an instance for another one runs the same program, and fills its own table.

use super::phase::{decode, encode};
use super::procedure::{Procedure, Txn};
use super::rows::Rows;
use super::step::Step;
use crate::error::Stop;
use crate::{SqlError, SqlState};
use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};
use txn::erased::Local;

pub(super) type RunStep = for<'a, 'r> fn(&'a [u8], &'a mut Rows<'r>) -> Local<'a, Result<Vec<u8>, Stop>>;
pub(super) type RunProcedure = for<'a, 't> fn(&'a [u8], &'a mut Txn<'t>) -> Local<'a, Result<Vec<u8>, Stop>>;

struct Table<F>(RwLock<HashMap<&'static str, (TypeId, F)>>);

static STEPS: LazyLock<Table<RunStep>> = LazyLock::new(Table::default);
static PROCEDURES: LazyLock<Table<RunProcedure>> = LazyLock::new(Table::default);

impl<F> Default for Table<F> {
    fn default() -> Table<F> {
        Table(RwLock::default())
    }
}

impl<F: Copy> Table<F> {
    fn put<T: 'static>(&self, name: &'static str, run: F) -> Result<(), SqlError> {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let known = table.entry(name).or_insert((TypeId::of::<T>(), run));
        if known.0 == TypeId::of::<T>() {
            return Ok(());
        }
        let message =
            format!("\"{name}\" is the name of two types; one of them is {}", std::any::type_name::<T>());
        Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message).with_hint("Give one of them another NAME."))
    }

    fn get(&self, name: &str, kind: &str) -> Result<F, SqlError> {
        let table = self.0.read().unwrap_or_else(PoisonError::into_inner);
        table.get(name).map(|known| known.1).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("{kind} \"{name}\" is not registered"))
                .with_hint(format!("Register the {kind} before the database is opened, in each process."))
        })
    }
}

/// Makes a step known to the instances of this process.
///
/// # Errors
/// `42710` if another type has its name.
pub fn register_step<S: Step>() -> Result<(), SqlError> {
    fn run<'a, S: Step>(args: &'a [u8], rows: &'a mut Rows<'_>) -> Local<'a, Result<Vec<u8>, Stop>> {
        Box::pin(async move { Ok(encode(&decode::<S>(args)?.run(rows).await?)?) })
    }
    STEPS.put::<S>(S::NAME, run::<S>)
}

/// Makes a procedure known to the instances of this process.
///
/// # Errors
/// `42710` if another type has its name.
pub fn register_procedure<P: Procedure>() -> Result<(), SqlError> {
    fn run<'a, P: Procedure>(args: &'a [u8], txn: &'a mut Txn<'_>) -> Local<'a, Result<Vec<u8>, Stop>> {
        Box::pin(async move { Ok(encode(&decode::<P>(args)?.run(txn).await?)?) })
    }
    PROCEDURES.put::<P>(P::NAME, run::<P>)
}

pub(super) fn step(name: &str) -> Result<RunStep, SqlError> {
    STEPS.get(name, "step")
}

pub(super) fn procedure(name: &str) -> Result<RunProcedure, SqlError> {
    PROCEDURES.get(name, "procedure")
}
