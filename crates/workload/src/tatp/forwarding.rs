//! Transactions that insert and delete rows of CALL_FORWARDING: InsertCallForwarding,
//! DeleteCallForwarding, and the thesis' insert and delete benches.

use super::population::fill_forwarding;
use super::rows::{self, CALL_FORWARDING, SPECIAL_FACILITY, digits, key};
use super::updates::probe;
use super::{FORWARDED_ALREADY, Index, MOST_FACILITIES, NO_PARENT, NOT_FORWARDED, route};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use txn::step::{Route, Step, StepId};
use txn::{Abort, Access, Direction, Flow, Inserted, Range, RowBuf};

/// The first attempt of a bench.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum First {
    Insert,
    Delete,
}

/// A row of CALL_FORWARDING to insert or delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Flip {
    pub s: u32,
    pub sf_type: u32,
    pub start: u32,
    pub end: u32,
    pub numberx: u32,
    pub first: First,
}

/// The outcome of a bench request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Flipped {
    Inserted,
    Deleted,
}

thread_local! {
    /// The buffer of a row, taken out while in use.
    static ROW: Cell<Option<RowBuf>> = const { Cell::new(None) };
}

impl Flip {
    fn key(&self) -> base::Key {
        key([self.s, self.sf_type, self.start])
    }

    /// # Errors
    /// [`Abort::BadRequest`] for values that no generator draws.
    fn check(&self) -> Result<(), Abort> {
        let fits = (1..=4).contains(&self.sf_type)
            && [0, 8, 16].contains(&self.start)
            && (1..=24).contains(&self.end);
        if fits { Ok(()) } else { Err(Abort::BadRequest) }
    }

    async fn insert<A: Access>(&self, access: &mut A) -> Result<Inserted, Abort> {
        let mut buf = ROW.take().unwrap_or_else(|| RowBuf::new(&rows::forwarding_table()));
        let id = (self.s, self.sf_type, self.start);
        fill_forwarding(&mut buf.start(), id, self.end, &digits(self.numberx.into()));
        let inserted = access.insert(CALL_FORWARDING, &self.key(), buf.bytes()).await;
        ROW.set(Some(buf));
        inserted
    }
}

/// InsertCallForwarding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InsertForwarding {
    pub forwarding: Flip,
    pub index: Index,
}

impl Step for InsertForwarding {
    const ID: StepId = 6;
    type Output = ();

    fn route(&self) -> Route {
        route(self.forwarding.s)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        let new = &self.forwarding;
        new.check()?;
        probe(access, new.s, self.index).await?;
        let (low, high, mut parent) = (key([new.s]), key([new.s.saturating_add(1)]), None);
        access.expect(MOST_FACILITIES);
        access
            .scan(SPECIAL_FACILITY, Range::new(&low, &high), Direction::Forward, |_, row| {
                let sf_type = row.int(rows::special_facility::SF_TYPE);
                parent = parent.or((sf_type == i64::from(new.sf_type)).then_some(sf_type));
                Flow::More
            })
            .await?;
        parent.ok_or(Abort::User(NO_PARENT))?;
        match new.insert(access).await? {
            Inserted::Done => Ok(()),
            Inserted::Exists => Err(Abort::User(FORWARDED_ALREADY)),
        }
    }
}

/// DeleteCallForwarding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeleteForwarding {
    pub s: u32,
    pub sf_type: u32,
    pub start: u32,
    pub index: Index,
}

impl Step for DeleteForwarding {
    const ID: StepId = 7;
    type Output = ();

    fn route(&self) -> Route {
        route(self.s)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        probe(access, self.s, self.index).await?;
        let there = access.delete(CALL_FORWARDING, &key([self.s, self.sf_type, self.start])).await?;
        if there { Ok(()) } else { Err(Abort::User(NOT_FORWARDED)) }
    }
}

/// The insert and the delete bench: inserts a row that is absent, or deletes one that is present.
/// The first attempt also finds out which: it changes nothing if the row is not in the expected
/// state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Toggle(pub Flip);

impl Step for Toggle {
    const ID: StepId = 8;
    type Output = Flipped;

    fn route(&self) -> Route {
        route(self.0.s)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Flipped, Abort> {
        let row = &self.0;
        row.check()?;
        let (there, gone) = (Ok(Flipped::Inserted), Ok(Flipped::Deleted));
        match row.first {
            First::Insert if row.insert(access).await? == Inserted::Done => there,
            First::Insert if access.delete(CALL_FORWARDING, &row.key()).await? => gone,
            First::Delete if access.delete(CALL_FORWARDING, &row.key()).await? => gone,
            First::Delete if row.insert(access).await? == Inserted::Done => there,
            _ => Err(Abort::BadRequest),
        }
    }
}
