//! The load on a deployment as one value.

use crate::arrivals::Arrivals;
use crate::rate::Rate;
use crate::retry::Retries;
use crate::think::Think;
use serde::{Deserialize, Serialize};

/// The behaviour of the clients of a deployment.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Traffic {
    pub model: LoadModel,
    /// For each worker: the clients of a closed loop, else the most requests under way at once.
    pub clients: u32,
    pub retries: Retries,
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum LoadModel {
    /// Each client sends its next request when it has the answer to the last one.
    Closed,
    /// Requests arrive at a rate, which is that of the whole deployment.
    Open { rate: Rate, arrivals: Arrivals },
    /// `terminals` people in total, bound to sites, each with one request at a time and pauses
    /// between them.
    Terminals { terminals: u32, think: Think },
}

impl Traffic {
    pub fn closed(clients: u32) -> Traffic {
        Traffic { model: LoadModel::Closed, clients, retries: Retries::default() }
    }
}

/// An instance's position among the workers of its deployment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The number of workers of the instances before it.
    pub first: u32,
    /// The number of workers in total.
    pub of: u32,
}

impl Share {
    /// The share of the only instance, which has all `workers`.
    pub fn whole(workers: u32) -> Share {
        Share { first: 0, of: workers }
    }
}

/// Of `terminals` in total, the terminals that are bound to `sites` of `all` sites. Each site has
/// an equal share, in order of its number.
pub fn terminals_of(terminals: u32, sites: std::ops::Range<u32>, all: u32) -> std::ops::Range<u32> {
    let edge = |site: u32| (u64::from(site) * u64::from(terminals)).div_ceil(u64::from(all.max(1))) as u32;
    edge(sites.start)..edge(sites.end)
}

/// The site that a terminal is bound to.
pub fn site_of(terminal: u32, terminals: u32, sites: u32) -> u32 {
    (u64::from(terminal) * u64::from(sites) / u64::from(terminals.max(1))) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_terminal_has_one_site_and_one_instance() {
        for (terminals, sites) in [(10, 1), (100, 10), (7, 3), (3, 7), (100_000, 24)] {
            let mut seen = 0;
            for site in 0..sites {
                let own = terminals_of(terminals, site..site + 1, sites);
                assert_eq!(own.start, seen);
                assert!(
                    own.clone().all(|t| site_of(t, terminals, sites) == site),
                    "{terminals} {sites} {site}"
                );
                seen = own.end;
            }
            assert_eq!(seen, terminals);
        }
    }
}
