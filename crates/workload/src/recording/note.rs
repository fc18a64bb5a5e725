//! What is noted of a transaction.

use super::Op;
use base::TableId;
use std::sync::Arc;
use txn::{Placement, Route, Schema};

/// The deployment that is recorded.
#[derive(Debug)]
pub(super) struct Recorded {
    pub name: String,
    pub source: String,
    pub schema: Schema,
    pub placement: Placement,
    pub is_routed: bool,
}

/// Rows that were touched.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Seen {
    pub table: TableId,
    /// `None` for rows of which each instance has a copy.
    pub site: Option<u32>,
    pub op: Op,
    pub key: Box<[u8]>,
    pub count: u32,
    /// Bytes of a row; 0 where none was read.
    pub bytes: u32,
}

/// A transaction.
#[derive(Debug)]
pub(crate) struct Note {
    pub(super) kind: &'static str,
    /// The site of its home, as far as its arguments tell.
    pub(super) home: Option<u32>,
    pub(super) phases: Vec<Vec<Seen>>,
    /// The site of the step that runs.
    pub(super) site: Option<u32>,
    pub(super) of: Arc<Recorded>,
}

impl Recorded {
    /// The site of a route; `None` where each instance has a copy, or no such table is known.
    pub fn site(&self, route: Route) -> Option<u32> {
        let domain = self.schema.table(route.table)?.domain;
        (domain > 0).then(|| self.placement.site(route.key, domain).0)
    }
}

impl Note {
    pub(super) fn see(&mut self, op: Op, table: TableId, key: &[u8], count: u32, bytes: usize) {
        let (site, key) = (self.site, key.into());
        let seen = Seen { table, site, op, key, count, bytes: bytes as u32 };
        self.phases.last_mut().expect("steps belong to a phase").push(seen);
    }

    /// A row that comes or goes, with its entries in the indexes of its table.
    pub(super) fn see_change(&mut self, op: Op, table: TableId, key: &[u8], bytes: usize) {
        self.see(op, table, key, 1, bytes);
        let of = Arc::clone(&self.of);
        let indexes = of.schema.table(table).map_or(&[][..], |table| &table.indexes);
        // The engine finds an entry by columns that are not known here.
        indexes.iter().for_each(|index| self.see(Op::Insert, index.id, key, 1, 0));
    }
}
