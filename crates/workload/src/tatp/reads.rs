//! The read-only transactions, one step each.

use super::rows::{self, ACCESS_INFO, CALL_FORWARDING, Digits, SPECIAL_FACILITY, SUBSCRIBER, TENS, key};
use super::{MOST_FORWARDINGS, NO_ACCESS_INFO, NO_DESTINATION, Predicate, found, route};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use txn::step::{Effect, Route, Step, StepId};
use txn::{Abort, Access, Direction, Flow, Range, Row};

/// A row of SUBSCRIBER.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Subscriber {
    pub number: Digits,
    pub bits: [u8; 10],
    pub hexes: [u8; 10],
    pub bytes: [u8; 10],
    pub msc_location: u32,
    pub vlr_location: u32,
}

impl Subscriber {
    pub(super) fn of(row: &Row<'_>) -> Subscriber {
        use rows::subscriber::*;
        let [bits, hexes, bytes] =
            TENS.map(|(first, _)| std::array::from_fn(|i| row.int(first + i as u16) as u8));
        let mut number = [0; 15];
        number.copy_from_slice(row.bytes(SUB_NBR));
        let [msc_location, vlr_location] = [MSC_LOCATION, VLR_LOCATION].map(|c| row.int(c) as u32);
        Subscriber { number, bits, hexes, bytes, msc_location, vlr_location }
    }
}

/// GetSubscriberData.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadSubscriber(pub u32);

impl Step for ReadSubscriber {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Reads;
    type Output = Subscriber;

    fn route(&self) -> Route {
        route(self.0)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Subscriber, Abort> {
        found(access.read(SUBSCRIBER, &key([self.0]), |row| Subscriber::of(&row)).await?)
    }
}

/// The subscriber, facility and time of a query, and the form of the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Destination {
    pub s: u32,
    pub sf_type: u32,
    pub start: u32,
    pub end: u32,
    pub predicate: Predicate,
}

/// GetNewDestination: the current destinations of calls, if the facility is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FindDestination(pub Destination);

impl Step for FindDestination {
    const ID: StepId = 2;
    const EFFECT: Effect = Effect::Reads;
    type Output = SmallVec<[Digits; 3]>;

    fn route(&self) -> Route {
        route(self.0.s)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Self::Output, Abort> {
        use rows::call_forwarding::*;
        let Destination { s, sf_type, start, end, predicate } = self.0;
        let is_active = |row: Row<'_>| row.int(rows::special_facility::IS_ACTIVE) == 1;
        if access.read(SPECIAL_FACILITY, &key([s, sf_type]), is_active).await? != Some(true) {
            return Err(Abort::User(NO_DESTINATION));
        }
        // The condition on START_TIME, as a range of keys.
        let (low, high) = match predicate {
            Predicate::Standard => (key([s, sf_type]), key([s, sf_type, start.saturating_add(1)])),
            Predicate::Reversed => (key([s, sf_type, start]), key([s, sf_type.saturating_add(1)])),
        };
        let mut numbers = SmallVec::new();
        access.expect(MOST_FORWARDINGS);
        access
            .scan(CALL_FORWARDING, Range::new(&low, &high), Direction::Forward, |_, row| {
                if i64::from(end) < row.int(END_TIME) {
                    let mut number = [0; 15];
                    number.copy_from_slice(row.bytes(NUMBERX));
                    numbers.push(number);
                }
                Flow::More
            })
            .await?;
        if numbers.is_empty() { Err(Abort::User(NO_DESTINATION)) } else { Ok(numbers) }
    }
}

/// DATA1 to DATA4.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AccessData {
    pub data1: u8,
    pub data2: u8,
    pub data3: [u8; 3],
    pub data4: [u8; 5],
}

/// GetAccessData.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReadAccess {
    pub s: u32,
    pub ai_type: u32,
}

impl Step for ReadAccess {
    const ID: StepId = 3;
    const EFFECT: Effect = Effect::Reads;
    type Output = AccessData;

    fn route(&self) -> Route {
        route(self.s)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<AccessData, Abort> {
        use rows::access_info::*;
        let data = |row: Row<'_>| {
            let (mut data3, mut data4) = ([0; 3], [0; 5]);
            data3.copy_from_slice(row.bytes(DATA3));
            data4.copy_from_slice(row.bytes(DATA4));
            AccessData { data1: row.int(DATA1) as u8, data2: row.int(DATA2) as u8, data3, data4 }
        };
        let data = access.read(ACCESS_INFO, &key([self.s, self.ai_type]), data).await?;
        data.ok_or(Abort::User(NO_ACCESS_INFO))
    }
}
