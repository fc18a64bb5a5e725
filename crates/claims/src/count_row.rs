//! The rows of counts, and the requests that they count.

use crate::row::Row;
use txn::Workload;

/// An arbitrary seed.
const SEED: u64 = 0x0a70_0112;

/// A row of counts: the kind of count, and the number of instances.
pub(crate) fn row(what: &str) -> Row {
    let mut row = Row::default();
    row.set("what", what);
    row
}

/// A stream of requests over all sites.
pub(crate) fn stream<W: Workload>(workload: &W) -> W::Generator {
    workload.generator(SEED, 0..workload.sites())
}
