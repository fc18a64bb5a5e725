//! The two steps of a deposit: the home part, and the row in another branch.

use super::rows::{ACCOUNT, BALANCE, BRANCH, HISTORY, TELLER, history_row, key};
use super::{RemoteRow, TpcbRequest};
use base::TableId;
use serde::{Deserialize, Serialize};
use std::pin::pin;
use txn::step::{Route, Step, StepId};
use txn::{Abort, Access};

/// Updates account and teller, except for the remote one, inserts the history row, and updates the
/// branch. Returns the account's new balance, 0 if it is remote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HomePart {
    pub request: TpcbRequest,
    /// The row that a [`RemotePart`] updates.
    pub remote: Option<RemoteRow>,
}

/// Updates one account or teller. Returns its new balance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemotePart {
    pub row: RemoteRow,
    pub id: u64,
    pub delta: i64,
}

impl RemotePart {
    pub(super) fn account(id: u64, delta: i64) -> RemotePart {
        RemotePart { row: RemoteRow::Account, id, delta }
    }

    pub(super) fn teller(id: u64, delta: i64) -> RemotePart {
        RemotePart { row: RemoteRow::Teller, id, delta }
    }

    fn table(&self) -> TableId {
        match self.row {
            RemoteRow::Account => ACCOUNT,
            RemoteRow::Teller => TELLER,
        }
    }
}

/// Adds to a balance; returns the new balance.
async fn add<A: Access>(access: &mut A, table: TableId, id: u64, delta: i64) -> Result<i64, Abort> {
    let key = key(id);
    let update = access.update(table, &key, |row| {
        let balance = row.int(BALANCE).wrapping_add(delta);
        row.set_int(BALANCE, balance);
        balance
    });
    pin!(update).await?.ok_or(Abort::BadRequest)
}

impl Step for HomePart {
    const ID: StepId = 1;
    type Output = i64;

    fn route(&self) -> Route {
        Route { table: BRANCH, key: u64::from(self.request.branch) }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let r = &self.request;
        let mut account_balance = 0;
        if self.remote != Some(RemoteRow::Account) {
            account_balance = pin!(add(access, ACCOUNT, r.account, r.delta)).await?;
        }
        pin!(access.append(HISTORY, &history_row(r))).await?;
        if self.remote != Some(RemoteRow::Teller) {
            pin!(add(access, TELLER, r.teller, r.delta)).await?;
        }
        pin!(add(access, BRANCH, u64::from(r.branch), r.delta)).await?;
        Ok(account_balance)
    }
}

impl Step for RemotePart {
    const ID: StepId = 2;
    type Output = i64;

    fn route(&self) -> Route {
        Route { table: self.table(), key: self.id }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        pin!(add(access, self.table(), self.id, self.delta)).await
    }
}
