//! Where everything lies: the numbers of customers, brokers, companies and securities, and the site
//! of each.
//!
//! ```text
//! load unit u      1,000 customers (or `--unit`), ten sites
//! site s           a tenth of a unit: customers, their accounts and trades; one broker
//! group g          the sites that share one copy of the market: a unit, or all sites
//! market row k     at the group's site k mod sites of the group, k the number of its company
//! ```
//!
//! So a transaction finds the market in its own unit (`--market replicated`), or somewhere in the
//! database (`--market partitioned`).

use super::TpceOptions;
use crate::random::Random;
use std::ops::Range;

/// Sites of a load unit, and its brokers.
pub const UNIT_SITES: u32 = 10;
/// Ids of trades that a site can give out.
const TRADES_OF_SITE: i64 = 10_000_000_000;
/// Companies after which the pattern of securities repeats, and their securities.
const PATTERN: (u32, u32) = (100, 137);
/// Of the companies of a pattern, the numbers of those with at least 2, 3, 4 and 5 securities: the
/// last ones. Of the official 5,000, 4,000 of 5,000 have 1, 500 have 2, and so on.
const MORE: [u32; 4] = [20, 10, 5, 2];
/// S_ISSUE by the number of a security within its company, and the end of its symbol.
pub const ISSUES: [(&str, &str); 5] =
    [("COMMON", ""), ("PREF_A", "PRA"), ("PREF_B", "PRB"), ("PREF_C", "PRC"), ("PREF_D", "PRD")];

/// A symbol: at most seven letters.
pub type Symbol = smallvec::SmallVec<[u8; 8]>;

/// The seed of something that follows from its number alone.
pub(super) fn seed(purpose: u64, number: u64) -> u64 {
    base::hash64(&(number ^ purpose << 48 ^ purpose.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes())
}

/// The stream of draws for something that follows from its number alone.
pub(super) fn stream(purpose: u64, number: u64) -> Random {
    Random::new(seed(purpose, number))
}

#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    pub units: u32,
    /// Customers of a unit.
    pub unit: u32,
    /// Sites of a group.
    pub group: u32,
    /// Ids of initial trades of a site, those of discarded orders included.
    pub initial: i64,
    /// Milliseconds of trading time between two orders of a unit, times ten: between two orders of
    /// a site.
    pub spacing_ms: f64,
    pub days: u32,
}

impl Geometry {
    pub(super) fn new(options: &TpceOptions) -> Geometry {
        let sites = options.units * UNIT_SITES;
        let group = if options.market_copies { UNIT_SITES } else { sites };
        let trades =
            u64::from(options.days) * 28_800 * u64::from(options.unit) / u64::from(options.sf.max(1));
        let initial = (trades / u64::from(UNIT_SITES)).max(1) as i64 * 101 / 100;
        let spacing_ms = f64::from(options.days) * 28_800_000.0 / initial as f64;
        let (units, unit, days) = (options.units, options.unit, options.days);
        Geometry { units, unit, group, initial, spacing_ms, days }
    }

    pub fn sites(&self) -> u32 {
        self.units * UNIT_SITES
    }

    pub fn customers(&self) -> u32 {
        self.units * self.unit
    }

    /// Customers of a site.
    pub fn site_customers(&self) -> u32 {
        self.unit / UNIT_SITES
    }

    pub fn companies(&self) -> u32 {
        self.customers() / 2
    }

    pub fn securities(&self) -> u32 {
        self.companies() / PATTERN.0 * PATTERN.1
    }

    pub fn brokers(&self) -> u32 {
        self.sites()
    }

    /// Copies of the market.
    pub fn groups(&self) -> u32 {
        self.sites() / self.group
    }

    pub fn site_of_customer(&self, c: i64) -> u32 {
        (c / i64::from(self.site_customers())) as u32
    }

    pub fn site_of_account(&self, ca: i64) -> u32 {
        self.site_of_customer(ca / 10)
    }

    pub fn site_of_trade(t: i64) -> u32 {
        (t / TRADES_OF_SITE) as u32
    }

    pub fn trade_id(site: u32, n: i64) -> i64 {
        i64::from(site) * TRADES_OF_SITE + n
    }

    /// The number of a trade within its site, from 1 on.
    pub fn number_of_trade(t: i64) -> i64 {
        t % TRADES_OF_SITE
    }

    pub fn customers_of(&self, site: u32) -> Range<i64> {
        let n = i64::from(self.site_customers());
        i64::from(site) * n..i64::from(site + 1) * n
    }

    /// The group with the copy of the market that transactions at `site` use.
    pub fn group_of(&self, site: u32) -> u32 {
        site / self.group
    }

    pub fn sites_of_group(&self, group: u32) -> Range<u32> {
        group * self.group..(group + 1) * self.group
    }

    /// The site of a company's rows, and of its securities', in a group's copy.
    pub fn place_of_company(&self, company: u32, group: u32) -> u32 {
        group * self.group + company % self.group
    }

    pub fn place_of_security(&self, security: u32, group: u32) -> u32 {
        self.place_of_company(company_of(security), group)
    }

    /// The companies of which a site has the rows.
    pub fn companies_of(&self, site: u32) -> impl Iterator<Item = u32> + use<> {
        (site % self.group..self.companies()).step_by(self.group as usize)
    }

    /// C_AD_ID; companies' addresses come before, and those of the four exchanges first.
    pub fn address_of_customer(&self, c: i64) -> i64 {
        4 + i64::from(self.companies()) + c
    }

    pub fn address_of_company(company: u32) -> i64 {
        4 + i64::from(company)
    }

    /// WL_ID: a permutation within the site.
    pub fn watch_list_of(&self, c: i64) -> i64 {
        let n = i64::from(self.site_customers());
        let factor = if gcd(31, n) == 1 { 31 } else { 1 };
        c / n * n + (c % n * factor + 97) % n
    }

    /// The rank of a customer among those of its unit: the higher within its tier, the more often
    /// it is drawn: position = 677 rank + 33 (unit + 1).
    pub fn rank_of(&self, c: i64) -> u32 {
        let n = i64::from(self.unit);
        let (unit, position) = (c / n, c % n);
        let shifted = (position - 33 * (unit + 1)).rem_euclid(n);
        (shifted * inverse(677, n) % n) as u32
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The inverse of `a` modulo `n`: 677 is a prime, and `n` no multiple of it.
fn inverse(a: i64, n: i64) -> i64 {
    let (mut r, mut next_r, mut t, mut next_t) = (n, a % n, 0, 1);
    while next_r != 0 {
        let q = r / next_r;
        (r, next_r) = (next_r, r - q * next_r);
        (t, next_t) = (next_t, t - q * next_t);
    }
    t.rem_euclid(n)
}

/// The number of securities of a company.
pub(super) fn securities_of_company(company: u32) -> u32 {
    let left = PATTERN.0 - company % PATTERN.0;
    1 + MORE.iter().filter(|more| left <= **more).count() as u32
}

/// The first security of a company.
pub(super) fn first_security(company: u32) -> u32 {
    let (whole, at) = (company / PATTERN.0, company % PATTERN.0);
    let before = |more: &u32| (at + more).saturating_sub(PATTERN.0);
    whole * PATTERN.1 + at + MORE.iter().map(before).sum::<u32>()
}

pub(super) fn company_of(security: u32) -> u32 {
    let (whole, at) = (security / PATTERN.1, security % PATTERN.1);
    let first = whole * PATTERN.0;
    if at < PATTERN.0 - MORE[0] {
        return first + at;
    }
    (PATTERN.0 - MORE[0]..PATTERN.0)
        .map(|k| first + k)
        .rfind(|k| first_security(*k) <= security)
        .unwrap_or(first)
}

/// The symbol of a security: four letters of its company, and the end of its issue.
pub(super) fn symbol(security: u32) -> Symbol {
    let company = company_of(security);
    let mut symbol = Symbol::new();
    let mut rest = company;
    for place in [17_576, 676, 26, 1] {
        symbol.push(b'A' + (rest / place % 26) as u8);
        rest %= place;
    }
    let issue = (security - first_security(company)) as usize;
    symbol.extend_from_slice(ISSUES[issue].1.as_bytes());
    symbol
}

/// The security with a symbol; `None` if no symbol looks like this.
pub(super) fn security_of(symbol: &[u8]) -> Option<u32> {
    let (letters, end) = symbol.split_at_checked(4)?;
    let issue = ISSUES.iter().position(|(_, text)| text.as_bytes() == end)? as u32;
    let digit = |b: &u8| b.checked_sub(b'A').filter(|d| *d < 26).map(u32::from);
    let company = letters.iter().try_fold(0, |n, b| Some(n * 26 + digit(b)?))?;
    (issue < securities_of_company(company)).then(|| first_security(company) + issue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn securities_companies_and_symbols_agree() {
        let mut next = 0;
        let mut counts = [0; 5];
        for company in 0..5_000 {
            assert_eq!(first_security(company), next, "company {company}");
            let n = securities_of_company(company);
            counts[n as usize - 1] += 1;
            for security in next..next + n {
                assert_eq!(company_of(security), company);
                assert_eq!(security_of(&symbol(security)), Some(security));
            }
            next += n;
        }
        assert_eq!((next, counts), (6_850, [4_000, 500, 250, 150, 100]), "of the official list");
        assert!(security_of(b"AAA").is_none() && security_of(b"AAAAPRA").is_none());
    }

    #[test]
    fn ranks_are_the_inverse_of_positions() {
        for (unit, units) in [(1_000, 2), (200, 3)] {
            let options = TpceOptions { unit, ..TpceOptions::new(units) };
            let geometry = Geometry::new(&options);
            for c in 0..i64::from(geometry.customers()) {
                let (u, n) = (c / i64::from(unit), i64::from(unit));
                let back = (677 * i64::from(geometry.rank_of(c)) + 33 * (u + 1)) % n;
                assert_eq!(back, c % n);
            }
        }
        assert_eq!(inverse(677, 1_000), 613, "measured on the official loader's data");
    }

    #[test]
    fn watch_lists_are_a_permutation_within_their_site() {
        let geometry = Geometry::new(&TpceOptions { unit: 200, ..TpceOptions::new(2) });
        for site in 0..geometry.sites() {
            let mut lists: Vec<i64> =
                geometry.customers_of(site).map(|c| geometry.watch_list_of(c)).collect();
            lists.sort_unstable();
            assert!(lists.into_iter().eq(geometry.customers_of(site)));
        }
    }
}
