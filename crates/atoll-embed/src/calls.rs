//! Calls of procedures in Rust: what a call needs of the catalog, and the guards of its tables.

use crate::{Error, Procedure};
use compiler::compiled::Compiled;
use server::deployed::Deployed;
use server::engine::{Engine, refusal};
use server::guards::Hold;
use server::shared::{Registered, Shared, now};
use sql::catalog::{Catalog, Oid};
use sql::database::{Answer, Request};
use sql::native::phase::{decode, encode};
use sql::native::{NativeCall, NativeTable};
use sql::{Database, Program, SqlError, SqlState};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a call waits for a definition that changes its tables.
const GUARD: Duration = Duration::from_secs(30);
/// How often a call is tried again that the engine has ended, at most.
const TRIES: u32 = 20;

/// What a procedure needs of one version of the catalog.
struct Plan {
    version: u64,
    tables: Arc<Vec<NativeTable>>,
    programs: Arc<Vec<Arc<Program>>>,
    oids: Vec<Oid>,
}

#[derive(Default)]
pub(crate) struct Calls {
    plans: Mutex<HashMap<&'static str, Arc<Plan>>>,
    /// Numbers under which calls hold guards, those that no call has at present.
    free: Mutex<Vec<Registered>>,
}

/// The guards of one call.
struct Held<'c> {
    calls: &'c Calls,
    shared: &'c Shared<Deployed>,
    id: Option<Registered>,
    oids: &'c [Oid],
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.shared.guards.release(id.id, self.oids.iter().copied());
            self.calls.free.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
    }
}

impl Calls {
    /// Gives the numbers of all calls back. None is under way.
    pub fn end(&self, shared: &Shared<Deployed>) {
        let free = std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner));
        free.iter().for_each(|id| shared.unregister(id.id));
    }

    pub async fn call<P: Procedure>(
        &self,
        shared: &Shared<Deployed>,
        database: &Database,
        procedure: &P,
    ) -> Result<P::Output, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_call(shared, database, procedure).await {
                Err(error) if error.is_transient() && tries < TRIES => {
                    tokio::time::sleep(Duration::from_micros(50 << tries.min(8))).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn try_call<P: Procedure>(
        &self,
        shared: &Shared<Deployed>,
        database: &Database,
        procedure: &P,
    ) -> Result<P::Output, Error> {
        loop {
            let plan = self.plan::<P>(&shared.catalog())?;
            let held = self.hold(shared, &plan.oids).await?;
            if shared.catalog().version != plan.version {
                continue;
            }
            let mut call = NativeCall {
                procedure: P::NAME.to_owned(),
                args: encode(procedure)?,
                tables: Arc::clone(&plan.tables),
                programs: Arc::clone(&plan.programs),
                places: Vec::new(),
                now: now(),
                statement: shared.statement(),
            };
            call.places = database.places_of(procedure, &call);
            let answer = shared.engine.once(Request::Native(Box::new(call))).await?;
            drop(held);
            return match answer {
                Answer::Native(said) => Ok(decode(&said)?),
                other => Err(refusal(other).into()),
            };
        }
    }

    async fn hold<'c>(&'c self, shared: &'c Shared<Deployed>, oids: &'c [Oid]) -> Result<Held<'c>, Error> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let id = free.unwrap_or_else(|| shared.register(0));
        let number = id.id;
        let held = Held { calls: self, shared, id: Some(id), oids };
        for oid in oids {
            shared.guards.take(number, *oid, Hold::Shared, GUARD).await?;
        }
        Ok(held)
    }

    fn plan<P: Procedure>(&self, catalog: &Catalog) -> Result<Arc<Plan>, Error> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = plans.get(P::NAME).filter(|plan| plan.version == catalog.version) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(plan::<P>(catalog)?);
        plans.insert(P::NAME, Arc::clone(&plan));
        Ok(plan)
    }
}

fn plan<P: Procedure>(catalog: &Catalog) -> Result<Plan, SqlError> {
    let (mut oids, mut tables, mut programs) = (Vec::new(), Vec::new(), Vec::new());
    for name in P::TABLES {
        let (oid, table) = NativeTable::of(catalog, name)?;
        oids.push(oid);
        tables.push(table);
    }
    for text in P::STATEMENTS {
        let query = statement(catalog, text)?;
        oids.extend(query.reads.iter().chain(&query.writes));
        programs.push(query.program);
    }
    oids.sort_unstable();
    oids.dedup();
    Ok(Plan { version: catalog.version, tables: Arc::new(tables), programs: Arc::new(programs), oids })
}

/// A statement of a procedure, compiled.
fn statement(catalog: &Catalog, text: &str) -> Result<compiler::compiled::Query, SqlError> {
    let mut parsed = compiler::parse(text)?;
    let (Some(parsed), true) = (parsed.pop(), parsed.is_empty()) else {
        let message = format!("a statement of a procedure has one command: {text}");
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
    };
    match compiler::compile(catalog, &parsed, &[])? {
        Compiled::Query(query) if query.fills.is_empty() => Ok(query),
        Compiled::Query(_) => Err(SqlError::unsupported(
            &format!("a value of a sequence, a setting or the user in a procedure's statement ({text})"),
            Some("Give it to the procedure as an argument."),
        )),
        _ => Err(SqlError::unsupported(
            &format!("this statement in a procedure ({text})"),
            Some("Use SELECT, INSERT, UPDATE or DELETE, by keys and joins."),
        )),
    }
}
