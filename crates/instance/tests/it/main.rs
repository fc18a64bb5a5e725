//! Whole deployments inside one process: every design, channel and number of instances, loaded,
//! driven and checked.

mod answers;
mod conversations;
mod deployments;
mod diary;
mod edges;
mod larger;
mod lives;
mod loads;
mod moving;
mod notes;
mod owners;
mod peer;
mod profile;
mod promises;
mod restarts;
mod routing;
mod rows;
mod spread;
mod support;
