//! The bank: its tables, and a transfer as one procedure of three steps.

use atoll::{Database, Error, Failure, Place, Procedure, Procedures, Rows, Step, Table, Txn, Type};
use serde::{Deserialize, Serialize};

pub const ACCOUNTS: i64 = 1000;
/// What each account has at first.
pub const OPENING: i64 = 1_000_000;

pub fn create(db: &Database) -> Result<(), Error> {
    let account = Table::new("account").key("id", Type::Int8).column("balance", Type::Int8);
    db.create_table(&account.check("balance >= 0"))?;
    let booking = Table::new("booking").key("number", Type::Int8).column("amount", Type::Int8);
    db.create_table(&booking)?;
    db.execute(
        "INSERT INTO account SELECT i, $1::int8 FROM generate_series(0, $2) AS i",
        (OPENING, ACCOUNTS - 1),
    )?;
    Ok(())
}

/// What all accounts have together, at one moment.
pub fn total(db: &Database) -> Result<i64, Error> {
    db.snapshot(|snapshot| snapshot.query_one("SELECT sum(balance)::int8 FROM account", ())?.at(0))
}

/// What the instances of this program can run.
pub fn procedures() -> Procedures {
    Procedures::new().procedure::<Transfer>().step::<Add>().step::<Book>()
}

/// Moves money, and books it.
#[derive(Serialize, Deserialize)]
pub struct Transfer {
    number: i64,
    from: i64,
    to: i64,
    amount: i64,
}

impl Transfer {
    /// Two accounts and an amount that follow from the number.
    pub fn number(number: i64) -> Transfer {
        Transfer { number, from: number * 31 % ACCOUNTS, to: number * 17 % ACCOUNTS, amount: number % 10 }
    }
}

impl Procedure for Transfer {
    const NAME: &'static str = "transfer";
    const TABLES: &'static [&'static str] = &["account", "booking"];
    type Output = ();

    async fn run(&self, txn: &mut Txn<'_>) -> Result<(), Failure> {
        let mut adds = vec![
            Add { account: self.from, amount: -self.amount },
            Add { account: self.to, amount: self.amount },
        ];
        // Transfers that meet at two accounts lock them in the same order.
        adds.sort_by_key(|add| add.account);
        txn.last((adds, Book { number: self.number, amount: self.amount })).await.map(drop)
    }
}

/// Adds to an account, where it is.
#[derive(Serialize, Deserialize)]
struct Add {
    account: i64,
    amount: i64,
}

impl Step for Add {
    const NAME: &'static str = "add";
    type Output = ();

    fn place(&self) -> Place {
        Place::new("account", self.account)
    }

    async fn run(&self, rows: &mut Rows<'_>) -> Result<(), Failure> {
        let changed = rows.update("account", self.account, |row| {
            let balance: i64 = row.get("balance")?;
            row.set("balance", balance + self.amount);
            Ok(())
        });
        changed.await?.ok_or_else(|| Failure::refuse(format!("there is no account {}", self.account)))
    }
}

/// Remembers a transfer.
#[derive(Serialize, Deserialize)]
struct Book {
    number: i64,
    amount: i64,
}

impl Step for Book {
    const NAME: &'static str = "book";
    type Output = ();

    fn place(&self) -> Place {
        Place::new("booking", self.number)
    }

    async fn run(&self, rows: &mut Rows<'_>) -> Result<(), Failure> {
        let insert = rows.insert("booking", |row| {
            row.set("number", self.number);
            row.set("amount", self.amount);
        });
        insert.await
    }
}
