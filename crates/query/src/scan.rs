//! Tables as the engine sees them, and the programs that read their rows.

use crate::error::{internal, told};
use crate::functions::{Meaning, Scalar};
use crate::values;
use async_trait::async_trait;
use compiler::Compiled;
use compiler::general::{Rows, Scan};
use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{
    BinaryExpr, Expr, LogicalPlan, Operator, TableProviderFilterPushDown, TableScan, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use sql::catalog::{Catalog, Table};
use sql::{Datum, SqlType};
use std::sync::Arc;

/// A table without rows: what a plan is made for.
#[derive(Debug)]
pub struct Shape {
    name: String,
    schema: SchemaRef,
}

impl Shape {
    pub fn of(table: &Table) -> Shape {
        let fields = table.visible().map(|(_, column)| values::field(&column.name, column.ty));
        Shape { name: table.name.clone(), schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())) }
    }
}

#[async_trait]
impl TableProvider for Shape {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Err(internal("a table without its rows"))
    }

    /// The rows are filtered where they are stored, and again by the engine.
    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| match condition(filter) {
            Some(_) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }
}

/// The rows of a scan, already cut to its columns.
#[derive(Debug)]
struct Loaded {
    whole: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[async_trait]
impl TableProvider for Loaded {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.whole)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.whole.project(columns)?),
            None => Arc::clone(&self.whole),
        };
        Ok(MemorySourceConfig::try_new_exec(&[self.batches.clone()], schema, None)?)
    }
}

/// The scans of an optimized plan, in the order in which [`with_rows`] meets them.
///
/// # Errors
/// When a scan cannot be compiled.
pub fn scans(catalog: &Catalog, plan: &LogicalPlan) -> Result<Vec<Scan>> {
    let mut scans = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            scans.push(program(catalog, scan)?);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(scans)
}

fn shape(scan: &TableScan) -> Result<Arc<dyn TableProvider>> {
    source_as_provider(&scan.source)
}

fn program(catalog: &Catalog, scan: &TableScan) -> Result<Scan> {
    let provider = shape(scan)?;
    let shape = (provider.as_ref() as &dyn std::any::Any)
        .downcast_ref::<Shape>()
        .ok_or_else(|| internal("a table of another kind"))?;
    let columns: Vec<String> = columns_of(scan).map(|at| quoted(shape.schema.field(at).name())).collect();
    let columns = if columns.is_empty() { "true".to_owned() } else { columns.join(", ") };
    let all = format!("SELECT {columns} FROM {}", quoted(&shape.name));
    let conditions: Vec<String> = scan.filters.iter().filter_map(condition).collect();
    let program = match conditions.is_empty() {
        true => compiled(catalog, &all)?,
        // Without the conditions it is the same query, with more rows to read.
        false => compiled(catalog, &format!("{all} WHERE {}", conditions.join(" AND ")))
            .or_else(|_| compiled(catalog, &all))?,
    };
    Ok(Scan { table: shape.name.clone(), program })
}

fn compiled(catalog: &Catalog, text: &str) -> Result<sql::Program> {
    let parsed = compiler::parse(text).map_err(told)?.pop().ok_or_else(|| internal("an empty scan"))?;
    match compiler::compile(catalog, &parsed, &[]).map_err(told)? {
        Compiled::Query(query) => Ok(query.program),
        _ => Err(internal("a scan that is no query")),
    }
}

fn columns_of(scan: &TableScan) -> impl Iterator<Item = usize> {
    let all = (0..scan.source.schema().fields().len()).collect();
    scan.projection.clone().unwrap_or(all).into_iter()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A condition in SQL, if it is one that keys and steps may take.
fn condition(expr: &Expr) -> Option<String> {
    Some(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            format!("({} {op} {})", condition(left)?, condition(right)?)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let op = match op {
                Operator::Eq => "=",
                Operator::NotEq => "<>",
                Operator::Lt => "<",
                Operator::LtEq => "<=",
                Operator::Gt => ">",
                Operator::GtEq => ">=",
                _ => return None,
            };
            match (column(left), column(right)) {
                (Some(left), None) => format!("{left} {op} {}", literal(right)?),
                (None, Some(right)) => format!("{} {op} {right}", literal(left)?),
                _ => return None,
            }
        }
        Expr::Not(inner) => format!("NOT ({})", condition(inner)?),
        Expr::IsNull(inner) => format!("{} IS NULL", column(inner)?),
        Expr::IsNotNull(inner) => format!("{} IS NOT NULL", column(inner)?),
        Expr::InList(list) => {
            let items = list.list.iter().map(literal).collect::<Option<Vec<_>>>()?;
            let not = if list.negated { "NOT " } else { "" };
            format!("{} {not}IN ({})", column(&list.expr)?, items.join(", "))
        }
        _ => return None,
    })
}

/// A column, by itself or as a wider number.
fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Column(column) => Some(quoted(&column.name)),
        Expr::ScalarFunction(function) => {
            let scalar = function.func.inner().downcast_ref::<Scalar>()?;
            match (scalar.meaning(), function.args.as_slice()) {
                (Meaning::Cast { to: SqlType::Int4 | SqlType::Int8, explicit: false }, [inner]) => {
                    column(inner)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn literal(expr: &Expr) -> Option<String> {
    let Expr::Literal(value, meta) = expr else { return None };
    // Numbers that are to be compared are not written as they are stored.
    if matches!(value, ScalarValue::LargeBinary(_)) {
        return None;
    }
    let field = datafusion::arrow::datatypes::Field::new("", value.data_type(), true);
    let field = meta.as_ref().map_or(field.clone(), |meta| meta.add_to_field(field));
    let ty = values::sql_type(&field)?;
    Some(match values::of_scalar(value).ok()? {
        Datum::Null => return None,
        Datum::Int(v) => format!("({v})"),
        Datum::Bool(v) => v.to_string(),
        value => format!("'{}'", sql::text::to_string(ty, &value).replace('\'', "''")),
    })
}

/// The plan with the rows of its scans. `grow` is told the bytes of each.
///
/// # Errors
/// When the rows do not fit the plan, or are too many.
pub fn with_rows(
    plan: LogicalPlan,
    rows: Vec<Rows>,
    mut grow: impl FnMut(usize) -> Result<()>,
) -> Result<LogicalPlan> {
    let mut rows = rows.into_iter();
    let plan = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let rows = rows.next().ok_or_else(|| internal("a scan without rows"))?;
        let batches = batches(&scan, rows, &mut grow)?;
        scan.source = provider_as_source(Arc::new(Loaded { whole: scan.source.schema(), batches }));
        scan.filters.clear();
        Ok(Transformed::new(LogicalPlan::TableScan(scan), true, TreeNodeRecursion::Continue))
    })?;
    Ok(plan.data)
}

/// Rows of an array.
const BATCH: usize = 8192;

fn batches(
    scan: &TableScan,
    rows: Rows,
    grow: &mut impl FnMut(usize) -> Result<()>,
) -> Result<Vec<RecordBatch>, DataFusionError> {
    let columns: Vec<usize> = columns_of(scan).collect();
    let schema = Arc::new(scan.source.schema().project(&columns)?);
    let mut batches = Vec::with_capacity(rows.len().div_ceil(BATCH));
    for chunk in rows.chunks(BATCH) {
        let mut arrays = Vec::with_capacity(columns.len());
        for (at, field) in schema.fields().iter().enumerate() {
            let ty = values::sql_type(field).ok_or_else(|| internal("a column's type"))?;
            arrays.push(values::array(ty, chunk.iter().map(|row| row.get(at).unwrap_or(&Datum::Null)))?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(chunk.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options)?;
        grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(batches)
}
