//! TATP: the location register of a mobile telephone network; seven short transactions on four
//! tables, four fifths reading.
//!
//! ```text
//! subscriber s   SUBSCRIBER s    ACCESS_INFO (s, 1..4)    SPECIAL_FACILITY (s, 1..4)
//!                CALL_FORWARDING (s, 1..4, 0|8|16)
//! site i         subscribers i*n+1 to i*n+n, n = 10,000: a unit of scale
//!
//! one step at the subscriber:   GetSubscriberData 35 %      GetNewDestination 10 %
//!                               GetAccessData 35 %          UpdateSubscriberData 2 %
//! the same, found by number:    UpdateLocation 14 %
//!                               InsertCallForwarding 2 %    DeleteCallForwarding 2 %
//! ```
//!
//! All rows of a subscriber lie at one site, so a transaction is one step there. The digits of a
//! number are those of its subscriber, so a router can compute the site. [`Index`] says where
//! numbers are looked up: in an index that is partitioned like the table (aligned: the look-up is
//! part of the step), or in one that is partitioned otherwise (the look-up is a step of its own
//! before it, at another site).
//!
//! A transaction that finds nothing to read or change (the row is absent, or the row to insert is
//! present) is an expected outcome, but no success: it rolls back with [`Abort::User`] and one of
//! the numbers below, is counted by kind, and is not retried. [`Predicate`] selects the query of
//! GetNewDestination: the published success rate (23.9 %) does not belong to the published query
//! (14.8 %); with one comparison reversed, as in the research driver, the rate is 24.6 %.
//!
//! Besides the mix there are mixes of a single transaction, the thesis' insert and delete benches
//! on CALL_FORWARDING, and its range scans by number.

mod benchmark;
mod check;
mod forwarding;
mod generator;
mod population;
mod reads;
mod rows;
mod scan;
mod statistics;
mod updates;

pub use check::TatpAudit;
pub use forwarding::{DeleteForwarding, First, Flip, Flipped, InsertForwarding, Toggle};
pub use generator::TatpGenerator;
pub use reads::{AccessData, Destination, FindDestination, ReadAccess, ReadSubscriber, Subscriber};
pub use rows::{
    ACCESS_INFO, CALL_FORWARDING, Digits, NUMBER, SPECIAL_FACILITY, SUBSCRIBER, SUBSCRIBER_NUMBER, digits,
};
pub use scan::{FetchSubscribers, ListNumbers, ScanNumbers, ScanRequest, Scanned};
pub use updates::{LookUp, SetLocation, UpdateSubscriber};

use crate::hot::Hot;
use crate::spec::{SpecError, in_range};
use base::{SiteId, TableId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::ops::Range;
use txn::schema::Schema;
use txn::step::{Route, StepId, Transaction};
use txn::workload::{Clients, Verdict};
use txn::{Abort, Access, Workload};

/// Rows of SPECIAL_FACILITY that a subscriber has at most.
const MOST_FACILITIES: usize = 4;
/// Rows of CALL_FORWARDING that a facility has at most.
const MOST_FORWARDINGS: usize = 3;

/// The reasons why a transaction is no success, as numbers of [`Abort::User`].
pub const NO_DESTINATION: u16 = 1;
pub const NO_ACCESS_INFO: u16 = 2;
pub const NO_FACILITY: u16 = 3;
/// InsertCallForwarding: the subscriber does not have this facility.
pub const NO_PARENT: u16 = 4;
pub const FORWARDED_ALREADY: u16 = 5;
pub const NOT_FORWARDED: u16 = 6;

/// The number of types, and of starts, of a subscriber is drawn; this says which of them it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Population {
    /// Any subset, as specified.
    Subset,
    /// The first ones, as in the research driver.
    Prefix,
}

/// The distribution of requests over subscribers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Popularity {
    /// As specified: of 100,000 subscribers, the most popular per cent gets 35 % of the requests.
    NonUniform,
    Uniform,
}

/// The condition of GetNewDestination on START_TIME; its other condition is always
/// `end < END_TIME`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Predicate {
    /// `START_TIME <= start`, as published.
    Standard,
    /// `START_TIME >= start`, which gives the published success rate.
    Reversed,
}

/// How the index on SUB_NBR is partitioned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Index {
    /// By S_ID: its key is (S_ID, SUB_NBR).
    Aligned,
    /// By number, shifted by half the range: with two or more equal instances, no entry lies with
    /// its row.
    NonAligned,
}

/// The seven transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    GetSubscriberData,
    GetNewDestination,
    GetAccessData,
    UpdateSubscriberData,
    UpdateLocation,
    InsertCallForwarding,
    DeleteCallForwarding,
}

/// The transactions that are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Mix {
    Full,
    Only(Kind),
    /// The insert bench: inserts a row, or deletes it if it is present.
    Insert,
    /// The delete bench: deletes a row, or inserts it if it is absent.
    Delete,
    /// Half of each.
    InsertDelete,
    Scan,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TatpOptions {
    /// The number of sites.
    pub scale: u32,
    /// Subscribers per site.
    pub subscribers: u32,
    pub mix: Mix,
    pub distribution: Population,
    pub popularity: Popularity,
    /// Replaces `popularity`: subscribers that get more requests than the others.
    pub hot: Option<Hot>,
    pub predicate: Predicate,
    pub index: Index,
    /// Subscribers per range scan.
    pub rows: u32,
}

impl TatpOptions {
    pub fn new(scale: u32) -> TatpOptions {
        TatpOptions {
            scale,
            subscribers: 10_000,
            mix: Mix::Full,
            distribution: Population::Subset,
            popularity: Popularity::NonUniform,
            hot: None,
            predicate: Predicate::Standard,
            index: Index::Aligned,
            rows: 100,
        }
    }

    /// The number of the last subscriber; the first is 1.
    pub fn population(&self) -> u32 {
        self.scale * self.subscribers
    }

    /// The subscribers of a range of sites; also their slots of NUMBER.
    pub(crate) fn subscribers_of(&self, sites: Range<u32>) -> Range<u32> {
        sites.start * self.subscribers + 1..sites.end * self.subscribers + 1
    }

    fn shift(place: u32, by: u32, of: u32) -> u32 {
        ((u64::from(place) - 1 + u64::from(by)) % u64::from(of)) as u32 + 1
    }

    /// The position of a subscriber's number in NUMBER.
    pub(crate) fn slot_of(&self, subscriber: u32) -> u32 {
        let n = self.population();
        Self::shift(subscriber, n / 2, n)
    }

    /// The subscriber of a slot; the inverse of `slot_of`.
    pub(crate) fn subscriber_in(&self, slot: u32) -> u32 {
        let n = self.population();
        Self::shift(slot, n - n / 2, n)
    }
}

/// The inputs of one transaction. A `number` is a SUB_NBR as the value of its digits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TatpRequest {
    GetSubscriberData { s: u32 },
    GetNewDestination(Destination),
    GetAccessData { s: u32, ai_type: u32 },
    UpdateSubscriberData(UpdateSubscriber),
    UpdateLocation { number: u32, location: u32 },
    InsertCallForwarding { number: u32, sf_type: u32, start: u32, end: u32, numberx: u32 },
    DeleteCallForwarding { number: u32, sf_type: u32, start: u32 },
    Toggle(Flip),
    Scan(ScanRequest),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TatpReply {
    Subscriber(Box<Subscriber>),
    /// NUMBERX of each call forwarding that applies; at least one.
    Destinations(SmallVec<[Digits; 3]>),
    Access(AccessData),
    Done,
    Toggled(Flipped),
    Scanned(Scanned),
}

#[derive(Clone, Debug)]
pub struct Tatp {
    options: TatpOptions,
}

fn route(s: u32) -> Route {
    Route { table: SUBSCRIBER, key: u64::from(s) }
}

/// Unwraps a row that the schema guarantees.
fn found<R>(row: Option<R>) -> Result<R, Abort> {
    row.ok_or(Abort::BadRequest)
}

impl Tatp {
    /// # Errors
    /// An option out of its range, named with the expected range.
    pub fn new(options: TatpOptions) -> Result<Tatp, SpecError> {
        in_range("scale", options.scale, 1..=65_536)?;
        in_range("subscribers", options.subscribers, 1..=(2_000_000_000 / options.scale).min(10_000_000))?;
        in_range("rows", options.rows, 1..=10_000)?;
        Ok(Tatp { options })
    }

    pub fn options(&self) -> &TatpOptions {
        &self.options
    }

    /// Checks that a request names an existing subscriber.
    fn place(&self, s: u32) -> Result<u32, Abort> {
        if (1..=self.options.population()).contains(&s) { Ok(s) } else { Err(Abort::BadRequest) }
    }

    /// The subscriber of a number; a step of its own if the index is not aligned.
    async fn look_up<T: Transaction>(&self, number: u32, txn: &mut T) -> Result<u32, Abort> {
        self.place(number)?;
        match self.options.index {
            Index::Aligned => Ok(number),
            Index::NonAligned => txn.all(LookUp { slot: self.options.slot_of(number), number }).await,
        }
    }
}

impl Workload for Tatp {
    type Request = TatpRequest;
    type Reply = TatpReply;
    type Generator = TatpGenerator;
    type Audit = TatpAudit;

    fn name(&self) -> String {
        self.options.mix.name().into()
    }

    fn schema(&self) -> Schema {
        rows::schema(&self.options)
    }

    fn sites(&self) -> u32 {
        self.options.scale
    }

    async fn run<T: Transaction>(&self, request: &TatpRequest, txn: &mut T) -> Result<TatpReply, Abort> {
        let index = self.options.index;
        match *request {
            TatpRequest::GetSubscriberData { s } => {
                let row = txn.last(ReadSubscriber(self.place(s)?)).await?;
                Ok(TatpReply::Subscriber(Box::new(row)))
            }
            TatpRequest::GetNewDestination(r) => {
                self.place(r.s)?;
                txn.last(FindDestination(r)).await.map(TatpReply::Destinations)
            }
            TatpRequest::GetAccessData { s, ai_type } => {
                txn.last(ReadAccess { s: self.place(s)?, ai_type }).await.map(TatpReply::Access)
            }
            TatpRequest::UpdateSubscriberData(r) => {
                self.place(r.s)?;
                txn.last(r).await.map(|()| TatpReply::Done)
            }
            TatpRequest::UpdateLocation { number, location } => {
                let s = self.look_up(number, txn).await?;
                txn.last(SetLocation { s, index, location }).await.map(|()| TatpReply::Done)
            }
            TatpRequest::InsertCallForwarding { number, sf_type, start, end, numberx } => {
                let s = self.look_up(number, txn).await?;
                let forwarding = Flip { s, sf_type, start, end, numberx, first: First::Insert };
                txn.last(InsertForwarding { forwarding, index }).await.map(|()| TatpReply::Done)
            }
            TatpRequest::DeleteCallForwarding { number, sf_type, start } => {
                let s = self.look_up(number, txn).await?;
                txn.last(DeleteForwarding { s, sf_type, start, index }).await.map(|()| TatpReply::Done)
            }
            TatpRequest::Toggle(flip) => {
                self.place(flip.s)?;
                txn.last(Toggle(flip)).await.map(TatpReply::Toggled)
            }
            TatpRequest::Scan(r) => scan::run(self, r, txn).await.map(TatpReply::Scanned),
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; ReadSubscriber, FindDestination, ReadAccess, UpdateSubscriber, SetLocation, InsertForwarding, DeleteForwarding, Toggle, LookUp, ScanNumbers, ListNumbers, FetchSubscribers)
    }

    fn routes(&self, request: &TatpRequest, visit: &mut dyn FnMut(Route)) {
        match *request {
            TatpRequest::GetSubscriberData { s }
            | TatpRequest::GetAccessData { s, .. }
            | TatpRequest::GetNewDestination(Destination { s, .. })
            | TatpRequest::UpdateSubscriberData(UpdateSubscriber { s, .. })
            | TatpRequest::Toggle(Flip { s, .. }) => visit(route(s)),
            TatpRequest::UpdateLocation { number, .. }
            | TatpRequest::InsertCallForwarding { number, .. }
            | TatpRequest::DeleteCallForwarding { number, .. } => {
                visit(route(number));
                if self.options.index == Index::NonAligned && self.place(number).is_ok() {
                    visit(updates::number_route(self.options.slot_of(number)));
                }
            }
            TatpRequest::Scan(r) => scan::routes(self, r, visit),
        }
    }

    #[inline]
    fn wants(&self, request: &TatpRequest, visit: &mut impl FnMut(TableId, &[u8])) {
        match *request {
            TatpRequest::GetSubscriberData { s } => visit(SUBSCRIBER, &rows::key([s])),
            TatpRequest::GetAccessData { s, ai_type } => visit(ACCESS_INFO, &rows::key([s, ai_type])),
            TatpRequest::GetNewDestination(Destination { s, sf_type, .. }) => {
                visit(SPECIAL_FACILITY, &rows::key([s, sf_type]));
            }
            TatpRequest::UpdateSubscriberData(UpdateSubscriber { s, sf_type, .. }) => {
                visit(SPECIAL_FACILITY, &rows::key([s, sf_type]));
                visit(SUBSCRIBER, &rows::key([s]));
            }
            // Requests by number, and requests for rows that may be absent.
            _ => {}
        }
    }

    fn only_reads(&self, request: &TatpRequest) -> bool {
        use TatpRequest::{GetAccessData, GetNewDestination, GetSubscriberData, Scan};
        matches!(request, GetSubscriberData { .. } | GetNewDestination(_) | GetAccessData { .. } | Scan(_))
    }

    fn kind(&self, request: &TatpRequest) -> &'static str {
        match request {
            TatpRequest::GetSubscriberData { .. } => Kind::GetSubscriberData.name(),
            TatpRequest::GetNewDestination(_) => Kind::GetNewDestination.name(),
            TatpRequest::GetAccessData { .. } => Kind::GetAccessData.name(),
            TatpRequest::UpdateSubscriberData(_) => Kind::UpdateSubscriberData.name(),
            TatpRequest::UpdateLocation { .. } => Kind::UpdateLocation.name(),
            TatpRequest::InsertCallForwarding { .. } => Kind::InsertCallForwarding.name(),
            TatpRequest::DeleteCallForwarding { .. } => Kind::DeleteCallForwarding.name(),
            TatpRequest::Toggle(Flip { first: First::Insert, .. }) => "insert_or_delete",
            TatpRequest::Toggle(Flip { first: First::Delete, .. }) => "delete_or_insert",
            TatpRequest::Scan(_) => "scan",
        }
    }

    fn clients(&self) -> Clients {
        match self.options.popularity {
            Popularity::Uniform if self.options.hot.is_none() => Clients::Bound,
            _ => Clients::Routed,
        }
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> TatpGenerator {
        TatpGenerator::new(self.options.clone(), seed, sites)
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        population::parts(&self.options)
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        population::load(&self.options, site.0, part, access).await
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<TatpAudit, Abort> {
        check::audit(&self.options, sites, access).await
    }

    fn judge(&self, audits: Vec<TatpAudit>, committed: Option<u64>) -> Verdict {
        check::judge(&self.options, &audits, committed)
    }
}
