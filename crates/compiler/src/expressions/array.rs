//! Arrays as values: `ARRAY[...]`, elements, `= ANY (array)`, functions.

use super::Compiler;
use crate::coerce::{How, Typed};
use crate::error::no_operator;
use crate::names::Scope;
use crate::{Stop, types};
use sql::expression::Function;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, AccessExpr, Subscript};

/// `ARRAY[]`.
pub fn empty() -> Typed {
    Typed::new(Expr::Const(Datum::Text("{}".into())), SqlType::Unknown)
}

impl Compiler<'_> {
    pub(super) fn array(&mut self, scope: &Scope, array: &ast::Array) -> Result<Typed, Stop> {
        if array.elem.is_empty() {
            let message = "cannot determine type of empty array";
            return Err(SqlError::new(SqlState::INDETERMINATE_DATATYPE, message)
                .with_hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].")
                .into());
        }
        let mut values = Vec::with_capacity(array.elem.len());
        for value in &array.elem {
            values.push(self.expr(scope, value)?);
        }
        let (args, ty) = self.of_one_type("ARRAY", values)?;
        let ty = types::array_of(types::without_length(ty))?;
        Ok(Typed::new(Expr::Call { function: Function::Array, args, ty }, ty))
    }

    /// `array[index]`.
    pub(super) fn element(
        &mut self,
        scope: &Scope,
        root: &ast::Expr,
        accesses: &[AccessExpr],
    ) -> Result<Typed, Stop> {
        let [AccessExpr::Subscript(Subscript::Index { index })] = accesses else {
            return Err(Stop::General("an element of this kind"));
        };
        let array = self.expr(scope, root)?;
        let SqlType::Array(element) = array.ty else {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                types::name_of(array.ty)
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).into());
        };
        let index = self.expr(scope, index)?;
        let index = self.params.coerce(index, SqlType::Int4, How::Assigned)?;
        let (args, ty) = (vec![array.expr, index], element.ty());
        Ok(Typed::new(Expr::Call { function: Function::ArrayElement, args, ty }, ty))
    }

    /// `left = ANY (array)`, or `left <> ALL (array)`, which is its negative.
    pub(super) fn any_element(
        &mut self,
        scope: &Scope,
        left: &ast::Expr,
        (is_unequal, all): (bool, bool),
        array: &ast::Expr,
    ) -> Result<Typed, Stop> {
        if is_unequal != all {
            return Err(Stop::General("this operator with ANY or ALL of an array"));
        }
        let (left, array) = (self.expr(scope, left)?, self.expr(scope, array)?);
        let SqlType::Array(element) = array.ty else { return Err(Stop::General("an array")) };
        if !types::is_implicit(left.ty, element.ty()) {
            return Err(no_operator(left.ty, "=", array.ty).into());
        }
        let left = self.params.coerce(left, element.ty(), How::Implicit)?;
        let ty = array.ty;
        let any = Typed::bool(Expr::Call { function: Function::IsAny, args: vec![left, array.expr], ty });
        Ok(if all { super::not(any) } else { any })
    }

    /// A function of an array; `None` if it is another one.
    pub(super) fn of_array(&mut self, name: &str, args: &[Typed]) -> Result<Option<Typed>, SqlError> {
        if !matches!(args.first(), Some(Typed { ty: SqlType::Array(_), .. })) {
            return Ok(None);
        }
        let (function, types, ty) = match (name, args.len()) {
            ("cardinality", 1) => (Function::ArrayCount, &[][..], SqlType::Int4),
            ("array_length", 2) => (Function::ArrayLength, &[SqlType::Int4][..], SqlType::Int4),
            ("array_to_string", 2 | 3) => {
                (Function::ArrayToString, &[SqlType::Text, SqlType::Text][..], SqlType::Text)
            }
            _ => return Ok(None),
        };
        let mut values = vec![args[0].expr.clone()];
        for (arg, ty) in args[1..].iter().zip(types) {
            values.push(self.params.coerce(arg.clone(), *ty, How::Implicit)?);
        }
        Ok(Some(Typed::new(Expr::Call { function, args: values, ty }, ty)))
    }
}
