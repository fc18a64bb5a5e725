//! A step as it travels.

use super::NativeTable;
use crate::catalog::Store;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A step on its way to its rows.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Issued {
    pub(super) step: String,
    pub(super) store: Store,
    pub(super) slot: u32,
    pub(super) args: Vec<u8>,
    pub(super) tables: Arc<Vec<NativeTable>>,
    pub(super) sites: u32,
    pub(super) now: i64,
}
