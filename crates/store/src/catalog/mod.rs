//! The tables of the database: their rows in the catalog, and their values in memory.

pub(crate) mod borders;
pub(crate) mod definition;
pub(crate) mod tables;
