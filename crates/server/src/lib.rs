//! A server that speaks PostgreSQL's protocol, version 3, in front of an engine that runs programs.
//!
//! ```text
//!   client <--TCP, TLS, Unix socket--> session --text--> compiler --> program
//!                                         |                             |
//!                                         +-- requests, commands --> engine: deployment, or model
//! ```
//!
//! One task serves one client, one message at a time. The crate knows the language through
//! `compiler`, and the engine through [`engine::Engine`]; it knows nothing of storage and
//! execution.
//!
//! - [`serving`], [`listening`], [`shared`]: the server, its listeners, what all sessions share.
//! - [`counters`], [`status`]: what it counts, and tells over HTTP.
//! - [`access`], [`scram`], [`tls`]: which clients get in.
//! - [`transport`], [`mod@inbox`], [`incoming`], [`outgoing`], [`mod@format`], [`pgtype`],
//!   [`copy_format`]: bytes.
//! - [`session`]: one client, from the first packet to the end; [`settings`], [`language`].
//! - [`general`]: queries that are no programs.
//! - [`guards`], [`advisory`], [`sequences`], [`emptying`]: what sessions must agree on besides
//!   rows.
//! - [`engine`]; [`deployed`]: the engine of a deployment, over the links of a [`carrier`].
//! - [`station`]: threads of sessions, shared with workers; [`bridge`]: the way of other tasks.
//!
//! The messages have a codec of their own: that of the crate `pgwire` reads past the end of a
//! malformed message and panics, and its sessions cannot suspend a portal, look at the next
//! message, or stop for a client that does not read.

#![forbid(unsafe_code)]
// An error of SQL has many fields, and is rare.
#![allow(clippy::result_large_err)]

pub mod access;
pub mod advisory;
pub mod bridge;
pub mod carrier;
pub mod copy_format;
pub mod counters;
pub mod deployed;
pub mod emptying;
pub mod engine;
pub mod format;
pub mod general;
pub mod guards;
pub mod inbox;
pub mod incoming;
pub mod language;
pub mod listening;
mod numbering;
pub mod outgoing;
mod password;
pub mod pgtype;
pub mod scram;
pub mod sequences;
pub mod serving;
pub mod session;
pub mod settings;
pub mod shared;
pub mod station;
pub mod status;
pub mod tls;
pub mod transport;
