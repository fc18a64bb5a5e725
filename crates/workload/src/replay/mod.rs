//! The transactions of a recording, carried out again.
//!
//! A [`crate::Recording`] says which rows of which tables and sites each transaction touched, phase
//! by phase. A replay draws transactions of it and does the same to rows of its own: as large, in
//! the same places, and as popular. So a deployment can be measured for a workload that is known by
//! its recording alone.
//!
//! ```text
//!   keys of a table   | site 0: span rows ... room for more | site 1 ... |   span = rows / sites
//!   popular row n     the n-th of span / popular rows apart, in the order of the recorded keys
//!   another row       drawn anew among the span
//!   a phase           one step for each site: reads if it only reads, else changes
//! ```
//!
//! What differs from the recorded run: the code between the accesses, the columns (a row has a
//! number, a counter, a check value and filler), entries of indexes (rows of tables of their own),
//! and rows that come and go: a row to be deleted that is not there is inserted, so that tables
//! keep their size; new rows of a worker come in ascending order behind those that were loaded.

mod benchmark;
mod check;
mod generator;
mod steps;

pub use check::ReplayAudit;
pub use generator::ReplayGenerator;
pub use steps::{Act, Change, Look};

use crate::random::Random;
use crate::recording::{Op, Recorded, Recording};
use crate::spec::SpecError;
use base::{Key, SiteId, TableId};
use generator::Pool;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use steps::Acts;
use txn::schema::{Column, Schema, TableDef, Type};
use txn::step::{Each, Route, StepId, Transaction};
use txn::workload::{Clients, Verdict};
use txn::{Abort, Access, Inserted, RowBuf, Workload};

const ID: u16 = 0;
const COUNTER: u16 = 1;
const CHECK: u16 = 2;
const FILLER: u16 = 3;
/// Numbers for new rows behind the loaded ones of each site.
const ROOM: u64 = 1 << 46;
/// Rows per loading transaction.
const ROWS_PER_PART: u64 = 1_000;
/// Bytes of a row besides its filler.
const OWN_BYTES: u32 = 24;
const MOST_FILLER: u32 = 2_000;

/// A drawn transaction.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplayRequest {
    /// Position in the recording.
    pub number: u32,
    /// The rows that are not popular follow from it.
    pub draw: u64,
    /// The number of the request in its stream, and the stream's: new rows follow from them.
    pub at: u64,
    /// All its sites are this many further.
    pub shift: u32,
    /// All its rows are at home.
    pub is_local: bool,
}

/// Rows that a drawn transaction touches in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Ascending.
    pub phase: usize,
    pub table: usize,
    pub site: u32,
    pub op: Op,
    /// The row in its table; the first one of a scan.
    pub id: u64,
    pub count: u32,
}

#[derive(Clone, Debug)]
pub struct Replay {
    of: Arc<Source>,
    /// Transactions over several sites, in per cent; `None` for as many as were recorded.
    multisite: Option<f64>,
}

/// A recording, prepared.
#[derive(Debug)]
struct Source {
    /// As given, and a digest of the contents.
    name: String,
    recording: Recording,
    kinds: Vec<&'static str>,
    spans: Vec<Span>,
    /// By transaction.
    sites: Vec<SmallVec<[u32; 4]>>,
    local: Pool,
    multi: Pool,
}

/// The keys of a table.
#[derive(Debug)]
struct Span {
    /// Rows of each site, or of each copy.
    rows: u64,
    /// From one popular row to the next, by site.
    strides: Vec<u64>,
    is_replicated: bool,
}

/// Names of kinds live as long as the program, each once.
fn keep(name: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = kept.get(name) {
        return name;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    kept.insert(name);
    name
}

impl Span {
    fn space(&self) -> u64 {
        self.rows + ROOM
    }

    /// The table's first row at a site.
    fn first(&self, site: u32) -> u64 {
        if self.is_replicated { 0 } else { u64::from(site) * self.space() }
    }
}

/// A number that tells recordings apart.
fn digest(recording: &Recording) -> u32 {
    let lines = recording.transactions.iter().map(serde_json::to_vec);
    let header = std::iter::once(serde_json::to_vec(&recording.header));
    let all = header.chain(lines).flatten();
    all.fold(0u64, |sum, line| sum.rotate_left(5) ^ base::hash64(&line)) as u32
}

impl Source {
    fn new(name: String, recording: Recording) -> Source {
        let header = &recording.header;
        let spans = (0..header.tables.len()).map(|table| span(&recording, table)).collect();
        let sites: Vec<SmallVec<[u32; 4]>> =
            recording.transactions.iter().map(|recorded| recording.sites_of(recorded)).collect();
        let pool = |is_multi: bool| {
            let all = recording.transactions.iter().enumerate();
            let of = all.filter(|(at, _)| (sites[*at].len() > 1) == is_multi);
            Pool::new(header.sites, of.map(|(at, recorded)| (at as u32, recorded.1)))
        };
        let (local, multi) = (pool(false), pool(true));
        let kinds = header.kinds.iter().map(|kind| keep(kind)).collect();
        Source { name, kinds, spans, local, multi, sites, recording }
    }
}

fn span(recording: &Recording, table: usize) -> Span {
    let known = &recording.header.tables[table];
    let copies = if known.is_replicated { 1 } else { u64::from(recording.header.sites) };
    let mut popular = vec![0; copies as usize];
    let touches = recording.transactions.iter().flat_map(Recorded::touches);
    for touch in touches.filter(|touch| usize::from(touch.table) == table) {
        let at = if known.is_replicated { 0 } else { touch.site as usize };
        popular[at] = popular[at].max(touch.row.map_or(0, |row| row + 1));
    }
    let most = popular.iter().copied().max().unwrap_or(0);
    let rows = known.rows.div_ceil(copies).max(most).max(1);
    let strides = popular.into_iter().map(|popular| rows / popular.max(1)).collect();
    Span { rows, strides, is_replicated: known.is_replicated }
}

impl Replay {
    /// # Errors
    /// A file that is no recording; a share of transactions over several sites where none was
    /// recorded.
    pub fn open(path: &str, multisite: Option<f64>) -> Result<Replay, SpecError> {
        let wrong = |why: String| SpecError::Recording(why);
        let recording = Recording::read(Path::new(path)).map_err(|why| wrong(why.to_string()))?;
        let file = Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
        Replay::of(&file, recording, multisite)
    }

    /// A replay of a recording with this name.
    ///
    /// # Errors
    /// As [`Replay::open`].
    pub fn of(name: &str, recording: Recording, multisite: Option<f64>) -> Result<Replay, SpecError> {
        crate::spec::in_range("multisite", multisite.unwrap_or(0.0), 0.0..=100.0)?;
        let source = Source::new(format!("{name}-{:08x}", digest(&recording)), recording);
        if multisite.is_some_and(|share| share > 0.0) && source.multi.is_empty() {
            let (option, value) = ("multisite".into(), multisite.unwrap_or(0.0).to_string());
            let expected = "0, since no recorded transaction touches rows of several sites".into();
            return Err(SpecError::Value { option, value, expected });
        }
        Ok(Replay { of: Arc::new(source), multisite })
    }

    pub fn recording(&self) -> &Recording {
        &self.of.recording
    }

    /// The share of transactions over several sites that are drawn, in per cent.
    pub fn multisite(&self) -> f64 {
        let (local, multi) = (self.of.local.len() as f64, self.of.multi.len() as f64);
        self.multisite.unwrap_or(100.0 * multi / (local + multi))
    }

    /// Rows of a table at each site, or in each copy of a replicated one.
    pub fn rows(&self, table: usize) -> u64 {
        self.of.spans[table].rows
    }

    /// From a row of a table to the same one at the next site.
    pub fn space(&self, table: usize) -> u64 {
        self.of.spans[table].space()
    }

    fn recorded(&self, request: &ReplayRequest) -> Option<&Recorded> {
        self.of.recording.transactions.get(request.number as usize)
    }

    /// The kind of a request, as a position in the header's list.
    pub fn kind_of(&self, request: &ReplayRequest) -> u16 {
        self.recorded(request).map_or(0, |recorded| recorded.0)
    }

    pub fn home(&self, request: &ReplayRequest) -> u32 {
        self.recorded(request).map_or(0, |recorded| self.shifted(recorded.1, request))
    }

    fn shifted(&self, site: u32, request: &ReplayRequest) -> u32 {
        (site + request.shift % self.sites()) % self.sites()
    }

    /// The rows that a request touches, phase by phase; none for a request that was not drawn here.
    pub fn placed(&self, request: &ReplayRequest) -> SmallVec<[Placed; 32]> {
        let mut all = SmallVec::new();
        let Some(recorded) = self.recorded(request) else { return all };
        let mut random = Random::new(request.draw);
        let home = self.home(request);
        for (phase, touches) in recorded.2.iter().enumerate() {
            for touch in touches {
                let (table, count) = (usize::from(touch.table), touch.count);
                let span = &self.of.spans[table];
                let of_copy = if span.is_replicated { 0 } else { touch.site as usize };
                let at = match (touch.op, touch.row) {
                    (Op::Insert, _) => span.rows + ((request.at << 4) | (all.len() as u64 & 15)) % ROOM,
                    (_, Some(row)) => row * span.strides[of_copy],
                    (_, None) => random.within(0..span.rows),
                };
                // A scan that would leave the loaded rows begins earlier.
                let at =
                    if touch.op == Op::Scan { at.min(span.rows.saturating_sub(count.into())) } else { at };
                let site = if span.is_replicated || request.is_local {
                    home
                } else {
                    self.shifted(touch.site, request)
                };
                all.push(Placed { phase, table, site, op: touch.op, id: span.first(site) + at, count });
            }
        }
        all
    }

    /// The steps of a phase: those that only read, and the others.
    fn steps(&self, placed: &[Placed]) -> (Each<Look>, Each<Change>) {
        let (mut looks, mut changes) = (SmallVec::new(), SmallVec::new());
        let mut sites: SmallVec<[u32; 4]> = placed.iter().map(|placed| placed.site).collect();
        sites.sort_unstable();
        sites.dedup();
        for site in sites {
            let own = || placed.iter().filter(|placed| placed.site == site);
            let of_site = own().find(|placed| !self.of.spans[placed.table].is_replicated);
            let route = of_site.map_or_else(
                || Route { table: id_of(own().next().map_or(0, |placed| placed.table)), key: 0 },
                |placed| Route { table: id_of(placed.table), key: placed.id },
            );
            let route = (route.table.0, route.key);
            let acts: Acts =
                own().map(|p| Act { table: id_of(p.table).0, op: p.op, id: p.id, count: p.count }).collect();
            if acts.iter().any(|act| act.op.writes()) {
                changes.push(Change { route, acts, filler: self.fillers(own()) });
            } else {
                looks.push(Look { route, acts });
            }
        }
        (Each(looks), Each(changes))
    }

    /// The bytes of filler of the rows of a step, by its accesses.
    fn fillers<'a>(&self, placed: impl Iterator<Item = &'a Placed>) -> SmallVec<[u16; 8]> {
        placed.map(|placed| self.filler(placed.table)).collect()
    }

    fn filler(&self, table: usize) -> u16 {
        let bytes = self.of.recording.header.tables[table].row_bytes;
        bytes.saturating_sub(OWN_BYTES).clamp(1, MOST_FILLER) as u16
    }

    fn table(&self, table: usize) -> TableDef {
        let span = &self.of.spans[table];
        let domain = if span.is_replicated { 0 } else { span.space() * u64::from(self.sites()) };
        let name = format!("{}_{}", table + 1, self.of.recording.header.tables[table].name);
        TableDef::new(id_of(table), &name, columns(self.filler(table)), &[ID], domain)
    }

    fn tables(&self) -> usize {
        self.of.spans.len()
    }

    /// The pieces in which the rows of a site are loaded: tables with ranges of rows.
    fn parts(&self) -> impl Iterator<Item = (usize, Range<u64>)> {
        let tables = self.of.spans.iter().enumerate().filter(|(_, span)| !span.is_replicated);
        tables.flat_map(|(table, span)| pieces(span.rows).map(move |rows| (table, rows)))
    }

    /// Inserts rows of a table, by their places at a site.
    async fn fill<A: Access>(
        &self,
        table: usize,
        (site, rows): (u32, Range<u64>),
        access: &mut A,
    ) -> Result<(), Abort> {
        let (id, def) = (id_of(table), self.table(table));
        let mut buf = RowBuf::new(&def);
        let first = self.of.spans[table].first(site);
        for at in rows {
            steps::fresh(&mut buf, first + at, self.filler(table));
            if access.insert(id, &key(first + at), buf.bytes()).await? == Inserted::Exists {
                return Err(Abort::BadRequest);
            }
        }
        Ok(())
    }
}

fn pieces(rows: u64) -> impl Iterator<Item = Range<u64>> {
    (0..rows.div_ceil(ROWS_PER_PART)).map(move |part| {
        let first = part * ROWS_PER_PART;
        first..rows.min(first + ROWS_PER_PART)
    })
}

fn id_of(table: usize) -> TableId {
    TableId(table as u16 + 1)
}

#[inline]
fn key(id: u64) -> Key {
    Key::new().i64(id as i64)
}

fn columns(filler: u16) -> Vec<Column> {
    let numbers = ["ID", "COUNTER", "CHECK"].map(|name| Column::new(name, Type::I64));
    numbers.into_iter().chain([Column::new("FILLER", Type::Char(filler))]).collect()
}

impl Workload for Replay {
    type Request = ReplayRequest;
    /// Rows that were there.
    type Reply = u64;
    type Generator = ReplayGenerator;
    type Audit = ReplayAudit;

    fn name(&self) -> String {
        "replay".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: (0..self.tables()).map(|table| self.table(table)).collect() }
    }

    fn sites(&self) -> u32 {
        self.of.recording.header.sites
    }

    async fn run<T: Transaction>(&self, request: &ReplayRequest, txn: &mut T) -> Result<u64, Abort> {
        let placed = self.placed(request);
        let mut rows = 0;
        let mut phases = placed.chunk_by(|a, b| a.phase == b.phase).peekable();
        while let Some(phase) = phases.next() {
            let steps = self.steps(phase);
            let (looks, changes) = match phases.peek() {
                Some(_) => pin!(txn.all(steps)).await?,
                None => pin!(txn.last(steps)).await?,
            };
            rows += looks.iter().chain(&changes).sum::<u64>();
        }
        if placed.is_empty() { Err(Abort::BadRequest) } else { Ok(rows) }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Look, Change)
    }

    fn routes(&self, request: &ReplayRequest, visit: &mut dyn FnMut(Route)) {
        let spans = &self.of.spans;
        let Some(table) = spans.iter().position(|span| !span.is_replicated) else { return };
        let mut at = |site| visit(Route { table: id_of(table), key: spans[table].first(site) });
        match self.of.sites.get(request.number as usize) {
            Some(sites) if !request.is_local => {
                sites.iter().for_each(|&site| at(self.shifted(site, request)))
            }
            _ => at(self.home(request)),
        }
    }

    fn only_reads(&self, request: &ReplayRequest) -> bool {
        self.recorded(request).is_some_and(|recorded| !recorded.touches().any(|touch| touch.op.writes()))
    }

    fn kind(&self, request: &ReplayRequest) -> &'static str {
        self.of.kinds.get(usize::from(self.kind_of(request))).copied().unwrap_or(crate::any::FOREIGN)
    }

    fn clients(&self) -> Clients {
        if self.of.recording.header.is_routed { Clients::Routed } else { Clients::Bound }
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> ReplayGenerator {
        ReplayGenerator::new(self.clone(), seed, sites)
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        self.parts().count() as u32
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        let (table, rows) = self.parts().nth(part as usize).ok_or(Abort::BadRequest)?;
        self.fill(table, (site.0, rows), access).await
    }

    async fn load_replicated<A: Access>(&self, access: &mut A) -> Result<(), Abort> {
        for (table, span) in self.of.spans.iter().enumerate().filter(|(_, span)| span.is_replicated) {
            self.fill(table, (0, 0..span.rows), access).await?;
        }
        Ok(())
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<ReplayAudit, Abort> {
        check::audit(self, sites, access).await
    }

    fn judge(&self, audits: Vec<ReplayAudit>, _: Option<u64>) -> Verdict {
        check::judge(self, &audits)
    }
}
