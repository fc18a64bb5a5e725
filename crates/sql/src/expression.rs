//! Expressions, with names resolved and types decided.

mod arithmetic;
mod call;
mod cast;
mod eval;
mod like;
mod times;

pub use eval::Context;

use crate::{Datum, SqlType};
use serde::{Deserialize, Serialize};

/// An expression over the columns of one input row and the parameters of its program. The compiler
/// has inserted casts so that operands have the types that the operator expects.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Expr {
    Const(Datum),
    /// A parameter by position, from 0.
    Param(u16),
    /// A column of the input row by position, from 0.
    Column(u16),
    /// The time at which the transaction began (`CURRENT_TIMESTAMP`, `now()`), as `TimestampTz`.
    Now,
    Not(Box<Expr>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    IsNull(Box<Expr>),
    /// An operator on two operands of one kind; the result has type `ty`, which decides overflow.
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
        ty: SqlType,
    },
    Negate(Box<Expr>, SqlType),
    /// `IS NOT DISTINCT FROM`: nulls are equal.
    Same(Box<Expr>, Box<Expr>),
    /// `expr IN (list)`, with SQL's three-valued logic.
    In {
        expr: Box<Expr>,
        list: Vec<Expr>,
    },
    /// The compiler gives a backslash as `escape` if the statement has none; `None` is `ESCAPE ''`.
    Like {
        expr: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<char>,
        ignore_case: bool,
    },
    /// The first branch of which the condition is true.
    Case {
        branches: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    Cast {
        expr: Box<Expr>,
        from: SqlType,
        to: SqlType,
        explicit: bool,
    },
    Call {
        function: Function,
        args: Vec<Expr>,
        ty: SqlType,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum BinaryOp {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// `||`
    Concat,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    /// `->`, by name or position.
    JsonGet,
    /// `->>`
    JsonGetText,
}

/// Functions of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Function {
    Abs,
    Ceil,
    Floor,
    Round,
    Trunc,
    Mod,
    Power,
    Sqrt,
    Exp,
    Ln,
    Sign,
    Greatest,
    Least,
    Coalesce,
    NullIf,
    Length,
    OctetLength,
    Lower,
    Upper,
    Substring,
    Trim,
    LeftTrim,
    RightTrim,
    Position,
    Replace,
    Repeat,
    Left,
    Right,
    LeftPad,
    RightPad,
    Reverse,
    SplitPart,
    StartsWith,
    Concat,
    Md5,
    Chr,
    Ascii,
    ToHex,
    DatePart,
    DateTrunc,
    Age,
    MakeDate,
    /// `to_char` of numbers and times.
    ToChar,
    Random,
    GenRandomUuid,
    JsonTypeOf,
    Hash,
}

/// Functions of many rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Aggregate {
    CountRows,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    BoolAnd,
    BoolOr,
    StringAgg,
}
