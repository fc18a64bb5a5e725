//! The output of a select, of `RETURNING`, and what `ORDER BY` names of it.

use crate::Stop;
use crate::coerce::{How, Typed};
use crate::compiled::Field;
use crate::error::{INVALID_COLUMN_REFERENCE, syntax};
use crate::expressions::Compiler;
use crate::names::{Found, Scope, folded, parts};
use sql::catalog::{Catalog, Oid};
use sql::program::{Output, SortKey};
use sql::{Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, OrderByKind, SelectItem, SelectItemQualifiedWildcardKind, SetExpr};

/// One column of the output, before its place among the groups is known.
pub struct Item {
    pub name: String,
    pub value: Typed,
    pub origin: Option<(Oid, u16)>,
}

/// PostgreSQL's limit. A message to a client has room for 65,535 columns.
const MOST_ITEMS: usize = 1664;

fn check_count(items: usize) -> Result<(), SqlError> {
    if items <= MOST_ITEMS {
        return Ok(());
    }
    let message = format!("target lists can have at most {MOST_ITEMS} entries");
    Err(SqlError::new(SqlState(*b"54011"), message))
}

/// The output of a select.
///
/// # Errors
/// Those of its expressions; `54011` for too many.
pub fn items(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    projection: &[SelectItem],
) -> Result<Vec<Item>, Stop> {
    check_count(projection.len())?;
    let targets = std::mem::take(&mut compiler.targets);
    let mut items = Vec::with_capacity(projection.len());
    for item in projection {
        let target = targets.get(items.len()).copied();
        match item {
            SelectItem::Wildcard(_) => {
                if scope.relations.is_empty() {
                    return Err(syntax("SELECT * with no tables specified is not valid").into());
                }
                let merged = scope.merged.iter();
                items.extend(merged.map(|merged| Item {
                    name: merged.name.clone(),
                    value: merged.value.clone(),
                    origin: None,
                }));
                let open = scope.relations.iter().filter(|relation| relation.is_open);
                for relation in open {
                    let own = relation.columns.iter().filter(|column| !column.is_merged);
                    items.extend(own.map(|column| whole(relation, column)));
                }
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let name = parts(name).pop().unwrap_or_default();
                let relation = scope.relation(&name)?;
                items.extend(relation.columns.iter().map(|column| whole(relation, column)));
            }
            SelectItem::UnnamedExpr(expr) => items.push(one(compiler, scope, expr, (None, target))?),
            SelectItem::ExprWithAlias { expr, alias } => {
                items.push(one(compiler, scope, expr, (Some(folded(alias)), target))?)
            }
            _ => return Err(Stop::General("an item of this kind")),
        }
    }
    check_count(items.len())?;
    items.iter().for_each(|item| compiler.note_used(scope, &item.value.expr));
    Ok(items)
}

/// A column as an item.
fn whole(relation: &crate::names::Relation, column: &crate::names::Named) -> Item {
    let Found { value, origin } = relation.found(column);
    Item { name: column.name.clone(), value, origin }
}

fn one(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    expr: &ast::Expr,
    (alias, target): (Option<String>, Option<SqlType>),
) -> Result<Item, Stop> {
    let mut value = compiler.expr(scope, expr)?;
    if let (Expr::Param(_), SqlType::Unknown, Some(target)) = (&value.expr, value.ty, target) {
        let ty = crate::types::without_length(target);
        value = Typed::new(compiler.params.coerce(value, ty, How::Implicit)?, ty);
    }
    let value = compiler.params.settle(value)?;
    let origin = match value.expr {
        Expr::Column(column) if column < scope.width() => {
            let relation = scope.relations.iter().rfind(|relation| relation.offset <= column);
            relation.and_then(|relation| Some((relation.oid?, column - relation.offset + 1)))
        }
        _ => None,
    };
    Ok(Item { name: alias.unwrap_or_else(|| name_of(expr)), value, origin })
}

/// The name that PostgreSQL gives to an output without an alias.
pub fn name_of(expr: &ast::Expr) -> String {
    use ast::Expr as E;
    match expr {
        E::Identifier(ident) => folded(ident),
        E::CompoundIdentifier(idents) => idents.last().map(folded).unwrap_or_default(),
        E::Nested(inner) | E::Collate { expr: inner, .. } => name_of(inner),
        E::Function(function) => parts(&function.name).pop().unwrap_or_default(),
        E::Cast { expr, data_type, .. } => match name_of(expr) {
            name if name == "?column?" => type_name(data_type),
            name => name,
        },
        E::TypedString(typed) => type_name(&typed.data_type),
        E::Interval(_) => "interval".into(),
        E::Case { .. } => "case".into(),
        E::AtTimeZone { .. } => "timezone".into(),
        E::Extract { .. } => "extract".into(),
        E::Ceil { .. } => "ceil".into(),
        E::Floor { .. } => "floor".into(),
        E::Position { .. } => "position".into(),
        E::Substring { .. } => "substring".into(),
        E::Trim { .. } => "btrim".into(),
        E::Exists { .. } => "exists".into(),
        E::Array(_) => "array".into(),
        E::CompoundFieldAccess { root, .. } => name_of(root),
        E::Subquery(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match select.projection.first() {
                Some(SelectItem::UnnamedExpr(inner)) => name_of(inner),
                Some(SelectItem::ExprWithAlias { alias, .. }) => folded(alias),
                _ => "?column?".into(),
            },
            _ => "?column?".into(),
        },
        E::Value(value) if matches!(value.value, ast::Value::Boolean(_)) => "bool".into(),
        _ => "?column?".into(),
    }
}

fn type_name(data_type: &ast::DataType) -> String {
    let Ok(ty) = crate::types::resolve(&Catalog::default(), data_type) else {
        // One of the user's: its own name.
        return match data_type {
            ast::DataType::Custom(name, _) => crate::names::parts(name).pop().unwrap_or_default(),
            _ => "?column?".into(),
        };
    };
    match ty {
        SqlType::Bool => "bool",
        SqlType::Int2 => "int2",
        SqlType::Int4 => "int4",
        SqlType::Int8 => "int8",
        SqlType::Float4 => "float4",
        SqlType::Float8 => "float8",
        SqlType::Char(_) => "bpchar",
        SqlType::Varchar(_) => "varchar",
        SqlType::Timestamp => "timestamp",
        SqlType::TimestampTz => "timestamptz",
        SqlType::Time => "time",
        ty => return crate::types::name_of(ty),
    }
    .into()
}

/// `RETURNING`: outputs over the scope's row.
pub fn returning(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    clause: Option<&Vec<SelectItem>>,
) -> Result<(Vec<Output>, Vec<Field>), Stop> {
    let Some(clause) = clause else { return Ok((Vec::new(), Vec::new())) };
    let items = items(compiler, scope, clause)?;
    let field = |item: &Item| Field { name: item.name.clone(), ty: item.value.ty, column: item.origin };
    let fields = items.iter().map(field).collect();
    let output =
        items.into_iter().map(|item| Output { name: item.name, expr: item.value.expr, ty: item.value.ty });
    Ok((output.collect(), fields))
}

pub struct Ordering {
    pub keys: Vec<SortKey>,
    /// Items that the client gets; those after them are for the order.
    pub visible: usize,
}

/// `ORDER BY`: positions and names of the output, or expressions, which become hidden items.
///
/// # Errors
/// Those of the expressions.
pub fn ordering(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    clause: Option<&ast::OrderBy>,
    items: &mut Vec<Item>,
) -> Result<Ordering, Stop> {
    let mut order = Ordering { keys: Vec::new(), visible: items.len() };
    let Some(clause) = clause else { return Ok(order) };
    let OrderByKind::Expressions(exprs) = &clause.kind else { return Err(Stop::General("ORDER BY ALL")) };
    for by in exprs {
        let at = item_of(compiler, scope, &by.expr, (items, order.visible), "ORDER BY")?;
        let (descending, nulls_first) = direction(items[at].value.ty, &by.options)?;
        let column =
            u16::try_from(at).map_err(|_| SqlError::new(SqlState::PROGRAM_LIMIT, "too many columns"))?;
        order.keys.push(SortKey { column, descending, nulls_first });
    }
    Ok(order)
}

/// Whether an order of values of this type descends, and whether nulls come first.
///
/// # Errors
/// `General` for `USING`; `0A000` for arrays.
pub fn direction(ty: SqlType, options: &ast::OrderByOptions) -> Result<(bool, bool), Stop> {
    if matches!(ty, SqlType::Array(_)) {
        return Err(crate::error::no_order().into());
    }
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(ast::OrderBySort::Using(_)) => return Err(Stop::General("ORDER BY USING")),
    };
    Ok((descending, options.nulls_first.unwrap_or(descending)))
}

/// The item that an expression of a clause names by position or alias, or that it is; else it
/// becomes a hidden one.
///
/// # Errors
/// Those of the expression.
pub fn item_of(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    expr: &ast::Expr,
    (items, visible): (&mut Vec<Item>, usize),
    clause: &str,
) -> Result<usize, Stop> {
    let alias = match expr {
        ast::Expr::Identifier(ident) => items[..visible].iter().position(|item| item.name == folded(ident)),
        _ => None,
    };
    if let Some(at) = alias.or(position(expr, visible, clause)?) {
        return Ok(at);
    }
    let value = compiler.expr(scope, expr)?;
    let value = compiler.params.settle(value)?;
    let known = items.iter().position(|item| item.value.expr == value.expr);
    Ok(known.unwrap_or_else(|| {
        items.push(Item { name: String::new(), value, origin: None });
        items.len() - 1
    }))
}

/// A column of the output by its position from 1, if the expression is an integer.
pub fn position(expr: &ast::Expr, count: usize, clause: &str) -> Result<Option<usize>, SqlError> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(digits, _) = &value.value else { return Ok(None) };
    match digits.parse::<usize>() {
        Ok(at) if (1..=count).contains(&at) => Ok(Some(at - 1)),
        _ => {
            let message = format!("{clause} position {digits} is not in select list");
            Err(SqlError::new(INVALID_COLUMN_REFERENCE, message))
        }
    }
}
