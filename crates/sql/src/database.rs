//! The workload that engines know: programs over a fixed set of physical tables.
//!
//! A request runs a program as one transaction, or begins a conversation, in which each
//! [`Command`] is answered before the next one comes. The catalog's objects are rows of the first
//! physical table. Each slot has a copy of them, so that each instance can examine its data.

use crate::bound::Bound;
use crate::catalog::{Catalog, Oid, Sequence, Store};
pub use crate::catalog_rows::CATALOG;
use crate::datetime::zone::Zone;

use crate::catalog_rows::{catalog_place, sequence_place};
use crate::error::Stop;
use crate::measured::Phase;
use crate::native::issued::Issued;
use crate::native::procedure::Procedure;
use crate::native::run_step::IssuedRead;
use crate::native::{self, NativeCall};
use crate::place::{self};
use crate::program::{Checked, Outcome, Path, Program, Reference, Source, Statement, Stored};
use crate::run::{Reach, Transact, Work};
use crate::step::{Change, Fetch, FetchAll, FetchForUpdate, Gather, Put};
use crate::{Datum, Expr, SqlError};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use txn::erased::Local;
use txn::{Abort, Access, Clients, Generator, Route, Schema, Share, StepId, Transaction, Verdict, Workload};

/// A SQL database: its number of slots, and of physical tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Database {
    pub sites: u32,
    pub stores: u16,
}

/// A program with its parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Call {
    #[serde(with = "crate::kept")]
    pub program: Arc<Program>,
    pub bound: Arc<Bound>,
    /// A number that no other statement of the database has.
    pub statement: i64,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// One transaction.
    Once(Call),
    /// A transaction of several commands, of which this is the first.
    Converse(Command),
    /// The catalog as it is stored.
    ReadCatalog,
    /// Takes the next numbers of a sequence, at most this many, by a transaction of their own.
    TakeNumbers { sequence: Sequence, most: u32 },
    /// Sets the number of a sequence, and whether it was taken already.
    SetNumber { sequence: Oid, number: i64, is_taken: bool },
    /// A procedure in Rust, as one transaction.
    Native(Box<NativeCall>),
}

/// One command of a conversation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Command {
    Run(Call),
    /// As `Run`, with an account of what was done.
    Analyze(Call),
    /// Changes the catalog, if it has the version `from`.
    Define {
        from: u64,
        catalog: Box<Catalog>,
    },
    /// Makes the entries of an index from the rows of its table.
    Fill {
        #[serde(with = "crate::kept")]
        table: Arc<Stored>,
        index: u16,
    },
    /// Copies the rows of a table into another, which has another key or other columns. `values[i]`
    /// is the value of the new one's column `i`, over the old row.
    Copy {
        #[serde(with = "crate::kept")]
        from: Arc<Stored>,
        #[serde(with = "crate::kept")]
        to: Arc<Stored>,
        values: Vec<Expr>,
        checks: Vec<Checked>,
        bound: Bound,
        statement: i64,
    },
    /// Whether all rows of a table meet these conditions. Nulls are looked for too.
    Verify {
        #[serde(with = "crate::kept")]
        table: Arc<Stored>,
        checks: Vec<Checked>,
        references: Vec<Reference>,
        bound: Bound,
    },
    /// As [`Request::SetNumber`], with this transaction.
    SetNumber {
        sequence: Oid,
        number: i64,
        is_taken: bool,
    },
    /// Removes rows of a physical table, at most this many; the answer counts them.
    Purge {
        store: Store,
        most: u64,
    },
    Savepoint,
    UndoTo(u64),
    Commit,
    Rollback,
}

/// The answer to a command, or to a request.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Answer {
    Outcomes(Vec<Outcome>),
    /// As `Outcomes`, with the phases of the program.
    Analyzed(Vec<Outcome>, Vec<Phase>),
    /// A savepoint.
    Point(u64),
    /// Nothing but success.
    Done,
    Catalog(Box<Catalog>),
    /// Numbers of a sequence: the first one, and how many with the sequence's increment.
    Numbers {
        first: i64,
        count: u32,
    },
    /// The statement failed, and may have done a part of its work: the transaction has to be rolled
    /// back, at least to a savepoint. A request that ends so had no effect.
    Failed(SqlError),
    /// The output of a procedure in Rust, as bytes.
    Native(Vec<u8>),
}

impl Workload for Database {
    type Request = Request;
    type Reply = Answer;
    type Generator = NoRequests;
    type Audit = crate::audit::Audit;

    fn name(&self) -> String {
        "sql".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: (0..self.stores).map(|i| place::physical_table(Store(i), self.sites)).collect() }
    }

    fn sites(&self) -> u32 {
        self.sites
    }

    async fn run<T: Transaction>(&self, request: &Request, txn: &mut T) -> Result<Answer, Abort> {
        self.compiled_here(request, txn).await
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Fetch, FetchForUpdate, Put, Change, Share<FetchAll>, Share<Gather>,
            Issued, IssuedRead)
    }

    fn routes(&self, request: &Request, visit: &mut dyn FnMut(Route)) {
        match request {
            Request::Once(call) | Request::Converse(Command::Run(call) | Command::Analyze(call)) => {
                for (store, slot) in self.slots_of_call(call) {
                    visit(place::route(store, slot));
                }
            }
            Request::TakeNumbers { sequence: Sequence { oid: sequence, .. }, .. }
            | Request::SetNumber { sequence, .. } => {
                visit(place::route(CATALOG, sequence_place(*sequence, self.sites).slot));
            }
            Request::Native(call) if !call.places.is_empty() => {
                call.places.iter().for_each(|(store, slot)| visit(place::route(*store, *slot)));
            }
            Request::Native(call) => visit(place::route(CATALOG, self.any_slot(call.statement))),
            Request::Converse(_) | Request::ReadCatalog => visit(place::route(CATALOG, 0)),
        }
    }

    fn only_reads(&self, request: &Request) -> bool {
        match request {
            Request::Once(call) => call.program.only_reads,
            Request::ReadCatalog => true,
            _ => false,
        }
    }

    fn converses(&self, request: &Request) -> bool {
        matches!(request, Request::Converse(_))
    }

    fn kind(&self, request: &Request) -> &'static str {
        match request {
            Request::Converse(_) => "conversation",
            Request::ReadCatalog => "catalog",
            Request::Native(_) => "procedure",
            Request::TakeNumbers { .. } | Request::SetNumber { .. } => "sequence",
            Request::Once(call) => match call.program.statements.as_slice() {
                [Statement::Select(_)] => "select",
                [Statement::Insert(_)] => "insert",
                [Statement::Update(_)] => "update",
                [Statement::Delete(_)] => "delete",
                _ => "program",
            },
        }
    }

    fn clients(&self) -> Clients {
        Clients::Routed
    }

    fn generator(&self, _: u64, _: Range<u32>) -> NoRequests {
        NoRequests
    }

    fn load_parts(&self, _: base::SiteId) -> u32 {
        1
    }

    /// A new database has an empty catalog.
    async fn load<A: Access>(&self, site: base::SiteId, _: u32, access: &mut A) -> Result<(), Abort> {
        let catalog = postcard::to_stdvec(&Catalog::default()).map_err(|_| Abort::BadRequest)?;
        let at = catalog_place(site.0);
        let key = place::physical_key(at.slot, &at.key);
        let row = place::physical_row(at.slot, &at.key, &catalog);
        access.insert(place::table_id(CATALOG), &key, &row).await.map(drop)
    }

    async fn audit<A: Access>(
        &self,
        sites: Range<u32>,
        access: &mut A,
    ) -> Result<crate::audit::Audit, Abort> {
        crate::audit::audit(self.sites, sites, access).await
    }

    fn judge(&self, audits: Vec<crate::audit::Audit>, _: Option<u64>) -> Verdict {
        crate::audit::judge(audits)
    }
}

/// The value of a key's part. One that is null finds nothing, or an earlier statement gives it.
fn known(expr: &crate::Expr, bound: &Bound) -> Option<Datum> {
    expr.eval(&bound.context(), &Vec::new()).ok().filter(|value| !value.is_null())
}

/// The answer of a request; one that failed has no effect.
fn answered(answer: Result<Answer, Stop>, txn: &mut (dyn Transact + '_)) -> Result<Answer, Abort> {
    match answer {
        Ok(answer) => Ok(answer),
        Err(Stop::Abort(abort)) => Err(abort),
        Err(Stop::Error(error)) => {
            txn.abandon();
            Ok(Answer::Failed(error))
        }
    }
}

impl Database {
    /// [`Database::carry_out`], compiled in this crate: each crate that awaits the future of a
    /// small function compiles all of that future, and a crate that has it in a box does not.
    #[inline(never)]
    fn compiled_here<'a>(
        &'a self,
        request: &'a Request,
        txn: &'a mut (dyn Transact + 'a),
    ) -> Local<'a, Result<Answer, Abort>> {
        Box::pin(self.carry_out(request, txn))
    }

    async fn carry_out(&self, request: &Request, txn: &mut (dyn Transact + '_)) -> Result<Answer, Abort> {
        match request {
            Request::Once(call) => {
                let mut work = Work::new(txn, self.sites, call.statement);
                let answer = pin!(self.call(&mut work, call, Reach::Whole)).await;
                answered(answer, txn)
            }
            Request::Converse(first) => Box::pin(self.converse(first.clone(), txn)).await,
            Request::TakeNumbers { sequence, most } => {
                let mut work = Work::new(txn, self.sites, 0);
                let taken = Box::pin(work.take_numbers(sequence, *most)).await;
                answered(taken.map(|(first, count)| Answer::Numbers { first, count }), txn)
            }
            Request::SetNumber { sequence, number, is_taken } => {
                let mut work = Work::new(txn, self.sites, 0);
                let set = Box::pin(work.set_number(*sequence, *number, *is_taken)).await;
                answered(set.map(|()| Answer::Done), txn)
            }
            Request::Native(call) => {
                let mut work = Work::new(txn, self.sites, call.statement);
                let said = native::run::call(&mut work, call).await;
                answered(said.map(Answer::Native), txn)
            }
            Request::ReadCatalog => {
                let mut work = Work::new(txn, self.sites, 0);
                match Box::pin(work.read_catalog()).await {
                    Ok(catalog) => Ok(Answer::Catalog(Box::new(catalog))),
                    Err(Stop::Abort(abort)) => Err(abort),
                    Err(Stop::Error(error)) => Ok(Answer::Failed(error)),
                }
            }
        }
    }

    async fn call(
        &self,
        work: &mut Work<'_, dyn Transact + '_>,
        call: &Call,
        reach: Reach,
    ) -> Result<Answer, Stop> {
        work.begin_statement(call.statement);
        pin!(work.run(&call.program, &call.bound, reach)).await.map(Answer::Outcomes)
    }

    async fn converse(&self, first: Command, txn: &mut (dyn Transact + '_)) -> Result<Answer, Abort> {
        let mut work = Work::new(txn, self.sites, 0);
        let mut command = first;
        loop {
            let answer = match command {
                Command::Commit => return Ok(Answer::Done),
                Command::Rollback => {
                    work.txn().abandon();
                    return Ok(Answer::Done);
                }
                command => pin!(self.obey(&mut work, command)).await,
            };
            let answer = match answer {
                Ok(answer) => answer,
                Err(Stop::Error(error)) => Answer::Failed(error),
                Err(Stop::Abort(abort)) => return Err(abort),
            };
            let said = postcard::to_stdvec(&answer).map_err(|_| Abort::TooLong)?;
            let heard = work.txn().hear(said).await?;
            command = postcard::from_bytes(&heard).map_err(|_| Abort::BadRequest)?;
        }
    }

    async fn obey(&self, work: &mut Work<'_, dyn Transact + '_>, command: Command) -> Result<Answer, Stop> {
        match command {
            Command::Run(call) => pin!(self.call(work, &call, Reach::Part)).await,
            Command::Analyze(call) => {
                work.phases.begin();
                let answer = pin!(self.call(work, &call, Reach::Part)).await;
                let phases = work.phases.end();
                match answer? {
                    Answer::Outcomes(outcomes) => Ok(Answer::Analyzed(outcomes, phases)),
                    other => Ok(other),
                }
            }
            Command::Define { from, catalog } => {
                Box::pin(work.define(from, &catalog)).await.map(|()| Answer::Done)
            }
            Command::Fill { table, index } => {
                Box::pin(work.fill(&table, usize::from(index))).await.map(|()| Answer::Done)
            }
            Command::Copy { from, to, values, checks, bound, statement } => {
                work.begin_statement(statement);
                Box::pin(work.copy((&from, &to), &values, &checks, &bound)).await.map(|()| Answer::Done)
            }
            Command::Verify { table, checks, references, bound } => {
                let bound = Arc::new(bound);
                Box::pin(work.verify(&table, &checks, &references, &bound)).await.map(|()| Answer::Done)
            }
            Command::SetNumber { sequence, number, is_taken } => {
                Box::pin(work.set_number(sequence, number, is_taken)).await.map(|()| Answer::Done)
            }
            Command::Purge { store, most } => {
                let count = Box::pin(work.purge(store, most)).await?;
                Ok(Answer::Outcomes(vec![Outcome { count, ..Outcome::default() }]))
            }
            Command::Savepoint => Ok(Answer::Point(work.savepoint() as u64)),
            Command::UndoTo(point) => {
                Box::pin(work.undo_to(usize::try_from(point).unwrap_or(usize::MAX))).await?;
                Ok(Answer::Done)
            }
            Command::Commit | Command::Rollback => Ok(Answer::Done),
        }
    }

    /// The places that a call of a procedure surely touches, its home first: those that the
    /// procedure names, or those of its first phase. None if it has none, or fails before.
    pub fn places_of<P: Procedure>(&self, procedure: &P, call: &NativeCall) -> Vec<(Store, u32)> {
        let (now, statement) = (call.now, call.statement);
        let begins = |program: &Arc<Program>, params| {
            let (program, bound) = (Arc::clone(program), Arc::new(Bound { params, now, zone: Zone::UTC }));
            self.slots_of_call(&Call { program, bound, statement })
        };
        native::run::places_of(procedure, call, self.sites, &begins)
    }

    /// A home for a statement that could have any: the homes of all statements are spread.
    fn any_slot(&self, statement: i64) -> u32 {
        statement.rem_euclid(i64::from(self.sites)) as u32
    }

    /// The slots that a request surely touches, as far as its arguments tell; none if they tell
    /// nothing.
    pub fn reached(&self, request: &Request) -> Vec<u32> {
        match request {
            Request::Once(call) | Request::Converse(Command::Run(call)) => {
                self.known_slots(call).into_iter().map(|(_, slot)| slot).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The places that a call surely touches, as far as its arguments tell, its home first.
    pub(crate) fn slots_of_call(&self, call: &Call) -> Vec<(Store, u32)> {
        let mut places = self.known_slots(call);
        if places.is_empty() {
            // Any home will do; this one spreads them.
            places.push((CATALOG, self.any_slot(call.statement)));
        }
        places
    }

    fn known_slots(&self, call: &Call) -> Vec<(Store, u32)> {
        let bound = &call.bound;
        let mut places = Vec::new();
        for statement in &call.program.statements {
            match statement {
                Statement::Select(select) => {
                    select
                        .sources
                        .first()
                        .into_iter()
                        .for_each(|j| self.slots_of(&j.source, bound, &mut places));
                }
                Statement::Update(update) => self.slots_of(&update.source, bound, &mut places),
                Statement::Delete(delete) => self.slots_of(&delete.source, bound, &mut places),
                Statement::Insert(insert) => {
                    if let crate::program::InsertRows::Values(rows) = &insert.rows {
                        let table = &insert.table;
                        for row in rows.iter().take(8).filter(|_| !table.key.is_empty()) {
                            let of = |&column: &u16| known(&row[usize::from(column)], bound);
                            if let Some(key) = table.key.iter().map(of).collect::<Option<Vec<Datum>>>() {
                                places.push((table.store, table.place(&key, self.sites).slot));
                            }
                        }
                    }
                }
            }
        }
        places
    }

    fn slots_of(&self, source: &Source, bound: &Bound, places: &mut Vec<(Store, u32)>) {
        let table = &source.table;
        let value = |expr: &crate::Expr| known(expr, bound);
        match &source.path {
            Path::Keys(keys) => {
                for key in keys.iter().take(8) {
                    if let Some(key) = key.iter().map(value).collect::<Option<Vec<Datum>>>() {
                        places.push((table.store, table.place(&key, self.sites).slot));
                    }
                }
            }
            Path::Ranges { index: None, ranges, .. } => {
                for range in ranges.iter().take(8) {
                    if let Some(equal) = range.equal.iter().map(value).collect::<Option<Vec<Datum>>>()
                        && let Some(slot) = place::slot_of(&table.slots, &equal, self.sites)
                    {
                        places.push((table.store, slot));
                    }
                }
            }
            _ => {}
        }
    }
}

/// No stream of requests: they come from clients.
#[derive(Clone, Copy, Debug)]
pub struct NoRequests;

impl Generator for NoRequests {
    type Request = Request;

    fn next(&mut self) -> Request {
        Request::ReadCatalog
    }
}
