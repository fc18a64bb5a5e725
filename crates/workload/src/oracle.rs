//! The naive model: a database of ordered maps in one thread, on which any workload runs at once.
//!
//! It plays every instance of a deployment. A step for another instance than the home is encoded
//! and decoded as on a channel. An access outside the instance that a step was routed to is a bug
//! of the workload, and panics. Replies and final state of an engine can be compared with those of
//! the model.

use base::{InstanceId, Key, KeyReader, SiteId, TableId};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::future::Future;
use std::ops::Bound::{Included, Unbounded};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use txn::row::Layout;
use txn::step::{Route, Steps, Transaction};
use txn::workload::{Placement, Verdict};
use txn::{
    Abort, Access, Direction, Flow, Inserted, Range, Row, RowMut, Schema, Share, Spread, Step, TableDef,
    Workload,
};

/// The result of a future that never waits, as futures over the model or the do-nothing storage
/// are.
///
/// # Panics
/// If the future waits.
pub fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("nothing here can wait"),
    }
}

#[derive(Debug)]
struct Table {
    def: TableDef,
    layout: Layout,
    /// Rows by encoded key; for a table without a key, by insertion number.
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of each secondary index, its entries with the keys of their rows.
    entries: Vec<BTreeMap<Vec<u8>, Vec<u8>>>,
}

impl Table {
    /// Sets or removes the row with this key, with its entries; returns the previous row.
    fn put(&mut self, key: &[u8], row: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let of = |row: &[u8], i: usize| {
            self.def.entry_of(&self.def.indexes[i], Row::new(&self.layout, row)).to_vec()
        };
        let old = self.rows.get(key);
        for (i, entries) in self.entries.iter_mut().enumerate() {
            old.map(|old| entries.remove(&of(old, i)));
            row.as_ref().map(|row| entries.insert(of(row, i), key.to_vec()));
        }
        match row {
            Some(row) => self.rows.insert(key.to_vec(), row),
            None => self.rows.remove(key),
        }
    }
}

/// Undoes one change: the table, the key, and the previous row.
type Undo = (usize, Vec<u8>, Option<Vec<u8>>);

/// A key of a table or an index, and its row.
type Entry<'a> = (Vec<u8>, &'a [u8]);

/// The rows of one instance.
#[derive(Debug)]
pub struct Model {
    me: InstanceId,
    placement: Placement,
    tables: Vec<Table>,
    undo: Vec<Undo>,
    /// Rows that were requested by key since the last [`Oracle::submit`] began.
    asked: HashSet<(TableId, Key)>,
}

/// A deployment of a workload on models.
#[derive(Debug)]
pub struct Oracle<W> {
    workload: W,
    schema: Schema,
    placement: Placement,
    instances: Vec<Model>,
    /// The number of transactions that touched more than one instance.
    pub distributed: u64,
    /// What clients say in conversations, in this order, and what they hear.
    pub says: VecDeque<Vec<u8>>,
    pub hears: Vec<Vec<u8>>,
}

impl Model {
    fn new(schema: &Schema, me: InstanceId, placement: &Placement) -> Model {
        let table = |def: &TableDef| Table {
            layout: Layout::of(def),
            rows: BTreeMap::new(),
            entries: vec![BTreeMap::new(); def.indexes.len()],
            def: def.clone(),
        };
        Model {
            me,
            placement: placement.clone(),
            tables: schema.tables.iter().map(table).collect(),
            undo: vec![],
            asked: HashSet::new(),
        }
    }

    fn table(&self, id: TableId) -> Result<usize, Abort> {
        self.tables.iter().position(|t| t.def.id == id).ok_or(Abort::BadRequest)
    }

    /// The position of the table, after a check that `key` belongs to this instance.
    fn place(&self, id: TableId, key: &[u8]) -> Result<usize, Abort> {
        let at = self.table(id)?;
        let def = &self.tables[at].def;
        let leading = KeyReader::new(key).i64().unwrap_or(0) as u64;
        if leading < def.domain {
            let owner = self.placement.owner(self.placement.site(leading, def.domain));
            assert_eq!(owner, self.me, "{} {leading} touched in the wrong instance", def.name);
        }
        Ok(at)
    }

    fn put(&mut self, table: usize, key: &[u8], row: Option<Vec<u8>>) {
        let old = self.tables[table].put(key, row);
        self.undo.push((table, key.to_vec(), old));
    }

    /// Ends the current transaction in this instance: keeps its changes or undoes them.
    pub fn end(&mut self, committed: bool) {
        for (table, key, old) in std::mem::take(&mut self.undo).into_iter().rev().filter(|_| !committed) {
            self.tables[table].put(&key, old);
        }
    }

    /// The entries of a table or of one of its secondary indexes in `range`, in order.
    fn entries(&self, index: TableId, range: Range<'_>) -> Result<(&Layout, Vec<Entry<'_>>), Abort> {
        let inside =
            |k: &[u8]| range.low.is_none_or(|low| k >= low) && range.high.is_none_or(|high| k < high);
        if let Ok(at) = self.table(index) {
            let table = &self.tables[at];
            let from = table.rows.range::<[u8], _>((range.low.map_or(Unbounded, Included), Unbounded));
            let rows = from.take_while(|(k, _)| inside(k)).map(|(k, r)| (k.clone(), &r[..]));
            return Ok((&table.layout, rows.collect()));
        }
        let find = |t: &Table| t.def.indexes.iter().position(|i| i.id == index);
        let (table, i) = self.tables.iter().find_map(|t| Some((t, find(t)?))).ok_or(Abort::BadRequest)?;
        let from = table.entries[i].range::<[u8], _>((range.low.map_or(Unbounded, Included), Unbounded));
        let all = from
            .take_while(|(entry, _)| inside(entry))
            .filter_map(|(entry, key)| Some((entry.clone(), &table.rows.get(key)?[..])));
        let all = all.collect();
        Ok((&table.layout, all))
    }
}

impl Access for Model {
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        self.asked.insert((table, Key::from_bytes(key)));
        let table = &self.tables[self.place(table, key)?];
        Ok(table.rows.get(key).map(|row| f(Row::new(&table.layout, row))))
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        self.asked.insert((table, Key::from_bytes(key)));
        let at = self.place(table, key)?;
        let Some(mut bytes) = self.tables[at].rows.get(key).cloned() else { return Ok(None) };
        let out = f(&mut RowMut::new(&self.tables[at].layout, &mut bytes));
        self.put(at, key, Some(bytes));
        Ok(Some(out))
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        let at = self.place(table, key)?;
        let table = &self.tables[at];
        assert!(table.layout.fits(row), "a row that does not fit {}", table.def.name);
        let named = table.def.key_of(Row::new(&table.layout, row));
        assert_eq!(named, Key::from_bytes(key), "a row of {} under another key", table.def.name);
        if table.rows.contains_key(key) {
            return Ok(Inserted::Exists);
        }
        self.put(at, key, Some(row.to_vec()));
        Ok(Inserted::Done)
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        let at = self.table(table)?;
        let table = &self.tables[at];
        assert!(table.layout.fits(row), "a row that does not fit {}", table.def.name);
        let last = table.rows.last_key_value().and_then(|(k, _)| KeyReader::new(k).u64());
        let key = Key::new().u64(last.map_or(0, |n| n + 1));
        self.put(at, &key, Some(row.to_vec()));
        Ok(())
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        let at = self.place(table, key)?;
        let there = self.tables[at].rows.contains_key(key);
        if there {
            self.put(at, key, None);
        }
        Ok(there)
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let (layout, mut entries) = self.entries(index, range)?;
        if direction == Direction::Backward {
            entries.reverse();
        }
        let _ = entries.iter().try_for_each(|(k, row)| match f(k, Row::new(layout, row)) {
            Flow::More => Ok(()),
            Flow::Enough => Err(()),
        });
        Ok(())
    }
}

impl<W: Workload> Oracle<W> {
    /// # Panics
    /// Unless `1 <= instances <= sites` of the workload.
    pub fn new(workload: W, instances: u16) -> Oracle<W> {
        let placement = Placement::even(workload.sites(), instances);
        let schema = workload.schema();
        let instances = (0..instances).map(|i| Model::new(&schema, InstanceId(i), &placement)).collect();
        Oracle {
            workload,
            schema,
            placement,
            instances,
            distributed: 0,
            says: VecDeque::new(),
            hears: Vec::new(),
        }
    }

    /// Loads all data.
    pub fn load(&mut self) -> Result<(), Abort> {
        for i in 0..self.placement.instances() {
            let model = &mut self.instances[i as usize];
            at_once(self.workload.load_replicated(model))?;
            for site in self.placement.sites_of(InstanceId(i)) {
                for part in 0..self.workload.load_parts(SiteId(site)) {
                    at_once(self.workload.load(SiteId(site), part, model))?;
                }
            }
            model.end(true);
        }
        Ok(())
    }

    /// Runs one transaction; an abort leaves no trace.
    pub fn submit(&mut self, request: &W::Request) -> Result<W::Reply, Abort> {
        let mut home = None;
        self.workload.routes(request, &mut |route| home = home.or(Some(route)));
        let home = home.map_or(InstanceId(0), |route| self.owner(route));
        self.instances.iter_mut().for_each(|m| m.asked.clear());
        let workload = self.workload.clone();
        let mut run = Run { oracle: self, home, others: 0, ended: false, abandoned: false };
        let result = at_once(workload.run(request, &mut run));
        let (others, commits) = (run.others, result.is_ok() && !run.abandoned);
        self.distributed += u64::from(others > 0 && commits);
        self.instances.iter_mut().for_each(|m| m.end(commits));
        result
    }

    /// Whether the last request asked for this row by its key, at any instance.
    pub fn was_asked(&self, table: TableId, key: &[u8]) -> bool {
        let asked = (table, Key::from_bytes(key));
        self.instances.iter().any(|m| m.asked.contains(&asked))
    }

    /// The rows of one instance, to inspect or to corrupt.
    pub fn model(&mut self, instance: InstanceId) -> &mut Model {
        &mut self.instances[instance.0 as usize]
    }

    /// The instance that owns a step's rows.
    pub fn owner(&self, route: Route) -> InstanceId {
        let domain = self.schema.table(route.table).map_or(1, |t| t.domain);
        self.placement.owner(self.placement.site(route.key, domain))
    }

    pub fn audits(&mut self) -> Result<Vec<W::Audit>, Abort> {
        let of = |m: &mut Model| at_once(self.workload.audit(self.placement.sites_of(m.me), m));
        self.instances.iter_mut().map(of).collect()
    }

    /// Audits all instances and judges the audits.
    pub fn judge(&mut self, committed: Option<u64>) -> Result<Verdict, Abort> {
        let audits = self.audits()?;
        Ok(self.workload.judge(audits, committed))
    }
}

/// A running transaction.
struct Run<'a, W> {
    oracle: &'a mut Oracle<W>,
    home: InstanceId,
    /// The number of steps that ran at other instances.
    others: u32,
    /// The last steps have run: as in an engine, no step may follow.
    ended: bool,
    abandoned: bool,
}

impl<W: Workload> Transaction for Run<'_, W> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        if self.ended && steps.count() > 0 {
            return Err(Abort::AfterLast);
        }
        let owners: Vec<_> = (0..steps.count()).map(|i| self.oracle.owner(steps.route(i))).collect();
        if owners.iter().all(|&o| o == self.home) {
            return steps.run_all(self.oracle.model(self.home)).await;
        }
        let workload = self.oracle.workload.clone();
        let mut outputs = steps.partial();
        for (i, owner) in owners.into_iter().enumerate() {
            let model = self.oracle.model(owner);
            if owner == self.home {
                steps.run(i, model, &mut outputs).await?;
                continue;
            }
            let (mut args, mut output) = (vec![], vec![]);
            steps.encode(i, &mut args);
            workload.run_step(steps.id(i), &args, model, &mut output).await?;
            steps.accept(i, &output, &mut outputs)?;
            self.others += 1;
        }
        Ok(S::finish(outputs))
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        let outcome = self.all(steps).await;
        self.ended = true;
        outcome
    }

    /// Runs a share at each instance, one after the other: all of the step's keys.
    async fn over<S: Spread>(&mut self, step: S) -> Result<S::Output, Abort> {
        let instances = self.oracle.placement.instances();
        if instances == 1 {
            return self.all(Share::whole(step)).await;
        }
        let domain = self.oracle.schema.table(Step::route(&step).table).map_or(1, |t| t.domain);
        let mut all: Option<S::Output> = None;
        for instance in (0..instances).map(InstanceId) {
            let placement = &self.oracle.placement;
            let (sites, keys) = (placement.sites_of(instance), placement.keys_of(instance, domain));
            let next = self.all(Share::of(step.clone(), sites, keys.start)).await?;
            match &mut all {
                None => all = Some(next),
                Some(all) => step.join(all, next),
            }
        }
        all.ok_or(Abort::BadRequest)
    }

    async fn hear(&mut self, said: Vec<u8>) -> Result<Vec<u8>, Abort> {
        self.oracle.hears.push(said);
        self.oracle.says.pop_front().ok_or(Abort::Abandoned)
    }

    fn abandon(&mut self) {
        self.abandoned = true;
    }
}
