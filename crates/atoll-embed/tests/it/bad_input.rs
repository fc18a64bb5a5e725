//! Mistakes get an error that says what was expected.

use atoll::{Database, Durability, Error, Host, Options};

fn state(error: Error) -> String {
    error.sqlstate().map_or_else(|| format!("{error:?}"), str::to_owned)
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let refused = |options: Options| match options.open(&path) {
        Err(Error::Usage(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(Options::new().islands(0)).contains("expected"));
    assert!(refused(Options::new().islands(4).workers(2)).contains("expected"));
    assert!(refused(Options::new().islands(100).workers(100)).contains("expected"));
    assert!(refused(Options::new().durability(Durability::Memory)).contains("open_in_memory"));
    assert!(refused(Options::new().host(Host::Processes)).contains("host_instance"));
    assert!(!path.exists(), "nothing is made for them");
    Options::new().islands(2).workers(2).open(&path).unwrap().close().unwrap();
    assert!(refused(Options::new().islands(1)).contains("2 islands"));
    let db = Database::open(&path).unwrap();
    assert!(matches!(Database::open(&path), Err(Error::Usage(_) | Error::Failed(_))));
    db.close().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    assert!(matches!(Database::open(dir.path().join("file")), Err(Error::Usage(_))));
}

#[test]
fn wrong_statements_and_parameters_are_refused_and_the_connection_goes_on() {
    let db = Database::in_memory().unwrap();
    let mut connection = db.connect().unwrap();
    connection.batch("CREATE TABLE t (id int4 PRIMARY KEY, name varchar(3))").unwrap();
    assert_eq!(state(connection.execute("SELEKT 1", ()).unwrap_err()), "42601");
    assert_eq!(state(connection.execute("INSERT INTO t VALUES ($1, $2)", (1,)).unwrap_err()), "08P01");
    assert_eq!(state(connection.execute("INSERT INTO t VALUES ($1, $2)", (1, "four")).unwrap_err()), "22001");
    assert_eq!(state(connection.execute("INSERT INTO t VALUES ($1, $2)", ("x", "a")).unwrap_err()), "22P02");
    assert_eq!(state(connection.execute("INSERT INTO t VALUES ($1, '')", 1i64 << 40).unwrap_err()), "22003");
    assert_eq!(state(connection.execute("INSERT INTO t VALUES (1, '\0')", ()).unwrap_err()), "22021");
    assert_eq!(state(connection.execute("COPY t FROM STDIN", ()).unwrap_err()), "0A000");
    assert_eq!(state(connection.execute("COPY t TO STDOUT", ()).unwrap_err()), "0A000");
    assert_eq!(state(connection.execute("SELECT 1; SELECT 2", ()).unwrap_err()), "42601");
    assert_eq!(state(connection.query_one("SELECT id FROM t", ()).unwrap_err()), "P0002");
    assert_eq!(state(connection.query_one("VALUES (1), (2)", ()).unwrap_err()), "P0003");
    assert_eq!(connection.execute("INSERT INTO t VALUES ($1, $2)", (1, "abc")).unwrap(), 1);
    let row = connection.query_one("SELECT * FROM t", ()).unwrap();
    assert_eq!(state(row.get::<i64>("nothing").unwrap_err()), "42703");
    assert_eq!(state(row.get::<i64>("name").unwrap_err()), "42804");
    assert_eq!(state(row.at::<i64>(7).unwrap_err()), "42703");
}

#[test]
fn a_failed_transaction_cannot_be_committed() {
    let db = Database::in_memory().unwrap();
    let mut connection = db.connect().unwrap();
    connection.batch("CREATE TABLE t (id int8 PRIMARY KEY)").unwrap();
    let mut transaction = connection.begin().unwrap();
    transaction.execute("INSERT INTO t VALUES (1)", ()).unwrap();
    assert_eq!(state(transaction.execute("INSERT INTO t VALUES (1)", ()).unwrap_err()), "23505");
    assert_eq!(state(transaction.query("SELECT 1", ()).unwrap_err()), "25P02");
    assert_eq!(state(transaction.commit().unwrap_err()), "25P02");
    assert!(connection.query("SELECT id FROM t", ()).unwrap().is_empty());
}
