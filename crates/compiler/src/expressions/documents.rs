//! Operators and functions that read and change JSON documents.

use super::Compiler;
use crate::coerce::{How, Params, Typed};
use crate::error::{no_function, no_operator};
use crate::names::Scope;
use crate::{Stop, types};
use sql::SqlType::{Bool, Int4, Json, Jsonb, Text, Unknown};
use sql::expression::Function;
use sql::{Datum, Element, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{AccessExpr, BinaryOperator, Subscript};

const TEXTS: SqlType = SqlType::Array(Element::Text);

/// An operator of documents; `None` if it is another one.
pub(super) fn operator(
    params: &mut Params,
    op: &BinaryOperator,
    left: &Typed,
    right: &Typed,
) -> Result<Option<Typed>, SqlError> {
    use BinaryOperator as B;
    let is_json = |value: &Typed| matches!(value.ty, Json | Jsonb);
    let is_text = |ty: SqlType| types::is_text(ty) || ty == Unknown;
    let is_texts = |ty: SqlType| ty == Unknown || ty != Jsonb && types::is_implicit(ty, TEXTS);
    let is_jsonb = |ty: SqlType| matches!(ty, Jsonb | Unknown);
    // The function, whether the left operand may be a `json`, and the type of the right one.
    let found = match op {
        B::AtArrow | B::ArrowAt if is_json(left) || is_json(right) => {
            let is_known = is_jsonb(left.ty) && is_jsonb(right.ty);
            is_known.then_some((Function::JsonContains, Jsonb, Bool))
        }
        B::Question => is_text(right.ty).then_some((Function::JsonHasKey, Text, Bool)),
        B::QuestionPipe => is_texts(right.ty).then_some((Function::JsonHasAny, TEXTS, Bool)),
        B::QuestionAnd => is_texts(right.ty).then_some((Function::JsonHasAll, TEXTS, Bool)),
        B::HashArrow => is_texts(right.ty).then_some((Function::JsonPath, TEXTS, left.ty)),
        B::HashLongArrow => is_texts(right.ty).then_some((Function::JsonPath, TEXTS, Text)),
        B::HashMinus => is_texts(right.ty).then_some((Function::JsonDeletePath, TEXTS, Jsonb)),
        B::Minus if left.ty == Jsonb => match right.ty {
            ty if is_text(ty) => Some((Function::JsonDelete, Text, Jsonb)),
            ty if types::is_implicit(ty, Int4) => Some((Function::JsonDelete, Int4, Jsonb)),
            ty if is_texts(ty) => Some((Function::JsonDeleteKeys, TEXTS, Jsonb)),
            _ => None,
        },
        _ => return Ok(None),
    };
    let takes_json = matches!(op, B::HashArrow | B::HashLongArrow) && left.ty == Json;
    let refused = || no_operator(left.ty, &op.to_string(), right.ty);
    let (function, to, ty) = found.filter(|_| takes_json || is_jsonb(left.ty)).ok_or_else(refused)?;
    let from = if takes_json { Json } else { Jsonb };
    let ty = if ty == Unknown { Jsonb } else { ty };
    let left = params.coerce(left.clone(), from, How::Implicit)?;
    let right = params.coerce(right.clone(), to, How::Implicit)?;
    let args = if *op == B::ArrowAt { vec![right, left] } else { vec![left, right] };
    Ok(Some(Typed::new(Expr::Call { function, args, ty }, ty)))
}

impl Compiler<'_> {
    /// `document['name'][position]`, of a `jsonb`.
    pub(super) fn subscripted(
        &mut self,
        scope: &Scope,
        document: Typed,
        accesses: &[AccessExpr],
    ) -> Result<Typed, Stop> {
        let mut steps = Vec::with_capacity(accesses.len());
        for access in accesses {
            let AccessExpr::Subscript(Subscript::Index { index }) = access else {
                let what = "jsonb subscript does not support slices";
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, what).into());
            };
            let index = self.expr(scope, index)?;
            if !types::is_text(index.ty) && index.ty != Unknown && !types::is_implicit(index.ty, Int4) {
                let message = format!("subscript type {} is not supported", types::name_of(index.ty));
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                return Err(error
                    .with_hint("jsonb subscript must be coercible to either integer or text.")
                    .into());
            }
            steps.push(self.params.coerce(index, Text, How::Assigned)?);
        }
        let path = Expr::Call { function: Function::Array, args: steps, ty: TEXTS };
        let args = vec![document.expr, path];
        Ok(Typed::new(Expr::Call { function: Function::JsonPath, args, ty: Jsonb }, Jsonb))
    }

    /// A function of a document; `None` if it is another one.
    pub(super) fn of_document(&mut self, name: &str, args: &[Typed]) -> Result<Option<Typed>, SqlError> {
        let (function, kinds, least, ty) = match name {
            "jsonb_set" => (Function::JsonSet, &[Jsonb, TEXTS, Jsonb, Bool][..], 3, Jsonb),
            "jsonb_insert" => (Function::JsonInsert, &[Jsonb, TEXTS, Jsonb, Bool][..], 3, Jsonb),
            "jsonb_strip_nulls" => (Function::JsonStripNulls, &[Jsonb][..], 1, Jsonb),
            "json_strip_nulls" => (Function::JsonStripNulls, &[Json][..], 1, Json),
            "jsonb_pretty" => (Function::JsonPretty, &[Jsonb][..], 1, Text),
            "json_extract_path" => return self.extracted(name, args, (Json, Json)).map(Some),
            "jsonb_extract_path" => return self.extracted(name, args, (Jsonb, Jsonb)).map(Some),
            "json_extract_path_text" => return self.extracted(name, args, (Json, Text)).map(Some),
            "jsonb_extract_path_text" => return self.extracted(name, args, (Jsonb, Text)).map(Some),
            _ => return Ok(None),
        };
        let refused = || no_function(name, &args.iter().map(|arg| arg.ty).collect::<Vec<_>>());
        if !(least..=kinds.len()).contains(&args.len()) {
            return Err(refused());
        }
        let mut values = Vec::with_capacity(kinds.len());
        for (arg, &kind) in args.iter().zip(kinds) {
            if arg.ty != kind && !types::is_implicit(arg.ty, kind) {
                return Err(refused());
            }
            values.push(self.params.coerce(arg.clone(), kind, How::Implicit)?);
        }
        if values.len() == 3 {
            values.push(Expr::Const(Datum::Bool(function == Function::JsonSet)));
        }
        Ok(Some(Typed::new(Expr::Call { function, args: values, ty }, ty)))
    }

    /// `json_extract_path(document, step, ...)`.
    fn extracted(
        &mut self,
        name: &str,
        args: &[Typed],
        (from, ty): (SqlType, SqlType),
    ) -> Result<Typed, SqlError> {
        let refused = || no_function(name, &args.iter().map(|arg| arg.ty).collect::<Vec<_>>());
        let [document, steps @ ..] = args else { return Err(refused()) };
        let is_known = |ty: SqlType, to: SqlType| ty == Unknown || types::is_implicit(ty, to);
        if steps.is_empty()
            || !is_known(document.ty, from)
            || !steps.iter().all(|step| is_known(step.ty, Text))
        {
            return Err(refused());
        }
        let document = self.params.coerce(document.clone(), from, How::Implicit)?;
        let steps = steps.iter().map(|step| self.params.coerce(step.clone(), Text, How::Implicit));
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        let path = Expr::Call { function: Function::Array, args: steps, ty: TEXTS };
        Ok(Typed::new(Expr::Call { function: Function::JsonPath, args: vec![document, path], ty }, ty))
    }
}

/// The arrays of which the elements are the rows of a function, with the types of the elements.
pub fn parts(
    compiler: &mut Compiler<'_>,
    name: &str,
    args: &[Typed],
) -> Result<Vec<(Expr, SqlType)>, SqlError> {
    let refused = || no_function(name, &args.iter().map(|arg| arg.ty).collect::<Vec<_>>());
    let from = if name.starts_with("jsonb_") { Jsonb } else { Json };
    let [document] = args else { return Err(refused()) };
    if document.ty != from && document.ty != Unknown {
        return Err(refused());
    }
    let document = compiler.params.coerce(document.clone(), from, How::Implicit)?;
    let part = |function: &str, ty: SqlType| {
        let args = vec![document.clone(), Expr::Const(Datum::Text(function.to_owned()))];
        let array = types::array_of(ty)?;
        Ok::<_, SqlError>((Expr::Call { function: Function::JsonParts, args, ty: array }, ty))
    };
    let value = if name.ends_with("_text") || name.ends_with("_keys") { Text } else { from };
    match name.contains("_each") {
        true => Ok(vec![part(&format!("{name} keys"), Text)?, part(name, value)?]),
        false => Ok(vec![part(name, value)?]),
    }
}
