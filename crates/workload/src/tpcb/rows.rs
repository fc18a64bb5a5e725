//! The four tables, their rows, and the load: all balances are 0, and HISTORY is empty.

use super::{Padding, TpcbOptions, TpcbRequest};
use base::{Key, TableId};
use txn::schema::{Column, Schema, TableDef, Type};
use txn::{Abort, Access, Inserted, RowBuf};

pub const BRANCH: TableId = TableId(1);
pub const TELLER: TableId = TableId(2);
pub const ACCOUNT: TableId = TableId(3);
pub const HISTORY: TableId = TableId(4);

/// The columns of BRANCH, TELLER and ACCOUNT: id, branch, balance, filler. The branch column of
/// BRANCH repeats the id, so that the three have one layout.
pub(crate) const ID: u16 = 0;
pub(crate) const HOME: u16 = 1;
pub(crate) const BALANCE: u16 = 2;
const FILLER: u16 = 3;

/// The specified minimum.
const ROW_BYTES: u16 = 100;
/// More than half of an 8 KiB page.
const PADDED_BYTES: u16 = 4_200;

/// The columns of HISTORY, eight bytes each, and a filler up to the specified 50 bytes.
pub(crate) mod history {
    pub const ACCOUNT: u16 = 0;
    pub const TELLER: u16 = 1;
    pub const BRANCH: u16 = 2;
    pub const DELTA: u16 = 3;
    pub const REQUEST: u16 = 5;
    pub const BYTES: usize = 50;
}

/// Accounts per loading transaction.
const ACCOUNTS_PER_PART: u32 = 1_000;

#[inline]
pub(crate) fn key(id: u64) -> Key {
    Key::new().i64(id as i64)
}

fn balances(id: TableId, name: &str, domain: u64, row_bytes: u16) -> TableDef {
    let columns = vec![
        Column::new(&format!("{}_ID", &name[..1]), Type::I64),
        Column::new("HOME_B_ID", Type::I64),
        Column::new(&format!("{}_BALANCE", &name[..1]), Type::I64),
        Column::new("FILLER", Type::Char(row_bytes - 24)),
    ];
    TableDef::new(id, name, columns, &[ID], domain)
}

fn history_table(domain: u64) -> TableDef {
    let mut columns: Vec<_> = ["A_ID", "T_ID", "B_ID", "DELTA", "TIME_STAMP", "REQUEST"]
        .map(|name| Column::new(name, Type::I64))
        .into_iter()
        .collect();
    columns.push(Column::new("FILLER", Type::Char(history::BYTES as u16 - 48)));
    TableDef::new(HISTORY, "HISTORY", columns, &[], domain)
}

pub(super) fn schema(options: &TpcbOptions) -> Schema {
    let branches = u64::from(options.branches);
    let hot_bytes = match options.padding {
        Padding::None => ROW_BYTES,
        Padding::Page => PADDED_BYTES,
    };
    Schema {
        tables: vec![
            balances(BRANCH, "BRANCH", branches, hot_bytes),
            balances(TELLER, "TELLER", branches * u64::from(options.tellers), hot_bytes),
            balances(ACCOUNT, "ACCOUNT", branches * u64::from(options.accounts), ROW_BYTES),
            history_table(branches),
        ],
    }
}

/// A row of HISTORY. All its columns have a fixed length and are not nullable, so a row is their
/// bytes side by side; a test compares this with [`RowBuf`].
#[inline]
pub fn history_row(request: &TpcbRequest) -> [u8; history::BYTES] {
    let mut row = [b' '; history::BYTES];
    let columns = [
        request.account,
        request.teller,
        u64::from(request.branch),
        request.delta as u64,
        u64::from(request.time_stamp),
        request.request,
    ];
    for (place, value) in row.chunks_exact_mut(8).zip(columns) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    row
}

pub(super) fn parts(options: &TpcbOptions) -> u32 {
    1 + options.accounts.div_ceil(ACCOUNTS_PER_PART)
}

/// Part 0 is the branch and its tellers; the other parts are ranges of accounts.
pub(super) async fn load<A: Access>(
    options: &TpcbOptions,
    branch: u64,
    part: u32,
    access: &mut A,
) -> Result<(), Abort> {
    let schema = schema(options);
    let table = |id| schema.table(id).expect("a table of this schema");
    let Some(part) = part.checked_sub(1) else {
        insert(table(BRANCH), branch, branch..branch + 1, access).await?;
        let first = branch * u64::from(options.tellers);
        return insert(table(TELLER), branch, first..first + u64::from(options.tellers), access).await;
    };
    let first = branch * u64::from(options.accounts);
    let low = part * ACCOUNTS_PER_PART;
    let high = options.accounts.min(low + ACCOUNTS_PER_PART);
    insert(table(ACCOUNT), branch, first + u64::from(low)..first + u64::from(high), access).await
}

async fn insert<A: Access>(
    table: &TableDef,
    branch: u64,
    ids: std::ops::Range<u64>,
    access: &mut A,
) -> Result<(), Abort> {
    let mut buf = RowBuf::new(table);
    for id in ids {
        let mut row = buf.start();
        row.set_int(ID, id as i64);
        row.set_int(HOME, branch as i64);
        debug_assert!(row.row().bytes(FILLER).iter().all(|&b| b == b' '));
        if access.insert(table.id, &key(id), buf.bytes()).await? == Inserted::Exists {
            return Err(Abort::BadRequest);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_row_is_what_the_row_builder_makes() {
        let request = TpcbRequest {
            request: u64::MAX - 12,
            time_stamp: 12,
            branch: 3,
            teller: 31,
            account: 300_001,
            delta: -999_999,
        };
        let mut buf = RowBuf::new(&history_table(24));
        let mut row = buf.start();
        for (column, value) in [300_001, 31, 3, -999_999, 12, -13].into_iter().enumerate() {
            row.set_int(column as u16, value);
        }
        assert_eq!(buf.bytes(), history_row(&request));
    }

    #[test]
    fn rows_have_the_specified_lengths() {
        let lengths = |padding| {
            let schema = schema(&TpcbOptions { padding, ..TpcbOptions::new(1) });
            schema
                .tables
                .iter()
                .map(|t| {
                    let mut buf = RowBuf::new(t);
                    buf.start();
                    buf.bytes().len()
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(Padding::None), [100, 100, 100, 50]);
        let [branch, teller, account, _] = lengths(Padding::Page)[..] else { panic!("four tables") };
        assert!(branch > 4096 && teller > 4096 && account == 100);
    }
}
