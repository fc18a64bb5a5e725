//! The island of each partition: partitions that occur together in transactions are placed on the
//! same island (ATraPos; thesis, section 3.5).
//!
//! Workers of an instance may lie on several islands. A transaction with steps on two of them sends
//! messages over the slow path between. So partitions that often meet belong together, as long as
//! every island keeps its share of the work. The transactions' workers sample the meetings.
//! [`partition::placement`] decides, and charges a price for each partition that moves. It does not
//! change borders: it decides only when the balancer leaves them as they are.

use super::sampling::Meetings;
use base::WorkerId;
use partition::placement::{Placement, Problem, Together, improve};
use partition::{Partition, Ranges};
use std::collections::BTreeMap;

/// The least number of meetings for a decision.
const ENOUGH: f64 = 200.0;

/// The least gain for a decision: meetings between islands that it avoids, as a share of all
/// meetings.
const GAIN: f64 = 0.1;

/// The cost of moving one partition, as a share of all meetings.
const PRICE: f64 = 0.01;

/// How far an island may exceed its share of the work.
const SLACK: f64 = 0.15;

/// Counts which partitions meet, and decides; see the head of this file.
pub(crate) struct Placer {
    /// The island of each worker, as an index into `sizes`.
    island: Vec<usize>,
    /// The number of workers of each island.
    sizes: Vec<usize>,
    /// How often two sites met. Halved in each period with enough of them, so that old meetings
    /// lose weight, and a slow machine collects enough in several periods.
    met: BTreeMap<(u32, u32), f64>,
    /// Periods left without a decision, and their number after each decision.
    quiet: u32,
    settle: u32,
}

impl Placer {
    /// `islands` holds the island of each worker. Workers beyond its end lie on the first island.
    pub fn new(islands: &[u16], workers: usize, settle: u32) -> Placer {
        let number = |worker: usize| islands.get(worker).or(islands.first()).copied().unwrap_or(0);
        let mut numbers: Vec<u16> = (0..workers).map(number).collect();
        let of = numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let island: Vec<usize> = of.iter().map(|n| numbers.partition_point(|m| m < n)).collect();
        let sizes = (0..numbers.len()).map(|i| island.iter().filter(|at| **at == i).count()).collect();
        Placer { island, sizes, met: BTreeMap::new(), quiet: settle, settle }
    }

    /// Adds the meetings that one worker sampled in this period.
    pub fn met(&mut self, drawn: &Meetings) {
        for (&sites, &n) in drawn {
            *self.met.entry(sites).or_default() += f64::from(n);
        }
    }

    /// Ends the period. Returns other owners for the partitions, and why; `None` if no move is
    /// worth it.
    pub fn judge(&mut self, now: &Ranges, work: &[u64]) -> Option<(Ranges, String)> {
        let problem = self.problem(now, work);
        if self.met.values().sum::<f64>() >= ENOUGH {
            self.met.values_mut().for_each(|n| *n /= 2.0);
            self.met.retain(|_, n| *n >= 0.1);
        }
        if self.quiet > 0 {
            self.quiet -= 1;
            return None;
        }
        let all: f64 = problem.together.iter().map(|t| t.transactions as f64).sum();
        if all < ENOUGH {
            return None;
        }
        let current = Placement(now.owners().iter().map(|owner| self.island[usize::from(owner.0)]).collect());
        let better = improve(&problem, &current, PRICE * all).ok()?;
        let (before, after) = (problem.price(&current).crossing / all, problem.price(&better).crossing / all);
        if before - after < GAIN {
            return None;
        }
        self.quiet = self.settle;
        let moves = current.0.iter().zip(&better.0).filter(|(a, b)| a != b).count();
        let to = self.owners(now, &better, work)?;
        let why = format!(
            "{:.0} % of the meetings of partitions in transactions are between islands: move {moves} of {} partitions, to {:.0} %",
            before * 100.0,
            now.len(),
            after * 100.0
        );
        Some((to, why))
    }

    fn problem(&self, now: &Ranges, work: &[u64]) -> Problem {
        let mut pairs: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (&(a, b), n) in &self.met {
            let (a, b) = (now.index(a.into()), now.index(b.into()));
            if a != b {
                *pairs.entry((a, b)).or_default() += n;
            }
        }
        let pair = |((a, b), n): ((usize, usize), f64)| Together { a, b, transactions: n as u64 };
        Problem {
            work: work.iter().map(|w| *w as f64).collect(),
            together: pairs.into_iter().map(pair).collect(),
            islands: self.sizes.clone(),
            slack: SLACK,
        }
    }

    /// Each partition that moves goes to the worker of its new island with the least work. `None`
    /// if a worker would be left without a partition.
    fn owners(&self, now: &Ranges, placement: &Placement, work: &[u64]) -> Option<Ranges> {
        let mut owners: Vec<Option<usize>> =
            now.owners().iter().map(|owner| Some(usize::from(owner.0))).collect();
        let mut has = vec![0u64; self.island.len()];
        for (i, owner) in owners.iter_mut().enumerate() {
            match *owner {
                Some(worker) if self.island[worker] == placement.0[i] => has[worker] += work[i],
                _ => *owner = None,
            }
        }
        for (i, owner) in owners.iter_mut().enumerate().filter(|(_, owner)| owner.is_none()) {
            let near = (0..has.len()).filter(|w| self.island[*w] == placement.0[i]);
            let idlest = near.min_by_key(|w| has[*w])?;
            has[idlest] += work[i];
            *owner = Some(idlest);
        }
        let part = |(p, owner): (Partition, Option<usize>)| {
            let owner = WorkerId(owner.unwrap_or_default() as u16);
            Partition { owner, ..p }
        };
        Ranges::new(now.table(), now.domain(), now.partitions().zip(owners).map(part).collect()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::TableId;

    /// Four partitions of ten sites. Worker 0 owns the first two, which meet the other two.
    fn apart() -> (Ranges, Meetings) {
        let owners = [0, 1].map(WorkerId);
        let ranges = Ranges::equal(TableId(0), 40, 4, &owners).unwrap();
        let met = (0..20).map(|site| ((site, site + 20), 50)).collect();
        (ranges, met)
    }

    #[test]
    fn partitions_that_meet_come_to_one_island_and_stay_there() {
        let (ranges, met) = apart();
        let mut placer = Placer::new(&[0, 7], 2, 2);
        let work = [100; 4];
        let mut judged = Vec::new();
        for _ in 0..3 {
            placer.met(&met);
            judged.push(placer.judge(&ranges, &work));
        }
        assert!(judged[..2].iter().all(Option::is_none), "it begins with periods in which it looks only");
        let (to, why) = judged.pop().unwrap().expect("all meetings are between the islands");
        let owners: Vec<u16> = to.owners().iter().map(|owner| owner.0).collect();
        assert!(owners[0] == owners[2] && owners[1] == owners[3] && owners[0] != owners[1], "{owners:?}");
        assert!(why.contains("100 % of the meetings") && why.ends_with("to 0 %"), "{why}");
        for _ in 0..6 {
            placer.met(&met);
            assert!(placer.judge(&to, &work).is_none(), "nothing is gained any more");
        }
    }

    #[test]
    fn a_slow_machine_decides_after_more_periods() {
        let (ranges, met) = apart();
        let few: Meetings = met.keys().map(|sites| (*sites, 1)).collect();
        let mut placer = Placer::new(&[0, 7], 2, 2);
        let mut periods = 0..40;
        let decided = periods.find(|_| {
            placer.met(&few);
            placer.judge(&ranges, &[100; 4]).is_some()
        });
        assert_eq!(decided, Some(9), "20 meetings a period, 200 in ten");
    }

    #[test]
    fn few_meetings_or_one_island_move_nothing() {
        let (ranges, met) = apart();
        let few: Meetings = met.iter().take(2).map(|(sites, _)| (*sites, 1)).collect();
        let mut placer = Placer::new(&[0, 1], 2, 1);
        let mut near = Placer::new(&[3, 3], 2, 1);
        for _ in 0..4 {
            placer.met(&few);
            assert!(placer.judge(&ranges, &[100; 4]).is_none());
            near.met(&met);
            assert!(near.judge(&ranges, &[100; 4]).is_none());
        }
    }
}
