//! The islands microbenchmark: transactions that read or update N rows of one table, some of them
//! over the whole table.
//!
//! ```text
//! ids   0 ............ | ............ | ............ R   S equal sites; an instance owns a run
//! local       x x  x x                                   N rows uniform inside the home site
//! multisite      x         x        x x                  one row in the home site, N - 1 anywhere
//! ```
//!
//! The rows of a transaction are grouped by *site*, never by instance: one step for each site, all
//! in one phase, so that the work is the same for every distribution of sites over instances. Steps
//! go in site order, and rows in key order within each step, so two transactions of one instance
//! never wait for each other in a circle. From Porobic, Pandis, Branco, Tözün and Ailamaki, "OLTP
//! on Hardware Islands" (VLDB 2012) and its follow-up of 2016.

mod benchmark;
mod check;
mod generator;
mod phase;
mod steps;

pub use check::MicroAudit;
pub use generator::MicroGenerator;
pub use steps::{ReadRows, UpdateRows};

use phase::RowsBySite;

use crate::hot::Hot;
use crate::random::Zipf;
use crate::spec::{SpecError, in_range};
use base::{Key, SiteId, TableId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use txn::schema::{Column, Schema, TableDef, Type};
use txn::step::{Route, StepId, Transaction};
use txn::workload::{Clients, Verdict};
use txn::{Abort, Access, Inserted, RowBuf, Workload};

/// The only table.
pub const MICRO: TableId = TableId(1);
pub(crate) const ID: u16 = 0;
pub(crate) const COUNTER: u16 = 1;
pub(crate) const PAYLOAD: u16 = 2;
/// With id, counter, a slot and an index entry, a row takes about 255 bytes: 240,000 rows make the
/// papers' 60 MB.
pub const PAYLOAD_BYTES: usize = 216;

/// The default number of rows per site, as in the papers.
pub const ROWS_PER_SITE: u64 = 10_000;
/// Rows per loading transaction.
const ROWS_PER_PART: u64 = 1_000;

/// The rows of a request or a step, ascending. Up to 16 rows need no allocation.
pub type Ids = SmallVec<[u64; 16]>;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Read,
    Update,
    /// Updates the row that determines the home site and reads the others, which lie in other sites
    /// if the transaction is multisite.
    Mixed,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MicroOptions {
    /// Logical sites, normally one per core.
    pub sites: u32,
    /// Rows of the table.
    pub dataset: u64,
    /// Rows per transaction.
    pub rows: u32,
    pub op: Op,
    /// Multisite transactions, in per cent.
    pub multisite: f64,
    /// Exponent of the Zipf distribution over the rows, row 0 being the most popular; 0 is uniform.
    pub skew: f64,
    /// Rows that get more requests than the others, which are equally popular; excludes a skew.
    pub hot: Option<Hot>,
}

impl MicroOptions {
    /// The papers' most common setting: 10,000 rows per site, 10 rows read per transaction, all
    /// local, no skew.
    pub fn new(sites: u32) -> MicroOptions {
        MicroOptions {
            sites,
            dataset: u64::from(sites) * ROWS_PER_SITE,
            rows: 10,
            op: Op::Read,
            multisite: 0.0,
            skew: 0.0,
            hot: None,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MicroRequest {
    pub op: Op,
    /// The row that determines the home site; one of `ids`.
    pub home: u64,
    /// Ascending. Reads may name a row twice, updates do not.
    pub ids: Ids,
}

#[derive(Clone, Debug)]
pub struct Micro {
    options: MicroOptions,
    zipf: Zipf,
    /// The first row of each site, and the end of the last site; a table, because a division for
    /// each look-up is too expensive.
    edges: Arc<[u64]>,
}

impl Micro {
    /// # Errors
    /// An option out of its range, named with the expected range.
    pub fn new(options: MicroOptions) -> Result<Micro, SpecError> {
        let o = &options;
        in_range("scale", o.sites, 1..=65_536)?;
        in_range("dataset", o.dataset, u64::from(o.sites)..=1 << 40)?;
        in_range("multisite", o.multisite, 0.0..=100.0)?;
        in_range("skew", o.skew, 0.0..=10.0)?;
        if let Some(hot) = o.hot.filter(|_| o.skew > 0.0) {
            let expected = format!("one of both, but --skew {} is given too", o.skew);
            return Err(SpecError::Value { option: "hot".into(), value: hot.to_string(), expected });
        }
        let most = match o.op {
            Op::Read => 10_000,
            // The rows of an updating transaction are distinct, and a local one takes all of them
            // from one site, perhaps the smallest.
            Op::Update | Op::Mixed => (o.dataset / u64::from(o.sites)).min(10_000),
        };
        in_range("rows", u64::from(o.rows), 1..=most)?;
        let edge = |site: u32| (u64::from(site) * o.dataset).div_ceil(u64::from(o.sites));
        Ok(Micro { zipf: Zipf::new(o.skew), edges: (0..=o.sites).map(edge).collect(), options })
    }

    pub fn options(&self) -> &MicroOptions {
        &self.options
    }

    /// The rows of a range of sites.
    ///
    /// # Panics
    /// If the range reaches past the last site.
    pub fn rows_of(&self, sites: Range<u32>) -> Range<u64> {
        self.edges[sites.start as usize]..self.edges[sites.end as usize]
    }

    pub fn site_of(&self, id: u64) -> u32 {
        (id * u64::from(self.options.sites) / self.options.dataset) as u32
    }

    /// Whether a request is valid: one from the wire may contain anything; one drawn here passes.
    fn accepts(&self, request: &MicroRequest) -> bool {
        let ids = &request.ids;
        let is_home_there = request.op != Op::Mixed || ids.binary_search(&request.home).is_ok();
        ids.is_sorted() && ids.last().is_some_and(|&id| id < self.options.dataset) && is_home_there
    }

    /// Divides ascending rows at the borders of sites.
    fn by_site<'a>(&self, ids: &'a [u64]) -> impl Iterator<Item = &'a [u64]> {
        let mut rest = ids;
        std::iter::from_fn(move || {
            let site = self.site_of(*rest.first()?);
            let end = self.rows_of(site..site + 1).end;
            let (group, others) = rest.split_at(rest.partition_point(|&id| id < end));
            rest = others;
            Some(group)
        })
    }
}

#[inline]
pub(crate) fn key(id: u64) -> Key {
    Key::new().i64(id as i64)
}

/// The payload of a row: letters that follow from its id, so that a check can detect a misplaced or
/// torn row.
pub(crate) fn payload(id: u64) -> [u8; PAYLOAD_BYTES] {
    let mut out = [0; PAYLOAD_BYTES];
    let mut word = base::hash64(&id.to_le_bytes());
    for chunk in out.chunks_exact_mut(8) {
        word = word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        // Sixteen letters from '@' on; the high half of the word is mixed in because its bits are
        // better distributed.
        let letters = ((word ^ (word >> 32)) & 0x0f0f_0f0f_0f0f_0f0f) | 0x4040_4040_4040_4040;
        chunk.copy_from_slice(&letters.to_le_bytes());
    }
    out
}

fn table(dataset: u64) -> TableDef {
    let columns = vec![
        Column::new("ID", Type::I64),
        Column::new("COUNTER", Type::I64),
        Column::new("PAYLOAD", Type::Char(PAYLOAD_BYTES as u16)),
    ];
    TableDef::new(MICRO, "MICRO", columns, &[ID], dataset)
}

impl Workload for Micro {
    type Request = MicroRequest;
    /// The sum of the counters of all rows; after the update, if the transaction updates.
    type Reply = i64;
    type Generator = MicroGenerator;
    type Audit = MicroAudit;

    fn name(&self) -> String {
        "micro".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: vec![table(self.options.dataset)] }
    }

    fn sites(&self) -> u32 {
        self.options.sites
    }

    async fn run<T: Transaction>(&self, request: &MicroRequest, txn: &mut T) -> Result<i64, Abort> {
        if !self.accepts(request) {
            return Err(Abort::BadRequest);
        }
        match request.op {
            Op::Read => pin!(txn.last(RowsBySite::<ReadRows>::new(self, &request.ids))).await,
            Op::Update => pin!(txn.last(RowsBySite::<UpdateRows>::new(self, &request.ids))).await,
            Op::Mixed => {
                let others: Ids = request.ids.iter().copied().filter(|id| *id != request.home).collect();
                let home = UpdateRows { ids: Ids::from_slice(&[request.home]) };
                let read = RowsBySite::<ReadRows>::new(self, &others);
                let (read, updated) = pin!(txn.last((read, home))).await?;
                Ok(updated.wrapping_add(read))
            }
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; ReadRows, UpdateRows)
    }

    fn routes(&self, request: &MicroRequest, visit: &mut dyn FnMut(Route)) {
        visit(Route { table: MICRO, key: request.home });
        if self.accepts(request) {
            let elsewhere = |group: &&[u64]| !group.contains(&request.home);
            for group in self.by_site(&request.ids).filter(elsewhere) {
                visit(Route { table: MICRO, key: group[0] });
            }
        }
    }

    #[inline]
    fn wants(&self, request: &MicroRequest, visit: &mut impl FnMut(TableId, &[u8])) {
        request.ids.iter().for_each(|&id| visit(MICRO, &key(id)));
    }

    fn only_reads(&self, request: &MicroRequest) -> bool {
        request.op == Op::Read
    }

    fn kind(&self, request: &MicroRequest) -> &'static str {
        match request.op {
            Op::Read => "read",
            Op::Update => "update",
            Op::Mixed => "mixed",
        }
    }

    fn clients(&self) -> Clients {
        if self.zipf.is_uniform() && self.options.hot.is_none() { Clients::Bound } else { Clients::Routed }
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> MicroGenerator {
        MicroGenerator::new(self.clone(), seed, sites)
    }

    fn load_parts(&self, site: SiteId) -> u32 {
        let rows = self.rows_of(site.0..site.0 + 1);
        (rows.end - rows.start).div_ceil(ROWS_PER_PART) as u32
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        let rows = self.rows_of(site.0..site.0 + 1);
        let first = rows.start + u64::from(part) * ROWS_PER_PART;
        let mut buf = RowBuf::new(&table(self.options.dataset));
        for id in first..rows.end.min(first + ROWS_PER_PART) {
            let mut row = buf.start();
            row.set_int(ID, id as i64);
            row.set_bytes(PAYLOAD, &payload(id));
            if access.insert(MICRO, &key(id), buf.bytes()).await? == Inserted::Exists {
                return Err(Abort::BadRequest);
            }
        }
        Ok(())
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<MicroAudit, Abort> {
        check::audit(self.rows_of(sites.clone()), sites, access).await
    }

    fn judge(&self, audits: Vec<MicroAudit>, committed: Option<u64>) -> Verdict {
        check::judge(&self.options, &audits, committed)
    }
}
