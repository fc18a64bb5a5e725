//! Regular expressions: operators, `SIMILAR TO`, functions.

use super::Compiler;
use crate::coerce::{How, Typed};
use crate::error::{no_function, no_operator};
use crate::names::Scope;
use crate::{Stop, types};
use sql::SqlType::{Bool, Int4, Text, Unknown};
use sql::expression::Function;
use sql::{Datum, Element, Expr, SqlError, SqlType};
use sqlparser::ast::{self, BinaryOperator};

/// Whether an operator of patterns is a negative; `None` for other operators.
pub(super) fn regex_operator(op: &BinaryOperator) -> Option<bool> {
    Some(match op {
        BinaryOperator::PGRegexMatch | BinaryOperator::PGRegexIMatch => false,
        BinaryOperator::PGRegexNotMatch | BinaryOperator::PGRegexNotIMatch => true,
        _ => return None,
    })
}

fn text(value: &str) -> Expr {
    Expr::Const(Datum::Text(value.to_owned()))
}

impl Compiler<'_> {
    /// `left ~ right`, or `~*`.
    pub(super) fn matches(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        right: &ast::Expr,
        op: &BinaryOperator,
    ) -> Result<Typed, Stop> {
        let (left, right) = (self.expr(scope, left)?, self.expr(scope, right)?);
        if [left.ty, right.ty].iter().any(|ty| !types::is_text(*ty) && *ty != Unknown) {
            return Err(no_operator(left.ty, &op.to_string(), right.ty).into());
        }
        let ignores_case = matches!(op, BinaryOperator::PGRegexIMatch | BinaryOperator::PGRegexNotIMatch);
        let subject = self.params.coerce(left, Text, How::Implicit)?;
        let pattern = self.params.coerce(right, Text, How::Implicit)?;
        let args = vec![subject, pattern, text(if ignores_case { "i" } else { "" })];
        Ok(Typed::bool(Expr::Call { function: Function::RegexLike, args, ty: Bool }))
    }

    pub(super) fn similar(
        &mut self,
        scope: &Scope,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::Expr>,
    ) -> Result<Typed, Stop> {
        let mut args = Vec::with_capacity(3);
        for part in [Some(expr), Some(pattern), escape].into_iter().flatten() {
            let value = self.expr(scope, part)?;
            args.push(self.params.coerce(value, Text, How::Implicit)?);
        }
        if escape.is_none() {
            args.push(text("\\"));
        }
        Ok(Typed::bool(Expr::Call { function: Function::SimilarTo, args, ty: Bool }))
    }

    /// A function of a regular expression; `None` if it is another one.
    pub(super) fn of_regex(&mut self, name: &str, args: &[Typed]) -> Result<Option<Typed>, Stop> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let texts = SqlType::Array(Element::Text);
        let is_text = |at: usize| types.get(at).is_some_and(|ty| types::is_text(*ty) || *ty == Unknown);
        // The types of the arguments, and how many of them may be left out.
        let (function, kinds, least, ty) = match (name, args.len()) {
            ("substring", 2) if is_text(1) => (Function::RegexSubstring, &[Text, Text][..], 2, Text),
            ("substring", 3) if types::is_text(types[1]) => {
                return Err(Stop::General("a pattern of SQL in SUBSTRING"));
            }
            ("regexp_like", _) => (Function::RegexLike, &[Text, Text, Text][..], 2, Bool),
            ("regexp_match", _) => (Function::RegexMatch, &[Text, Text, Text][..], 2, texts),
            ("regexp_split_to_array", _) => (Function::RegexSplit, &[Text, Text, Text][..], 2, texts),
            ("regexp_count", _) => (Function::RegexCount, &[Text, Text, Int4, Text][..], 2, Int4),
            ("regexp_replace", 4) if is_text(3) => {
                (Function::RegexReplace, &[Text, Text, Text, Text][..], 4, Text)
            }
            ("regexp_replace", _) => {
                (Function::RegexReplace, &[Text, Text, Text, Int4, Int4, Text][..], 3, Text)
            }
            ("regexp_instr" | "regexp_substr", _) => return Err(Stop::General("a function of this name")),
            _ => return Ok(None),
        };
        let is_fit = args.len() >= least
            && args.len() <= kinds.len()
            && types.iter().zip(kinds).all(|(from, to)| types::is_implicit(*from, *to));
        if !is_fit {
            return Err(no_function(name, &types).into());
        }
        let mut values = Vec::with_capacity(kinds.len());
        for (arg, kind) in args.iter().zip(kinds) {
            values.push(self.params.coerce(arg.clone(), *kind, How::Implicit)?);
        }
        // What is left out of flags and start is what it means.
        if function != Function::RegexReplace {
            for kind in &kinds[values.len()..] {
                values.push(if *kind == Int4 { Expr::Const(Datum::Int(1)) } else { text("") });
            }
        }
        Ok(Some(Typed::new(Expr::Call { function, args: values, ty }, ty)))
    }
}

/// The call of all matches, of which the result is an array of arrays.
///
/// # Errors
/// `42883` for other arguments than two or three texts.
pub fn all_matches(compiler: &mut Compiler<'_>, args: &[Typed]) -> Result<Expr, SqlError> {
    let mut values = Vec::with_capacity(3);
    if !(2..=3).contains(&args.len()) {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        return Err(no_function("regexp_matches", &types));
    }
    for arg in args {
        values.push(compiler.params.coerce(arg.clone(), Text, How::Implicit)?);
    }
    values.resize(3, text(""));
    Ok(Expr::Call { function: Function::RegexMatches, args: values, ty: SqlType::Array(Element::Text) })
}
