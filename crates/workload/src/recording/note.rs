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
    /// Tables that are no part of the workload, such as a catalog.
    pub besides: Vec<TableId>,
}

/// Rows that were touched.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Seen {
    pub table: TableId,
    /// `None` for rows of which each instance has a copy.
    pub site: Option<u32>,
    pub op: Op,
    /// `None` where there was no such row before.
    pub key: Option<Box<[u8]>>,
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
    /// The site of a route; `None` where each instance has a copy, or no such table is known or
    /// counts.
    pub fn site(&self, route: Route) -> Option<u32> {
        if self.besides.contains(&route.table) {
            return None;
        }
        let domain = self.schema.table(route.table)?.domain;
        (domain > 0).then(|| self.placement.site(route.key, domain).0)
    }
}

impl Note {
    /// `bytes` are those of a row that was there, or is now.
    pub(super) fn see(
        &mut self,
        op: Op,
        table: TableId,
        key: Option<&[u8]>,
        (count, bytes): (u32, Option<usize>),
    ) {
        if self.of.besides.contains(&table) {
            return;
        }
        let (site, key) = (self.site, key.map(Into::into));
        let seen = Seen { table, site, op, key, count, bytes: bytes.unwrap_or(0) as u32 };
        self.phases.last_mut().expect("steps belong to a phase").push(seen);
    }

    /// A row that comes or goes, with its entries in the indexes of its table.
    pub(super) fn see_change(&mut self, op: Op, table: TableId, key: Option<&[u8]>, bytes: Option<usize>) {
        self.see(op, table, key, (1, bytes));
        let of = Arc::clone(&self.of);
        let indexes = of.schema.table(table).map_or(&[][..], |table| &table.indexes);
        // The engine finds an entry by columns that are not known here.
        indexes.iter().for_each(|index| self.see(Op::Insert, index.id, None, (1, None)));
    }
}
