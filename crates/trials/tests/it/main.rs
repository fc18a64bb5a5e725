//! The trials, small.

mod crash;
mod faults;
mod found;
