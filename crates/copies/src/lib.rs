//! Base copies of folders in object storage: a directory, S3, Google Cloud Storage or Azure.
//!
//! ```text
//!   URL/LOG/ID/folder/...      the files of the folder
//!   URL/LOG/ID/manifest        their lengths and checksums, and how far the folder has its log;
//!                              written last: without it there is no copy
//!   ID                         POSITION-TURN-RANDOM: the first position of the log that the folder
//!                              lacks; the copy's turn among those of this position; and a number
//!                              drawn at random, for copies that are put at the same time
//! ```
//! The newest is that with the highest position, and of these that with the last turn. A copy
//! without a turn is of an earlier version, and older than others of its position.
//!
//! A copy never changes. It is removed manifest first. So a reader that has a manifest either gets
//! each file as it was, or an error that names the copy.
//!
//! In a directory all files of a copy are on the device before its manifest is there. Object
//! storage promises the same for all that it has accepted.
//!
//! This crate knows files and numbers, and nothing of logs, records and islands.

#![cfg(feature = "store")]
#![forbid(unsafe_code)]

mod bucket;
mod error;
mod fetching;
mod manifest;
mod putting;
mod storage;

pub use error::CopyError;
pub use manifest::{Entry, Head, Manifest};
pub use storage::{Found, Listed, Storage};

/// Gets the bytes done and the total, and says whether to go on.
pub type Watch<'a> = &'a mut dyn FnMut(u64, u64) -> Go;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    On,
    End,
}
