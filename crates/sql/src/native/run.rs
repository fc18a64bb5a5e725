//! Calls of procedures in Rust, carried out by the engine.

use super::issued::Issued;
use super::phase::Wanted;
use super::procedure::{AnyTransaction, Procedure, Txn};
use super::rows::Rows;
use super::{NativeCall, NativeTable, find, registry};
use crate::bound::Bound;
use crate::catalog::Store;
use crate::expression::cast_to;
use crate::program::{Outcome, Program};
use crate::run::{Reach, Stop, Work};
use crate::{Datum, SqlError, SqlState, place};
use serde::{Deserialize, Serialize};
use std::future::{Future, pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use txn::erased::Local;
use txn::step::Each;
use txn::{Abort, Access, Effect, Route, Step, StepId, Transaction};

/// As [`Issued`], for a step that changes nothing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct IssuedRead(Issued);

type Said = Result<Vec<u8>, SqlError>;

impl Step for Issued {
    const ID: StepId = 20;
    type Output = Said;

    fn route(&self) -> Route {
        place::route(self.store, self.slot)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Said, Abort> {
        let run = match registry::step(&self.step) {
            Ok(run) => run,
            Err(error) => return Ok(Err(error)),
        };
        let mut rows = Rows::new(access, self);
        let said = run(&self.args, &mut rows).await;
        match (rows.aborted, said) {
            (Some(abort), _) | (None, Err(Stop::Abort(abort))) => Err(abort),
            (None, Ok(said)) => Ok(Ok(said)),
            (None, Err(Stop::Error(error))) => Ok(Err(error)),
        }
    }
}

impl Step for IssuedRead {
    const ID: StepId = 21;
    const EFFECT: Effect = Effect::Reads;
    type Output = Said;

    fn route(&self) -> Route {
        self.0.route()
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Said, Abort> {
        self.0.run(access).await
    }
}

/// Runs a procedure.
///
/// # Errors
/// Its own, and those of its steps and statements.
pub(crate) async fn call<T: Transaction>(work: &mut Work<'_, T>, call: &NativeCall) -> Result<Vec<u8>, Stop> {
    let run = registry::procedure(&call.procedure)?;
    work.begin_statement(call.statement);
    let mut carried = Carried { work, call, failed: None };
    let said = run(&call.args, &mut Txn::new(&mut carried)).await;
    match (carried.failed, said) {
        (_, Err(Stop::Abort(abort))) => Err(Stop::Abort(abort)),
        (Some(error), _) => Err(Stop::Error(error)),
        (None, said) => said,
    }
}

/// A call under way.
struct Carried<'w, 't, T> {
    work: &'w mut Work<'t, T>,
    call: &'w NativeCall,
    /// The first error of a step or a statement, which may have done a part of its work.
    failed: Option<SqlError>,
}

impl<T: Transaction> Carried<'_, '_, T> {
    fn noted<R>(&mut self, outcome: Result<R, Stop>) -> Result<R, Stop> {
        if let Err(Stop::Error(error)) = &outcome {
            self.failed.get_or_insert_with(|| error.clone());
        }
        outcome
    }

    async fn steps(&mut self, wanted: Vec<Wanted>, is_last: bool) -> Result<Vec<Vec<u8>>, Stop> {
        let only_reads = wanted.iter().all(|step| step.only_reads);
        let sites = self.work.sites();
        let issued = wanted.into_iter().map(|step| issue(step, self.call, sites));
        let txn = self.work.txn();
        let said = match (only_reads, is_last) {
            (true, is_last) => {
                let steps = Each::<_, 4>(issued.map(|step| step.map(IssuedRead)).collect::<Result<_, _>>()?);
                if is_last { txn.last(steps).await? } else { txn.all(steps).await? }
            }
            (false, is_last) => {
                let steps = Each::<_, 4>(issued.collect::<Result<_, _>>()?);
                if is_last { txn.last(steps).await? } else { txn.all(steps).await? }
            }
        };
        Ok(said.into_iter().collect::<Result<Vec<_>, _>>()?)
    }

    async fn run(&mut self, number: usize, params: Vec<Datum>) -> Result<Outcome, Stop> {
        let program = program(self.call, number)?;
        let bound = Arc::new(Bound { params: fitted(program, params)?, now: self.call.now });
        let mut outcomes = self.work.run(program, &bound, Reach::Part).await?;
        Ok(outcomes.pop().unwrap_or_default())
    }
}

impl<T: Transaction> AnyTransaction for Carried<'_, '_, T> {
    fn phase<'a>(&'a mut self, steps: Vec<Wanted>, is_last: bool) -> Local<'a, Result<Vec<Vec<u8>>, Stop>> {
        Box::pin(async move {
            let said = self.steps(steps, is_last).await;
            self.noted(said)
        })
    }

    fn statement<'a>(&'a mut self, number: usize, params: Vec<Datum>) -> Local<'a, Result<Outcome, Stop>> {
        Box::pin(async move {
            let outcome = self.run(number, params).await;
            self.noted(outcome)
        })
    }
}

fn issue(wanted: Wanted, call: &NativeCall, sites: u32) -> Result<Issued, SqlError> {
    // A step that is not known here may be known nowhere.
    registry::step(wanted.step)?;
    let (store, slot) = placed(&call.tables, &wanted.place, sites)?;
    Ok(Issued {
        step: wanted.step.to_owned(),
        store,
        slot,
        args: wanted.args,
        tables: Arc::clone(&call.tables),
        sites,
        now: call.now,
    })
}

/// The physical table and the slot of a place.
fn placed(tables: &[NativeTable], place: &super::step::Place, sites: u32) -> Result<(Store, u32), SqlError> {
    let table = find(tables, place.table)?;
    Ok((table.stored.store, table.slot(&table.key(&place.key)?, sites)?))
}

fn program(call: &NativeCall, number: usize) -> Result<&Program, SqlError> {
    call.programs.get(number).map(|program| &**program).ok_or_else(|| {
        let message = format!(
            "procedure \"{}\" has no statement {number}; its STATEMENTS count from 0",
            call.procedure
        );
        SqlError::new(SqlState::INVALID_PARAMETER, message)
    })
}

/// Parameters as the statement has them.
fn fitted(program: &Program, params: Vec<Datum>) -> Result<Vec<Datum>, SqlError> {
    if params.len() != program.params.len() {
        let message =
            format!("the statement has {} parameters, and {} were given", program.params.len(), params.len());
        return Err(SqlError::new(SqlState(*b"08P01"), message));
    }
    params.into_iter().zip(&program.params).map(|(value, ty)| cast_to(value, *ty)).collect()
}

/// The places at which a program surely begins.
pub(crate) type Begins<'a> = &'a dyn Fn(&Arc<Program>, Vec<Datum>) -> Vec<(Store, u32)>;

/// The places that a call surely touches: those that the procedure names, or those of its first
/// phase or statement. None if it has none, or fails before.
pub(crate) fn places_of<P: Procedure>(
    procedure: &P,
    call: &NativeCall,
    sites: u32,
    begins: Begins<'_>,
) -> Vec<(Store, u32)> {
    let named = procedure.places();
    if !named.is_empty() {
        return named.iter().filter_map(|place| placed(&call.tables, place, sites).ok()).collect();
    }
    let mut recorder = Recorder { call, sites, begins, places: Vec::new() };
    {
        let mut txn = Txn::new(&mut recorder);
        // It goes no further than to its first phase, which never ends.
        let _ = pin!(procedure.run(&mut txn)).poll(&mut Context::from_waker(Waker::noop()));
    }
    recorder.places
}

/// Takes down where the first phase goes.
struct Recorder<'c> {
    call: &'c NativeCall,
    sites: u32,
    begins: Begins<'c>,
    places: Vec<(Store, u32)>,
}

impl AnyTransaction for Recorder<'_> {
    fn phase<'a>(&'a mut self, steps: Vec<Wanted>, _: bool) -> Local<'a, Result<Vec<Vec<u8>>, Stop>> {
        let (tables, sites) = (&self.call.tables, self.sites);
        self.places.extend(steps.iter().filter_map(|step| placed(tables, &step.place, sites).ok()));
        Box::pin(pending())
    }

    fn statement<'a>(&'a mut self, number: usize, params: Vec<Datum>) -> Local<'a, Result<Outcome, Stop>> {
        match program(self.call, number).and_then(|program| fitted(program, params)) {
            Ok(params) => {
                self.places = (self.begins)(&self.call.programs[number], params);
                Box::pin(pending())
            }
            Err(error) => Box::pin(ready(Err(error.into()))),
        }
    }
}
