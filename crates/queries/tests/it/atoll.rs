//! The compiler and the query engine, over the naive model of an engine.

use crate::script::Answer;
use compiler::Compiled;
use compiler::ddl::Stores;
use compiler::general::{Facts, General, Plan};
use queries::Queries;
use sql::catalog::{Catalog, Store};
use sql::database::{Answer as Reply, Call, Request};
use sql::{Database, Datum, Program, SqlError, SqlType};
use std::sync::Arc;
use workload::oracle::Oracle;

const STORES: u16 = 32;

pub struct Atoll {
    pub catalog: Arc<Catalog>,
    pub queries: Queries,
    oracle: Oracle<Database>,
    statement: i64,
    runtime: tokio::runtime::Runtime,
}

impl Atoll {
    pub fn new() -> Atoll {
        let mut oracle = Oracle::new(Database { sites: 8, stores: STORES }, 1);
        oracle.load().expect("an empty database");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (catalog, queries) = (Arc::default(), Queries::default());
        Atoll { catalog, queries, oracle, statement: 1, runtime }
    }

    /// The rows of an answer as texts, or the code of an error.
    pub fn run(&mut self, text: &str) -> Answer {
        let answer = self.rows(text).map_err(|error| error.state.as_str().to_owned());
        let value = |ty: &SqlType, value: &Datum| match value {
            Datum::Null => "NULL".to_owned(),
            value => {
                Some(sql::text::to_string(*ty, value)).filter(|t| !t.is_empty()).unwrap_or("(empty)".into())
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
                Ok((types, self.plan(plan.as_ref(), Vec::new())?))
            }
        }
    }

    /// Carries a plan out.
    pub fn plan(&mut self, plan: &dyn Plan, params: Vec<Datum>) -> Result<Vec<Vec<Datum>>, SqlError> {
        let started = plan.start(Facts::default(), params)?;
        let scans: Vec<_> =
            started.scans().iter().map(|s| (Arc::clone(&s.program), s.params.clone())).collect();
        let rows = scans.into_iter().map(|(program, params)| self.program(program, params));
        let rows = rows.collect::<Result<Vec<_>, _>>()?;
        self.runtime.block_on(started.finish(rows))
    }

    fn program(&mut self, program: Arc<Program>, params: Vec<Datum>) -> Result<Vec<Vec<Datum>>, SqlError> {
        self.statement += 1;
        let call = Call { program, params, now: 0, statement: self.statement };
        match self.oracle.submit(&Request::Once(call)).expect("the model aborts nothing") {
            Reply::Outcomes(mut outcomes) => {
                Ok(outcomes.pop().map(|outcome| outcome.rows).unwrap_or_default())
            }
            Reply::Failed(error) => Err(error),
            other => panic!("{other:?}"),
        }
    }
}
