//! Draws the rows of a transaction.
//!
//! Uniform: the home site is uniform among the generator's sites, and the home row is uniform in
//! it. Skewed: the home row is drawn over all rows of the generator's sites and determines the home
//! site. So the law over the table holds only if the generator is given every site and its requests
//! are routed ([`txn::workload::Clients::Routed`]). The further rows follow the same law, over the
//! home site or, in a multisite transaction, over the whole table. If the home row is updated and
//! the others are read ([`Op::Mixed`]), the further rows of a multisite transaction come from all
//! sites but the home, so that each such transaction needs another site. A hot range is a law of
//! the same kind, but within a home site all rows are equally popular.

use super::{Ids, Micro, MicroOptions, MicroRequest, Op};
use crate::random::{Random, Span};
use std::ops::Range;
use txn::Generator;

/// Under a steep skew nearly every draw gives the same few rows: after this many draws the next
/// free row is taken.
const REDRAWS: u32 = 1_000;

#[derive(Clone, Debug)]
pub struct MicroGenerator {
    micro: Micro,
    random: Random,
    sites: Range<u32>,
    whole: Span,
    /// The rows of all sites of this generator.
    own: Span,
    /// The rows of each possible home site, from `sites.start` on.
    homes: Vec<Span>,
}

impl MicroGenerator {
    /// # Panics
    /// If `sites` is empty or reaches past the last site.
    pub(super) fn new(micro: Micro, seed: u64, sites: Range<u32>) -> MicroGenerator {
        assert!(!sites.is_empty() && sites.end <= micro.options.sites, "a generator for sites {sites:?}");
        let span = |sites| micro.zipf.span(micro.rows_of(sites));
        MicroGenerator {
            random: Random::new(seed),
            whole: span(0..micro.options.sites),
            own: span(sites.clone()),
            homes: sites.clone().map(|s| span(s..s + 1)).collect(),
            micro,
            sites,
        }
    }

    /// The home row, and the index of its site in `homes`.
    fn home(&mut self) -> (u64, usize) {
        if let Some(hot) = self.micro.options.hot {
            let own = self.own.values();
            let row = own.start + hot.draw(&mut self.random, own.end - own.start);
            (row, (self.micro.site_of(row) - self.sites.start) as usize)
        } else if self.micro.zipf.is_uniform() {
            let home = self.random.within(0..self.homes.len() as u64) as usize;
            (self.micro.zipf.draw(&mut self.random, &self.homes[home]), home)
        } else {
            let row = self.micro.zipf.draw(&mut self.random, &self.own);
            (row, (self.micro.site_of(row) - self.sites.start) as usize)
        }
    }
}

/// Adds a row of `from` that is not yet in `ids`; `ids` stays ascending.
fn add_distinct(ids: &mut Ids, random: &mut Random, from: &Span, draw: impl Fn(&mut Random) -> u64) {
    let free = |id: u64, ids: &Ids| Some((ids.binary_search(&id).err()?, id));
    let drawn = (0..REDRAWS).find_map(|_| free(draw(random), ids));
    let (at, id) = drawn
        .or_else(|| from.values().find_map(|id| free(id, ids)))
        .expect("a site has at least as many rows as a transaction updates");
    ids.insert(at, id);
}

impl Generator for MicroGenerator {
    type Request = MicroRequest;

    fn next(&mut self) -> MicroRequest {
        let MicroOptions { rows, op, multisite, .. } = self.micro.options;
        let multisite = self.random.chance(multisite);
        let (home, at) = self.home();
        let Self { micro, random, homes, whole, .. } = self;
        let from = if multisite { &*whole } else { &homes[at] };
        let hot = micro.options.hot.filter(|_| multisite);
        let one = |random: &mut Random| match hot {
            Some(hot) => hot.draw(random, micro.options.dataset),
            None => micro.zipf.draw(random, from),
        };
        let elsewhere = op == Op::Mixed && multisite && micro.options.sites > 1;
        let home_site = micro.site_of(home);
        let draw = |random: &mut Random| {
            let mut drawn = one(random);
            for _ in 0..if elsewhere { REDRAWS } else { 0 } {
                if micro.site_of(drawn) != home_site {
                    break;
                }
                drawn = one(random);
            }
            drawn
        };
        let mut ids = Ids::with_capacity(rows as usize);
        ids.push(home);
        ids.extend((1..rows).map(|_| draw(random)));
        ids.sort_unstable();
        if op != Op::Read {
            ids.dedup();
            while ids.len() < rows as usize {
                add_distinct(&mut ids, random, from, draw);
            }
        }
        MicroRequest { op, home, ids }
    }
}
