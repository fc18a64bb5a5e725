//! Aggregates of SQL as aggregates of the engine, with the accumulators of compiled statements.

use crate::error::{internal, told};
use crate::values;
use compiler::typed;
use datafusion::arrow::array::{Array, ArrayRef, BinaryArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use sql::SqlType;
use sql::expression::Aggregate;
use std::sync::Arc;

/// Those of which the engine's own have another type or another meaning.
pub const AGGREGATES: [(&str, Aggregate); 8] = [
    ("sum", Aggregate::Sum),
    ("avg", Aggregate::Avg),
    ("min", Aggregate::Min),
    ("max", Aggregate::Max),
    ("bool_and", Aggregate::BoolAnd),
    ("every", Aggregate::BoolAnd),
    ("bool_or", Aggregate::BoolOr),
    ("string_agg", Aggregate::StringAgg),
];

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Many {
    name: &'static str,
    function: Kind,
    signature: Signature,
}

/// The position in [`AGGREGATES`].
type Kind = usize;

impl Many {
    pub fn all() -> Vec<Arc<AggregateUDF>> {
        let one = |(at, (name, _)): (usize, &(&'static str, Aggregate))| {
            let signature = Signature::variadic_any(Volatility::Immutable);
            Arc::new(AggregateUDF::new_from_impl(Many { name, function: at, signature }))
        };
        AGGREGATES.iter().enumerate().map(one).collect()
    }

    fn function(&self) -> Aggregate {
        AGGREGATES[self.function].1
    }

    fn type_of(&self, arg: &Field) -> Result<SqlType> {
        let from = values::sql_type(arg).unwrap_or(SqlType::Unknown);
        let from = match from {
            SqlType::Unknown => SqlType::Text,
            ty => ty,
        };
        typed::aggregate(self.function(), from).ok_or_else(|| {
            let message =
                format!("function {}({}) does not exist", self.name, compiler::types::name_of(from));
            told(sql::SqlError::new(sql::SqlState::UNDEFINED_FUNCTION, message))
        })
    }
}

impl AggregateUDFImpl for Many {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> Result<DataType> {
        let arg = args.first().ok_or_else(|| internal("an aggregate without an argument"))?;
        Ok(values::data_type(self.type_of(&Field::new("arg", arg.clone(), true))?))
    }

    fn return_field(&self, args: &[FieldRef]) -> Result<FieldRef> {
        let arg = args.first().ok_or_else(|| internal("an aggregate without an argument"))?;
        Ok(Arc::new(values::field(self.name, self.type_of(arg)?)))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let ty = values::sql_type(&args.return_field).ok_or_else(|| internal("an aggregate's type"))?;
        let all = sql::aggregate::Accumulator::new(self.function(), args.is_distinct, ty);
        Ok(Box::new(One { all, ty }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let state = Field::new(format!("{}[state]", args.name), DataType::Binary, true);
        let ordering = args.ordering_fields.iter().cloned();
        Ok(std::iter::once(Arc::new(state)).chain(ordering).collect())
    }

    fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
        use datafusion::logical_expr::utils::AggregateOrderSensitivity as Order;
        match self.function() {
            Aggregate::StringAgg => Order::HardRequirement,
            _ => Order::Insensitive,
        }
    }
}

/// One aggregate over one group.
#[derive(Debug)]
struct One {
    all: sql::aggregate::Accumulator,
    ty: SqlType,
}

impl Accumulator for One {
    fn update_batch(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let rows = arrays.first().map_or(0, |array| array.len());
        for row in 0..rows {
            let args = arrays.iter().map(|array| values::datum(array, row));
            self.all.add(&args.collect::<Result<Vec<_>>>()?).map_err(told)?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        values::scalar(self.ty, &self.all.clone().finish().map_err(told)?)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let bytes = postcard::to_stdvec(&self.all).map_err(|error| internal(&error.to_string()))?;
        Ok(vec![ScalarValue::Binary(Some(bytes))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let states = states.first().and_then(|array| array.as_any().downcast_ref::<BinaryArray>());
        for bytes in states.into_iter().flatten().flatten() {
            let other = postcard::from_bytes(bytes).map_err(|error| internal(&error.to_string()))?;
            self.all.merge(other).map_err(told)?;
        }
        Ok(())
    }
}
