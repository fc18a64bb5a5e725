//! The lowest crate: identifiers, order-preserving keys, checksums, short copies, the promises of a
//! log.
//!
//! Nothing here allocates without the caller's knowledge, talks to the operating system or knows
//! transactions. A type lives here only when two crates that must not know each other both use it.
//!
//! The one `unsafe` block calls a function that is compiled for a processor feature, after a check
//! for that feature (`checksum`).

mod checksum;
mod copy;
mod durability;
mod ids;
mod key;
mod words;

pub use checksum::crc32c;
pub use copy::copy_short;
pub use durability::{Durability, FlushBy};
pub use ids::{Gtid, InstanceId, Lsn, PageId, Rid, SiteId, TableId, TxnId, WorkerId};
pub use key::{Key, KeyReader, hash64};
pub use words::counted;
