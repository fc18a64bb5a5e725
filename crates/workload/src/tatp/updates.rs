//! The updates of a subscriber, and the look-up of a subscriber by number.

use super::rows::{self, NUMBER, SPECIAL_FACILITY, SUBSCRIBER, SUBSCRIBER_NUMBER, digits, key, number_key};
use super::{Index, NO_FACILITY, found, route};
use serde::{Deserialize, Serialize};
use txn::step::{Effect, Route, Step, StepId};
use txn::{Abort, Access, Direction, Flow, Range};

pub(super) fn number_route(slot: u32) -> Route {
    Route { table: NUMBER, key: u64::from(slot) }
}

/// Looks a subscriber up by number in the aligned index. If the index is not aligned, [`LookUp`]
/// has done so before.
pub(super) async fn probe<A: Access>(access: &mut A, s: u32, index: Index) -> Result<(), Abort> {
    if index == Index::NonAligned {
        return Ok(());
    }
    let prefix = number_key(s, s);
    let (end, mut at) = (prefix.prefix_end(), None);
    let range = Range { low: Some(&prefix), high: end.as_deref() };
    access
        .scan(SUBSCRIBER_NUMBER, range, Direction::Forward, |_, row| {
            at = Some(row.int(rows::subscriber::S_ID));
            Flow::Enough
        })
        .await?;
    if at == Some(s.into()) { Ok(()) } else { Err(Abort::BadRequest) }
}

/// Looks a number up in the index that is not aligned; returns its subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LookUp {
    pub slot: u32,
    pub number: u32,
}

impl Step for LookUp {
    const ID: StepId = 9;
    const EFFECT: Effect = Effect::Reads;
    type Output = u32;

    fn route(&self) -> Route {
        number_route(self.slot)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<u32, Abort> {
        let key = key([self.slot]).bytes(&digits(self.number.into()));
        found(access.read(NUMBER, &key, |row| row.int(rows::number::S_ID) as u32).await?)
    }
}

/// UpdateSubscriberData. The facility is updated first: only that can fail, and then nothing must
/// be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UpdateSubscriber {
    pub s: u32,
    pub sf_type: u32,
    pub bit: u8,
    pub data_a: u8,
}

impl Step for UpdateSubscriber {
    const ID: StepId = 4;
    type Output = ();

    fn route(&self) -> Route {
        route(self.s)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        let (facility, data_a) = (key([self.s, self.sf_type]), i64::from(self.data_a));
        let set = |row: &mut txn::RowMut<'_>| row.set_int(rows::special_facility::DATA_A, data_a);
        access.update(SPECIAL_FACILITY, &facility, set).await?.ok_or(Abort::User(NO_FACILITY))?;
        let bit = i64::from(self.bit & 1);
        let set = |row: &mut txn::RowMut<'_>| row.set_int(rows::subscriber::BIT_1, bit);
        found(access.update(SUBSCRIBER, &key([self.s]), set).await?)
    }
}

/// UpdateLocation. The row is updated before the index is probed: if the probe came first and took
/// a shared lock, two of these transactions on one subscriber would deadlock on the upgrade.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SetLocation {
    pub s: u32,
    pub index: Index,
    pub location: u32,
}

impl Step for SetLocation {
    const ID: StepId = 5;
    type Output = ();

    fn route(&self) -> Route {
        route(self.s)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        let location = i64::from(self.location);
        let set = |row: &mut txn::RowMut<'_>| row.set_int(rows::subscriber::VLR_LOCATION, location);
        found(access.update(SUBSCRIBER, &key([self.s]), set).await?)?;
        probe(access, self.s, self.index).await
    }
}
