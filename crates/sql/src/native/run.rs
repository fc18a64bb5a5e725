//! Calls of procedures in Rust, carried out by the engine.

use super::issued::Issued;
use super::phase::Wanted;
use super::procedure::{AnyTransaction, Procedure, Txn};
use super::run_step::IssuedRead;
use super::{NativeCall, NativeTable, find, registry};
use crate::bound::Bound;
use crate::catalog::Store;
use crate::error::Stop;
use crate::expression::cast_to;
use crate::program::{Outcome, Program};
use crate::run::{Reach, Transact, Work};
use crate::{Datum, SqlError, SqlState};
use std::future::{Future, pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use txn::erased::Local;

/// Runs a procedure.
///
/// # Errors
/// Its own, and those of its steps and statements.
pub(crate) async fn call(work: &mut Work<'_, dyn Transact + '_>, call: &NativeCall) -> Result<Vec<u8>, Stop> {
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
struct Carried<'w, 't, 'x> {
    work: &'w mut Work<'t, dyn Transact + 'x>,
    call: &'w NativeCall,
    /// The first error of a step or a statement, which may have done a part of its work.
    failed: Option<SqlError>,
}

impl Carried<'_, '_, '_> {
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
        let said = if only_reads {
            let steps = issued.map(|step| step.map(IssuedRead)).collect::<Result<_, _>>()?;
            txn.issued_reads(steps, is_last).await?
        } else {
            txn.issued(issued.collect::<Result<_, _>>()?, is_last).await?
        };
        Ok(said.into_iter().collect::<Result<Vec<_>, _>>()?)
    }

    async fn run(&mut self, number: usize, params: Vec<Datum>) -> Result<Outcome, Stop> {
        let program = program(self.call, number)?;
        let bound =
            Arc::new(Bound { params: fitted(program, params)?, now: self.call.now, ..Bound::default() });
        let mut outcomes = self.work.run(program, &bound, Reach::Part).await?;
        Ok(outcomes.pop().unwrap_or_default())
    }
}

impl AnyTransaction for Carried<'_, '_, '_> {
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
