//! Powers, roots, exponentials and logarithms of floats and decimal numbers.

use crate::value::Numeric;
use crate::{SqlError, SqlState};

/// # Errors
/// `2201F` where no real number is the result, `22003` if it is too large or too small.
pub fn float_power(a: f64, b: f64) -> Result<f64, SqlError> {
    if a == 0.0 && b < 0.0 {
        return Err(invalid_power("zero raised to a negative power is undefined"));
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 {
        return Err(invalid_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let result = a.powf(b);
    if a.is_finite() && b.is_finite() {
        if result.is_infinite() {
            return Err(float_overflow());
        }
        if result == 0.0 && a != 0.0 {
            return Err(float_underflow());
        }
    }
    Ok(result)
}

pub fn invalid_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_POWER, message)
}

pub fn float_overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow")
}

pub fn float_underflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: underflow")
}

pub fn numeric_power(_a: &Numeric, _b: &Numeric) -> Result<Numeric, SqlError> {
    Err(SqlError::unsupported("a power of numerics", None))
}
