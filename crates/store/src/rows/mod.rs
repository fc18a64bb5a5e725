//! Operations on rows: one row, scans, batched look-up, and loading.

pub(crate) mod clustered;
pub(crate) mod load;
pub(crate) mod prefetch;
pub(crate) mod row;
pub(crate) mod scan;
