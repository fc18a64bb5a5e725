//! TPC-B: a deposit at a teller updates the account, the teller and the branch, and inserts a
//! history row.
//!
//! ```text
//! branch b      BRANCH b     TELLER b*10 .. b*10+9     ACCOUNT b*100000 .. b*100000+99999
//!               HISTORY of its tellers
//!               \____________________________ logical site b ___________________________/
//! transaction   home:   [account], history, teller, branch     elsewhere (15 %):   account
//! ```
//!
//! Every id determines its branch, and a branch is a logical site, so one step does the home part.
//! It locks the branch row last and so for the shortest time, because every transaction of the
//! branch needs that row. A remote transaction issues two steps in its only phase, the remote one
//! first. So if both run at one instance, every transaction takes its locks in the order account,
//! teller, branch, and there is no deadlock.
//!
//! HISTORY rows contain the number of the request, so that the replies that a client received can
//! be checked after a crash. The specification's time stamp is logical here, the position of the
//! request in its stream, because this crate has no clock.

mod benchmark;
mod check;
mod generator;
mod rows;
mod steps;

pub use check::{Numbers, TpcbAudit, ledger_check};
pub use generator::TpcbGenerator;
pub use rows::{ACCOUNT, BRANCH, HISTORY, TELLER, history_row};
pub use steps::{HomePart, RemotePart};

use crate::spec::{SpecError, in_range};
use base::{SiteId, TableId};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::pin::pin;
use txn::schema::Schema;
use txn::step::{Route, StepId, Transaction};
use txn::workload::Verdict;
use txn::{Abort, Access, Workload};

/// The row of a remote transaction that lies in another branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RemoteRow {
    /// As specified.
    Account,
    /// As described in the islands papers. A branch is then not the sum of its tellers, so
    /// condition C1 does not apply.
    Teller,
}

/// Whether rows of BRANCH and TELLER are so long that each fills a page: engines with page latches
/// use this so that transactions of different branches do not contend for a latch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Padding {
    None,
    Page,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TpcbOptions {
    pub branches: u32,
    /// Tellers per branch.
    pub tellers: u32,
    /// Accounts per branch.
    pub accounts: u32,
    /// Remote transactions, in per cent.
    pub multisite: f64,
    pub remote: RemoteRow,
    pub padding: Padding,
}

impl TpcbOptions {
    /// The specified sizes: 10 tellers and 100,000 accounts per branch, 15 % remote accounts.
    pub fn new(branches: u32) -> TpcbOptions {
        TpcbOptions {
            branches,
            tellers: 10,
            accounts: 100_000,
            multisite: 15.0,
            remote: RemoteRow::Account,
            padding: Padding::None,
        }
    }
}

/// The inputs of the only transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TpcbRequest {
    /// Counts up within a stream, from a start that is hashed from the whole seed: with a hundred
    /// streams of ten million requests each, the chance that two requests in a database's life have
    /// the same number is about one in a billion.
    pub request: u64,
    /// The position of the request in its stream.
    pub time_stamp: u32,
    /// The home: its branch row and its history change.
    pub branch: u32,
    pub teller: u64,
    pub account: u64,
    pub delta: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TpcbReply {
    /// The balance after the transaction.
    pub account_balance: i64,
}

#[derive(Clone, Debug)]
pub struct Tpcb {
    options: TpcbOptions,
}

impl Tpcb {
    /// # Errors
    /// An option out of its range, named with the expected range.
    pub fn new(options: TpcbOptions) -> Result<Tpcb, SpecError> {
        in_range("scale", options.branches, 1..=65_536)?;
        in_range("tellers", options.tellers, 1..=1_000)?;
        in_range("accounts", options.accounts, 1..=10_000_000)?;
        in_range("multisite", options.multisite, 0.0..=100.0)?;
        Ok(Tpcb { options })
    }

    pub fn options(&self) -> &TpcbOptions {
        &self.options
    }

    /// The row of the request that lies in another branch, if one does.
    ///
    /// # Errors
    /// [`Abort::BadRequest`] for values that no generator draws: a request from the wire may
    /// contain anything.
    #[inline]
    fn remote_row(&self, request: &TpcbRequest) -> Result<Option<RemoteRow>, Abort> {
        let (home, branches) = (u64::from(request.branch), u64::from(self.options.branches));
        let of_teller = request.teller / u64::from(self.options.tellers);
        let of_account = request.account / u64::from(self.options.accounts);
        if home.max(of_teller).max(of_account) >= branches {
            return Err(Abort::BadRequest);
        }
        match (of_account == home, of_teller == home) {
            (true, true) => Ok(None),
            (false, true) => Ok(Some(RemoteRow::Account)),
            (true, false) => Ok(Some(RemoteRow::Teller)),
            (false, false) => Err(Abort::BadRequest),
        }
    }
}

impl Workload for Tpcb {
    type Request = TpcbRequest;
    type Reply = TpcbReply;
    type Generator = TpcbGenerator;
    type Audit = TpcbAudit;

    fn name(&self) -> String {
        "tpcb".into()
    }

    fn schema(&self) -> Schema {
        rows::schema(&self.options)
    }

    fn sites(&self) -> u32 {
        self.options.branches
    }

    async fn run<T: Transaction>(&self, request: &TpcbRequest, txn: &mut T) -> Result<TpcbReply, Abort> {
        let remote = self.remote_row(request)?;
        let home = HomePart { request: *request, remote };
        let account_balance = match remote {
            None => pin!(txn.last(home)).await?,
            Some(RemoteRow::Account) => {
                txn.last((RemotePart::account(request.account, request.delta), home)).await?.0
            }
            Some(RemoteRow::Teller) => {
                txn.last((RemotePart::teller(request.teller, request.delta), home)).await?.1
            }
        };
        Ok(TpcbReply { account_balance })
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; HomePart, RemotePart)
    }

    fn routes(&self, request: &TpcbRequest, visit: &mut dyn FnMut(Route)) {
        visit(Route { table: BRANCH, key: u64::from(request.branch) });
        match self.remote_row(request) {
            Ok(Some(RemoteRow::Account)) => visit(Route { table: ACCOUNT, key: request.account }),
            Ok(Some(RemoteRow::Teller)) => visit(Route { table: TELLER, key: request.teller }),
            Ok(None) | Err(_) => {}
        }
    }

    #[inline]
    fn wants(&self, request: &TpcbRequest, visit: &mut impl FnMut(TableId, &[u8])) {
        visit(ACCOUNT, &rows::key(request.account));
    }

    fn kind(&self, _: &TpcbRequest) -> &'static str {
        "deposit"
    }

    fn generator(&self, seed: u64, sites: Range<u32>) -> TpcbGenerator {
        TpcbGenerator::new(self.clone(), seed, sites)
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        rows::parts(&self.options)
    }

    async fn load<A: Access>(&self, site: SiteId, part: u32, access: &mut A) -> Result<(), Abort> {
        rows::load(&self.options, u64::from(site.0), part, access).await
    }

    async fn audit<A: Access>(&self, sites: Range<u32>, access: &mut A) -> Result<TpcbAudit, Abort> {
        check::audit(&self.options, sites, access).await
    }

    fn judge(&self, audits: Vec<TpcbAudit>, committed: Option<u64>) -> Verdict {
        check::judge(&self.options, &audits, committed)
    }

    fn ledger_id(&self, request: &TpcbRequest) -> Option<u64> {
        Some(request.request)
    }

    fn judge_ledger(&self, audits: &[TpcbAudit], acknowledged: &[u64], unknown: &[u64]) -> Verdict {
        ledger_check(audits, acknowledged, unknown)
    }
}
