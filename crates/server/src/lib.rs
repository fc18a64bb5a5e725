//! The server.
#![forbid(unsafe_code)]
pub mod access;
pub mod engine;
pub mod guards;
pub mod incoming;
pub mod outgoing;
pub mod scram;
pub mod settings;
pub mod tls;
pub mod transport;
pub mod compiler;
pub mod counters;
pub mod language;
pub mod pgtype;
pub mod sequences;
pub mod shared;
