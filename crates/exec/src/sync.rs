//! The atomics of this crate. The models under loom put loom's in their place.
pub(crate) use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
