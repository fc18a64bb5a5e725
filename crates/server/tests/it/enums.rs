//! Enumerations over the protocol, and on rows that are stored already.

use crate::bench::Bench;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, private::BytesMut};

/// A label, in the binary form.
#[derive(Clone, PartialEq, Debug)]
struct Label(String);

type Failed = Box<dyn std::error::Error + Sync + Send>;

impl<'a> FromSql<'a> for Label {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Label, Failed> {
        Ok(Label(String::from_utf8(raw.to_vec())?))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Enum(_))
    }
}

impl ToSql for Label {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failed> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        <Label as FromSql>::accepts(ty)
    }

    tokio_postgres::types::to_sql_checked!();
}

fn label(text: &str) -> Label {
    Label(text.to_owned())
}

const TABLE: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE t (id int PRIMARY KEY, m mood, CHECK (m > 'sad' OR id > 0));
    INSERT INTO t VALUES (1, 'happy'), (2, 'sad'), (3, 'ok'), (4, NULL)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_go_in_and_out_as_parameters_and_arrays() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let statement = client.prepare("SELECT m, ARRAY[m] FROM t WHERE m >= $1 ORDER BY m").await.unwrap();
    let ty = &statement.params()[0];
    assert_eq!((ty.name(), ty.schema()), ("mood", "public"));
    assert_eq!(*ty.kind(), Kind::Enum(["sad", "ok", "happy"].map(String::from).to_vec()));
    let rows = client.query(&statement, &[&label("ok")]).await.unwrap();
    let got: Vec<(Label, Vec<Label>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(got, [(label("ok"), vec![label("ok")]), (label("happy"), vec![label("happy")])]);
    let wrong = client.query(&statement, &[&label("x")]).await.unwrap_err();
    assert_eq!(wrong.as_db_error().unwrap().message(), "invalid input value for enum mood: \"x\"");
    let any = "SELECT count(*) FROM t WHERE m = ANY ($1)";
    let row = client.query_one(any, &[&vec![label("sad"), label("ok")]]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 2);
    let insert = client.prepare("INSERT INTO t SELECT * FROM unnest($1::int[], $2::mood[])").await.unwrap();
    client.execute(&insert, &[&vec![8, 9], &vec![label("ok"), label("sad")]]).await.unwrap();
    // A statement of before knows the labels of after.
    client.batch_execute("ALTER TYPE mood ADD VALUE 'glad' BEFORE 'happy'").await.unwrap();
    client.execute("UPDATE t SET m = $1 WHERE id = 4", &[&label("glad")]).await.unwrap();
    let rows = client.query(&statement, &[&label("ok")]).await.unwrap();
    let got: Vec<Label> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(got, ["ok", "ok", "glad", "happy"].map(label));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stored_rows_follow_changes_of_the_type() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLE).await.unwrap();
    let column = async |text: &str| {
        let rows = client.simple_query(text).await.unwrap();
        let rows = rows.iter().filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
            _ => None,
        });
        rows.collect::<Vec<_>>().join(" ")
    };
    client.batch_execute("CREATE INDEX t_m ON t (m)").await.unwrap();
    for text in [
        "ALTER TYPE mood ADD VALUE 'so so' BEFORE 'ok'",
        "INSERT INTO t VALUES (5, 'so so')",
        "ALTER TYPE mood ADD VALUE 'worst' BEFORE 'sad'",
        "INSERT INTO t VALUES (6, 'worst')",
        "ALTER TYPE mood RENAME VALUE 'happy' TO 'glad'",
        "ALTER TABLE t ADD COLUMN n mood NOT NULL DEFAULT 'ok'",
        "ALTER TABLE t ALTER COLUMN n SET DEFAULT 'worst'",
        "INSERT INTO t (id, m) VALUES (7, 'sad')",
    ] {
        client.batch_execute(text).await.unwrap();
    }
    assert_eq!(column("SELECT m FROM t ORDER BY m, id").await, "worst sad sad so so ok glad NULL");
    assert_eq!(column("SELECT id FROM t WHERE m > 'sad' AND m < 'glad' ORDER BY m").await, "5 3");
    assert_eq!(column("SELECT n FROM t ORDER BY id").await, "ok ok ok ok ok ok worst");
    let check = client.batch_execute("INSERT INTO t VALUES (-1, 'sad')").await.unwrap_err();
    assert_eq!(check.code().unwrap().code(), "23514");
    for text in [
        "ALTER TABLE t ALTER COLUMN m TYPE text",
        "UPDATE t SET m = 'glad' WHERE m IS NULL",
        "ALTER TYPE mood RENAME TO feeling",
        "ALTER TABLE t ALTER COLUMN m TYPE feeling USING m::feeling",
        "CREATE TABLE copy AS SELECT id, m FROM t WHERE m >= 'so so'",
        "ALTER TABLE copy ADD PRIMARY KEY (m, id)",
    ] {
        client.batch_execute(text).await.unwrap();
    }
    assert_eq!(column("SELECT m FROM copy ORDER BY m DESC, id").await, "glad glad ok so so");
    assert_eq!(column("SELECT id FROM copy WHERE m = 'glad' ORDER BY id").await, "1 4");
    let default = "SELECT column_default FROM information_schema.columns WHERE column_name = 'n'";
    assert_eq!(column(default).await, "'worst'::feeling");
    let key = client.batch_execute("DROP TYPE feeling CASCADE").await.unwrap_err();
    assert_eq!(key.code().unwrap().code(), "0A000", "a column of a primary key is not dropped");
    client.batch_execute("DROP TABLE copy").await.unwrap();
    client.batch_execute("BEGIN; DROP TYPE feeling CASCADE; ROLLBACK").await.unwrap();
    assert_eq!(column("SELECT max(m) FROM t").await, "glad");
    client.batch_execute("DROP TYPE feeling CASCADE").await.unwrap();
    assert_eq!(column("SELECT * FROM t WHERE id = 7").await, "7");
}
