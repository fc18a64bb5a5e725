//! Transactions: their log records and undo lists, their begin and their ends.

pub(crate) mod chain;
pub(crate) mod end;
pub(crate) mod joint;
pub(crate) mod touched;
