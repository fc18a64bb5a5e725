//! Functions that are made of others, or take arguments of more than one kind.

use super::Compiler;
use super::functions::with_args;
use crate::coerce::{How, Typed};
use crate::{Stop, types};
use sql::SqlType::{Date, Float8, Int4, Interval, Text, Time, Timestamp, TimestampTz};
use sql::expression::{BinaryOp, Function};
use sql::{Datum, Expr, SqlType};

/// `None` for other functions.
///
/// # Errors
/// Those of the arguments.
pub fn call(compiler: &mut Compiler<'_>, name: &str, args: &[Typed]) -> Result<Option<Typed>, Stop> {
    let call = |function, args, ty| Some(Typed::new(Expr::Call { function, args, ty }, ty));
    Ok(match (name, args.len()) {
        ("format", 1..) | ("concat_ws", 2..) => {
            let function = if name == "format" { Function::Format } else { Function::ConcatWs };
            let args = args.iter().map(|arg| compiler.params.coerce(arg.clone(), Text, How::Assigned));
            call(function, args.collect::<Result<_, _>>()?, Text)
        }
        ("to_date", 2) | ("to_timestamp", 2) => {
            let texts = args.iter().map(|arg| compiler.params.coerce(arg.clone(), Text, How::Implicit));
            let texts = texts.collect::<Result<_, _>>()?;
            let read = Expr::Call { function: Function::ReadTime, args: texts, ty: Timestamp };
            let ty = if name == "to_date" { Date } else { TimestampTz };
            let value = compiler.params.coerce(Typed::new(read, Timestamp), ty, How::Assigned)?;
            Some(Typed::new(value, ty))
        }
        ("date_bin", 3) => {
            let width = compiler.params.coerce(args[0].clone(), Interval, How::Implicit)?;
            let ty = if args[1].ty == Timestamp { Timestamp } else { TimestampTz };
            let time = compiler.params.coerce(args[1].clone(), ty, How::Implicit)?;
            let origin = compiler.params.coerce(args[2].clone(), ty, How::Implicit)?;
            call(Function::DateBin, vec![width, time, origin], ty)
        }
        ("pi", 0) => Some(Typed::new(Expr::Const(Datum::Float(std::f64::consts::PI)), Float8)),
        ("degrees" | "radians", 1) => {
            const RADIANS: f64 = 0.017_453_292_519_943_295;
            let value = compiler.params.coerce(args[0].clone(), Float8, How::Implicit)?;
            let factor = Typed::new(Expr::Const(Datum::Float(RADIANS)), Float8);
            let op = match name {
                "degrees" => BinaryOp::Divide,
                _ => BinaryOp::Multiply,
            };
            Some(crate::operators::binary(&mut compiler.params, op, Typed::new(value, Float8), factor)?)
        }
        ("pg_typeof", 1) => {
            let name = types::name_of(args[0].ty);
            Some(Typed::new(Expr::Const(Datum::Text(name)), Text))
        }
        ("make_time", 3) => {
            let day = [2000, 1, 1].map(|part| Typed::new(Expr::Const(Datum::Int(part)), Int4));
            let parts = day.into_iter().chain(args.iter().cloned()).collect();
            let time = with_args(compiler, "make_timestamp", parts)?;
            Some(Typed::new(compiler.params.coerce(time, Time, How::Assigned)?, Time))
        }
        ("quote_literal", 1) => {
            let text = compiler.params.coerce(args[0].clone(), Text, How::Assigned)?;
            let quoted = Expr::Call { function: Function::QuoteNullable, args: vec![text.clone()], ty: Text };
            let branches = vec![(Expr::IsNull(text.into()), Expr::Const(Datum::Null))];
            Some(Typed::new(Expr::Case { branches, otherwise: quoted.into() }, Text))
        }
        ("overlay", 3 | 4) => Some(overlay(compiler, args)?),
        ("length", 1) if args[0].ty == SqlType::Bytea => {
            call(Function::Length, vec![args[0].expr.clone()], Int4)
        }
        ("bit_length", 1) => {
            let bytes = with_args(compiler, "octet_length", args.to_vec())?;
            let eight = Typed::new(Expr::Const(Datum::Int(8)), Int4);
            let op = BinaryOp::Multiply;
            Some(crate::operators::binary(&mut compiler.params, op, bytes, eight)?)
        }
        _ => None,
    })
}

/// The text with another one in place of a part, of which the length is that of the other one
/// unless it is given.
fn overlay(compiler: &mut Compiler<'_>, args: &[Typed]) -> Result<Typed, Stop> {
    let (text, what, from) = (&args[0], &args[1], &args[2]);
    let number = |number: i64| Typed::new(Expr::Const(Datum::Int(number)), Int4);
    let length = match args.get(3) {
        Some(length) => length.clone(),
        None => with_args(compiler, "length", vec![what.clone()])?,
    };
    let params = &mut compiler.params;
    let before = crate::operators::binary(params, BinaryOp::Subtract, from.clone(), number(1))?;
    let behind = crate::operators::binary(params, BinaryOp::Add, from.clone(), length)?;
    let first = with_args(compiler, "substring", vec![text.clone(), number(1), before])?;
    let last = with_args(compiler, "substring", vec![text.clone(), behind])?;
    let mut joined = first;
    for part in [what.clone(), last] {
        joined = crate::operators::binary(&mut compiler.params, BinaryOp::Concat, joined, part)?;
    }
    // The parts are not looked at where one is null.
    let is_null = |arg: &Typed| Expr::IsNull(arg.expr.clone().into());
    let nulls = Expr::Or(args.iter().map(is_null).collect());
    let branches = vec![(nulls, Expr::Const(Datum::Null))];
    Ok(Typed::new(Expr::Case { branches, otherwise: joined.expr.into() }, joined.ty))
}
