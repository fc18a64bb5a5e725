//! Calls of procedures and functions in SQL.
//!
//! ```text
//!   CALL p(1, $1)  -->  arguments, computed by the server  -->  inputs of the program
//!   body of p      -->  statements in phases               -->  the program, made once for each
//!                                                               version of the catalog
//! ```
//!
//! A parameter stands for its value in each statement: by name where no column has it, by the
//! procedure's name and its own, or by number. An output parameter that a statement names after
//! `INTO` has that statement's value from there on.

use crate::Stop;
use crate::bodies::{self, BodyStatement};
use crate::coerce::{Frame, How, Params, Typed};
use crate::compiled::{Called, Field, Fill, Query, Tag};
use crate::error::no_column;
use crate::expressions::Compiler;
use crate::flow::{Unit, flow};
use crate::names::{Scope, parts};
use crate::procedure_text::{self, Argument};
use crate::tables::Cache;
use crate::types::name_of;
use crate::types::without_length;
use sql::catalog::{Catalog, Oid, ParamMode, Procedure, ProcedureKind};
use sql::program::{FlowResult, GivenValue, Program};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, SelectItem, SetExpr, TableFactor};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A body, compiled for one catalog.
#[derive(Debug)]
pub struct Body {
    pub program: Arc<Program>,
    pub fills: Vec<Fill>,
    pub output: Vec<Field>,
    pub reads: Vec<Oid>,
    pub writes: Vec<Oid>,
    /// The text of each statement of the program, for `EXPLAIN`.
    pub texts: Vec<String>,
    pub edges: Vec<Edge>,
}

/// Why a statement waits for an earlier one: for values in these parameters, or because one of both
/// writes these tables.
#[derive(Debug)]
pub struct Edge {
    pub from: u16,
    pub to: u16,
    pub values: Vec<u16>,
    pub tables: Vec<Oid>,
}

fn edges(units: &[Unit]) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (unit, to) in units.iter().zip(0_u16..) {
        for (before, from) in units.iter().zip(0..to) {
            let (values, tables) = (unit.values_of(before).collect(), unit.tables_of(before).collect());
            let edge = Edge { from, to, values, tables };
            if !edge.values.is_empty() || !edge.tables.is_empty() {
                edges.push(edge);
            }
        }
    }
    edges
}

/// A body as compiled for the catalog that has the procedure.
///
/// # Errors
/// Those of its statements.
pub fn body_of(catalog: &Catalog, procedure: &Procedure) -> Result<Arc<Body>, Stop> {
    if let Some(body) = procedure.compiled.get::<Body>() {
        return Ok(body);
    }
    let body = Arc::new(Building::new(catalog, procedure).run()?);
    procedure.compiled.keep(body.clone());
    Ok(body)
}

struct Building<'a> {
    procedure: &'a Procedure,
    compiler: Compiler<'a>,
    cache: Cache,
    units: Vec<Unit>,
    texts: Vec<String>,
    /// Whether a statement has named an output parameter after `INTO`.
    has_into: bool,
    /// Of the last statement.
    fields: Vec<Field>,
    only_reads: bool,
}

impl<'a> Building<'a> {
    fn new(catalog: &'a Catalog, procedure: &'a Procedure) -> Building<'a> {
        let inputs: Vec<Option<SqlType>> = inputs(procedure).map(|ty| Some(without_length(ty))).collect();
        let mut compiler = Compiler::new(catalog, Params::new(inputs.len(), &inputs));
        let mut number = 0_u16;
        let params = procedure.params.iter().map(|param| {
            let ty = without_length(param.ty);
            let expr = if param.mode.is_input() {
                number += 1;
                Expr::Param(number - 1)
            } else {
                Expr::Const(Datum::Null)
            };
            (param.name.clone(), Typed::new(expr, ty))
        });
        compiler.frame = Some(Frame { procedure: procedure.name.clone(), params: params.collect() });
        Building {
            procedure,
            compiler,
            cache: Cache::default(),
            units: Vec::new(),
            texts: Vec::new(),
            has_into: false,
            fields: Vec::new(),
            only_reads: true,
        }
    }

    fn run(mut self) -> Result<Body, Stop> {
        for statement in bodies::body(&self.procedure.body)? {
            self.statement(&statement)?;
        }
        let (result, output) = self.result()?;
        let inputs = self.compiler.params.finish()?;
        let fills = std::mem::take(&mut self.compiler.fills);
        let params = inputs.iter().copied().chain(fills.iter().map(crate::sources::fill_type)).collect();
        let (flow, edges) = (flow(&self.units, result), edges(&self.units));
        let mut reads: Vec<Oid> = self.units.iter().flat_map(|unit| unit.reads.iter().copied()).collect();
        let mut writes: Vec<Oid> = self.units.iter().flat_map(|unit| unit.writes.iter().copied()).collect();
        for list in [&mut reads, &mut writes] {
            list.sort_unstable();
            list.dedup();
        }
        let statements = self.units.into_iter().map(|unit| unit.statement).collect();
        let program = Program { statements, params, only_reads: self.only_reads, flow: Some(flow) };
        let (program, texts) = (Arc::new(program), self.texts);
        Ok(Body { program, fills, output, reads, writes, texts, edges })
    }

    fn statement(&mut self, body: &BodyStatement) -> Result<(), Stop> {
        let tree = body.parsed.tree().ok_or(Stop::General("a statement of this kind in a body"))?;
        let (statement, fields, _, reads, writes, only_reads) =
            crate::row_statement(&mut self.compiler, &mut self.cache, tree)?;
        let before = self.compiler.hoisted.replace(Vec::new()).unwrap_or_default();
        self.texts.extend(before.iter().map(|_| format!("a sub-query of: {}", one_line(body.parsed.text()))));
        self.units.extend(before);
        let mut unit = Unit {
            statement,
            reads,
            writes,
            uses: std::mem::take(&mut self.compiler.uses),
            gives: Vec::new(),
        };
        if !body.into.is_empty() {
            self.into(&mut unit, &body.into, &fields)?;
        }
        self.fields = if body.into.is_empty() { fields } else { Vec::new() };
        self.only_reads &= only_reads;
        self.units.push(unit);
        self.texts.push(one_line(body.parsed.text()));
        Ok(())
    }

    /// The columns of a statement become values of output parameters.
    fn into(&mut self, unit: &mut Unit, names: &[String], fields: &[Field]) -> Result<(), Stop> {
        if names.len() != fields.len() {
            let message = format!("INTO names {} parameters for {} columns", names.len(), fields.len());
            return Err(crate::error::syntax(message).into());
        }
        self.has_into = true;
        for ((name, field), column) in names.iter().zip(fields).zip(0_u16..) {
            let at = self.procedure.params.iter().position(|param| param.name == *name);
            let at = at.ok_or_else(|| no_column(name).with_hint("INTO names OUT or INOUT parameters."))?;
            let param = &self.procedure.params[at];
            if !param.mode.is_output() {
                let message = format!("parameter \"{name}\" is not writable");
                return Err(SqlError::new(SqlState(*b"0A000"), message)
                    .with_hint("Declare it as OUT or INOUT.")
                    .into());
            }
            let given = self.compiler.given(field.ty)?;
            unit.gives.push((GivenValue::First(column), given));
            let value = Typed::new(Expr::Param(given), field.ty);
            let ty = without_length(param.ty);
            let value = Typed::new(self.compiler.params.coerce(value, ty, How::Assigned)?, ty);
            if let Some(frame) = &mut self.compiler.frame {
                frame.params[at].1 = value;
            }
        }
        Ok(())
    }

    /// The result of the program, and its columns.
    fn result(&mut self) -> Result<(FlowResult, Vec<Field>), Stop> {
        let outputs: Vec<(String, SqlType)> = outputs(self.procedure);
        if outputs.is_empty() {
            return match self.procedure.kind {
                ProcedureKind::Procedure => Ok((FlowResult::Nothing, Vec::new())),
                ProcedureKind::Function(_) | ProcedureKind::View => {
                    let field = Field { name: self.procedure.name.clone(), ty: SqlType::Text, column: None };
                    let void = Expr::Const(Datum::Text(String::new()));
                    Ok((FlowResult::Row(vec![void]), vec![field]))
                }
            };
        }
        let values = if self.has_into { self.of_frame() } else { self.of_last(&outputs)? };
        let field = |(name, ty): &(String, SqlType)| Field { name: name.clone(), ty: *ty, column: None };
        Ok((FlowResult::Row(values), outputs.iter().map(field).collect()))
    }

    fn of_frame(&self) -> Vec<Expr> {
        let params = self.compiler.frame.iter().flat_map(|frame| &frame.params);
        let outputs = self.procedure.params.iter().zip(params).filter(|(param, _)| param.mode.is_output());
        outputs.map(|(_, (_, value))| value.expr.clone()).collect()
    }

    /// The row of the last statement.
    fn of_last(&mut self, outputs: &[(String, SqlType)]) -> Result<Vec<Expr>, Stop> {
        let declared = match outputs {
            [(_, ty)] => name_of(*ty),
            _ => "record".into(),
        };
        let mismatch = |detail: &str| {
            let message = format!("return type mismatch in function declared to return {declared}");
            SqlError::new(SqlState(*b"42P13"), message).with_detail(detail)
        };
        let fields = std::mem::take(&mut self.fields);
        if fields.is_empty() {
            let detail = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING, or a \
                          statement must name the output parameters after INTO.";
            return Err(mismatch(detail).into());
        }
        if fields.len() != outputs.len() {
            let detail = if fields.len() > outputs.len() {
                "Final statement returns too many columns."
            } else {
                "Final statement returns too few columns."
            };
            return Err(mismatch(detail).into());
        }
        let mut values = Vec::with_capacity(fields.len());
        for ((field, (_, ty)), column) in fields.iter().zip(outputs).zip(0_u16..) {
            let given = self.compiler.given(field.ty)?;
            if let Some(last) = self.units.last_mut() {
                last.gives.push((GivenValue::First(column), given));
            }
            let value = Typed::new(Expr::Param(given), field.ty);
            let value = self.compiler.params.coerce(value, *ty, How::Assigned).map_err(|_| {
                let (from, to) = (name_of(field.ty), name_of(*ty));
                mismatch(&format!("Final statement returns {from} instead of {to} at column {}.", column + 1))
            })?;
            values.push(value);
        }
        Ok(values)
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The types of the parameters that a call gives.
pub fn inputs(procedure: &Procedure) -> impl Iterator<Item = SqlType> {
    procedure.params.iter().filter(|param| param.mode.is_input()).map(|param| param.ty)
}

/// The columns of the row that it gives.
fn outputs(procedure: &Procedure) -> Vec<(String, SqlType)> {
    let params = procedure.params.iter().filter(|param| param.mode.is_output());
    let named = params.zip(1..).map(|(param, number)| match param.name.as_str() {
        "" => (format!("column{number}"), param.ty),
        name => (name.to_owned(), param.ty),
    });
    match procedure.kind {
        ProcedureKind::Function(Some(ty)) => vec![(procedure.name.clone(), ty)],
        _ => named.collect(),
    }
}

/// The tables and sequences that a body uses.
pub fn uses(body: &Body) -> BTreeSet<Oid> {
    let sequences = body.fills.iter().filter_map(|fill| match fill {
        Fill::Next(oid) | Fill::Current(oid) | Fill::SetSequence(oid, ..) => Some(*oid),
        _ => None,
    });
    body.reads.iter().chain(&body.writes).copied().chain(sequences).collect()
}

/// A call as a client writes it.
pub struct Call<'q> {
    pub name: String,
    pub args: Vec<Argument>,
    pub form: Form<'q>,
}

pub enum Form<'q> {
    /// `CALL p(..)`.
    Call,
    /// `SELECT f(..)`, with another name for the value.
    Value(Option<&'q ast::Ident>),
    /// `SELECT * FROM f(..)`.
    Row,
}

/// The call that a query is as a whole; `None` for other statements.
///
/// # Errors
/// `0A000` for arguments of other kinds.
pub fn as_call<'q>(catalog: &Catalog, statement: &'q ast::Statement) -> Result<Option<Call<'q>>, SqlError> {
    let ast::Statement::Query(query) = statement else { return Ok(None) };
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(None) };
    let is_bare = crate::sources::is_plain(query)
        && select.distinct.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && matches!(&select.group_by, ast::GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !is_bare || catalog.procedures.is_empty() {
        return Ok(None);
    }
    let (function, form) = match (select.projection.as_slice(), select.from.as_slice()) {
        ([SelectItem::UnnamedExpr(ast::Expr::Function(function))], []) => (function, Form::Value(None)),
        ([SelectItem::ExprWithAlias { expr: ast::Expr::Function(function), alias }], []) => {
            (function, Form::Value(Some(alias)))
        }
        ([SelectItem::Wildcard(_)], [from]) if from.joins.is_empty() => {
            let TableFactor::Table { name, args: Some(args), .. } = &from.relation else { return Ok(None) };
            let name = parts(name).pop().unwrap_or_default();
            if catalog.procedure(&name).is_none() {
                return Ok(None);
            }
            let args = procedure_text::arguments_of(&args.args)?;
            return Ok(Some(Call { name, args, form: Form::Row }));
        }
        _ => return Ok(None),
    };
    let name = parts(&function.name).pop().unwrap_or_default();
    if catalog.procedure(&name).is_none() || function.over.is_some() {
        return Ok(None);
    }
    Ok(Some(Call { name, args: procedure_text::arguments(function)?, form }))
}

/// A call, compiled.
///
/// # Errors
/// `42883` if there is none that takes the arguments.
pub fn call(compiler: &mut Compiler<'_>, call: &Call<'_>) -> Result<Query, Stop> {
    let catalog = compiler.catalog;
    let mut args = Vec::with_capacity(call.args.len());
    for argument in &call.args {
        args.push((argument.name.clone(), compiler.expr(&Scope::default(), &argument.value)?));
    }
    let types: Vec<SqlType> = args.iter().map(|(_, value)| value.ty).collect();
    let is_call = matches!(call.form, Form::Call);
    let procedure = catalog.procedure(&call.name).ok_or_else(|| no_routine(&call.name, &types, is_call))?;
    if is_call != (procedure.kind == ProcedureKind::Procedure) {
        let types: Vec<String> = types.iter().map(|ty| name_of(*ty)).collect();
        let shown = format!("{}({})", call.name, types.join(", "));
        let (message, hint) = match is_call {
            true => (format!("{shown} is not a procedure"), "To call a function, use SELECT."),
            false => (format!("{shown} is a procedure"), "To call a procedure, use CALL."),
        };
        return Err(SqlError::new(crate::error::WRONG_OBJECT_TYPE, message).with_hint(hint).into());
    }
    let refuse = || no_routine(&call.name, &types, is_call);
    let values = placed(procedure, args, is_call).ok_or_else(refuse)?;
    let mut inputs = Vec::with_capacity(values.len());
    for (param, value) in procedure.params.iter().zip(values) {
        let value = match (value, &param.default) {
            (Some(value), _) => compiler
                .params
                .coerce(value, without_length(param.ty), How::Implicit)
                .map_err(|error| if error.state == SqlState::DATATYPE_MISMATCH { refuse() } else { error })?,
            (None, Some((value, _))) => value.clone(),
            (None, None) if param.mode == ParamMode::Out => continue,
            (None, None) => return Err(refuse().into()),
        };
        if param.mode.is_input() {
            inputs.push(value);
        }
    }
    let params = compiler.params.finish()?;
    let body = body_of(catalog, procedure)?;
    let mut output = body.output.clone();
    match call.form {
        Form::Value(_) if output.len() > 1 => {
            let hint = format!("SELECT * FROM {}(...)", call.name);
            return Err(SqlError::unsupported("a row as a value", Some(&hint)).into());
        }
        Form::Value(alias) => output[0].name = alias.map_or(call.name.clone(), crate::names::folded),
        Form::Call | Form::Row => {}
    }
    Ok(Query {
        program: Arc::clone(&body.program),
        params,
        fills: body.fills.clone(),
        output,
        tag: if is_call { Tag::Call } else { Tag::Select },
        // The procedure itself must stay as it is while it runs.
        reads: body.reads.iter().copied().chain([procedure.oid]).collect(),
        writes: body.writes.clone(),
        call: Some(Arc::new(Called {
            procedure: procedure.oid,
            args: inputs,
            fills: std::mem::take(&mut compiler.fills),
        })),
    })
}

/// The argument of each parameter; `None` if they do not fit. A function's output parameters have
/// none.
fn placed(
    procedure: &Procedure,
    args: Vec<(Option<String>, Typed)>,
    is_call: bool,
) -> Option<Vec<Option<Typed>>> {
    let takes = |at: usize| is_call || procedure.params[at].mode.is_input();
    let mut values: Vec<Option<Typed>> = vec![None; procedure.params.len()];
    let mut next = 0;
    for (name, value) in args {
        let at = match name {
            Some(name) => procedure.params.iter().position(|param| param.name == name)?,
            None => {
                let at = (next..values.len()).find(|at| takes(*at))?;
                next = at + 1;
                at
            }
        };
        if !takes(at) || values[at].is_some() {
            return None;
        }
        values[at] = Some(value);
    }
    Some(values)
}

/// Procedures of the built-in workloads, which run on databases of their own.
const BUILT_IN: [(&str, &str); 6] = [
    ("deposit", "tpcb"),
    ("new_order", "tpcc"),
    ("payment", "tpcc"),
    ("order_status", "tpcc"),
    ("delivery", "tpcc"),
    ("stock_level", "tpcc"),
];

fn no_routine(name: &str, types: &[SqlType], is_call: bool) -> SqlError {
    let types: Vec<String> = types.iter().map(|ty| name_of(*ty)).collect();
    let word = if is_call { "procedure" } else { "function" };
    let message = format!("{word} {name}({}) does not exist", types.join(", "));
    let error = SqlError::new(SqlState::UNDEFINED_FUNCTION, message);
    let Some((_, workload)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
        return error.with_hint(format!(
            "No {word} matches the given name and argument types. You might need to add explicit type casts."
        ));
    };
    error
        .with_detail(format!(
            "The workload {workload} has a procedure of this name, in Rust, for the tables of its own \
             database. A database that is served has SQL tables only, so it cannot be called here."
        ))
        .with_hint(format!("Write it in SQL: CREATE PROCEDURE. Or run the workload: atoll bench {workload}."))
}

impl Compiler<'_> {
    /// A function of which the body is one value computed from its parameters, as that value;
    /// `None` if there is no function of the name.
    ///
    /// # Errors
    /// `General` for one that has other statements.
    pub fn inlined(
        &mut self,
        scope: &Scope,
        name: &str,
        function: &ast::Function,
    ) -> Result<Option<Typed>, Stop> {
        let compiler = self;
        let catalog = compiler.catalog;
        let Some(procedure) = catalog.procedure(name) else { return Ok(None) };
        let ProcedureKind::Function(Some(returns)) = procedure.kind else { return Ok(None) };
        const REASON: &str = "a function that is more than an expression, inside an expression";
        let statements = bodies::body(&procedure.body)?;
        let [only] = statements.as_slice() else { return Err(Stop::General(REASON)) };
        let Some(ast::Statement::Query(query)) = only.parsed.tree() else {
            return Err(Stop::General(REASON));
        };
        let SetExpr::Select(select) = query.body.as_ref() else { return Err(Stop::General(REASON)) };
        let ([SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }], [], None) =
            (select.projection.as_slice(), select.from.as_slice(), &select.selection)
        else {
            return Err(Stop::General(REASON));
        };
        if !crate::sources::is_plain(query) {
            return Err(Stop::General(REASON));
        }
        let mut args = Vec::new();
        for argument in procedure_text::arguments(function)? {
            args.push((argument.name, compiler.expr(scope, &argument.value)?));
        }
        let types: Vec<SqlType> = args.iter().map(|(_, value)| value.ty).collect();
        let refuse = || no_routine(name, &types, false);
        let values = placed(procedure, args, false).ok_or_else(refuse)?;
        let mut params = Vec::with_capacity(values.len());
        for (param, value) in procedure.params.iter().zip(values) {
            let ty = without_length(param.ty);
            let expr = match (value, &param.default) {
                (Some(value), _) => compiler.params.coerce(value, ty, How::Implicit)?,
                (None, Some((default, _))) => default.clone(),
                (None, None) => return Err(refuse().into()),
            };
            params.push((param.name.clone(), Typed::new(expr, ty)));
        }
        let frame = compiler.frame.replace(Frame { procedure: name.to_owned(), params });
        let place = compiler.place.take();
        let value = compiler.expr(&Scope::default(), value);
        // Places in the body are none in the statement.
        (compiler.frame, compiler.place) = (frame, place);
        let expr = compiler.params.coerce(value?, returns, How::Assigned)?;
        Ok(Some(Typed::new(expr, returns)))
    }
}
