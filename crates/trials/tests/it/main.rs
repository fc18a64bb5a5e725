//! The trials, small.

mod anomalies;
mod crash;
mod faults;
mod flips;
mod found;
mod full;
mod histories;
mod islands;
