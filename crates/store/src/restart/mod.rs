//! Opening, restart, and the checkpoints that keep a restart short.

pub(crate) mod analysis;
pub(crate) mod checkpoint;
pub(crate) mod drain;
pub(crate) mod open;
pub(crate) mod recovery;
