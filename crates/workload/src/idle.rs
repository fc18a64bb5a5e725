//! A workload without data, for tests of the surroundings of transactions: clients, queues,
//! arrivals, retries.
//!
//! Each site has one row, which no transaction reads, so that there is something to load.

use base::{Key, SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use txn::schema::{Column, TableDef, Type};
use txn::{Abort, Access, Generator, Pauses, Route, RowBuf, Schema, StepId, Transaction, Verdict, Workload};

/// Decides the outcome of each request.
pub trait Answer: Clone + Send + Sync + 'static {
    /// # Errors
    /// The abort of the transaction.
    fn answer(&self, request: &Ask) -> Result<(), Abort>;

    /// The kind under which requests are reported.
    fn kind(&self) -> &'static str {
        "ask"
    }

    fn sites(&self) -> u32 {
        1
    }

    fn pauses(&self) -> Option<Pauses> {
        None
    }
}

/// The workload of requests that `A` answers.
#[derive(Clone, Debug)]
pub struct Idle<A>(pub A);

/// One request.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// For a request from a terminal: its site and its number there.
    pub terminal: Option<(u32, u32)>,
}

#[derive(Debug)]
pub struct Asks;

impl Generator for Asks {
    type Request = Ask;

    fn next(&mut self) -> Ask {
        Ask { terminal: None }
    }

    fn next_at(&mut self, site: u32, number: u32) -> Ask {
        Ask { terminal: Some((site, number)) }
    }
}

const TABLE: TableId = TableId(1);

impl<A: Answer> Workload for Idle<A> {
    type Request = Ask;
    type Reply = ();
    type Generator = Asks;
    type Audit = ();

    fn name(&self) -> String {
        "idle".into()
    }

    fn schema(&self) -> Schema {
        let columns = vec![Column::new("ID", Type::I64)];
        Schema { tables: vec![TableDef::new(TABLE, "NOTHING", columns, &[0], self.sites().into())] }
    }

    fn sites(&self) -> u32 {
        self.0.sites()
    }

    async fn run<T: Transaction>(&self, request: &Ask, _: &mut T) -> Result<(), Abort> {
        self.0.answer(request)
    }

    async fn run_step<S: Access>(
        &self,
        _: StepId,
        _: &[u8],
        _: &mut S,
        _: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        Err(Abort::BadRequest)
    }

    fn routes(&self, _: &Ask, _: &mut dyn FnMut(Route)) {}

    fn kind(&self, _: &Ask) -> &'static str {
        self.0.kind()
    }

    fn pauses(&self, _: &Ask) -> Option<Pauses> {
        self.0.pauses()
    }

    fn generator(&self, _: u64, _: Range<u32>) -> Asks {
        Asks
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        1
    }

    async fn load<S: Access>(&self, site: SiteId, _: u32, access: &mut S) -> Result<(), Abort> {
        let mut row = RowBuf::new(&self.schema().tables[0]);
        row.start().set_int(0, site.0.into());
        access.insert(TABLE, &Key::new().i64(site.0.into()), row.bytes()).await.map(drop)
    }

    async fn audit<S: Access>(&self, _: Range<u32>, _: &mut S) -> Result<(), Abort> {
        Ok(())
    }

    fn judge(&self, _: Vec<()>, _: Option<u64>) -> Verdict {
        Verdict::default()
    }
}
