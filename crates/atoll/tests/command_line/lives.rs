//! Some rounds of `cargo xtask lives`: instances are killed under distributed deposits, or under
//! TPC-E with its exchange, and come back with other workers.

#[path = "../../../../xtask/src/lives.rs"]
#[allow(dead_code)]
mod campaign;

use campaign::{Bank, Business};
use std::path::Path;

fn live(business: Business, design: &'static str, channel: &'static str, seed: u64) {
    let dir = tempfile::Builder::new().prefix("l-").tempdir().unwrap();
    let atoll = Path::new(env!("CARGO_BIN_EXE_atoll"));
    let bank = Bank::load(atoll, dir.path(), (design, channel), business, seed);
    let mut bank = bank.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    let rounds = if business == Business::Bank { 2 } else { 1 };
    for _ in 0..rounds {
        let what = bank.round().unwrap_or_else(|what| {
            let tpce = if business == Business::Bank { "" } else { "tpce " };
            panic!("{what}\nagain: cargo xtask lives {tpce}{rounds} --seed {seed} --design {design} --channel {channel}")
        });
        eprintln!("{}: {what}", bank.describe());
    }
}

#[test]
fn conventional_instances_live_on_with_other_workers() {
    live(Business::Bank, "conventional", "shm", 1);
}

#[test]
fn owners_live_on_with_other_workers() {
    live(Business::Bank, "logical", "uds", 2);
}

#[test]
fn owners_of_rows_live_on_with_other_workers() {
    live(Business::Bank, "plp-leaf", "tcp", 3);
}

#[test]
fn rows_in_main_memory_live_on_with_other_workers() {
    live(Business::Bank, "occ", "shm", 4);
}

/// Each order has one result, or is open, however often the exchange is lost.
#[test]
fn a_brokerage_lives_on_and_its_exchange_comes_back() {
    live(Business::Brokerage, "conventional", "shm", 5);
}
