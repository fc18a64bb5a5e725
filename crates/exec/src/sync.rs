//! The atomics that models under loom take the place of.
pub(crate) use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
