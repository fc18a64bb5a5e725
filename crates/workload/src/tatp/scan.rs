//! Range scans by number: a given number of subscribers from a given SUB_NBR on; each row is
//! fetched.
//!
//! With an aligned index, a scan is one phase with a step for each site in the range, which reads
//! entries and rows together. With an index that is not aligned, the first phase reads the entries
//! where they lie, and the second reads the rows, with a step for each site that has any. A scan
//! that reaches the last number ends there.

use super::reads::Subscriber;
use super::rows::{self, NUMBER, SUBSCRIBER, SUBSCRIBER_NUMBER, key};
use super::updates::number_route;
use super::{Index, Tatp, TatpOptions, found, route};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::ops::Range;
use txn::step::{Each, Effect, Route, Step, StepId, Transaction};
use txn::{Abort, Access, Direction, Flow};

/// The most rows of a request.
const MOST: u32 = 10_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScanRequest {
    /// The first number, as the value of its digits.
    pub number: u32,
    pub rows: u32,
}

/// The result of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Scanned {
    pub rows: u32,
    /// The sum of all MSC_LOCATIONs: shows that every row was fetched.
    pub msc_locations: u64,
}

impl Scanned {
    fn add(&mut self, row: &Subscriber) {
        self.rows += 1;
        self.msc_locations += u64::from(row.msc_location);
    }

    fn total(parts: impl IntoIterator<Item = Scanned>) -> Scanned {
        parts.into_iter().fold(Scanned::default(), |sum, part| Scanned {
            rows: sum.rows + part.rows,
            msc_locations: sum.msc_locations + part.msc_locations,
        })
    }
}

impl TatpOptions {
    /// The parts of a range of subscribers or slots, one for each site, in order.
    fn by_site(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        let n = self.subscribers;
        let sites = (range.start - 1) / n..(range.end - 1).div_ceil(n);
        sites.map(move |site| range.start.max(site * n + 1)..range.end.min((site + 1) * n + 1))
    }

    /// The slots of a range of subscribers: one range, or two if it wraps past the last slot.
    fn slots_of(&self, subscribers: Range<u32>) -> SmallVec<[Range<u32>; 2]> {
        let (first, len) = (self.slot_of(subscribers.start), subscribers.len() as u32);
        let end = self.population() + 1;
        let here = first..end.min(first + len);
        let wrapped = 1..1 + (first + len).saturating_sub(end);
        [here, wrapped].into_iter().filter(|run| !run.is_empty()).collect()
    }
}

/// The subscribers of a scan.
fn range(tatp: &Tatp, r: ScanRequest) -> Result<Range<u32>, Abort> {
    let first = tatp.place(r.number)?;
    if !(1..=MOST).contains(&r.rows) {
        return Err(Abort::BadRequest);
    }
    Ok(first..(tatp.options.population() + 1).min(first.saturating_add(r.rows)))
}

pub(super) async fn run<T: Transaction>(tatp: &Tatp, r: ScanRequest, txn: &mut T) -> Result<Scanned, Abort> {
    let (range, options) = (range(tatp, r)?, &tatp.options);
    if options.index == Index::Aligned {
        let steps = options.by_site(range).map(|r| ScanNumbers { first: r.start, end: r.end }).collect();
        return Ok(Scanned::total(txn.last(Each::<ScanNumbers>(steps)).await?));
    }
    let slots = options.slots_of(range).into_iter().flat_map(|slots| options.by_site(slots));
    let steps = slots.map(|r| ListNumbers { first: r.start, end: r.end }).collect();
    let mut found: Vec<u32> = txn.all(Each::<ListNumbers>(steps)).await?.into_iter().flatten().collect();
    found.sort_unstable();
    if found.iter().any(|s| tatp.place(*s).is_err()) {
        return Err(Abort::BadRequest);
    }
    let of_site = found.chunk_by(|a, b| (a - 1) / options.subscribers == (b - 1) / options.subscribers);
    let steps = of_site.map(|ids| FetchSubscribers { ids: ids.to_vec() }).collect();
    Ok(Scanned::total(txn.last(Each::<FetchSubscribers>(steps)).await?))
}

pub(super) fn routes(tatp: &Tatp, r: ScanRequest, visit: &mut dyn FnMut(Route)) {
    let Ok(range) = range(tatp, r) else { return visit(route(r.number)) };
    tatp.options.by_site(range.clone()).for_each(|part| visit(route(part.start)));
    if tatp.options.index == Index::NonAligned {
        let slots = tatp.options.slots_of(range).into_iter().flat_map(|slots| tatp.options.by_site(slots));
        slots.for_each(|part| visit(number_route(part.start)));
    }
}

/// Reads entries of the aligned index and their rows, from `first` to before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScanNumbers {
    pub first: u32,
    pub end: u32,
}

impl Step for ScanNumbers {
    const ID: StepId = 10;
    const EFFECT: Effect = Effect::Reads;
    type Output = Scanned;

    fn route(&self) -> Route {
        route(self.first)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Scanned, Abort> {
        let (low, high, mut scanned) = (key([self.first]), key([self.end]), Scanned::default());
        access
            .scan(SUBSCRIBER_NUMBER, txn::Range::new(&low, &high), Direction::Forward, |_, row| {
                scanned.add(&Subscriber::of(&row));
                Flow::More
            })
            .await?;
        Ok(scanned)
    }
}

/// Reads entries of the index that is not aligned; returns their subscribers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListNumbers {
    /// The range of slots, end excluded.
    pub first: u32,
    pub end: u32,
}

impl Step for ListNumbers {
    const ID: StepId = 11;
    const EFFECT: Effect = Effect::Reads;
    type Output = Vec<u32>;

    fn route(&self) -> Route {
        number_route(self.first)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Vec<u32>, Abort> {
        let (low, high, mut ids) = (key([self.first]), key([self.end]), Vec::new());
        access
            .scan(NUMBER, txn::Range::new(&low, &high), Direction::Forward, |_, row| {
                ids.push(row.int(rows::number::S_ID) as u32);
                Flow::More
            })
            .await?;
        Ok(ids)
    }
}

/// Reads the rows of subscribers of one site.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FetchSubscribers {
    pub ids: Vec<u32>,
}

impl Step for FetchSubscribers {
    const ID: StepId = 12;
    const EFFECT: Effect = Effect::Reads;
    type Output = Scanned;

    fn route(&self) -> Route {
        route(self.ids.first().copied().unwrap_or(0))
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Scanned, Abort> {
        let mut scanned = Scanned::default();
        for s in &self.ids {
            scanned.add(&found(access.read(SUBSCRIBER, &key([*s]), |row| Subscriber::of(&row)).await?)?);
        }
        Ok(scanned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_sites_take_a_range_apart() {
        let options = TatpOptions { subscribers: 10, ..TatpOptions::new(3) };
        let sites = |range| options.by_site(range).collect::<Vec<_>>();
        assert_eq!(sites(1..31), [1..11, 11..21, 21..31]);
        assert_eq!(sites(10..12), [10..11, 11..12]);
        assert!(sites(12..13).into_iter().eq(std::iter::once(12..13)));
        for s in 1..=30 {
            assert_eq!(options.subscriber_in(options.slot_of(s)), s);
            for len in 1..=31 - s {
                let slots: Vec<u32> = options.slots_of(s..s + len).into_iter().flatten().collect();
                assert_eq!(slots, (s..s + len).map(|s| options.slot_of(s)).collect::<Vec<_>>());
            }
        }
    }
}
