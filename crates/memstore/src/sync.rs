//! The primitives of the node versions, the epochs and the log's buffers. The loom models compile
//! those files a second time against loom's versions of these names (see `models.rs`).

pub(crate) use latch::{Backoff, CachePadded, SpinMutex};
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
