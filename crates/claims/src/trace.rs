//! The operations of transactions, counted on the naive model of the workloads' own tests, where
//! nothing waits and nothing is shared.
//!
//! A row for each kind of transaction has, per committed transaction, `records` (rows read,
//! updated, inserted, appended, deleted or met by a scan, each row once), and the number of calls
//! of each operation (`probes` find a row by its key, to read, change or remove it).
//! `local_records` and `remote_records` divide the records of distributed transactions between the
//! home and the `others`. `phases` is the number of times that steps are awaited, and `most_steps`
//! the most steps that are awaited together. `failed` is the share that the transaction itself
//! rolled back, and `share` the kind's share of all that ended. `least_frames` and `most_frames`
//! are the frames of a workload that observes them, `results` the Trade-Results that found their
//! trade submitted, per committed transaction.

use crate::count_row::{row, stream};
use crate::row::Row;
use base::{InstanceId, Key, TableId};
use std::collections::{BTreeMap, BTreeSet};
use txn::step::{Steps, Transaction};
use txn::{Abort, Access, Direction, Flow, Generator, Inserted, Range, RowMut, Workload};
use workload::oracle::{Model, Oracle, at_once};

/// The counts of one transaction.
#[derive(Default)]
struct Trace {
    /// Touched rows, by instance.
    touched: BTreeMap<InstanceId, BTreeSet<(TableId, Vec<u8>)>>,
    appended: u64,
    calls: BTreeMap<&'static str, u64>,
    updated: Vec<(TableId, Vec<u8>)>,
    inserted: BTreeSet<TableId>,
    secondary: u64,
    phases: u64,
    most_steps: usize,
}

/// The counts of all transactions of one kind.
#[derive(Default)]
struct Kind {
    submitted: u64,
    committed: u64,
    failed: u64,
    records: u64,
    most_records: u64,
    distributed: u64,
    /// The number of instances besides the home.
    others: u64,
    local: u64,
    remote: u64,
    calls: BTreeMap<&'static str, u64>,
    /// Transactions that used a secondary index.
    secondary: u64,
    phases: u64,
    most_steps: usize,
    updated: BTreeMap<TableId, BTreeSet<Vec<u8>>>,
    inserted: BTreeSet<TableId>,
    only_reads: bool,
    /// The fewest and the most.
    frames: Option<(u64, u64)>,
    results: u64,
}

/// All calls, so that a row has a 0 for calls that its kind never makes.
const CALLS: [&str; 7] = ["probes", "reads", "updates", "inserts", "appends", "deletes", "scans"];

/// Runs this many transactions over this many instances.
pub(crate) fn operations<W: Workload>(workload: &W, islands: u16, transactions: u64) -> Vec<Row> {
    let kinds = run(workload, islands, transactions);
    let ended = kinds.values().map(|kind| kind.committed + kind.failed).sum();
    let schema = workload.schema();
    kinds.into_iter().flat_map(|(name, kind)| kind.rows(name, islands, ended, &schema)).collect()
}

/// The tables into which this many transactions insert, those of the kinds `apart` left out.
pub(crate) fn grown<W: Workload>(workload: &W, transactions: u64, apart: &[String]) -> BTreeSet<TableId> {
    let counted = |(name, _): &(&'static str, Kind)| apart.iter().all(|kind| kind != name);
    run(workload, 1, transactions).into_iter().filter(counted).flat_map(|(_, kind)| kind.inserted).collect()
}

fn run<W: Workload>(workload: &W, islands: u16, transactions: u64) -> BTreeMap<&'static str, Kind> {
    let mut oracle = Oracle::new(workload.clone(), islands);
    if oracle.load().is_err() {
        return BTreeMap::new();
    }
    let schema = workload.schema();
    let mut generator = stream(workload);
    let mut kinds: BTreeMap<&'static str, Kind> = BTreeMap::new();
    for _ in 0..transactions {
        let request = generator.next();
        let mut home = None;
        workload.routes(&request, &mut |route| home = home.or(Some(route)));
        let home = home.map_or(InstanceId(0), |route| oracle.owner(route));
        let mut run = Traced { oracle: &mut oracle, schema: &schema, trace: Trace::default() };
        let result = at_once(workload.run(&request, &mut run));
        let trace = run.trace;
        (0..islands).for_each(|i| oracle.model(InstanceId(i)).end(result.is_ok()));
        let kind = kinds.entry(workload.kind(&request)).or_default();
        kind.submitted += 1;
        kind.only_reads = workload.only_reads(&request);
        match result {
            Ok(reply) => {
                kind.add(trace, home);
                workload.observe(&request, Some(&reply), &mut |name, n| kind.observed(name, n));
                workload.committed(&request, &reply);
            }
            Err(Abort::User(_)) => kind.failed += 1,
            Err(_) => {}
        }
    }
    kinds
}

impl Kind {
    fn add(&mut self, trace: Trace, home: InstanceId) {
        let at = |i: &InstanceId| trace.touched.get(i).map_or(0, |rows| rows.len() as u64);
        let all: u64 = trace.touched.keys().map(at).sum();
        self.committed += 1;
        self.records += all + trace.appended;
        self.most_records = self.most_records.max(all + trace.appended);
        if trace.touched.keys().any(|i| *i != home) {
            self.distributed += 1;
            self.others += trace.touched.keys().filter(|i| **i != home).count() as u64;
            // Rows without a key are appended at home.
            self.local += at(&home) + trace.appended;
            self.remote += all - at(&home);
        }
        self.secondary += u64::from(trace.secondary > 0);
        self.phases += trace.phases;
        self.most_steps = self.most_steps.max(trace.most_steps);
        for (name, n) in trace.calls {
            *self.calls.entry(name).or_default() += n;
        }
        for (table, key) in trace.updated {
            self.updated.entry(table).or_default().insert(key);
        }
        self.inserted.extend(trace.inserted);
    }

    fn observed(&mut self, name: &str, n: u64) {
        match name {
            "frames" => {
                let (least, most) = self.frames.unwrap_or((n, n));
                self.frames = Some((least.min(n), most.max(n)));
            }
            "results" => self.results += n,
            _ => {}
        }
    }

    /// `ended` counts the transactions of all kinds.
    fn rows(&self, name: &str, islands: u16, ended: u64, schema: &txn::Schema) -> Vec<Row> {
        let per = |n: u64, of: u64| n as f64 / of.max(1) as f64;
        let named = |what: &str| {
            let mut row = row(what);
            row.set("kind", name);
            row.set("islands", islands);
            row
        };
        let mut operations = named("operations");
        operations.set("submitted", self.submitted);
        operations.set("committed", self.committed);
        operations.set("share", per(self.committed + self.failed, ended));
        operations.set("only_reads", self.only_reads);
        if let Some((least, most)) = self.frames {
            operations.set("least_frames", least);
            operations.set("most_frames", most);
        }
        operations.set("results", per(self.results, self.committed));
        operations.set("failed", per(self.failed, self.submitted));
        operations.set("lost", per(self.submitted - self.failed - self.committed, self.submitted));
        operations.set("records", per(self.records, self.committed));
        operations.set("most_records", self.most_records);
        operations.set("distributed", per(self.distributed, self.committed));
        operations.set("local_records", per(self.local, self.distributed));
        operations.set("remote_records", per(self.remote, self.distributed));
        operations.set("others", per(self.others, self.distributed));
        operations.set("secondary", self.secondary > 0);
        operations.set("phases", per(self.phases, self.committed));
        operations.set("most_steps", self.most_steps);
        for call in CALLS {
            operations.set(call, per(self.calls.get(call).copied().unwrap_or(0), self.committed));
        }
        let table = |t: &txn::TableDef| {
            let mut row = named("updated");
            row.set("table", t.name.to_lowercase());
            row.set("keys", self.updated.get(&t.id).map_or(0, BTreeSet::len));
            row
        };
        std::iter::once(operations).chain(schema.tables.iter().map(table)).collect()
    }
}

/// A transaction on the model that records its operations.
struct Traced<'a, W> {
    oracle: &'a mut Oracle<W>,
    schema: &'a txn::Schema,
    trace: Trace,
}

impl<W: Workload> Transaction for Traced<'_, W> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        self.trace.phases += 1;
        self.trace.most_steps = self.trace.most_steps.max(steps.count());
        let mut outputs = steps.partial();
        for i in 0..steps.count() {
            let owner = self.oracle.owner(steps.route(i));
            let model = self.oracle.model(owner);
            let mut access = Noted { model, schema: self.schema, at: owner, trace: &mut self.trace };
            steps.run(i, &mut access, &mut outputs).await?;
        }
        Ok(S::finish(outputs))
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        self.all(steps).await
    }
}

/// The rows of one instance.
struct Noted<'a> {
    model: &'a mut Model,
    schema: &'a txn::Schema,
    at: InstanceId,
    trace: &'a mut Trace,
}

impl Noted<'_> {
    fn note(&mut self, calls: &[&'static str], table: TableId, key: &[u8]) {
        for call in calls {
            *self.trace.calls.entry(call).or_default() += 1;
        }
        self.trace.touched.entry(self.at).or_default().insert((table, key.to_vec()));
    }
}

impl Access for Noted<'_> {
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(txn::Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        self.note(&["probes", "reads"], table, key);
        self.model.read(table, key, f).await
    }

    fn prefetch(&mut self, _: TableId, _: &[Key]) {}

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        self.note(&["probes", "updates"], table, key);
        self.trace.updated.push((table, key.to_vec()));
        self.model.update(table, key, f).await
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        self.note(&["inserts"], table, key);
        self.trace.inserted.insert(table);
        self.model.insert(table, key, row).await
    }

    async fn append(&mut self, table: TableId, row: &[u8]) -> Result<(), Abort> {
        *self.trace.calls.entry("appends").or_default() += 1;
        self.trace.appended += 1;
        self.trace.inserted.insert(table);
        self.model.append(table, row).await
    }

    async fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.note(&["probes", "deletes"], table, key);
        self.model.delete(table, key).await
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], txn::Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        let secondary =
            self.schema.tables.iter().find_map(|t| Some((t, t.indexes.iter().find(|i| i.id == index)?)));
        let mut met = Vec::new();
        self.model
            .scan(index, range, direction, |key, row| {
                met.push(match secondary {
                    // The entry of an index counts as its row, so that the look-up by key
                    // afterwards does not count as another row.
                    Some((table, def)) => (
                        table.id,
                        table.key_in_entry(def, key).map_or_else(|| key.to_vec(), |key| key.to_vec()),
                    ),
                    None => (index, key.to_vec()),
                });
                f(key, row)
            })
            .await?;
        *self.trace.calls.entry("scans").or_default() += 1;
        self.trace.secondary += u64::from(secondary.is_some());
        self.trace.touched.entry(self.at).or_default().extend(met);
        Ok(())
    }

    /// Index entries without their rows do not count as records.
    async fn scan_keys(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8]) -> Flow,
    ) -> Result<(), Abort> {
        self.model.scan(index, range, direction, |key, _| f(key)).await?;
        *self.trace.calls.entry("scans").or_default() += 1;
        self.trace.secondary += u64::from(self.schema.tables.iter().all(|table| table.id != index));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::WorkloadSpec;

    fn rows(spec: &WorkloadSpec, islands: u16) -> Vec<Row> {
        operations(&spec.build().unwrap(), islands, 2_000)
    }

    #[test]
    fn a_deposit_is_three_updates_and_a_history_row() {
        let spec = WorkloadSpec { scale: Some(2), ..WorkloadSpec::new("tpcb", 2) }.with("accounts", 100);
        let rows = rows(&spec, 2);
        for (field, expected) in [
            ("records", 4.0),
            ("most_records", 4.0),
            ("updates", 3.0),
            ("appends", 1.0),
            ("failed", 0.0),
            ("scans", 0.0),
        ] {
            assert_eq!(rows[0].number(field), Some(expected), "{field}");
        }
        assert_eq!((rows[0].number("phases"), rows[0].number("most_steps")), (Some(1.0), Some(2.0)));
        // The account is elsewhere; the other three rows are at home.
        assert_eq!(
            (rows[0].number("local_records"), rows[0].number("remote_records")),
            (Some(3.0), Some(1.0))
        );
        let branch = rows.iter().find(|r| r.word("table").as_deref() == Some("branch")).unwrap();
        assert_eq!(branch.number("keys"), Some(2.0));
    }

    #[test]
    fn a_row_found_through_an_index_counts_once() {
        let spec = WorkloadSpec { scale: Some(1), ..WorkloadSpec::new("tatp-update-location", 1) };
        let rows = rows(&spec.with("subscribers", 50), 1);
        assert_eq!((rows[0].number("records"), rows[0].number("secondary")), (Some(1.0), Some(1.0)));
    }
}
