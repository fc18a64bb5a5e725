//! Bytes that nobody wrote, for everyone who reads bytes: from wires, from files, from the command line.
//!
//! A [`Target`] takes any bytes and gives them to one sort of reader, which must refuse them or make something of them: no panic, no
//! hang, no memory out of proportion. Where a checksum would turn nearly everything away, the target sets it right again, so
//! that what lies behind it is met too.
//!
//! - `words`: what people type and write: options, machines, claims.
//! - `deployments`: phase scripts, manifests, result rows; with the feature of that name, without which all else builds in a
//!   fraction of the time.
//! - `plain`: wire frames, keys, rows, single log records.
//! - `disk`: the files of a database, spoiled, then opened, read, checked and written to.
//!
//! `cargo xtask fuzz` runs them under libFuzzer with the address sanitizer (the folder `fuzz`, nightly compiler); the tests here run
//! each on its seeds and on some thousand drawn changes of them.
//!
//! It uses the rooms it feeds through their public doors only, and knows nothing of what the bytes mean beyond where the
//! checksums are.

#![forbid(unsafe_code)]

#[cfg(feature = "deployments")]
mod deployments;
mod disk;
mod input;
mod plain;
mod words;

#[cfg(test)]
mod tests;

/// One sort of reader.
pub struct Target {
    pub name: &'static str,
    /// Inputs to start from, made by the code that writes what is read here.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Takes any bytes.
    ///
    /// # Panics
    /// A bug was found.
    pub run: fn(&[u8]),
    /// About how many inputs a second an unoptimised build does: the tests take fewer of the slow ones.
    pub pace: Pace,
}

/// How long one input takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Microseconds.
    Brisk,
    /// Milliseconds: a database is opened.
    Slow,
}

/// All of them.
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
