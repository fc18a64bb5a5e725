//! Primitives of the extents. The loom models compile `extents.rs` against loom's versions of these
//! names (see `models.rs`).

pub(crate) use latch::{Backoff, CachePadded, SpinMutex};
pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
