//! Synthetic rows of a sweep, in the form that `bench --profile` writes: two designs, two numbers
//! of islands, reads and updates over multisite shares, with every field that a row can have.

use driver::{Labels, LatencyUs, MachineStamp, PerTransaction, ResultRow, Settings};
use report::{Report, Rows};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use topology::Machine;

pub const HOSTILE: &str =
    "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">";

fn map(pairs: &[(&str, f64)]) -> BTreeMap<String, f64> {
    pairs.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

/// Synthetic costs that grow with distribution.
fn profile(remote: f64, write: f64) -> PerTransaction {
    let sections = |n: f64| BTreeMap::from([("fixed".into(), n), ("unbounded".into(), n * 2.0)]);
    PerTransaction {
        time_ns_per_txn: map(&[
            ("execution", 9_000.0 + 2_000.0 * write),
            ("locking", 2_500.0),
            ("latching", 800.0),
            ("logging", 2_000.0 * write),
            ("communication", 6_000.0 * remote),
            ("management", 1_500.0 + 1_000.0 * remote),
            ("waiting", 4_000.0 + 30_000.0 * remote),
        ]),
        waiting_ns_per_txn: map(&[
            ("turn", 3_000.0),
            ("reply", 25_000.0 * remote),
            ("log", 6_000.0 * remote * write),
        ]),
        worker_ns_per_txn: map(&[
            ("execution", 9_500.0),
            ("communication", 9_000.0 * remote),
            ("idle", 2_000.0),
        ]),
        critical_sections_per_txn: BTreeMap::from([
            ("locking".into(), sections(10.0)),
            ("latching".into(), sections(3.0 * write)),
            ("communication".into(), sections(4.0 * remote)),
        ]),
        contended_sections_per_txn: BTreeMap::from([("locking".into(), sections(0.1))]),
        latches_per_txn: map(&[("index", 11.0), ("heap", 10.0)]),
        accesses_per_txn: map(&[
            ("records", 10.0),
            ("row_locks", 10.0),
            ("higher_locks", 1.0),
            ("index_pages", 21.0),
        ]),
        ..PerTransaction::default()
    }
}

fn row(design: &str, islands: u16, op: &str, multisite: f64) -> Value {
    let write = f64::from(u8::from(op == "update"));
    let remote = if islands > 1 { multisite / 100.0 } else { 0.0 };
    let profile = profile(remote, write);
    let us = profile.elapsed_ns() / 1000.0;
    let tps = 4e6 / us * f64::from(islands);
    let labels = Labels { op: Some(op.into()), multisite: Some(multisite), ..Labels::default() };
    let row = ResultRow {
        settings: Settings {
            workload: "micro".into(),
            design: Some(design.into()),
            islands: Some(islands),
            labels,
            ..Settings::default()
        },
        tps,
        tps_min: tps * 0.93,
        tps_max: tps * 1.05,
        committed: (tps * 5.0) as u64,
        aborted: [("deadlock".to_string(), 3)].into(),
        distributed: Some(remote),
        latency_us: Some(LatencyUs {
            p50: us * 0.8,
            p95: Some(us * 2.0),
            p99: us * 4.0,
            p999: Some(us * 15.0),
            max: Some(us * 90.0),
            mean: Some(us),
        }),
        seconds: 5.0,
        consistent: Some(true),
        profile: Some(profile),
        machine: MachineStamp { model: "A machine".into(), cores: 16, islands: 2, ..MachineStamp::default() },
        ..ResultRow::new(Settings::default())
    };
    let settings = serde_json::to_value(&row).expect("a row is JSON");
    with_details(settings, us, tps)
}

/// The fields that the driver adds to some rows.
fn with_details(mut row: Value, us: f64, tps: f64) -> Value {
    let second = |at: i32| {
        let wave = 1.0 + 0.08 * f64::from(at).sin();
        json!({"at": at, "tps": tps * wave, "committed": (tps * wave) as u64, "aborted": at % 3, "p50_us": us / wave, "p99_us": 4.0 * us / wave})
    };
    row["series"] = (1..=20).map(second).collect();
    let decision = |at: f64, outcome: &str| json!({"at": at, "why": "partition 0 has 1.29 of the mean", "outcome": outcome, "took_ms": 5.7});
    row["rebalances"] = json!([decision(-1.0, "done"), decision(7.5, "done"), decision(9.0, "advised")]);
    let bucket = |i: i32| json!([us * 0.5 * 1.25f64.powi(i), (1e6 * 0.7f64.powi(i)) as u64 + 1]);
    row["latency_histogram"] = (0..40).map(bucket).collect();
    row["repetitions"] = [0.93, 1.0, 1.05].map(|f| json!({"tps": tps * f, "noise": 0.0})).to_vec().into();
    row["committed_by_kind"] = json!({"local": (tps * 3.0) as u64, "multisite": (tps * 2.0) as u64});
    row["aborted_by_kind"] = json!({"multisite": {"deadlock": 3}});
    row["date"] = "2026-11-24T11:53:43Z".into();
    row["command"] = "atoll bench micro --design conventional,serial --multisite 0,20,50,80,100".into();
    (row["hostname"], row["kernel"]) = ("somewhere".into(), "6.1.0-13-amd64".into());
    let kind = |factor: f64| json!({"p50": us * factor, "p95": us * factor * 3.0, "p99": us * factor * 5.0, "max": us * 80.0});
    row["latency_us_by_kind"] = json!({"local": kind(0.7), "multisite": kind(2.5)});
    row
}

pub fn sweep() -> Rows {
    let mut lines = String::new();
    for design in ["conventional", "serial"] {
        for islands in [1, 2] {
            for op in ["read", "update"] {
                for multisite in [0.0, 20.0, 50.0, 80.0, 100.0] {
                    lines += &format!("{}\n", row(design, islands, op, multisite));
                }
            }
        }
    }
    let mut rows = Rows::default();
    rows.add("sweep", lines.as_bytes());
    assert_eq!((rows.rows.len(), rows.complaints.len()), (40, 0));
    rows
}

pub const DESIGNS: [&str; 7] =
    ["conventional", "logical", "plp-regular", "plp-partition", "plp-leaf", "serial", "occ"];

/// Every design, reads and updates over multisite shares; conventional only reads, and the rows are
/// not ordered by design.
pub fn designs() -> Report {
    let mut lines = String::new();
    for (n, design) in DESIGNS.iter().rev().enumerate() {
        for op in ["read", "update"] {
            for multisite in [0.0, 20.0, 50.0, 100.0] {
                let mut row = row(design, 2, op, multisite);
                for field in ["tps", "tps_min", "tps_max"] {
                    row[field] = (row[field].as_f64().expect("a number") * (1.0 + 0.25 * n as f64)).into();
                }
                if (*design, op) != ("conventional", "update") {
                    lines += &format!("{row}\n");
                }
            }
        }
    }
    let mut rows = Rows::default();
    rows.add("designs", lines.as_bytes());
    Report { rows: rows.rows, machines: Vec::new(), notes: Vec::new() }
}

pub fn report() -> Report {
    let csv = format!("{}/../../machines/amd-ryzen-9-5950x.csv", env!("CARGO_MANIFEST_DIR"));
    Report { rows: sweep().rows, machines: vec![Machine::parse(&csv).expect("a machine")], notes: Vec::new() }
}

/// Every text that a row, a machine or a note can contain is malicious.
pub fn hostile() -> Report {
    let mut lines = String::new();
    for multisite in [0.0, 50.0, 100.0] {
        for design in [HOSTILE, "{g|serial}"] {
            let mut row = row(design, 2, "read", multisite);
            for field in ["workload", "channel", "commit", "date", "command", "hostname", "kernel"] {
                row[field] = HOSTILE.into();
            }
            row["machine"]["model"] = HOSTILE.into();
            row["time_ns_per_txn"][HOSTILE] = 5000.0.into();
            row["critical_sections_per_txn"][HOSTILE] = json!({HOSTILE: 2.0});
            row["latency_us_by_kind"][HOSTILE] = json!({"p50": 1.0, "p99": 2.0});
            row["committed_by_kind"][HOSTILE] = 3.into();
            row["aborted_by_kind"][HOSTILE] = json!({HOSTILE: 2});
            row["violations"] = json!([HOSTILE]);
            row["options"] = json!({HOSTILE: HOSTILE});
            lines += &format!("{row}\n");
        }
    }
    let mut rows = Rows::default();
    rows.add(HOSTILE, lines.as_bytes());
    let mut machine = Machine::parse("package:1 core:2").expect("a machine");
    machine.model = HOSTILE.into();
    Report { rows: rows.rows, machines: vec![machine], notes: vec![HOSTILE.into()] }
}

/// `--design conventional,serial,occ` alone: every other setting in which the rows differ follows
/// from the design.
pub fn three_designs() -> Report {
    let settings = [
        json!({"tree": "btree", "heap": "shared", "latching": "optimistic", "workers": 2, "memory_mib": 64.0}),
        json!({"tree": "btree", "heap": "shared", "balance": "off", "workers": 1, "memory_mib": 64.0}),
        json!({"occ_reads": "validate", "occ_conflict": "wait", "workers": 2, "memory_mib": 4000.0}),
    ];
    let mut lines = String::new();
    for (design, settings) in THREE.into_iter().zip(settings) {
        let mut row = row(design, 1, "read", 0.0);
        let fields = settings.as_object().expect("an object").clone();
        row.as_object_mut().expect("an object").extend(fields);
        lines += &format!("{row}\n");
    }
    let mut rows = Rows::default();
    rows.add("three", lines.as_bytes());
    Report { rows: rows.rows, machines: Vec::new(), notes: Vec::new() }
}

pub const THREE: [&str; 3] = ["conventional", "serial", "occ"];
