//! The workloads, compared with the naive model and with the statistics of their definitions.

#[path = "../../examples/abstraction.rs"]
#[allow(dead_code)]
mod abstraction;
mod adding;
mod cost;
mod draws;
mod generators;
mod runs;
mod served;
mod specs;
mod tatp;
mod toy;
mod tpcc;
mod tpce;
mod tpce_naive;
