//! The built-in descriptions: TPC-B, TPC-C's Payment, NewOrder and mix, and TATP.
//!
//! Rows per group follow the specifications (TPC-B 2.0 clause 1.2; TPC-C 5.11 clauses 2.4-2.8; TATP
//! 1.0 section 5) and `workload`'s procedures. They are descriptions, not recordings: their row
//! weights are 1.

use super::{Mix, PhaseSteps, Place, RecordedKind, RowGroup, Table};

fn table(name: &str, rows_per_site: u64) -> Table {
    Table { name: name.into(), rows_per_site }
}

fn rows(table: usize, rows: u32, update: bool, place: Place) -> RowGroup {
    RowGroup { table, rows, update, place }
}

fn kind(name: &str, share: f64, inserts: u32, phases: Vec<Vec<RowGroup>>) -> RecordedKind {
    let phases = phases.into_iter().map(|groups| PhaseSteps { groups }).collect();
    RecordedKind { name: name.into(), share, phases, inserts, row_weight: 1.0, log_bytes: None }
}

/// TPC-B with one branch per site; `remote` is the probability of an account of another branch
/// (0.15 by the specification).
pub fn tpcb(sites: u32, remote: f64) -> Mix {
    let account = Place::Remote { probability: remote, decision: 0 };
    let phase = vec![rows(0, 1, true, account), rows(1, 1, true, Place::Home), rows(2, 1, true, Place::Home)];
    Mix {
        name: "tpcb".into(),
        sites,
        together: 1,
        is_routed: false,
        tables: vec![table("account", 100_000), table("teller", 10), table("branch", 1)],
        kinds: vec![kind("account_update", 1.0, 1, vec![phase])],
    }
}

/// Tables of TPC-C, one warehouse per site.
fn tpcc_tables() -> Vec<Table> {
    vec![
        table("warehouse", 1),
        table("district", 10),
        table("customer", 30_000),
        table("stock", 100_000),
        table("item", 100_000),
        table("order", 30_000),
        table("order_line", 300_000),
    ]
}

/// `remote` is the probability of a customer of another warehouse (0.15).
fn payment(share: f64, remote: f64) -> RecordedKind {
    let customer = Place::Remote { probability: remote, decision: 0 };
    let phase =
        vec![rows(0, 1, true, Place::Home), rows(1, 1, true, Place::Home), rows(2, 1, true, customer)];
    kind("payment", share, 1, vec![phase])
}

/// `remote` is the probability that one of ten lines is supplied by another warehouse (0.1).
fn new_order(share: f64, remote: f64) -> RecordedKind {
    let supplier = Place::Remote { probability: remote, decision: 0 };
    let first = vec![
        rows(0, 1, false, Place::Home),
        rows(1, 1, true, Place::Home),
        rows(2, 1, false, Place::Home),
        rows(4, 10, false, Place::Home),
    ];
    let second = vec![rows(3, 9, true, Place::Home), rows(3, 1, true, supplier)];
    kind("new_order", share, 12, vec![first, second])
}

/// TPC-C's Payment alone.
pub fn tpcc_payment(sites: u32, remote: f64) -> Mix {
    let kinds = vec![payment(1.0, remote)];
    Mix { name: "tpcc-payment".into(), sites, together: 1, is_routed: false, tables: tpcc_tables(), kinds }
}

/// TPC-C's NewOrder alone.
pub fn tpcc_new_order(sites: u32, remote: f64) -> Mix {
    let kinds = vec![new_order(1.0, remote)];
    Mix { name: "tpcc-neworder".into(), sites, together: 1, is_routed: false, tables: tpcc_tables(), kinds }
}

/// TPC-C's mix: 45 % NewOrder, 43 % Payment, 4 % each of the others.
pub fn tpcc_mix(sites: u32) -> Mix {
    let home = Place::Home;
    let status = vec![rows(2, 1, false, home), rows(5, 1, false, home), rows(6, 10, false, home)];
    let delivery = vec![rows(2, 10, true, home), rows(5, 10, true, home), rows(6, 100, true, home)];
    let level = vec![rows(1, 1, false, home), rows(6, 200, false, home), rows(3, 200, false, home)];
    let kinds = vec![
        new_order(0.45, 0.1),
        payment(0.43, 0.15),
        kind("order_status", 0.04, 0, vec![status]),
        kind("delivery", 0.04, 0, vec![delivery]),
        kind("stock_level", 0.04, 0, vec![level]),
    ];
    Mix { name: "tpcc".into(), sites, together: 1, is_routed: false, tables: tpcc_tables(), kinds }
}

/// TATP, a subscriber's rows being at one site: 80 % reads, every transaction local.
pub fn tatp(sites: u32) -> Mix {
    let home = Place::Home;
    let one = |table: usize, update: bool| vec![vec![rows(table, 1, update, home)]];
    let two =
        |a: usize, b: usize, update: bool| vec![vec![rows(a, 1, update, home), rows(b, 1, update, home)]];
    let kinds = vec![
        kind("get_subscriber_data", 0.35, 0, one(0, false)),
        kind("get_new_destination", 0.10, 0, two(2, 3, false)),
        kind("get_access_data", 0.35, 0, one(1, false)),
        kind("update_subscriber_data", 0.02, 0, two(0, 2, true)),
        kind("update_location", 0.14, 0, one(0, true)),
        kind("insert_call_forwarding", 0.02, 1, two(0, 2, false)),
        kind("delete_call_forwarding", 0.02, 0, two(0, 3, true)),
    ];
    Mix {
        name: "tatp".into(),
        sites,
        together: 1,
        is_routed: false,
        tables: vec![
            table("subscriber", 100_000),
            table("access_info", 250_000),
            table("special_facility", 250_000),
            table("call_forwarding", 375_000),
        ],
        kinds,
    }
}
