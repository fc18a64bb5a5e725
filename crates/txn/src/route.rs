//! Where a step runs.

use base::TableId;

/// The place to which a step belongs: a table and the leading integer of the keys that it touches
/// there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    pub table: TableId,
    pub key: u64,
}
