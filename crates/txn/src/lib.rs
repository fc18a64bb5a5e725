//! The language of transactions: what a workload says and what an engine understands.
//!
//! A [`Procedure`](Workload::run) is an async function that issues [`Step`]s through a [`Transaction`]; a step
//! names where it belongs ([`Step::route`]) and what it does there ([`Step::run`], through [`Access`]). Steps
//! awaited together form a phase and every await on steps is a rendezvous point. Steps, requests and replies are
//! plain serialisable values: they are the only things that ever cross a thread, a process or a machine.
//!
//! This room knows no engine and no workload; both sides depend on it and never on each other. Read it in this
//! order: what a table is ([`schema`]), what a row is ([`row`]), how a step touches rows ([`access`]), how steps
//! make a transaction ([`step`]), also over many sites ([`spread`]), what a workload offers ([`workload`]), and how a transaction ends badly ([`Abort`]).

#![forbid(unsafe_code)]
#![allow(async_fn_in_trait)] // a transaction lives and dies on one worker: its futures need not be Send

mod abort;
pub mod access;
pub mod row;
pub mod schema;
pub mod spread;
pub mod step;
pub mod workload;

pub use abort::Abort;
pub use access::{Access, Direction, Flow, Inserted, NewRows, Range};
pub use row::{Row, RowBuf, RowMut};
pub use schema::{Column, Columns, IndexDef, Schema, TableDef, TableKind, Type};
pub use spread::{Share, Spread, Visits};
pub use step::{Effect, Route, Step, StepId, Steps, Transaction};
pub use workload::{Clients, Generator, Pauses, Placement, Verdict, Workload};
