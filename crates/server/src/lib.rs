//! A server that speaks PostgreSQL's protocol.
#![forbid(unsafe_code)]
pub mod access;
pub mod bridge;
pub mod copy_format;
pub mod counters;
pub mod deployed;
pub mod emptying;
pub mod engine;
pub mod format;
pub mod guards;
pub mod incoming;
pub mod language;
pub mod listening;
pub mod outgoing;
pub mod pgtype;
pub mod scram;
pub mod sequences;
pub mod serving;
pub mod session;
pub mod settings;
pub mod shared;
pub mod tls;
pub mod transport;
