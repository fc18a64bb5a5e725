//! The island for each partition: partitions that transactions touch together belong together
//! (after ATraPos).
//!
//! Given are each partition's work, how often two of them were in one transaction, and the islands
//! with their cores. Wanted is an assignment with as little co-access across islands as possible,
//! and no island with more than its cores' share of the work plus a slack. That is graph
//! partitioning, which is NP-hard. So the search has several starts:
//!
//! - the current placement;
//! - whole clusters of co-access by descending work;
//! - the busiest partition first to the idlest island.
//!
//! It improves each by passes of moves and swaps that continue through worse states and then return
//! to the best one they saw (Kernighan and Lin; Fiduccia and Mattheyses).
//!
//! A better placement is worth little if half of the database moves for it. So [`improve`] starts
//! from the current placement, counts a price for each partition that moves, and moves none for
//! less.

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlacementError {
    #[error("no island to place partitions on: name at least one")]
    NoIsland,
    #[error("island {island} has no cores: leave it out")]
    NoCores { island: usize },
    #[error("the work of partition {partition} is {work}: expected a finite number of 0 or more")]
    Work { partition: usize, work: f64 },
    #[error("co-access names partition {partition}, but there are {partitions}")]
    Unknown { partition: usize, partitions: usize },
    #[error("a slack of {0}: expected a share of an island's load of 0 or more, such as 0.1")]
    Slack(f64),
    #[error(
        "the placement there is has {found} partitions on {islands} islands at most; expected {expected} partitions"
    )]
    Current { found: usize, expected: usize, islands: usize },
}

/// How often two partitions were accessed by one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Together {
    pub a: usize,
    pub b: usize,
    pub transactions: u64,
}

/// The input of a placement.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// Work of each partition, in any unit.
    pub work: Vec<f64>,
    pub together: Vec<Together>,
    /// Cores of each island.
    pub islands: Vec<usize>,
    /// The work that an island may have above its share, as a part of that share.
    pub slack: f64,
}

/// Island of each partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement(pub Vec<usize>);

/// The price of a placement; smaller is better, and the first field counts first.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Price {
    /// Work above the islands' limits, summed up.
    pub overload: f64,
    /// Transactions across islands, plus the price of the moves.
    pub crossing: f64,
}

impl Problem {
    fn check(&self) -> Result<(), PlacementError> {
        if self.islands.is_empty() {
            return Err(PlacementError::NoIsland);
        }
        if let Some(island) = self.islands.iter().position(|&cores| cores == 0) {
            return Err(PlacementError::NoCores { island });
        }
        if let Some(partition) = self.work.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(PlacementError::Work { partition, work: self.work[partition] });
        }
        let partitions = self.work.len();
        let named = self.together.iter().flat_map(|t| [t.a, t.b]);
        if let Some(partition) = named.into_iter().find(|&p| p >= partitions) {
            return Err(PlacementError::Unknown { partition, partitions });
        }
        if !(self.slack >= 0.0 && self.slack.is_finite()) {
            return Err(PlacementError::Slack(self.slack));
        }
        Ok(())
    }

    /// The work that each island may have. Never less than the largest partition alone, which has
    /// to be on some island.
    fn limits(&self) -> Vec<f64> {
        let cores: usize = self.islands.iter().sum();
        let all: f64 = self.work.iter().sum();
        let largest = self.work.iter().copied().fold(0.0, f64::max);
        let share = |&own: &usize| all * own as f64 / cores as f64 * (1.0 + self.slack);
        self.islands.iter().map(|own| share(own).max(largest)).collect()
    }

    /// The price of a placement without moves, made here or elsewhere.
    pub fn price(&self, placement: &Placement) -> Price {
        Search::new(self, placement.0.clone(), None).price()
    }
}

/// A placement without regard to a current one.
pub fn place(problem: &Problem) -> Result<Placement, PlacementError> {
    problem.check()?;
    let starts = [clustered(problem), spread(problem)];
    Ok(best(starts.map(|start| Search::new(problem, start, None).run())))
}

/// A placement for a system that has one. `move_price` is the price of moving a partition: the
/// number of transactions across islands that the move must save while the placement lasts.
pub fn improve(problem: &Problem, current: &Placement, move_price: f64) -> Result<Placement, PlacementError> {
    problem.check()?;
    let (expected, islands) = (problem.work.len(), problem.islands.len());
    if current.0.len() != expected || current.0.iter().any(|&i| i >= islands) {
        return Err(PlacementError::Current { found: current.0.len(), expected, islands });
    }
    let stay = Some((&current.0[..], move_price.max(0.0)));
    let starts = [current.0.clone(), clustered(problem)];
    Ok(best(starts.map(|start| Search::new(problem, start, stay).run())))
}

fn best(found: [(Price, Vec<usize>); 2]) -> Placement {
    let [a, b] = found;
    Placement(if b.0 < a.0 { b.1 } else { a.1 })
}

/// The busiest partition first, each to the island with the least work per core.
fn spread(problem: &Problem) -> Vec<usize> {
    let singles = (0..problem.work.len()).map(|p| vec![p]).collect();
    laid_out(problem, singles)
}

/// Partitions joined along the heaviest co-access while a cluster still fits the smallest island,
/// then the clusters assigned to islands.
fn clustered(problem: &Problem) -> Vec<usize> {
    let room = problem.limits().into_iter().fold(f64::INFINITY, f64::min);
    let mut clusters: Vec<Vec<usize>> = (0..problem.work.len()).map(|p| vec![p]).collect();
    let mut cluster_of: Vec<usize> = (0..problem.work.len()).collect();
    let mut pairs = problem.together.clone();
    pairs.sort_by_key(|t| std::cmp::Reverse(t.transactions));
    let work = |cluster: &[usize]| cluster.iter().map(|&p| problem.work[p]).sum::<f64>();
    for Together { a, b, .. } in pairs {
        let (a, b) = (cluster_of[a], cluster_of[b]);
        if a != b && work(&clusters[a]) + work(&clusters[b]) <= room {
            let joined = std::mem::take(&mut clusters[b]);
            joined.iter().for_each(|&p| cluster_of[p] = a);
            clusters[a].extend(joined);
        }
    }
    laid_out(problem, clusters)
}

fn laid_out(problem: &Problem, mut clusters: Vec<Vec<usize>>) -> Vec<usize> {
    let work = |cluster: &Vec<usize>| cluster.iter().map(|&p| problem.work[p]).sum::<f64>();
    clusters.sort_by(|a, b| work(b).total_cmp(&work(a)));
    let mut loads = vec![0.0; problem.islands.len()];
    let mut placed = vec![0; problem.work.len()];
    for cluster in clusters {
        let after = |i: usize| (loads[i] + work(&cluster)) / problem.islands[i] as f64;
        let idlest = (0..loads.len()).min_by(|&a, &b| after(a).total_cmp(&after(b))).unwrap_or(0);
        loads[idlest] += work(&cluster);
        cluster.iter().for_each(|&p| placed[p] = idlest);
    }
    placed
}

#[derive(Clone, Copy)]
enum Step {
    Move { partition: usize, island: usize },
    Swap { a: usize, b: usize },
}

/// A placement while it is improved.
struct Search<'a> {
    problem: &'a Problem,
    limits: Vec<f64>,
    neighbours: Vec<Vec<(usize, f64)>>,
    at: Vec<usize>,
    loads: Vec<f64>,
    /// The current islands of the partitions, and the price of moving one.
    stay: Option<(&'a [usize], f64)>,
}

impl<'a> Search<'a> {
    fn new(problem: &'a Problem, at: Vec<usize>, stay: Option<(&'a [usize], f64)>) -> Search<'a> {
        let mut neighbours = vec![Vec::new(); problem.work.len()];
        for &Together { a, b, transactions } in problem.together.iter().filter(|t| t.a != t.b) {
            neighbours[a].push((b, transactions as f64));
            neighbours[b].push((a, transactions as f64));
        }
        let mut loads = vec![0.0; problem.islands.len()];
        at.iter().zip(&problem.work).for_each(|(&island, work)| loads[island] += work);
        Search { limits: problem.limits(), problem, neighbours, at, loads, stay }
    }

    fn over(&self, island: usize, load: f64) -> f64 {
        // A billionth of slack, for sums in another order.
        (load - self.limits[island] * (1.0 + 1e-9)).max(0.0)
    }

    fn price(&self) -> Price {
        let overload = self.loads.iter().enumerate().map(|(i, &load)| self.over(i, load)).sum();
        let apart = |t: &&Together| self.at[t.a] != self.at[t.b];
        let crossing: f64 = self.problem.together.iter().filter(apart).map(|t| t.transactions as f64).sum();
        let moved = self.stay.map_or(0.0, |(from, price)| {
            price * from.iter().zip(&self.at).filter(|(a, b)| a != b).count() as f64
        });
        Price { overload, crossing: crossing + moved }
    }

    /// The crossing and moves of a partition on `island`.
    fn pull(&self, partition: usize, island: usize) -> f64 {
        let apart = self.neighbours[partition].iter().filter(|(other, _)| self.at[*other] != island);
        let away = self.stay.filter(|(from, _)| from[partition] != island);
        apart.map(|n| n.1).sum::<f64>() + away.map_or(0.0, |s| s.1)
    }

    fn after(&self, price: Price, step: Step) -> Price {
        let work = &self.problem.work;
        let shift = |from: usize, to: usize, by: f64| {
            let (old, new) = (self.loads[from], self.loads[to]);
            self.over(from, old - by) + self.over(to, new + by) - self.over(from, old) - self.over(to, new)
        };
        let (overload, crossing) = match step {
            Step::Move { partition, island } => {
                let from = self.at[partition];
                let crossing = self.pull(partition, island) - self.pull(partition, from);
                (shift(from, island, work[partition]), crossing)
            }
            Step::Swap { a, b } => {
                let (x, y) = (self.at[a], self.at[b]);
                let shared: f64 = self.neighbours[a].iter().filter(|n| n.0 == b).map(|n| n.1).sum();
                let old = self.pull(a, x) + self.pull(b, y);
                // Each pull takes the other partition as staying on its island, although both
                // change sides. So neither counts the transactions that the two share.
                let crossing = self.pull(a, y) + self.pull(b, x) + 2.0 * shared - old;
                (shift(x, y, work[a] - work[b]), crossing)
            }
        };
        Price { overload: price.overload + overload, crossing: price.crossing + crossing }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Move { partition, island } => {
                self.loads[self.at[partition]] -= self.problem.work[partition];
                self.loads[island] += self.problem.work[partition];
                self.at[partition] = island;
            }
            Step::Swap { a, b } => {
                let (x, y) = (self.at[a], self.at[b]);
                self.take(Step::Move { partition: a, island: y });
                self.take(Step::Move { partition: b, island: x });
            }
        }
    }

    /// Repeats passes until one brings no gain. The price of each state is summed up anew, so it
    /// falls strictly from state to state, and the search ends. A price updated by differences
    /// could cycle through rounding errors.
    fn run(mut self) -> (Price, Vec<usize>) {
        loop {
            let (before, start) = (self.price(), self.at.clone());
            let at = self.pass(before);
            let next = Search::new(self.problem, at, self.stay);
            if next.price() < before {
                self = next;
            } else {
                return (before, start);
            }
        }
    }

    /// Takes the best step repeatedly, worse states included, no partition twice; returns the best
    /// state on the way.
    fn pass(&mut self, before: Price) -> Vec<usize> {
        let mut best = (before, self.at.clone());
        let mut price = before;
        // Smaller differences are rounding errors.
        let work = 1e-9 * self.loads.iter().sum::<f64>();
        let least = 1e-9 * (1.0 + before.crossing);
        let mut free = vec![true; self.at.len()];
        while let Some((next, step)) = self.best_step(price, &free) {
            self.take(step);
            price = next;
            match step {
                Step::Move { partition, .. } => free[partition] = false,
                Step::Swap { a, b } => (free[a], free[b]) = (false, false),
            }
            let better = price.overload < best.0.overload - work
                || price.overload <= best.0.overload + work && price.crossing < best.0.crossing - least;
            if better {
                best = (price, self.at.clone());
            }
        }
        best.1
    }

    fn best_step(&self, price: Price, free: &[bool]) -> Option<(Price, Step)> {
        let free: Vec<usize> = (0..free.len()).filter(|&p| free[p]).collect();
        let islands = 0..self.loads.len();
        let moves = free.iter().flat_map(|&partition| {
            let other = islands.clone().filter(move |&island| island != self.at[partition]);
            other.map(move |island| Step::Move { partition, island })
        });
        let pairs = free.iter().enumerate().flat_map(|(i, &a)| free[i + 1..].iter().map(move |&b| (a, b)));
        let swaps = pairs.filter(|&(a, b)| self.at[a] != self.at[b]).map(|(a, b)| Step::Swap { a, b });
        let priced = moves.chain(swaps).map(|step| (self.after(price, step), step));
        priced.min_by(|a, b| {
            let (a, b) = (a.0, b.0);
            a.overload.total_cmp(&b.overload).then(a.crossing.total_cmp(&b.crossing))
        })
    }
}
