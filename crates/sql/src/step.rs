//! The steps into which programs run. Each works on one slot of one physical table, and of an
//! index's table where the entry and its row have one slot.
//!
//! A step gives an error of SQL as a value: it has then changed nothing, and the transaction can go
//! on. Rows are returned as they are stored; the home decodes the columns that it needs.

use crate::bound::Bound;
use crate::catalog::Store;
use crate::group::{Group, Groups};
use crate::place::{self, Placed};
use crate::program::{Assignment, Checked, Grouping, Order, RowLock, Stored};
use crate::row::{Columns, Pair, Part, Row};
use crate::{Datum, Expr, SqlError, SqlState};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::pin::pin;
use std::sync::Arc;
use txn::{Abort, Access, Direction, Effect, Flow, Inserted, Range, Route, Spread, Step, StepId};

/// The row before the table's columns, for conditions that name the sources before it in a join.
pub type Outer = Arc<Vec<Datum>>;

/// A condition on rows, with what it needs to be evaluated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Test {
    pub condition: Arc<Expr>,
    pub outer: Outer,
}

impl Test {
    pub(crate) fn passes(&self, bound: &Bound, row: &dyn Columns) -> Result<bool, SqlError> {
        let joined = Pair { first: &*self.outer, second: row, split: self.outer.len() as u16 };
        Ok(self.condition.eval(&bound.context(), &joined)? == Datum::Bool(true))
    }
}

/// Reads rows of one slot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Fetch {
    #[serde(with = "crate::kept")]
    pub table: Arc<Stored>,
    pub bound: Arc<Bound>,
    pub test: Option<Test>,
    pub slot: u32,
    pub what: Wanted,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Wanted {
    /// Rows by their encoded keys.
    Keys(Vec<Vec<u8>>),
    /// A range of the table's physical keys, or of the index's.
    Range {
        index: Option<Store>,
        /// Physical keys: the first, and the first after the last.
        low: Vec<u8>,
        high: Vec<u8>,
        order: Order,
        /// The most rows that pass the test.
        limit: Option<u64>,
    },
    /// All rows of the table, in no order ([`FetchAll`]).
    All { limit: Option<u64> },
}

/// A row that was found, or an index entry of which the row has another slot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hit {
    /// The encoded key by which it was found, if that was an index's. Hits are sorted by it.
    pub entry: Vec<u8>,
    pub slot: u32,
    /// The row's encoded key.
    pub key: Vec<u8>,
    /// `None` if the row has another slot than the step.
    pub row: Option<Vec<u8>>,
}

impl Hit {
    /// The bytes that give the order of hits.
    pub fn order(&self) -> &[u8] {
        if self.entry.is_empty() { &self.key } else { &self.entry }
    }
}

pub type Hits = Result<Vec<Hit>, SqlError>;

/// As [`Fetch`], for rows that the transaction will change, has to lock, or looks at before that.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FetchForUpdate(pub Fetch, pub RowLock);

impl Step for Fetch {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Reads;
    type Output = Hits;

    fn route(&self) -> Route {
        place::route(self.table.store, self.slot)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Hits, Abort> {
        pin!(self.fetch(access, RowLock::None)).await
    }
}

impl Step for FetchForUpdate {
    const ID: StepId = 2;
    type Output = Hits;

    fn route(&self) -> Route {
        self.0.route()
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Hits, Abort> {
        pin!(self.0.fetch(access, self.1)).await
    }
}

/// Entries of an index that are read at once when rows may fail a test.
const BATCH: usize = 64;

/// As [`Fetch`], over all slots.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FetchAll {
    pub fetch: Fetch,
    pub sites: u32,
    pub lock: RowLock,
}

impl Step for FetchAll {
    const ID: StepId = 5;
    const EFFECT: Effect = Effect::Reads;
    type Output = Hits;

    fn route(&self) -> Route {
        Step::route(&self.fetch)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Hits, Abort> {
        self.fetch.fetch(access, self.lock).await
    }
}

impl Spread for FetchAll {
    fn keys(&self) -> std::ops::Range<u64> {
        0..self.sites.into()
    }

    fn join(&self, so_far: &mut Hits, next: Hits) {
        match (so_far.as_mut(), next) {
            (Ok(hits), Ok(next)) => hits.extend(next),
            (Ok(_), Err(error)) => *so_far = Err(error),
            (Err(_), _) => {}
        }
    }
}

/// The groups of all rows of a table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Gather {
    /// The rows: all of a table.
    pub fetch: Fetch,
    pub grouping: Arc<Grouping>,
    pub sites: u32,
}

impl Step for Gather {
    const ID: StepId = 6;
    const EFFECT: Effect = Effect::Reads;
    type Output = Result<Vec<Group>, SqlError>;

    fn route(&self) -> Route {
        Step::route(&self.fetch)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Self::Output, Abort> {
        let (fetch, bound) = (&self.fetch, &self.fetch.bound);
        let mut groups = Groups::new(&self.grouping);
        let mut wrong = None;
        let mut add = |row: &[u8]| {
            let row = fetch.table.layout().read(row)?;
            let passes = fetch.test.as_ref().map_or(Ok(true), |test| test.passes(bound, &row))?;
            if passes { groups.add(bound, &row) } else { Ok(()) }
        };
        access
            .scan(place::table_id(fetch.table.store), Range::ALL, Direction::Forward, |_, row| {
                wrong = add(row.bytes(place::ROW)).err();
                if wrong.is_some() { Flow::Enough } else { Flow::More }
            })
            .await?;
        Ok(wrong.map_or_else(|| Ok(groups.into_groups()), Err))
    }
}

impl Spread for Gather {
    fn keys(&self) -> std::ops::Range<u64> {
        0..self.sites.into()
    }

    fn join(&self, so_far: &mut Self::Output, next: Self::Output) {
        let merged = std::mem::replace(so_far, Ok(Vec::new())).and_then(|groups| {
            let mut all = Groups::new(&self.grouping);
            all.merge(groups)?;
            all.merge(next?)?;
            Ok(all.into_groups())
        });
        *so_far = merged;
    }
}

impl Fetch {
    /// A row of this step's slot.
    fn hit(&self, key: Vec<u8>, row: Vec<u8>) -> Hit {
        Hit { entry: Vec::new(), slot: self.slot, key, row: Some(row) }
    }

    /// Runs the search; where it does not wait for locks, one that another transaction has is an
    /// error of SQL.
    async fn fetch<A: Access>(&self, access: &mut A, lock: RowLock) -> Result<Hits, Abort> {
        if lock != RowLock::NoWait {
            return pin!(self.search(access, lock)).await;
        }
        access.wait_for_locks(false);
        let hits = pin!(self.search(access, RowLock::Update)).await;
        access.wait_for_locks(true);
        let Err(Abort::LockTimeout) = hits else { return hits };
        let message = format!("could not obtain lock on row in relation \"{}\"", self.table.name);
        Ok(Err(SqlError::new(SqlState(*b"55P03"), message)))
    }

    async fn search<A: Access>(&self, access: &mut A, lock: RowLock) -> Result<Hits, Abort> {
        let mut hits = Vec::new();
        match &self.what {
            Wanted::Keys(keys) => {
                for key in keys {
                    match pin!(self.by_key(access, key, lock)).await? {
                        Ok(Some(row)) => hits.push(self.hit(key.clone(), row)),
                        Ok(None) => {}
                        Err(error) => return Ok(Err(error)),
                    }
                }
                Ok(Ok(hits))
            }
            Wanted::Range { index: None, low, high, order, limit } => {
                Box::pin(self.in_order(access, Range::new(low, high), *order, *limit, lock)).await
            }
            Wanted::All { limit } => {
                Box::pin(self.in_order(access, Range::ALL, Order::Forward, *limit, lock)).await
            }
            Wanted::Range { index: Some(index), low, high, order, limit } => {
                Box::pin(self.by_index(access, *index, (low, high), *order, *limit, lock)).await
            }
        }
    }

    /// One row, if it is there and passes the test.
    async fn by_key<A: Access>(
        &self,
        access: &mut A,
        key: &[u8],
        lock: RowLock,
    ) -> Result<Result<Option<Vec<u8>>, SqlError>, Abort> {
        let (table, physical) = (place::table_id(self.table.store), place::physical_key(self.slot, key));
        let read = match lock {
            RowLock::None => {
                pin!(access.read(table, &physical, |row| self.tested(row.bytes(place::ROW)))).await?
            }
            RowLock::Look => pin!(self.look(access, &physical)).await?,
            RowLock::Update | RowLock::NoWait => {
                pin!(access.update(table, &physical, |row| self.tested(row.row().bytes(place::ROW)))).await?
            }
            RowLock::Skip => {
                access.wait_for_locks(false);
                let update = |row: &mut txn::RowMut<'_>| self.tested(row.row().bytes(place::ROW));
                let read = pin!(access.update(table, &physical, update)).await;
                access.wait_for_locks(true);
                match read {
                    Err(Abort::LockTimeout) => None,
                    read => read?,
                }
            }
        };
        Ok(read.unwrap_or(Ok(None)))
    }

    /// A row as it is at the moment.
    async fn look<A: Access>(
        &self,
        access: &mut A,
        physical: &[u8],
    ) -> Result<Option<Result<Option<Vec<u8>>, SqlError>>, Abort> {
        let (table, behind) = (place::table_id(self.table.store), [physical, &[0][..]].concat());
        let mut found = None;
        let visit = |_: &[u8], row: txn::Row<'_>| {
            found = Some(self.tested(row.bytes(place::ROW)));
            Flow::Enough
        };
        access.look(table, Range::new(physical, &behind), Direction::Forward, visit).await?;
        Ok(found)
    }

    /// A copy of the row, if it passes the test.
    fn tested(&self, row: &[u8]) -> Result<Option<Vec<u8>>, SqlError> {
        let passes = match &self.test {
            None => true,
            Some(test) => test.passes(&self.bound, &self.table.layout().read(row)?)?,
        };
        Ok(passes.then(|| row.to_vec()))
    }

    async fn in_order<A: Access>(
        &self,
        access: &mut A,
        range: Range<'_>,
        order: Order,
        limit: Option<u64>,
        lock: RowLock,
    ) -> Result<Hits, Abort> {
        let (mut hits, mut wrong) = (Vec::new(), None);
        let most = limit.unwrap_or(u64::MAX) as usize;
        let visit = |physical: &[u8], row: txn::Row<'_>| {
            match self.tested(row.bytes(place::ROW)) {
                Ok(None) => return Flow::More,
                Ok(Some(row)) => {
                    let (slot, key) = place::slot_and_key(physical).unwrap_or_default();
                    hits.push(Hit { slot, ..self.hit(key, row) });
                }
                Err(error) => wrong = Some(error),
            }
            if wrong.is_some() || hits.len() >= most { Flow::Enough } else { Flow::More }
        };
        if most > 0 {
            let table = place::table_id(self.table.store);
            match lock {
                RowLock::None => access.scan(table, range, direction(order), visit).await?,
                RowLock::Look => access.look(table, range, direction(order), visit).await?,
                _ => access.scan_for_update(table, range, direction(order), visit).await?,
            }
        }
        Ok(wrong.map_or(Ok(hits), Err))
    }

    /// Reads index entries, and the rows of those that have the same slot.
    async fn by_index<A: Access>(
        &self,
        access: &mut A,
        index: Store,
        (low, high): (&[u8], &[u8]),
        order: Order,
        limit: Option<u64>,
        lock: RowLock,
    ) -> Result<Hits, Abort> {
        let mut hits = Vec::new();
        let most = limit.unwrap_or(u64::MAX) as usize;
        let (mut low, mut high) = (low.to_vec(), high.to_vec());
        while hits.len() < most {
            let batch = if self.test.is_some() { BATCH } else { most - hits.len() };
            let mut entries: Vec<(Vec<u8>, Option<Placed>)> = Vec::new();
            let range = Range::new(&low, &high);
            let visit = |physical: &[u8], row: txn::Row<'_>| {
                entries.push((physical.to_vec(), place::place_in_entry(row.bytes(place::ROW))));
                if entries.len() >= batch { Flow::Enough } else { Flow::More }
            };
            let index = place::table_id(index);
            match lock {
                RowLock::Look => access.look(index, range, direction(order), visit).await?,
                _ => access.scan(index, range, direction(order), visit).await?,
            }
            let is_end = entries.len() < batch;
            if let Some((last, _)) = entries.last() {
                match order {
                    Order::Forward => low = [last, &[0][..]].concat(),
                    Order::Backward => high.clone_from(last),
                }
            }
            for (physical, row) in entries {
                let Some(row) = row else { return Ok(Err(corrupt())) };
                if row.slot != self.slot {
                    hits.push(Hit { entry: encoded(&physical), slot: row.slot, key: row.key, row: None });
                    continue;
                }
                match self.by_key(access, &row.key, lock).await? {
                    Ok(Some(bytes)) => {
                        hits.push(Hit { entry: encoded(&physical), ..self.hit(row.key, bytes) })
                    }
                    Ok(None) => {}
                    Err(error) => return Ok(Err(error)),
                }
                if hits.len() >= most {
                    break;
                }
            }
            if is_end {
                break;
            }
        }
        Ok(Ok(hits))
    }
}

fn direction(order: Order) -> Direction {
    match order {
        Order::Forward => Direction::Forward,
        Order::Backward => Direction::Backward,
    }
}

/// The encoded key within a physical one that the engine gave.
fn encoded(physical: &[u8]) -> Vec<u8> {
    place::slot_and_key(physical).unwrap_or_default().1
}

fn corrupt() -> SqlError {
    SqlError::new(SqlState(*b"XX002"), "an index has an entry that leads to no row")
        .with_hint("check the database with `atoll check`")
}

/// Stores one row or index entry, or removes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Put {
    pub store: Store,
    pub slot: u32,
    /// The encoded key.
    pub key: Vec<u8>,
    pub how: Putting,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Putting {
    /// Unless there is one with this key.
    New(Vec<u8>),
    /// Whether there is one or not.
    Replace(Vec<u8>),
    Remove,
}

/// The row that was there before. With [`Putting::New`] it stays.
pub type Before = Option<Vec<u8>>;

impl Step for Put {
    const ID: StepId = 3;
    type Output = Before;

    fn route(&self) -> Route {
        place::route(self.store, self.slot)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Before, Abort> {
        let (table, key) = (place::table_id(self.store), place::physical_key(self.slot, &self.key));
        match &self.how {
            Putting::New(row) => {
                let inserted = pin!(self.insert(access, &key, row)).await?;
                match inserted {
                    Inserted::Done => Ok(None),
                    Inserted::Exists => access.read(table, &key, |row| row.bytes(place::ROW).to_vec()).await,
                }
            }
            Putting::Replace(new) => {
                let before = access
                    .update(table, &key, |row| {
                        let before = row.row().bytes(place::ROW).to_vec();
                        row.set_bytes(place::ROW, new);
                        before
                    })
                    .await?;
                if before.is_none() {
                    pin!(self.insert(access, &key, new)).await?;
                }
                Ok(before)
            }
            Putting::Remove => {
                let before = access.update(table, &key, |row| row.row().bytes(place::ROW).to_vec()).await?;
                if before.is_some() {
                    access.delete(table, &key).await?;
                }
                Ok(before)
            }
        }
    }
}

impl Put {
    async fn insert<A: Access>(&self, access: &mut A, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let bytes = place::physical_row(self.slot, &self.key, row);
        pin!(access.insert(place::table_id(self.store), key, &bytes)).await
    }
}

/// Changes one row in place: reads it, tests it, computes its new columns, checks them, stores it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Change {
    #[serde(with = "crate::kept")]
    pub table: Arc<Stored>,
    pub bound: Arc<Bound>,
    pub test: Option<Test>,
    pub slot: u32,
    pub key: Vec<u8>,
    pub set: Arc<Vec<Assignment>>,
    pub checks: Arc<Vec<Checked>>,
    /// Whether the home needs the row as it was, and as it is.
    pub returns: bool,
}

/// A row before and after a change.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Changed {
    pub before: Vec<u8>,
    pub after: Vec<u8>,
}

impl Step for Change {
    const ID: StepId = 4;
    /// `None` if there is no such row; empty rows unless they are asked for.
    type Output = Result<Option<Changed>, SqlError>;

    fn route(&self) -> Route {
        place::route(self.table.store, self.slot)
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<Self::Output, Abort> {
        let (table, key) = (place::table_id(self.table.store), place::physical_key(self.slot, &self.key));
        let changed = access
            .update(table, &key, |row| {
                let before = row.row().bytes(place::ROW);
                Ok(Some(match self.revised(before)? {
                    Revised::None => return Ok(None),
                    Revised::Parts(parts) => {
                        parts.iter().for_each(|part| row.set_part(place::ROW, part.at, part.bytes()));
                        Changed::default()
                    }
                    Revised::Whole(after) if self.returns => {
                        let before = before.to_vec();
                        row.set_bytes(place::ROW, &after);
                        Changed { before, after }
                    }
                    Revised::Whole(after) => {
                        row.set_bytes(place::ROW, &after);
                        Changed::default()
                    }
                }))
            })
            .await?;
        Ok(changed.unwrap_or(Ok(None)))
    }
}

/// What a [`Change`] makes of a row.
enum Revised {
    /// The old row fails the test.
    None,
    /// Only these bytes of it change.
    Parts(SmallVec<[Part; 2]>),
    Whole(Vec<u8>),
}

impl Change {
    fn revised(&self, before: &[u8]) -> Result<Revised, SqlError> {
        let layout = self.table.layout();
        let row = layout.read(before)?;
        if let Some(test) = &self.test
            && !test.passes(&self.bound, &row)?
        {
            return Ok(Revised::None);
        }
        let cx = self.bound.context();
        let mut new: SmallVec<[Datum; 2]> = SmallVec::new();
        for assignment in &*self.set {
            new.push(assignment.value.eval(&cx, &row)?);
        }
        // Columns that stay met their conditions when the row was stored, and no part is null.
        if self.checks.is_empty()
            && !self.returns
            && let Some(parts) = self.parts(&row, &new)?
        {
            return Ok(Revised::Parts(parts));
        }
        let mut values = layout.decode_all(before)?;
        for (assignment, value) in self.set.iter().zip(new) {
            values[usize::from(assignment.column)] = value;
        }
        self.table.check(&self.checks, &self.bound, &values)?;
        layout.encode(&values).map(Revised::Whole)
    }

    /// The bytes that new values change; `None` if the whole row has to be encoded.
    fn parts(&self, row: &Row<'_>, new: &[Datum]) -> Result<Option<SmallVec<[Part; 2]>>, SqlError> {
        let mut parts = SmallVec::new();
        for (assignment, value) in self.set.iter().zip(new) {
            match row.part(assignment.column, value)? {
                Some(part) => parts.push(part),
                None => return Ok(None),
            }
        }
        Ok(Some(parts))
    }
}
