//! Procedures in Rust: steps, statements, errors, many callers, many islands.

use crate::DESIGNS;
use atoll::{
    Database, Design, Direction, Error, Failure, Flow, Options, Place, Procedure, Procedures, Rows, Step, Txn,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Add {
    account: i64,
    amount: i64,
}

impl Step for Add {
    const NAME: &'static str = "add";
    type Output = i64;

    fn place(&self) -> Place {
        Place::new("account", self.account)
    }

    async fn run(&self, rows: &mut Rows<'_>) -> Result<i64, Failure> {
        let changed = rows.update("account", self.account, |row| {
            let balance = row.get::<i64>("balance")? + self.amount;
            row.set("balance", balance);
            Ok(balance)
        });
        changed.await?.ok_or_else(|| Failure::refuse(format!("no account {}", self.account)))
    }
}

#[derive(Serialize, Deserialize)]
struct Transfer {
    from: i64,
    to: i64,
    amount: i64,
}

impl Procedure for Transfer {
    const NAME: &'static str = "transfer";
    const TABLES: &'static [&'static str] = &["account"];
    type Output = (i64, i64);

    async fn run(&self, txn: &mut Txn<'_>) -> Result<(i64, i64), Failure> {
        // In one order, so that two transfers do not wait for each other.
        let (from, to) =
            (Add { account: self.from, amount: -self.amount }, Add { account: self.to, amount: self.amount });
        if self.from <= self.to {
            return txn.last((from, to)).await;
        }
        txn.last((to, from)).await.map(|(to, from)| (from, to))
    }
}

/// Books an entry by a step, and counts it by a statement.
#[derive(Serialize, Deserialize)]
struct Book {
    account: i64,
    number: i64,
}

impl Step for Book {
    const NAME: &'static str = "book";
    type Output = (i64, bool);

    fn place(&self) -> Place {
        Place::new("entry", self.account)
    }

    async fn run(&self, rows: &mut Rows<'_>) -> Result<(i64, bool), Failure> {
        rows.insert("entry", |row| {
            row.set("account", self.account);
            row.set("number", self.number);
            row.set("what", "booked");
        })
        .await?;
        let mut greatest = None;
        rows.scan("entry", self.account, Direction::Backward, |row| {
            greatest = Some(row.get::<i64>("number")?);
            Ok(Flow::Enough)
        })
        .await?;
        let there = rows.get("entry", (self.account, self.number), |row| row.get::<String>("what")).await?;
        let deleted = rows.delete("entry", (self.account, self.number - 2)).await?;
        assert_eq!(there.as_deref(), Some("booked"));
        Ok((greatest.unwrap_or(-1), deleted))
    }
}

#[derive(Serialize, Deserialize)]
struct BookAndCount(i64, i64);

impl Procedure for BookAndCount {
    const NAME: &'static str = "book_and_count";
    const TABLES: &'static [&'static str] = &["entry"];
    const STATEMENTS: &'static [&'static str] = &[
        "UPDATE account SET balance = balance + 1 WHERE id = $1",
        "SELECT count(*) FROM entry WHERE account = $1",
    ];
    type Output = (i64, bool, i64);

    async fn run(&self, txn: &mut Txn<'_>) -> Result<Self::Output, Failure> {
        let (greatest, deleted) = txn.all(Book { account: self.0, number: self.1 }).await?;
        if txn.execute(0, self.0).await? != 1 {
            return Err(Failure::refuse("no such account"));
        }
        let counted = txn.query(1, self.0).await?;
        let [atoll::Value::Int(count)] = counted[0][..] else { return Err(Failure::refuse("no count")) };
        Ok((greatest, deleted, count))
    }
}

/// Fails in its second step, and swallows the error.
#[derive(Serialize, Deserialize)]
struct Careless;

impl Procedure for Careless {
    const NAME: &'static str = "careless";
    const TABLES: &'static [&'static str] = &["account"];
    type Output = ();

    async fn run(&self, txn: &mut Txn<'_>) -> Result<(), Failure> {
        txn.all(Add { account: 0, amount: 7 }).await?;
        let _ = txn.all(Add { account: -1, amount: 7 }).await;
        Ok(())
    }
}

/// A step that reaches for a row of another place.
#[derive(Serialize, Deserialize)]
struct Reach;

impl Step for Reach {
    const NAME: &'static str = "reach";
    type Output = ();

    fn place(&self) -> Place {
        Place::new("account", 0)
    }

    async fn run(&self, rows: &mut Rows<'_>) -> Result<(), Failure> {
        rows.get("account", 64, |_| Ok(())).await.map(drop)
    }
}

#[derive(Serialize, Deserialize)]
struct Reaching;

impl Procedure for Reaching {
    const NAME: &'static str = "reaching";
    const TABLES: &'static [&'static str] = &["account"];
    type Output = ();

    async fn run(&self, txn: &mut Txn<'_>) -> Result<(), Failure> {
        txn.last(Reach).await
    }
}

/// Is not registered.
#[derive(Serialize, Deserialize)]
struct Unknown;

impl Procedure for Unknown {
    const NAME: &'static str = "unknown";
    type Output = ();

    async fn run(&self, _: &mut Txn<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

fn open(design: Design, islands: u16) -> Database {
    let procedures = Procedures::new()
        .procedure::<Transfer>()
        .procedure::<BookAndCount>()
        .procedure::<Careless>()
        .procedure::<Reaching>()
        .step::<Add>()
        .step::<Book>()
        .step::<Reach>();
    let options = Options::new().design(design).islands(islands).workers(2).procedures(&procedures);
    let db = options.open_in_memory().unwrap();
    db.execute("CREATE TABLE account (id int8 PRIMARY KEY, balance int8 CHECK (balance >= 0))", ()).unwrap();
    db.execute("INSERT INTO account SELECT i * 64, 100 FROM generate_series(0, 7) AS i", ()).unwrap();
    db.execute(
        "CREATE TABLE entry (account int8, number int8, what text NOT NULL, PRIMARY KEY (account, number))",
        (),
    )
    .unwrap();
    db
}

fn sum(db: &Database) -> i64 {
    db.query_one("SELECT sum(balance)::int8 FROM account", ()).unwrap().at(0).unwrap()
}

fn state(error: Error) -> String {
    error.sqlstate().map_or_else(|| format!("{error:?}"), str::to_owned)
}

#[test]
fn transfers_of_many_threads_keep_the_sum_under_every_design() {
    for (design, islands) in DESIGNS {
        let db = open(design, islands);
        std::thread::scope(|scope| {
            for thread in 0..3i64 {
                let db = &db;
                scope.spawn(move || {
                    for i in 0..60i64 {
                        let (from, to) = ((i + thread) % 8 * 64, (i + thread + 3) % 8 * 64);
                        db.call(&Transfer { from, to, amount: 1 }).unwrap();
                    }
                });
            }
        });
        assert_eq!(sum(&db), 800, "{design}");
        assert_eq!(
            state(db.call(&Transfer { from: 0, to: 64, amount: 10_000 }).unwrap_err()),
            "23514",
            "{design}"
        );
        assert_eq!(state(db.call(&Transfer { from: 0, to: 1, amount: 1 }).unwrap_err()), "P0001", "{design}");
        assert_eq!(sum(&db), 800, "{design}");
    }
}

#[test]
fn steps_and_statements_see_each_other() {
    for (design, islands) in DESIGNS {
        let db = open(design, islands);
        assert_eq!(db.call(&BookAndCount(64, 1)).unwrap(), (1, false, 1), "{design}");
        assert_eq!(db.call(&BookAndCount(64, 2)).unwrap(), (2, false, 2), "{design}");
        assert_eq!(db.call(&BookAndCount(64, 3)).unwrap(), (3, true, 2), "{design}");
        assert_eq!(state(db.call(&BookAndCount(64, 3)).unwrap_err()), "23505", "{design}");
        assert_eq!(state(db.call(&BookAndCount(7, 1)).unwrap_err()), "P0001", "{design}");
        let left = db.query_one("SELECT count(*) FROM entry", ()).unwrap().at::<i64>(0).unwrap();
        assert_eq!((left, sum(&db)), (2, 803), "{design}");
    }
}

#[test]
fn a_transaction_whose_step_has_failed_has_no_effect_whatever_its_code_does() {
    for (design, islands) in DESIGNS {
        let db = open(design, islands);
        assert_eq!(state(db.call(&Careless).unwrap_err()), "P0001", "{design}");
        assert_eq!(sum(&db), 800, "{design}");
    }
}

#[test]
fn what_a_procedure_cannot_do_is_refused() {
    let db = open(Design::Conventional, 1);
    assert_eq!(state(db.call(&Reaching).unwrap_err()), "22023");
    assert_eq!(state(db.call(&Unknown).unwrap_err()), "42883");
    db.execute("CREATE INDEX ON entry (what)", ()).unwrap();
    let refused = db.call(&BookAndCount(64, 1)).unwrap_err();
    assert!(refused.to_string().contains("Use an INSERT statement"), "{refused}");
    db.execute("DROP TABLE entry", ()).unwrap();
    assert_eq!(state(db.call(&BookAndCount(64, 1)).unwrap_err()), "42P01");
    db.execute("ALTER TABLE account ADD COLUMN note text", ()).unwrap();
    assert_eq!(db.call(&Transfer { from: 0, to: 64, amount: 1 }).unwrap(), (99, 101));
}
