//! The consistency conditions of TPC-B, and the ledger.
//!
//! C1: the balance of a branch is the sum of its tellers'. C2: accounts, tellers and branches have
//! the same total. C3 and C4: the balance of each branch, teller and account is the sum of its
//! payments in HISTORY (all balances start at 0). C5: HISTORY has one row for each committed
//! transaction, and no request occurs twice. The history rows of an account lie at the homes of its
//! transactions, so an instance reports only the amounts that do not cancel at home; over all
//! instances they must cancel too. That condition detects a transaction that was applied in one
//! instance and lost in another.

use super::rows::{ACCOUNT, BALANCE, BRANCH, HISTORY, HOME, ID, TELLER, history};
use super::{RemoteRow, TpcbOptions};
use crate::findings::{Findings, check_cover};
use base::TableId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use txn::workload::Verdict;
use txn::{Abort, Access, Direction, Flow};

/// The findings of one instance. Sums are over the rows of this instance.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TpcbAudit {
    pub sites: Range<u32>,
    /// Balances by branch, ascending.
    pub branches: Vec<(u64, i64)>,
    /// Balances by teller, ascending.
    pub tellers: Vec<(u64, i64)>,
    pub accounts_total: i64,
    /// Sums of HISTORY.DELTA by B_ID, ascending.
    pub history_by_branch: Vec<(u64, i64)>,
    /// Sums of HISTORY.DELTA by T_ID, ascending.
    pub history_by_teller: Vec<(u64, i64)>,
    /// By account, ascending: its balance, if this instance has the account, minus the sum of
    /// HISTORY.DELTA by A_ID; only nonzero values.
    pub open_accounts: Vec<(u64, i64)>,
    /// The requests in HISTORY.
    pub requests: Numbers,
    /// Rows that are missing, foreign or damaged, one per line.
    pub damage: Vec<String>,
}

/// A multiset of numbers that mostly form runs, like the requests of a few streams.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Numbers {
    /// The first number and the length of each run, ascending and disjoint.
    runs: Vec<(u64, u64)>,
    /// Repeated numbers, once for each repetition.
    repeated: Vec<u64>,
}

impl Numbers {
    pub fn new(mut numbers: Vec<u64>) -> Numbers {
        numbers.sort_unstable();
        let mut all = Numbers::default();
        for n in numbers {
            match all.runs.last_mut() {
                Some((first, len)) if n - *first == *len => *len += 1,
                Some((first, len)) if n - *first < *len => all.repeated.push(n),
                _ => all.runs.push((n, 1)),
            }
        }
        all
    }

    /// The number of elements, with repetitions.
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|r| r.1).sum::<u64>() + self.repeated.len() as u64
    }

    /// All elements, with repetitions, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        let runs = self.runs.iter().flat_map(|&(first, len)| (0..len).map(move |i| first + i));
        runs.chain(self.repeated.iter().copied())
    }
}

/// The elements of all audits, ascending.
fn requests(audits: &[TpcbAudit]) -> Vec<u64> {
    let mut all: Vec<u64> = audits.iter().flat_map(|a| a.requests.iter()).collect();
    all.sort_unstable();
    all
}

/// Sums by id.
type Sums = BTreeMap<u64, i64>;

fn add(sums: &mut Sums, id: u64, value: i64) {
    let sum = sums.entry(id).or_default();
    *sum = sum.wrapping_add(value);
}

/// Passes every id and balance of `table` to `found`, and notes every id that is missing, doubled
/// or foreign to this instance.
async fn read_balances<A: Access>(
    (table, name): (TableId, &str),
    sites: &Range<u32>,
    per_branch: u32,
    (damage, access): (&mut Findings, &mut A),
    mut found: impl FnMut(u64, i64),
) -> Result<(), Abort> {
    let per_branch = u64::from(per_branch);
    let (mut next, end) = (u64::from(sites.start) * per_branch, u64::from(sites.end) * per_branch);
    access
        .scan(table, txn::Range::ALL, Direction::Forward, |_, row| {
            let (id, home) = (row.int(ID) as u64, row.int(HOME) as u64);
            if id != next {
                damage.add(|| format!("{name}: expected id {next}, found {id}"));
            }
            if home != id / per_branch {
                damage.add(|| format!("{name} {id}: expected branch {}, found {home}", id / per_branch));
            }
            found(id, row.int(BALANCE));
            next = id.wrapping_add(1);
            Flow::More
        })
        .await?;
    damage.expect(&format!("{name}: end of the ids"), end, next);
    Ok(())
}

#[derive(Default)]
struct History {
    by_branch: Sums,
    by_teller: Sums,
    by_account: Sums,
    requests: Vec<u64>,
}

async fn read_history<A: Access>(access: &mut A) -> Result<History, Abort> {
    let mut all = History::default();
    access
        .scan(HISTORY, txn::Range::ALL, Direction::Forward, |_, row| {
            let delta = row.int(history::DELTA);
            add(&mut all.by_branch, row.int(history::BRANCH) as u64, delta);
            add(&mut all.by_teller, row.int(history::TELLER) as u64, delta);
            add(&mut all.by_account, row.int(history::ACCOUNT) as u64, delta);
            all.requests.push(row.int(history::REQUEST) as u64);
            Flow::More
        })
        .await?;
    Ok(all)
}

pub(super) async fn audit<A: Access>(
    options: &TpcbOptions,
    sites: Range<u32>,
    access: &mut A,
) -> Result<TpcbAudit, Abort> {
    let mut damage = Findings::default();
    let (mut branches, mut tellers, mut accounts_total) = (vec![], vec![], 0i64);
    let branch = |id, balance| branches.push((id, balance));
    read_balances((BRANCH, "BRANCH"), &sites, 1, (&mut damage, access), branch).await?;
    let teller = |id, balance| tellers.push((id, balance));
    read_balances((TELLER, "TELLER"), &sites, options.tellers, (&mut damage, access), teller).await?;
    let history = read_history(access).await?;
    let mut open: Sums = history.by_account.iter().map(|(&id, &sum)| (id, sum.wrapping_neg())).collect();
    let account = |id, balance| {
        if balance != 0 {
            add(&mut open, id, balance);
            accounts_total = accounts_total.wrapping_add(balance);
        }
    };
    read_balances((ACCOUNT, "ACCOUNT"), &sites, options.accounts, (&mut damage, access), account).await?;
    Ok(TpcbAudit {
        sites,
        branches,
        tellers,
        accounts_total,
        history_by_branch: history.by_branch.into_iter().collect(),
        history_by_teller: history.by_teller.into_iter().collect(),
        open_accounts: open.into_iter().filter(|a| a.1 != 0).collect(),
        requests: Numbers::new(history.requests),
        damage: damage.into_lines(),
    })
}

/// The sums of all instances, added up.
fn merged<'a>(parts: impl Iterator<Item = &'a Vec<(u64, i64)>>) -> Sums {
    let mut all = Sums::new();
    parts.flatten().for_each(|&(id, value)| add(&mut all, id, value));
    all
}

/// Notes every id with different sums; an absent id counts as 0.
fn compare(what: &str, expected: &Sums, found: &Sums, findings: &mut Findings) {
    let ids = expected.keys().chain(found.keys().filter(|id| !expected.contains_key(id)));
    for id in ids {
        let of = |sums: &Sums| sums.get(id).copied().unwrap_or(0);
        if of(expected) != of(found) {
            findings.add(|| format!("{what} {id}: expected {}, found {}", of(expected), of(found)));
        }
    }
}

pub(super) fn judge(options: &TpcbOptions, audits: &[TpcbAudit], committed: Option<u64>) -> Verdict {
    let mut findings = Findings::default();
    check_cover(audits.iter().map(|a| a.sites.clone()), options.branches, &mut findings);
    audits.iter().flat_map(|a| &a.damage).for_each(|line| findings.add(|| line.clone()));

    let branches = merged(audits.iter().map(|a| &a.branches));
    let tellers = merged(audits.iter().map(|a| &a.tellers));
    if options.remote == RemoteRow::Account {
        let mut of_tellers = Sums::new();
        tellers.iter().for_each(|(&id, &v)| add(&mut of_tellers, id / u64::from(options.tellers), v));
        compare("C1: balance against that of its tellers, branch", &of_tellers, &branches, &mut findings);
    }
    let total = |sums: &Sums| sums.values().fold(0i64, |t, v| t.wrapping_add(*v));
    let accounts = audits.iter().fold(0i64, |t, a| t.wrapping_add(a.accounts_total));
    findings.expect("C2: all tellers against all branches", total(&branches), total(&tellers));
    findings.expect("C2: all accounts against all branches", total(&branches), accounts);

    let by_branch = merged(audits.iter().map(|a| &a.history_by_branch));
    let by_teller = merged(audits.iter().map(|a| &a.history_by_teller));
    let open = merged(audits.iter().map(|a| &a.open_accounts));
    compare("C3: balance against HISTORY, branch", &by_branch, &branches, &mut findings);
    compare("C4: balance against HISTORY, teller", &by_teller, &tellers, &mut findings);
    compare("C4: balance less HISTORY, account", &Sums::new(), &open, &mut findings);

    if let Some(n) = committed {
        findings.expect("C5: rows of HISTORY", n, audits.iter().map(|a| a.requests.count()).sum());
    }
    for pair in requests(audits).windows(2).filter(|p| p[0] == p[1]) {
        findings.add(|| format!("C5: request {} is in HISTORY more than once", pair[0]));
    }
    findings.into_verdict()
}

/// Compares a client's ledger with HISTORY: each request in `acknowledged` must be there exactly
/// once, each in `unknown` (sent, but never answered) at most once, and no other. Condition C4
/// checks that their accounts were paid too.
pub fn ledger_check(audits: &[TpcbAudit], acknowledged: &[u64], unknown: &[u64]) -> Verdict {
    let mut times: BTreeMap<u64, u32> = BTreeMap::new();
    audits.iter().flat_map(|a| a.requests.iter()).for_each(|n| *times.entry(n).or_default() += 1);
    let mut findings = Findings::default();
    for &n in acknowledged {
        match times.remove(&n) {
            Some(1) => {}
            Some(k) => {
                findings.add(|| format!("ledger: request {n} was acknowledged once and applied {k} times"))
            }
            None => findings.add(|| format!("ledger: request {n} was acknowledged and is lost")),
        }
    }
    for n in unknown {
        if let Some(k @ 2..) = times.remove(n) {
            findings.add(|| format!("ledger: request {n}, never answered, was applied {k} times"));
        }
    }
    for n in times.keys() {
        findings.add(|| format!("ledger: request {n} is in HISTORY but was never sent, or was refused"));
    }
    findings.into_verdict()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_number_as_often_as_it_came() {
        let given = vec![5, 6, 7, 7, 7, 9, 1 << 40, (1 << 40) + 1, 0, u64::MAX];
        let numbers = Numbers::new(given.clone());
        assert_eq!((numbers.count(), numbers.runs.len(), numbers.repeated.len()), (10, 5, 2));
        let (mut a, mut b) = (given, numbers.iter().collect::<Vec<_>>());
        a.sort_unstable();
        b.sort_unstable();
        assert_eq!(a, b);
    }

    fn audit_of(requests: &[u64]) -> TpcbAudit {
        TpcbAudit {
            sites: 0..1,
            branches: vec![],
            tellers: vec![],
            accounts_total: 0,
            history_by_branch: vec![],
            history_by_teller: vec![],
            open_accounts: vec![],
            requests: Numbers::new(requests.to_vec()),
            damage: vec![],
        }
    }

    #[test]
    fn the_ledger_wants_all_it_was_told_and_nothing_more() {
        let audits = [audit_of(&[1, 2, 3]), audit_of(&[10, 11])];
        assert!(ledger_check(&audits, &[1, 2, 10, 11], &[3, 4]).holds());
        let violation = |acknowledged: &[u64], unknown: &[u64]| {
            ledger_check(&audits, acknowledged, unknown).violations.join("; ")
        };
        assert!(violation(&[1, 2, 3, 10, 11, 12], &[]).contains("request 12 was acknowledged and is lost"));
        assert!(violation(&[1, 2, 3, 10], &[]).contains("request 11 is in HISTORY but was never sent"));
        let doubled = [audit_of(&[1, 1]), audit_of(&[2, 3]), audit_of(&[3])];
        assert_eq!(ledger_check(&doubled, &[1, 2], &[3]).violations.len(), 2);
    }
}
