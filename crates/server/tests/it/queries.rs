//! Queries that are no programs, and statements that write what such a query finds.

use crate::bench::Bench;
use futures_util::StreamExt;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, SimpleQueryMessage};

const TABLES: &str = "
    CREATE TABLE dept (id int PRIMARY KEY, name text, city text);
    CREATE TABLE emp (id int PRIMARY KEY, dept int, name text, pay numeric(10,2));
    CREATE TABLE log (at serial PRIMARY KEY, what text, amount numeric(10,2) DEFAULT 1);
    INSERT INTO dept VALUES (1, 'tools', 'Bern'), (2, 'books', 'Genf'), (3, 'empty', NULL);
    INSERT INTO emp VALUES (1, 1, 'ann', 100), (2, 1, 'bob', 80.5), (3, 2, 'cid', NULL), (4, NULL, 'dora', 7)";

/// The rows of a text, as texts.
async fn rows(client: &Client, text: &str) -> Vec<String> {
    let messages = client.simple_query(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    messages.iter().filter_map(row).collect()
}

/// The count in the tag of a statement.
async fn count(client: &Client, text: &str) -> u64 {
    let messages = client.simple_query(text).await.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let count = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    });
    count.expect("a tag")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parameters_of_joins_and_groups_have_types() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let text = "SELECT d.name, count(e.id), sum(e.pay)::float8 FROM dept d LEFT JOIN emp e ON e.dept = d.id
        WHERE d.id <= $1 AND d.name <> $2 GROUP BY d.name HAVING count(*) < $3 ORDER BY d.name LIMIT $4";
    let statement = client.prepare(text).await.unwrap();
    let names: Vec<&str> = statement.params().iter().map(|ty| ty.name()).collect();
    assert_eq!(names, ["int4", "text", "int8", "int8"]);
    let columns: Vec<&str> = statement.columns().iter().map(|column| column.type_().name()).collect();
    assert_eq!(columns, ["text", "int8", "float8"]);
    let found = client.query(&statement, &[&2i32, &"x", &9i64, &5i64]).await.unwrap();
    let found: Vec<(&str, i64, Option<f64>)> =
        found.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(found, [("books", 1, None), ("tools", 2, Some(180.5))]);
    let found = client.query(&statement, &[&3i32, &"books", &2i64, &5i64]).await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_sees_what_its_transaction_wrote_and_others_do_not() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    let other = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let text = "SELECT (SELECT count(*) FROM emp e WHERE e.dept = d.id) FROM dept d WHERE d.id = 3";
    let txn = client.transaction().await.unwrap();
    txn.batch_execute("INSERT INTO emp VALUES (9, 3, 'eve', 1)").await.unwrap();
    assert_eq!(txn.query_one(text, &[]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(other.query_one(text, &[]).await.unwrap().get::<_, i64>(0), 0);
    txn.rollback().await.unwrap();
    assert_eq!(client.query_one(text, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_query_finds_is_inserted_changed_and_deleted() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let insert = "INSERT INTO log (what, amount) SELECT d.name, sum(e.pay) FROM dept d JOIN emp e
        ON e.dept + 0 = d.id GROUP BY d.name ORDER BY d.name";
    assert_eq!(count(&client, insert).await, 2);
    assert_eq!(rows(&client, "SELECT * FROM log ORDER BY at").await, ["1 books NULL", "2 tools 180.50"]);
    let given = "INSERT INTO log (what) SELECT name FROM emp WHERE pay < (SELECT avg(pay) FROM emp e2)
        RETURNING what, amount";
    assert_eq!(rows(&client, given).await, ["dora 1.00"]);
    let raise = "UPDATE emp SET pay = pay * 2, name = upper(emp.name) FROM dept d
        WHERE d.id + 0 = emp.dept AND d.city = 'Bern'";
    assert_eq!(count(&client, raise).await, 2);
    let most = "UPDATE emp SET pay = (SELECT max(pay) FROM emp o WHERE o.dept = emp.dept) WHERE id = 2";
    assert_eq!(count(&client, most).await, 1);
    let all = rows(&client, "SELECT id, name, pay FROM emp ORDER BY id").await;
    assert_eq!(all, ["1 ANN 200.00", "2 BOB 200.00", "3 cid NULL", "4 dora 7.00"]);
    let delete = "DELETE FROM emp WHERE dept NOT IN (SELECT id FROM dept WHERE city = 'Genf') RETURNING id";
    assert_eq!(rows(&client, delete).await, ["1", "2"]);
    let parameter =
        "DELETE FROM dept WHERE NOT EXISTS (SELECT 1 FROM emp e WHERE e.dept = dept.id) AND id > $1";
    assert_eq!(client.execute(parameter, &[&1i32]).await.unwrap(), 1);
    assert_eq!(rows(&client, "SELECT id FROM dept ORDER BY id").await, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_by_a_query_is_whole_or_not_at_all() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    // The second row has the number of one that is there.
    let twice = "INSERT INTO dept (id, name) SELECT 5 - d.id, d.name FROM dept d WHERE d.id IN (SELECT 1 UNION SELECT 2)
        ORDER BY d.id";
    let error = client.batch_execute(twice).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert_eq!(rows(&client, "SELECT count(*) FROM dept").await, ["3"]);
    let txn = client.transaction().await.unwrap();
    txn.execute("DELETE FROM emp WHERE dept IN (SELECT id FROM dept)", &[]).await.unwrap();
    assert_eq!(txn.query_one("SELECT count(*) FROM emp", &[]).await.unwrap().get::<_, i64>(0), 1);
    txn.rollback().await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM emp").await, ["4"]);
    let refused = "BEGIN READ ONLY; DELETE FROM emp WHERE dept IN (SELECT id FROM dept)";
    let error = client.batch_execute(refused).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25006");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_rows_come_in_parts() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client
        .batch_execute("CREATE TABLE a (id int PRIMARY KEY, t text); CREATE TABLE b (t text)")
        .await
        .unwrap();
    for begin in [0, 2000, 4000] {
        let text = format!(
            "INSERT INTO a SELECT n, repeat('x', 700) || n FROM generate_series({}, {}) AS n",
            begin + 1,
            begin + 2000
        );
        client.batch_execute(&text).await.unwrap();
    }
    client.batch_execute("INSERT INTO b SELECT t FROM a WHERE id <= 3000").await.unwrap();
    for (table, wanted) in [("a", 6000), ("b", 3000)] {
        let text = format!(
            "SELECT count(*), count(DISTINCT t) FROM (SELECT t, row_number() OVER () FROM {table}) x"
        );
        assert_eq!(rows(&client, &text).await, [format!("{wanted} {wanted}")]);
        let stream = client.copy_out(&format!("COPY {table} TO STDOUT")).await.unwrap();
        let lines = lines(stream).await;
        assert_eq!(lines.len(), wanted);
        assert_eq!(lines.iter().collect::<std::collections::HashSet<_>>().len(), wanted);
    }
    let text = "COPY (SELECT a.id FROM a JOIN b ON a.t = b.t WHERE a.id % 1000 = 0 ORDER BY 1) TO STDOUT";
    let stream = client.copy_out(text).await.unwrap();
    assert_eq!(lines(stream).await, ["1000", "2000", "3000"]);
}

async fn lines(stream: tokio_postgres::CopyOutStream) -> Vec<String> {
    let mut stream = std::pin::pin!(stream);
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await {
        bytes.extend(part.unwrap());
    }
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_query_ends_when_its_time_is_over() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute("CREATE TABLE a (id int PRIMARY KEY)").await.unwrap();
    client.batch_execute("INSERT INTO a SELECT n FROM generate_series(1, 2000) AS n").await.unwrap();
    client.batch_execute("SET statement_timeout = 300").await.unwrap();
    for text in [
        "SELECT count(*) FROM a x, a y, a z WHERE x.id + y.id = -z.id",
        "SELECT count(*) FROM generate_series(1, 300000) x, generate_series(1, 3000) y",
        "SELECT count(*) FROM generate_series(1, 2000000000)",
    ] {
        let error = client.simple_query(text).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED), "{text}");
    }
    // The session goes on.
    assert_eq!(rows(&client, "SELECT max(x.id) FROM a x JOIN a y ON x.id = -y.id").await, ["NULL"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_a_query_is_explained() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let text = "EXPLAIN SELECT d.name FROM dept d JOIN (SELECT dept FROM emp GROUP BY dept) e ON e.dept = d.id WHERE d.id = 2";
    let lines = rows(&client, text).await.join("\n");
    assert!(lines.contains("Inner join") && lines.contains("by key (id = 2)"), "{lines}");
    let text = "EXPLAIN DELETE FROM emp WHERE dept IN (SELECT id FROM dept)";
    let lines = rows(&client, text).await.join("\n");
    assert!(lines.contains("For each row") && lines.contains("Delete"), "{lines}");
}

/// A condition on a view, or on a query in `FROM`, is one on the rows of its tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_reach_the_tables_of_views() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client
        .batch_execute(
            "CREATE VIEW tens AS SELECT id, pay * 10 AS ten FROM emp WHERE name <> 'x';
             CREATE VIEW groups AS SELECT id, dept, count(*) AS many FROM emp GROUP BY id, dept;
             CREATE VIEW places AS SELECT d.id, e.name FROM dept d LEFT JOIN emp e ON e.id > d.id;
             CREATE VIEW all_ids AS SELECT id FROM emp UNION SELECT id FROM dept;
             CREATE VIEW first AS SELECT id FROM emp ORDER BY id LIMIT 2",
        )
        .await
        .unwrap();
    let plan = async |text: &str| rows(&client, &format!("EXPLAIN {text}")).await.join("\n");
    let one = plan("SELECT ten FROM tens WHERE id = 3").await;
    assert!(one.starts_with("Select\n  From emp by key (id = 3), one slot"), "{one}");
    for (text, keys) in [
        ("SELECT * FROM groups WHERE id = 3 AND many > 0", 1),
        ("SELECT * FROM groups WHERE many = 3", 0),
        ("SELECT * FROM places WHERE id = 3", 1),
        ("SELECT * FROM places WHERE name = 'a'", 0),
        ("SELECT * FROM all_ids WHERE id = 3", 2),
        ("SELECT * FROM first WHERE id = 3", 0),
        ("SELECT * FROM (SELECT g.id FROM groups g) x WHERE id = 3", 1),
    ] {
        let lines = plan(text).await;
        assert_eq!(lines.matches("by key (id = 3)").count(), keys, "{text}:\n{lines}");
    }
    let found = client.query("SELECT ten::float8 FROM tens WHERE id = $1", &[&1i32]).await.unwrap();
    assert_eq!(found.iter().map(|row| row.get::<_, f64>(0)).collect::<Vec<_>>(), [1000.0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_made_of_a_query_in_one_transaction() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let made = "CREATE TABLE made AS SELECT e.name, d.city FROM emp e JOIN dept d ON d.id = e.dept";
    assert_eq!(count(&client, made).await, 3);
    assert_eq!(count(&client, "SELECT name INTO other FROM made WHERE city = 'Bern'").await, 2);
    assert_eq!(count(&client, "CREATE TABLE IF NOT EXISTS made AS SELECT 1 AS x").await, 0);
    let wrong = client.simple_query("CREATE TABLE broken AS SELECT 1 / (id - id) AS x FROM emp").await;
    assert_eq!(wrong.unwrap_err().code(), Some(&SqlState::DIVISION_BY_ZERO));
    let gone = client.simple_query("SELECT * FROM broken").await.unwrap_err();
    assert_eq!(gone.code(), Some(&SqlState::UNDEFINED_TABLE));
    client.execute("CREATE TABLE third AS SELECT * FROM made", &[]).await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM third").await, ["3"]);
}

/// Parts of `WITH` that write, with parameters, within a transaction and by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_with_write_in_one_transaction() {
    let bench = Bench::new().await;
    let mut client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let text = "WITH gone AS (DELETE FROM emp WHERE dept = $1 RETURNING *)
        INSERT INTO log (what, amount) SELECT name || $2, pay FROM gone ORDER BY id RETURNING what, amount";
    let statement = client.prepare(text).await.unwrap();
    let names: Vec<&str> = statement.params().iter().map(|ty| ty.name()).collect();
    assert_eq!(names, ["int4", "text"]);
    let columns: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
    assert_eq!(columns, ["what", "amount"]);

    let transaction = client.transaction().await.unwrap();
    let moved = transaction.query(&statement, &[&1i32, &"!"]).await.unwrap();
    let moved: Vec<&str> = moved.iter().map(|row| row.get(0)).collect();
    assert_eq!(moved, ["ann!", "bob!"]);
    transaction.rollback().await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM log").await, ["0"]);
    assert_eq!(rows(&client, "SELECT count(*) FROM emp").await, ["4"]);

    // A part that fails takes the changes of the parts before it back.
    let fails = "WITH gone AS (DELETE FROM emp RETURNING id) INSERT INTO dept SELECT id FROM gone";
    let error = client.batch_execute(fails).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    assert_eq!(rows(&client, "SELECT count(*) FROM emp").await, ["4"]);

    let made = "WITH d AS (INSERT INTO dept VALUES (9, 'maps') RETURNING id)
        INSERT INTO emp (id, dept, name) SELECT 90 + n, d.id, 'e' || n FROM d, generate_series(1, 3) n";
    assert_eq!(count(&client, made).await, 3);
    let both = "WITH u AS (UPDATE emp SET pay = 5 WHERE dept = 9 RETURNING id, pay) SELECT count(*), sum(pay) FROM u";
    assert_eq!(rows(&client, both).await, ["3 15.00"]);
    assert!(rows(&client, &format!("EXPLAIN {both}")).await[0].starts_with("Part 1 of WITH:"));
    client.batch_execute("BEGIN READ ONLY").await.unwrap();
    let error = client.batch_execute(both).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::READ_ONLY_SQL_TRANSACTION));
    client.batch_execute("ROLLBACK").await.unwrap();
    let error = client.batch_execute(&format!("COPY ({both}) TO STDOUT")).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
}
