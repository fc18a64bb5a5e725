//! The system catalogs, as clients ask for them.

use crate::bench::Bench;
use std::process::Command;

const TABLES: &str = "
    CREATE TABLE dept (id int PRIMARY KEY, name text NOT NULL UNIQUE, city varchar(20) DEFAULT 'Bern');
    CREATE TABLE emp (id serial PRIMARY KEY, dept_id int REFERENCES dept (id) ON DELETE CASCADE,
        salary numeric(10,2) CHECK (salary > 0), hired timestamp, code char(4), big bigint DEFAULT 5);
    CREATE INDEX emp_hired ON emp (hired, code)";

/// What psql shows of these tables on PostgreSQL 15, but for the text of the check.
const SHOWN: &str = include_str!("psql.txt");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_describes_tables_as_it_does_on_postgresql() {
    shows(TABLES, SHOWN).await;
}

/// The same of an enumeration and a table with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_describes_enumerations_as_it_does_on_postgresql() {
    let tables = "CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s');
        CREATE TABLE feels (id int PRIMARY KEY, m mood NOT NULL DEFAULT 'ok', l mood[])";
    shows(tables, include_str!("psql_enums.txt")).await;
}

async fn shows(tables: &str, shown: &str) {
    let bench = Bench::new().await;
    bench.client().await.batch_execute(tables).await.unwrap();
    let port = bench.address.port().to_string();
    let mut wrong = String::new();
    for part in shown.split("--- ").filter(|part| !part.is_empty()) {
        let (command, expected) = part.split_once('\n').unwrap();
        let output = Command::new("psql")
            .args(["-X", "-h", "127.0.0.1", "-p", &port, "-U", "atoll", "-d", "test", "-c", command])
            .output();
        let Ok(output) = output else {
            return eprintln!("psql is not installed, so this test is skipped");
        };
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        if lines(text.trim_end()) != lines(expected.trim_end()) {
            wrong += &format!("--- {command}\n{text}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalogs_take_parameters_and_arrays() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    let names = "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
        WHERE n.nspname = $1 AND relkind = ANY (ARRAY['r', 'p']) ORDER BY relname";
    let rows = client.query(names, &[&"public"]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.get::<_, &str>(0)).collect::<Vec<_>>(), ["dept", "emp"]);
    let columns = "SELECT column_name, data_type, is_nullable FROM information_schema.columns
        WHERE table_name = $1 ORDER BY ordinal_position";
    let rows = client.query(columns, &[&"dept"]).await.unwrap();
    let texts: Vec<&str> = rows.iter().map(|row| row.get::<_, &str>(1)).collect();
    assert_eq!(texts, ["integer", "text", "character varying"]);
    let unknown = client.simple_query("SELECT no_such FROM pg_class").await.unwrap_err();
    assert_eq!(unknown.code().unwrap().code(), "42703");
    let missing = client.simple_query("SELECT 'no_such'::regclass").await.unwrap_err();
    assert_eq!(missing.code().unwrap().code(), "42P01");
}

/// The look-up of asyncpg, which it makes when it first meets an array: a recursive query, with
/// another one for each row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn types_of_arrays_are_found_by_recursion() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    let types = "(SELECT t.oid, t.typname AS name, t.typtype AS kind, t.typelem AS elemtype,
            CASE WHEN t.typtype = 'd' THEN (WITH RECURSIVE bases(oid, depth) AS (
                SELECT t2.typbasetype, 0 FROM pg_type t2 WHERE t2.oid = t.oid
                UNION ALL
                SELECT t2.typbasetype, b.depth + 1 FROM pg_type t2, bases b
                WHERE b.oid = t2.oid AND t2.typbasetype != 0
            ) SELECT oid FROM bases ORDER BY depth DESC LIMIT 1) ELSE NULL END AS basetype
        FROM pg_catalog.pg_type t)";
    let text = format!(
        "WITH RECURSIVE tree(oid, name, kind, elemtype, basetype, depth) AS (
            SELECT ti.oid, ti.name, ti.kind, ti.elemtype, ti.basetype, 0 FROM {types} AS ti
            WHERE ti.oid = any($1::oid[])
            UNION ALL
            SELECT ti.oid, ti.name, ti.kind, ti.elemtype, ti.basetype, tt.depth + 1 FROM {types} ti, tree tt
            WHERE (tt.elemtype IS NOT NULL AND ti.oid = tt.elemtype)
                OR (tt.basetype IS NOT NULL AND ti.oid = tt.basetype))
        SELECT DISTINCT *, elemtype::regtype::text AS elemtype_name FROM tree ORDER BY depth DESC"
    );
    let rows = client.query(&text, &[&vec![1007_u32, 25]]).await.unwrap();
    let mut found: Vec<(i32, &str)> = rows.iter().map(|row| (row.get("depth"), row.get("name"))).collect();
    found.sort_unstable();
    assert_eq!(found, [(0, "_int4"), (0, "text"), (1, "int4")]);
    let array = rows.iter().find(|row| row.get::<_, u32>("oid") == 1007).unwrap();
    assert_eq!(array.get::<_, &str>("elemtype_name"), "integer");
    let plain =
        "WITH RECURSIVE t AS (SELECT oid FROM pg_type WHERE oid = 25 UNION SELECT 25) SELECT * FROM t";
    assert_eq!(client.query(plain, &[]).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_explained() {
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client.batch_execute("INSERT INTO dept VALUES (1, 'a'), (2, 'b')").await.unwrap();
    let text = async |query: &str| -> String {
        let rows = client.query(query, &[]).await.unwrap();
        rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
    };
    let plan = text("EXPLAIN SELECT name FROM dept WHERE id = 1").await;
    assert!(plan.contains("From dept by key (id = 1), one slot"), "{plan}");
    let plan = text("EXPLAIN ANALYZE UPDATE dept SET city = 'x' WHERE id = 2").await;
    assert!(plan.contains("Update dept: city = ") && plan.contains("Phase 1 "), "{plan}");
    assert!(plan.contains("Islands: 1\n") && plan.contains("Rows: 1\n"), "{plan}");
    // It has been carried out.
    let city: String = client.query_one("SELECT city FROM dept WHERE id = 2", &[]).await.unwrap().get(0);
    assert_eq!(city, "x");
}

/// The program's output is a schema that is made again from it, with the same output.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_dump_writes_a_schema_that_can_be_restored() {
    let dumped = |bench: &Bench| {
        let port = bench.address.port().to_string();
        let args = ["--schema-only", "-h", "127.0.0.1", "-p", &port, "-U", "atoll", "test"];
        let output = Command::new("pg_dump").args(args).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // Lines for psql have a word by chance.
        let lines = text.lines().filter(|line| !line.starts_with('\\'));
        Some(lines.map(|line| format!("{line}\n")).collect::<String>())
    };
    let bench = Bench::new().await;
    let client = bench.client().await;
    client.batch_execute(TABLES).await.unwrap();
    client.batch_execute(MORE).await.unwrap();
    let Some(first) = dumped(&bench) else {
        return eprintln!("pg_dump is not installed, so this test is skipped");
    };
    for part in PARTS {
        assert!(first.contains(part), "{part}\n--- is not in:\n{first}");
    }
    let other = Bench::new().await;
    other.client().await.batch_execute(&first).await.unwrap();
    assert_eq!(dumped(&other), Some(first));
}

const MORE: &str = "
    CREATE SEQUENCE lone INCREMENT 2 START 7;
    CREATE TABLE tagged (tags text[] NOT NULL DEFAULT '{}', at timestamptz DEFAULT now());
    CREATE FUNCTION twice(a int) RETURNS int LANGUAGE SQL AS $$ SELECT a * 2 $$";

/// As in the output for PostgreSQL 15.
const PARTS: [&str; 7] = [
    "CREATE TABLE public.dept (
    id integer NOT NULL,
    name text NOT NULL,
    city character varying(20) DEFAULT 'Bern'::character varying
);",
    "CREATE TABLE public.tagged (
    tags text[] DEFAULT '{}'::text[] NOT NULL,
    at timestamp with time zone DEFAULT now()
);",
    "ALTER SEQUENCE public.emp_id_seq OWNED BY public.emp.id;",
    "ALTER TABLE ONLY public.emp ALTER COLUMN id SET DEFAULT nextval('public.emp_id_seq'::regclass);",
    "CREATE INDEX emp_hired ON public.emp USING btree (hired, code);",
    "    ADD CONSTRAINT emp_dept_id_fkey FOREIGN KEY (dept_id) REFERENCES public.dept(id) ON DELETE CASCADE;",
    "CREATE FUNCTION public.twice(a integer) RETURNS integer
    LANGUAGE sql
    AS $$ SELECT a * 2 $$;",
];
