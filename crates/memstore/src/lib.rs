//! The main-memory store.
#![forbid(unsafe_code)]

mod arena;
mod epoch;
mod head;
mod index;
mod node;
mod sync;
mod version;

#[cfg(test)]
mod index_tests;
#[cfg(test)]
mod models;
