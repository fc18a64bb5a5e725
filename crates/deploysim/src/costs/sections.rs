//! The share of each part of a storage manager in the costs of a profile: what a design that drops
//! locks or latches saves. Used by [`crate::sections`].

use serde::{Deserialize, Serialize};

/// Parts of the lines that [`super::ColdLines`] counts for a row; they add up to 1.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdShares {
    /// Index nodes and rows, which an owner finds in its own cache.
    pub data: f64,
    pub lock: f64,
    pub latch: f64,
}

/// The division of the costs of `conventional`. Times are ns of the profile's machine.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionCosts {
    /// Of the work of a read row: the descent of its index.
    pub index_share: f64,
    /// Levels of an index for which the descent takes this share.
    pub levels: u32,
    /// The work at the root, which every core has in its cache, relative to that at another page.
    pub root_weight: f64,
    /// Entries of a full index page.
    pub entries: u64,
    /// Of the locks and latches of a row: its locks. The rest is even over its pages.
    pub lock_share: f64,
    /// The log record of an updated row, a part of the row's work.
    pub log_ns: f64,
    pub cold: ColdShares,
    /// The number in `hot` of the line of an index root, and of the log's buffer.
    pub root_line: usize,
    pub log_line: usize,
    /// Pages that a split changes, each at the cost of an update, while it has the index alone.
    pub split_pages: f64,
    /// Rows of one table that a transaction locks one by one; beyond, the lock of the table serves.
    pub escalation: u32,
    /// Requests that the clients of a context keep under way in a design with owners.
    pub in_flight: u32,
    /// One comparison of a sort of record ids.
    pub compare_ns: f64,
    /// One update of an access histogram.
    pub histogram_ns: f64,
}

impl SectionCosts {
    /// # Errors
    /// A share outside 0 to 1, or a time or a size that cannot be.
    pub(super) fn check(&self, hot_lines: usize) -> Result<(), String> {
        let cold = &self.cold;
        let shares = [
            ("index_share", self.index_share),
            ("lock_share", self.lock_share),
            ("cold.data", cold.data),
            ("cold.lock", cold.lock),
            ("cold.latch", cold.latch),
            ("the sum of cold", cold.data + cold.lock + cold.latch),
        ];
        if let Some((name, share)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(format!("sections.{name} is {share}: expected 0 to 1"));
        }
        let times = [
            ("root_weight", self.root_weight),
            ("log_ns", self.log_ns),
            ("split_pages", self.split_pages),
            ("compare_ns", self.compare_ns),
            ("histogram_ns", self.histogram_ns),
        ];
        if let Some((name, ns)) = times.into_iter().find(|(_, ns)| !(ns.is_finite() && *ns >= 0.0)) {
            return Err(format!("sections.{name} is {ns}: expected 0 or more"));
        }
        if self.levels == 0 || self.entries < 2 || self.in_flight == 0 {
            return Err("[sections] needs levels, entries above 1 and in_flight".into());
        }
        if self.root_line.max(self.log_line) >= hot_lines {
            return Err("sections.root_line and log_line: expected numbers of `hot` lines".into());
        }
        Ok(())
    }
}
