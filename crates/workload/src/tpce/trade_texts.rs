//! The texts that Trade-Update changes.

use super::ops::{found, key};
use super::rows::*;
use super::trade_detail::TradeDetail;
use serde::{Deserialize, Serialize};
use txn::{Abort, Access, RowMut};

/// The text that is changed of each trade.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Change {
    Nothing,
    /// Frame 1: T_EXEC_NAME.
    Executor,
    /// Frame 2: SE_CASH_TYPE.
    CashType,
    /// Frame 3: CT_NAME, made of the type, the quantity and this name of the security.
    CashName(String),
}

impl Change {
    #[must_use]
    pub(super) fn with_security(self, name: &str) -> Change {
        if let Change::CashName(_) = self { Change::CashName(name.into()) } else { self }
    }
}

/// T_EXEC_NAME after an update: " X " in it becomes a space; otherwise its spaces become " X ".
pub(super) fn other_executor(name: &str) -> String {
    if name.contains(" X ") { name.replace(" X ", " ") } else { name.replace(' ', " X ") }
}

/// SE_CASH_TYPE after an update.
pub(super) fn other_cash_type(is_cash: bool, old: &str) -> &'static str {
    match (is_cash, old) {
        (true, "Cash Account") => "Cash",
        (true, _) => "Cash Account",
        (false, "Margin Account") => "Margin",
        (false, _) => "Margin Account",
    }
}

/// Makes the change; `false` if the trade has no such text.
pub(super) async fn change<A: Access>(
    access: &mut A,
    site: u32,
    how: &Change,
    of: &mut TradeDetail,
    type_name: &str,
) -> Result<bool, Abort> {
    let key = key(site, [of.t]);
    match how {
        Change::Nothing => Ok(false),
        Change::Executor => {
            // Names of more than 49 bytes do not fit the column, and are cut.
            let mut name = other_executor(&of.executor);
            name.truncate(49);
            let set = |row: &mut RowMut<'_>| row.set_text(trade::T_EXEC_NAME, &name);
            found(access.update(TRADE, &key, set).await?)?;
            of.executor = name;
            Ok(true)
        }
        Change::CashType => {
            let set = |row: &mut RowMut<'_>| {
                let new = other_cash_type(of.is_cash, row.row().text(settlement::SE_CASH_TYPE));
                row.set_text(settlement::SE_CASH_TYPE, new);
            };
            Ok(access.update(SETTLEMENT, &key, set).await?.is_some())
        }
        Change::CashName(security) if of.is_cash => {
            let (quantity, type_name) = (of.quantity, type_name);
            let set = |row: &mut RowMut<'_>| {
                let old = row.row().text(cash_transaction::CT_NAME);
                let of = if old.contains(" shares of ") { "Shares of" } else { "shares of" };
                row.set_text(cash_transaction::CT_NAME, &format!("{type_name} {quantity} {of} {security}"));
            };
            Ok(access.update(CASH_TRANSACTION, &key, set).await?.is_some())
        }
        Change::CashName(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_undoes_the_one_before() {
        for name in ["Ann Lee", "Ann X Lee"] {
            assert_eq!(other_executor(&other_executor(name)), name);
        }
        assert_eq!(other_executor("Ann Lee"), "Ann X Lee");
        for (is_cash, old) in [(true, "Cash"), (true, "Cash Account"), (false, "Margin")] {
            assert_eq!(other_cash_type(is_cash, other_cash_type(is_cash, old)), old);
        }
    }
}
