//! The store as a value, and the parts of it that workers share.

pub(crate) mod active;
pub(crate) mod control;
pub(crate) mod redo;
pub(crate) mod store;
