//! The random values of TPC-C (clauses 2.1.6 and 4.3.2): non-uniform numbers, strings, last names.

use crate::random::Random;
use std::ops::RangeInclusive;

/// The constants C of the non-uniform numbers. Data and requests use different constants for last
/// names; clause 2.1.6.1 bounds their difference.
pub(super) const C_LAST_LOAD: u32 = 123;
pub(super) const C_LAST_RUN: u32 = C_LAST_LOAD + 88;
pub(super) const C_CUSTOMER: u32 = 259;
pub(super) const C_ITEM: u32 = 7911;

const _: () = {
    let delta = C_LAST_RUN - C_LAST_LOAD;
    assert!(delta >= 65 && delta <= 119 && delta != 96 && delta != 112);
    assert!(C_LAST_LOAD <= 255 && C_LAST_RUN <= 255 && C_CUSTOMER <= 1023 && C_ITEM <= 8191);
};

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of a number from 0 to 999.
pub fn last_name(number: u32) -> String {
    [number / 100, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize % 10]).concat()
}

const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

impl Random {
    /// `NURand(A, x, y)` with the constant `c`.
    pub(super) fn non_uniform(&mut self, a: u32, c: u32, range: RangeInclusive<u32>) -> u32 {
        let (x, y) = (*range.start(), *range.end());
        ((self.between(0..=a) | self.between(x..=y)) + c) % (y - x + 1) + x
    }

    /// Letters and digits; the length is drawn from `length`.
    pub(super) fn letters(&mut self, length: RangeInclusive<u32>) -> Vec<u8> {
        let length = self.between(length);
        (0..length).map(|_| LETTERS[self.between(0..=61) as usize]).collect()
    }

    /// As [`Random::letters`]; one in ten contains "ORIGINAL".
    pub(super) fn item_data(&mut self) -> Vec<u8> {
        let mut data = self.letters(26..=50);
        if self.chance(10.0) {
            let at = self.between(0..=(data.len() - ORIGINAL.len()) as u32) as usize;
            data[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
        }
        data
    }
}

pub(super) const ORIGINAL: &[u8; 8] = b"ORIGINAL";

/// The longest text that is searched for the word: I_DATA and S_DATA.
const DATA: usize = 50;

/// Whether the text contains the word; always false for a text longer than [`DATA`]. The first pass
/// compares the word's first and last letter at all places at once, without a branch on the data:
/// letters are random, and mispredicted branches cost more than the comparisons.
pub(super) fn is_original(data: &[u8]) -> bool {
    const LAST: usize = ORIGINAL.len() - 1;
    // A number of places that fills whole vectors.
    const PLACES: usize = (DATA - LAST).next_multiple_of(16);
    let mut text = [0; PLACES + LAST];
    let Some(beginning) = text.get_mut(..data.len()) else { return false };
    beginning.copy_from_slice(data);
    let ends = |at: usize| (text[at] == ORIGINAL[0]) & (text[at + LAST] == ORIGINAL[LAST]);
    let may_be = (0..PLACES).fold(false, |found, at| found | ends(at));
    may_be && data.windows(ORIGINAL.len()).any(|word| word == ORIGINAL)
}

/// The numbers 1 to `n` in an order that the seed determines.
pub(super) fn permutation(n: u32, seed: u64) -> Vec<u32> {
    let (mut all, mut random) = ((1..=n).collect::<Vec<_>>(), Random::new(seed));
    for i in (1..all.len()).rev() {
        all.swap(i, random.within(0..i as u64 + 1) as usize);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_digit_by_digit() {
        assert_eq!(
            (last_name(371).as_str(), last_name(0).as_str(), last_name(999).as_str()),
            ("PRICALLYOUGHT", "BARBARBAR", "EINGEINGEING")
        );
    }

    #[test]
    fn a_permutation_has_every_number_once() {
        let mut all = permutation(3_000, 9);
        assert_ne!(all, permutation(3_000, 10));
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=3_000));
    }

    /// The shares of the hottest ids over many draws match the published figures of the benchmark.
    #[test]
    fn non_uniform_numbers_have_the_known_skew() {
        let share = |a, c, n: u32, top: usize| {
            let (mut random, mut counts) = (Random::new(1), vec![0u32; n as usize]);
            for _ in 0..400_000 {
                counts[random.non_uniform(a, c, 1..=n) as usize - 1] += 1;
            }
            counts.sort_unstable_by(|x, y| y.cmp(x));
            f64::from(counts[..top].iter().sum::<u32>()) / 400_000.0
        };
        let near = |found: f64, expected: f64| {
            assert!((found - expected).abs() < 0.02, "{found}, expected {expected}")
        };
        near(share(1023, C_CUSTOMER, 3_000, 300), 0.61);
        near(share(1023, C_CUSTOMER, 3_000, 600), 0.79);
        near(share(8191, C_ITEM, 100_000, 10_000), 0.72);
    }

    #[test]
    fn the_word_is_found_wherever_it_stands() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let mut data: Vec<u8> = (0..random.usize(0..40)).map(|_| ORIGINAL[random.usize(0..8)]).collect();
            if data.len() >= 8 && random.bool() {
                let at = random.usize(0..=data.len() - 8);
                data[at..at + 8].copy_from_slice(ORIGINAL);
            }
            assert_eq!(is_original(&data), data.windows(8).any(|window| window == ORIGINAL), "{data:?}");
        }
    }

    #[test]
    fn one_item_in_ten_is_original() {
        let mut random = Random::new(4);
        let n = (0..20_000).filter(|_| is_original(&random.item_data())).count();
        assert!((1_850..2_150).contains(&n), "{n}");
    }
}
