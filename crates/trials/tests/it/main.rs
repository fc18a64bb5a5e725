//! The trials, small.

mod crash;
mod faults;
mod flips;
mod found;
mod histories;
