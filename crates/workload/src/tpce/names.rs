//! Names and other texts, synthetic and recomputable: each follows from a number.
//!
//! The licensed lists of the official generator are not used. The substitutes have their sizes and
//! weights.

use super::geometry::{ISSUES, company_of, first_security, stream};
use crate::random::Random;

/// Purposes of streams of draws.
const PERSON: u64 = 1;
const BROKER: u64 = 2;
const COMPANY: u64 = 3;

const LAST_NAMES: u64 = 65_000;
const FIRST_NAMES: [u64; 2] = [4_275, 1_220];

const HEADS: [&str; 16] =
    ["Ba", "Che", "Do", "Fi", "Gra", "Hu", "Ja", "Ke", "Lo", "Mi", "No", "Pa", "Re", "Sto", "Tu", "Wi"];
const MIDDLES: [&str; 16] =
    ["la", "ren", "mo", "vi", "ster", "ka", "li", "dro", "ne", "ta", "sha", "ro", "mun", "be", "go", "ni"];
const ENDS: [&str; 16] = [
    "son", "ley", "man", "ton", "er", "ham", "well", "ski", "ing", "ford", "dez", "rick", "o", "ard", "en",
    "y",
];

/// A pronounceable word for each number below 65,536.
fn word(n: u64) -> String {
    let part = |list: &[&'static str; 16], shift: u64| list[(n >> shift & 15) as usize];
    format!("{}{}{}{}", part(&HEADS, 12), part(&MIDDLES, 8), part(&MIDDLES, 4), part(&ENDS, 0))
}

/// A customer, or another person with a permission to trade.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Person {
    pub last: String,
    pub first: String,
    pub tax_id: String,
    pub male: bool,
}

/// The person of a number; customers have the numbers of their ids.
pub(super) fn person(number: u64) -> Person {
    let mut random = stream(PERSON, number);
    // The first few hundred last names are frequent: 4,195 of 69,195 by weight.
    let last = if random.chance(6.06) { random.within(0..400) } else { random.within(400..LAST_NAMES) };
    let male = random.chance(49.0);
    let names = FIRST_NAMES[usize::from(male)];
    let first = (random.unit() * random.unit() * names as f64) as u64;
    let first = word(first * 13 + u64::from(male) * 7);
    Person { last: word(last), first, tax_id: tax_id(number), male }
}

/// A tax id: 14 characters `nnnaannnnaannn`, one for each number below 2.6 billion.
fn tax_id(number: u64) -> String {
    // Multiplied by an odd number modulo a power of ten and of 26, so that neighbours differ.
    let mut rest = number;
    let mut digit = |base: u64| {
        let d = rest % base;
        rest /= base;
        d
    };
    let digits: Vec<u64> = (0..7).map(|_| digit(10)).collect();
    let letters: Vec<u64> = (0..4).map(|_| digit(26)).collect();
    let (n, a) = (|i: usize| (b'0' + digits[i] as u8) as char, |i: usize| (b'a' + letters[i] as u8) as char);
    let fixed = stream(PERSON, number ^ 1 << 40).within(0..1_000);
    format!(
        "{}{}{}{}{}{}{}{}{}{}{}{:03}",
        n(0),
        n(1),
        n(2),
        a(0),
        a(1),
        n(3),
        n(4),
        n(5),
        n(6),
        a(2),
        a(3),
        fixed
    )
}

/// B_NAME: unique, since it holds the number.
pub(super) fn broker_name(b: i64) -> String {
    let mut random = stream(BROKER, b as u64);
    let first = word(random.within(0..FIRST_NAMES[0]) * 13);
    format!(
        "{first} {}. {} {b}",
        (b'A' + random.within(0..26) as u8) as char,
        word(random.within(0..LAST_NAMES))
    )
}

/// CO_NAME: unique, since it holds the number.
pub(super) fn company_name(company: u32) -> String {
    let mut random = stream(COMPANY, company.into());
    const KINDS: [&str; 6] = ["Incorporated", "Corporation", "Holdings", "Group", "Limited", "Company"];
    let kind = KINDS[random.within(0..6) as usize];
    format!("{} {} #{company}", word(random.within(0..LAST_NAMES)), kind)
}

/// S_NAME.
pub(super) fn security_name(security: u32) -> String {
    let company = company_of(security);
    let issue = ISSUES[(security - first_security(company)) as usize].0;
    format!("{issue} of {}", company_name(company))
}

/// Text of random last names, exactly `length` bytes long.
pub(super) fn prose(random: &mut Random, length: usize) -> String {
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(&word(random.within(0..LAST_NAMES)));
        text.push(' ');
    }
    text.truncate(length);
    text
}

/// Street and number.
pub(super) fn street(random: &mut Random) -> String {
    const SUFFIXES: [&str; 17] = [
        "Street",
        "Avenue",
        "Road",
        "Lane",
        "Drive",
        "Court",
        "Way",
        "Circle",
        "Place",
        "Boulevard",
        "Terrace",
        "Square",
        "Trail",
        "Parkway",
        "Alley",
        "Row",
        "Crescent",
    ];
    let number = random.between(100..=25_000);
    format!("{number} {} {}", word(random.within(0..1_000) * 61), SUFFIXES[random.within(0..17) as usize])
}

/// ZC_CODE of a number below [`ZIP_CODES`]: the first 9,215 in the United States, the others in
/// Canada.
pub(super) fn zip_code(n: u32) -> String {
    if n < US_ZIP_CODES {
        return format!("{:05}", 501 + n * 10);
    }
    let k = n - US_ZIP_CODES;
    let letter = |d: u32| (b'A' + (d % 26) as u8) as char;
    format!("{}{}{} {}{}{}", letter(k / 676), k % 10, letter(k / 26), k / 10 % 10, letter(k), k / 100 % 10)
}

pub(super) const ZIP_CODES: u32 = 14_741;
const US_ZIP_CODES: u32 = 9_215;

/// Whether a code is in the United States.
pub(super) fn is_us(zip: u32) -> bool {
    zip < US_ZIP_CODES
}

/// The division of a zip code, one of 64.
pub(super) fn division(zip: u32) -> u32 {
    if is_us(zip) {
        zip * 51 / US_ZIP_CODES
    } else {
        51 + (zip - US_ZIP_CODES) * 13 / (ZIP_CODES - US_ZIP_CODES)
    }
}

/// Two letters for each division.
pub(super) fn division_code(division: u32) -> String {
    let letter = |d: u32| (b'A' + d as u8) as char;
    // No division is called US or CN, the countries' codes: the second letters are A to H.
    format!("{}{}", letter(division / 8), letter(division % 8))
}

/// A zip code, 57 % in the United States.
pub(super) fn draw_zip(random: &mut Random) -> u32 {
    if random.chance(57.0) {
        random.between(0..=US_ZIP_CODES - 1)
    } else {
        random.between(US_ZIP_CODES..=ZIP_CODES - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn what_must_be_unique_is() {
        let unique = |of: &dyn Fn(u32) -> String, n| (0..n).map(of).collect::<HashSet<_>>().len() as u32 == n;
        assert!(unique(&zip_code, ZIP_CODES));
        assert!(unique(&|n| tax_id(n.into()), 20_000));
        assert!(unique(&|n| broker_name(n.into()), 2_000));
        assert!(unique(&company_name, 5_000));
        assert!(unique(&|n| word(n.into()), LAST_NAMES as u32));
        assert!(unique(&division_code, 64));
        assert!((0..5_000).all(|c| company_name(c).len() <= 50 && security_name(c).len() <= 70));
        assert!((0..5_000).all(|c| person(c).last.len() <= 25 && person(c).first.len() <= 20));
        assert!((0..2_000).all(|b| broker_name(b).len() <= 49 && tax_id(b as u64).len() == 14));
    }
}
