//! The trials, small.

mod crash;
mod found;
