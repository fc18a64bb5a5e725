//! Which heap page a row lies in, and the partitions of trees.

pub(crate) mod division;
pub(crate) mod repartition;
pub(crate) mod row_placement;
