//! Some rounds of `cargo xtask lives`: instances are killed under distributed deposits and come
//! back with other workers.

#[path = "../../../../xtask/src/lives.rs"]
#[allow(dead_code)]
mod campaign;

use campaign::Bank;
use std::path::Path;

fn live(design: &'static str, channel: &'static str, seed: u64) {
    let dir = tempfile::Builder::new().prefix("l-").tempdir().unwrap();
    let atoll = Path::new(env!("CARGO_BIN_EXE_atoll"));
    let bank = Bank::load(atoll, dir.path(), (design, channel), seed);
    let mut bank = bank.unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    for _ in 0..2 {
        let what = bank.round().unwrap_or_else(|what| {
            panic!("{what}\nagain: cargo xtask lives 2 --seed {seed} --design {design} --channel {channel}")
        });
        eprintln!("{}: {what}", bank.describe());
    }
}

#[test]
fn conventional_instances_live_on_with_other_workers() {
    live("conventional", "shm", 1);
}

#[test]
fn owners_live_on_with_other_workers() {
    live("logical", "uds", 2);
}

#[test]
fn owners_of_rows_live_on_with_other_workers() {
    live("plp-leaf", "tcp", 3);
}

#[test]
fn rows_in_main_memory_live_on_with_other_workers() {
    live("occ", "shm", 4);
}
