//! Arithmetic of decimal numbers, with the scales that PostgreSQL gives to its results.
//!
//! A scale is the number of digits behind the point, from 0 to 16383. Rules are those of
//! PostgreSQL's `numeric.c`.

use crate::value::Numeric;
use crate::{SqlError, SqlState};
use bigdecimal::num_bigint::{BigInt, Sign};
use bigdecimal::num_traits::{Signed, ToPrimitive, Zero};
use bigdecimal::{BigDecimal, RoundingMode};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

/// The most digits before and behind the point.
const MAX_WHOLE: u64 = 131_072;
const MAX_SCALE: i64 = 16_383;
/// The most digits behind the point of a quotient, a root or a logarithm.
pub const MAX_RESULT_SCALE: i64 = 1000;
/// The least significant digits of such a result.
pub const MIN_SIGNIFICANT: i64 = 16;

/// A quotient, or another number that has a sign: its digits and its scale.
type Parts<'a> = (Cow<'a, BigInt>, i64);

impl Numeric {
    /// `digits` divided by ten to the power of `scale`; a negative scale becomes 0.
    pub fn new(digits: BigInt, scale: i64) -> Numeric {
        if scale >= 0 {
            return Numeric::Number(BigDecimal::new(digits, scale));
        }
        let shift = u32::try_from(-scale).unwrap_or(u32::MAX);
        Numeric::Number(BigDecimal::new(digits * ten_to(shift), 0))
    }

    pub fn zero() -> Numeric {
        Numeric::from(0_i64)
    }

    /// Reads a number as PostgreSQL does: blanks around it, sign, digits with a point, exponent.
    ///
    /// # Errors
    /// `22P02` if it is no number, `22003` if it has too many digits.
    pub fn parse(text: &str) -> Result<Numeric, SqlError> {
        let trimmed = text.trim_matches(is_blank);
        let invalid = || {
            let message = format!("invalid input syntax for type numeric: \"{text}\"");
            SqlError::new(SqlState::INVALID_TEXT, message)
        };
        let (is_negative, rest) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        if trimmed.eq_ignore_ascii_case("nan") {
            return Ok(Numeric::NaN);
        }
        if rest.eq_ignore_ascii_case("infinity") || rest.eq_ignore_ascii_case("inf") {
            return Err(SqlError::unsupported("an infinite numeric", Some("Use double precision.")));
        }
        let (mantissa, exponent) = match rest.find(['e', 'E']) {
            Some(at) => (&rest[..at], exponent(&rest[at + 1..]).ok_or_else(invalid)?),
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(invalid());
        }
        let scale = fraction.len() as i64 - exponent;
        if scale < -(MAX_WHOLE as i64) - fraction.len() as i64 || exponent.abs() > i64::from(i32::MAX / 2) {
            return Err(overflow());
        }
        let digits = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(invalid)?;
        let number = if scale > MAX_SCALE {
            if digits.is_zero() || scale - MAX_SCALE > MAX_WHOLE as i64 + MAX_SCALE {
                Numeric::new(BigInt::zero(), MAX_SCALE)
            } else {
                Numeric::new(divide_round(&digits, &ten_to((scale - MAX_SCALE) as u32)), MAX_SCALE)
            }
        } else {
            Numeric::new(digits, scale)
        };
        let number = if is_negative { number.negate() } else { number };
        number.checked()
    }

    /// A float's value, of which only the first `digits` decimal digits are kept (15 for
    /// double precision, 6 for real).
    ///
    /// # Errors
    /// `0A000` for an infinity.
    pub fn from_float(v: f64, digits: usize) -> Result<Numeric, SqlError> {
        if v.is_nan() {
            return Ok(Numeric::NaN);
        }
        if v.is_infinite() {
            return Err(SqlError::unsupported("an infinite numeric", Some("Use double precision.")));
        }
        let text = format!("{v:.*e}", digits - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0') } else { mantissa };
        Numeric::parse(&format!("{}e{exponent}", mantissa.trim_end_matches('.')))
    }

    /// # Errors
    /// `22003` if it has more digits than PostgreSQL's format has.
    pub fn checked(self) -> Result<Numeric, SqlError> {
        let Numeric::Number(number) = &self else { return Ok(self) };
        let scale = number.fractional_digit_count();
        // Bits over 3.33 are at least the digits; only near the limit they are counted.
        let (digits, _) = number.as_bigint_and_scale();
        if digits.bits() > 3 * MAX_WHOLE && number.digits() as i64 - scale > MAX_WHOLE as i64 {
            return Err(overflow());
        }
        if scale > MAX_SCALE {
            return Ok(self.round(MAX_SCALE));
        }
        Ok(self)
    }

    pub fn scale(&self) -> i64 {
        match self {
            Numeric::Number(number) => number.fractional_digit_count(),
            Numeric::NaN => 0,
        }
    }

    pub fn is_zero(&self) -> bool {
        matches!(self, Numeric::Number(number) if number.is_zero())
    }

    pub fn is_negative(&self) -> bool {
        matches!(self, Numeric::Number(number) if number.sign() == Sign::Minus)
    }

    pub fn is_integer(&self) -> bool {
        matches!(self, Numeric::Number(number) if number.is_integer())
    }

    /// Applies `f` to digits and scale; NaN stays what it is.
    fn map(&self, f: impl FnOnce(Parts<'_>) -> Numeric) -> Numeric {
        match self {
            Numeric::Number(number) => f(number.as_bigint_and_scale()),
            Numeric::NaN => Numeric::NaN,
        }
    }

    /// Applies `f` to the digits of both at the greater of both scales.
    fn aligned(&self, other: &Numeric, f: impl FnOnce(&BigInt, &BigInt, i64) -> Numeric) -> Numeric {
        let (Numeric::Number(a), Numeric::Number(b)) = (self, other) else { return Numeric::NaN };
        let ((a, a_scale), (b, b_scale)) = (a.as_bigint_and_scale(), b.as_bigint_and_scale());
        match a_scale.cmp(&b_scale) {
            Ordering::Equal => f(&a, &b, a_scale),
            Ordering::Less => f(&(a.as_ref() * ten_to((b_scale - a_scale) as u32)), &b, b_scale),
            Ordering::Greater => f(&a, &(b.as_ref() * ten_to((a_scale - b_scale) as u32)), a_scale),
        }
    }

    pub fn negate(&self) -> Numeric {
        self.map(|(digits, scale)| Numeric::new(-digits.into_owned(), scale))
    }

    pub fn abs(&self) -> Numeric {
        self.map(|(digits, scale)| Numeric::new(digits.abs(), scale))
    }

    /// -1, 0, 1 or NaN.
    pub fn sign(&self) -> Numeric {
        self.map(|(digits, _)| Numeric::new(digits.signum(), 0))
    }

    /// # Errors
    /// `22003` if the result has too many digits; the other operations too.
    pub fn add(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        self.aligned(other, |a, b, scale| Numeric::new(a + b, scale)).checked()
    }

    pub fn subtract(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        self.aligned(other, |a, b, scale| Numeric::new(a - b, scale)).checked()
    }

    pub fn multiply(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        let (Numeric::Number(a), Numeric::Number(b)) = (self, other) else { return Ok(Numeric::NaN) };
        let ((a, a_scale), (b, b_scale)) = (a.as_bigint_and_scale(), b.as_bigint_and_scale());
        Numeric::new(a.as_ref() * b.as_ref(), a_scale + b_scale).checked()
    }

    /// # Errors
    /// `22012` if `other` is zero.
    pub fn divide(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        let (Numeric::Number(a), Numeric::Number(b)) = (self, other) else { return Ok(Numeric::NaN) };
        if b.is_zero() {
            return Err(division_by_zero());
        }
        self.divide_to(other, division_scale(a, b)).checked()
    }

    /// The quotient, rounded to `scale` digits behind the point; the divisor is not zero.
    pub fn divide_to(&self, other: &Numeric, scale: i64) -> Numeric {
        let (Numeric::Number(a), Numeric::Number(b)) = (self, other) else { return Numeric::NaN };
        let ((a, a_scale), (b, b_scale)) = (a.as_bigint_and_scale(), b.as_bigint_and_scale());
        // a / b times ten to the power of `scale`, over whole numbers.
        let shift = scale + b_scale - a_scale;
        let quotient = if shift >= 0 {
            divide_round(&(a.as_ref() * ten_to(shift as u32)), &b)
        } else {
            divide_round(&a, &(b.as_ref() * ten_to(-shift as u32)))
        };
        Numeric::new(quotient, scale)
    }

    /// # Errors
    /// `22012` if `other` is zero.
    pub fn modulo(&self, other: &Numeric) -> Result<Numeric, SqlError> {
        if other.is_zero() && *self != Numeric::NaN {
            return Err(division_by_zero());
        }
        Ok(self.aligned(other, |a, b, scale| Numeric::new(a % b, scale)))
    }

    /// Rounds half away from zero; a negative scale rounds digits before the point.
    pub fn round(&self, scale: i64) -> Numeric {
        self.rescale(scale, RoundingMode::HalfUp)
    }

    pub fn truncate(&self, scale: i64) -> Numeric {
        self.rescale(scale, RoundingMode::Down)
    }

    pub fn ceil(&self) -> Numeric {
        self.rescale(0, RoundingMode::Ceiling)
    }

    pub fn floor(&self) -> Numeric {
        self.rescale(0, RoundingMode::Floor)
    }

    fn rescale(&self, scale: i64, mode: RoundingMode) -> Numeric {
        let Numeric::Number(number) = self else { return Numeric::NaN };
        let scale = scale.clamp(-(MAX_WHOLE as i64) - 1, MAX_SCALE);
        if scale >= number.fractional_digit_count() {
            let (digits, old) = number.as_bigint_and_scale();
            return Numeric::new(digits.as_ref() * ten_to((scale - old) as u32), scale);
        }
        let (digits, scale) = number.with_scale_round(scale, mode).into_bigint_and_scale();
        Numeric::new(digits, scale)
    }

    /// The nearest integer, half away from zero; `None` if it is NaN or does not fit.
    pub fn to_i64(&self) -> Option<i64> {
        let Numeric::Number(number) = self else { return None };
        let (digits, scale) = number.as_bigint_and_scale();
        if scale == 0 {
            return digits.to_i64();
        }
        divide_round(&digits, &ten_to(u32::try_from(scale).ok()?)).to_i64()
    }

    /// The nearest float; infinite if it is out of the range of floats.
    pub fn to_f64(&self) -> f64 {
        match self {
            Numeric::Number(_) => self.to_string().parse().unwrap_or(f64::NAN),
            Numeric::NaN => f64::NAN,
        }
    }

    /// Rounds to the scale of a column's type.
    ///
    /// # Errors
    /// `22003` if it has more digits before the point than `precision - scale`.
    pub fn fit(&self, precision: u16, scale: u16) -> Result<Numeric, SqlError> {
        let rounded = self.round(i64::from(scale));
        let Numeric::Number(number) = &rounded else { return Ok(rounded) };
        if number.is_zero() || number.digits() <= u64::from(precision) {
            return Ok(rounded);
        }
        let whole = i64::from(precision) - i64::from(scale);
        let limit = if whole > 0 { format!("10^{whole}") } else { "1".into() };
        let detail = format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
        );
        Err(SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "numeric field overflow").with_detail(detail))
    }

    /// Without zeros at the end of its fraction.
    pub fn trim_scale(&self) -> Numeric {
        let Numeric::Number(number) = self else { return Numeric::NaN };
        let (digits, scale) = number.normalized().into_bigint_and_scale();
        Numeric::new(digits, scale)
    }
}

impl From<i64> for Numeric {
    fn from(v: i64) -> Numeric {
        Numeric::Number(BigDecimal::from(v))
    }
}

impl From<i128> for Numeric {
    fn from(v: i128) -> Numeric {
        Numeric::Number(BigDecimal::from(v))
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Numeric::Number(number) => number.write_plain_string(f),
            Numeric::NaN => f.write_str("NaN"),
        }
    }
}

pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

pub fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

pub fn ten_to(power: u32) -> BigInt {
    if power < 19 { BigInt::from(10_u64.pow(power)) } else { BigInt::from(10_u8).pow(power) }
}

/// The quotient, rounded half away from zero.
pub fn divide_round(a: &BigInt, b: &BigInt) -> BigInt {
    let (quotient, rest) = (a / b, a % b);
    if rest.magnitude() * 2_u8 < *b.magnitude() {
        return quotient;
    }
    if (a.sign() == Sign::Minus) == (b.sign() == Sign::Minus) { quotient + 1 } else { quotient - 1 }
}

/// The scale of a quotient: at least 16 significant digits, and no fewer digits than both operands
/// (PostgreSQL's `select_div_scale`).
fn division_scale(a: &BigDecimal, b: &BigDecimal) -> i64 {
    let ((a_weight, a_first), (b_weight, b_first)) = (leading_digit(a), leading_digit(b));
    let weight = a_weight - b_weight - i64::from(a_first <= b_first);
    (MIN_SIGNIFICANT - weight * 4)
        .max(a.fractional_digit_count())
        .max(b.fractional_digit_count())
        .clamp(0, MAX_RESULT_SCALE)
}

/// The first digit in base 10000 that is not zero, and the power of 10000 by which it counts.
pub fn leading_digit(number: &BigDecimal) -> (i64, u16) {
    if number.is_zero() {
        return (0, 0);
    }
    let (digits, scale) = number.as_bigint_and_scale();
    let digits = digits.magnitude().to_string();
    let power = digits.len() as i64 - scale - 1;
    let weight = power.div_euclid(4);
    let length = power.rem_euclid(4) as usize + 1;
    let first = digits.bytes().chain(std::iter::repeat(b'0')).take(length);
    (weight, first.fold(0, |value, digit| value * 10 + u16::from(digit - b'0')))
}

fn exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(i64::from(i32::MAX)))
}

/// What C's `isspace` takes for a blank.
pub fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}
