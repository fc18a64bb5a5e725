//! Parameters, plans, memory and time.

use crate::atoll::Atoll;
use compiler::general::{General, Plan};
use sql::{Datum, SqlType};
use std::sync::Arc;
use std::time::Duration;

fn with_rows(count: u32) -> Atoll {
    let mut atoll = Atoll::new();
    atoll.run("CREATE TABLE a (id int PRIMARY KEY, v bigint, t text)").unwrap();
    let text = format!("INSERT INTO a SELECT n, n * 10, 'row ' || n FROM generate_series(1, {count}) AS n");
    atoll.run(&text).unwrap();
    atoll
}

fn planned(atoll: &Atoll, text: &str) -> Arc<dyn Plan> {
    let parsed = compiler::parse(text).unwrap().pop().unwrap();
    atoll.queries.plan(&atoll.catalog, &parsed, &[]).unwrap().unwrap()
}

#[test]
fn parameters_have_the_types_of_their_use() {
    let mut atoll = with_rows(3);
    let plan =
        planned(&atoll, "WITH b AS (SELECT * FROM a WHERE v >= $1) SELECT t FROM b WHERE t <> $2 LIMIT $3");
    assert_eq!(plan.params(), [SqlType::Int8, SqlType::Text, SqlType::Int8]);
    let params = vec![Datum::Int(20), Datum::Text("row 3".into()), Datum::Int(5)];
    assert_eq!(atoll.plan(plan.as_ref(), params).unwrap(), [[Datum::Text("row 2".into())]]);
    let params = vec![Datum::Int(10), Datum::Text("x".into()), Datum::Int(1)];
    assert_eq!(atoll.plan(plan.as_ref(), params).unwrap().len(), 1);
}

#[test]
fn conditions_on_keys_go_into_the_scans() {
    let atoll = with_rows(1);
    let plan = planned(&atoll, "SELECT v, row_number() OVER (ORDER BY id) FROM a WHERE id = 7");
    let lines = plan.describe().unwrap().join("\n");
    assert!(lines.contains("WindowAggr") && lines.contains("by key (id = 7), one slot"), "{lines}");
}

#[test]
fn memory_is_limited() {
    let mut atoll = with_rows(2000);
    atoll.queries.memory = 8 << 20;
    let plan = planned(&atoll, "SELECT x.t || y.t AS t FROM a x, a y ORDER BY 1");
    let error = atoll.plan(plan.as_ref(), Vec::new()).unwrap_err();
    assert_eq!(error.state.as_str(), "53200");
    assert!(error.hint.is_some());
}

#[test]
fn a_query_that_is_dropped_ends() {
    let mut atoll = with_rows(2000);
    let plan = planned(&atoll, "SELECT count(*) FROM a x, a y, a z WHERE x.id + y.id < z.id - 1000000");
    let rows: Vec<_> = (0..3).map(|_| atoll.rows("SELECT * FROM a").unwrap().1).collect();
    let started = plan.start(Default::default(), Vec::new()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Cut to the columns of each scan: all have the key first.
    let rows =
        rows.into_iter().map(|rows| rows.into_iter().map(|row| vec![row[0].clone()]).collect()).collect();
    let ended = runtime
        .block_on(async { tokio::time::timeout(Duration::from_millis(200), started.finish(rows)).await });
    assert!(ended.is_err());
}
