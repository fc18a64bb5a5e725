//! The compiler and the query engine, over the naive model of an engine.

use crate::script::Answer;
use compiler::Compiled;
use compiler::ddl::Stores;
use compiler::general::{Facts, General, Plan, Rows, Scan, Started};
use queries::Queries;
use sql::bound::Bound;
use sql::catalog::{Catalog, Store};
use sql::database::{Answer as Reply, Call, Request};
use sql::datetime::zone::Zone;
use sql::program::Outcome;
use sql::{Database, Datum, Program, SqlError, SqlType};
use std::sync::Arc;
use workload::oracle::Oracle;

const STORES: u16 = 32;

/// A plan with its parameters, and the rows of its scans.
type Begun = (Box<dyn Started>, Vec<Rows>);

pub struct Atoll {
    pub catalog: Arc<Catalog>,
    pub queries: Queries,
    oracle: Oracle<Database>,
    statement: i64,
    /// The number that a sequence gave last: there is one for all.
    number: i64,
    runtime: tokio::runtime::Runtime,
}

impl Atoll {
    pub fn new() -> Atoll {
        let mut oracle = Oracle::new(Database { sites: 8, stores: STORES }, 1);
        oracle.load().expect("an empty database");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (catalog, queries) = (Arc::default(), Queries::default());
        Atoll { catalog, queries, oracle, statement: 1, number: 0, runtime }
    }

    /// The rows of an answer as texts, or the code of an error.
    pub fn run(&mut self, text: &str) -> Answer {
        let answer = self.rows(text).map_err(|error| error.state.as_str().to_owned());
        let value = |ty: &SqlType, value: &Datum| match value {
            Datum::Null => "NULL".to_owned(),
            value => {
                let text = sql::text::to_string(*ty, value).trim_end_matches(' ').to_owned();
                if text.is_empty() { "(empty)".into() } else { text }
            }
        };
        answer.map(|(types, rows)| {
            let row =
                |row: &Vec<Datum>| types.iter().zip(row).map(|(ty, v)| value(ty, v)).collect::<Vec<_>>();
            rows.iter().map(|values| row(values).join(" ")).collect()
        })
    }

    pub fn rows(&mut self, text: &str) -> Result<(Vec<SqlType>, Vec<Vec<Datum>>), SqlError> {
        let parsed = compiler::parse(text)?.pop().expect("a statement");
        match compiler::compile(&self.catalog, &parsed, &[])? {
            Compiled::Query(query) => {
                let types = query.output.iter().map(|field| field.ty).collect();
                Ok((types, self.program(query.program, vec![Datum::Null; query.fills.len()])?))
            }
            Compiled::Define(definition) => {
                let used = self.catalog.stores();
                let free = (1..STORES).map(Store).filter(|store| !used.contains(store)).collect();
                let mut stores = Stores { free };
                self.catalog = Arc::new(definition.apply(&self.catalog, &mut stores)?.catalog);
                Ok((Vec::new(), Vec::new()))
            }
            _ => {
                let plan = self.queries.plan(&self.catalog, &parsed, &[])?.expect("a plan");
                let types = plan.columns().iter().map(|column| column.field.ty).collect();
                let rows = self.staged(plan.as_ref())?;
                match plan.each() {
                    Some(each) => Ok((types, self.change(each, rows)?)),
                    None => Ok((types, rows)),
                }
            }
        }
    }

    /// The rows that a plan gives after the parts that write: all reads come before all changes.
    fn staged(&mut self, plan: &dyn Plan) -> Result<Vec<Vec<Datum>>, SqlError> {
        let mut begun = Vec::new();
        for part in plan.parts() {
            begun.push(self.begun(part.rows.as_ref(), Vec::new())?);
        }
        let (mut last, rows) = self.begun(plan, Vec::new())?;
        let mut given = Vec::new();
        for (part, (mut started, rows)) in plan.parts().iter().zip(begun) {
            started.give(&given);
            let rows = self.runtime.block_on(started.finish(rows))?;
            given.push(self.change(&part.each, rows)?);
        }
        last.give(&given);
        self.runtime.block_on(last.finish(rows))
    }

    fn begun(&mut self, plan: &dyn Plan, params: Vec<Datum>) -> Result<Begun, SqlError> {
        let started = plan.start(Facts::default(), params)?;
        let scans = started.scans().to_vec();
        let rows = scans.into_iter().map(|scan| self.scan(scan)).collect::<Result<Vec<_>, _>>()?;
        Ok((started, rows))
    }

    /// A statement for each row.
    fn change(&mut self, each: &compiler::Query, rows: Vec<Vec<Datum>>) -> Result<Vec<Vec<Datum>>, SqlError> {
        let mut given = Vec::new();
        for mut row in rows {
            for fill in &each.fills {
                row.push(match fill {
                    compiler::Fill::Next(_) => {
                        self.number += 1;
                        Datum::Int(self.number)
                    }
                    _ => Datum::Null,
                });
            }
            given.extend(self.program(Arc::clone(&each.program), row)?);
        }
        Ok(given)
    }

    fn scan(&mut self, scan: Scan) -> Result<Vec<Vec<Datum>>, SqlError> {
        let (mut rows, mut rest) = (Vec::new(), Some(Vec::new()));
        while let Some(place) = rest.take() {
            let mut params = scan.params.clone();
            params.extend(scan.in_parts.then_some(Datum::Bytes(place)));
            let outcome = self.outcome(Arc::clone(&scan.program), params)?;
            rows.extend(outcome.rows);
            rest = outcome.rest;
        }
        Ok(rows)
    }

    fn program(&mut self, program: Arc<Program>, params: Vec<Datum>) -> Result<Vec<Vec<Datum>>, SqlError> {
        Ok(self.outcome(program, params)?.rows)
    }

    fn outcome(&mut self, program: Arc<Program>, params: Vec<Datum>) -> Result<Outcome, SqlError> {
        self.statement += 1;
        let bound = Arc::new(Bound { params, now: 0, zone: Zone::UTC });
        let call = Call { program, bound, statement: self.statement };
        match self.oracle.submit(&Request::Once(call)).expect("the model aborts nothing") {
            Reply::Outcomes(mut outcomes) => Ok(outcomes.pop().unwrap_or_default()),
            Reply::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }
}
