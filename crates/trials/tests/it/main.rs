//! The trials, small.

#[path = "../shared/plans.rs"]
mod plans;

mod anomalies;
mod brokerage;
mod crash;
mod faults;
mod flips;
mod found;
mod full;
mod histories;
mod islands;
