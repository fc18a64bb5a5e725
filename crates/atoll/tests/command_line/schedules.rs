//! `--schedule`: when the requests of a worker's clients start.

use super::*;

/// A worker with eight clients that ask for seven kinds of transactions: each request starts at
/// last, whichever others it waits for, and the rows say what was asked for.
#[test]
fn requests_of_one_kind_start_together_under_each_design() {
    let args = ["bench", "tatp", "--islands", "1", "--workers", "1", "--clients", "8", "--scale", "1"];
    let options =
        ["--design", "conventional,logical,serial,occ", "--host", "thread", "--durability", "memory"];
    let schedules = ["--schedule", "arrival,batched,staged"];
    let output = Sandbox::new().run(&[&args[..], &options, &schedules, BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows(&output);
    let asked: Vec<_> = rows.iter().map(|row| row["schedule"].as_str().unwrap()).collect();
    assert_eq!(asked, ["arrival", "batched", "staged"].repeat(4));
    for row in &rows {
        assert!(row["tps"].as_f64().unwrap() > 0.0 && row["consistent"] == true, "{row}");
    }
    assert_refused(&["bench", "tatp", "--schedule", "sorted"], 2, &["sorted", "batched", "staged"]);
}

/// Clients of two islands: a transaction in a batch may wait for the other island.
#[test]
fn batches_of_distributed_transactions_end() {
    let args = ["bench", "tpcb", "--islands", "2", "--workers", "2", "--clients", "6", "--scale", "2"];
    let options = ["--multisite", "50", "--host", "thread", "--durability", "async"];
    let output = Sandbox::new().run(&[&args[..], &options, &["--schedule", "staged"], BRIEF].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let row = rows(&output).remove(0);
    assert!(row["tps"].as_f64().unwrap() > 0.0 && row["consistent"] == true, "{row}");
    assert!(row["distributed"].as_f64().unwrap() > 0.0, "{row}");
}
