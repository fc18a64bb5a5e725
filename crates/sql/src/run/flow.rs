//! Programs of several statements that depend on each other: the body of a procedure.
//!
//! ```text
//!   phase 1   statement 1 --fetch--.              statement 1 --put--.
//!             statement 2 --change-+-- one phase  (done)             +-- one phase of steps
//!             statement 4 --put----'  of steps    statement 4 -------'
//!   phase 2   statement 3, with values that statements 1 and 2 gave
//! ```
//!
//! A phase of statements with one round of steps each is planned ([`round`](super::round)). Else
//! each statement runs in a lane of its own, up to its next steps. When all lanes wait, the steps
//! of all of them are one phase of the transaction. So the messages of a phase are as many as those
//! of its longest statement. The last phase of a transaction tells the engine so, where its
//! statements have one round of steps: the prepare request travels with them.

use super::carrier::{AfterChange, Batch, Carrier, Few, Transact};
use super::round::is_plain;
use super::{PHASE, Reach, Stop, Undo, Work, change};
use crate::bound::Bound;
use crate::group::Group;
use crate::program::{Flow, FlowResult, GivenValue, InsertRows, Outcome, Path, Program, RowLock, Statement};
use crate::step::{Before, Change, Fetch, FetchAll, FetchForUpdate, Gather, Hits, Put};
use crate::{Datum, SqlError, SqlState};
use smallvec::smallvec;
use std::cell::{Cell, RefCell};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use txn::Abort;
use txn::erased::Local;

/// Hidden keys of one statement of a program; the next statement's begin after them.
const HIDDEN_KEYS: u32 = 32;

impl Work<'_, dyn Transact + '_> {
    pub(super) async fn run_flow(
        &mut self,
        (program, flow): (&Program, &Flow),
        bound: &Arc<Bound>,
        reach: Reach,
    ) -> Result<Outcome, Stop> {
        let mut bound = Arc::clone(bound);
        let mut result = Outcome::default();
        for (number, phase) in flow.phases.iter().enumerate() {
            let ends = reach == Reach::Whole
                && number + 1 == flow.phases.len()
                && phase.iter().all(|at| has_one_round(&program.statements[usize::from(*at)]));
            let statements = phase
                .iter()
                .map(|at| (Some(i64::from(*at) << HIDDEN_KEYS), &program.statements[usize::from(*at)]));
            let outcomes = match phase[..] {
                _ if self.plans() && statements.clone().all(|(_, statement)| is_plain(statement)) => {
                    pin!(self.planned(statements, &bound, ends)).await?
                }
                [at] if !ends => {
                    self.hidden = i64::from(at) << HIDDEN_KEYS;
                    vec![self.statement(&program.statements[usize::from(at)], &bound).await?]
                }
                _ => Box::pin(self.together(program, phase, &bound, ends)).await?,
            };
            for (&at, outcome) in phase.iter().zip(outcomes) {
                give(flow, at, &outcome, &mut bound)?;
                if flow.result == FlowResult::Statement(at) {
                    result = outcome;
                }
            }
        }
        if let FlowResult::Row(values) = &flow.result {
            let row = values.iter().map(|value| value.eval(&bound.context(), &Vec::new()));
            result = Outcome { count: 1, rows: vec![row.collect::<Result<_, SqlError>>()?], rest: None };
        }
        Ok(result)
    }

    /// Runs the statements of one phase. Of several errors the first statement's is told.
    async fn together(
        &mut self,
        program: &Program,
        phase: &[u16],
        bound: &Arc<Bound>,
        ends: bool,
    ) -> Result<Vec<Outcome>, Stop> {
        let slots: Vec<Slot> = phase.iter().map(|_| Slot::default()).collect();
        let (sites, number, keeps) = (self.sites, self.statement, self.undo.is_some());
        let lane = |(&at, slot)| -> Option<Lane<'_>> {
            Some(Box::pin(async move {
                let mut carrier = Waiting { slot };
                let mut work = Work::new(&mut carrier, sites, number);
                work.hidden = i64::from(at) << HIDDEN_KEYS;
                work.undo = keeps.then(Vec::new);
                let outcome = work.statement(&program.statements[usize::from(at)], bound).await;
                (outcome, work.undo.unwrap_or_default())
            }))
        };
        let mut lanes: Vec<Option<Lane<'_>>> = phase.iter().zip(&slots).map(lane).collect();
        let mut outcomes = vec![Outcome::default(); phase.len()];
        let mut wrong: Option<(usize, SqlError)> = None;
        loop {
            for at in 0..lanes.len() {
                let Some(lane) = &mut lanes[at] else { continue };
                let polled = lane.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                let Poll::Ready((outcome, undo)) = polled else { continue };
                lanes[at] = None;
                self.undo.iter_mut().for_each(|all| all.extend_from_slice(&undo));
                match outcome {
                    Ok(outcome) => outcomes[at] = outcome,
                    Err(Stop::Abort(abort)) => return Err(abort.into()),
                    Err(Stop::Error(error)) if wrong.as_ref().is_none_or(|(first, _)| at < *first) => {
                        wrong = Some((at, error));
                    }
                    Err(Stop::Error(_)) => {}
                }
            }
            if let Some((first, _)) = &wrong
                && !keeps
            {
                // Their changes need no undo: the transaction ends.
                lanes[*first..].iter_mut().for_each(|lane| *lane = None);
                slots[*first..].iter().for_each(|slot| drop(slot.job.take()));
            }
            if lanes.iter().all(Option::is_none) {
                break;
            }
            round(self.txn, &slots, ends).await?;
        }
        wrong.map_or(Ok(outcomes), |(_, error)| Err(error.into()))
    }
}

/// A statement under way; at its end the rows as they were before its changes.
type Lane<'a> = Pin<Box<dyn Future<Output = (Result<Outcome, Stop>, Vec<Undo>)> + 'a>>;

/// Where a lane and the program hand over steps and their outputs.
#[derive(Default)]
struct Slot {
    job: Cell<Option<Job>>,
    done: RefCell<Option<Done>>,
}

enum Job {
    Fetch(Few<Fetch>, RowLock),
    Put(Few<Put>),
    Change(Few<Change>),
    FetchAll(FetchAll),
    Gather(Gather),
}

enum Done {
    Hits(Few<Hits>),
    Befores(Few<Before>),
    Changed(Few<AfterChange>),
    All(Hits),
    Groups(Result<Vec<Group>, SqlError>),
}

/// The carrier of a lane.
struct Waiting<'s> {
    slot: &'s Slot,
}

impl Waiting<'_> {
    /// Hands steps over, and waits for their outputs.
    async fn job(&mut self, job: Job) -> Done {
        self.slot.job.set(Some(job));
        std::future::poll_fn(|_| match self.slot.done.borrow_mut().take() {
            Some(done) => Poll::Ready(done),
            None => Poll::Pending,
        })
        .await
    }
}

impl Carrier for Waiting<'_> {
    fn fetch(&mut self, fetches: Few<Fetch>, lock: RowLock) -> Local<'_, Result<Few<Hits>, Abort>> {
        Box::pin(async move {
            match self.job(Job::Fetch(fetches, lock)).await {
                Done::Hits(hits) => Ok(hits),
                _ => Err(Abort::BadRequest),
            }
        })
    }

    fn fetch_one(&mut self, fetch: Fetch, lock: RowLock) -> Local<'_, Result<Hits, Abort>> {
        Box::pin(async move {
            match self.job(Job::Fetch(smallvec![fetch], lock)).await {
                Done::Hits(mut hits) => Ok(hits.pop().unwrap_or_else(|| Ok(Vec::new()))),
                _ => Err(Abort::BadRequest),
            }
        })
    }

    fn put(&mut self, puts: Few<Put>) -> Local<'_, Result<Few<Before>, Abort>> {
        Box::pin(async move {
            match self.job(Job::Put(puts)).await {
                Done::Befores(befores) => Ok(befores),
                _ => Err(Abort::BadRequest),
            }
        })
    }

    fn change(&mut self, changes: Few<Change>) -> Local<'_, Result<Few<AfterChange>, Abort>> {
        Box::pin(async move {
            match self.job(Job::Change(changes)).await {
                Done::Changed(changed) => Ok(changed),
                _ => Err(Abort::BadRequest),
            }
        })
    }

    fn fetch_all(&mut self, fetch: FetchAll) -> Local<'_, Result<Hits, Abort>> {
        Box::pin(async move {
            match self.job(Job::FetchAll(fetch)).await {
                Done::All(hits) => Ok(hits),
                _ => Err(Abort::BadRequest),
            }
        })
    }

    fn gather(&mut self, gather: Gather) -> Local<'_, Result<Result<Vec<Group>, SqlError>, Abort>> {
        Box::pin(async move {
            match self.job(Job::Gather(gather)).await {
                Done::Groups(groups) => Ok(groups),
                _ => Err(Abort::BadRequest),
            }
        })
    }
}

/// Which outputs of a round belong to a slot.
enum Share {
    Reads(usize),
    Locked(usize),
    Puts(usize),
    Changes(usize),
}

/// Carries out the steps for which lanes wait.
async fn round(txn: &mut (dyn Transact + '_), slots: &[Slot], ends: bool) -> Result<(), Abort> {
    let mut batch = Batch::default();
    let mut shares: Vec<(&Slot, Share)> = Vec::with_capacity(slots.len());
    for slot in slots {
        let done = match slot.job.take() {
            None => continue,
            Some(Job::FetchAll(fetch)) => Done::All(txn.fetch_all(fetch).await?),
            Some(Job::Gather(gather)) => Done::Groups(txn.gather(gather).await?),
            Some(job) => {
                shares.push((slot, add(&mut batch, job)));
                continue;
            }
        };
        *slot.done.borrow_mut() = Some(done);
    }
    if shares.is_empty() {
        return Ok(());
    }
    let (mut hits, mut locked, mut befores, mut changed) = txn.batch(batch, ends).await?;
    for (slot, share) in shares {
        let done = match share {
            Share::Reads(count) => Done::Hits(hits.drain(..count).collect()),
            Share::Locked(count) => Done::Hits(locked.drain(..count).collect()),
            Share::Puts(count) => Done::Befores(befores.drain(..count).collect()),
            Share::Changes(count) => Done::Changed(changed.drain(..count).collect()),
        };
        *slot.done.borrow_mut() = Some(done);
    }
    Ok(())
}

fn add(batch: &mut Batch, job: Job) -> Share {
    match job {
        Job::Fetch(fetches, RowLock::None) => {
            let count = fetches.len();
            batch.reads.extend(fetches);
            Share::Reads(count)
        }
        Job::Fetch(fetches, lock) => {
            let count = fetches.len();
            batch.locked.extend(fetches.into_iter().map(|fetch| FetchForUpdate(fetch, lock)));
            Share::Locked(count)
        }
        Job::Put(puts) => {
            let count = puts.len();
            batch.puts.extend(puts);
            Share::Puts(count)
        }
        Job::Change(changes) => {
            let count = changes.len();
            batch.changes.extend(changes);
            Share::Changes(count)
        }
        // These are carried out by themselves.
        Job::FetchAll(_) | Job::Gather(_) => Share::Reads(0),
    }
}

/// Whether a statement has at most one round of steps, none of them over all rows.
fn has_one_round(statement: &Statement) -> bool {
    match statement {
        Statement::Update(update) => change::is_in_place(update),
        Statement::Insert(insert) => {
            let InsertRows::Values(rows) = &insert.rows else { return false };
            insert.conflict.is_none()
                && insert.references.is_empty()
                && rows.len() * (1 + insert.table.indexes.len()) <= PHASE
        }
        Statement::Select(select) => match select.sources.as_slice() {
            [] => true,
            [joined] => match joined.source.path {
                Path::Keys(_) | Path::Ranges { index: None, .. } => true,
                Path::Values(_) | Path::Series { .. } => true,
                Path::Ranges { .. } | Path::All | Path::Part(_) => false,
            },
            _ => false,
        },
        Statement::Delete(_) => false,
    }
}

/// Stores the values that a statement leaves in parameters.
fn give(flow: &Flow, statement: u16, outcome: &Outcome, bound: &mut Arc<Bound>) -> Result<(), SqlError> {
    for given in flow.given.iter().filter(|given| given.statement == statement) {
        let column = |column: u16| {
            let value = outcome.rows.first().and_then(|row| row.get(usize::from(column)));
            value.cloned().unwrap_or(Datum::Null)
        };
        let value = match given.what {
            GivenValue::Only(_) if outcome.rows.len() > 1 => {
                let message = "more than one row returned by a subquery used as an expression";
                return Err(SqlError::new(SqlState::CARDINALITY, message));
            }
            GivenValue::Only(at) | GivenValue::First(at) => column(at),
            GivenValue::Exists => Datum::Bool(!outcome.rows.is_empty()),
        };
        if let Some(param) = Arc::make_mut(bound).params.get_mut(usize::from(given.param)) {
            *param = value;
        }
    }
    Ok(())
}
