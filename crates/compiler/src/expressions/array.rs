//! Arrays as values: `ARRAY[...]`, elements, slices, `= ANY (array)`, operators, functions.

use super::Compiler;
use crate::coerce::{How, Params, Typed};
use crate::error::{no_function, no_operator};
use crate::names::Scope;
use crate::{Stop, types};
use sql::SqlType::{Int4, Text, Unknown};
use sql::expression::Function;
use sql::{Datum, Element, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, AccessExpr, BinaryOperator, Subscript};

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

    /// `array[index]`, `array[from:to]`.
    pub(super) fn element(
        &mut self,
        scope: &Scope,
        root: &ast::Expr,
        accesses: &[AccessExpr],
    ) -> Result<Typed, Stop> {
        let array = self.expr(scope, root)?;
        if array.ty == SqlType::Jsonb {
            return self.subscripted(scope, array, accesses);
        }
        let [AccessExpr::Subscript(subscript)] = accesses else {
            return Err(Stop::General("an element of this kind"));
        };
        let SqlType::Array(element) = array.ty else {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                types::name_of(array.ty)
            );
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).into());
        };
        match subscript {
            Subscript::Index { index } => {
                let index = self.subscript(scope, index)?;
                Ok(called(Function::ArrayElement, vec![array.expr, index], element.ty()))
            }
            Subscript::Slice { lower_bound, upper_bound, stride: None } => {
                let from = match lower_bound {
                    Some(from) => self.subscript(scope, from)?,
                    None => Expr::Const(Datum::Int(1)),
                };
                let to = match upper_bound {
                    Some(to) => self.subscript(scope, to)?,
                    None => Expr::Const(Datum::Int(i32::MAX.into())),
                };
                Ok(called(Function::ArraySlice, vec![array.expr, from, to], array.ty))
            }
            Subscript::Slice { .. } => Err(Stop::General("a slice with a stride")),
        }
    }

    fn subscript(&mut self, scope: &Scope, index: &ast::Expr) -> Result<Expr, Stop> {
        let index = self.expr(scope, index)?;
        Ok(self.params.coerce(index, Int4, How::Assigned)?)
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
        match (name, args) {
            ("array_append" | "array_prepend" | "array_cat", [left, right]) => {
                let joined = concatenated(&mut self.params, left, right, parts_of(name))?;
                return joined.map(Some).ok_or_else(|| no_function(name, &[left.ty, right.ty]));
            }
            ("array_remove" | "array_replace" | "array_position" | "array_positions", [_, _, ..]) => {
                return self.of_elements(name, args).map(Some);
            }
            ("string_to_array", [_, _] | [_, _, _]) => {
                let values = args.iter().map(|arg| self.params.coerce(arg.clone(), Text, How::Implicit));
                let ty = SqlType::Array(Element::Text);
                return Ok(Some(called(Function::StringToArray, values.collect::<Result<_, _>>()?, ty)));
            }
            _ => {}
        }
        if !matches!(args.first(), Some(Typed { ty: SqlType::Array(_), .. })) {
            return Ok(None);
        }
        let (function, types, ty) = match (name, args.len()) {
            ("cardinality", 1) => (Function::ArrayCount, &[][..], Int4),
            ("array_length" | "array_upper", 2) => (Function::ArrayLength, &[Int4][..], Int4),
            ("array_lower", 2) => (Function::ArrayLower, &[Int4][..], Int4),
            ("array_ndims", 1) => (Function::ArrayDimensions, &[][..], Int4),
            ("array_dims", 1) => (Function::ArrayDimensions, &[][..], Text),
            ("array_to_string", 2 | 3) => (Function::ArrayToString, &[Text, Text][..], Text),
            _ => return Ok(None),
        };
        let mut values = vec![args[0].expr.clone()];
        for (arg, ty) in args[1..].iter().zip(types) {
            values.push(self.params.coerce(arg.clone(), *ty, How::Implicit)?);
        }
        Ok(Some(called(function, values, ty)))
    }

    /// Functions of an array and values that are compared with its elements.
    fn of_elements(&mut self, name: &str, args: &[Typed]) -> Result<Typed, SqlError> {
        let types: Vec<SqlType> = args.iter().map(|arg| arg.ty).collect();
        let refused = || no_function(name, &types);
        let (function, values) = match (name, args.len()) {
            ("array_remove", 2) => (Function::ArrayRemove, 1..2),
            ("array_replace", 3) => (Function::ArrayReplace, 1..3),
            ("array_position", 2 | 3) => (Function::ArrayPosition, 1..2),
            ("array_positions", 2) => (Function::ArrayPositions, 1..2),
            _ => return Err(refused()),
        };
        let mut ty = match types[0] {
            SqlType::Array(element) => element.ty(),
            Unknown => Unknown,
            _ => return Err(refused()),
        };
        for value in &args[values.clone()] {
            ty = types::common(ty, value.ty).ok_or_else(refused)?;
        }
        let ty = types::without_length(if ty == Unknown { Text } else { ty });
        let array = types::array_of(ty)?;
        let mut exprs = vec![self.params.coerce(args[0].clone(), array, How::Implicit)?];
        for (arg, at) in args.iter().zip(0..).skip(1) {
            let to = if values.contains(&at) { ty } else { Int4 };
            exprs.push(self.params.coerce(arg.clone(), to, How::Implicit)?);
        }
        let result = match function {
            Function::ArrayPosition => Int4,
            Function::ArrayPositions => SqlType::Array(Element::Int4),
            _ => array,
        };
        // The call has the type of the array, by which the elements are read.
        Ok(Typed::new(Expr::Call { function, args: exprs, ty: array }, result))
    }
}

fn called(function: Function, args: Vec<Expr>, ty: SqlType) -> Typed {
    Typed::new(Expr::Call { function, args, ty }, ty)
}

/// What the operands of a concatenation are.
#[derive(Clone, Copy, PartialEq)]
enum Parts {
    /// As their types say.
    Any,
    Arrays,
    ArrayAndElement,
    ElementAndArray,
}

fn parts_of(name: &str) -> Parts {
    match name {
        "array_append" => Parts::ArrayAndElement,
        "array_prepend" => Parts::ElementAndArray,
        _ => Parts::Arrays,
    }
}

/// An operator of arrays; `None` if no operand is one.
pub(super) fn operator(
    params: &mut Params,
    op: &BinaryOperator,
    left: &Typed,
    right: &Typed,
) -> Result<Option<Typed>, SqlError> {
    let symbol = match op {
        BinaryOperator::StringConcat => "||",
        BinaryOperator::AtArrow => "@>",
        BinaryOperator::ArrowAt => "<@",
        BinaryOperator::PGOverlap => "&&",
        _ => return Ok(None),
    };
    let arrays = [left.ty, right.ty].into_iter().filter(|ty| matches!(ty, SqlType::Array(_)));
    let Some(ty) = arrays.clone().next() else { return Ok(None) };
    let refused = || no_operator(left.ty, symbol, right.ty);
    if *op == BinaryOperator::StringConcat {
        let joined = concatenated(params, left, right, Parts::Any)?;
        return joined.map(Some).ok_or_else(refused);
    }
    if [left.ty, right.ty].iter().any(|of| *of != ty && *of != Unknown) {
        return Err(refused());
    }
    let left = params.coerce(left.clone(), ty, How::Implicit)?;
    let right = params.coerce(right.clone(), ty, How::Implicit)?;
    let (function, args) = match op {
        BinaryOperator::AtArrow => (Function::ArrayContains, vec![left, right]),
        BinaryOperator::ArrowAt => (Function::ArrayContains, vec![right, left]),
        _ => (Function::ArrayOverlaps, vec![left, right]),
    };
    Ok(Some(Typed::bool(Expr::Call { function, args, ty })))
}

/// `left || right`; `None` if their types have none in common. A literal beside an array is an
/// array.
fn concatenated(
    params: &mut Params,
    left: &Typed,
    right: &Typed,
    parts: Parts,
) -> Result<Option<Typed>, SqlError> {
    use SqlType::Array;
    let parts = match (parts, left.ty, right.ty) {
        (Parts::Any, Array(_), Array(_) | Unknown) | (Parts::Any, Unknown, Array(_)) => Parts::Arrays,
        (Parts::Any, Array(_), _) => Parts::ArrayAndElement,
        (Parts::Any, _, _) => Parts::ElementAndArray,
        (parts, ..) => parts,
    };
    let element = |ty: SqlType, is_array: bool| match ty {
        Array(element) if is_array => Some(element.ty()),
        Unknown => Some(Unknown),
        ty => (!is_array).then_some(ty),
    };
    let (first, second) = (parts != Parts::ElementAndArray, parts != Parts::ArrayAndElement);
    let both = element(left.ty, first).zip(element(right.ty, second));
    let Some(ty) = both.and_then(|(left, right)| types::common(left, right)) else { return Ok(None) };
    let ty = types::without_length(if ty == Unknown { Text } else { ty });
    let array = types::array_of(ty)?;
    let left = params.coerce(left.clone(), if first { array } else { ty }, How::Implicit)?;
    let right = params.coerce(right.clone(), if second { array } else { ty }, How::Implicit)?;
    let function = match parts {
        Parts::ArrayAndElement => Function::ArrayAppend,
        Parts::ElementAndArray => Function::ArrayPrepend,
        _ => Function::ArrayConcat,
    };
    Ok(Some(called(function, vec![left, right], array)))
}
