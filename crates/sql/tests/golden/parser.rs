//! Reads the SQL of the golden files: one expression whose literals and casts give its types. It
//! knows no columns; what it cannot read is a panic, as the files are part of the test.

use sql::expression::{BinaryOp, Function};
use sql::value::Numeric;
use sql::{Datum, Expr, SqlType};

pub struct Parser<'a> {
    rest: &'a str,
}

type Typed = (Expr, SqlType);

const NUMERIC: SqlType = SqlType::Numeric(None);

/// PostgreSQL's name of a type.
pub fn type_name(ty: SqlType) -> String {
    match ty {
        SqlType::Bool => "boolean",
        SqlType::Int2 => "smallint",
        SqlType::Int4 => "integer",
        SqlType::Int8 => "bigint",
        SqlType::Float4 => "real",
        SqlType::Float8 => "double precision",
        SqlType::Numeric(_) => "numeric",
        SqlType::Char(_) => "character",
        SqlType::Varchar(_) => "character varying",
        SqlType::Text | SqlType::Unknown => "text",
        SqlType::Bytea => "bytea",
        SqlType::Date => "date",
        SqlType::Time => "time without time zone",
        SqlType::Timestamp => "timestamp without time zone",
        SqlType::TimestampTz => "timestamp with time zone",
        SqlType::Interval => "interval",
        SqlType::Uuid => "uuid",
        SqlType::Json => "json",
        SqlType::Jsonb => "jsonb",
        SqlType::Array(_) => "array",
        SqlType::Enum(_) => "enum",
        SqlType::Name => "name",
        SqlType::Oid => "oid",
    }
    .into()
}

/// Operators by rising precedence; those of one line bind equally.
const LEVELS: [&[(&str, BinaryOp)]; 5] = [
    &[
        ("<=", BinaryOp::LessEqual),
        (">=", BinaryOp::GreaterEqual),
        ("<>", BinaryOp::NotEqual),
        ("=", BinaryOp::Equal),
        ("<", BinaryOp::Less),
        (">", BinaryOp::Greater),
    ],
    &[
        ("||", BinaryOp::Concat),
        ("->>", BinaryOp::JsonGetText),
        ("->", BinaryOp::JsonGet),
        ("<<", BinaryOp::ShiftLeft),
        (">>", BinaryOp::ShiftRight),
        ("&", BinaryOp::BitAnd),
        ("|", BinaryOp::BitOr),
        ("#", BinaryOp::BitXor),
    ],
    &[("+", BinaryOp::Add), ("-", BinaryOp::Subtract)],
    &[("*", BinaryOp::Multiply), ("/", BinaryOp::Divide), ("%", BinaryOp::Modulo)],
    &[("^", BinaryOp::Power)],
];

impl<'a> Parser<'a> {
    pub fn parse(text: &'a str) -> Typed {
        let mut parser = Parser { rest: text };
        let typed = parser.or();
        assert!(parser.rest.trim().is_empty(), "{text}: not read: {}", parser.rest);
        typed
    }

    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        let front = rest.get(..word.len()).is_some_and(|front| front.eq_ignore_ascii_case(word));
        let is_whole =
            !rest.get(word.len()..).unwrap_or("").starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if front && (is_whole || !word.ends_with(char::is_alphanumeric)) {
            self.rest = &rest[word.len()..];
            return true;
        }
        false
    }

    fn expect(&mut self, word: &str) {
        assert!(self.word(word), "{word} expected before: {}", self.rest);
    }

    fn words(&mut self, words: &[&str]) -> bool {
        let before = self.rest;
        let all = words.iter().all(|word| self.word(word));
        if !all {
            self.rest = before;
        }
        all
    }

    fn or(&mut self) -> Typed {
        let mut parts = vec![self.and()];
        while self.word("or") {
            parts.push(self.and());
        }
        joined(parts, Expr::Or)
    }

    fn and(&mut self) -> Typed {
        let mut parts = vec![self.not()];
        while self.word("and") {
            parts.push(self.not());
        }
        joined(parts, Expr::And)
    }

    fn not(&mut self) -> Typed {
        if self.word("not") {
            return (Expr::Not(Box::new(self.not().0)), SqlType::Bool);
        }
        let left = self.level(0);
        let negated = |is_negated: bool, expr: Expr| {
            (if is_negated { Expr::Not(Box::new(expr)) } else { expr }, SqlType::Bool)
        };
        for (words, is_negated) in [(&["is", "null"][..], false), (&["is", "not", "null"], true)] {
            if self.words(words) {
                return negated(is_negated, Expr::IsNull(Box::new(left.0)));
            }
        }
        let same = [(&["is", "distinct", "from"][..], true), (&["is", "not", "distinct", "from"], false)];
        for (words, is_negated) in same {
            if self.words(words) {
                let right = self.level(0);
                return negated(is_negated, Expr::Same(Box::new(left.0), Box::new(right.0)));
            }
        }
        let is_negated = self.word("not");
        for (word, ignore_case) in [("like", false), ("ilike", true)] {
            if self.word(word) {
                let pattern = Box::new(self.level(1).0);
                let escape = if self.word("escape") { self.string().chars().next() } else { Some('\\') };
                return negated(
                    is_negated,
                    Expr::Like { expr: Box::new(left.0), pattern, escape, ignore_case },
                );
            }
        }
        if self.word("in") {
            let list = self.arguments().into_iter().map(|(expr, _)| expr).collect();
            return negated(is_negated, Expr::In { expr: Box::new(left.0), list });
        }
        left
    }

    fn level(&mut self, level: usize) -> Typed {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1);
        loop {
            // `->` is no minus.
            let is_arrow = level == 2 && self.rest.trim_start().starts_with("->");
            let is_shift = level == 0 && ["<<", ">>"].iter().any(|op| self.rest.trim_start().starts_with(op));
            let found = operators.iter().find(|(word, _)| !is_arrow && !is_shift && self.word(word));
            let Some((_, op)) = found else { return left };
            let right = self.level(level + 1);
            left = binary(*op, left, right);
        }
    }

    fn unary(&mut self) -> Typed {
        if self.word("-") {
            let (expr, ty) = self.unary();
            return (Expr::Negate(Box::new(expr), ty), ty);
        }
        let mut typed = self.primary();
        while self.word("::") {
            let to = self.type_of();
            typed = cast(typed, to);
        }
        typed
    }

    pub fn named_type(name: &'a str) -> SqlType {
        Parser { rest: name }.type_of()
    }

    fn type_of(&mut self) -> SqlType {
        let name = self.identifier();
        let limits = self.rest.starts_with('(').then(|| self.arguments());
        let limit = |i: usize| match limits.as_ref().map(|limits| &limits[i].0) {
            Some(Expr::Const(Datum::Int(limit))) => Some(*limit as u32),
            _ => None,
        };
        match name.as_str() {
            "bool" => SqlType::Bool,
            "int2" => SqlType::Int2,
            "int4" | "int" => SqlType::Int4,
            "int8" => SqlType::Int8,
            "float4" => SqlType::Float4,
            "float8" => SqlType::Float8,
            "numeric" => {
                SqlType::Numeric(limit(0).map(|precision| (precision as u16, limit(1).unwrap() as u16)))
            }
            "char" => SqlType::Char(limit(0).unwrap_or(1)),
            "varchar" => SqlType::Varchar(limit(0)),
            "text" => SqlType::Text,
            "bytea" => SqlType::Bytea,
            "date" => SqlType::Date,
            "time" => SqlType::Time,
            "timestamp" => SqlType::Timestamp,
            "timestamptz" => SqlType::TimestampTz,
            "interval" => SqlType::Interval,
            "uuid" => SqlType::Uuid,
            "json" => SqlType::Json,
            "jsonb" => SqlType::Jsonb,
            "name" => SqlType::Name,
            "oid" => SqlType::Oid,
            name => panic!("no type {name}"),
        }
    }

    fn identifier(&mut self) -> String {
        let rest = self.rest.trim_start();
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.rest = &rest[length..];
        rest[..length].to_lowercase()
    }

    /// A literal in quotes; two of them inside are one.
    fn string(&mut self) -> String {
        self.expect("'");
        let end = self.rest.find('\'').expect("a quote at the end");
        let text = self.rest[..end].to_owned();
        self.rest = &self.rest[end + 1..];
        text
    }

    fn arguments(&mut self) -> Vec<Typed> {
        self.expect("(");
        let mut arguments = Vec::new();
        while !self.word(")") {
            arguments.push(self.or());
            self.word(",");
        }
        arguments
    }

    fn primary(&mut self) -> Typed {
        let rest = self.rest.trim_start();
        match rest.chars().next().expect("an expression") {
            '\'' => (Expr::Const(Datum::Text(self.string())), SqlType::Unknown),
            '0'..='9' => self.number(),
            '(' => {
                let mut arguments = self.arguments();
                arguments.pop().unwrap()
            }
            _ if self.word("null") => (Expr::Const(Datum::Null), SqlType::Unknown),
            _ if self.word("true") => (Expr::Const(Datum::Bool(true)), SqlType::Bool),
            _ if self.word("false") => (Expr::Const(Datum::Bool(false)), SqlType::Bool),
            _ if self.word("case") => self.case(),
            _ => {
                let name = self.identifier();
                if name == "extract" {
                    self.expect("(");
                    let field = (Expr::Const(Datum::Text(self.identifier())), SqlType::Text);
                    self.expect("from");
                    let value = self.or();
                    self.expect(")");
                    return function("extract", vec![field, value]);
                }
                let arguments = self.arguments();
                function(&name, arguments)
            }
        }
    }

    fn number(&mut self) -> Typed {
        let rest = self.rest.trim_start();
        let mut length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if rest[length..].starts_with('e') {
            let behind = rest[length + 1..].trim_start_matches(['-', '+']);
            let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
            length = rest.len() - behind.len() + digits;
        }
        self.rest = &rest[length..];
        let text = &rest[..length];
        match text.parse::<i64>() {
            Ok(v) if i32::try_from(v).is_ok() => (Expr::Const(Datum::Int(v)), SqlType::Int4),
            Ok(v) => (Expr::Const(Datum::Int(v)), SqlType::Int8),
            Err(_) => (Expr::Const(Datum::Numeric(Numeric::parse(text).unwrap())), NUMERIC),
        }
    }

    fn case(&mut self) -> Typed {
        let mut branches = Vec::new();
        let mut ty = SqlType::Unknown;
        while self.word("when") {
            let condition = self.or().0;
            self.expect("then");
            let (result, result_ty) = self.or();
            ty = result_ty;
            branches.push((condition, result));
        }
        let otherwise = if self.word("else") { self.or().0 } else { Expr::Const(Datum::Null) };
        self.expect("end");
        (Expr::Case { branches, otherwise: Box::new(otherwise) }, ty)
    }
}

fn joined(mut parts: Vec<Typed>, all: fn(Vec<Expr>) -> Expr) -> Typed {
    if parts.len() == 1 {
        return parts.pop().unwrap();
    }
    (all(parts.into_iter().map(|(expr, _)| expr).collect()), SqlType::Bool)
}

fn cast((expr, from): Typed, to: SqlType) -> Typed {
    (Expr::Cast { expr: Box::new(expr), from, to, explicit: true }, to)
}

/// Numbers in the order in which they are converted to each other.
fn rank(ty: SqlType) -> Option<usize> {
    let order = [SqlType::Int2, SqlType::Int4, SqlType::Int8, NUMERIC, SqlType::Float4, SqlType::Float8];
    let ty = if matches!(ty, SqlType::Numeric(_)) { NUMERIC } else { ty };
    order.iter().position(|other| *other == ty)
}

fn common(left: SqlType, right: SqlType) -> SqlType {
    match (left, right) {
        (SqlType::Unknown, ty) | (ty, SqlType::Unknown) => ty,
        (left, right) => match (rank(left), rank(right)) {
            (Some(4), Some(other)) | (Some(other), Some(4)) if other != 4 => SqlType::Float8,
            (Some(a), Some(b)) if b > a => right,
            _ => left,
        },
    }
}

fn to(typed: Typed, ty: SqlType) -> Typed {
    if typed.1 == ty { typed } else { cast(typed, ty) }
}

fn binary(op: BinaryOp, left: Typed, right: Typed) -> Typed {
    use BinaryOp::{Add, Concat, JsonGet, JsonGetText, Multiply, Power, ShiftLeft, ShiftRight, Subtract};
    use SqlType::{Date, Int4, Interval, Json, Jsonb, Text, Time, Timestamp, TimestampTz};
    let (l, r) = (left.1, right.1);
    let is_comparison = LEVELS[0].iter().any(|(_, other)| *other == op);
    let (left, right, ty) = match (op, l, r) {
        (JsonGet, Json | Jsonb, _) => (left, right, l),
        (JsonGetText, Json | Jsonb, _) => (left, right, Text),
        (Concat, SqlType::Bytea, _) => (left, right, SqlType::Bytea),
        (Concat, Jsonb, _) => (left, right, Jsonb),
        (Concat, ..) => (to(left, Text), to(right, Text), Text),
        (ShiftLeft | ShiftRight, ..) => (left, right, l),
        (Add, Date, Time) => (left, right, Timestamp),
        (Add | Subtract, Date, Interval) => (left, right, Timestamp),
        (Add | Subtract, Date, Int4) => (left, right, Date),
        (Add, Int4, Date) => (left, right, Date),
        (Subtract, Date, Date) => (left, right, Int4),
        (Subtract, Timestamp | TimestampTz | Time, Timestamp | TimestampTz | Time) => (left, right, Interval),
        (Add | Subtract, Timestamp | TimestampTz | Time, Interval) => (left, right, l),
        (Multiply | BinaryOp::Divide, Interval, _) => (left, right, Interval),
        (Power, ..) => {
            let ty = if common(l, r) == NUMERIC { NUMERIC } else { SqlType::Float8 };
            (to(left, ty), to(right, ty), ty)
        }
        _ => {
            let is_string = |ty| matches!(ty, SqlType::Text | SqlType::Varchar(_) | SqlType::Char(_));
            let ty = if is_string(l) && is_string(r) { Text } else { common(l, r) };
            let ty = if (l, r) == (Date, Timestamp) { Timestamp } else { ty };
            (to(left, ty), to(right, ty), ty)
        }
    };
    let result = if is_comparison { SqlType::Bool } else { ty };
    (Expr::Binary { op, left: Box::new(left.0), right: Box::new(right.0), ty: result }, result)
}

fn function(name: &str, args: Vec<Typed>) -> Typed {
    use Function as F;
    let all = args.iter().fold(SqlType::Unknown, |ty, arg| common(ty, arg.1));
    let first = args.first().map_or(SqlType::Unknown, |arg| arg.1);
    // Of numbers: decimal numbers stay, all others become floats.
    let real = if all == NUMERIC { NUMERIC } else { SqlType::Float8 };
    let rounded = if args.len() == 2 { NUMERIC } else { real };
    let text = SqlType::Text;
    let (function, ty, arg_ty) = match name {
        "abs" => (F::Abs, first, None),
        "sign" => (F::Sign, real, Some(real)),
        "ceil" => (F::Ceil, real, Some(real)),
        "floor" => (F::Floor, real, Some(real)),
        "round" => (F::Round, rounded, (args.len() == 1).then_some(real)),
        "trunc" => (F::Trunc, rounded, (args.len() == 1).then_some(real)),
        "mod" => (F::Mod, all, Some(all)),
        "div" => (F::Div, NUMERIC, Some(NUMERIC)),
        "power" => (F::Power, real, Some(real)),
        "sqrt" => (F::Sqrt, real, Some(real)),
        "cbrt" => (F::Cbrt, SqlType::Float8, Some(SqlType::Float8)),
        "exp" => (F::Exp, real, Some(real)),
        "ln" => (F::Ln, real, Some(real)),
        "log" => (F::Log, real, Some(real)),
        "trim_scale" => (F::TrimScale, NUMERIC, None),
        "greatest" => (F::Greatest, all, Some(all)),
        "least" => (F::Least, all, Some(all)),
        "coalesce" => (F::Coalesce, all, Some(all)),
        "nullif" => (F::NullIf, all, Some(all)),
        "length" => (F::Length, SqlType::Int4, None),
        "octet_length" => (F::OctetLength, SqlType::Int4, None),
        "lower" => (F::Lower, text, None),
        "upper" => (F::Upper, text, None),
        "initcap" => (F::InitCap, text, None),
        "substring" if first == SqlType::Bytea => (F::Substring, first, None),
        "substring" => (F::Substring, text, None),
        "btrim" => (F::Trim, text, None),
        "ltrim" => (F::LeftTrim, text, None),
        "rtrim" => (F::RightTrim, text, None),
        "strpos" => (F::Position, SqlType::Int4, None),
        "replace" => (F::Replace, text, None),
        "translate" => (F::Translate, text, None),
        "repeat" => (F::Repeat, text, None),
        "left" => (F::Left, text, None),
        "right" => (F::Right, text, None),
        "lpad" => (F::LeftPad, text, None),
        "rpad" => (F::RightPad, text, None),
        "reverse" => (F::Reverse, text, None),
        "split_part" => (F::SplitPart, text, None),
        "starts_with" => (F::StartsWith, SqlType::Bool, None),
        "concat" => (F::Concat, text, None),
        "concat_ws" => (F::ConcatWs, text, None),
        "md5" => (F::Md5, text, None),
        "chr" => (F::Chr, text, None),
        "ascii" => (F::Ascii, SqlType::Int4, None),
        "to_hex" => (F::ToHex, text, None),
        "extract" => (F::DatePart, NUMERIC, None),
        "date_part" => (F::DatePart, SqlType::Float8, None),
        "date_trunc" => (F::DateTrunc, args[1].1, None),
        "age" => (F::Age, SqlType::Interval, None),
        "make_date" => (F::MakeDate, SqlType::Date, None),
        "to_timestamp" => (F::ToTimestamp, SqlType::TimestampTz, Some(SqlType::Float8)),
        "to_char" => (F::ToChar, text, None),
        "json_typeof" | "jsonb_typeof" => (F::JsonTypeOf, text, None),
        "json_array_length" => (F::JsonArrayLength, SqlType::Int4, None),
        name => panic!("no function {name}"),
    };
    let args = args.into_iter().enumerate().map(|(i, arg)| match arg_ty {
        Some(ty) => to(arg, ty).0,
        // round(int, int) and trunc(int, int) are those of decimal numbers.
        None if i == 0 && matches!(name, "round" | "trunc") => to(arg, NUMERIC).0,
        None => arg.0,
    });
    (Expr::Call { function, args: args.collect(), ty }, ty)
}
