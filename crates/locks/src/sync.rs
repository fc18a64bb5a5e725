//! The atomics of the fast path. The loom models compile `fast.rs` a second time against loom's
//! versions of these names.

pub(crate) use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
