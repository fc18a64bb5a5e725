//! Traces of transactions on modelled caches: where misses come from (the microscope, chapter 6 of
//! Tözün's thesis), and the schedulers that make transactions follow the code: SLICC, STREX and
//! ADDICT (chapters 7 and 8).
//!
//! ```text
//!   trace::Trace --Code--> microscope: one core, misses by cache, operation and component
//!                    |---> footprint: lines of code and data, and their overlap
//!                    `---> run: transactions on a chip under a scheduler
//! ```
//!
//! This crate reads traces and knows no engine. Machines are data ([`machine`]).
//!
//! - [`lru`], [`stack_distance`]: caches. [`hierarchy`]: one core's caches. [`code`]: the blocks of
//!   a trace as lines.
//! - [`microscope`], [`footprint`]: chapter 6. [`run`]: chapters 7 and 8. [`hardware`]: the bits
//!   that the schedulers need.
//! - [`study`]: the figures of each chapter as rows. [`Course`]: how far a study has come.

#![forbid(unsafe_code)]

pub mod machine;

pub mod hierarchy;
pub mod lru;
pub mod stack_distance;

pub mod code;
mod hash;

pub mod footprint;
pub mod microscope;

mod course;
pub mod hardware;
pub mod run;

pub mod study;

pub use course::Course;
