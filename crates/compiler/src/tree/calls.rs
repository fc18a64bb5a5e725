//! Window functions, and the order of an aggregate's rows.

use super::{Bound, Frame, FrameBy, OrderBy, Window, WindowFunction, select::window_column};
use crate::Stop;
use crate::coerce::{How, Typed};
use crate::error::no_function;
use crate::expressions::{Compiler, functions};
use crate::names::{Scope, folded};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, WindowFrameBound, WindowFrameUnits, WindowType};

impl Compiler<'_> {
    /// The keys of an order.
    pub fn order_by(&mut self, scope: &Scope, exprs: &[ast::OrderByExpr]) -> Result<Vec<OrderBy>, Stop> {
        let mut order = Vec::with_capacity(exprs.len());
        for by in exprs {
            let value = self.expr(scope, &by.expr)?;
            let Typed { expr, ty } = self.params.settle(value)?;
            let (descending, nulls_first) = crate::items::direction(ty, &by.options)?;
            order.push(OrderBy { expr, descending, nulls_first });
        }
        Ok(order)
    }

    /// A call with `OVER`.
    pub fn window(
        &mut self,
        scope: &Scope,
        name: &str,
        args: &[&ast::Expr],
        call: (&WindowType, Option<&ast::Expr>),
    ) -> Result<Typed, Stop> {
        // Inside a window there is no other one.
        let Some(found) = self.tree.as_mut().and_then(|tree| tree.windows.take()) else {
            let message = "window functions are not allowed here";
            return Err(SqlError::new(SqlState(*b"42P20"), message).into());
        };
        let window = self.window_of(scope, name, args, call);
        let tree = self.tree.as_mut().map(|tree| tree.windows.insert(found));
        let (Some(windows), window) = (tree, window?) else { return Err(Stop::General("a window")) };
        let ty = window.ty;
        let at = windows.iter().position(|known| *known == window).unwrap_or(windows.len());
        if at == windows.len() {
            windows.push(window);
        }
        Ok(Typed::new(window_column(at)?, ty))
    }

    fn window_of(
        &mut self,
        scope: &Scope,
        name: &str,
        args: &[&ast::Expr],
        (over, filter): (&WindowType, Option<&ast::Expr>),
    ) -> Result<Window, Stop> {
        let spec = match over {
            WindowType::WindowSpec(spec) => spec.clone(),
            WindowType::NamedWindow(ident) => self.named_window(&folded(ident))?,
        };
        if spec.window_name.is_some() {
            return Err(Stop::General("a window that is another one with more"));
        }
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.expr(scope, arg)?);
        }
        let (function, args, ty) = self.window_function(name, values)?;
        let filter = filter.map(|filter| self.condition(scope, filter, "FILTER")).transpose()?;
        if filter.is_some() && !matches!(function, WindowFunction::Aggregate(_)) {
            return Err(Stop::General("FILTER of a window function that is no aggregate"));
        }
        let mut partition = Vec::with_capacity(spec.partition_by.len());
        for expr in &spec.partition_by {
            let value = self.expr(scope, expr)?;
            partition.push(self.params.settle(value)?.expr);
        }
        let order = self.order_by(scope, &spec.order_by)?;
        let frame = self.frame(scope, spec.window_frame.as_ref())?;
        Ok(Window { function, args, filter, partition, order, frame, ty })
    }

    /// A window of the clause `WINDOW`.
    fn named_window(&self, name: &str) -> Result<ast::WindowSpec, SqlError> {
        let known = self.tree.iter().flat_map(|tree| &tree.named_windows);
        let found = known.into_iter().find(|(known, _)| known == name);
        found.map(|(_, spec)| spec.clone()).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
        })
    }

    fn window_function(
        &mut self,
        name: &str,
        mut values: Vec<Typed>,
    ) -> Result<(WindowFunction, Vec<Expr>, SqlType), Stop> {
        use WindowFunction as W;
        let types: Vec<SqlType> = values.iter().map(|value| value.ty).collect();
        let plain = |function, ty| Ok((function, Vec::new(), ty));
        match (name, values.len()) {
            ("row_number", 0) => return plain(W::RowNumber, SqlType::Int8),
            ("rank", 0) => return plain(W::Rank, SqlType::Int8),
            ("dense_rank", 0) => return plain(W::DenseRank, SqlType::Int8),
            ("percent_rank", 0) => return plain(W::PercentRank, SqlType::Float8),
            ("cume_dist", 0) => return plain(W::CumeDist, SqlType::Float8),
            ("ntile", 1) => {
                let count = self.params.coerce(values.remove(0), SqlType::Int4, How::Implicit)?;
                return Ok((W::Ntile, vec![count], SqlType::Int4));
            }
            ("lag" | "lead", 1..=3) => {
                let function = if name == "lag" { W::Lag } else { W::Lead };
                let default = (values.len() == 3).then(|| values.remove(2));
                let by = (values.len() == 2).then(|| values.remove(1));
                let by = by.unwrap_or(Typed::new(Expr::Const(Datum::Int(1)), SqlType::Int4));
                let by = self.params.coerce(by, SqlType::Int4, How::Implicit)?;
                let default = default.unwrap_or(Typed::new(Expr::Const(Datum::Null), SqlType::Unknown));
                let (mut both, ty) = self.of_one_type(name, vec![values.remove(0), default])?;
                both.insert(1, by);
                return Ok((function, both, ty));
            }
            ("first_value" | "last_value", 1) => {
                let function = if name == "first_value" { W::FirstValue } else { W::LastValue };
                let value = self.params.settle(values.remove(0))?;
                return Ok((function, vec![value.expr], value.ty));
            }
            ("nth_value", 2) => {
                let at = self.params.coerce(values.remove(1), SqlType::Int4, How::Implicit)?;
                let value = self.params.settle(values.remove(0))?;
                return Ok((W::NthValue, vec![value.expr, at], value.ty));
            }
            _ => {}
        }
        let written = if name == "count" { 1 } else { values.len() };
        let Some(aggregate) = functions::aggregate(name, values.len(), written) else {
            return Err(no_function(name, &types).into());
        };
        let mut settled = Vec::with_capacity(values.len());
        for value in values {
            settled.push(self.params.settle(value)?);
        }
        let arg = settled.first().map_or(SqlType::Unknown, |value| value.ty);
        let ty = functions::aggregate_type(aggregate, arg).ok_or_else(|| no_function(name, &types))?;
        Ok((W::Aggregate(aggregate), settled.into_iter().map(|value| value.expr).collect(), ty))
    }

    fn frame(&mut self, scope: &Scope, frame: Option<&ast::WindowFrame>) -> Result<Frame, Stop> {
        let Some(frame) = frame else {
            return Ok(Frame { by: FrameBy::Range, start: Bound::First, end: Bound::Current });
        };
        let by = match frame.units {
            WindowFrameUnits::Rows => FrameBy::Rows,
            WindowFrameUnits::Range => FrameBy::Range,
            WindowFrameUnits::Groups => FrameBy::Groups,
        };
        let current = WindowFrameBound::CurrentRow;
        let start = self.bound(scope, by, &frame.start_bound)?;
        let end = self.bound(scope, by, frame.end_bound.as_ref().unwrap_or(&current))?;
        let wrong = match (&start, &end) {
            (Bound::Last, _) => Some("frame start cannot be UNBOUNDED FOLLOWING"),
            (_, Bound::First) => Some("frame end cannot be UNBOUNDED PRECEDING"),
            (Bound::Current, Bound::Before(_)) => {
                Some("frame starting from current row cannot have preceding rows")
            }
            (Bound::After(_), Bound::Before(_) | Bound::Current) => {
                Some("frame starting from following row cannot have preceding rows")
            }
            _ => None,
        };
        match wrong {
            Some(message) => Err(SqlError::new(SqlState(*b"42P20"), message).into()),
            None => Ok(Frame { by, start, end }),
        }
    }

    fn bound(&mut self, scope: &Scope, by: FrameBy, bound: &WindowFrameBound) -> Result<Bound, Stop> {
        let offset = match bound {
            WindowFrameBound::CurrentRow => return Ok(Bound::Current),
            WindowFrameBound::Preceding(None) => return Ok(Bound::First),
            WindowFrameBound::Following(None) => return Ok(Bound::Last),
            WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset)) => offset,
        };
        if by == FrameBy::Range {
            return Err(Stop::General("RANGE with an offset"));
        }
        let value = self.expr(scope, offset)?;
        let value = self.params.coerce(value, SqlType::Int8, How::Implicit)?;
        Ok(match bound {
            WindowFrameBound::Preceding(_) => Bound::Before(value),
            _ => Bound::After(value),
        })
    }
}
