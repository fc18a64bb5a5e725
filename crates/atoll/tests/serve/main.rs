//! `atoll serve` from outside: the built binary, and real clients of PostgreSQL.

mod drivers;
mod programs;
mod served;
