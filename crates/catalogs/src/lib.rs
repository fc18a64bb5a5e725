//! The system catalogs: `pg_catalog` and `information_schema`, and the queries on them.
//!
//! ```text
//!   text --> bind: names and types --> plan --> run --> rows
//!                    |                           |
//!              relations: columns          relations: rows, from the database's catalog
//! ```
//!
//! Clients ask the catalogs in PostgreSQL's own dialect: joins, queries in expressions, arrays,
//! regular expressions, casts to `regclass`, functions that write definitions. The rows are those
//! of the catalog in memory, some thousand at most. So this crate has an evaluator of its own, over
//! values in memory. It does not read tables of users: those have an engine that is made for them.
//!
//! A query is one on the catalogs if all its relations are, and if it names at least one of them or
//! a function of theirs.

#![forbid(unsafe_code)]
#![allow(clippy::result_large_err)]

mod bind;
mod functions;
mod plan;
mod relations;
mod run;
mod system;
mod value;

use bind::Binder;
use compiler::general::{Answer, Column, Facts, General, Plan, Rows, Scan, Started};
use compiler::{Field, Parsed};
use plan::Query;
use relations::{Relations, World};
use sql::catalog::{Catalog, Oid};
use sql::{Datum, SqlError, SqlType};
use sqlparser::ast;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use value::{Type, Value};

/// The planner of queries on the catalogs.
#[derive(Clone, Copy, Debug)]
pub struct Catalogs;

impl General for Catalogs {
    fn plan(
        &self,
        catalog: &Arc<Catalog>,
        statement: &Parsed,
        given: &[Option<SqlType>],
    ) -> Result<Option<Arc<dyn Plan>>, SqlError> {
        let Some(ast::Statement::Query(query)) = statement.tree() else { return Ok(None) };
        if !is_of_catalogs(query) {
            return Ok(None);
        }
        let mut params = vec![Type::UNKNOWN; statement.params()];
        for (ty, given) in params.iter_mut().zip(given) {
            *ty = given.map_or(Type::UNKNOWN, |given| Type(relations::number_of(given).0));
        }
        let mut binder = Binder::new(Relations::all(), params);
        let query = compiler::on_its_stack(catalog, statement, || binder.statement(query))?;
        let params: Vec<SqlType> = binder.params.iter().map(|ty| ty.sql().0).collect();
        let column = |column: &plan::Output| {
            let (ty, number) = column.ty.sql();
            Column { field: Field { name: column.name.clone(), ty, column: None }, number }
        };
        let columns = query.columns.iter().map(column).collect();
        let types = query.columns.iter().map(|column| column.ty).collect();
        let catalog = Arc::clone(catalog);
        Ok(Some(Arc::new(Planned { query: Arc::new(query), catalog, params, columns, types })))
    }
}

/// Whether all relations of the query are of the catalogs, and it names one of them or one of their
/// functions.
fn is_of_catalogs(query: &ast::Query) -> bool {
    struct Seen {
        with: Vec<String>,
        system: bool,
        other: bool,
    }
    impl ast::Visitor for Seen {
        type Break = ();

        fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
            for table in query.with.iter().flat_map(|with| &with.cte_tables) {
                self.with.push(bind::folded(&table.alias.name));
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_relation(&mut self, name: &ast::ObjectName) -> ControlFlow<()> {
            let mut parts = bind::parts(name);
            let name = parts.pop().unwrap_or_default();
            let schema = parts.pop();
            let is_function = functions::find(&name, &[Type::TEXT]).is_some();
            if schema.is_none() && self.with.contains(&name) {
                return ControlFlow::Continue(());
            }
            match Relations::all().find(schema.as_deref(), &name) {
                Some(_) => self.system = true,
                None if matches!(schema.as_deref(), Some("pg_catalog" | "information_schema")) => {
                    self.system = true;
                }
                None if is_function => {}
                None => self.other = true,
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
            match expr {
                ast::Expr::Function(function) => {
                    let name = bind::parts(&function.name).pop().unwrap_or_default();
                    self.system |= functions::is_of_catalogs(&name);
                }
                ast::Expr::Cast { data_type: ast::DataType::Regclass, .. } => self.system = true,
                ast::Expr::Cast { data_type, .. } => {
                    self.system |=
                        bind::type_named(&data_type.to_string()).is_ok_and(Type::is_name_of_object);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut seen = Seen { with: Vec::new(), system: false, other: false };
    let _ = ast::Visit::visit(query, &mut seen);
    seen.system && !seen.other
}

struct Planned {
    query: Arc<Query>,
    catalog: Arc<Catalog>,
    params: Vec<SqlType>,
    columns: Vec<Column>,
    types: Vec<Type>,
}

impl Plan for Planned {
    fn params(&self) -> &[SqlType] {
        &self.params
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn tables(&self) -> &[Oid] {
        &[]
    }

    fn start(&self, facts: Facts, params: Vec<Datum>) -> Result<Box<dyn Started>, SqlError> {
        let params = params.iter().zip(&self.params).map(|(value, ty)| Value::of_datum(value, *ty)).collect();
        Ok(Box::new(Begun {
            query: Arc::clone(&self.query),
            catalog: Arc::clone(&self.catalog),
            types: self.types.clone(),
            facts,
            params,
        }))
    }

    fn describe(&self) -> Result<Vec<String>, SqlError> {
        Ok(vec!["System catalogs: computed by the server from its own catalog".into()])
    }
}

struct Begun {
    query: Arc<Query>,
    catalog: Arc<Catalog>,
    types: Vec<Type>,
    facts: Facts,
    params: Vec<Value>,
}

/// Ends the work when it is dropped.
struct Over(Arc<AtomicBool>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Started for Begun {
    fn scans(&self) -> &[Scan] {
        &[]
    }

    fn finish(self: Box<Self>, _: Vec<Rows>) -> Answer {
        Box::pin(async move {
            let is_over = Arc::new(AtomicBool::new(false));
            let _over = Over(Arc::clone(&is_over));
            let work = tokio::task::spawn_blocking(move || self.rows(&is_over));
            work.await.unwrap_or_else(|error| {
                Err(SqlError::new(sql::SqlState::INTERNAL, format!("the catalogs' query has ended: {error}")))
            })
        })
    }
}

impl Begun {
    fn rows(&self, is_over: &AtomicBool) -> Result<Rows, SqlError> {
        let world = World { relations: Relations::all(), catalog: &self.catalog, facts: &self.facts };
        let run = run::Run::new(&world, &self.params, is_over);
        let rows = run.rows(&self.query)?;
        let shown = |value: &Value, ty: Type| match value {
            value if ty.is_name_of_object() && !value.is_null() => {
                Datum::Text(system::object_name(&world, value, ty))
            }
            value => value.datum(ty),
        };
        let row =
            |row: &Vec<Value>| row.iter().zip(&self.types).map(|(value, ty)| shown(value, *ty)).collect();
        Ok(rows.iter().map(row).collect())
    }
}
