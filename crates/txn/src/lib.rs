//! The language of transactions: the interface between a workload and an engine.
//!
//! A [`Procedure`](Workload::run) is an async function that issues [`Step`]s through a
//! [`Transaction`]. A step names the place to which it belongs ([`Step::route`]), and holds the
//! code that runs there ([`Step::run`], through [`Access`]). Steps that are awaited together form a
//! phase, and every await on steps is a rendezvous point. Only steps, requests and replies cross a
//! thread, a process or a machine, as plain serialisable values.
//!
//! This crate knows no engine and no workload; both depend on it and never on each other. Reading
//! order: tables ([`schema`]), rows ([`row`]), access to rows ([`access`]), steps and transactions
//! ([`step`]), steps over many sites ([`spread`]), the interface of a workload ([`workload`]),
//! aborts ([`Abort`]). Workloads that are compiled once for all engines use [`erased`].

#![forbid(unsafe_code)]
// A transaction stays on one worker from begin to end, so its futures need not be Send.
#![allow(async_fn_in_trait)]

mod abort;
pub mod access;
pub mod erased;
mod route;
pub mod row;
mod row_keys;
pub mod schema;
pub mod step;
pub mod workload;

pub use abort::Abort;
pub use access::{Access, Direction, Flow, Inserted, NewRows, Range};
pub use route::Route;
pub use row::{Row, RowBuf, RowMut};
pub use schema::{Column, Columns, IndexDef, Schema, TableDef, TableKind, Type};
pub use step::spread::{self, Share, Spread, Visits};
pub use step::{Effect, Step, StepId, Steps, Transaction};
pub use workload::{Clients, Generator, Pauses, Placement, Verdict, Workload};
