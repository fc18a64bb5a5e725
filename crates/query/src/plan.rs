//! A statement planned, and carried out once its rows are there.

use crate::aggregates::Many;
use crate::error::{internal, of_engine, told};
use crate::functions::{Meaning, Scalar};
use crate::operators::{self, Operators};
use crate::rewrite::{Rewriter, name_of};
use crate::scan::{self, Shape};
use crate::values;
use compiler::general::{Answer, Column, Facts, Plan, Rows, Scan, Started};
use compiler::{Field, Parsed};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use datafusion::common::Result;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;
use datafusion::sql::parser::Statement as Planable;
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::{FutureExt, StreamExt};
use sql::catalog::{Catalog, Oid};
use sql::{Datum, SqlError, SqlState, SqlType};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError};

/// Functions of one row, by their names in SQL.
const FUNCTIONS: &[&str] = &[
    "abs",
    "ceil",
    "ceiling",
    "floor",
    "round",
    "trunc",
    "sign",
    "sqrt",
    "exp",
    "ln",
    "length",
    "char_length",
    "character_length",
    "octet_length",
    "lower",
    "upper",
    "substring",
    "substr",
    "btrim",
    "ltrim",
    "rtrim",
    "position",
    "strpos",
    "replace",
    "repeat",
    "left",
    "right",
    "lpad",
    "rpad",
    "reverse",
    "split_part",
    "starts_with",
    "md5",
    "chr",
    "ascii",
    "to_hex",
    "date_trunc",
    "age",
    "make_date",
    "random",
    "gen_random_uuid",
    "jsonb_typeof",
    "hashtext",
    "coalesce",
    "greatest",
    "least",
    "nullif",
    "mod",
    "power",
    "pow",
    "concat",
    "to_char",
    "extract",
    "date_part",
    "translate",
    "initcap",
    "cbrt",
    "log",
    "div",
    "trim_scale",
    "concat_ws",
    "to_timestamp",
    "jsonb_array_length",
];

/// Aggregates and window functions of the engine that have PostgreSQL's meaning.
const COUNT: &str = "count";
const WINDOWS: &[&str] = &[
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

pub struct Planned {
    text: String,
    catalog: Arc<Catalog>,
    params: Vec<SqlType>,
    columns: Vec<Column>,
    tables: Vec<Oid>,
    memory: usize,
}

/// Plans a statement for a catalog.
///
/// # Errors
/// As [`compiler::general::General::plan`].
pub fn plan(
    catalog: &Arc<Catalog>,
    statement: &Parsed,
    given: &[Option<SqlType>],
    memory: usize,
) -> Result<Arc<dyn Plan>, SqlError> {
    let mut params = vec![SqlType::Unknown; statement.params()];
    for (ty, given) in params.iter_mut().zip(given) {
        *ty = given.unwrap_or(SqlType::Unknown);
    }
    let facts = Facts::default();
    let made = loop {
        let made = logical(catalog, statement.text(), (&mut params, None), &facts)?;
        if made.decided.is_empty() {
            break made;
        }
        for (name, ty) in made.decided {
            let at = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()).unwrap_or(0);
            if let Some(param) = at.checked_sub(1).and_then(|at| params.get_mut(at))
                && *param == SqlType::Unknown
            {
                *param = ty;
            }
        }
    };
    if let Some(at) = params.iter().position(|ty| *ty == SqlType::Unknown) {
        let message = format!("could not determine data type of parameter ${}", at + 1);
        return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, message));
    }
    let mut columns = Vec::new();
    for field in made.plan.schema().fields() {
        let unsupported = || {
            let what = format!("a column of the type {}", field.data_type());
            SqlError::unsupported(&what, Some("Select its parts."))
        };
        let ty = match values::sql_type(field).ok_or_else(unsupported)? {
            SqlType::Unknown => SqlType::Text,
            ty => ty,
        };
        let field = Field { name: name_of(field.name()).to_owned(), ty, column: None };
        columns.push(Column { field, number: None });
    }
    let text = statement.text().to_owned();
    Ok(Arc::new(Planned { text, catalog: Arc::clone(catalog), params, columns, tables: made.tables, memory }))
}

struct Made {
    state: SessionState,
    plan: LogicalPlan,
    tables: Vec<Oid>,
    /// Types of parameters that the statement asks for.
    decided: Vec<(String, SqlType)>,
}

fn base() -> &'static SessionState {
    static BASE: OnceLock<SessionState> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut config = SessionConfig::new()
            .with_target_partitions(1)
            .with_default_catalog_and_schema("atoll", "public")
            .with_create_default_catalog_and_schema(true)
            .with_information_schema(false);
        let options = config.options_mut();
        options.sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
        options.sql_parser.map_string_types_to_utf8view = false;
        options.sql_parser.default_null_ordering = "nulls_max".into();
        let mut functions: Vec<_> =
            FUNCTIONS.iter().map(|name| Scalar::udf(name, Meaning::Function((*name).to_owned()))).collect();
        functions.sort_by_key(|function| function.name().to_owned());
        let mut aggregates = Many::all();
        aggregates.extend(
            datafusion::functions_aggregate::all_default_aggregate_functions()
                .into_iter()
                .filter(|function| function.name() == COUNT),
        );
        let windows = datafusion::functions_window::all_default_window_functions().into_iter();
        let windows = windows.filter(|function| WINDOWS.contains(&function.name())).collect();
        SessionStateBuilder::new()
            .with_config(config)
            .with_scalar_functions(functions)
            .with_aggregate_functions(aggregates)
            .with_window_functions(windows)
            .build()
    })
}

/// The plan of a text, not optimized.
fn logical(
    catalog: &Arc<Catalog>,
    text: &str,
    (params, values): (&mut Vec<SqlType>, Option<&[Datum]>),
    facts: &Facts,
) -> Result<Made, SqlError> {
    let syntax = |error: datafusion::sql::sqlparser::parser::ParserError| {
        SqlError::new(SqlState::SYNTAX_ERROR, error.to_string())
    };
    let parser = Parser::new(&PostgreSqlDialect {}).with_recursion_limit(400);
    let mut statement =
        parser.try_with_sql(text).and_then(|mut parser| parser.parse_statement()).map_err(syntax)?;
    if !matches!(statement, Statement::Query(_)) {
        return Err(SqlError::unsupported(
            "a statement of this kind with joins, groups or sub-queries",
            None,
        ));
    }
    let mut rewriter = Rewriter { types: params, values, facts, functions: BTreeMap::new() };
    rewriter.statement(&mut statement)?;
    let functions: Vec<_> = rewriter.functions.into_values().collect();
    of_statement(catalog, statement, functions).map_err(|error| of_engine(&error))
}

fn of_statement(
    catalog: &Arc<Catalog>,
    statement: Statement,
    functions: Vec<Arc<datafusion::logical_expr::ScalarUDF>>,
) -> Result<Made> {
    let planner = Arc::new(Operators::default());
    let statement = Planable::Statement(Box::new(statement));
    let references = base().resolve_table_references(&statement)?;
    let schema = Arc::new(MemorySchemaProvider::new());
    let mut tables = Vec::new();
    for reference in references {
        let name = reference.table();
        let is_public = reference.schema().is_none_or(|schema| schema == "public");
        match catalog.table(name).filter(|_| is_public) {
            Some(table) => {
                tables.push(table.oid);
                schema.register_table(name.to_owned(), Arc::new(Shape::of(table)))?;
            }
            None if name.starts_with("pg_") || !is_public => {
                let what = "a system catalog in a query on other tables";
                return Err(told(SqlError::unsupported(what, Some("Query the catalog by itself."))));
            }
            None => {
                let message = format!("relation \"{name}\" does not exist");
                return Err(told(SqlError::new(SqlState::UNDEFINED_TABLE, message)));
            }
        }
    }
    tables.sort_unstable();
    tables.dedup();
    let catalogs = datafusion::catalog::MemoryCatalogProviderList::new();
    let database = datafusion::catalog::MemoryCatalogProvider::new();
    datafusion::catalog::CatalogProvider::register_schema(&database, "public", schema)?;
    datafusion::catalog::CatalogProviderList::register_catalog(&catalogs, "atoll".into(), Arc::new(database));
    let mut all: Vec<_> = base().scalar_functions().values().cloned().collect();
    all.extend(functions);
    let state = SessionStateBuilder::new_from_existing(base().clone())
        .with_catalog_list(Arc::new(catalogs))
        .with_scalar_functions(all)
        .with_expr_planners(vec![
            Arc::clone(&planner) as _,
            Arc::new(datafusion::functions_aggregate::planner::AggregateFunctionPlanner),
            Arc::new(datafusion::functions_window::planner::WindowFunctionPlanner),
        ])
        .build();
    // The tables are in memory, so nothing is waited for.
    let plan = state.statement_to_plan(statement).now_or_never();
    let plan = plan.ok_or_else(|| internal("a plan that waits"))??;
    let decided = std::mem::take(&mut *planner.decided.lock().unwrap_or_else(PoisonError::into_inner));
    let plan = if decided.is_empty() { operators::decided(plan)? } else { plan };
    Ok(Made { state, plan, tables, decided })
}

impl Plan for Planned {
    fn params(&self) -> &[SqlType] {
        &self.params
    }

    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn tables(&self) -> &[Oid] {
        &self.tables
    }

    fn start(&self, facts: Facts, params: Vec<Datum>) -> Result<Box<dyn Started>, SqlError> {
        let mut types = self.params.clone();
        let made = logical(&self.catalog, &self.text, (&mut types, Some(&params)), &facts)?;
        let told = |error| of_engine(&error);
        let plan = made.state.optimize(&made.plan).map_err(told)?;
        let scans = scan::scans(&self.catalog, &plan).map_err(told)?;
        let types = self.columns.iter().map(|column| column.field.ty).collect();
        Ok(Box::new(Begun { state: made.state, plan, scans, types, memory: self.memory }))
    }

    fn describe(&self) -> Result<Vec<String>, SqlError> {
        let params = vec![Datum::Null; self.params.len()];
        let mut types = self.params.clone();
        let made = logical(&self.catalog, &self.text, (&mut types, Some(&params)), &Facts::default())?;
        let plan = made.state.optimize(&made.plan).map_err(|error| of_engine(&error))?;
        let mut lines: Vec<String> = plan.display_indent().to_string().lines().map(str::to_owned).collect();
        for scan in scan::scans(&self.catalog, &plan).map_err(|error| of_engine(&error))? {
            lines.push(format!("Rows of {}:", scan.table));
            let inner = compiler::describe::program(&scan.program);
            lines.extend(inner.into_iter().map(|line| format!("  {line}")));
        }
        Ok(lines)
    }
}

/// A plan with its parameters, optimized.
struct Begun {
    state: SessionState,
    plan: LogicalPlan,
    scans: Vec<Scan>,
    types: Vec<SqlType>,
    memory: usize,
}

/// The threads of all queries: neither workers of an instance nor those that serve clients.
fn threads() -> Result<&'static tokio::runtime::Runtime, SqlError> {
    static THREADS: OnceLock<Option<tokio::runtime::Runtime>> = OnceLock::new();
    let made = THREADS.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).thread_name("query").enable_time().build().ok()
    });
    made.as_ref().ok_or_else(|| SqlError::new(SqlState(*b"53000"), "the query engine has no threads"))
}

/// Ends its task when it is dropped.
struct Task(tokio::task::JoinHandle<Result<Rows, SqlError>>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Started for Begun {
    fn scans(&self) -> &[Scan] {
        &self.scans
    }

    fn finish(self: Box<Self>, rows: Vec<Rows>) -> Answer {
        Box::pin(async move {
            let run = async move { self.run(rows).await.map_err(|error| of_engine(&error)) };
            let mut task = Task(threads()?.spawn(run));
            match (&mut task.0).await {
                Ok(rows) => rows,
                Err(error) => {
                    let message = format!("the query engine has ended: {error}");
                    Err(SqlError::new(SqlState::INTERNAL, message))
                }
            }
        })
    }
}

impl Begun {
    async fn run(self, rows: Vec<Rows>) -> Result<Rows> {
        let pool = Arc::new(GreedyMemoryPool::new(self.memory));
        let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime =
            RuntimeEnvBuilder::new().with_memory_pool(pool).with_disk_manager_builder(disk).build_arc()?;
        let held = MemoryConsumer::new("the rows of its tables").register(&runtime.memory_pool);
        let plan = scan::with_rows(self.plan, rows, |bytes| held.try_grow(bytes))?;
        let state = SessionStateBuilder::new_from_existing(self.state).with_runtime_env(runtime).build();
        // It is optimized already: the rows have come for the scans of this plan.
        let physical = state.query_planner().create_physical_plan(&plan, &state).await?;
        let mut stream = datafusion::physical_plan::execute_stream(physical, state.task_ctx())?;
        let result = MemoryConsumer::new("the result").register(&state.runtime_env().memory_pool);
        let mut answer = Rows::new();
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            result.try_grow(batch.get_array_memory_size())?;
            for row in 0..batch.num_rows() {
                let value = |array: &datafusion::arrow::array::ArrayRef| values::datum(array, row);
                answer.push(batch.columns().iter().map(value).collect::<Result<_>>()?);
            }
            if answer.first().is_some_and(|row| row.len() != self.types.len()) {
                return Err(internal("another number of columns than planned"));
            }
        }
        Ok(answer)
    }
}
