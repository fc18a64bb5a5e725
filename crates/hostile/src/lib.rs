//! Malformed input for all code that reads bytes: from wires, from files, from the command line.
//!
//! A [`Target`] takes arbitrary bytes and gives them to one kind of reader. The reader must reject
//! them or interpret them: no panic, no hang, no memory out of proportion. Where a checksum would
//! reject nearly all inputs, the target corrects the checksum, so that the code behind it is tested
//! too.
//!
//! - `words`: text that users type and write: options, machines, claims.
//! - `deployments`: phase scripts, manifests, result rows. Only with the feature of that name:
//!   without it the rest builds in a fraction of the time.
//! - `clients`: what SQL clients send. Only with the feature of that name too.
//! - `plain`: wire frames, keys, rows, single log records.
//! - `disk`: the files of a database, corrupted, then opened, read, checked and written to.
//!
//! `cargo xtask fuzz` runs the targets under libFuzzer with the address sanitizer (the folder
//! `fuzz`, nightly compiler). The tests here run each target on its seeds and on some thousand
//! random changes of them.
//!
//! This crate uses the crates that it tests only through their public interfaces, and knows nothing
//! of the meaning of the bytes except the position of checksums.

#![forbid(unsafe_code)]

#[cfg(feature = "clients")]
mod clients;
#[cfg(feature = "deployments")]
mod deployments;
mod disk;
mod input;
mod plain;
mod words;

#[cfg(test)]
mod tests;

/// One kind of reader.
pub struct Target {
    pub name: &'static str,
    /// Inputs to start from, made by the code that writes the format.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Takes arbitrary bytes.
    ///
    /// # Panics
    /// A bug was found.
    pub run: fn(&[u8]),
    /// The time that one input takes in an unoptimised build: the tests run fewer inputs on the
    /// slow targets.
    pub pace: Pace,
}

/// The time that one input takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Microseconds.
    Brisk,
    /// Milliseconds: a database is opened.
    Slow,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    plain::FRAME,
    plain::KEY,
    plain::ROW,
    plain::REDO,
    words::OPTIONS,
    words::MACHINE,
    words::CLAIMS,
    #[cfg(feature = "deployments")]
    deployments::PHASES,
    #[cfg(feature = "deployments")]
    deployments::MANIFEST,
    #[cfg(feature = "deployments")]
    deployments::BACKUP,
    #[cfg(feature = "deployments")]
    deployments::RESULTS,
    #[cfg(feature = "clients")]
    clients::FIRST,
    #[cfg(feature = "clients")]
    clients::MESSAGES,
    #[cfg(feature = "clients")]
    clients::COPY,
    disk::CONTROL,
    disk::LOG,
    disk::RECORDS,
    disk::PAGES,
    disk::CHANGES,
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
