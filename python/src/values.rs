//! Values between Python and the library.

use atoll::{Type, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString};

/// A parameter. The package has made strings of dates, decimals and the like: the statement reads
/// them as the type that it expects.
///
/// # Errors
/// `TypeError` for other types.
pub fn of_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        Ok(Value::Null)
    } else if let Ok(value) = value.cast::<PyBool>() {
        Ok(Value::Bool(value.is_true()))
    } else if value.cast::<PyInt>().is_ok() {
        // A number beyond 64 bits may fit a numeric.
        match value.extract::<i64>() {
            Ok(value) => Ok(Value::Int(value)),
            Err(_) => Ok(Value::Text(value.str()?.extract()?)),
        }
    } else if let Ok(value) = value.cast::<PyFloat>() {
        Ok(Value::Float(value.extract()?))
    } else if let Ok(value) = value.cast::<PyString>() {
        Ok(Value::Text(value.extract()?))
    } else if let Ok(value) = value.cast::<PyBytes>() {
        Ok(Value::Bytes(value.as_bytes().to_vec()))
    } else {
        let name = value.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "a parameter of type {name}; expected None, bool, int, float, str, bytes"
        )))
    }
}

/// A value as a plain one: microseconds or days since 2000 for times and dates, text where Python
/// has no plain type.
///
/// # Errors
/// When Python has no memory.
pub fn to_python<'py>(py: Python<'py>, ty: Type, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => PyBool::new(py, *value).to_owned().into_any(),
        Value::Int(value) | Value::Time(value) | Value::Timestamp(value) => {
            value.into_pyobject(py)?.into_any()
        }
        Value::Date(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(value) => value.into_pyobject(py)?.into_any(),
        Value::Bytes(value) => PyBytes::new(py, value).into_any(),
        Value::Uuid(value) => PyBytes::new(py, value).into_any(),
        Value::Numeric(_) | Value::Interval(_) => atoll::to_text(ty, value).into_pyobject(py)?.into_any(),
    })
}

/// The type's name, without length.
pub fn type_name(ty: Type) -> String {
    let name = match ty {
        Type::Bool => "bool",
        Type::Int2 => "int2",
        Type::Int4 => "int4",
        Type::Int8 => "int8",
        Type::Oid => "oid",
        Type::Float4 => "float4",
        Type::Float8 => "float8",
        Type::Numeric(_) => "numeric",
        Type::Char(_) => "char",
        Type::Varchar(_) => "varchar",
        Type::Text | Type::Unknown => "text",
        Type::Name => "name",
        Type::Bytea => "bytea",
        Type::Date => "date",
        Type::Time => "time",
        Type::Timestamp => "timestamp",
        Type::TimestampTz => "timestamptz",
        Type::Interval => "interval",
        Type::Uuid => "uuid",
        Type::Json => "json",
        Type::Jsonb => "jsonb",
        Type::Enum(labels) => return labels.name.clone(),
        Type::Array(element) => return format!("{}[]", type_name(element.ty())),
    };
    name.to_owned()
}
