//! Which rows a transaction touches.
//!
//! Uniform: the home site is uniform among the generator's, the home row uniform in it. Skewed: the home row is drawn
//! over all rows of the generator's sites and fixes the home site, so the law over the table holds only when the
//! generator is given every site and its requests are routed ([`txn::workload::Clients::Routed`]). The further rows
//! come from the home site or, in a multisite transaction, from the whole table, by the same law.

use super::{Ids, Micro, MicroRequest, Op};
use crate::random::Random;
use std::ops::Range;
use txn::Generator;

/// Under a steep skew nearly every draw gives the same few rows: after so many the next row that is free is taken.
const REDRAWS: u32 = 1_000;

#[derive(Clone, Debug)]
pub struct MicroGenerator {
    micro: Micro,
    random: Random,
    sites: Range<u32>,
}

impl MicroGenerator {
    /// # Panics
    /// If `sites` is empty or reaches past the last site.
    pub(super) fn new(micro: Micro, seed: u64, sites: Range<u32>) -> MicroGenerator {
        assert!(!sites.is_empty() && sites.end <= micro.options.sites, "a generator for sites {sites:?}");
        MicroGenerator { micro, random: Random::new(seed), sites }
    }

    fn home_row(&mut self) -> u64 {
        let rows = if self.micro.zipf.is_uniform() {
            let sites = u64::from(self.sites.start)..u64::from(self.sites.end);
            let site = self.random.within(sites) as u32;
            self.micro.rows_of(site..site + 1)
        } else {
            self.micro.rows_of(self.sites.clone())
        };
        self.micro.zipf.draw(&mut self.random, rows)
    }

    /// Adds one more row of `from` to the ascending `ids`.
    fn add_row(&mut self, ids: &mut Ids, from: Range<u64>) {
        for _ in 0..REDRAWS {
            let id = self.micro.zipf.draw(&mut self.random, from.clone());
            match (ids.binary_search(&id), self.micro.options.op) {
                (Ok(at), Op::Read) | (Err(at), _) => return ids.insert(at, id),
                (Ok(_), Op::Update) => {}
            }
        }
        let free = from.clone().find_map(|id| Some((ids.binary_search(&id).err()?, id)));
        let (at, id) = free.expect("a site has at least as many rows as a transaction updates");
        ids.insert(at, id);
    }
}

impl Generator for MicroGenerator {
    type Request = MicroRequest;

    fn next(&mut self) -> MicroRequest {
        let multisite = self.random.chance(self.micro.options.multisite);
        let home = self.home_row();
        let site = self.micro.site_of(home);
        let from = if multisite { 0..self.micro.options.dataset } else { self.micro.rows_of(site..site + 1) };
        let mut ids = Ids::new();
        ids.push(home);
        for _ in 1..self.micro.options.rows {
            self.add_row(&mut ids, from.clone());
        }
        MicroRequest { op: self.micro.options.op, home, ids }
    }
}
