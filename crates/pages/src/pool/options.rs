//! The options of a pool.

use std::fmt;
use std::str::FromStr;

/// Sizes in pages of 8192 bytes.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Pages in memory at the same time.
    pub frames: usize,
    /// Maximum number of pages of the database. Addresses are reserved for all of them, memory is
    /// not. If the system does not grant as many addresses, the maximum is lower
    /// ([`Pool::shortage`](crate::Pool::shortage)). If there are as many frames as pages, no page
    /// is ever evicted.
    pub max_pages: u32,
    pub latching: Latching,
}

/// How a reader is kept apart from writers, for pages that are latched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Latching {
    /// The reader takes no latch if its policy allows that, and compares the page's version before
    /// and after.
    #[default]
    Optimistic,
    /// The reader latches each page before it releases the one that led there, even if its policy
    /// allows reads without latches. This is the conventional method of the literature, for
    /// comparison.
    Coupled,
}

impl Latching {
    pub const ALL: [Latching; 2] = [Latching::Optimistic, Latching::Coupled];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Latching::Optimistic => "optimistic",
            Latching::Coupled => "coupled",
        }
    }
}

impl fmt::Display for Latching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Latching {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let known = Latching::ALL.into_iter().find(|l| l.name() == s);
        known.ok_or_else(|| format!("latching '{s}' is unknown; expected optimistic or coupled"))
    }
}

impl PoolOptions {
    /// A pool of `frames` frames, for a database of at most 128 GiB.
    pub fn new(frames: usize) -> PoolOptions {
        PoolOptions { frames, max_pages: 1 << 24, latching: Latching::Optimistic }
    }
}
