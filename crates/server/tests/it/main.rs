//! The server over real sockets, on the naive model of an engine.

mod bench;
mod catalogs;
mod clients;
mod model;
mod raw;
