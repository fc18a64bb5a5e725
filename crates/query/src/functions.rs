//! Functions, operators and casts of SQL as functions of the engine: their meaning is that of
//! compiled statements, because the same expressions are evaluated.

use crate::error::{internal, told};
use crate::values;
use compiler::typed::{self, Operand};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sql::expression::{BinaryOp, Context};
use sql::{Datum, Expr, SqlType};
use std::sync::Arc;

/// What a function of the engine stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Meaning {
    /// A function by name.
    Function(String),
    Operator(Op),
    /// A cast to a type; the first argument is the value.
    Cast {
        to: SqlType,
        explicit: bool,
    },
    /// A number without its scale, to be compared.
    NumericKey,
    /// A value that is known before the query runs.
    Constant(Constant),
}

/// An operator, by its position in [`OPERATORS`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Op(usize);

/// A parameter, or a fact of the session: its type, and its value as text of its debug form.
#[derive(Clone, Debug)]
pub struct Constant {
    pub ty: SqlType,
    pub value: Datum,
}

impl PartialEq for Constant {
    fn eq(&self, other: &Constant) -> bool {
        self.ty == other.ty && format!("{:?}", self.value) == format!("{:?}", other.value)
    }
}

impl Eq for Constant {}

impl std::hash::Hash for Constant {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.ty, format!("{:?}", self.value)).hash(state);
    }
}

const OPERATORS: [BinaryOp; 20] = [
    BinaryOp::Add,
    BinaryOp::Subtract,
    BinaryOp::Multiply,
    BinaryOp::Divide,
    BinaryOp::Modulo,
    BinaryOp::Power,
    BinaryOp::Equal,
    BinaryOp::NotEqual,
    BinaryOp::Less,
    BinaryOp::LessEqual,
    BinaryOp::Greater,
    BinaryOp::GreaterEqual,
    BinaryOp::Concat,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::ShiftLeft,
    BinaryOp::ShiftRight,
    BinaryOp::JsonGet,
    BinaryOp::JsonGetText,
];

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Scalar {
    name: String,
    meaning: Meaning,
    /// The types of the arguments, once they are decided.
    types: Option<Vec<SqlType>>,
    signature: Signature,
}

impl Scalar {
    pub fn udf(name: &str, meaning: Meaning) -> Arc<ScalarUDF> {
        Scalar::new(name, meaning, None)
    }

    /// A function for arguments of these types.
    pub fn frozen(name: &str, meaning: Meaning, types: Vec<SqlType>) -> Arc<ScalarUDF> {
        Scalar::new(name, meaning, Some(types))
    }

    /// This function, for arguments of these types.
    pub fn freeze(&self, types: Vec<SqlType>) -> Arc<ScalarUDF> {
        Scalar::new(&self.name, self.meaning.clone(), Some(types))
    }

    pub fn meaning(&self) -> &Meaning {
        &self.meaning
    }

    pub fn is_frozen(&self) -> bool {
        self.types.is_some()
    }

    fn new(name: &str, meaning: Meaning, types: Option<Vec<SqlType>>) -> Arc<ScalarUDF> {
        let is_random = matches!(name, "random" | "gen_random_uuid");
        let volatility = if is_random { Volatility::Volatile } else { Volatility::Immutable };
        let signature = Signature::variadic_any(volatility);
        // Those without arguments are any number of them too.
        let signature = Signature {
            type_signature: datafusion::logical_expr::TypeSignature::OneOf(vec![
                signature.type_signature.clone(),
                datafusion::logical_expr::TypeSignature::Nullary,
            ]),
            ..signature
        };
        Arc::new(ScalarUDF::new_from_impl(Scalar { name: name.to_owned(), meaning, types, signature }))
    }

    pub fn operator(op: BinaryOp, types: Vec<SqlType>) -> Arc<ScalarUDF> {
        let at = OPERATORS.iter().position(|known| *known == op).unwrap_or(0);
        Scalar::frozen(&format!("operator_{op:?}").to_lowercase(), Meaning::Operator(Op(at)), types)
    }

    fn operands(&self, fields: &[FieldRef], constants: &[Option<&ScalarValue>]) -> Result<Vec<Operand>> {
        let of = |(at, field): (usize, &FieldRef)| {
            let mut operand = operand(field, constants.get(at).copied().flatten())?;
            if let Some(ty) = self.types.as_ref().and_then(|types| types.get(at)) {
                operand.ty = *ty;
            }
            Ok(operand)
        };
        fields.iter().enumerate().map(of).collect()
    }

    /// The expression over the arguments, and its type.
    fn compiled(&self, operands: &[Operand]) -> Result<(Expr, SqlType)> {
        match (&self.meaning, operands) {
            (Meaning::Function(name), args) => typed::function(name, args).map_err(told),
            (Meaning::Operator(Op(at)), [left, right]) => {
                typed::operator(OPERATORS[*at], left, right).map_err(told)
            }
            (Meaning::Cast { to, explicit }, [value]) => {
                Ok((typed::cast(value, *to, *explicit).map_err(told)?, *to))
            }
            (Meaning::NumericKey, [value]) => {
                Ok((typed::cast(value, SqlType::Numeric(None), false).map_err(told)?, SqlType::Numeric(None)))
            }
            (Meaning::Constant(constant), _) => Ok((Expr::Const(constant.value.clone()), constant.ty)),
            _ => Err(internal("an operator with another number of operands")),
        }
    }
}

/// An argument's type and value, from its field and its constant. A literal text is of no type yet.
pub fn operand(field: &Field, constant: Option<&ScalarValue>) -> Result<Operand> {
    let unsupported =
        || told(sql::SqlError::unsupported(&format!("a value of the type {}", field.data_type()), None));
    let ty = values::sql_type(field).ok_or_else(unsupported)?;
    let Some(constant) = constant else { return Ok(Operand { ty, constant: None }) };
    let value = values::of_scalar(constant)?;
    let is_typed = !field.metadata().is_empty();
    let ty = match (&value, ty) {
        (Datum::Null, _) if !is_typed && *field.data_type() == DataType::Null => SqlType::Unknown,
        (Datum::Text(_), SqlType::Text) => SqlType::Unknown,
        // The engine has no literals of four bytes.
        (Datum::Int(v), SqlType::Int8) if i32::try_from(*v).is_ok() => SqlType::Int4,
        (_, ty) => ty,
    };
    Ok(Operand { ty, constant: Some(value) })
}

impl ScalarUDFImpl for Scalar {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(internal("the type of a result depends on the arguments' fields"))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let operands = self.operands(args.arg_fields, args.scalar_arguments)?;
        let (_, ty) = self.compiled(&operands)?;
        Ok(Arc::new(values::field(&self.name, ty)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constants: Vec<Option<&ScalarValue>> = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let operands = self.operands(&args.arg_fields, &constants)?;
        let (expr, ty) = self.compiled(&operands)?;
        let is_constant =
            constants.iter().all(Option::is_some) && self.signature.volatility == Volatility::Immutable;
        let rows = if is_constant { 1 } else { args.number_rows };
        let context = Context { params: &[], now: 0, random: &random };
        let mut results = Vec::with_capacity(rows);
        let mut row = vec![Datum::Null; operands.len()];
        for at in 0..rows {
            for (value, arg) in row.iter_mut().zip(&args.args) {
                if let ColumnarValue::Array(array) = arg {
                    *value = values::datum(array, at)?;
                }
            }
            results.push(expr.eval(&context, &row).map_err(told)?);
        }
        // What the plan was made for: a literal may have another type once it is folded.
        let ty = values::sql_type(&args.return_field).unwrap_or(ty);
        if self.meaning == Meaning::NumericKey {
            return keys(&results, is_constant);
        }
        if is_constant {
            return Ok(ColumnarValue::Scalar(values::scalar(ty, &results[0])?));
        }
        Ok(ColumnarValue::Array(values::array(ty, results.iter())?))
    }
}

/// Numbers as bytes that are equal where the numbers are.
fn keys(numbers: &[Datum], is_constant: bool) -> Result<ColumnarValue> {
    use datafusion::arrow::array::{Array, LargeBinaryArray};
    let array = values::array(SqlType::Numeric(None), numbers.iter())?;
    let array = array.as_any().downcast_ref::<LargeBinaryArray>();
    let array = array.ok_or_else(|| internal("numbers of another type"))?;
    let of = |at| (!array.is_null(at)).then(|| values::numeric_key(array.value(at)));
    let keys: LargeBinaryArray = (0..array.len()).map(of).collect();
    if is_constant {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&keys, 0)?));
    }
    Ok(ColumnarValue::Array(Arc::new(keys)))
}

fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // The keys of each are random.
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
