//! `to_char` of numbers, and `to_number`.
//!
//! A format is read once into its places and marks; then the digits of the number, rounded to the
//! places behind the point, are put into them.

mod read;

pub use read::read;

use crate::to_char::ordinal;
use crate::value::Numeric;
use crate::{Datum, SqlError, SqlState};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mark {
    /// `9`, or `0`.
    Digit(bool),
    Point,
    Comma,
    /// `MI`, `PL`, `SG`, `S`, `PR`.
    Minus,
    Plus,
    SignBoth,
    Sign,
    Angle,
    Ordinal(bool),
    /// `L`, a blank.
    Currency,
    Literal(char),
}

/// # Errors
/// `42601` for a format in which two marks exclude each other, `22003` for a number that Roman
/// numerals or the format lack.
pub fn number(value: &Datum, format: &str) -> Result<String, SqlError> {
    let format = Format::read(format)?;
    let number = match value {
        Datum::Int(v) => Numeric::from(*v),
        Datum::Float(v) if v.is_infinite() || v.is_nan() => return Ok(format.without_digits()),
        Datum::Float(v) => Numeric::parse(&format!("{v:e}"))?,
        Datum::Numeric(Numeric::NaN) => return Ok(format.without_digits()),
        Datum::Numeric(v) => v.clone(),
        _ => return Err(SqlError::new(SqlState::INTERNAL, "to_char of a value that is no number")),
    };
    if format.is_roman {
        return Ok(roman(number.to_i64(), format.is_filled));
    }
    if format.is_exponent {
        return Ok(format.scientific(&number));
    }
    Ok(format.write(&number))
}

#[derive(Default)]
struct Format {
    marks: Vec<Mark>,
    /// Places before and behind the point.
    before: usize,
    behind: usize,
    /// Digits by which `V` shifts the point.
    shift: usize,
    is_filled: bool,
    is_roman: bool,
    is_exponent: bool,
    /// The marks other than digits and literals, each once.
    kinds: Vec<Mark>,
}

impl Format {
    fn read(text: &str) -> Result<Format, SqlError> {
        let mut format = Format { is_filled: true, ..Format::default() };
        let (mut rest, mut has_point, mut has_shift) = (text, false, false);
        while let Some(first) = rest.chars().next() {
            let two = rest.get(..2).map(str::to_ascii_uppercase).unwrap_or_default();
            let (length, mark) = match (first.to_ascii_uppercase(), two.as_str()) {
                (_, "FM") => {
                    format.is_filled = false;
                    rest = &rest[2..];
                    continue;
                }
                (_, "MI") => (2, Mark::Minus),
                (_, "PL") => (2, Mark::Plus),
                (_, "SG") => (2, Mark::SignBoth),
                (_, "PR") => (2, Mark::Angle),
                (_, "TH") => (2, Mark::Ordinal(rest.starts_with("TH"))),
                (_, "RN") => {
                    format.is_roman = true;
                    rest = &rest[2..];
                    continue;
                }
                ('E', _) if rest.get(..4).is_some_and(|e| e.eq_ignore_ascii_case("eeee")) => {
                    format.is_exponent = true;
                    rest = &rest[4..];
                    continue;
                }
                ('S', _) => (1, Mark::Sign),
                ('.' | 'D', _) if has_point => {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "multiple decimal points"));
                }
                ('.' | 'D', _) => (1, Mark::Point),
                (',' | 'G', _) => (1, Mark::Comma),
                ('9', _) => (1, Mark::Digit(false)),
                ('0', _) => (1, Mark::Digit(true)),
                ('V', _) => {
                    has_shift = true;
                    rest = &rest[1..];
                    continue;
                }
                ('L', _) => (1, Mark::Currency),
                ('"', _) => {
                    let end = rest[1..].find('"').map_or(rest.len(), |at| at + 1);
                    format.marks.extend(rest[1..end].chars().map(Mark::Literal));
                    rest = rest.get(end + 1..).unwrap_or("");
                    continue;
                }
                ('\\', _) if rest.len() > 1 => {
                    rest = &rest[1..];
                    let escaped = rest.chars().next().unwrap_or('\\');
                    (escaped.len_utf8(), Mark::Literal(escaped))
                }
                _ => (first.len_utf8(), Mark::Literal(first)),
            };
            format.check(mark)?;
            has_point |= mark == Mark::Point;
            if matches!(mark, Mark::Digit(_)) {
                *(if has_point { &mut format.behind } else { &mut format.before }) += 1;
                format.shift += usize::from(has_shift);
            }
            if !matches!(mark, Mark::Digit(_) | Mark::Literal(_)) && !format.has(mark) {
                format.kinds.push(mark);
            }
            format.marks.push(mark);
            rest = &rest[length..];
        }
        Ok(format)
    }

    /// Whether `mark` may stand behind the marks so far.
    fn check(&self, mark: Mark) -> Result<(), SqlError> {
        let has_side = [Mark::Minus, Mark::Plus, Mark::SignBoth].iter().any(|mark| self.has(*mark));
        let (has_sign, has_angle) = (self.has(Mark::Sign), self.has(Mark::Angle));
        let message = match mark {
            Mark::Sign if has_sign => "cannot use \"S\" twice",
            Mark::Sign if has_side || has_angle => {
                "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"
            }
            Mark::Minus if has_sign => "cannot use \"S\" and \"MI\" together",
            Mark::Plus if has_sign => "cannot use \"S\" and \"PL\" together",
            Mark::SignBoth if has_sign => "cannot use \"S\" and \"SG\" together",
            Mark::Angle if has_sign || has_side => {
                "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"
            }
            Mark::Digit(false) if has_angle => "\"9\" must be ahead of \"PR\"",
            Mark::Digit(true) if has_angle => "\"0\" must be ahead of \"PR\"",
            Mark::Point if self.shift > 0 => "cannot use \"V\" and decimal point together",
            _ => return Ok(()),
        };
        Err(SqlError::new(SqlState::SYNTAX_ERROR, message))
    }

    /// Whether a mark that is neither a digit nor a literal is there.
    fn has(&self, mark: Mark) -> bool {
        self.kinds.contains(&mark)
    }

    fn without_digits(&self) -> String {
        "#".repeat(self.before + self.behind)
    }

    /// The digits of a number before the point, without zeros in front, and those behind it.
    fn digits(&self, number: &Numeric) -> (String, String) {
        let shifted = (0..self.shift).try_fold(number.abs(), |n, _| n.multiply(&Numeric::from(10_i64)));
        let text = shifted.unwrap_or(Numeric::NaN).round(self.behind as i64).to_string();
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        (whole.trim_start_matches('0').to_owned(), fraction.to_owned())
    }

    fn write(&self, number: &Numeric) -> String {
        let (whole, fraction) = self.digits(number);
        let is_too_long = whole.len() > self.before;
        let is_zero = whole.is_empty() && fraction.bytes().all(|b| b == b'0');
        let is_negative = number.is_negative() && !is_zero;
        let mut digits = Digits::new(self, &whole, &fraction, is_too_long);
        let mut body = String::new();
        let has_own_sign = [Mark::Minus, Mark::SignBoth].iter().any(|mark| self.has(*mark));
        let sign_first = self.marks.iter().position(|mark| *mark == Mark::Sign);
        let first_digit = self.marks.iter().position(|mark| matches!(mark, Mark::Digit(_)));
        let is_anchored = sign_first < first_digit && sign_first.is_some();
        let sign = match (sign_first, is_negative) {
            (Some(_), true) => "-",
            (Some(_), false) => "+",
            (None, true) if self.has(Mark::Angle) => "<",
            (None, true) if !has_own_sign => "-",
            (None, false) if !has_own_sign && self.is_filled => " ",
            _ => "",
        };
        let mut has_sign = sign_first.is_some() && !is_anchored;
        for mark in &self.marks {
            let is_shown = digits.is_begun(mark);
            if is_shown && !has_sign && matches!(mark, Mark::Digit(_) | Mark::Point) {
                body.push_str(sign);
                has_sign = true;
            }
            match mark {
                Mark::Digit(_) => digits.put(&mut body, is_shown, self.is_filled),
                Mark::Point => {
                    digits.is_behind = true;
                    body.push('.');
                }
                Mark::Comma if is_shown => body.push(','),
                Mark::Comma if self.is_filled => body.push(' '),
                Mark::Comma => {}
                Mark::Minus if is_negative => body.push('-'),
                Mark::Minus if self.is_filled => body.push(' '),
                Mark::Plus if !is_negative => body.push('+'),
                Mark::Plus if self.is_filled => body.push(' '),
                Mark::SignBoth => body.push(if is_negative { '-' } else { '+' }),
                Mark::Minus | Mark::Plus => {}
                Mark::Sign if !is_anchored => body.push_str(sign),
                Mark::Sign => {}
                Mark::Angle if is_negative => body.push('>'),
                Mark::Angle if self.is_filled => body.push(' '),
                Mark::Angle => {}
                Mark::Ordinal(_) if is_negative || is_too_long || self.behind > 0 => {}
                Mark::Ordinal(true) => body.push_str(&ordinal(&whole).to_uppercase()),
                Mark::Ordinal(false) => body.push_str(ordinal(&whole)),
                Mark::Currency => body.push(' '),
                Mark::Literal(c) => body.push(*c),
            }
        }
        body
    }

    /// `d.ddde+xx`.
    fn scientific(&self, number: &Numeric) -> String {
        let text = number.abs().to_string();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let point = text.find('.').unwrap_or(text.len()) as i64;
        let zeros = digits.len() - digits.trim_start_matches('0').len();
        let significant = &digits[zeros..];
        let (mantissa, exponent) = if significant.is_empty() {
            (Numeric::zero(), 0)
        } else {
            let mantissa =
                significant.parse().map(|digits| Numeric::new(digits, significant.len() as i64 - 1));
            (mantissa.unwrap_or(Numeric::NaN), point - 1 - zeros as i64)
        };
        let rounded = mantissa.round(self.behind as i64);
        let is_ten = rounded.to_string().starts_with("10");
        let (rounded, exponent) = if is_ten {
            (Numeric::from(1_i64).round(self.behind as i64), exponent + 1)
        } else {
            (rounded, exponent)
        };
        let sign = match number.is_negative() {
            true => "-",
            false if self.has(Mark::Sign) => "+",
            false => " ",
        };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        format!("{sign}{rounded}e{exponent_sign}{:02}", exponent.abs())
    }
}

/// The digits of a number on their way into the places.
struct Digits<'a> {
    whole: &'a str,
    fraction: &'a str,
    is_too_long: bool,
    /// Places passed, of all before the point.
    place: usize,
    before: usize,
    /// The place from which digits are shown: the first digit of the number, or the first `0`.
    first: usize,
    is_behind: bool,
    /// Digits of the fraction that are shown.
    shown: usize,
}

impl<'a> Digits<'a> {
    fn new(format: &Format, whole: &'a str, fraction: &'a str, is_too_long: bool) -> Digits<'a> {
        let zero = format
            .marks
            .iter()
            .take_while(|mark| **mark != Mark::Point)
            .filter(|mark| matches!(mark, Mark::Digit(_)))
            .position(|mark| *mark == Mark::Digit(true));
        let mut first = if is_too_long { 0 } else { format.before - whole.len() };
        // Without a fraction, the last place shows a zero.
        if whole.is_empty() && format.behind == 0 {
            first = format.before.saturating_sub(1);
        }
        let last_zero = format
            .marks
            .iter()
            .skip_while(|mark| **mark != Mark::Point)
            .filter(|mark| matches!(mark, Mark::Digit(_)))
            .enumerate()
            .filter(|(_, mark)| **mark == Mark::Digit(true))
            .last()
            .map_or(0, |(at, _)| at + 1);
        let shown = if format.is_filled || is_too_long {
            fraction.len()
        } else {
            fraction.trim_end_matches('0').len().max(last_zero.min(fraction.len()))
        };
        // Nor would anything be shown of a zero.
        if whole.is_empty() && shown == 0 {
            first = first.min(format.before.saturating_sub(1));
        }
        Digits {
            whole,
            fraction,
            is_too_long,
            place: 0,
            before: format.before,
            first: first.min(zero.unwrap_or(usize::MAX)),
            is_behind: false,
            shown,
        }
    }

    /// Whether digits are shown at this mark, which comes next.
    fn is_begun(&self, mark: &Mark) -> bool {
        match mark {
            Mark::Digit(_) => self.is_behind || self.place >= self.first,
            Mark::Comma => {
                self.place > self.first || (self.place == self.first && self.place > 0 && self.is_behind)
            }
            Mark::Point => true,
            _ => false,
        }
    }

    fn put(&mut self, out: &mut String, is_shown: bool, is_filled: bool) {
        if self.is_behind {
            let at = self.place - self.before;
            if at < self.shown {
                out.push(if self.is_too_long { '#' } else { char::from(self.fraction.as_bytes()[at]) });
            }
        } else if is_shown {
            let missing = self.before.saturating_sub(self.whole.len());
            let digit = self.place.checked_sub(missing).map_or(b'0', |at| self.whole.as_bytes()[at]);
            out.push(if self.is_too_long { '#' } else { char::from(digit) });
        } else if is_filled {
            out.push(' ');
        }
        self.place += 1;
    }
}

/// In capitals; 15 characters wide if filled.
fn roman(number: Option<i64>, is_filled: bool) -> String {
    let Some(mut number) = number.filter(|number| (1..4000).contains(number)) else { return "#".repeat(15) };
    let steps = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut text = String::new();
    for (value, letters) in steps {
        while number >= value {
            text.push_str(letters);
            number -= value;
        }
    }
    if is_filled { format!("{text:>15}") } else { text }
}
