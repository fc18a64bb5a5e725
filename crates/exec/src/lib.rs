//! Execution inside one instance: tasks on workers, and one transaction's part of the work done by a design.
//!
//! Enters: a step's accesses ([`Here`], which implements [`txn::Access`]). Leaves: locks taken, pages changed through
//! `store`, and at the end a commit, a prepare or a rollback of a [`Part`]. This room knows neither channels nor other
//! instances; a distributed transaction is to it a part that is prepared before it is committed.
//!
//! - [`executor`]: tasks, wake-ups and timers of one worker.
//! - [`design`]: the two policies and their names.
//! - [`engine`]: what an instance asks of an engine, whatever its design.
//! - [`paged`]: the engine of all designs on pages: begin, commit, prepare, rollback; waiting for durability; pages that workers own.
//! - [`memory`]: the engine of design `occ`, whose rows live in main memory.
//! - [`local`]: whether a part takes locks.
//! - [`owners`]: which worker owns which keys, and `chart`: how that changes under transactions; `mail`, `branches`: what workers send each other, and a transaction's work at several;
//!   `board`: cycles of waiting over several owners.
//! - [`Here`]: record operations under key-range locking, written once for all lock-based designs.

#![forbid(unsafe_code)]
#![allow(async_fn_in_trait)]

mod board;
mod branches;
mod chart;
#[cfg(test)]
mod chart_tests;
pub mod design;
pub mod engine;
pub mod executor;
mod here;
pub mod local;
mod mail;
pub mod memory;
#[cfg(test)]
mod models;
pub mod owners;
pub mod paged;
#[cfg(feature = "planted")]
pub mod planted;
mod schema;
mod sync;

pub use branches::{Answer, Visit};
pub use chart::Stamp;
pub use design::{
    Conventional, Design, DesignKind, OccAhead, OccConflict, OccReads, Partitioned, PartlyOwned, Serial,
};
pub use engine::{Engine, EngineCounts, EngineFault, Holds, LockPoint, Order, Recovered, Scope, Setup};
pub use executor::{Executor, yield_now};
pub use here::Here;
pub use local::{Locking, Part, Protection};
pub use memory::MemoryEngine;
pub use owners::{Actor, Owners, Spot, Territory, actor};
pub use paged::{Carried, EngineOptions, Errand, PageEngine, Refusal};
pub use pages::Latching;
pub use schema::Refused;
pub use store::Divided;
pub use store::NoteId;
pub use store::{HeapForm, TreeKind};
