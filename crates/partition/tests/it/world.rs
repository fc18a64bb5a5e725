//! A partitioned table under load, period by period: the balancer's environment, without threads or
//! time.

use base::{TableId, WorkerId};
use partition::{
    Balancer, Decision, Grain, Histogram, PartitionLoad, Plan, QueueLength, RangeMap, Ranges, Settings,
};
use std::ops::Range;

pub const T: TableId = TableId(1);

/// Ranges of keys with their share of the requests; within a range all keys are alike.
#[derive(Clone, Debug)]
pub struct Load(pub Vec<(Range<u64>, f64)>);

impl Load {
    pub fn even(domain: u64) -> Load {
        Load(vec![(0..domain, 1.0)])
    }

    /// The share `requests` of all goes to `keys`, the rest to the keys outside.
    pub fn hot(domain: u64, keys: Range<u64>, requests: f64) -> Load {
        let cold = (domain - (keys.end - keys.start)) as f64;
        let part = |r: Range<u64>| ((r.end - r.start) as f64 / cold * (1.0 - requests), r);
        let ((a, left), (b, right)) = (part(0..keys.start), part(keys.end..domain));
        let parts = vec![(left, a), (keys, requests), (right, b)];
        Load(parts.into_iter().filter(|(r, _)| !r.is_empty()).collect())
    }

    /// Share of the requests that go to `keys`.
    pub fn share(&self, keys: &Range<u64>) -> f64 {
        let all: f64 = self.0.iter().map(|p| p.1).sum();
        let part = |(r, share): &(Range<u64>, f64)| {
            let common = r.end.min(keys.end).saturating_sub(r.start.max(keys.start));
            share * common as f64 / (r.end - r.start) as f64
        };
        self.0.iter().map(part).sum::<f64>() / all
    }

    pub fn key(&self, rng: &mut fastrand::Rng) -> u64 {
        let all: f64 = self.0.iter().map(|p| p.1).sum();
        let mut at = rng.f64() * all;
        for (keys, share) in &self.0 {
            if at < *share {
                return rng.u64(keys.clone());
            }
            at -= share;
        }
        self.0[0].0.start
    }
}

pub struct World {
    pub map: RangeMap,
    pub histograms: Vec<Histogram>,
    pub balancer: Balancer,
    pub grain: Grain,
    rng: fastrand::Rng,
}

impl World {
    pub fn new(domain: u64, partitions: usize, settings: Settings, seed: u64) -> World {
        let workers: Vec<WorkerId> = (0..partitions as u16).map(WorkerId).collect();
        let map = RangeMap::new([Ranges::equal(T, domain, partitions, &workers).unwrap()]);
        let balancer = Balancer::new(settings).unwrap();
        let grain = Grain::default();
        let histograms = Vec::new();
        let mut world = World { map, histograms, balancer, grain, rng: fastrand::Rng::with_seed(seed) };
        world.histograms = world.fresh();
        world
    }

    pub fn ranges(&self) -> &Ranges {
        self.map.table(T).unwrap()
    }

    fn fresh(&self) -> Vec<Histogram> {
        self.ranges().partitions().map(|p| Histogram::new(p.keys, self.grain).unwrap()).collect()
    }

    /// Busiest partition over the mean, of the expected requests.
    pub fn imbalance(&self, load: &Load) -> f64 {
        let shares = self.ranges().partitions().map(|p| load.share(&p.keys));
        shares.fold(0.0, f64::max) * self.ranges().len() as f64
    }

    /// One period: `requests` come, the balancer judges, and its plan is carried out at once.
    pub fn period(&mut self, load: &Load, requests: usize) -> Decision {
        let mut served = vec![0; self.ranges().len()];
        for _ in 0..requests {
            let key = load.key(&mut self.rng);
            let i = self.ranges().index(key);
            self.histograms[i].record(key);
            served[i] += 1;
        }
        let told: Vec<PartitionLoad> =
            self.histograms.iter().zip(served).map(|(h, n)| h.snapshot(n, QueueLength(0))).collect();
        let decision = self.balancer.judge(self.map.table(T).unwrap(), &told).unwrap();
        if let Some(plan) = decision.plan() {
            self.carry_out(plan);
        }
        self.histograms.iter_mut().for_each(Histogram::age);
        decision
    }

    fn carry_out(&mut self, plan: &Plan) {
        self.map = plan.apply(&self.map).unwrap();
        let heir =
            |p: partition::Partition| Histogram::successor(p.keys, self.grain, &self.histograms).unwrap();
        self.histograms = self.ranges().partitions().map(heir).collect();
    }

    /// The periods in which a plan was carried out.
    pub fn run(&mut self, load: &Load, periods: usize, requests: usize) -> Vec<usize> {
        (0..periods).filter(|_| self.period(load, requests).plan().is_some()).collect()
    }
}
