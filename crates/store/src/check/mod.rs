//! The check of a whole database, and the findings that it reports.

pub(crate) mod consistency;
pub(crate) mod finding;
mod lost_writes;
