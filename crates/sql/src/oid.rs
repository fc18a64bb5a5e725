//! Numbers of catalog objects.

use serde::{Deserialize, Serialize};

/// The number of a catalog object, never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Oid(pub u32);
