//! Seeded draws: uniform, by percentage, and Zipf.
//!
//! The Zipf sampler is rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to
//! generate variates from monotone discrete distributions", 1996). It is exact for every exponent,
//! 1 included, and needs no table, so a generator over 120 million rows costs as much as one over a
//! hundred. It draws from any range of ranks: a draw restricted to a range has the same
//! distribution as repeated draws from all ranks until one falls into the range.

use fastrand::Rng;
use std::ops::{Range, RangeInclusive};

/// A seeded stream of draws.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    /// Seeds are hashed first, so that neighbouring seeds give unrelated streams.
    pub fn new(seed: u64) -> Random {
        Random(Rng::with_seed(base::hash64(&seed.to_le_bytes())))
    }

    /// Uniform in `range`.
    ///
    /// # Panics
    /// If the range is empty.
    #[inline]
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        self.0.u64(range)
    }

    /// Uniform, both ends included.
    pub(crate) fn between(&mut self, range: RangeInclusive<u32>) -> u32 {
        self.within(u64::from(*range.start())..u64::from(*range.end()) + 1) as u32
    }

    /// Decimal digits, `length` of them.
    pub(crate) fn digits(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| b'0' + self.between(0..=9) as u8).collect()
    }

    /// True with a probability of `per_cent` (0 never, 100 always).
    #[inline]
    pub fn chance(&mut self, per_cent: f64) -> bool {
        self.0.f64() * 100.0 < per_cent
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        self.0.f64()
    }
}

/// A range of values, and the area under the density over it.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    values: Range<u64>,
    low: f64,
    high: f64,
}

impl Span {
    pub fn values(&self) -> Range<u64> {
        self.values.clone()
    }
}

/// Draws `v` with probability proportional to `(v + 1)^-exponent`: value 0 has rank 1. Exponent 0
/// is uniform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    exponent: f64,
    /// A candidate at most this far above its point of inversion is accepted without computing the
    /// density. The bound is taken at rank 2, where it is smallest.
    shortcut: f64,
}

impl Zipf {
    /// # Panics
    /// If the exponent is negative or not finite.
    pub fn new(exponent: f64) -> Zipf {
        assert!(exponent >= 0.0 && exponent.is_finite(), "a Zipf exponent of {exponent}");
        let mut zipf = Zipf { exponent, shortcut: 0.0 };
        zipf.shortcut = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.density(2.0));
        zipf
    }

    pub fn is_uniform(&self) -> bool {
        self.exponent == 0.0
    }

    /// The span of `values`, prepared for many draws.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn span(&self, values: Range<u64>) -> Span {
        assert!(!values.is_empty(), "a draw from nothing");
        let (first, last) = ((values.start + 1) as f64, values.end as f64);
        Span { low: self.area(first + 0.5) - self.density(first), high: self.area(last + 0.5), values }
    }

    /// Draws a value of `span`, which must be made by this Zipf law.
    #[inline]
    pub fn draw(&self, random: &mut Random, span: &Span) -> u64 {
        if self.is_uniform() { random.within(span.values.clone()) } else { self.draw_skewed(random, span) }
    }

    fn draw_skewed(&self, random: &mut Random, span: &Span) -> u64 {
        let (first, last) = ((span.values.start + 1) as f64, span.values.end as f64);
        loop {
            let u = span.high + random.unit() * (span.low - span.high);
            let x = self.area_inverse(u);
            let rank = (x + 0.5).floor().clamp(first, last);
            if rank - x <= self.shortcut || u >= self.area(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of the density from 1 to `x`: `(x^(1-s) - 1) / (1 - s)`, written so that s near
    /// 1 loses no digits.
    fn area(&self, x: f64) -> f64 {
        let ln = x.ln();
        let t = (1.0 - self.exponent) * ln;
        ln * if t.abs() > 1e-8 { t.exp_m1() / t } else { 1.0 + t / 2.0 }
    }

    fn area_inverse(&self, area: f64) -> f64 {
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        (area * if t.abs() > 1e-8 { t.ln_1p() / t } else { 1.0 - t / 2.0 }).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(exponent: f64, values: Range<u64>, draws: u32) -> Vec<f64> {
        let (zipf, mut random) = (Zipf::new(exponent), Random::new(7));
        let mut counts = vec![0.0; (values.end - values.start) as usize];
        let span = zipf.span(values.clone());
        for _ in 0..draws {
            counts[(zipf.draw(&mut random, &span) - values.start) as usize] += 1.0;
        }
        counts.iter().map(|c| c / f64::from(draws)).collect()
    }

    #[test]
    fn shares_follow_the_law_on_any_run_of_ranks() {
        for exponent in [0.0, 0.3, 0.99, 1.0, 1.01, 2.5] {
            for values in [0..1, 0..10, 3..12, 1000..1010] {
                let weights: Vec<f64> = values.clone().map(|v| ((v + 1) as f64).powf(-exponent)).collect();
                let total: f64 = weights.iter().sum();
                let found = shares(exponent, values.clone(), 40_000);
                for (w, f) in weights.iter().zip(&found) {
                    let p = w / total;
                    let tolerance = 5.0 * (p * (1.0 - p) / 40_000.0).sqrt() + 1e-9;
                    assert!((p - f).abs() <= tolerance, "s={exponent} {values:?}: expected {p}, found {f}");
                }
            }
        }
    }

    #[test]
    fn steep_and_wide_draws_stay_in_range() {
        let mut random = Random::new(3);
        for exponent in [0.5, 1.0, 10.0, 50.0] {
            for values in [0..1 << 40, (1 << 40) - 10..1 << 40] {
                let zipf = Zipf::new(exponent);
                let span = zipf.span(values.clone());
                assert!((0..2000).all(|_| values.contains(&zipf.draw(&mut random, &span))));
            }
        }
    }

    #[test]
    fn chance_is_exact_at_both_ends() {
        let mut random = Random::new(1);
        assert!((0..10_000).all(|_| !random.chance(0.0) && random.chance(100.0)));
    }
}
