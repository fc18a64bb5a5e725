//! Operators, functions and casts for operands of known types: the meaning of an expression for a
//! planner that has a syntax of its own.

use crate::coerce::{How, Params};
use crate::expressions::{Compiler, aggregates, functions};
use crate::operand::typed;
use crate::{Stop, types};
use sql::catalog::Catalog;
use sql::expression::{Aggregate, BinaryOp};
use sql::{Expr, SqlError, SqlType};

pub use crate::operand::Operand;

/// The operator with this symbol, and the type of its result.
///
/// # Errors
/// `42883` if there is none for these types.
pub fn operator(op: BinaryOp, left: &Operand, right: &Operand) -> Result<(Expr, SqlType), SqlError> {
    let mut operands = typed(&[left.clone(), right.clone()]);
    let (Some(right), Some(left)) = (operands.pop(), operands.pop()) else {
        return Err(crate::error::syntax("an operator has two operands"));
    };
    let value = crate::operators::binary(&mut Params::default(), op, left, right)?;
    Ok((value.expr, value.ty))
}

/// A function of one row, and the type of its result.
///
/// # Errors
/// `42883` if there is none of this name for these types, `0A000` if Atoll does not have it.
pub fn function(name: &str, args: &[Operand]) -> Result<(Expr, SqlType), SqlError> {
    let catalog = Catalog::default();
    let mut compiler = Compiler::new(&catalog, Params::default());
    let value = match (name, args) {
        ("date_part" | "extract", [field, value]) => functions::part(&mut compiler, name, field, value),
        _ => functions::with_args(&mut compiler, name, typed(args)),
    };
    match value {
        Ok(value) => Ok((value.expr, value.ty)),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::General(reason)) => Err(SqlError::unsupported(reason, None)),
    }
}

/// A value as one of another type: by `CAST`, or where a type is expected.
///
/// # Errors
/// `42846` and `42804` if it cannot become one; those of the literal.
pub fn cast(value: &Operand, to: SqlType, explicit: bool) -> Result<Expr, SqlError> {
    let Some(value) = typed(std::slice::from_ref(value)).pop() else {
        return Err(crate::error::syntax("a cast has an operand"));
    };
    Params::default().coerce(value, to, if explicit { How::Explicit } else { How::Implicit })
}

/// The type of an aggregate's result; `None` if there is none of this argument.
pub fn aggregate(function: Aggregate, arg: SqlType) -> Option<SqlType> {
    aggregates::type_of(function, arg)
}

/// The type of which all are, or turn into; `None` if there is none.
pub fn common(of: impl IntoIterator<Item = SqlType>) -> Option<SqlType> {
    let mut of = of.into_iter();
    let first = of.next()?;
    of.try_fold(first, types::common)
}

/// The type with this name.
///
/// # Errors
/// `42704` for a type that there is not, `0A000` for one that Atoll does not have.
pub fn named_type(catalog: &Catalog, name: &str) -> Result<SqlType, SqlError> {
    let dialect = sqlparser::dialect::PostgreSqlDialect {};
    let parsed = sqlparser::parser::Parser::new(&dialect).try_with_sql(name);
    let parsed = parsed.and_then(|mut parser| parser.parse_data_type());
    types::resolve(catalog, &parsed.map_err(|error| crate::error::syntax(error.to_string()))?)
}

/// A type without its length or precision.
pub fn without_length(ty: SqlType) -> SqlType {
    crate::types::without_length(ty)
}

/// The columns that an expression reads, in ascending order.
pub fn columns(expr: &Expr) -> Vec<u16> {
    fn add(expr: &Expr, columns: &mut Vec<u16>) {
        if let Expr::Column(column) = expr {
            columns.push(*column);
        }
        crate::walk::children(expr, &mut |inner| add(inner, columns));
    }
    let mut columns = Vec::new();
    add(expr, &mut columns);
    columns.sort_unstable();
    columns.dedup();
    columns
}
