//! `atoll serve` from outside: the built binary, and real clients of PostgreSQL.

mod anomalies;
mod drivers;
mod kills;
mod programs;
mod served;
