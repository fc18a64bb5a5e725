//! Operands of known types, of a planner that has a syntax of its own.

use crate::coerce::Typed;
use sql::{Datum, Expr, SqlType};

/// An operand: its type, and its value if it is a constant. One that is no constant is the column
/// of its position in the row that the expression is evaluated over.
#[derive(Clone, PartialEq, Debug)]
pub struct Operand {
    pub ty: SqlType,
    pub constant: Option<Datum>,
}

pub(crate) fn typed(operands: &[Operand]) -> Vec<Typed> {
    let one = |(operand, at): (&Operand, u16)| {
        let expr = operand.constant.clone().map_or(Expr::Column(at), Expr::Const);
        Typed::new(expr, operand.ty)
    };
    operands.iter().zip(0..).map(one).collect()
}
