//! Steps over many sites ([`txn::Spread`]). Such a step is cut into shares, one for each run of
//! sites with one owner. Shares are steps like any other; the home joins their outputs.
//!
//! ```text
//!   sites    0  1  2 | 3  4 | 5  6  7 | 8  9
//!   owners   worker 0, worker 1, worker 0 | instance 1
//!   shares   [0,  3)   [3, 5)  [5,  8)  [8, 9) [9, 10)
//! ```
//!
//! The owners among another instance's workers are not known here, so that part is cut site by
//! site.
//!
//! Keys may change owners between the cut and the visit. Then the owner finds that it does not own
//! all of a share, and refuses it (`conflict`). A step that only reads is cut again, site by site:
//! a site always has one owner, and its share is led there. A step that writes is cut site by site
//! from the start, because a write cannot be repeated.

use crate::home::{Last, Run};
use crate::local::{Local, StepPlace};
use exec::Engine;
use smallvec::SmallVec;
use std::ops::Range;
use txn::step::Each;
use txn::{Abort, Direction, Effect, Flow, Route, Share, Spread, Step, Visits, Workload};

/// Where a step is cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Between sites of different owners.
    Owners,
    /// Between any two sites.
    Sites,
}

/// The shares of one step.
type Shares<S> = SmallVec<[Share<S>; 4]>;

impl<W: Workload, E: Engine> Run<'_, W, E> {
    /// Runs a step that is spread over sites.
    pub(crate) async fn spread<S: Spread>(&mut self, step: &S) -> Result<S::Output, Abort> {
        if S::EFFECT == Effect::Writes {
            return self.visit(step, Cut::Sites).await;
        }
        match self.visit(step, Cut::Owners).await {
            // If other instances were asked, one of them may still run its share.
            Err(Abort::Conflict) if E::OWNERS && self.is_at_home() => self.visit(step, Cut::Sites).await,
            outcome => outcome,
        }
    }

    async fn visit<S: Spread>(&mut self, step: &S, cut: Cut) -> Result<S::Output, Abort> {
        let mut shares = self.local.shares(step, cut);
        let direction = match step.visits() {
            Visits::InOrder(direction) if shares.len() > 1 => direction,
            _ => {
                let outputs = self.phase(Each::<Share<S>>(shares), Last::No).await?;
                return outputs
                    .into_iter()
                    .reduce(|all, next| joined(step, all, next))
                    .ok_or(Abort::BadRequest);
            }
        };
        if direction == Direction::Backward {
            shares.reverse();
        }
        let mut shares = shares.into_iter();
        let first = shares.next().ok_or(Abort::BadRequest)?;
        let mut all = self.phase(first, Last::No).await?;
        for share in shares {
            if step.flow(&all) == Flow::Enough {
                break;
            }
            let next = self.phase(share, Last::No).await?;
            step.join(&mut all, next);
        }
        Ok(all)
    }
}

fn joined<S: Spread>(step: &S, mut all: S::Output, next: S::Output) -> S::Output {
    step.join(&mut all, next);
    all
}

impl<W: Workload, E: Engine> Local<W, E> {
    /// The shares of a step, in key order.
    fn shares<S: Spread>(&self, step: &S, cut: Cut) -> Shares<S> {
        let Route { table, .. } = Step::route(step);
        let domain = self.domain(table);
        if domain == 0 || self.is_all_here() {
            return std::iter::once(Share::whole(step.clone())).collect();
        }
        let placement = &self.shared.config.placement;
        let sites = u128::from(placement.sites());
        let first_key = |site: u32| (u128::from(site) * u128::from(domain)).div_ceil(sites) as u64;
        let Range { start, end } = step.keys();
        let start = start.min(domain - 1);
        let end = end.clamp(start + 1, domain);
        let mut runs: SmallVec<[(StepPlace, Range<u32>, u64); 4]> = SmallVec::new();
        for site in placement.site(start, domain).0..=placement.site(end - 1, domain).0 {
            if first_key(site) == first_key(site + 1) {
                continue;
            }
            let key = first_key(site).max(start);
            let place = self.place(Route { table, key });
            let is_one = !E::OWNERS || cut == Cut::Owners && !matches!(place, StepPlace::Instance(_));
            match runs.last_mut() {
                Some((last, run, _)) if is_one && *last == place && run.end == site => run.end = site + 1,
                _ => runs.push((place, site..site + 1, key)),
            }
        }
        runs.into_iter().map(|(_, sites, key)| Share::of(step.clone(), sites, key)).collect()
    }
}
