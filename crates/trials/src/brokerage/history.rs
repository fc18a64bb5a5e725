//! A history of the reduced TPC-E: what was touched, by which attempt and in which order, and its
//! judgement.
//!
//! A row is a register, and the hash of its bytes names its version. Every write of TPC-E reads the
//! row before, so the writes of a row are ordered by what they read, and the checker finds lost
//! updates, stale reads, and cycles over several rows. Two kinds of reads are left out, because
//! they name no single write: those of a version that was written twice (an update that the next
//! one undoes), and those that find no row where one was deleted.

use super::noted::Touch;
use crate::histories::HistoryVerdict;
use crate::workers::Crew;
use adya::history::{Id, Interner, Mop, Op, OpType, ReadValue, Scalar};
use adya::{History, Opts, Valid};
use base::{SiteId, TableId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use txn::{Abort, Inserted, NewRows, Workload};
use workload::oracle::at_once;
use workload::tpce::{Mix, Tpce, TpceOptions};

/// Few customers with many trades: two hundred, ten brokers, 137 securities.
pub(super) fn reduced() -> Tpce {
    let base = TpceOptions::new(1);
    let options = TpceOptions {
        mix: Mix::Full,
        unit: 200,
        sf: 20_000,
        days: 5,
        market_days: 50,
        news_bytes: 255,
        ..base
    };
    Tpce::new(options).expect("options in their ranges")
}

/// The parameters of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub crew: Crew,
    pub transactions: usize,
    pub seed: u64,
}

type RowName = (TableId, Vec<u8>);

/// The start or the end of an attempt.
pub(super) struct Event {
    pub order: u64,
    pub kind: OpType,
    pub process: i64,
    pub touched: Vec<Touch>,
}

/// Shared by the clients of one run.
#[derive(Default)]
pub(super) struct Recorder {
    order: AtomicU64,
    events: Mutex<Vec<Event>>,
}

impl Recorder {
    /// The next position in the order of events.
    pub fn stamp(&self) -> u64 {
        self.order.fetch_add(1, Ordering::SeqCst)
    }

    /// Adds events.
    pub fn push(&self, events: impl IntoIterator<Item = Event>) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).extend(events);
    }

    /// All events, in their order; none is left.
    pub fn events(&self) -> Vec<Event> {
        let mut events = std::mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner));
        events.sort_by_key(|event| event.order);
        events
    }
}

/// The version of each row as loaded.
#[derive(Default)]
struct Initial(HashMap<RowName, u64>);

impl NewRows for Initial {
    fn put(&mut self, table: TableId, key: Option<&[u8]>, row: &[u8]) -> Result<Inserted, Abort> {
        self.0.insert((table, key.unwrap_or_default().to_vec()), base::hash64(row));
        Ok(Inserted::Done)
    }
}

fn initial(tpce: &Tpce) -> HashMap<RowName, u64> {
    let mut rows = Initial::default();
    let _ = at_once(tpce.load_replicated(&mut rows)); // storage that refuses nothing
    for site in (0..tpce.sites()).map(SiteId) {
        for part in 0..tpce.load_parts(site) {
            let _ = at_once(tpce.load(site, part, &mut rows)); // as above
        }
    }
    rows.0
}

/// What the writes of a row tell.
#[derive(Default)]
struct Written {
    /// Versions by the number of transactions that wrote them.
    versions: BTreeMap<u64, u32>,
    deleted: bool,
}

/// Puts the history into the checker's form and has it judged.
pub(super) fn judge(events: Vec<Event>, tpce: &Tpce) -> HistoryVerdict {
    let initial = initial(tpce);
    let mut written: HashMap<RowName, Written> = HashMap::new();
    for event in &events {
        let mut own: HashSet<(&RowName, Option<u64>)> = HashSet::new();
        for touch in &event.touched {
            if let Touch::Wrote(row, version) = touch
                && own.insert((row, *version))
            {
                let of = written.entry(row.clone()).or_default();
                match version {
                    Some(version) => *of.versions.entry(*version).or_default() += 1,
                    None => of.deleted = true,
                }
            }
        }
    }
    let mut names = Names { interner: Interner::default(), rows: HashMap::new(), deletions: 0 };
    let mut ops = Vec::new();
    let mut strange = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let value = event
            .touched
            .iter()
            .filter_map(|touch| names.mop(touch, &written, &initial, &mut strange))
            .collect();
        ops.push(Op {
            index: index as u64,
            kind: event.kind,
            process: Some(event.process),
            value,
            time: None,
        });
    }
    let history = History::from_ops(ops, names.interner);
    let count = |kind| history.ops.iter().filter(|op| op.kind == kind).count();
    let timeout = std::time::Duration::from_secs(20);
    let opts = Opts { timeout, wfr_keys: true, ..Opts::default() };
    let report = adya::check(&history, adya::Workload::RwRegister, &opts);
    let first = report.anomalies.values().flatten().next();
    let explanation = strange.first().cloned().or_else(|| first.map(|a| a.explanation.clone()));
    HistoryVerdict {
        strictly_serialisable: report.valid == Valid::True && strange.is_empty(),
        committed: count(OpType::Ok),
        aborted: count(OpType::Fail),
        explanation: explanation.unwrap_or_default(),
        anomalies: report.anomaly_types,
    }
}

/// The checker's names of rows and versions.
struct Names {
    interner: Interner,
    rows: HashMap<RowName, i64>,
    deletions: i64,
}

impl Names {
    fn row(&mut self, row: &RowName) -> Id {
        let next = self.rows.len() as i64;
        let number = *self.rows.entry(row.clone()).or_insert(next);
        self.interner.intern(Scalar::Int(number))
    }

    /// The operation on a register; `None` if it tells nothing. A row that nothing has written is
    /// noted as strange.
    fn mop(
        &mut self,
        touch: &Touch,
        written: &HashMap<RowName, Written>,
        initial: &HashMap<RowName, u64>,
        strange: &mut Vec<String>,
    ) -> Option<Mop> {
        match touch {
            Touch::Wrote(row, version) => {
                let of = written.get(row)?;
                let value = match version {
                    // A version that several transactions wrote has no single writer; nor has one
                    // that is equal to the first.
                    Some(version) if of.versions.get(version) != Some(&1) => return None,
                    Some(version) if initial.get(row) == Some(version) => return None,
                    Some(version) => self.interner.intern(Scalar::Int(*version as i64)),
                    None => {
                        self.deletions += 1;
                        self.interner.intern(Scalar::Int(-self.deletions))
                    }
                };
                Some(Mop::Write { key: self.row(row), value })
            }
            Touch::Read(row, version) => {
                let first = initial.get(row);
                let of = written.get(row);
                let known = |version| of.is_some_and(|of| of.versions.contains_key(version));
                match version {
                    Some(version) if first != Some(version) && !known(version) => {
                        strange.push(format!("a row of {} with content that nothing wrote", row.0));
                        None
                    }
                    None if first.is_some() && !of.is_some_and(|of| of.deleted) => {
                        strange.push(format!("a row of {} is lost", row.0));
                        None
                    }
                    _ => self.read(row, *version, first, of?),
                }
            }
        }
    }

    fn read(
        &mut self,
        row: &RowName,
        version: Option<u64>,
        first: Option<&u64>,
        of: &Written,
    ) -> Option<Mop> {
        let value = match version {
            None if of.deleted => return None,
            None => ReadValue::Nil,
            Some(version) if first == Some(&version) && !of.versions.contains_key(&version) => ReadValue::Nil,
            Some(version) if of.versions.get(&version) != Some(&1) || first == Some(&version) => return None,
            Some(version) => ReadValue::Scalar(self.interner.intern(Scalar::Int(version as i64))),
        };
        Some(Mop::Read { key: self.row(row), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(order: u64, kind: OpType, process: i64, touched: Vec<Touch>) -> Event {
        Event { order, kind, process, touched }
    }

    /// A key that no loaded row has.
    fn row() -> RowName {
        (TableId(1), b"new".to_vec())
    }

    fn verdict(touched: [Vec<Touch>; 2]) -> HistoryVerdict {
        let [a, b] = touched;
        let events = vec![
            event(0, OpType::Invoke, 0, Vec::new()),
            event(1, OpType::Invoke, 1, Vec::new()),
            event(2, OpType::Ok, 0, a),
            event(3, OpType::Ok, 1, b),
        ];
        judge(events, &reduced())
    }

    #[test]
    fn a_lost_update_is_found_and_updates_in_turn_are_not() {
        let change = |from, to| vec![Touch::Read(row(), from), Touch::Wrote(row(), Some(to))];
        assert!(verdict([change(None, 5), change(Some(5), 6)]).strictly_serialisable);
        let lost = verdict([change(None, 5), change(None, 6)]);
        assert!(!lost.strictly_serialisable, "{:?}", lost.anomalies);
    }

    #[test]
    fn a_row_that_nothing_wrote_is_found() {
        let strange = verdict([vec![Touch::Read(row(), Some(9))], Vec::new()]);
        assert!(!strange.strictly_serialisable && strange.explanation.contains("nothing wrote"));
    }
}
