//! The values with which a statement's expressions are evaluated.

use crate::Datum;
use crate::datetime::zone::Zone;
use crate::expression::Context;
use serde::{Deserialize, Serialize};

/// The values that all steps of a statement share.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Bound {
    pub params: Vec<Datum>,
    /// The begin of the transaction, in the form of [`Datum::Timestamp`].
    pub now: i64,
    /// The zone of the session.
    pub zone: Zone,
}

impl Bound {
    /// What expressions are evaluated with.
    pub fn context(&self) -> Context<'_> {
        Context { params: &self.params, now: self.now, zone: &self.zone, random: &random }
    }
}

fn random() -> u64 {
    fastrand::u64(..)
}
