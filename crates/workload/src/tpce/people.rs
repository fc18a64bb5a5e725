//! Customers and their accounts, computed from their ids.

use super::geometry::{Geometry, stream};
use super::names::{self, Person};
use crate::random::Random;
use smallvec::SmallVec;

/// Purposes of streams of draws; those below 10 belong to names.
const ACCOUNTS: u64 = 10;
const ACCOUNT: u64 = 11;
const PERMISSIONS: u64 = 12;
const BASKET: u64 = 13;
const ADDRESS: u64 = 14;
const TAX: u64 = 15;
const WATCHED: u64 = 16;

/// Customers that exist only as names: persons with a permission.
const VIRTUAL: std::ops::Range<u64> = 1_000_000_000..1_065_000_000;

/// Division rates of the 64 divisions: 55 have five, nine have four, 311 in all.
pub(super) const DIVISIONS: u32 = 64;
pub(super) const COUNTRY_RATES: [(&str, i64); 9] = [
    ("US1 ", 15_000),
    ("US2 ", 27_500),
    ("US3 ", 30_500),
    ("US4 ", 35_500),
    ("US5 ", 39_100),
    ("CN1 ", 16_000),
    ("CN2 ", 22_000),
    ("CN3 ", 26_000),
    ("CN4 ", 29_000),
];

/// The number of rates of a division.
pub(super) fn rates_of(division: u32) -> u32 {
    if division < 55 { 5 } else { 4 }
}

/// TX_ID of a division's rate.
pub(super) fn division_rate(division: u32, n: u32) -> String {
    format!("{}{n} ", names::division_code(division))
}

/// TX_RATE of a division's rate, in hundred-thousandths: 0 to 0.4864, on average 0.128.
pub(super) fn rate_of(division: u32, n: u32) -> i64 {
    let random = &mut stream(TAX, (u64::from(division) << 8) | u64::from(n));
    (random.unit() * random.unit() * 48_640.0 * 1.05) as i64 % 48_641
}

impl Geometry {
    /// C_TIER, 1 to 3.
    pub fn tier_of(&self, c: i64) -> i64 {
        match self.rank_of(c) * 1_000 / self.unit {
            0..200 => 1,
            200..800 => 2,
            _ => 3,
        }
    }

    /// How often a customer is drawn, on average 2.
    pub fn weight_of(&self, c: i64) -> f64 {
        let n = f64::from(self.rank_of(c)) * 1_000.0 / f64::from(self.unit);
        match self.tier_of(c) {
            1 => (2.0 * n + 301.0) / 500.0,
            2 => (2.0 * n + 1_001.0) / 1_000.0,
            _ => (2.0 * n - 299.0) / 500.0,
        }
    }

    /// The number of a customer's accounts: they are `10 c` and the ones behind.
    pub fn accounts_of(&self, c: i64) -> i64 {
        let range = match self.tier_of(c) {
            1 => 1..=4,
            2 => 2..=8,
            _ => 5..=10,
        };
        stream(ACCOUNTS, c as u64).between(range).into()
    }

    /// CA_B_ID: uniform among the brokers of the unit.
    pub fn broker_of(&self, ca: i64) -> i64 {
        let unit = ca / 10 / i64::from(self.unit);
        let brokers = i64::from(super::geometry::UNIT_SITES);
        unit * brokers + stream(ACCOUNT, ca as u64).within(0..brokers as u64) as i64
    }

    /// The securities that an account trades, distinct, from the whole database.
    pub fn basket_of(&self, ca: i64) -> SmallVec<[u32; 18]> {
        const LEAST: [&[u32]; 3] = [&[6, 4, 2, 2], &[7, 5, 4, 3, 2, 2, 2], &[4, 4, 3, 3, 2, 2]];
        const MOST: [&[u32]; 3] =
            [&[14, 16, 18, 18], &[13, 15, 16, 17, 18, 18, 18], &[16, 16, 17, 17, 18, 18]];
        const FIRST: [i64; 3] = [1, 2, 5];
        let c = ca / 10;
        let tier = self.tier_of(c) as usize - 1;
        let at = (self.accounts_of(c) - FIRST[tier]) as usize;
        let mut random = stream(BASKET, ca as u64);
        let size = random.between(LEAST[tier][at]..=MOST[tier][at]) as usize;
        self.some_securities(&mut random, size)
    }

    /// Distinct securities of the whole database.
    fn some_securities<const N: usize>(&self, random: &mut Random, size: usize) -> SmallVec<[u32; N]>
    where
        [u32; N]: smallvec::Array<Item = u32>,
    {
        let mut all = SmallVec::new();
        while all.len() < size.min(self.securities() as usize) {
            let security = random.between(0..=self.securities() - 1);
            if !all.contains(&security) {
                all.push(security);
            }
        }
        all
    }

    /// The securities on a customer's watch list when it is loaded, 50 to 150.
    pub fn watched_by(&self, c: i64) -> SmallVec<[u32; 150]> {
        let mut random = stream(WATCHED, c as u64);
        let size = random.between(50..=150) as usize;
        self.some_securities(&mut random, size)
    }
}

/// CA_TAX_ST: 0 not taxable, 1 withheld, 2 taxable.
pub(super) fn tax_status(ca: i64) -> i64 {
    match stream(ACCOUNT, ca as u64 | 1 << 60).between(0..=99) {
        0..20 => 0,
        20..70 => 1,
        _ => 2,
    }
}

/// CA_BAL as loaded, in cents.
pub(super) fn balance(ca: i64) -> i64 {
    let mut random = stream(ACCOUNT, ca as u64 | 1 << 61);
    let size = random.within(0..1_000_000_000) as i64;
    if random.chance(80.0) { size } else { -size }
}

/// The persons besides the owner that may trade for an account: none, one or two.
pub(super) fn permitted(ca: i64) -> SmallVec<[u64; 2]> {
    let mut random = stream(PERMISSIONS, ca as u64);
    let n = match random.between(0..=99) {
        0..60 => 0,
        60..98 => 1,
        _ => 2,
    };
    (0..n).map(|_| random.within(VIRTUAL)).collect()
}

/// The person that gives an order for an account: its owner, or in a quarter of the orders for an
/// account with permissions, the last of the permitted.
pub(super) fn executor(ca: i64, random: &mut Random) -> (Person, bool) {
    let other = permitted(ca).last().copied().filter(|_| random.chance(25.0));
    (names::person(other.unwrap_or(ca as u64 / 10)), other.is_some())
}

/// The zip code of a customer, which decides the tax rates.
pub(super) fn zip_of(c: i64) -> u32 {
    names::draw_zip(&mut stream(ADDRESS, c as u64))
}

/// The customer's tax rates as loaded: TX_ID and TX_RATE of a country bracket and of a rate of the
/// division.
pub(super) fn taxes_of(c: i64) -> [(String, i64); 2] {
    let (zip, mut random) = (zip_of(c), stream(TAX, c as u64 | 1 << 60));
    let brackets = if names::is_us(zip) { 0..5 } else { 5..9 };
    let (id, rate) = COUNTRY_RATES[random.within(brackets) as usize];
    let division = names::division(zip);
    let n = random.between(1..=rates_of(division));
    [(id.into(), rate), (division_rate(division, n), rate_of(division, n))]
}

/// Customers of a range of sites, drawn by their weights.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    first: i64,
    /// The sum of the weights up to each customer.
    sums: Vec<f64>,
}

impl Crowd {
    pub fn new(geometry: &Geometry, sites: std::ops::Range<u32>) -> Crowd {
        let first = geometry.customers_of(sites.start).start;
        let end = geometry.customers_of(sites.end - 1).end;
        let mut sum = 0.0;
        let mut add = |c| {
            sum += geometry.weight_of(c);
            sum
        };
        Crowd { first, sums: (first..end).map(&mut add).collect() }
    }

    pub fn draw(&self, random: &mut Random) -> i64 {
        let at = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        self.first + self.sums.partition_point(|sum| *sum <= at).min(self.sums.len() - 1) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::super::TpceOptions;
    use super::*;

    /// With the counts that the official loader makes.
    #[test]
    fn tiers_accounts_and_weights_are_as_defined() {
        let geometry = Geometry::new(&TpceOptions::new(1));
        let (mut tiers, mut accounts, mut weights) = ([0; 3], 0, [0.0; 3]);
        for c in 0..1_000 {
            let tier = geometry.tier_of(c) as usize - 1;
            tiers[tier] += 1;
            weights[tier] += geometry.weight_of(c);
            let n = geometry.accounts_of(c);
            accounts += n;
            for ca in c * 10..c * 10 + n {
                let basket = geometry.basket_of(ca);
                assert!((2..=18).contains(&basket.len()) && basket.iter().all(|s| *s < 685));
            }
        }
        assert_eq!(tiers, [200, 600, 200]);
        assert!((4_850..5_150).contains(&accounts), "{accounts} accounts");
        for (weight, share) in weights.into_iter().zip([0.1, 0.6, 0.3]) {
            assert!((weight / 2_000.0 - share).abs() < 0.002, "{weights:?}");
        }
        let rates: u32 = (0..DIVISIONS).map(rates_of).sum();
        assert_eq!(rates, 311);
    }
}
