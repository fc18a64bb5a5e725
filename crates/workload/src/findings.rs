//! Collects violations: the first few in words and the rest as a number, so that the report on a
//! table with errors in every row stays readable.

use txn::Verdict;

/// Lines kept per check.
const SHOWN: usize = 20;

#[derive(Default)]
pub(crate) struct Findings {
    lines: Vec<String>,
    more: u64,
}

impl Findings {
    /// Notes a violation; `line` is called only if the line is kept.
    pub fn add(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < SHOWN { self.lines.push(line()) } else { self.more += 1 }
    }

    /// Notes a violation unless `found` is `expected`.
    pub fn expect<T: PartialEq + std::fmt::Display>(&mut self, what: &str, expected: T, found: T) {
        if expected != found {
            self.add(|| format!("{what}: expected {expected}, found {found}"));
        }
    }

    pub fn into_lines(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more violations like these", self.more));
        }
        self.lines
    }

    pub fn into_verdict(self) -> Verdict {
        Verdict { violations: self.into_lines() }
    }
}

/// Notes every site of `0..sites` that no audit covers, or more than one.
pub(crate) fn check_cover(
    ranges: impl Iterator<Item = std::ops::Range<u32>>,
    sites: u32,
    findings: &mut Findings,
) {
    let mut ranges: Vec<_> = ranges.filter(|r| !r.is_empty()).collect();
    ranges.sort_by_key(|r| r.start);
    let mut next = 0;
    for r in ranges {
        if r.start != next {
            findings.add(|| format!("audits: expected one from site {next} on, found one from {}", r.start));
        }
        next = r.end;
    }
    findings.expect("audits: sites covered", sites, next);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut f = Findings::default();
        (0..50).for_each(|i| f.expect("row", i, i + 1));
        let lines = f.into_lines();
        assert_eq!(lines.len(), SHOWN + 1);
        assert_eq!(lines[0], "row: expected 0, found 1");
        assert_eq!(lines[SHOWN], "and 30 more violations like these");
    }

    #[test]
    fn cover_finds_gaps_overlaps_and_missing_ends() {
        let holds = |ranges: &[std::ops::Range<u32>]| {
            let mut f = Findings::default();
            check_cover(ranges.iter().cloned(), 4, &mut f);
            f.into_verdict().holds()
        };
        assert!(holds(&[2..4, 0..2]));
        for wrong in [&[0..2, 0..0][..], &[0..2, 3..4], &[0..3, 2..4], &[0..2, 0..2, 2..4]] {
            assert!(!holds(wrong), "{wrong:?}");
        }
    }
}
