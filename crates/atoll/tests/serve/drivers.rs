//! tokio-postgres against a whole deployment: values, errors, pipelines, COPY, cancel, portals.

use crate::served::{Served, connect};
use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, TryStreamExt, future::join_all};
use std::time::Duration;
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Client, SimpleQueryMessage};

/// A value's bytes in the binary format.
#[derive(Debug, Clone, PartialEq)]
struct Raw(Vec<u8>);

type Failed = Box<dyn std::error::Error + Sync + Send>;

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Raw, Failed> {
        Ok(Raw(raw.to_vec()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

/// Types, values as texts, and the bytes of PostgreSQL's binary format.
const VALUES: &[(&str, &str, &str)] = &[
    ("bool", "t", "01"),
    ("int2", "-2", "fffe"),
    ("int4", "-2147483648", "80000000"),
    ("int8", "9223372036854775807", "7fffffffffffffff"),
    ("float4", "1.5", "3fc00000"),
    ("float8", "-0.25", "bfd0000000000000"),
    ("numeric(12,3)", "-12345.678", "0003000140000003000109291a7c"),
    ("text", "Grüße", "4772c3bcc39f65"),
    ("varchar(5)", "abc", "616263"),
    ("char(5)", "abc  ", "6162632020"),
    ("bytea", "\\x00ff10", "00ff10"),
    ("date", "2000-01-02", "00000001"),
    ("timestamp", "2000-01-01 00:00:01.000002", "00000000000f4242"),
    ("timestamptz", "1999-12-31 23:59:59+00", "fffffffffff0bdc0"),
    ("interval", "1 mon 2 days 00:00:03", "00000000002dc6c00000000200000001"),
    ("uuid", "12345678-1234-5678-1234-567812345678", "12345678123456781234567812345678"),
    ("json", "{\"a\": [1]}", "7b2261223a205b315d7d"),
    ("jsonb", "{\"a\": [1]}", "017b2261223a205b315d7d"),
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

/// The only value of a result in text.
async fn text(client: &Client, query: &str) -> String {
    let messages = client.simple_query(query).await.unwrap();
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.unwrap_or_else(|| panic!("no row of {query}"))
}

#[tokio::test]
async fn values_in_both_formats_are_postgresql_s() {
    let served = Served::start(&["--islands", "2"]);
    let client = served.client().await;
    for (ty, written, bytes) in VALUES {
        let table = format!("v_{}", ty.split('(').next().unwrap());
        client.batch_execute(&format!("CREATE TABLE {table} (id int PRIMARY KEY, v {ty})")).await.unwrap();
        let insert = format!("INSERT INTO {table} VALUES ($1, $2)");
        client.execute(&insert, &[&1i32, &Raw(unhex(bytes))]).await.unwrap();
        let literal = written.replace('\'', "''");
        client.simple_query(&format!("INSERT INTO {table} VALUES (2, '{literal}')")).await.unwrap();
        for id in [1, 2] {
            let query = format!("SELECT v FROM {table} WHERE id = {id}");
            assert_eq!(text(&client, &query).await, *written, "{ty}, row {id}");
            let row = client.query_one(&query, &[]).await.unwrap();
            assert_eq!(hex(&row.get::<_, Raw>(0).0), *bytes, "{ty}, row {id}");
        }
        client.simple_query(&format!("INSERT INTO {table} VALUES (3, NULL)")).await.unwrap();
        let row = client.query_one(&format!("SELECT v FROM {table} WHERE v IS NULL"), &[]).await.unwrap();
        assert_eq!(row.get::<_, Option<Raw>>(0), None);
    }
}

async fn state(client: &Client, statement: &str) -> SqlState {
    let failed = client.batch_execute(statement).await;
    failed.expect_err(statement).code().expect("an error of the server").clone()
}

#[tokio::test]
async fn errors_have_the_codes_on_which_clients_act() {
    let served = Served::start(&["--islands", "2"]);
    let client = served.client().await;
    let tables = "CREATE TABLE e (id int PRIMARY KEY, n int NOT NULL, c int CHECK (c > 0), u int UNIQUE);
         CREATE TABLE f (id int PRIMARY KEY, e int REFERENCES e);
         INSERT INTO e VALUES (1, 1, 1, 1); INSERT INTO f VALUES (1, 1)";
    client.batch_execute(tables).await.unwrap();
    for (code, statement) in [
        ("23505", "INSERT INTO e VALUES (1, 1, 1, 2)"),
        ("23505", "INSERT INTO e VALUES (2, 1, 1, 1)"),
        ("23502", "INSERT INTO e VALUES (2, NULL, 1, 2)"),
        ("23514", "UPDATE e SET c = -1"),
        ("23503", "INSERT INTO f VALUES (2, 2)"),
        ("23503", "DELETE FROM e"),
        ("22012", "UPDATE e SET n = n / 0"),
        ("22003", "UPDATE e SET n = 2147483647 + n"),
        ("22P02", "SELECT 'one'::int"),
        ("22001", "SELECT 1; CREATE TABLE s (v varchar(2)); INSERT INTO s VALUES ('long')"),
        ("42601", "SELEC 1"),
        ("42P01", "SELECT * FROM nothing"),
        ("42703", "SELECT nothing FROM e"),
        ("42804", "SELECT 1 WHERE 'a'::text || 'b'"),
        ("42883", "SELECT nothing(1)"),
        ("26000", "EXECUTE nothing"),
        ("0A000", "PREPARE TRANSACTION 'x'"),
    ] {
        assert_eq!(state(&client, statement).await.code(), code, "{statement}");
    }
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(state(&client, "SELECT 1/0").await, SqlState::DIVISION_BY_ZERO);
    assert_eq!(state(&client, "SELECT 1").await, SqlState::IN_FAILED_SQL_TRANSACTION);
    client.batch_execute("ROLLBACK").await.unwrap();
    let row = client.query_one("SELECT count(*), min(n), min(c) FROM e", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i32>(1), row.get::<_, i32>(2)), (1, 1, 1));
}

/// Two sessions that update two rows crosswise: one gets an error, after which clients repeat the
/// transaction, and the other commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_block_each_other_one_has_to_repeat() {
    let locks = [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE];
    for (options, codes, most) in [
        (&["--islands", "1"][..], &locks[..1], 1),
        // Both may wait until their time is over.
        (&["--islands", "2"], &locks, 2),
        (&["--islands", "1", "--design", "occ"], &locks, 1),
    ] {
        let served = Served::start(&[options, &["--lock-timeout", "1s"]].concat());
        let (one, two) = (served.client().await, served.client().await);
        one.batch_execute(
            "CREATE TABLE d (id int PRIMARY KEY, v int); INSERT INTO d VALUES (1, 0), (2561, 0)",
        )
        .await
        .unwrap();
        one.batch_execute("BEGIN; UPDATE d SET v = v + 1 WHERE id = 1").await.unwrap();
        two.batch_execute("BEGIN; UPDATE d SET v = v + 10 WHERE id = 2561").await.unwrap();
        let goes_on = async |client: &Client, change: &str| match client.batch_execute(change).await {
            Ok(()) => client.batch_execute("COMMIT").await,
            Err(error) => client.batch_execute("ROLLBACK").await.and(Err(error)),
        };
        let (first, second) = tokio::join!(
            goes_on(&one, "UPDATE d SET v = v + 1 WHERE id = 2561"),
            goes_on(&two, "UPDATE d SET v = v + 10 WHERE id = 1"),
        );
        let failed = [&first, &second].into_iter().filter_map(|outcome| outcome.as_ref().err());
        let states: Vec<_> = failed.map(|error| error.code().cloned().unwrap()).collect();
        assert!((1..=most).contains(&states.len()), "{options:?}: {states:?}");
        assert!(states.iter().all(|state| codes.contains(state)), "{options:?}: {states:?}");
        let sum: i64 = one.query_one("SELECT sum(v) FROM d", &[]).await.unwrap().get(0);
        let expected = 2 * i64::from(first.is_ok()) + 20 * i64::from(second.is_ok());
        assert_eq!(sum, expected, "{options:?}");
    }
}

#[tokio::test]
async fn statements_in_a_pipeline_are_answered_in_their_order() {
    let served = Served::start(&["--islands", "2"]);
    let client = served.client().await;
    client.batch_execute("CREATE TABLE p (id int PRIMARY KEY, v int)").await.unwrap();
    let insert = client.prepare("INSERT INTO p VALUES ($1, $2) RETURNING v").await.unwrap();
    let ids: Vec<i32> = (0..200).collect();
    // The client sends all of them before the first answer.
    let answers = join_all(ids.iter().map(async |id| {
        let rows = client.query(&insert, &[id, &(id * 3)]).await?;
        Ok::<i32, tokio_postgres::Error>(rows[0].get(0))
    }));
    for (id, answer) in ids.iter().zip(answers.await) {
        assert_eq!(answer.unwrap(), id * 3);
    }
    // One that fails does not hold up those after it.
    let keys = [500, 1, 501];
    let answers = join_all(keys.iter().map(async |key| client.query(&insert, &[key, key]).await)).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    let count: i64 = client.query_one("SELECT count(*) FROM p", &[]).await.unwrap().get(0);
    assert_eq!(count, 202);
}

#[tokio::test]
async fn rows_are_copied_in_and_out() {
    let served = Served::start(&["--islands", "2"]);
    let mut client = served.client().await;
    client.batch_execute("CREATE TABLE c (id int PRIMARY KEY, t text, f float8)").await.unwrap();
    let types = [Type::INT4, Type::TEXT, Type::FLOAT8];
    let sink = client.copy_in("COPY c FROM STDIN (FORMAT binary)").await.unwrap();
    let writer = BinaryCopyInWriter::new(sink, &types);
    tokio::pin!(writer);
    for id in 0..5000i32 {
        let name = (id % 7 > 0).then(|| format!("name {id}"));
        writer.as_mut().write(&[&id, &name, &(f64::from(id) / 4.0)]).await.unwrap();
    }
    assert_eq!(writer.finish().await.unwrap(), 5000);
    let stream =
        client.copy_out("COPY (SELECT * FROM c ORDER BY id) TO STDOUT (FORMAT binary)").await.unwrap();
    let rows: Vec<_> = BinaryCopyOutStream::new(stream, &types).try_collect().await.unwrap();
    assert_eq!(rows.len(), 5000);
    assert_eq!((rows[8].get::<i32>(0), rows[8].get::<&str>(1), rows[8].get::<f64>(2)), (8, "name 8", 2.0));
    assert_eq!(rows[7].get::<Option<&str>>(1), None);
    // In text, within a transaction that is rolled back.
    let txn = client.transaction().await.unwrap();
    let sink = txn.copy_in("COPY c (id, t) FROM STDIN").await.unwrap();
    tokio::pin!(sink);
    sink.send(Bytes::from_static(b"9000\tx\\ty\n9001\t\\N\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 2);
    let stream =
        txn.copy_out("COPY (SELECT id, t FROM c WHERE id >= 9000 ORDER BY id) TO STDOUT").await.unwrap();
    let parts: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(parts.concat(), b"9000\tx\\ty\n9001\t\\N\n");
    txn.rollback().await.unwrap();
    // A client that gives up in the middle.
    let sink = client.copy_in::<_, Bytes>("COPY c FROM STDIN").await.unwrap();
    drop(sink);
    let count: i64 = client.query_one("SELECT count(*) FROM c", &[]).await.unwrap().get(0);
    assert_eq!(count, 5000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waits_for_a_row_is_cancelled() {
    let served = Served::start(&["--islands", "2"]);
    let (holder, waiter) = (served.client().await, served.client().await);
    holder
        .batch_execute("CREATE TABLE w (id int PRIMARY KEY, v int); INSERT INTO w VALUES (1, 0)")
        .await
        .unwrap();
    holder.batch_execute("BEGIN; UPDATE w SET v = 1 WHERE id = 1").await.unwrap();
    let cancel = waiter.cancel_token();
    let waits = tokio::spawn(async move {
        waiter.batch_execute("BEGIN").await.unwrap();
        let failed = waiter.batch_execute("UPDATE w SET v = 2 WHERE id = 1").await;
        (waiter, failed)
    });
    // A request that comes too early is forgotten, so it is repeated.
    while !waits.is_finished() {
        cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (waiter, failed) = waits.await.unwrap();
    assert_eq!(failed.unwrap_err().code(), Some(&SqlState::QUERY_CANCELED));
    waiter.batch_execute("ROLLBACK; SET statement_timeout = '100ms'; BEGIN").await.unwrap();
    assert_eq!(state(&waiter, "UPDATE w SET v = 2 WHERE id = 1").await, SqlState::QUERY_CANCELED);
    waiter.batch_execute("ROLLBACK; RESET statement_timeout").await.unwrap();
    holder.batch_execute("COMMIT").await.unwrap();
    waiter.batch_execute("UPDATE w SET v = v + 2 WHERE id = 1").await.unwrap();
    let found: i32 = holder.query_one("SELECT v FROM w", &[]).await.unwrap().get(0);
    assert_eq!(found, 3);
}

#[tokio::test]
async fn portals_give_their_rows_in_parts() {
    let served = Served::start(&["--islands", "2"]);
    let mut client = served.client().await;
    let table = "CREATE TABLE k (id int PRIMARY KEY); INSERT INTO k SELECT g FROM generate_series(1, 1000) g";
    client.batch_execute(table).await.unwrap();
    let txn = client.transaction().await.unwrap();
    let query = txn.prepare("SELECT id FROM k WHERE id > $1 ORDER BY id").await.unwrap();
    let (low, high) =
        (txn.bind(&query, &[&0i32]).await.unwrap(), txn.bind(&query, &[&900i32]).await.unwrap());
    let mut found = Vec::new();
    loop {
        let rows = txn.query_portal(&low, 130).await.unwrap();
        found.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
        // The portals do not disturb each other.
        let other = txn.query_portal(&high, 10).await.unwrap();
        assert_eq!(other.len(), 10);
        if rows.len() < 130 {
            break;
        }
    }
    assert_eq!(found, (1..=1000).collect::<Vec<_>>());
    txn.commit().await.unwrap();
}

#[tokio::test]
async fn prepared_statements_follow_definitions() {
    let served = Served::start(&["--islands", "2"]);
    let client = served.client().await;
    let other = served.client().await;
    client
        .batch_execute("CREATE TABLE s (id int PRIMARY KEY, v int); INSERT INTO s VALUES (1, 5)")
        .await
        .unwrap();
    let named = client.prepare("SELECT v FROM s WHERE id = $1").await.unwrap();
    let all = client.prepare("SELECT * FROM s").await.unwrap();
    let ask = async || client.query_one(&named, &[&1i32]).await.map(|row| row.get::<_, i32>(0));
    for change in [
        "ALTER TABLE s ADD COLUMN w text DEFAULT 'x'",
        "CREATE INDEX s_v ON s (v)",
        "DROP INDEX s_v",
        "ALTER TABLE s ADD CONSTRAINT positive CHECK (v > 0)",
    ] {
        assert_eq!(ask().await.unwrap(), 5);
        other.batch_execute(change).await.unwrap();
    }
    assert_eq!(ask().await.unwrap(), 5);
    let changed = client.query(&all, &[]).await.unwrap_err();
    assert_eq!(changed.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    other.batch_execute("DROP TABLE s").await.unwrap();
    assert_eq!(ask().await.unwrap_err().code(), Some(&SqlState::UNDEFINED_TABLE));
    let again = "CREATE TABLE s (v int, id int PRIMARY KEY); INSERT INTO s VALUES (6, 1)";
    other.batch_execute(again).await.unwrap();
    assert_eq!(ask().await.unwrap(), 6);
}

#[tokio::test]
async fn a_password_and_its_wrong_ones() {
    let served = Served::start(&[]);
    served.client().await.batch_execute("ALTER USER atoll PASSWORD 'secret'").await.unwrap();
    connect(&format!("{} password=secret", served.config())).await.unwrap();
    // After some wrong ones the next has to wait, and so has the right one: it may be a guess.
    let mut refused = 0;
    loop {
        let wrong = connect(&format!("{} password=wrong", served.config())).await.err().unwrap();
        assert_eq!(wrong.code(), Some(&SqlState::INVALID_PASSWORD));
        if wrong.as_db_error().unwrap().message().starts_with("too many wrong passwords") || refused > 20 {
            break;
        }
        refused += 1;
    }
    assert!((5..20).contains(&refused), "{refused}");
}

#[tokio::test]
async fn a_database_is_there_again_after_a_stop_and_a_new_start() {
    let mut served = Served::start(&["--islands", "2"]);
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (id serial PRIMARY KEY, v int); INSERT INTO t (v) VALUES (1), (2)")
        .await
        .unwrap();
    served.stop();
    assert!(client.batch_execute("SELECT 1").await.is_err());
    served.start_again();
    let client = served.client().await;
    client.batch_execute("INSERT INTO t (v) VALUES (3)").await.unwrap();
    let rows = client.query("SELECT id, v FROM t ORDER BY id", &[]).await.unwrap();
    let rows: Vec<(i32, i32)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows.iter().map(|row| row.1).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(rows[2].0 > rows[1].0, "{rows:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_select_of_a_whole_table_in_a_block_may_be_longer_than_a_message() {
    let served = Served::start(&["--islands", "2", "--durability", "async"]);
    let mut client = served.client().await;
    client.batch_execute("CREATE TABLE big (id int PRIMARY KEY, t text)").await.unwrap();
    let insert = "INSERT INTO big SELECT n, repeat('x', 500000) FROM generate_series($1::int, $1 + 9) n";
    for first in [1, 1001, 2001, 3001] {
        client.execute(insert, &[&first]).await.unwrap();
    }
    let block = client.transaction().await.unwrap();
    block.execute("UPDATE big SET t = 'short' WHERE id = 1", &[]).await.unwrap();
    let rows = block.query("SELECT t FROM big WHERE id <> $1", &[&2]).await.unwrap();
    let bytes: usize = rows.iter().map(|row| row.get::<_, &str>(0).len()).sum();
    assert_eq!((rows.len(), bytes), (39, 38 * 500_000 + 5));
    assert_eq!(block.query_one("SELECT count(*) FROM big", &[]).await.unwrap().get::<_, i64>(0), 40);
    block.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arrays_are_parameters_of_bulk_statements() {
    let served = Served::start(&["--durability", "async"]);
    let client = served.client().await;
    client.batch_execute("CREATE TABLE m (id bigint PRIMARY KEY, s varchar(20), ok bool)").await.unwrap();
    let ids: Vec<i64> = (1..=300).collect();
    let texts: Vec<Option<String>> =
        (1..=300).map(|n| (n % 7 != 0).then(|| format!("t'{n}, \"{{}}"))).collect();
    let insert = "INSERT INTO m (id, s) SELECT * FROM UNNEST($1::bigint[], $2::text[]) RETURNING id";
    assert_eq!(client.query(insert, &[&ids, &texts]).await.unwrap().len(), 300);
    let row = client.query_one("SELECT s FROM m WHERE id = 5", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "t'5, \"{}");

    let find = client.prepare("SELECT id FROM m WHERE id = ANY($1) ORDER BY id").await.unwrap();
    for wanted in [vec![3_i64, 900, 2], vec![], vec![300]] {
        let found = client.query(&find, &[&wanted]).await.unwrap();
        let expected: Vec<i64> = (1..=300).filter(|id| wanted.contains(id)).collect();
        assert_eq!(found.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), expected);
    }
    let change =
        "UPDATE m SET ok = u.ok FROM unnest($1::bigint[], $2::bool[]) AS u (id, ok) WHERE m.id = u.id";
    assert_eq!(client.execute(change, &[&vec![1_i64, 2], &vec![true, false]]).await.unwrap(), 2);
    let count = "SELECT count(*) FROM m WHERE s <> ALL ('{a,NULL}'::text[]) OR id = ANY (ARRAY[1, 2])";
    assert_eq!(client.query_one(count, &[]).await.unwrap().get::<_, i64>(0), 2);
    let text = "SELECT n FROM unnest('{5,6}'::int[]) WITH ORDINALITY AS u (v, n) WHERE v = 6";
    assert_eq!(client.query_one(text, &[]).await.unwrap().get::<_, i64>(0), 2);
    let given = vec![Some(1_i32), None];
    let row = client.query_one("SELECT $1::int[]", &[&given]).await.unwrap();
    assert_eq!(row.get::<_, Vec<Option<i32>>>(0), given);
    let refused = client.query("SELECT '{{1},{2}}'::int[]", &[]).await.unwrap_err();
    assert_eq!(refused.code().map(|code| code.code()), Some("0A000"));
}
