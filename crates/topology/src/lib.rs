//! The machine: its structure, the distances between its cores, and the placement of threads and
//! memory on it.
//!
//! This crate knows sockets, NUMA nodes, L3 groups, cores, SMT siblings, the process' CPU set and
//! the limits of its control group. It does not know the contents of instances, transactions or
//! channels. It is the only crate that pins threads or binds memory.
//!
//! - [`Machine::parse`] turns `--machine` into a [`Machine`].
//! - [`measure_latency`] measures the live machine, and [`Machine::with_latency`] derives its
//!   islands from the figures.
//! - [`IslandCount::resolve`] and [`place`] turn `--islands`, `--workers` and `--placement` into a
//!   [`Layout`].
//! - Each worker calls [`pin_thread`] and [`bind_thread_memory`] with its part of the layout.
//! - [`ping_pong_ns`] gives the latency that is written into result rows.
//! - [`run_counter`] is the smallest experiment that shows the effect of islands.
//! - [`picture`] draws the machine for a person.

mod cpu;
mod error;

mod cluster;
mod latency;
mod machine;

mod cgroup;
mod csv;
mod describe;
mod room;
mod synthetic;
mod sysfs;
mod tables;
mod xml;

mod bind;
mod placement;
mod sizes;

mod counter;
mod pingpong;
mod render;

pub use bind::{
    Binding, allowed_cpus, bind_area, bind_thread_memory, pin_process, pin_thread, pin_thread_to,
    with_memory_of,
};
pub use cluster::{Level, LevelKind, find_levels};
pub use counter::{CounterError, CounterResult, CounterSpec, Protection, Sharing, run_counter, run_counters};
pub use cpu::{CpuId, NodeId, cpu_list};
pub use error::{MachineError, PinError, PlacementError, ProbeError};
pub use latency::LatencyMatrix;
pub use machine::{Island, IslandSource, L3Group, Limits, Machine, NumaNode, Pu, Source, island_groups};
pub use pingpong::{Probe, ProbeSpec, measure_latency, ping_pong, ping_pong_ns};
pub use placement::{InstancePlace, Layout, Placement, place};
pub use render::picture;
pub use room::{MemoryRoom, memory_room};
pub use sizes::{IslandCount, default_islands};
