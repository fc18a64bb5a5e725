//! Functions: which one a call means, of one row, of many rows, or of the session.

use super::{Compiler, aggregates, composed, json};
use crate::coerce::{How, Typed};
use crate::compiled::{Advisory, AdvisoryWord, Fill, advisory_word};
use crate::error::{no_function, no_table};
use crate::names::{Scope, parts};
use crate::{Stop, types};
use sql::SqlType::{
    Bool, Char, Date, Float8, Int4, Int8, Interval, Jsonb, Name, Numeric, Text, Timestamp, TimestampTz,
    Unknown, Uuid,
};
use sql::catalog::Oid;
use sql::expression::Function;
use sql::{Datum, Expr, SqlError, SqlType};
use sqlparser::ast::{self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArguments};
use std::time::Duration;

/// What `version()` says before the engine's own version.
const VERSION: &str = concat!("PostgreSQL 15.0 (Atoll ", env!("CARGO_PKG_VERSION"), ")");

/// A call.
pub fn call(compiler: &mut Compiler<'_>, scope: &Scope, function: &ast::Function) -> Result<Typed, Stop> {
    let mut path = parts(&function.name);
    let name = path.pop().unwrap_or_default();
    if function.over.is_some() && compiler.tree.is_none() {
        return Err(Stop::General("a window function"));
    }
    if let Some(value) = compiler.inlined(scope, &name, function)? {
        return Ok(value);
    }
    let mut order = Vec::new();
    let list = match &function.args {
        FunctionArguments::None => &[][..],
        FunctionArguments::Subquery(query) if name == "array" && compiler.tree.is_some() => {
            return compiler.tree_array(scope, query);
        }
        FunctionArguments::Subquery(_) => return Err(Stop::General("a sub-query")),
        FunctionArguments::List(list) => {
            order = aggregates::ordered(compiler, scope, list, function.over.is_some())?;
            &list.args[..]
        }
    };
    let is_distinct = matches!(&function.args, FunctionArguments::List(list)
        if list.duplicate_treatment == Some(DuplicateTreatment::Distinct));
    let mut args = Vec::with_capacity(list.len());
    for arg in list {
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) => args.push(arg),
            FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "count" && list.len() == 1 => {}
            _ => return Err(Stop::General("an argument of this kind")),
        }
    }
    if !function.within_group.is_empty() {
        let (order, filter) = (&function.within_group, function.filter.as_deref());
        return aggregates::within_group(compiler, scope, &name, &args, (order, filter));
    }
    if name == "grouping" {
        return compiler.grouping(scope, &args);
    }
    if let Some(over) = &function.over {
        if is_distinct {
            return Err(Stop::General("DISTINCT in a window function"));
        }
        return compiler.window(scope, &name, &args, (over, function.filter.as_deref()));
    }
    let filter = function.filter.as_deref();
    if json::has(&name) {
        return json::call(compiler, scope, &name, &args, json::Of { is_distinct, order, filter });
    }
    if let Some(aggregate) = aggregates::named(&name, args.len(), list.len()) {
        return aggregates::call(compiler, scope, (aggregate, &name), &args, (is_distinct, order), filter);
    }
    if let Some(value) = of_session(compiler, scope, &name, &args)? {
        return Ok(value);
    }
    named(compiler, scope, &name, &args)
}

/// Functions of the session, the clock and sequences.
fn of_session(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    name: &str,
    args: &[&ast::Expr],
) -> Result<Option<Typed>, Stop> {
    let now = |to: SqlType| {
        let cast = Expr::Cast { expr: Expr::Now.into(), from: TimestampTz, to, explicit: false };
        Typed::new(if to == TimestampTz { Expr::Now } else { cast }, to)
    };
    let (fill, ty) = match (name, args.len()) {
        ("current_timestamp" | "now" | "transaction_timestamp", 0 | 1) => return Ok(Some(now(TimestampTz))),
        ("localtimestamp", 0 | 1) => return Ok(Some(now(Timestamp))),
        ("localtime", 0 | 1) => return Ok(Some(now(SqlType::Time))),
        ("current_date", 0) => return Ok(Some(now(Date))),
        ("version", 0) => return Ok(Some(Typed::new(Expr::Const(Datum::Text(VERSION.into())), Text))),
        ("current_schema", 0) => {
            return Ok(Some(Typed::new(Expr::Const(Datum::Text("public".into())), Name)));
        }
        ("statement_timestamp", 0) => (Fill::StatementTime, TimestampTz),
        ("clock_timestamp", 0) => (Fill::ClockTime, TimestampTz),
        ("current_user" | "session_user" | "user" | "current_role", 0) => (Fill::User, Name),
        ("current_database" | "current_catalog", 0) => (Fill::Database, Name),
        ("pg_backend_pid", 0) => (Fill::Backend, Int4),
        ("lastval", 0) => (Fill::LastValue, Int8),
        (name, _) if advisory_word(name).is_some() => {
            let fill = advisory(compiler, scope, name, args)?;
            let ty = crate::sources::fill_type(&fill);
            (fill, ty)
        }
        ("pg_sleep", 1) => (Fill::Sleep(seconds(compiler, scope, args[0])?), Text),
        ("nextval", 1) => (Fill::Next(sequence(compiler, args[0])?), Int8),
        ("currval", 1) => (Fill::Current(sequence(compiler, args[0])?), Int8),
        ("setval", 2 | 3) => (set_sequence(compiler, scope, args)?, Int8),
        ("current_setting", 1 | 2) => match compiler.expr(scope, args[0])?.expr {
            Expr::Const(Datum::Text(name)) => (Fill::Setting(name.to_lowercase()), Text),
            _ => return Err(Stop::General("a setting that is no literal")),
        },
        _ => return Ok(None),
    };
    Ok(Some(Typed::new(compiler.fill(fill)?, ty)))
}

/// A function of advisory locks. The server carries it out once, before the statement.
fn advisory(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    name: &str,
    args: &[&ast::Expr],
) -> Result<Fill, Stop> {
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        values.push(compiler.expr(scope, arg)?);
    }
    let types: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
    let wanted = match (advisory_word(name), values.len()) {
        (Some((AdvisoryWord::UnlockAll, _)), 0) => &[][..],
        (Some((AdvisoryWord::UnlockAll, _)), _) => return Err(no_function(name, &types).into()),
        (_, 1) => &[Int8][..],
        (_, 2) => &[Int4, Int4][..],
        _ => return Err(no_function(name, &types).into()),
    };
    let mut key = Vec::with_capacity(2);
    for (value, to) in values.into_iter().zip(wanted) {
        if !types::is_implicit(value.ty, *to) {
            return Err(no_function(name, &types).into());
        }
        key.push(compiler.params.coerce(value, *to, How::Implicit)?);
    }
    if compiler.branches > 0 || !key.iter().all(|key| crate::walk::all_columns(key, &|_| false)) {
        let hint = Some("Call it alone: SELECT pg_advisory_lock(1).");
        return Err(SqlError::unsupported("an advisory lock by a column or in a branch", hint).into());
    }
    let Some((does, mode)) = advisory_word(name) else { return Err(no_function(name, &types).into()) };
    Ok(Fill::Advisory(Advisory { does, mode, key }))
}

/// The time that a literal number of seconds gives; none if it is negative.
fn seconds(compiler: &mut Compiler<'_>, scope: &Scope, arg: &ast::Expr) -> Result<Duration, Stop> {
    let number = match compiler.expr(scope, arg)?.expr {
        Expr::Const(Datum::Int(number)) => number as f64,
        Expr::Const(Datum::Float(number)) => number,
        Expr::Const(Datum::Numeric(number)) => number.to_f64(),
        _ => return Err(Stop::General("pg_sleep of an expression")),
    };
    Ok(Duration::try_from_secs_f64(number.max(0.0)).unwrap_or(Duration::MAX))
}

fn set_sequence(compiler: &mut Compiler<'_>, scope: &Scope, args: &[&ast::Expr]) -> Result<Fill, Stop> {
    let oid = sequence(compiler, args[0])?;
    let is_called = match args.get(2) {
        None => true,
        Some(arg) => match compiler.expr(scope, arg)?.expr {
            Expr::Const(Datum::Bool(is_called)) => is_called,
            _ => return Err(Stop::General("setval of an expression")),
        },
    };
    match compiler.expr(scope, args[1])?.expr {
        Expr::Const(Datum::Int(number)) => Ok(Fill::SetSequence(oid, number, is_called)),
        _ => Err(Stop::General("setval of an expression")),
    }
}

/// The sequence that a literal names.
fn sequence(compiler: &Compiler<'_>, arg: &ast::Expr) -> Result<Oid, Stop> {
    let arg = match arg {
        ast::Expr::Cast { expr, data_type: ast::DataType::Regclass | ast::DataType::Text, .. } => expr,
        arg => arg,
    };
    let ast::Expr::Value(value) = arg else { return Err(Stop::General("a sequence that is no literal")) };
    let Expr::Const(Datum::Text(text)) = crate::coerce::literal(&value.value)?.expr else {
        return Err(Stop::General("a sequence that is no literal"));
    };
    let name = text.rsplit('.').next().unwrap_or(&text);
    let name = match name.strip_prefix('"').and_then(|name| name.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => name.to_lowercase(),
    };
    let sequence = compiler.catalog.sequence(&name).ok_or_else(|| no_table(&name))?;
    Ok(sequence.oid)
}

/// A function of one row, by name.
pub fn named(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    name: &str,
    args: &[&ast::Expr],
) -> Result<Typed, Stop> {
    if let ("date_part", [field, value]) = (name, args)
        && let ast::Expr::Value(field) = field
        && let Expr::Const(Datum::Text(field)) = crate::coerce::literal(&field.value)?.expr
    {
        return date_part(compiler, scope, &field, value, Float8);
    }
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        values.push(compiler.expr(scope, arg)?);
    }
    with_args(compiler, name, values)
}

/// A field of a time.
pub fn date_part(
    compiler: &mut Compiler<'_>,
    scope: &Scope,
    field: &str,
    value: &ast::Expr,
    ty: SqlType,
) -> Result<Typed, Stop> {
    let value = compiler.expr(scope, value)?;
    part_of(compiler, field, value, ty)
}

/// A field of a time, of operands: `date_part`, or `extract`.
pub fn part(
    compiler: &mut Compiler<'_>,
    name: &str,
    field: &crate::operand::Operand,
    value: &crate::operand::Operand,
) -> Result<Typed, Stop> {
    let Some(Datum::Text(field)) = &field.constant else {
        return Err(Stop::General("a field of a time that is no literal"));
    };
    let expr = value.constant.clone().map_or(Expr::Column(1), Expr::Const);
    let ty = if name == "extract" { Numeric(None) } else { Float8 };
    part_of(compiler, field, Typed::new(expr, value.ty), ty)
}

fn part_of(compiler: &mut Compiler<'_>, field: &str, value: Typed, ty: SqlType) -> Result<Typed, Stop> {
    let from = if value.ty == Unknown { Timestamp } else { value.ty };
    if !matches!(from, Date | Timestamp | TimestampTz | SqlType::Time | Interval) {
        return Err(no_function("extract", &[Text, value.ty]).into());
    }
    let value = compiler.params.coerce(value, from, How::Implicit)?;
    let field = Expr::Const(Datum::Text(field.to_lowercase()));
    let function = if from == TimestampTz { Function::InstantPart } else { Function::DatePart };
    Ok(Typed::new(Expr::Call { function, args: vec![field, value], ty }, ty))
}

/// Functions by name: the kinds of arguments, of which those after `?` may be left out, and the
/// result. `n` is a number that keeps its type, `q` numeric or double precision, `f` double
/// precision, `N` numeric, `i` integer, `t` text, `B` bytea, `d` a date or time, `v` an interval,
/// `j` jsonb, `J` json; `=` is the type of the first argument.
const FUNCTIONS: &[(&str, Function, &str, char)] = &[
    ("abs", Function::Abs, "n", '='),
    ("ceil", Function::Ceil, "q", '='),
    ("ceiling", Function::Ceil, "q", '='),
    ("floor", Function::Floor, "q", '='),
    ("round", Function::Round, "q?i", '='),
    ("trunc", Function::Trunc, "q?i", '='),
    ("sign", Function::Sign, "q", '='),
    ("sqrt", Function::Sqrt, "q", '='),
    ("exp", Function::Exp, "q", '='),
    ("ln", Function::Ln, "q", '='),
    ("length", Function::Length, "t", 'i'),
    ("char_length", Function::Length, "t", 'i'),
    ("character_length", Function::Length, "t", 'i'),
    ("octet_length", Function::OctetLength, "t", 'i'),
    ("lower", Function::Lower, "t", 't'),
    ("upper", Function::Upper, "t", 't'),
    ("substring", Function::Substring, "ti?i", 't'),
    ("substr", Function::Substring, "ti?i", 't'),
    ("btrim", Function::Trim, "t?t", 't'),
    ("ltrim", Function::LeftTrim, "t?t", 't'),
    ("rtrim", Function::RightTrim, "t?t", 't'),
    ("position", Function::Position, "tt", 'i'),
    ("strpos", Function::Position, "tt", 'i'),
    ("replace", Function::Replace, "ttt", 't'),
    ("repeat", Function::Repeat, "ti", 't'),
    ("left", Function::Left, "ti", 't'),
    ("right", Function::Right, "ti", 't'),
    ("lpad", Function::LeftPad, "ti?t", 't'),
    ("rpad", Function::RightPad, "ti?t", 't'),
    ("reverse", Function::Reverse, "t", 't'),
    ("split_part", Function::SplitPart, "tti", 't'),
    ("starts_with", Function::StartsWith, "tt", 'b'),
    ("md5", Function::Md5, "t", 't'),
    ("chr", Function::Chr, "i", 't'),
    ("ascii", Function::Ascii, "t", 'i'),
    ("to_hex", Function::ToHex, "n", 't'),
    ("date_trunc", Function::DateTrunc, "td", '2'),
    ("age", Function::Age, "d?d", 'v'),
    ("make_date", Function::MakeDate, "iii", 'D'),
    ("to_timestamp", Function::ToTimestamp, "f", 'T'),
    ("random", Function::Random, "", 'f'),
    ("gen_random_uuid", Function::GenRandomUuid, "", 'u'),
    ("jsonb_typeof", Function::JsonTypeOf, "j", 't'),
    ("hashtext", Function::Hash, "t", 'i'),
    ("initcap", Function::InitCap, "t", 't'),
    ("translate", Function::Translate, "ttt", 't'),
    ("quote_ident", Function::QuoteIdent, "t", 't'),
    ("quote_nullable", Function::QuoteNullable, "t", 't'),
    ("encode", Function::Encode, "Bt", 't'),
    ("decode", Function::Decode, "tt", 'B'),
    ("cbrt", Function::Cbrt, "f", 'f'),
    ("log", Function::Log, "q?N", '='),
    ("log10", Function::Log, "q", '='),
    ("div", Function::Div, "NN", 'N'),
    ("trim_scale", Function::TrimScale, "N", 'N'),
    ("sin", Function::Sin, "f", 'f'),
    ("cos", Function::Cos, "f", 'f'),
    ("tan", Function::Tan, "f", 'f'),
    ("asin", Function::Asin, "f", 'f'),
    ("acos", Function::Acos, "f", 'f'),
    ("atan", Function::Atan, "f", 'f'),
    ("atan2", Function::Atan2, "ff", 'f'),
    ("make_timestamp", Function::MakeTimestamp, "iiiiif", 'M'),
    ("isfinite", Function::IsFinite, "d", 'b'),
    ("justify_days", Function::JustifyDays, "v", 'v'),
    ("justify_hours", Function::JustifyHours, "v", 'v'),
    ("justify_interval", Function::JustifyInterval, "v", 'v'),
    ("to_number", Function::ToNumber, "tt", 'N'),
    ("uuid_generate_v4", Function::GenRandomUuid, "", 'u'),
    ("jsonb_array_length", Function::JsonArrayLength, "j", 'i'),
    ("json_array_length", Function::JsonArrayLength, "J", 'i'),
    ("json_typeof", Function::JsonTypeOf, "J", 't'),
];

/// A function of one row, of values.
pub fn with_args(compiler: &mut Compiler<'_>, name: &str, args: Vec<Typed>) -> Result<Typed, Stop> {
    if let Some(value) = compiler.of_array(name, &args)? {
        return Ok(value);
    }
    if let Some(value) = compiler.of_document(name, &args)? {
        return Ok(value);
    }
    if let Some(value) = super::enumeration::call(name, &args)? {
        return Ok(value);
    }
    if let Some(value) = compiler.of_regex(name, &args)? {
        return Ok(value);
    }
    if let Some(of_kinds) = of_one_kind(compiler, name, &args)? {
        return Ok(of_kinds);
    }
    if let Some(composed) = composed::call(compiler, name, &args)? {
        return Ok(composed);
    }
    let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
    let known = FUNCTIONS.iter().find(|(known, ..)| *known == name);
    let Some(&(_, function, kinds, result)) = known else { return Err(unknown(name, &types)) };
    let (least, most) = (kinds.find('?').unwrap_or(kinds.len()), kinds.replace('?', "").len());
    if !(least..=most).contains(&args.len()) {
        return Err(no_function(name, &types).into());
    }
    let mut values = Vec::with_capacity(args.len());
    let mut first = Unknown;
    let mut second = Unknown;
    let is_two = types.len() == 2;
    for (at, (arg, kind)) in args.into_iter().zip(kinds.chars().filter(|kind| *kind != '?')).enumerate() {
        let mut to = kind_type(kind, arg.ty).ok_or_else(|| no_function(name, &types))?;
        if kind == 'q' && is_two {
            to = Numeric(None);
        }
        if !types::is_implicit(arg.ty, to) {
            return Err(no_function(name, &types).into());
        }
        values.push(compiler.params.coerce(arg, to, How::Assigned)?);
        match at {
            0 => first = to,
            1 => second = to,
            _ => {}
        }
    }
    let ty = match result {
        '=' => first,
        '2' => second,
        'b' => Bool,
        'v' => Interval,
        'D' => Date,
        'M' => Timestamp,
        'T' => TimestampTz,
        'u' => Uuid,
        kind => kind_type(kind, Unknown).unwrap_or(Text),
    };
    Ok(Typed::new(Expr::Call { function, args: values, ty }, ty))
}

/// The type that an argument of a kind is coerced to.
fn kind_type(kind: char, from: SqlType) -> Option<SqlType> {
    Some(match kind {
        'n' => match from {
            Unknown => Float8,
            ty if types::is_number(ty) => crate::types::without_length(ty),
            _ => return None,
        },
        'q' if matches!(from, Numeric(_)) => Numeric(None),
        'q' | 'f' => Float8,
        'i' => Int4,
        'd' => match from {
            Unknown => TimestampTz,
            Date => Timestamp,
            Timestamp | TimestampTz | Interval => from,
            _ => return None,
        },
        'v' => Interval,
        'j' => Jsonb,
        'J' => SqlType::Json,
        'N' => Numeric(None),
        'B' => SqlType::Bytea,
        _ => Text,
    })
}

/// Functions of which the arguments are of any one type.
fn of_one_kind(compiler: &mut Compiler<'_>, name: &str, args: &[Typed]) -> Result<Option<Typed>, Stop> {
    let call = |function, args, ty| Some(Typed::new(Expr::Call { function, args, ty }, ty));
    Ok(match (name, args.len()) {
        ("coalesce", 1..) => {
            let (args, ty) = compiler.of_one_type("COALESCE", args.to_vec())?;
            Some(super::coalesce(args, ty))
        }
        ("greatest", 1..) => {
            let (args, ty) = compiler.of_one_type("GREATEST", args.to_vec())?;
            call(Function::Greatest, args, ty)
        }
        ("least", 1..) => {
            let (args, ty) = compiler.of_one_type("LEAST", args.to_vec())?;
            call(Function::Least, args, ty)
        }
        ("nullif", 2) => {
            let (args, ty) = compiler.of_one_type("NULLIF", args.to_vec())?;
            call(Function::NullIf, args, ty)
        }
        ("mod" | "power" | "pow", 2) => {
            let op = if name == "mod" {
                sql::expression::BinaryOp::Modulo
            } else {
                sql::expression::BinaryOp::Power
            };
            Some(crate::operators::binary(&mut compiler.params, op, args[0].clone(), args[1].clone())?)
        }
        ("concat", _) => {
            let args = args.iter().map(|arg| compiler.params.coerce(arg.clone(), Text, How::Assigned));
            call(Function::Concat, args.collect::<Result<_, _>>()?, Text)
        }
        ("to_char", 2) => {
            let value = compiler.params.settle(args[0].clone())?;
            let format = compiler.params.coerce(args[1].clone(), Text, How::Implicit)?;
            let is_instant = value.ty == TimestampTz;
            let function = if is_instant { Function::InstantToChar } else { Function::ToChar };
            call(function, vec![value.expr, format], Text)
        }
        ("timezone", 2) => at_time_zone(compiler, &args[0], &args[1])?,
        ("date_trunc", 3) => {
            let field = compiler.params.coerce(args[0].clone(), Text, How::Implicit)?;
            let instant = compiler.params.coerce(args[1].clone(), TimestampTz, How::Implicit)?;
            let zone = compiler.params.coerce(args[2].clone(), Text, How::Implicit)?;
            call(Function::DateTrunc, vec![field, instant, zone], TimestampTz)
        }
        ("age", 1) => {
            let since = Typed::new(args[0].expr.clone(), args[0].ty);
            let midnight =
                Expr::Cast { expr: Expr::Now.into(), from: TimestampTz, to: Date, explicit: false };
            Some(with_args(compiler, "age", vec![Typed::new(midnight, Date), since])?)
        }
        ("age", 2) if args.iter().any(|arg| arg.ty == TimestampTz) => {
            // Of what clocks in the session's zone show.
            let mut local = Vec::with_capacity(2);
            for arg in args {
                let instant = compiler.params.coerce(arg.clone(), TimestampTz, How::Implicit)?;
                let shown = Typed::new(instant, TimestampTz);
                local.push(compiler.params.coerce(shown, Timestamp, How::Assigned)?);
            }
            call(Function::Age, local, Interval)
        }
        ("octet_length", 1) if matches!(args[0].ty, Char(_) | SqlType::Bytea) => {
            // The blanks of a padded value count, so the cast to text must not come first.
            call(Function::OctetLength, vec![args[0].expr.clone()], Int4)
        }
        _ => None,
    })
}

/// `value AT TIME ZONE zone`: an instant as a time, or a time as an instant; `None` for values of
/// other types.
fn at_time_zone(compiler: &mut Compiler<'_>, zone: &Typed, value: &Typed) -> Result<Option<Typed>, SqlError> {
    let (from, to) = match value.ty {
        Timestamp => (Timestamp, TimestampTz),
        Unknown | Date | TimestampTz => (TimestampTz, Timestamp),
        _ => return Ok(None),
    };
    let value = compiler.params.coerce(value.clone(), from, How::Implicit)?;
    let zone_type = if zone.ty == Interval { Interval } else { Text };
    let zone = compiler.params.coerce(zone.clone(), zone_type, How::Implicit)?;
    let call = Expr::Call { function: Function::AtTimeZone, args: vec![value, zone], ty: to };
    Ok(Some(Typed::new(call, to)))
}

/// Names of the system's functions are for the query engine.
fn unknown(name: &str, types: &[SqlType]) -> Stop {
    const LATER: [&str; 5] =
        ["format_type", "obj_description", "col_description", "row_number", "to_regclass"];
    if gives_rows(name) {
        return Stop::General("a function that gives rows, in this place");
    }
    if name.starts_with("pg_")
        || name.starts_with("has_")
        || name.starts_with("array_")
        || LATER.contains(&name)
    {
        return Stop::General("a function of the system catalog");
    }
    no_function(name, types).into()
}

/// Whether a function gives rows.
pub fn gives_rows(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "generate_series",
        "generate_subscripts",
        "regexp_matches",
        "regexp_split_to_table",
        "string_to_table",
        "unnest",
    ];
    NAMES.contains(&name) || sql::json::parts::gives_parts(name)
}
