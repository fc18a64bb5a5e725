//! The promises made to clients, and the check whether an opened database keeps them.
//!
//! Each transaction writes its number into the history before it ends, so the surviving data itself
//! shows which transactions it consists of. These must include every acknowledged one, be a prefix
//! of the commits in the order of the log, include no other, and together produce exactly the rows
//! found.

use crate::table::{self, ACCOUNTS, Rows, Value};
use base::Lsn;
use std::collections::{BTreeMap, BTreeSet};
use store::{Recovered, Store, StoreFault, Txn};

/// The row with this id gets this value, or is removed.
pub type Changes = BTreeMap<i64, Option<Value>>;

/// A broken promise.
#[derive(Debug, thiserror::Error)]
pub enum Flaw {
    #[error("the database does not open: {0}")]
    Refused(StoreFault),
    #[error("it opens, but meets a fault: {0}")]
    Fault(#[from] StoreFault),
    #[error("the engine in main memory: {0}")]
    Engine(#[from] exec::EngineFault),
    #[error("transaction {0} was acknowledged and is lost")]
    Lost(i64),
    #[error("transactions {0:?} are there, though they never committed or were rolled back")]
    Raised(Vec<i64>),
    #[error("transaction {later} survived, {earlier} before it in the log did not")]
    Hole { earlier: i64, later: i64 },
    #[error("transaction {number} in doubt: {what}")]
    Doubt { number: i64, what: String },
    #[error("the rows found are not those of the transactions that survived: {0}")]
    Differs(String),
    #[error("the engine stopped: {0}")]
    Stopped(String),
    #[error("panicked: {0}")]
    Panicked(String),
    #[error("{0}")]
    Other(String),
}

/// A transaction of which the commit record was appended.
#[derive(Clone)]
pub struct Commit {
    pub number: i64,
    pub lsn: Lsn,
    pub changes: Changes,
    /// How many changes the disk had seen when the commit was appended, or acknowledged as durable.
    pub appended: usize,
    pub acknowledged: Option<usize>,
}

/// A transaction that was prepared.
#[derive(Clone)]
pub struct Prepare {
    pub changes: Changes,
    pub acknowledged: Option<usize>,
    /// When its rollback began: from then on it may be gone.
    pub rolled_back: Option<usize>,
}

/// The promise that holds at the examined moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// Transactions acknowledged before the disk had seen this many changes: a power cut with
    /// durability `sync`.
    Acknowledged(usize),
    /// Transactions appended by then: a kill.
    Appended(usize),
    /// Only consistency: a power cut with durability `async`.
    Consistent,
}

/// Everything known about one database.
#[derive(Clone, Default)]
pub struct Ledger {
    /// The effect of all transactions known to have survived, and their numbers.
    pub base: Rows,
    pub survived: BTreeSet<i64>,
    /// Since then, in any order.
    pub commits: Vec<Commit>,
    pub prepared: BTreeMap<i64, Prepare>,
    pub next_number: i64,
}

/// The state after an opening.
pub struct Found {
    /// Transactions in doubt, and the rows that each holds, if the engine reports them.
    pub doubts: BTreeMap<i64, Option<BTreeSet<i64>>>,
    /// The numbers in the history, sorted, without those of transactions in doubt.
    pub history: Vec<i64>,
    pub accounts: Rows,
    /// Those transactions in doubt of which the rows show the new values.
    pub shown: BTreeSet<i64>,
}

/// The result of an opening that keeps the promises.
pub struct Settled {
    /// The ledger for the next life.
    pub ledger: Ledger,
    pub in_doubt: BTreeMap<i64, Txn>,
}

/// Applies changes to rows.
pub fn apply(rows: &mut Rows, changes: &Changes) {
    for (id, now) in changes {
        match now {
            Some(row) => drop(rows.insert(*id, row.clone())),
            None => drop(rows.remove(id)),
        }
    }
}

impl Promise {
    fn covers(self, appended: Option<usize>, acknowledged: Option<usize>) -> bool {
        match self {
            Promise::Acknowledged(at) => acknowledged.is_some_and(|a| a <= at),
            Promise::Appended(at) => appended.is_some_and(|a| a <= at),
            Promise::Consistent => false,
        }
    }

    fn position(self) -> usize {
        match self {
            Promise::Acknowledged(at) | Promise::Appended(at) => at,
            Promise::Consistent => usize::MAX,
        }
    }
}

impl Ledger {
    /// Compares the state after an opening with the promises.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn settle(&self, store: &Store, recovered: Recovered, promise: Promise) -> Result<Settled, Flaw> {
        let doubts = self.doubts(recovered)?;
        let mut history = table::history(store)?;
        history.retain(|n| !doubts.contains_key(n));
        store.check()?;
        let found = Found {
            doubts: doubts.iter().map(|(n, (_, ids))| (*n, Some(ids.clone()))).collect(),
            shown: doubts.keys().copied().collect(),
            history,
            accounts: table::accounts(store)?,
        };
        let ledger = self.compare(&found, promise)?;
        Ok(Settled { ledger, in_doubt: doubts.into_iter().map(|(n, (txn, _))| (n, txn)).collect() })
    }

    /// As [`Ledger::settle`], for any engine; returns the ledger for the next life.
    ///
    /// # Errors
    /// The first promise that is broken.
    pub fn compare(&self, found: &Found, promise: Promise) -> Result<Ledger, Flaw> {
        if let Some(twice) = found.history.windows(2).find(|w| w[0] == w[1]) {
            return Err(Flaw::Raised(vec![twice[0]]));
        }
        let there: BTreeSet<i64> = found.history.iter().copied().collect();
        let mut ledger = self.survivors(&there, promise)?;
        let raised: Vec<i64> = there.difference(&ledger.survived).copied().collect();
        if !raised.is_empty() {
            return Err(Flaw::Raised(raised));
        }
        if let Some(lost) = ledger.survived.difference(&there).next() {
            return Err(Flaw::Lost(*lost));
        }
        self.prepares(&mut ledger, &found.doubts, promise)?;
        let mut visible = ledger.base.clone();
        let shown = ledger.prepared.iter().filter(|(n, _)| found.shown.contains(n));
        shown.for_each(|(_, p)| apply(&mut visible, &p.changes));
        differ(&found.accounts, &visible)?;
        Ok(ledger)
    }

    fn doubts(&self, recovered: Recovered) -> Result<BTreeMap<i64, (Txn, BTreeSet<i64>)>, Flaw> {
        let mut doubts = BTreeMap::new();
        for doubt in recovered.in_doubt {
            let note = doubt.note.as_slice().try_into();
            let number = note.map(i64::from_le_bytes).map_err(|_| Flaw::Other("a note is garbled".into()))?;
            let keys = doubt.touched.iter().filter(|t| t.index == ACCOUNTS);
            let ids = keys.filter_map(|t| table::id_of(&t.key)).collect();
            doubts.insert(number, (doubt.txn, ids));
        }
        Ok(doubts)
    }

    /// This ledger with the surviving commits in its base.
    fn survivors(&self, found: &BTreeSet<i64>, promise: Promise) -> Result<Ledger, Flaw> {
        let mut commits: Vec<&Commit> = self.commits.iter().collect();
        // Commits that became durable together keep the order in which they were entered, which is
        // their order in the log.
        commits.sort_by_key(|c| c.lsn);
        let mut after = Ledger { commits: Vec::new(), ..self.clone() };
        let (mut lost, mut last) = (None, None);
        for c in commits {
            if found.contains(&c.number) {
                if let Some(earlier) = lost {
                    return Err(Flaw::Hole { earlier, later: c.number });
                }
                last = Some(c);
                apply(&mut after.base, &c.changes);
                after.survived.insert(c.number);
                after.prepared.remove(&c.number);
            } else {
                lost = Some(c.number);
                if let Some(last) = last.filter(|last| last.lsn == c.lsn && c.lsn != Lsn(u64::MAX)) {
                    return Err(Flaw::Hole { earlier: c.number, later: last.number });
                }
                if promise.covers(Some(c.appended), c.acknowledged) {
                    return Err(Flaw::Lost(c.number));
                }
            }
        }
        Ok(after)
    }

    fn prepares(
        &self,
        after: &mut Ledger,
        doubts: &BTreeMap<i64, Option<BTreeSet<i64>>>,
        promise: Promise,
    ) -> Result<(), Flaw> {
        for (&number, prepare) in &after.prepared {
            let there = doubts.contains_key(&number);
            let gone = prepare.rolled_back.is_some_and(|at| at <= promise.position());
            if !there && !gone && promise.covers(prepare.acknowledged, prepare.acknowledged) {
                return Err(Flaw::Doubt { number, what: "its vote was given, and it is lost".into() });
            }
        }
        for (&number, ids) in doubts {
            let doubt = |what| Flaw::Doubt { number, what };
            let known = after.prepared.get_mut(&number).ok_or_else(|| doubt("it was not prepared".into()))?;
            let is_missing = |id: &&i64| ids.as_ref().is_some_and(|ids| !ids.contains(id));
            let missing: Vec<_> = known.changes.keys().filter(is_missing).collect();
            if !missing.is_empty() {
                return Err(doubt(format!("it must lock {missing:?} again, and was told {ids:?}")));
            }
            (known.rolled_back, known.acknowledged) = (None, Some(0));
        }
        after.prepared.retain(|number, _| doubts.contains_key(number));
        Ok(())
    }
}

fn differ(found: &Rows, expected: &Rows) -> Result<(), Flaw> {
    let ids: BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    match ids.into_iter().find(|id| found.get(id) != expected.get(id)) {
        None => Ok(()),
        Some(id) => {
            let (is, must) = (found.get(id), expected.get(id));
            Err(Flaw::Differs(format!("row {id} is {is:?} and must be {must:?}")))
        }
    }
}
