//! Traces of instructions and data accesses: the events of transactions, and the file that holds
//! them. The tracer writes streams, `atoll trace` makes the file, `cachesim` reads it. This crate
//! knows no engine, no cache and no emulator.
//!
//! # The file, version 1
//!
//! All numbers are little-endian. A section follows the one before it without a gap.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `ATOLLTRC` |
//! | 4 | the version, 1 |
//! | 4 | the number of sections |
//!
//! | bytes of a section | what |
//! |---|---|
//! | 4 | its name |
//! | 8 | n, the bytes of its content |
//! | 4 | CRC-32C of the content |
//! | n | the content |
//!
//! | section | content |
//! |---|---|
//! | `META` | text: a line `name=value` for each fact about the capture |
//! | `KIND` | text: a line for each kind of transaction; a kind is the number of its line |
//! | `NAME` | text: a line `component TAB function` for each function |
//! | `BLCK` | basic blocks: u64 address, u16 bytes, u16 instructions, u32 line of `NAME` |
//! | `STRM` | chunks of one thread: u32 bytes unpacked, u32 bytes, so many bytes of an LZ4 block |
//!
//! The first four sections stand once each, before the streams. The chunks of a stream,
//! decompressed and joined, are its events ([`event`]).
//!
//! - [`event`]: events as bytes, and back. [`chunk`]: streams in pieces, compressed.
//! - [`mod@file`]: the file. [`Trace`]: its transactions, each with its own events.
//! - [`code`]: the numbers of marks.

#![forbid(unsafe_code)]

pub mod chunk;
pub mod code;
pub mod event;
pub mod file;
mod transactions;

pub use event::{Decoder, Encoder, Event};
pub use file::{TraceError, TraceFile};
pub use transactions::{Trace, Transaction};
