//! Two transactions side by side, step by step: what the second may see and do while the first has not ended; and random
//! histories of several, each replayed in the order of commits.

mod clustered;
mod doubts;
mod histories;
mod isolation;
mod moving;
mod owned_rows;
mod owners;
mod poisoned;
mod schema;
mod secondary;
