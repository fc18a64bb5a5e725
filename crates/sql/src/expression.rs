//! Expressions, with names resolved and types decided.

mod arithmetic;
mod arrays;
mod call;
mod cast;
mod context;
mod eval;
mod formats;
mod json;
mod like;
mod regex;
mod strings;
mod times;

pub use cast::cast_to;
pub use context::Context;

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

/// Functions of one row. Arguments come in the order of PostgreSQL's functions; those of
/// `POSITION(part IN text)` are the text, then the part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Function {
    Abs,
    Ceil,
    Floor,
    Round,
    Trunc,
    Mod,
    /// The whole part of a quotient of decimal numbers.
    Div,
    Power,
    Sqrt,
    Cbrt,
    Exp,
    Ln,
    /// To the base 10; or of the second argument, to the base of the first.
    Log,
    TrimScale,
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
    Translate,
    InitCap,
    Repeat,
    Left,
    Right,
    LeftPad,
    RightPad,
    Reverse,
    SplitPart,
    StartsWith,
    /// Nulls are left out; so they are by `concat_ws`, of which the first argument is the
    /// separator.
    Concat,
    ConcatWs,
    Md5,
    Chr,
    Ascii,
    ToHex,
    /// `date_part` if the result is `Float8`, `extract` if it is `Numeric`.
    DatePart,
    DateTrunc,
    /// Of two timestamps: the compiler gives midnight of the current day if there is only one.
    Age,
    MakeDate,
    /// Of seconds since 1970.
    ToTimestamp,
    /// `to_char` of numbers and times.
    ToChar,
    Random,
    GenRandomUuid,
    JsonTypeOf,
    JsonArrayLength,
    /// Of a value as text and its kind ([`crate::json::Kind`]): the document that it is.
    ToJson,
    /// Of a text: a name of an object. The second argument is the error for a null.
    JsonKey,
    /// Of any value, 64 bits: Atoll's own.
    Hash,
    /// Of an instant or a time, and a zone: the time that clocks show there (`Timestamp`), or the
    /// instant at which they show it (`TimestampTz`).
    AtTimeZone,
    /// [`Function::DatePart`] of an instant, in the session's zone.
    InstantPart,
    /// `to_char` of an instant, in the session's zone.
    InstantToChar,
    /// The array of all arguments.
    Array,
    /// Of an array and a number from 1.
    ArrayElement,
    /// `cardinality`.
    ArrayCount,
    /// `array_length`: null for an array of no elements, and for other dimensions than the first.
    ArrayLength,
    /// `array_to_string`.
    ArrayToString,
    /// `value = ANY (array)`; `ty` of the call is the type of the array, as of the next four.
    IsAny,
    /// `@>`
    ArrayContains,
    /// `&&`
    ArrayOverlaps,
    /// Of an array, a value, and where the search begins. Nulls are the same.
    ArrayPosition,
    ArrayPositions,
    /// `array[from:to]`
    ArraySlice,
    /// Of two arrays.
    ArrayConcat,
    ArrayAppend,
    /// Of a value and an array.
    ArrayPrepend,
    ArrayRemove,
    ArrayReplace,
    ArrayLower,
    /// `array_ndims` if the result is `Int4`, `array_dims` if it is `Text`.
    ArrayDimensions,
    StringToArray,
    /// Of a text, a pattern, and flags, as the next four.
    RegexLike,
    /// The groups of the first match.
    RegexMatch,
    /// The array of the arrays of each match's groups.
    RegexMatches,
    RegexSplit,
    /// Of a text, a pattern, a replacement, and flags; or start, number and flags.
    RegexReplace,
    /// Of a text, a pattern, a start, and flags.
    RegexCount,
    /// Of a text and a pattern.
    RegexSubstring,
    /// Of a text, a pattern, and the escape character.
    SimilarTo,
    /// Of a text with `%s`, `%I` and `%L`, and texts in their places; nulls are taken.
    Format,
    QuoteIdent,
    /// Of a text; of a null, `NULL`.
    QuoteNullable,
    /// Of a text, and the name of a format.
    Decode,
    Encode,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    /// Of two floats.
    Atan2,
    /// Of year, month, day, hour, minute, seconds.
    MakeTimestamp,
    IsFinite,
    JustifyDays,
    JustifyHours,
    /// Of a width, a time, and an origin.
    DateBin,
    /// Of a text and a format: `Timestamp`, `TimestampTz` or `Date`.
    ReadTime,
    /// `@>` of two `jsonb`.
    JsonContains,
    /// `?`
    JsonHasKey,
    /// `?|`, of an array of names.
    JsonHasAny,
    /// `?&`
    JsonHasAll,
    /// `#>`, of an array of steps; `#>>` if the result is `Text`.
    JsonPath,
    /// `-`, of a name or a position.
    JsonDelete,
    /// `-`, of an array of names.
    JsonDeleteKeys,
    /// `#-`
    JsonDeletePath,
    /// Of a document, a path, a value, and whether a member may be new.
    JsonSet,
    /// Of a document, a path, a value, and whether it stands behind what is there.
    JsonInsert,
    JsonStripNulls,
    JsonPretty,
    /// Of a document and the name of a function that gives rows: its parts, as an array.
    JsonParts,
    JustifyInterval,
    /// Of a text and a format.
    ToNumber,
    /// Of the ends of two spans, each null in turn.
    Overlaps,
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
    ArrayAgg,
    /// `WITHIN GROUP`: of values in an order, which only trees of operators have. The argument is
    /// the fraction.
    PercentileCont,
    PercentileDisc,
    Mode,
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    /// Of pairs, as the next five: rows of which one value is null are left out.
    CovarPop,
    CovarSamp,
    Corr,
    RegrSlope,
    RegrIntercept,
    RegrR2,
    BitAnd,
    BitOr,
    BitXor,
}

impl Aggregate {
    /// Whether it is one of pairs of floats.
    pub fn is_of_pairs(self) -> bool {
        use Aggregate::{Corr, CovarPop, CovarSamp, RegrIntercept, RegrR2, RegrSlope};
        matches!(self, Corr | CovarPop | CovarSamp | RegrIntercept | RegrR2 | RegrSlope)
    }

    /// Whether it is a variance or the root of one.
    pub fn is_variance(self) -> bool {
        matches!(self, Aggregate::VarPop | Aggregate::VarSamp | Aggregate::StddevPop | Aggregate::StddevSamp)
    }
}
