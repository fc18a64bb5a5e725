//! The processor's counts of the workers, as a value.

use crate::table::Event;
use serde::{Deserialize, Serialize};

/// Sums over workers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Hardware {
    /// Indexed by [`Event`]; `None` if the processor of any worker did not count it.
    pub counts: [Option<u64>; Event::COUNT],
    /// The reason, if nothing is counted.
    pub reason: Option<String>,
}

impl Hardware {
    pub fn merge(&mut self, other: &Hardware) {
        for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
            *sum = sum.zip(*more).map(|(a, b)| a.saturating_add(b));
        }
        if self.reason.is_none() {
            self.reason.clone_from(&other.reason);
        }
    }
}

/// The counters of the calling thread.
pub(crate) struct Counting(Result<world::Counters, String>);

impl Counting {
    pub fn begin() -> Counting {
        Counting(world::Counters::open().map_err(|refused| refused.to_string()))
    }

    /// The counts since the last call.
    pub fn read(&mut self) -> Hardware {
        match &mut self.0 {
            Ok(counters) => Hardware { counts: counters.read(), reason: None },
            Err(reason) => Hardware { reason: Some(reason.clone()), ..Hardware::default() },
        }
    }
}
