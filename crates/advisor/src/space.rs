//! The deployments that a machine and a workload allow.
//!
//! Sizes of islands follow the machine's levels: one instance, one per package, per L3 group, per
//! core, and halves and doubles of these. The rules:
//!
//! - instances are of equal size, so the number of islands divides the number of workers;
//! - `serial` has one worker per instance;
//! - a design with rows in main memory needs rows that fit;
//! - one instance has no channel, and `ring` joins instances of one process;
//! - an instance owns at least one site of the data.

use crate::candidate::Candidate;
use crate::error::AdviceError;
use deploysim::Channel;
use topology::Placement;

/// The number of a machine's groups by level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Levels {
    pub packages: usize,
    pub l3_groups: usize,
    pub cores: usize,
}

/// A design and the rules that it is under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Design {
    pub name: String,
    /// An instance has one worker.
    pub is_single_threaded: bool,
    /// Its rows must fit in main memory.
    pub is_in_memory: bool,
}

/// The axes of the search.
#[derive(Clone, PartialEq, Debug)]
pub struct Space {
    pub levels: Levels,
    pub designs: Vec<Design>,
    /// Numbers of workers to try, each at most the number of cores.
    pub workers: Vec<usize>,
    pub placements: Vec<Placement>,
    pub channels: Vec<Channel>,
    /// Sites into which the data divides.
    pub sites: u32,
    /// Whether the rows fit in the machine's memory.
    pub rows_fit: bool,
    /// The share of the load of each site, for uneven parts; empty if all are alike or if parts
    /// have to be even.
    pub site_load: Vec<f64>,
}

impl Space {
    /// The numbers of islands for `workers` workers, ascending.
    pub fn island_counts(&self, workers: usize) -> Vec<usize> {
        let Levels { packages, l3_groups, cores } = self.levels;
        let by_level = [1, 2, packages, l3_groups, cores, workers];
        let around = by_level.into_iter().flat_map(|n| [n, n / 2, n * 2]);
        let fits = |n: &usize| (1..=workers).contains(n) && workers.is_multiple_of(*n);
        let mut counts: Vec<usize> = around.filter(fits).filter(|n| *n <= self.sites as usize).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// Every deployment that the rules allow.
    ///
    /// # Errors
    /// No deployment is left; the sentence names the rule.
    pub fn candidates(&self) -> Result<Vec<Candidate>, AdviceError> {
        let mut all = Vec::new();
        for &workers in &self.workers {
            for islands in self.island_counts(workers) {
                for design in self.designs.iter().filter(|d| self.allows(d, islands, workers)) {
                    self.add(&mut all, &design.name, islands, workers);
                }
            }
        }
        if all.is_empty() { Err(AdviceError::NoCandidate(self.reason())) } else { Ok(all) }
    }

    fn allows(&self, design: &Design, islands: usize, workers: usize) -> bool {
        (!design.is_single_threaded || islands == workers) && (!design.is_in_memory || self.rows_fit)
    }

    fn add(&self, all: &mut Vec<Candidate>, design: &str, islands: usize, workers: usize) {
        let channels: Vec<Option<Channel>> = match islands {
            1 => vec![None],
            _ => self.channels.iter().copied().map(Some).collect(),
        };
        let uneven = match islands {
            1 => Vec::new(),
            _ => balanced_bounds(&self.site_load, islands),
        };
        for &placement in &self.placements {
            // All placements of one worker for each core are the same.
            if placement != Placement::Island && (islands == workers || self.levels.packages == 1) {
                continue;
            }
            for &channel in &channels {
                let even = Candidate {
                    design: design.to_owned(),
                    islands,
                    workers,
                    placement,
                    channel,
                    bounds: Vec::new(),
                };
                if !uneven.is_empty() {
                    all.push(Candidate { bounds: uneven.clone(), ..even.clone() });
                }
                all.push(even);
            }
        }
    }

    fn reason(&self) -> String {
        let names: Vec<&str> = self.designs.iter().map(|d| d.name.as_str()).collect();
        let cores = self.levels.cores;
        if !self.rows_fit && self.designs.iter().all(|d| d.is_in_memory) {
            return format!("the rows do not fit in memory, which {} needs", names.join(", "));
        }
        if self.designs.iter().all(|d| d.is_single_threaded) && (self.sites as usize) < cores {
            return format!(
                "{} needs an instance per worker, and the data divides into {} parts",
                names.join(", "),
                self.sites
            );
        }
        format!("designs {:?}, workers {:?}, channels {:?}", names, self.workers, self.channels)
    }
}

/// Bounds at which each of `islands` runs of sites gets about the same load: the first site of each
/// island but the first. Empty if that is the even division, or if there is no load to go by.
pub fn balanced_bounds(site_load: &[f64], islands: usize) -> Vec<u32> {
    let (sites, total) = (site_load.len(), site_load.iter().sum::<f64>());
    if islands < 2 || sites < islands || total <= 0.0 {
        return Vec::new();
    }
    let mut bounds = Vec::with_capacity(islands - 1);
    let (mut site, mut before) = (0, 0.0);
    for island in 1..islands {
        let target = total * island as f64 / islands as f64;
        // Each island keeps a site, and leaves one for each island after it.
        let (least, most) = (bounds.last().map_or(1, |last| last + 1), sites - (islands - island));
        while site < most && (site < least || before + site_load[site] / 2.0 < target) {
            before += site_load[site];
            site += 1;
        }
        bounds.push(site);
    }
    let even = (1..islands).map(|i| i * sites / islands);
    if even.eq(bounds.iter().copied()) {
        return Vec::new();
    }
    bounds.into_iter().map(|site| site as u32).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn candidate(
        design: &str,
        islands: usize,
        workers: usize,
        channel: Option<Channel>,
    ) -> Candidate {
        let placement = Placement::Island;
        Candidate { design: design.into(), islands, workers, placement, channel, bounds: Vec::new() }
    }

    fn design(name: &str) -> Design {
        Design { name: name.into(), is_single_threaded: name == "serial", is_in_memory: name == "occ" }
    }

    /// Four packages of six cores.
    fn quad() -> Space {
        Space {
            levels: Levels { packages: 4, l3_groups: 4, cores: 24 },
            designs: ["conventional", "serial", "occ"].map(design).into(),
            workers: vec![24],
            placements: vec![Placement::Island],
            channels: vec![Channel::Shm, Channel::Uds],
            sites: 24,
            rows_fit: true,
            site_load: Vec::new(),
        }
    }

    #[test]
    fn sizes_follow_the_levels_their_halves_and_doubles() {
        assert_eq!(quad().island_counts(24), [1, 2, 4, 8, 12, 24]);
        let two = Space { levels: Levels { packages: 1, l3_groups: 1, cores: 2 }, ..quad() };
        assert_eq!(two.island_counts(2), [1, 2]);
        let few_sites = Space { sites: 5, ..quad() };
        assert_eq!(few_sites.island_counts(24), [1, 2, 4]);
    }

    #[test]
    fn rules_of_designs_and_channels() {
        let all = quad().candidates().unwrap();
        let serial: Vec<_> = all.iter().filter(|c| c.design == "serial").collect();
        assert!(!serial.is_empty() && serial.iter().all(|c| c.islands == c.workers));
        assert!(all.iter().all(|c| (c.islands == 1) == c.channel.is_none()));
        assert_eq!(all.iter().filter(|c| c.islands == 1).count(), 2);
        assert_eq!(all.len(), 2 + 4 * 2 * 2 + 3 * 2);
        let unfit = Space { rows_fit: false, ..quad() };
        assert!(unfit.candidates().unwrap().iter().all(|c| c.design != "occ"));
        let nothing = Space { rows_fit: false, designs: vec![design("occ")], ..quad() };
        assert!(nothing.candidates().unwrap_err().to_string().contains("do not fit in memory"));
        let nothing = Space { sites: 3, designs: vec![design("serial")], ..quad() };
        assert!(nothing.candidates().unwrap_err().to_string().contains("3 parts"));
    }

    #[test]
    fn a_large_machine_stays_within_the_bound_of_the_search() {
        let epyc = Space {
            levels: Levels { packages: 2, l3_groups: 32, cores: 128 },
            designs: ["conventional", "logical", "plp-regular", "plp-partition", "plp-leaf", "serial", "occ"]
                .map(design)
                .into(),
            workers: vec![128],
            placements: vec![Placement::Island, Placement::Spread, Placement::Mix],
            channels: Channel::ALL.into(),
            sites: 128,
            ..quad()
        };
        let all = epyc.candidates().unwrap();
        assert!(all.len() <= 2_000, "{}", all.len());
        let mut distinct = all.clone();
        distinct.sort_by_key(|c| c.to_string());
        distinct.dedup();
        assert_eq!(distinct.len(), all.len(), "no candidate twice");
    }

    #[test]
    fn uneven_parts_carry_even_loads() {
        let mut load = vec![1.0; 24];
        load[0] = 23.0;
        let bounds = balanced_bounds(&load, 2);
        assert_eq!(bounds, [1]);
        assert!(balanced_bounds(&[1.0; 24], 4).is_empty(), "even loads need no bounds of their own");
        let four = balanced_bounds(&load, 4);
        assert_eq!(four.len(), 3);
        assert!(four.windows(2).all(|pair| pair[0] < pair[1]) && four[2] < 24);
        let skewed = Space { site_load: load, ..quad() }.candidates().unwrap();
        assert!(skewed.iter().any(|c| c.islands == 2 && c.bounds == [1]));
        assert!(skewed.iter().filter(|c| c.islands == 1).all(|c| c.bounds.is_empty()));
    }

    /// Bounds always leave each island a site, for any load.
    #[test]
    fn bounds_leave_no_island_empty() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let sites = rng.usize(2..40);
            let islands = rng.usize(2..=sites);
            let load: Vec<f64> = (0..sites).map(|_| rng.f64().powi(6)).collect();
            let bounds = balanced_bounds(&load, islands);
            let mut all = vec![0];
            all.extend(bounds.iter().map(|b| *b as usize));
            all.push(sites);
            let whole = bounds.is_empty() || all.windows(2).all(|p| p[0] < p[1]);
            assert!(whole && (bounds.is_empty() || bounds.len() == islands - 1), "{load:?} {bounds:?}");
        }
    }
}
