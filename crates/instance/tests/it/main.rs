//! Whole deployments inside one process: every design, channel and number of instances, loaded, driven and checked.

mod answers;
mod deployments;
mod diary;
mod larger;
mod loads;
mod moving;
mod owners;
mod profile;
mod restarts;
mod spread;
mod support;
