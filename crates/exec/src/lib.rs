//! Execution inside one instance: the tasks of a worker, and the work of one transaction at this
//! instance under a design.
//!
//! In: the accesses of a step ([`PageAccess`], which implements [`txn::Access`]). Out:
//! locks taken, pages changed through `store`, and at the end a commit, a prepare or a rollback of
//! a local transaction ([`LocalTxn`]). This crate knows neither channels nor other instances. A
//! distributed transaction is, to this crate, a local transaction that is prepared before it is
//! committed.
//!
//! - [`executor`]: tasks, wake-ups and timers of one worker.
//! - [`design`]: the two policies of a design, and the designs' names.
//! - [`options`]: the options of an engine, each declared once.
//! - [`engine`]: the interface between an instance and its engine, the same for every design.
//! - [`paged`]: the engine of all designs on pages: begin, commit, prepare, rollback; the wait for
//!   durability. `paged::owners`: its part where workers own keys, and pages.
//! - [`memory`]: the engine of design `occ`: its rows live in main memory.
//! - [`local`]: the local transaction, and whether it takes locks.
//! - [`owners`]: which worker owns which keys; the owner map, messages between workers, deadlocks
//!   over several owners. `branches`: the work of one transaction at several workers.
//! - [`PageAccess`]: record operations under key-range locking, written once for all lock-based
//!   designs.

#![forbid(unsafe_code)]
#![allow(async_fn_in_trait)]

mod branches;
pub mod design;
pub mod engine;
pub mod executor;
pub mod local;
pub mod memory;
#[cfg(test)]
mod models;
pub mod options;
pub mod owners;
mod page_access;
pub mod paged;
#[cfg(feature = "planted")]
pub mod planted;
mod schema;
#[cfg(not(feature = "planted"))]
mod seams;
mod sync;

#[cfg(feature = "planted")]
use planted as seams;

pub use branches::{Answer, Visit};
pub use design::{Conventional, Design, DesignKind, EngineKind, Partitioned, PartlyOwned, Serial};
pub use engine::load::Load;
pub use engine::maintenance::Maintenance;
pub use engine::owners::{KeyOwners, NoOwners};
pub use engine::prefetch::Prefetch;
pub use engine::{Engine, EngineCounts, EngineFault, Holds, LockPoint, Recovered, Scope, Setup, WaitOrder};
pub use executor::{Executor, yield_now};
pub use local::{LocalTxn, Locking, Protection};
pub use memory::MemoryEngine;
pub use options::{Balance, EngineOption, EngineOptions, OccAhead, OccConflict, OccReads, Schedule};
pub use owners::owner_map::MapVersion;
pub use owners::{Actor, Owners, SiteOwner, SiteRange, actor};
pub use page_access::PageAccess;
pub use paged::{Carried, PageEngine, PageOptions, Refusal, RepartitionRequest};
pub use pages::Latching;
pub use schema::Refused;
pub use store::Divided;
pub use store::NoteId;
pub use store::{HeapForm, TreeKind};
