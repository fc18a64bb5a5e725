//! `atoll dump` and `atoll restore` of a dump, with psql, and with PostgreSQL where
//! `ATOLL_TEST_POSTGRESQL` names a server (`host=... port=... user=...`).

use crate::served::{Served, connect, program};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const TABLES: &str = "
    CREATE TABLE a (id int PRIMARY KEY, s text DEFAULT 'x', n numeric(8,2) NOT NULL CHECK (n > 0),
        t timestamptz DEFAULT now());
    CREATE TABLE b (k serial PRIMARY KEY, a int REFERENCES a (id) ON DELETE CASCADE, UNIQUE (a, k));
    CREATE INDEX b_a ON b (a);
    CREATE TABLE \"order\" (w int, \"X y\" text, ts timestamp, y interval, u uuid, by bytea, f float8, r real, b bool,
        dd date, ch char(3), vc varchar(5), j jsonb, i8 bigint, i2 smallint);
    CREATE SEQUENCE down AS smallint INCREMENT BY -3 MAXVALUE 100 MINVALUE -100 START WITH 50 CYCLE;
    CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree (id));
    INSERT INTO a (id, n, s) VALUES (1, 2.5, NULL), (2, 3, ''), (3, 4, E'tab\\tback\\\\slash\\nline; \"q\" ''q''');
    INSERT INTO b (a) VALUES (1), (2), (1);
    INSERT INTO \"order\" VALUES (1, 'ä,\"', '2024-03-01 10:20:30.5', '1 day 2 hours', 'c7b9b7b6-17d2-4b0e-b1f5-000000000001',
        '\\xdeadbeef', 1.5, 'NaN', true, '2024-02-03', 'ab', 'vc', '{\"a\": [1, null]}', 9, -1);
    INSERT INTO \"order\" (w) VALUES (2);
    INSERT INTO tree VALUES (1, NULL), (2, 1);
    SELECT nextval('down');";
/// What PostgreSQL has no words for, or understands otherwise.
const OWN: &str = "
    CREATE TABLE placed (w int, d int, PRIMARY KEY (w, d)) WITH (partition_by = 'd');
    CREATE TABLE ranges (w int PRIMARY KEY) WITH (partition_by = 'w', partition_bounds = '10, 20');
    CREATE TABLE beside (w int, d int, e int, PRIMARY KEY (w, d, e)) WITH (colocate_with = 'ranges');
    INSERT INTO placed SELECT n, n * 7 FROM generate_series(1, 100) n;
    CREATE PROCEDURE pay(x int, INOUT y int DEFAULT 3) LANGUAGE sql AS $$ UPDATE b SET a = a WHERE k = x; SELECT x + y $$;
    CREATE FUNCTION next_of(int) RETURNS int LANGUAGE sql AS 'SELECT $1 + 1';";

fn atoll(args: &[&str]) -> Output {
    Command::new(program()).args(args).stdin(Stdio::null()).output().unwrap()
}

fn good(args: &[&str]) -> String {
    let output = atoll(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str], code: i32, says: &str) {
    let output = atoll(args);
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(code) && why.contains(says), "{args:?}: {:?} {why}", output.status);
}

/// The lines of a dump: rows of tables without a key have no order.
fn lines(dump: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = dump.lines().filter(|line| !line.starts_with("--")).collect();
    lines.sort_unstable();
    lines
}

fn psql(config: &str, dir: &Path, script: &str) {
    let psql = Command::new("psql")
        .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", config, "-f", script])
        .current_dir(dir)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_makes_the_same_database_again() {
    let served = Served::start(&["--islands", "2", "--durability", "async"]);
    let client = served.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client.batch_execute(OWN).await.unwrap();
    let at = |name: &str| served.dir.path().join(name).to_str().unwrap().to_owned();
    let (sql, csv, config) = (at("dump.sql"), at("csv"), served.config());

    good(&["dump", &config, "--to", &sql]);
    let first = std::fs::read_to_string(&sql).unwrap();
    for part in ["WITH (partition_by = 'd')", "partition_bounds = '10,20'", "OWNED BY public.b.k"] {
        assert!(first.contains(part), "{part} is missing in {first}");
    }
    // Into a directory, which is then read closed, under another number of islands.
    good(&["restore", &sql, "--to", &at("again")]);
    assert_eq!(lines(&good(&["dump", &at("again")])), lines(&first));

    // As CSV, from the directory that a server serves.
    good(&["dump", &at("db"), "--format", "csv", "--to", &csv]);
    good(&["restore", &csv, "--to", &at("from-csv")]);
    let again = good(&["dump", &at("from-csv")]);
    let without_numbers = |line: &&str| !line.contains("setval");
    let kept = |dump| lines(dump).into_iter().filter(without_numbers).collect::<Vec<_>>();
    assert_eq!(kept(&again), kept(&first));

    // By psql, into a server; then a part of it.
    if Command::new("psql").arg("--version").output().is_ok() {
        let other = Served::start(&["--durability", "async"]);
        psql(&other.config(), served.dir.path(), "dump.sql");
        assert_eq!(lines(&good(&["dump", &other.config()])), lines(&first));
        let third = Served::start(&["--durability", "async"]);
        psql(&third.config(), Path::new(&csv), "load.sql");
        assert_eq!(kept(&good(&["dump", &third.config()])), kept(&first));
        refused(&["restore", &sql, "--to", &third.config()], 2, "has tables or sequences already (a, b,");
    }
    let rows = good(&["dump", &config, "--table", "tree", "--data-only"]);
    assert!(
        rows.contains("COPY public.tree (id, up) FROM stdin;\n1\t\\N\n2\t1\n\\.") && !rows.contains("CREATE"),
        "{rows}"
    );
    let schema = good(&["dump", &config, "--schema-only", "--postgresql"]);
    assert!(!schema.contains("COPY") && !schema.contains("partition_by"), "{schema}");

    // A key may be given to a table that has indexes already.
    let text = "CREATE TABLE late (k int, a int); INSERT INTO late VALUES (1, 1), (2, 1);
        ALTER TABLE late ADD UNIQUE (a, k); CREATE INDEX ON late (a);
        ALTER TABLE late ADD CONSTRAINT late_pkey PRIMARY KEY (k)";
    client.batch_execute(text).await.unwrap();
    let found = client.query("SELECT k FROM late WHERE a = 1 ORDER BY k", &[]).await.unwrap();
    assert_eq!(found.len(), 2);
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_build_without_parquet_says_so() {
    let dir = tempfile::Builder::new().prefix("d-").tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("t.parquet"), "PAR1").unwrap();
    let says = "this build has no Parquet; build with `--features parquet`";
    refused(&["dump", &at("db"), "--format", "parquet", "--to", &at("columns")], 2, says);
    refused(&["restore", &at("t.parquet"), "--to", &at("db")], 2, says);
}

#[cfg(feature = "parquet")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dump_of_parquet_makes_the_same_database_again() {
    let served = Served::start(&["--islands", "2", "--durability", "async"]);
    let client = served.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client.batch_execute(OWN).await.unwrap();
    let more = "CREATE TABLE more (id int PRIMARY KEY, n numeric, big numeric(40, 1), t time, tags text[], js json);
        INSERT INTO more VALUES (1, 'NaN', 1234567890123456789012345678901234567.5, '23:59:59.5', '{a,NULL,\"b c\"}', '[1, 2]');
        CREATE TABLE keys (id serial PRIMARY KEY, a int NOT NULL, s text, at timestamp);
        CREATE TABLE \"a(b\" (\"X y\" int PRIMARY KEY); INSERT INTO \"a(b\" VALUES (5)";
    client.batch_execute(more).await.unwrap();
    let at = |name: &str| served.dir.path().join(name).to_str().unwrap().to_owned();
    let columns = at("columns");
    good(&["dump", &served.config(), "--format", "parquet", "--to", &columns]);
    let first = good(&["dump", &served.config()]);
    good(&["restore", &columns, "--to", &at("again")]);
    let kept = |dump| {
        let lines: Vec<&str> = lines(dump);
        lines.into_iter().filter(|line| !line.contains("setval")).collect::<Vec<_>>()
    };
    assert_eq!(kept(&good(&["dump", &at("again")])), kept(&first));

    // A file of rows into a table that is there: of a closed database, then at a server.
    let file = format!("{columns}/a.parquet");
    let says = |args: &[&str], why: &str| refused(args, 1, why);
    says(&["restore", &file, "--to", &at("again")], "(23505)");
    good(&["dump", &at("again"), "--table", "tree", "--format", "parquet", "--to", &at("tree")]);
    client
        .batch_execute("CREATE TABLE wood (up int, id int DEFAULT 0, note text DEFAULT 'x')")
        .await
        .unwrap();
    let tree = format!("{}/tree.parquet", at("tree"));
    let added = good(&["restore", &tree, "--table", "wood", "--to", &served.config(), "--json"]);
    assert!(added.contains("\"rows\":2") && added.contains("\"table\":\"wood\""), "{added}");
    let rows = client.query("SELECT id, up, note FROM wood ORDER BY id", &[]).await.unwrap();
    let row = |at: usize| (rows[at].get(0), rows[at].get(1), rows[at].get(2));
    assert_eq!([row(0), row(1)], [(1, None, "x"), (2, Some(1), "x")]);

    let config = served.config();
    let to = |table: &str| -> Vec<String> {
        ["restore", &tree, "--table", table, "--to", &config].map(str::to_owned).to_vec()
    };
    for (table, why) in [
        ("nothing", "there is no table nothing in"),
        ("keys", "has a column up, which table keys does not have; expected: id, a, s, at"),
    ] {
        let args = to(table);
        says(&args.iter().map(String::as_str).collect::<Vec<_>>(), why);
    }
    client
        .batch_execute("CREATE TABLE less (id date, up int, must int); CREATE TABLE other (id date, up int)")
        .await
        .unwrap();
    for (table, why) in [
        ("less", "has no column must, which has no default in table less; expected: id, up, must"),
        ("other", "its column id is INT32, which does not go into a column of type date"),
    ] {
        let args = to(table);
        says(&args.iter().map(String::as_str).collect::<Vec<_>>(), why);
    }
    std::fs::write(&tree, "PAR1 and no more").unwrap();
    let args = to("wood");
    says(&args.iter().map(String::as_str).collect::<Vec<_>>(), "it is damaged, or no file of Parquet");
}

#[test]
fn a_dump_that_fails_leaves_nothing_and_says_why() {
    let dir = tempfile::Builder::new().prefix("d-").tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let script = at("wrong.sql");
    std::fs::write(&script, "CREATE TABLE t (a int PRIMARY KEY);\n\nCOPY t (a) FROM stdin;\n1\nx\n\\.\n")
        .unwrap();
    refused(&["dump", &at("none")], 2, "holds no database");
    refused(&["dump", "host=127.0.0.1 port=1"], 1, "cannot connect");
    refused(&["dump", &at("none"), "--format", "csv"], 2, "expected --to DIR");
    refused(&["dump", &at("none"), "--to", &script], 2, "is there already");
    refused(&["restore", &script, "--to", dir.path().to_str().unwrap()], 2, "is not empty");
    refused(&["restore", &script, "--to", &at("db")], 1, "line 3, COPY t (a) FROM stdin");
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["wrong.sql"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_and_atoll_read_each_others_dumps() {
    let Ok(postgresql) = std::env::var("ATOLL_TEST_POSTGRESQL") else {
        return eprintln!("skipped: ATOLL_TEST_POSTGRESQL names no PostgreSQL");
    };
    let admin = connect(&format!("{postgresql} dbname=postgres")).await.unwrap();
    for text in ["DROP DATABASE IF EXISTS atoll_dumps", "CREATE DATABASE atoll_dumps TEMPLATE template0"] {
        admin.batch_execute(text).await.unwrap();
    }
    let other = format!("{postgresql} dbname=atoll_dumps");
    let served = Served::start(&["--durability", "async"]);
    served.client().await.batch_execute(TABLES).await.unwrap();
    let at = |name: &str| served.dir.path().join(name).to_str().unwrap().to_owned();
    good(&["dump", &served.config(), "--postgresql", "--to", &at("dump.sql")]);
    psql(&other, served.dir.path(), "dump.sql");
    let rows = |dump: &str| {
        let rows = dump.lines().filter(|line| !line.starts_with("--") && !line.contains("setval"));
        let mut rows: Vec<String> = rows.filter(|line| line.contains('\t')).map(str::to_owned).collect();
        rows.sort_unstable();
        rows
    };
    let ours = std::fs::read_to_string(at("dump.sql")).unwrap();
    assert_eq!(rows(&good(&["dump", &other])), rows(&ours));
    for options in [&["--format=plain"][..], &["--format=plain", "--inserts"]] {
        let dumped = Command::new("pg_dump").args(options).args(["-d", &other]).output().unwrap();
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        let (script, db) = (at("from-pg.sql"), at("from-pg"));
        std::fs::write(&script, dumped.stdout).unwrap();
        good(&["restore", &script, "--to", &db]);
        assert_eq!(rows(&good(&["dump", &db])), rows(&ours));
        std::fs::remove_dir_all(&db).unwrap();
    }
}
