//! The primitives of the node versions and the epochs. The loom models compile those two files a second time against
//! loom's versions of these names (see `models.rs`).

pub(crate) use latch::{Backoff, CachePadded};
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
