//! Draws deposits: the home branch is uniform among the generator's branches, the teller is uniform
//! in it, and the account is uniform in the same branch or, for a remote transaction, among all
//! other branches.

use super::{RemoteRow, Tpcb, TpcbRequest};
use crate::random::Random;
use std::ops::Range;
use txn::Generator;

/// Amounts lie between minus this and this, both included.
pub(crate) const MOST: u64 = 999_999;

#[derive(Clone, Debug)]
pub struct TpcbGenerator {
    tpcb: Tpcb,
    random: Random,
    sites: Range<u32>,
    /// The number of the first request.
    first: u64,
    drawn: u64,
}

impl TpcbGenerator {
    /// # Panics
    /// If `sites` is empty or reaches past the last branch.
    pub(super) fn new(tpcb: Tpcb, seed: u64, sites: Range<u32>) -> TpcbGenerator {
        assert!(!sites.is_empty() && sites.end <= tpcb.options.branches, "a generator for sites {sites:?}");
        TpcbGenerator {
            tpcb,
            random: Random::new(seed),
            sites,
            first: base::hash64(&seed.to_be_bytes()),
            drawn: 0,
        }
    }

    /// Uniform among the rows of `branch`, in a table with `per_branch` rows for each branch.
    fn row_of(&mut self, branch: u32, per_branch: u32) -> u64 {
        let per_branch = u64::from(per_branch);
        u64::from(branch) * per_branch + self.random.within(0..per_branch)
    }

    /// Uniform among the other branches; the same branch if there is no other.
    fn another(&mut self, branch: u32) -> u32 {
        match self.tpcb.options.branches {
            1 => branch,
            n => {
                let other = self.random.within(0..u64::from(n) - 1) as u32;
                other + u32::from(other >= branch)
            }
        }
    }
}

impl Generator for TpcbGenerator {
    type Request = TpcbRequest;

    fn next(&mut self) -> TpcbRequest {
        let sites = u64::from(self.sites.start)..u64::from(self.sites.end);
        let branch = self.random.within(sites) as u32;
        let (mut of_teller, mut of_account) = (branch, branch);
        if self.random.chance(self.tpcb.options.multisite) {
            match self.tpcb.options.remote {
                RemoteRow::Account => of_account = self.another(branch),
                RemoteRow::Teller => of_teller = self.another(branch),
            }
        }
        let number = self.drawn;
        self.drawn += 1;
        TpcbRequest {
            request: self.first.wrapping_add(number),
            time_stamp: number as u32,
            branch,
            teller: self.row_of(of_teller, self.tpcb.options.tellers),
            account: self.row_of(of_account, self.tpcb.options.accounts),
            delta: self.random.within(0..2 * MOST + 1) as i64 - MOST as i64,
        }
    }
}
