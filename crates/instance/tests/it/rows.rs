//! A workload of rows with a number each: procedures that read and increment rows at the sites that
//! a request names.

use base::{Key, SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use txn::{
    Abort, Access, Column, Effect, Generator, Route, RowBuf, Schema, Step, StepId, TableDef, Transaction,
    Type, Verdict, Workload,
};

const ROWS: TableId = TableId(1);
/// Rows of a site.
pub const OF_SITE: i64 = 64;

/// The row with this number at a site.
pub fn row(site: u32, number: i64) -> i64 {
    i64::from(site) * OF_SITE + number
}

/// Adds one to a row; returns the new value.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Raise(pub i64);

impl Step for Raise {
    const ID: StepId = 1;
    const EFFECT: Effect = Effect::Writes;
    type Output = i64;

    fn route(&self) -> Route {
        Route { table: ROWS, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let raise = |row: &mut txn::RowMut<'_>| {
            let now = row.int(1) + 1;
            row.set_int(1, now);
            now
        };
        access.update(ROWS, &Key::new().i64(self.0), raise).await?.ok_or(Abort::BadRequest)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct See(pub i64);

impl Step for See {
    const ID: StepId = 2;
    const EFFECT: Effect = Effect::Reads;
    type Output = i64;

    fn route(&self) -> Route {
        Route { table: ROWS, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let read = access.read(ROWS, &Key::new().i64(self.0), |row| row.int(1)).await?;
        read.ok_or(Abort::BadRequest)
    }
}

/// Operations of a procedure on two rows, in one phase unless stated otherwise.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    Raise(i64),
    RaiseBoth(i64, i64),
    /// Reads two rows; the first row, which is not touched, determines the home.
    SeeFrom(i64, (i64, i64)),
}

#[derive(Clone)]
pub struct Rows {
    pub sites: u32,
}

/// Local clients increment rows of their own site.
pub struct Draw(fastrand::Rng, Range<u32>);

impl Generator for Draw {
    type Request = Ask;

    fn next(&mut self) -> Ask {
        Ask::Raise(row(self.0.u32(self.1.clone()), self.0.i64(OF_SITE / 2..OF_SITE)))
    }
}

fn table(sites: u32) -> TableDef {
    let columns = ["id", "value"].map(|name| Column::new(name, Type::I64)).into();
    TableDef::new(ROWS, "rows", columns, &[0], (i64::from(sites) * OF_SITE) as u64)
}

impl Workload for Rows {
    type Request = Ask;
    type Reply = (i64, i64);
    type Generator = Draw;
    type Audit = ();

    fn name(&self) -> String {
        "rows".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: vec![table(self.sites)] }
    }

    fn sites(&self) -> u32 {
        self.sites
    }

    async fn run<T: Transaction>(&self, request: &Ask, txn: &mut T) -> Result<(i64, i64), Abort> {
        match *request {
            Ask::Raise(row) => txn.last(Raise(row)).await.map(|value| (value, 0)),
            Ask::RaiseBoth(a, b) => txn.last((Raise(a), Raise(b))).await,
            Ask::SeeFrom(_, (a, b)) => txn.last((See(a), See(b))).await,
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Raise, See)
    }

    fn routes(&self, request: &Ask, visit: &mut dyn FnMut(Route)) {
        let mut at = |row: i64| visit(Route { table: ROWS, key: row as u64 });
        match *request {
            Ask::Raise(row) => at(row),
            Ask::RaiseBoth(a, b) => [a, b].into_iter().for_each(at),
            Ask::SeeFrom(home, (a, b)) => [home, a, b].into_iter().for_each(at),
        }
    }

    fn kind(&self, _: &Ask) -> &'static str {
        "rows"
    }

    fn clients(&self) -> txn::Clients {
        txn::Clients::Bound
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> Draw {
        Draw(fastrand::Rng::with_seed(seed), sites)
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        1
    }

    async fn load<A: Access>(&self, site: SiteId, _: u32, access: &mut A) -> Result<(), Abort> {
        for number in 0..OF_SITE {
            let mut buf = RowBuf::new(&table(self.sites));
            let mut values = buf.start();
            values.set_int(0, row(site.0, number));
            values.set_int(1, 0);
            access.insert(ROWS, &Key::new().i64(row(site.0, number)), buf.bytes()).await?;
        }
        Ok(())
    }

    async fn audit<A: Access>(&self, _: Range<u32>, _: &mut A) -> Result<(), Abort> {
        Ok(())
    }

    fn judge(&self, _: Vec<()>, _: Option<u64>) -> Verdict {
        Verdict::default()
    }
}
