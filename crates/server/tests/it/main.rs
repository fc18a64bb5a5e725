//! The server over real sockets, on the naive model of an engine.

mod advisory;
mod answers;
mod bench;
mod catalogs;
mod clients;
mod cursors;
mod enums;
mod hostile;
mod model;
mod procedures;
mod queries;
mod raw;
mod stations;
