//! `to_number`: the marks of a format take the characters of a text, one after the other.
//! Characters that are no marks take any character.

use super::{Format, Mark};
use crate::power::numeric_power;
use crate::value::Numeric;
use crate::{Datum, SqlError, SqlState};

/// The number that a text shows by a format; null for an empty format.
///
/// # Errors
/// `22P02` for a text without digits, `0A000` for Roman numerals and exponents, and those of the
/// format.
pub fn read(text: &str, format: &str) -> Result<Datum, SqlError> {
    if format.is_empty() {
        return Ok(Datum::Null);
    }
    let format = Format::read(format)?;
    let unsupported = |mark: &str| {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("\"{mark}\" not supported for input"))
    };
    if format.is_exponent {
        return Err(unsupported("EEEE"));
    }
    if format.is_roman {
        return Err(unsupported("RN"));
    }
    let mut reader = Reader::new(text, &format);
    for mark in &format.marks {
        if reader.rest.is_empty() {
            break;
        }
        reader.take(*mark);
    }
    let digits = reader.digits.strip_suffix('.').unwrap_or(&reader.digits);
    let number = Numeric::parse(&format!("{}{digits}", reader.sign.unwrap_or(' ')))?;
    // As many digits as the format has before the point, and those that were read behind it.
    let number = match u16::try_from(format.before + reader.behind) {
        Ok(precision) => number.fit(precision, reader.behind as u16)?,
        Err(_) => number,
    };
    if format.shift == 0 {
        return Ok(Datum::Numeric(number));
    }
    let shift = numeric_power(&Numeric::from(10_i64), &Numeric::from(-(format.shift as i64)))?;
    number.multiply(&shift).map(Datum::Numeric)
}

struct Reader<'a> {
    format: &'a Format,
    rest: &'a str,
    sign: Option<char>,
    digits: String,
    /// Digits before and behind the point.
    before: usize,
    behind: usize,
    has_point: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, format: &'a Format) -> Reader<'a> {
        let digits = String::with_capacity(format.before + format.behind + 1);
        Reader { format, rest: text, sign: None, digits, before: 0, behind: 0, has_point: false }
    }

    fn next(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn step(&mut self) {
        let mut chars = self.rest.chars();
        chars.next();
        self.rest = chars.as_str();
    }

    fn take(&mut self, mark: Mark) {
        let next = self.next();
        match mark {
            Mark::Digit(_) | Mark::Point => {
                self.digit_or_point(matches!(mark, Mark::Digit(_)));
                self.step();
            }
            Mark::Comma if next == Some(',') => self.step(),
            Mark::Minus if next == Some('-') => self.take_sign(),
            Mark::Plus if next == Some('+') => self.take_sign(),
            Mark::SignBoth if matches!(next, Some('-' | '+')) => self.take_sign(),
            Mark::Minus | Mark::Plus | Mark::SignBoth | Mark::Currency => self.pass(1),
            Mark::Ordinal(_) => self.pass(2),
            Mark::Literal(_) => self.step(),
            Mark::Comma | Mark::Sign | Mark::Angle => {}
        }
    }

    fn take_sign(&mut self) {
        self.sign = self.next();
        self.step();
    }

    /// Passes characters that are no part of a number.
    fn pass(&mut self, most: usize) {
        for _ in 0..most {
            if self.next().is_none_or(|next| "0123456789.,+-".contains(next)) {
                return;
            }
            self.step();
        }
    }

    fn count(&self) -> usize {
        self.before + self.behind
    }

    /// A digit or the point, perhaps with the sign before or behind it. The last character is left.
    fn digit_or_point(&mut self, is_digit: bool) {
        if self.next() == Some(' ') {
            self.step();
        }
        if self.sign.is_none() && is_digit && self.count() == 0 {
            let is_angle = self.format.has(Mark::Angle) && self.next() == Some('<');
            match self.next() {
                Some(sign @ ('-' | '+')) => {
                    self.sign = Some(sign);
                    self.step();
                }
                Some('<') if is_angle => {
                    self.sign = Some('-');
                    self.step();
                }
                _ => {}
            }
        }
        let is_read = match self.next() {
            None => return,
            Some(digit) if digit.is_ascii_digit() => {
                if self.has_point && self.behind == self.format.behind {
                    return;
                }
                self.digits.push(digit);
                *(if self.has_point { &mut self.behind } else { &mut self.before }) += 1;
                true
            }
            Some('.') if self.format.has(Mark::Point) && !self.has_point => {
                self.digits.push('.');
                self.has_point = true;
                true
            }
            _ => false,
        };
        if self.sign.is_none() && self.count() > 0 {
            self.sign_behind(is_read);
        }
    }

    fn sign_behind(&mut self, is_read: bool) {
        let has_sides = [Mark::Minus, Mark::Plus, Mark::SignBoth].iter().any(|mark| self.format.has(*mark));
        if self.format.has(Mark::Sign) {
            let behind = self.rest.chars().nth(1);
            if is_read && matches!(behind, Some('-' | '+')) {
                self.sign = behind;
                self.step();
            }
        } else if !is_read && has_sides && matches!(self.next(), Some('-' | '+')) {
            self.sign = self.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SqlType, text};

    fn shown(number: &str, format: &str) -> String {
        let read = read(number, format);
        read.map_or_else(
            |error| error.message.clone(),
            |value| text::to_string(SqlType::Numeric(None), &value),
        )
    }

    #[test]
    fn numbers_are_read_as_postgres_reads_them() {
        for (number, format, value) in [
            ("-34,338,492", "99G999G999", "-34338492"),
            ("-34,338,492.654,878", "99G999G999D999G999", "-34338492.654878"),
            ("<564646.654564>", "999999.999999PR", "-564646.654564"),
            ("0.00001-", "9.999999S", "-0.00001"),
            ("5.01-", "FM9.999999S", "-5.01"),
            ("5 4 4 4 4 8 . 7 8", "9 9 9 9 9 9 . 9 9", "544448.78"),
            (".01", "FM9.99", "0.01"),
            (" . 0 1-", " 9 9 . 9 9 S", "-0.01"),
            ("34,50", "999,99", "3450"),
            ("123,000", "999G", "123"),
            ("$1,234.56", "L99,999.99", "1234.56"),
            ("42nd", "99th", "42"),
            ("12.454", "99.9", "12.4"),
            ("12", "9", "1"),
            ("x", "9", "invalid input syntax for type numeric: \" \""),
            ("é1", "L9", "1"),
        ] {
            assert_eq!(shown(number, format), value, "{number} by {format}");
        }
        assert_eq!(shown("1", "RN"), "\"RN\" not supported for input");
        assert_eq!(read("1", "").unwrap(), Datum::Null);
    }
}
