//! Opening, SQL, transactions, closing.

use crate::{DESIGNS, in_memory};
use atoll::{Database, Design, Durability, Options, Table, Type, Value};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn every_design_stores_and_finds_rows_again() {
    for (design, islands) in DESIGNS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let options = Options::new().design(design).islands(islands).workers(2);
        let db = options.open(&path).unwrap();
        db.create_table(&Table::new("t").key("id", Type::Int8).column("name", Type::Text)).unwrap();
        for id in 0..200 {
            db.execute("INSERT INTO t VALUES ($1, $2)", (id, format!("row {id}"))).unwrap();
        }
        db.close().unwrap();
        let db = options.open(&path).unwrap();
        let rows = db.query("SELECT id, name FROM t WHERE id >= $1 ORDER BY id", 195).unwrap();
        let found: Vec<(i64, String)> =
            rows.iter().map(|row| (row.get("id").unwrap(), row.get("name").unwrap())).collect();
        let expected: Vec<(i64, String)> = (195..200).map(|id| (id, format!("row {id}"))).collect();
        assert_eq!(found, expected, "{design}");
    }
}

#[test]
fn values_of_all_types_come_back_as_they_were_given() {
    let db = Database::in_memory().unwrap();
    db.execute(
        "CREATE TABLE v (id int4 PRIMARY KEY, a bool, b int2, c float8, d numeric(10,2), e text, f bytea, g date, \
         h timestamptz, i uuid, j jsonb)",
        (),
    )
    .unwrap();
    let text = "INSERT INTO v VALUES (1, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let values = vec![
        Value::Bool(true),
        Value::Int(-7),
        Value::Float(0.1),
        Value::Text("12.345".into()),
        Value::Text("grüezi".into()),
        Value::Bytes(vec![0, 255]),
        Value::Text("2026-11-26".into()),
        Value::Timestamp(1_000_000),
        Value::Uuid([7; 16]),
        Value::Text(r#"{"a": 1}"#.into()),
    ];
    assert_eq!(db.execute(text, values).unwrap(), 1);
    let row = db.query_one("SELECT * FROM v", ()).unwrap();
    assert!(row.get::<bool>("a").unwrap());
    assert_eq!(row.get::<i16>("b").unwrap(), -7);
    assert_eq!(row.get::<f64>("c").unwrap(), 0.1);
    assert_eq!(row.get::<f64>("d").unwrap(), 12.35);
    assert_eq!(row.get::<String>("e").unwrap(), "grüezi");
    assert_eq!(row.get::<Vec<u8>>("f").unwrap(), [0, 255]);
    assert_eq!(row.get::<Value>("g").unwrap(), Value::Date(9826));
    assert_eq!(row.get::<Value>("h").unwrap(), Value::Timestamp(1_000_000));
    assert_eq!(row.get::<[u8; 16]>("i").unwrap(), [7; 16]);
    assert_eq!(db.query_one("SELECT j->>'a' AS a FROM v", ()).unwrap().get::<String>("a").unwrap(), "1");
    db.execute("UPDATE v SET e = $1", (None::<String>,)).unwrap();
    assert_eq!(db.query_one("SELECT e FROM v", ()).unwrap().get::<Option<String>>("e").unwrap(), None);
}

/// Transfers and sums at the same time: no sum sees half of a transfer.
#[test]
fn snapshots_are_of_one_moment() {
    for (design, islands) in DESIGNS {
        let db = in_memory(design, islands);
        db.execute("CREATE TABLE account (id int8 PRIMARY KEY, balance int8)", ()).unwrap();
        db.execute("INSERT INTO account SELECT i * 64, 100 FROM generate_series(0, 7) AS i", ()).unwrap();
        let stops = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..40i64 {
                    let (from, to) = (i % 8 * 64, (i + 3) % 8 * 64);
                    let text = "UPDATE account SET balance = balance + $2 WHERE id = $1";
                    db.transaction(|transaction| {
                        transaction.execute(text, (from, -1))?;
                        transaction.execute(text, (to, 1))
                    })
                    .unwrap();
                }
                stops.store(true, Ordering::Release);
            });
            while !stops.load(Ordering::Acquire) {
                let sum: f64 = db
                    .snapshot(|snapshot| {
                        let mut sum = 0.0;
                        for id in 0..8i64 {
                            let row =
                                snapshot.query_one("SELECT balance FROM account WHERE id = $1", id * 64)?;
                            sum += row.at::<i64>(0)? as f64;
                        }
                        Ok(sum)
                    })
                    .unwrap_or_else(|error| {
                        assert!(error.is_transient(), "{design}: {error}");
                        800.0
                    });
                assert_eq!(sum, 800.0, "{design}");
            }
        });
        let sum: i64 = db.query_one("SELECT sum(balance)::int8 FROM account", ()).unwrap().at(0).unwrap();
        assert_eq!(sum, 800, "{design}");
    }
}

#[test]
fn a_statement_is_prepared_again_after_its_table_has_changed() {
    let db = Database::in_memory().unwrap();
    let mut connection = db.connect().unwrap();
    connection.batch("CREATE TABLE t (id int8 PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(connection.query("SELECT * FROM t", ()).unwrap()[0].values().len(), 1);
    connection.execute("ALTER TABLE t ADD COLUMN name text DEFAULT 'x'", ()).unwrap();
    let row = connection.query_one("SELECT * FROM t", ()).unwrap();
    assert_eq!(row.get::<String>("name").unwrap(), "x");
    for i in 0..600 {
        connection.query(&format!("SELECT {i} FROM t"), ()).unwrap();
    }
}

#[test]
fn a_database_that_is_dropped_is_closed_and_one_with_open_connections_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = Options::new().durability(Durability::Async).open(&path).unwrap();
    let mut connection = db.connect().unwrap();
    connection.batch("CREATE TABLE t (id int8 PRIMARY KEY)").unwrap();
    drop(db);
    assert!(matches!(
        connection.execute("INSERT INTO t VALUES (1)", ()),
        Err(atoll::Error::Closed | atoll::Error::Sql(_))
    ));
    let db = Database::open(&path).unwrap();
    assert_eq!(db.query("SELECT id FROM t", ()).unwrap().len(), 0);
}

#[test]
fn a_database_works_inside_an_async_program() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let db = in_memory(Design::Conventional, 1);
        assert_eq!(db.query_one("SELECT 1", ()).unwrap().at::<i64>(0).unwrap(), 1);
    });
}
