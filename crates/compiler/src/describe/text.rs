//! Expressions as text. A value of an enumeration is a code; the type beside it says which label
//! that is: the column that it is compared with, or that of the place where it is put.

use crate::operators::symbol;
use crate::types::full_name_of;
use sql::expression::Function;
use sql::{Datum, Expr, SqlType};

/// A column of a row, for expressions over it.
#[derive(Clone)]
pub struct Name {
    text: String,
    ty: Option<SqlType>,
}

impl Name {
    pub fn new(text: String, ty: SqlType) -> Name {
        Name { text, ty: Some(ty) }
    }

    pub fn untyped(text: String) -> Name {
        Name { text, ty: None }
    }

    /// The column that an expression over other columns makes.
    pub fn of(expr: &Expr, names: &[Name]) -> Name {
        Name { text: text(expr, names), ty: enumeration(expr, names) }
    }

    pub fn after(self, prefix: &str) -> Name {
        Name { text: format!("{prefix}{}", self.text), ..self }
    }
}

/// The names of a row.
pub fn row(names: &[Name]) -> String {
    names.iter().map(|name| name.text.as_str()).collect::<Vec<_>>().join(", ")
}

/// Expressions of which the values are those of `columns`, as far as there are any.
pub fn list(exprs: &[Expr], columns: &[Name], names: &[Name]) -> String {
    let types = columns.iter().map(|column| column.ty).chain(std::iter::repeat(None));
    exprs.iter().zip(types).map(|(expr, ty)| typed(expr, ty, names)).collect::<Vec<_>>().join(", ")
}

/// An expression as text; columns by `names`, or by their positions.
pub fn text(expr: &Expr, names: &[Name]) -> String {
    typed(expr, None, names)
}

/// An expression of which the value has a type, if it is known.
pub fn typed(expr: &Expr, ty: Option<SqlType>, names: &[Name]) -> String {
    let of = |expr: &Expr| text(expr, names);
    let alike = |expr: &Expr| typed(expr, ty, names);
    let join = |list: &[Expr], word: &str| {
        let parts: Vec<String> = list.iter().map(of).collect();
        format!("({})", parts.join(word))
    };
    match expr {
        Expr::Const(value) => constant(value, ty),
        Expr::Param(at) => format!("${}", at + 1),
        Expr::Column(at) => {
            names.get(usize::from(*at)).map_or_else(|| format!("#{at}"), |name| name.text.clone())
        }
        Expr::Now => "now".into(),
        Expr::Not(inner) => format!("not {}", of(inner)),
        Expr::And(list) => join(list, " and "),
        Expr::Or(list) => join(list, " or "),
        Expr::IsNull(inner) => format!("{} is null", of(inner)),
        Expr::Binary { op, left, right, .. } => {
            let (left, right) = pair(left, right, names);
            format!("({left} {} {right})", symbol(*op))
        }
        Expr::Negate(inner, _) => format!("-{}", of(inner)),
        Expr::Same(left, right) => {
            let (left, right) = pair(left, right, names);
            format!("({left} is {right})")
        }
        Expr::In { expr, list } => {
            let ty = std::iter::once(&**expr).chain(list).find_map(|item| enumeration(item, names));
            let parts: Vec<String> = list.iter().map(|item| typed(item, ty, names)).collect();
            format!("{} in ({})", typed(expr, ty, names), parts.join(", "))
        }
        Expr::Like { expr, pattern, ignore_case, .. } => {
            format!("{} {} {}", of(expr), if *ignore_case { "ilike" } else { "like" }, of(pattern))
        }
        Expr::Case { branches, otherwise } => {
            let branches =
                branches.iter().map(|(when, then)| format!("when {} then {}", of(when), alike(then)));
            format!("case {} else {} end", branches.collect::<Vec<_>>().join(" "), alike(otherwise))
        }
        // The label of a constant says its type itself.
        Expr::Cast { expr, from, to, .. } => {
            format!("{}::{}", typed(expr, Some(*from), names), full_name_of(*to))
        }
        Expr::Call { function, args, ty } => {
            let ty = argument(*function, *ty);
            let args: Vec<String> = args.iter().map(|arg| typed(arg, ty, names)).collect();
            format!("{}({})", format!("{function:?}").to_lowercase(), args.join(", "))
        }
    }
}

/// Two expressions of one type.
fn pair(left: &Expr, right: &Expr, names: &[Name]) -> (String, String) {
    let ty = enumeration(left, names).or_else(|| enumeration(right, names));
    (typed(left, ty, names), typed(right, ty, names))
}

/// The type of an expression, if that is an enumeration.
fn enumeration(expr: &Expr, names: &[Name]) -> Option<SqlType> {
    let ty = match expr {
        Expr::Column(at) => names.get(usize::from(*at))?.ty,
        Expr::Cast { to, .. } => Some(*to),
        Expr::Call { ty, .. } => Some(*ty),
        Expr::Case { branches, otherwise } => {
            let values = branches.iter().map(|(_, then)| then).chain([&**otherwise]);
            values.into_iter().find_map(|value| enumeration(value, names))
        }
        _ => None,
    };
    ty.filter(|ty| matches!(ty, SqlType::Enum(_)))
}

/// The type of the arguments that are values or elements; the function has `ty`.
fn argument(function: Function, ty: SqlType) -> Option<SqlType> {
    use Function as F;
    match (function, ty) {
        (F::Coalesce | F::NullIf | F::Greatest | F::Least, ty) => Some(ty),
        (
            F::Array | F::ArrayAppend | F::ArrayPrepend | F::ArrayRemove | F::ArrayReplace | F::IsAny,
            SqlType::Array(element),
        ) => Some(element.ty()),
        _ => None,
    }
}

/// A value as text: as one of its type if that is an enumeration, else in the type that its form
/// suggests.
fn constant(value: &Datum, ty: Option<SqlType>) -> String {
    if let (Datum::Int(code), Some(ty @ SqlType::Enum(labels))) = (value, ty)
        && let Some(label) = labels.text(*code)
    {
        return format!("'{}'::{}", label.replace('\'', "''"), full_name_of(ty));
    }
    let ty = match value {
        Datum::Null => return "null".into(),
        Datum::Bool(_) => SqlType::Bool,
        Datum::Int(_) => SqlType::Int8,
        Datum::Float(_) => SqlType::Float8,
        Datum::Numeric(_) => SqlType::Numeric(None),
        Datum::Text(text) => return format!("'{}'", text.replace('\'', "''")),
        Datum::Bytes(_) => SqlType::Bytea,
        Datum::Date(_) => SqlType::Date,
        Datum::Time(_) => SqlType::Time,
        Datum::Timestamp(_) => SqlType::Timestamp,
        Datum::Interval(_) => SqlType::Interval,
        Datum::Uuid(_) => SqlType::Uuid,
    };
    sql::text::to_string(ty, value)
}
