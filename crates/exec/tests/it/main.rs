//! Two transactions side by side, step by step: the reads and writes that the second may do while
//! the first has not ended. And random histories of several, each replayed in the order of commits.

mod clustered;
mod doubts;
mod global_lock;
mod histories;
mod horizons;
mod isolation;
mod moving;
mod owned_rows;
mod owners;
mod poisoned;
mod schema;
mod secondary;
