//! The two steps: what a phase does to the rows of one site.

use super::{CHECK, COUNTER, FILLER, ID, MOST_FILLER, columns, key};
use crate::recording::Op;
use base::{Key, TableId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::pin::pin;
use txn::schema::TableDef;
use txn::step::{Effect, Route, Step, StepId};
use txn::{Abort, Access, Direction, Flow, Range, RowBuf};

/// One access, or a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Act {
    pub table: u16,
    pub op: Op,
    pub id: u64,
    pub count: u32,
}

pub(super) type Acts = SmallVec<[Act; 8]>;

/// Only reads; returns the number of rows that were there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Look {
    /// Table and key.
    pub route: (u16, u64),
    pub acts: Acts,
}

/// As [`Look`], with writes among its accesses.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    pub route: (u16, u64),
    pub acts: Acts,
    /// Bytes of filler of a row, for each access.
    pub filler: SmallVec<[u16; 8]>,
}

/// The value that a row has beside its counter: a torn row shows.
pub(super) fn check(id: u64, counter: i64) -> i64 {
    base::hash64(&(id ^ (counter as u64).rotate_left(40)).to_le_bytes()) as i64
}

static FILL: [u8; MOST_FILLER as usize] = [b'r'; MOST_FILLER as usize];

/// Puts a row as it is loaded into the buffer.
pub(super) fn fresh(buf: &mut RowBuf, id: u64, filler: u16) {
    let mut row = buf.start();
    row.set_int(ID, id as i64);
    row.set_int(CHECK, check(id, 0));
    row.set_bytes(FILLER, &FILL[..usize::from(filler)]);
}

/// Point reads of one table that follow each other, to be fetched together.
fn ahead<A: Access>(acts: &[Act], access: &mut A) {
    let first = acts.first().map_or(0, |act| act.table);
    let alike = acts.iter().take_while(|act| act.table == first && matches!(act.op, Op::Read | Op::Update));
    let keys: SmallVec<[Key; 16]> = alike.take(16).map(|act| key(act.id)).collect();
    if keys.len() > 1 {
        access.prefetch(TableId(first), &keys);
    }
}

async fn read<A: Access>(act: Act, access: &mut A) -> Result<u64, Abort> {
    let (table, mut found) = (TableId(act.table), 0);
    if act.op == Op::Read {
        return Ok(u64::from(access.read(table, &key(act.id), |row| row.int(COUNTER)).await?.is_some()));
    }
    let (low, high) = (key(act.id), key(act.id + u64::from(act.count)));
    access.expect(act.count as usize);
    let visit = |_: &[u8], _: txn::Row<'_>| {
        found += 1;
        if found < u64::from(act.count) { Flow::More } else { Flow::Enough }
    };
    access.scan(table, Range::new(&low, &high), Direction::Forward, visit).await?;
    Ok(found)
}

impl Change {
    async fn write<A: Access>(&self, at: usize, access: &mut A) -> Result<u64, Abort> {
        let Act { table, op, id, .. } = self.acts[at];
        let table = TableId(table);
        if op == Op::Update {
            let more = |row: &mut txn::RowMut<'_>| {
                let counter = row.int(COUNTER).wrapping_add(1);
                row.set_int(COUNTER, counter);
                row.set_int(CHECK, check(id, counter));
            };
            return Ok(u64::from(access.update(table, &key(id), more).await?.is_some()));
        }
        if op == Op::Delete && access.delete(table, &key(id)).await? {
            return Ok(1);
        }
        let fits = |filler: &u16| (1..=MOST_FILLER).contains(&u32::from(*filler));
        let filler = self.filler.get(at).copied().filter(fits).ok_or(Abort::BadRequest)?;
        let mut buf = RowBuf::new(&TableDef::new(table, "", columns(filler), &[ID], 0));
        fresh(&mut buf, id, filler);
        access.insert(table, &key(id), buf.bytes()).await.map(|_| 0)
    }
}

impl Step for Look {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Reads;
    type Output = u64;

    fn route(&self) -> Route {
        Route { table: TableId(self.route.0), key: self.route.1 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<u64, Abort> {
        let mut rows = 0;
        for (at, act) in self.acts.iter().enumerate() {
            if at % 16 == 0 {
                ahead(&self.acts[at..], access);
            }
            rows += pin!(read(*act, access)).await?;
        }
        Ok(rows)
    }
}

impl Step for Change {
    const ID: StepId = 2;
    type Output = u64;

    fn route(&self) -> Route {
        Route { table: TableId(self.route.0), key: self.route.1 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<u64, Abort> {
        let mut rows = 0;
        for (at, act) in self.acts.iter().enumerate() {
            if at % 16 == 0 {
                ahead(&self.acts[at..], access);
            }
            rows += match act.op.writes() {
                true => pin!(self.write(at, access)).await?,
                false => pin!(read(*act, access)).await?,
            };
        }
        Ok(rows)
    }
}
