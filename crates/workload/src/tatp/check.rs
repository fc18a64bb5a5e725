//! The consistency conditions: the population is intact, every row has its parent, the index names
//! every subscriber once, and the number of call forwardings equals the loaded ones plus committed
//! inserts minus committed deletes.
//!
//! The rows of ACCESS_INFO and SPECIAL_FACILITY follow from the seed, and no transaction adds or
//! removes one: each is compared with the seed. All rows of a subscriber lie in one instance, so an
//! instance decides nearly everything itself.

use super::population::{Kit, kit, members};
use super::rows::*;
use super::{Index, TatpOptions};
use crate::findings::{Findings, check_cover};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use txn::workload::Verdict;
use txn::{Abort, Access, Direction, Flow, Row};

/// The findings of one instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TatpAudit {
    pub sites: Range<u32>,
    /// Rows of CALL_FORWARDING now, and when loaded.
    pub forwarded: u64,
    pub forwarded_at_first: u64,
    /// Violations, one per line.
    pub damage: Vec<String>,
}

/// The rows found, by subscriber of this instance.
struct Books<'a> {
    options: &'a TatpOptions,
    subscribers: Range<u32>,
    kits: Vec<Kit>,
    forwarded: u64,
    damage: Findings,
}

/// Sets the bit of a row in a set; `false` for a type or start that is not valid.
fn mark(set: &mut u8, value: i64, unit: i64, first: i64, n: i64) -> bool {
    let at = (value - first) / unit;
    let fits = (value - first) % unit == 0 && (0..n).contains(&at);
    if fits {
        *set |= 1 << at;
    }
    fits
}

impl Books<'_> {
    /// The rows found of the subscriber in the first column; notes a subscriber that does not
    /// belong here.
    fn of(&mut self, table: &str, row: &Row<'_>) -> Option<(u32, &mut Kit)> {
        let s = row.int(0);
        let here = u32::try_from(s).ok().filter(|s| self.subscribers.contains(s));
        let Some(s) = here else {
            self.damage.add(|| format!("1: {table}: a row of subscriber {s}, which is not here"));
            return None;
        };
        Some((s, &mut self.kits[(s - self.subscribers.start) as usize]))
    }

    fn subscriber(&mut self, row: &Row<'_>) {
        use subscriber::*;
        let s = row.int(S_ID);
        if row.bytes(SUB_NBR) != digits(s as u64) {
            self.damage.add(|| format!("4: SUBSCRIBER {s}: its number is {}", row.text(SUB_NBR)));
        }
        let wrong = TENS
            .iter()
            .any(|&(first, most)| (first..first + 10).any(|c| !(0..=i64::from(most)).contains(&row.int(c))));
        let location = |c| u32::try_from(row.int(c)).is_err();
        if wrong || location(MSC_LOCATION) || location(VLR_LOCATION) {
            self.damage.add(|| format!("SUBSCRIBER {s}: a column is out of its domain"));
        }
    }

    fn access(&mut self, row: &Row<'_>) {
        let ai_type = row.int(access_info::AI_TYPE);
        let Some((s, kit)) = self.of("ACCESS_INFO", row) else { return };
        if !mark(&mut kit.access, ai_type, 1, 1, 4) {
            self.damage.add(|| format!("ACCESS_INFO ({s}, {ai_type}): expected a type from 1 to 4"));
        }
    }

    fn facility(&mut self, row: &Row<'_>) {
        use special_facility::*;
        let (sf_type, active) = (row.int(SF_TYPE), row.int(IS_ACTIVE));
        let Some((s, kit)) = self.of("SPECIAL_FACILITY", row) else { return };
        let fits = mark(&mut kit.facilities, sf_type, 1, 1, 4);
        if active == 1 {
            mark(&mut kit.active, sf_type, 1, 1, 4);
        }
        if !fits || !(0..=1).contains(&active) || !(0..=255).contains(&row.int(DATA_A)) {
            self.damage.add(|| format!("SPECIAL_FACILITY ({s}, {sf_type}): a column is out of its domain"));
        }
    }

    fn forwarding(&mut self, row: &Row<'_>) {
        use call_forwarding::*;
        self.forwarded += 1;
        let [sf_type, start, end] = [SF_TYPE, START_TIME, END_TIME].map(|c| row.int(c));
        let Some((s, kit)) = self.of("CALL_FORWARDING", row) else { return };
        let parent = (1..=4).contains(&sf_type) && kit.facilities & 1 << (sf_type - 1) != 0;
        if !parent {
            self.damage.add(|| format!("1: CALL_FORWARDING ({s}, {sf_type}, {start}) has no facility"));
        }
        if ![0, 8, 16].contains(&start) || !(1..=24).contains(&end) {
            self.damage.add(|| format!("4: CALL_FORWARDING ({s}, {sf_type}, {start}): {start} to {end}"));
        }
    }

    /// Compares the rows found with the loaded ones.
    fn close(mut self, sites: Range<u32>) -> TatpAudit {
        let mut forwarded_at_first = 0;
        for (s, found) in self.subscribers.clone().zip(&self.kits) {
            let loaded = kit(self.options.distribution, s);
            forwarded_at_first += loaded.forwarded.iter().map(|set| u64::from(set.count_ones())).sum::<u64>();
            for (table, loaded, found) in [
                ("ACCESS_INFO", loaded.access, found.access),
                ("SPECIAL_FACILITY", loaded.facilities, found.facilities),
                ("SPECIAL_FACILITY.IS_ACTIVE", loaded.active, found.active),
            ] {
                if loaded != found {
                    let types = |set| members(set).map(|i| i + 1).collect::<Vec<_>>();
                    let (loaded, found) = (types(loaded), types(found));
                    self.damage
                        .add(|| format!("2: {table} of {s}: expected types {loaded:?}, found {found:?}"));
                }
            }
        }
        let damage = self.damage.into_lines();
        TatpAudit { sites, forwarded: self.forwarded, forwarded_at_first, damage }
    }
}

/// Reads a table or index, and notes every difference from the places in `expected`, which are in
/// order. `place` returns a row's place.
async fn in_order<A: Access>(
    (index, name): (base::TableId, &str),
    expected: Range<u32>,
    (damage, access): (&mut Findings, &mut A),
    place: impl Fn(&Row<'_>) -> Option<i64>,
) -> Result<(), Abort> {
    let mut next = i64::from(expected.start);
    access
        .scan(index, txn::Range::ALL, Direction::Forward, |_, row| {
            let found = place(&row);
            if found != Some(next) {
                damage.add(|| match found {
                    Some(found) => format!("{name}: expected {next}, found {found}"),
                    None => format!("{name}: the entry at {next} is another subscriber's"),
                });
            }
            next = found.unwrap_or(next) + 1;
            Flow::More
        })
        .await?;
    damage.expect(&format!("{name}: end"), i64::from(expected.end), next);
    Ok(())
}

async fn each<A: Access>(
    access: &mut A,
    table: base::TableId,
    mut f: impl FnMut(&Row<'_>),
) -> Result<(), Abort> {
    access
        .scan(table, txn::Range::ALL, Direction::Forward, |_, row| {
            f(&row);
            Flow::More
        })
        .await
}

pub(super) async fn audit<A: Access>(
    options: &TatpOptions,
    sites: Range<u32>,
    access: &mut A,
) -> Result<TatpAudit, Abort> {
    let subscribers = options.subscribers_of(sites.clone());
    let kits = vec![Kit::default(); subscribers.len()];
    let damage = Findings::default();
    let mut books = Books { options, subscribers: subscribers.clone(), kits, forwarded: 0, damage };
    let notes = &mut books.damage;
    let id = |row: &Row<'_>| Some(row.int(subscriber::S_ID));
    in_order((SUBSCRIBER, "2: SUBSCRIBER"), subscribers.clone(), (notes, access), id).await?;
    match options.index {
        Index::Aligned => {
            in_order((SUBSCRIBER_NUMBER, "4: index by number"), subscribers, (notes, access), id).await?;
        }
        Index::NonAligned => {
            let slot = |row: &Row<'_>| {
                let (slot, s) = (row.int(number::SLOT), row.int(number::S_ID));
                let expected = u32::try_from(slot).ok().filter(|n| (1..=options.population()).contains(n));
                let right = expected.is_some_and(|n| i64::from(options.subscriber_in(n)) == s)
                    && row.bytes(number::SUB_NBR) == digits(s as u64);
                right.then_some(slot)
            };
            in_order((NUMBER, "4: NUMBER"), subscribers, (notes, access), slot).await?;
        }
    }
    each(access, SUBSCRIBER, |row| books.subscriber(row)).await?;
    each(access, ACCESS_INFO, |row| books.access(row)).await?;
    each(access, SPECIAL_FACILITY, |row| books.facility(row)).await?;
    each(access, CALL_FORWARDING, |row| books.forwarding(row)).await?;
    Ok(books.close(sites))
}

/// `committed`: InsertCallForwardings minus DeleteCallForwardings since loading, modulo 2^64.
pub(super) fn judge(options: &TatpOptions, audits: &[TatpAudit], committed: Option<u64>) -> Verdict {
    let mut findings = Findings::default();
    check_cover(audits.iter().map(|a| a.sites.clone()), options.scale, &mut findings);
    audits.iter().flat_map(|a| &a.damage).for_each(|line| findings.add(|| line.clone()));
    if let Some(committed) = committed {
        let at_first = audits.iter().map(|a| a.forwarded_at_first).sum::<u64>();
        let found = audits.iter().map(|a| a.forwarded).sum::<u64>();
        let expected = at_first.wrapping_add(committed) as i64;
        findings.expect("3: rows of CALL_FORWARDING", expected, found as i64);
    }
    findings.into_verdict()
}
