//! Walks through expressions.

use sql::Expr;

/// Calls `visit` for each part that is directly inside.
pub fn children<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    match expr {
        Expr::Const(_) | Expr::Param(_) | Expr::Column(_) | Expr::Now => {}
        Expr::Not(inner) | Expr::IsNull(inner) | Expr::Negate(inner, _) | Expr::Cast { expr: inner, .. } => {
            visit(inner)
        }
        Expr::And(list) | Expr::Or(list) | Expr::Call { args: list, .. } => list.iter().for_each(visit),
        Expr::Binary { left, right, .. } | Expr::Same(left, right) => {
            visit(left);
            visit(right);
        }
        Expr::In { expr, list } => {
            visit(expr);
            list.iter().for_each(visit);
        }
        Expr::Like { expr, pattern, .. } => {
            visit(expr);
            visit(pattern);
        }
        Expr::Case { branches, otherwise } => {
            for (condition, value) in branches {
                visit(condition);
                visit(value);
            }
            visit(otherwise);
        }
    }
}

/// Calls `visit` for each part that is directly inside.
pub fn children_mut(expr: &mut Expr, visit: &mut dyn FnMut(&mut Expr)) {
    match expr {
        Expr::Const(_) | Expr::Param(_) | Expr::Column(_) | Expr::Now => {}
        Expr::Not(inner) | Expr::IsNull(inner) | Expr::Negate(inner, _) | Expr::Cast { expr: inner, .. } => {
            visit(inner)
        }
        Expr::And(list) | Expr::Or(list) | Expr::Call { args: list, .. } => list.iter_mut().for_each(visit),
        Expr::Binary { left, right, .. } | Expr::Same(left, right) => {
            visit(left);
            visit(right);
        }
        Expr::In { expr, list } => {
            visit(expr);
            list.iter_mut().for_each(visit);
        }
        Expr::Like { expr, pattern, .. } => {
            visit(expr);
            visit(pattern);
        }
        Expr::Case { branches, otherwise } => {
            for (condition, value) in branches {
                visit(condition);
                visit(value);
            }
            visit(otherwise);
        }
    }
}

/// Whether all columns of the expression satisfy `is_fine`.
pub fn all_columns(expr: &Expr, is_fine: &dyn Fn(u16) -> bool) -> bool {
    if let Expr::Column(column) = expr {
        return is_fine(*column);
    }
    let mut fine = true;
    children(expr, &mut |inner| fine = fine && all_columns(inner, is_fine));
    fine
}

/// Whether the expression has the same value for all rows of an execution.
pub fn is_stable(expr: &Expr) -> bool {
    use sql::expression::Function;
    if matches!(expr, Expr::Call { function: Function::Random | Function::GenRandomUuid, .. }) {
        return false;
    }
    let mut stable = true;
    children(expr, &mut |inner| stable = stable && is_stable(inner));
    stable
}

/// Gives each column another number.
pub fn renumber(expr: &mut Expr, number: &dyn Fn(u16) -> u16) {
    if let Expr::Column(column) = expr {
        *column = number(*column);
    }
    children_mut(expr, &mut |inner| renumber(inner, number));
}

/// The conditions of which all must hold.
pub fn conjuncts(expr: Expr, into: &mut Vec<Expr>) {
    match expr {
        Expr::And(list) => list.into_iter().for_each(|inner| conjuncts(inner, into)),
        expr => into.push(expr),
    }
}

/// One condition that holds if all do; `None` without any.
pub fn all_of(mut conditions: Vec<Expr>) -> Option<Expr> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(Expr::And(conditions)),
    }
}
