//! The ground under every room: identifiers, order-preserving keys, checksums, short copies.
//!
//! Nothing here allocates behind the caller's back, talks to the operating system or knows what a
//! transaction is. A type lives here only when two rooms that must not know each other both speak it.
//!
//! `unsafe` is the call of one function that is compiled for a processor that was asked for first (`checksum`).

mod checksum;
mod copy;
mod ids;
mod key;
mod words;

pub use checksum::crc32c;
pub use copy::copy_short;
pub use ids::{Gtid, InstanceId, Lsn, PageId, Rid, SiteId, TableId, TxnId, WorkerId};
pub use key::{Key, KeyReader, hash64};
pub use words::counted;
