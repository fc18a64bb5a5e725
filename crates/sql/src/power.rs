//! Powers, roots, exponentials and logarithms of floats and decimal numbers.
//!
//! Results of decimal numbers have PostgreSQL's scales. They are computed as whole numbers times a
//! power of ten, with `GUARD` digits more than the result has, and rounded once.

use crate::numeric::{MAX_RESULT_SCALE, MIN_SIGNIFICANT, divide_round, leading_digit, overflow, ten_to};
use crate::value::Numeric;
use crate::{SqlError, SqlState};
use bigdecimal::BigDecimal;
use bigdecimal::num_bigint::BigInt;
use bigdecimal::num_traits::{One, Signed, Zero};

/// Digits that are computed and not returned.
const GUARD: i64 = 12;
/// The exponents of e from which PostgreSQL calls the exponential, or a power, too large or zero.
const MAX_EXPONENT: f64 = 6000.0;
const MAX_POWER: f64 = 6020.0;
/// The most digits before the point.
const MAX_DIGITS: f64 = 131_072.0;
const LN_10: f64 = std::f64::consts::LN_10;

/// # Errors
/// `2201F` where no real number is the result, `22003` if it is too large or too small.
pub fn float_power(a: f64, b: f64) -> Result<f64, SqlError> {
    if a == 0.0 && b < 0.0 {
        return Err(zero_to_negative());
    }
    if a < 0.0 && b.is_finite() && b.fract() != 0.0 {
        return Err(negative_to_fraction());
    }
    checked(a.powf(b), a.is_finite() && b.is_finite(), a != 0.0)
}

/// # Errors
/// `22003` if the result is too large or too small.
pub fn float_exp(v: f64) -> Result<f64, SqlError> {
    checked(v.exp(), v.is_finite(), true)
}

fn checked(result: f64, is_finite: bool, is_nonzero: bool) -> Result<f64, SqlError> {
    match result {
        result if is_finite && result.is_infinite() => Err(float_overflow()),
        0.0 if is_finite && is_nonzero => Err(float_underflow()),
        result => Ok(result),
    }
}

/// # Errors
/// `2201E` for zero and negative numbers.
pub fn float_logarithm(v: f64, logarithm: fn(f64) -> f64) -> Result<f64, SqlError> {
    if v == 0.0 {
        return Err(logarithm_of("zero"));
    }
    if v < 0.0 {
        return Err(logarithm_of("a negative number"));
    }
    Ok(logarithm(v))
}

fn logarithm_of(what: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_LOGARITHM, format!("cannot take logarithm of {what}"))
}

pub fn negative_root() -> SqlError {
    SqlError::new(SqlState::INVALID_POWER, "cannot take square root of a negative number")
}

fn zero_to_negative() -> SqlError {
    SqlError::new(SqlState::INVALID_POWER, "zero raised to a negative power is undefined")
}

fn negative_to_fraction() -> SqlError {
    let message = "a negative number raised to a non-integer power yields a complex result";
    SqlError::new(SqlState::INVALID_POWER, message)
}

pub fn float_overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow")
}

pub fn float_underflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: underflow")
}

/// # Errors
/// `2201F` for a negative number.
pub fn numeric_sqrt(v: &Numeric) -> Result<Numeric, SqlError> {
    let Numeric::Number(number) = v else { return Ok(Numeric::NaN) };
    if v.is_negative() {
        return Err(negative_root());
    }
    let (weight, _) = leading_digit(number);
    // Digits in base 10 before the point of the root, without the first.
    let whole = (weight + 1) * 2 - 1;
    let scale = (MIN_SIGNIFICANT - whole).max(v.scale()).clamp(0, MAX_RESULT_SCALE);
    let (digits, old) = number.as_bigint_and_scale();
    // The root with one digit more, of which the last is then rounded.
    let shift = 2 * (scale + 1) - old;
    let shifted = if shift >= 0 {
        digits.as_ref() * ten_to(shift as u32)
    } else {
        digits.as_ref() / ten_to(-shift as u32)
    };
    Ok(Numeric::new(divide_round(&shifted.sqrt(), &BigInt::from(10)), scale))
}

/// A number as a whole number of ten to the power of -`scale`.
fn fixed(number: &BigDecimal, scale: i64) -> BigInt {
    let (digits, old) = number.as_bigint_and_scale();
    if scale >= old {
        digits.as_ref() * ten_to((scale - old) as u32)
    } else {
        divide_round(&digits, &ten_to((old - scale) as u32))
    }
}

/// e to the power of `x`, both in units of `one`: halved until it is small, then Taylor's series,
/// then squared as often.
fn exp_fixed(x: &BigInt, one: &BigInt) -> BigInt {
    const HALVINGS: u32 = 16;
    // Squaring doubles the error each time.
    let more = ten_to(HALVINGS);
    let (x, one_more) = (x * &more, one * &more);
    let bits = (x.bits() as i64 - one_more.bits() as i64).max(0) as u32 + HALVINGS;
    let small: BigInt = &x >> bits;
    let (mut sum, mut term, mut n) = (one_more.clone(), one_more.clone(), 1);
    loop {
        term = &term * &small / &one_more / n;
        if term.is_zero() {
            break;
        }
        sum += &term;
        n += 1;
    }
    for _ in 0..bits {
        sum = &sum * &sum / &one_more;
    }
    divide_round(&sum, &more)
}

/// The natural logarithm of `x` > 0, both in units of `one`: roots until it is near 1, then the
/// series of the inverse hyperbolic tangent.
fn ln_fixed(x: &BigInt, one: &BigInt) -> BigInt {
    let more = ten_to(8);
    let one_more = one * &more;
    let mut x = x * &more;
    let mut doublings = 0_u32;
    let near = &one_more / 10;
    while (&x - &one_more).abs() > near {
        x = (&x * &one_more).sqrt();
        doublings += 1;
    }
    let ratio = (&x - &one_more) * &one_more / (&x + &one_more);
    let square = &ratio * &ratio / &one_more;
    let (mut sum, mut term, mut n) = (BigInt::zero(), ratio, 1);
    while !term.is_zero() {
        sum += &term / n;
        term = &term * &square / &one_more;
        n += 2;
    }
    divide_round(&(sum << (doublings + 1)), &more)
}

/// # Errors
/// `22003` if the result is too large.
pub fn numeric_exp(v: &Numeric) -> Result<Numeric, SqlError> {
    let Numeric::Number(number) = v else { return Ok(Numeric::NaN) };
    let approximate = v.to_f64().clamp(-1e6, 1e6);
    let digits = (approximate / LN_10) as i64;
    let scale = (MIN_SIGNIFICANT - digits).max(v.scale()).clamp(0, MAX_RESULT_SCALE);
    exp_to(&fixed_with(number, scale, approximate)?, scale, approximate)
}

/// A number with enough digits for its exponential to be exact to `scale`.
fn fixed_with(number: &BigDecimal, scale: i64, approximate: f64) -> Result<(BigInt, i64), SqlError> {
    if approximate >= MAX_EXPONENT {
        return Err(overflow());
    }
    let inner = scale + GUARD + (approximate / LN_10).max(0.0) as i64 + 8;
    Ok((fixed(number, inner), inner))
}

fn exp_to((x, inner): &(BigInt, i64), scale: i64, approximate: f64) -> Result<Numeric, SqlError> {
    if approximate / LN_10 < -(scale as f64) - 2.0 {
        return Ok(Numeric::new(BigInt::zero(), scale));
    }
    let one = ten_to(*inner as u32);
    Numeric::new(divide_round(&exp_fixed(x, &one), &ten_to((inner - scale) as u32)), scale).checked()
}

fn positive(v: &Numeric) -> Result<Option<&BigDecimal>, SqlError> {
    match v {
        Numeric::NaN => Ok(None),
        v if v.is_zero() => Err(logarithm_of("zero")),
        v if v.is_negative() => Err(logarithm_of("a negative number")),
        Numeric::Number(number) => Ok(Some(number)),
    }
}

/// The decimal weight of the logarithm of a number: PostgreSQL's `estimate_ln_dweight`.
fn ln_weight(v: &BigDecimal) -> i64 {
    let one = BigDecimal::one();
    let near = *v >= BigDecimal::new(9.into(), 1) && *v <= BigDecimal::new(11.into(), 1);
    if near {
        let distance = v - one;
        return if distance.is_zero() { 0 } else { leading_digit(&distance).0 * 4 + magnitude(&distance) };
    }
    let ln = approximate_ln(v).abs();
    (ln.log10()) as i64
}

/// Digits beyond the first of a number's leading digit in base 10000.
fn magnitude(v: &BigDecimal) -> i64 {
    i64::from(leading_digit(v).1.max(1).ilog10())
}

fn approximate_ln(v: &BigDecimal) -> f64 {
    let (digits, scale) = v.as_bigint_and_scale();
    let text = digits.magnitude().to_string();
    let shown = &text[..text.len().min(17)];
    let first: f64 = shown.parse().unwrap_or(1.0);
    first.ln() + ((text.len() - shown.len()) as f64 - scale as f64) * LN_10
}

/// # Errors
/// `2201E` for zero and negative numbers.
pub fn numeric_ln(v: &Numeric) -> Result<Numeric, SqlError> {
    let Some(number) = positive(v)? else { return Ok(Numeric::NaN) };
    let scale = (MIN_SIGNIFICANT - ln_weight(number)).max(v.scale()).clamp(0, MAX_RESULT_SCALE);
    let inner = scale + GUARD;
    Ok(Numeric::new(divide_round(&ln_with(number, inner), &ten_to(GUARD as u32)), scale))
}

/// The logarithm in units of ten to the power of -`inner`.
fn ln_with(number: &BigDecimal, inner: i64) -> BigInt {
    // A small number keeps its digits if its reciprocal's logarithm is taken.
    let needed = inner.max(number.fractional_digit_count()) + 20;
    let one = ten_to(needed as u32);
    divide_round(&ln_fixed(&fixed(number, needed), &one), &ten_to((needed - inner) as u32))
}

/// The logarithm of `v` to `base`.
///
/// # Errors
/// `2201E` for zero and negative numbers, `22012` for the base 1.
pub fn numeric_log(base: &Numeric, v: &Numeric) -> Result<Numeric, SqlError> {
    let (Some(base_number), Some(number)) = (positive(base)?, positive(v)?) else { return Ok(Numeric::NaN) };
    let weight = ln_weight(number) - ln_weight(base_number);
    let scale = (MIN_SIGNIFICANT - weight).max(base.scale()).max(v.scale()).clamp(0, MAX_RESULT_SCALE);
    let inner = scale + GUARD + 8;
    let (over, under) = (ln_with(number, inner), ln_with(base_number, inner));
    if under.is_zero() {
        return Err(crate::numeric::division_by_zero());
    }
    Ok(Numeric::new(divide_round(&(over * ten_to(scale as u32)), &under), scale))
}

/// # Errors
/// `2201F` where no real number is the result, `22003` if it is too large.
pub fn numeric_power(a: &Numeric, b: &Numeric) -> Result<Numeric, SqlError> {
    let one = Numeric::from(1_i64);
    let (Numeric::Number(base), Numeric::Number(exponent)) = (a, b) else {
        let is_one = b.is_zero() || matches!(a, Numeric::Number(base) if base.is_one());
        return Ok(if is_one { one } else { Numeric::NaN });
    };
    if a.is_zero() && b.is_negative() {
        return Err(zero_to_negative());
    }
    if a.is_negative() && !b.is_integer() {
        return Err(negative_to_fraction());
    }
    if let (true, Some(n)) = (b.is_integer(), b.to_i64().filter(|n| i32::try_from(*n).is_ok())) {
        return integer_power(base, n, a.scale().clamp(MIN_SIGNIFICANT, MAX_RESULT_SCALE));
    }
    if a.is_zero() {
        return Ok(if b.is_zero() {
            one.round(MIN_SIGNIFICANT)
        } else {
            Numeric::new(BigInt::zero(), MIN_SIGNIFICANT)
        });
    }
    let positive = base.abs();
    let approximate = approximate_ln(&positive) * b.to_f64();
    if approximate.abs() > MAX_POWER {
        if approximate > 0.0 {
            return Err(overflow());
        }
        return Ok(Numeric::new(BigInt::zero(), MAX_RESULT_SCALE));
    }
    let digits = (approximate / LN_10) as i64;
    let scale = (MIN_SIGNIFICANT - digits).max(a.scale()).max(b.scale()).clamp(0, MAX_RESULT_SCALE);
    let is_odd = b.is_integer() && !(b.round(0).modulo(&Numeric::from(2_i64))?).is_zero();
    // The exponent times the logarithm, with the digits that the exponential loses.
    let more = (b.to_f64().abs().max(1.0).log10()) as i64 + 2;
    let inner = scale + GUARD + (approximate / LN_10).max(0.0) as i64 + 8;
    let ln = ln_with(&positive, inner + more);
    let (exponent, exponent_scale) = exponent.as_bigint_and_scale();
    let product = divide_round(&(ln * exponent.as_ref()), &ten_to((exponent_scale + more) as u32));
    let result = exp_to(&(product, inner), scale, approximate)?;
    Ok(if a.is_negative() && is_odd { result.negate() } else { result })
}

/// A power with a whole exponent, by squaring; digits that the result cannot show are dropped on
/// the way.
fn integer_power(base: &BigDecimal, n: i64, scale: i64) -> Result<Numeric, SqlError> {
    if base.is_zero() || n == 0 {
        return Ok(Numeric::from(i64::from(n == 0)).round(scale));
    }
    let digits = approximate_ln(&base.abs()) * n as f64 / LN_10;
    if digits > MAX_DIGITS {
        return Err(overflow());
    }
    if digits < -(scale as f64) - 2.0 {
        return Ok(Numeric::new(BigInt::zero(), scale));
    }
    // Each product may lose one unit of the last digit, and squares double what was lost.
    let kept = (digits.abs() as i64 + scale + GUARD + 2 * i64::from(n.unsigned_abs().ilog10())) as u64;
    let short = |(digits, scale): (BigInt, i64)| {
        let excess = (digits.bits() * 30_103 / 100_000).saturating_sub(kept);
        if excess == 0 { (digits, scale) } else { (digits / ten_to(excess as u32), scale - excess as i64) }
    };
    let (mantissa, base_scale) = base.as_bigint_and_scale();
    let mut square = short((mantissa.into_owned(), base_scale));
    let mut product = (BigInt::one(), 0);
    let mut rest = n.unsigned_abs();
    while rest > 0 {
        if rest % 2 == 1 {
            product = short((product.0 * &square.0, product.1 + square.1));
        }
        rest /= 2;
        if rest > 0 {
            square = short((&square.0 * &square.0, square.1 * 2));
        }
    }
    let power = Numeric::Number(BigDecimal::new(product.0, product.1));
    if n < 0 { Numeric::from(1_i64).divide_to(&power, scale).checked() } else { power.round(scale).checked() }
}
