//! The server over real sockets, on the naive model of an engine.

mod bench;
mod clients;
mod cursors;
mod model;
mod procedures;
mod raw;
mod stations;
