//! `atoll serve` from outside: the built binary, and real clients of PostgreSQL.

mod anomalies;
mod bases;
#[allow(dead_code)]
#[path = "../../../report/tests/it/browser.rs"]
mod browser;
mod drivers;
mod dumps;
mod full;
mod histories;
mod hosts;
mod kills;
mod operations;
mod programs;
mod served;
mod takeovers;
