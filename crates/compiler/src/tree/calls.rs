//! Window functions, and the order of an aggregate's rows.

use super::{Bound, Frame, FrameBy, OrderBy, Window, WindowFunction, select::window_column};
use crate::Stop;
use crate::coerce::{How, Typed};
use crate::error::no_function;
use crate::expressions::{Compiler, aggregates};
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
            order.push(OrderBy { expr, ty, descending, nulls_first });
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
            WindowType::WindowSpec(spec) => self.whole_window(spec)?,
            WindowType::NamedWindow(ident) => self.named_window(&folded(ident))?,
        };
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
        let mut order = self.order_by(scope, &spec.order_by)?;
        let frame = self.frame(scope, spec.window_frame.as_ref(), &mut order)?;
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

    /// A window with what it takes from the one that it names.
    ///
    /// # Errors
    /// `42704` for an unknown name, `42P20` if it changes what the other one has.
    pub fn whole_window(&self, spec: &ast::WindowSpec) -> Result<ast::WindowSpec, SqlError> {
        let Some(ident) = &spec.window_name else { return Ok(spec.clone()) };
        let name = folded(ident);
        let base = self.named_window(&name)?;
        let wrong = |message: String| Err(SqlError::new(SqlState(*b"42P20"), message));
        if !spec.partition_by.is_empty() {
            return wrong(format!("cannot override PARTITION BY clause of window \"{name}\""));
        }
        if !spec.order_by.is_empty() && !base.order_by.is_empty() {
            return wrong(format!("cannot override ORDER BY clause of window \"{name}\""));
        }
        if base.window_frame.is_some() {
            return wrong(format!("cannot copy window \"{name}\" because it has a frame clause"));
        }
        let order_by = if base.order_by.is_empty() { spec.order_by.clone() } else { base.order_by };
        let window_frame = spec.window_frame.clone();
        Ok(ast::WindowSpec { window_name: None, partition_by: base.partition_by, order_by, window_frame })
    }

    /// Keeps the windows of the clause `WINDOW`, each of which may name those before it.
    ///
    /// # Errors
    /// Those of [`Compiler::whole_window`]; `42P20` for a name that is there twice.
    pub fn keep_windows(&mut self, windows: &[ast::NamedWindowDefinition]) -> Result<(), Stop> {
        for ast::NamedWindowDefinition(ident, window) in windows {
            let ast::NamedWindowExpr::WindowSpec(spec) = window else {
                return Err(Stop::General("a window that is another one"));
            };
            let (name, spec) = (folded(ident), self.whole_window(spec)?);
            let Some(tree) = &mut self.tree else { return Err(Stop::General("a window")) };
            if tree.named_windows.iter().any(|(known, _)| *known == name) {
                let message = format!("window \"{name}\" is already defined");
                return Err(SqlError::new(SqlState(*b"42P20"), message).into());
            }
            tree.named_windows.push((name, spec));
        }
        Ok(())
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
        let Some(aggregate) = aggregates::named(name, values.len(), written) else {
            return Err(no_function(name, &types).into());
        };
        let mut settled = Vec::with_capacity(values.len());
        for value in values {
            settled.push(self.params.settle(value)?);
        }
        let arg = settled.first().map_or(SqlType::Unknown, |value| value.ty);
        let ty = aggregates::type_of(aggregate, arg).ok_or_else(|| no_function(name, &types))?;
        Ok((W::Aggregate(aggregate), settled.into_iter().map(|value| value.expr).collect(), ty))
    }

    fn frame(
        &mut self,
        scope: &Scope,
        frame: Option<&ast::WindowFrame>,
        order: &mut [OrderBy],
    ) -> Result<Frame, Stop> {
        let Some(frame) = frame else {
            return Ok(Frame { by: FrameBy::Range, start: Bound::First, end: Bound::Current });
        };
        let by = match frame.units {
            WindowFrameUnits::Rows => FrameBy::Rows,
            WindowFrameUnits::Range => FrameBy::Range,
            WindowFrameUnits::Groups => FrameBy::Groups,
        };
        let current = WindowFrameBound::CurrentRow;
        let start = self.bound(scope, by, &frame.start_bound, order)?;
        let end = self.bound(scope, by, frame.end_bound.as_ref().unwrap_or(&current), order)?;
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

    fn bound(
        &mut self,
        scope: &Scope,
        by: FrameBy,
        bound: &WindowFrameBound,
        order: &mut [OrderBy],
    ) -> Result<Bound, Stop> {
        let offset = match bound {
            WindowFrameBound::CurrentRow => return Ok(Bound::Current),
            WindowFrameBound::Preceding(None) => return Ok(Bound::First),
            WindowFrameBound::Following(None) => return Ok(Bound::Last),
            WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset)) => offset,
        };
        let ty = if by == FrameBy::Range { offset_type(order)? } else { SqlType::Int8 };
        let value = self.expr(scope, offset)?;
        let value = self.params.coerce(value, ty, How::Implicit)?;
        Ok(match bound {
            WindowFrameBound::Preceding(_) => Bound::Before(value),
            _ => Bound::After(value),
        })
    }
}

/// The type of the offset of a `RANGE`. A key that is a date becomes its midnight, to which a span
/// can be added.
fn offset_type(order: &mut [OrderBy]) -> Result<SqlType, Stop> {
    let [key] = order else {
        let message = "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column";
        return Err(SqlError::new(SqlState(*b"42P20"), message).into());
    };
    Ok(match key.ty {
        SqlType::Int2 | SqlType::Int4 | SqlType::Int8 => SqlType::Int8,
        SqlType::Float4 | SqlType::Float8 => SqlType::Float8,
        SqlType::Numeric(_) => SqlType::Numeric(None),
        SqlType::Timestamp | SqlType::TimestampTz | SqlType::Interval => SqlType::Interval,
        SqlType::Date => {
            let (from, to) = (SqlType::Date, SqlType::Timestamp);
            key.expr = Expr::Cast { expr: key.expr.clone().into(), from, to, explicit: false };
            key.ty = to;
            SqlType::Interval
        }
        ty => {
            let ty = crate::types::name_of(ty);
            let what = format!("RANGE with an offset by a column of type {ty}");
            return Err(SqlError::unsupported(&what, None).into());
        }
    })
}
