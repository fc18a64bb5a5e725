//! The workloads against the naive model and against the statistics that their definitions promise.

#[path = "../../examples/abstraction.rs"]
#[allow(dead_code)]
mod abstraction;
mod adding;
mod cost;
mod draws;
mod generators;
mod runs;
mod specs;
mod tatp;
mod toy;
mod tpcc;
