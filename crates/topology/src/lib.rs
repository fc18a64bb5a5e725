//! The ground that islands stand on: what the machine looks like, how far apart its cores are, and who runs where.
//!
//! Knows sockets, NUMA nodes, L3 groups, cores, SMT siblings, the process' CPU set and its control group's limits;
//! knows nothing of instances' contents, transactions or channels. It is the only room that pins threads or binds
//! memory.
//!
//! How it is used: [`Machine::parse`] turns `--machine` into a [`Machine`]; [`measure_latency`] measures the live one
//! and [`Machine::with_latency`] lets its islands follow the figures; [`IslandCount::resolve`] and [`place`] turn
//! `--islands`, `--workers` and `--placement` into a [`Layout`]; each worker then calls [`pin_thread`] and
//! [`bind_thread_memory`] with its part of it. [`ping_pong_ns`] stamps result rows, [`run_counter`] is the smallest
//! experiment that shows why any of this matters, [`picture`] draws the machine for a person.

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
