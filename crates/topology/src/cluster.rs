//! Islands found from latencies alone.
//!
//! Average-linkage clustering turns the matrix into a tree of merges at growing heights
//! (nanoseconds). A level of the hardware shows as a *relative* gap between two heights: SMT
//! siblings 7 ns, same L3 20 ns, other L3 90 ns, other socket 200 ns. Each rule answers to a
//! machine on which a cruder rule fails:
//!
//! * Every gap of at least [`GAP`] counts, not only the largest, which finds SMT siblings on most
//!   Intel parts.
//! * Linkage is average, because single linkage chains L3 groups together across sockets on EPYC.
//! * Two cuts with nearly the same number of groups are one level seen through noise: the coarser
//!   one stays.
//! * A level repeats itself over the machine, so a cut with one giant group is not a level. Dual
//!   EPYC boards show such a cut: when the line's home is on socket 0, two L3 groups of socket 1
//!   are as far from each other as from socket 0, so only one of the sockets closes up. But their
//!   *profiles* agree (both see socket 0 near itself and themselves far), and clustering the groups
//!   by profile finds the sockets.

use serde::{Deserialize, Serialize};

use crate::cpu::CpuId;
use crate::latency::{LatencyMatrix, median};

/// Heights must grow by this factor to make a level. Over the thirty machines in `machines/`, true
/// levels grow by 1.67 or more, and noise inside a level by 1.26 or less once the rules above are
/// applied.
const GAP: f64 = 1.5;

/// To be a level of its own, a coarser cut must have at most this share of the groups of a finer
/// cut.
const STEP: f64 = 0.75;

/// No group may hold more than this many times the CPUs of the median group (of an even number, the
/// smaller of the two). Hybrid parts and clipped CPU sets make groups unequal by a factor of about
/// two. The half-closed cut on EPYC does so by six and more, and a single noisy CPU by the size of
/// the machine.
const LARGEST_OVER_MEDIAN: usize = 3;

/// Two SMT siblings exchange a line through their own L1 in 4 to 13 ns, on everything from an Atom
/// to an EPYC. The fastest pair of cores needs 15 ns.
const SMT_NS: f64 = 14.0;

/// A level found by profile needs this factor between heights, and a height of this share of the
/// median latency. On the two EPYC boards the factor is above 2 and the share above 0.2. On a
/// Threadripper (one socket) the share stays below 0.1.
const PROFILE_GAP: f64 = 1.5;
const PROFILE_SHARE: f64 = 0.12;

/// The kind of a level, judged from latency alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelKind {
    /// Hardware threads of one core.
    Smt,
    /// Cores that share a cache: an L3 group (AMD's CCX), a cluster around an L2.
    Cache,
    /// A package.
    Socket,
}

/// One level: a partition of the matrix' CPUs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Level {
    /// The probable kind of the groups.
    pub kind: LevelKind,
    /// The groups, each ascending, ordered by first CPU.
    pub groups: Vec<Vec<CpuId>>,
    /// Median latency of two CPUs inside one group, in ns.
    pub inside_ns: f64,
    /// Median latency of two CPUs of different groups, in ns.
    pub outside_ns: f64,
}

/// The levels of a matrix, finest first. None if all CPUs are about equally far apart, or if there
/// are fewer than three (one pair has no other to be compared with).
pub fn find_levels(latency: &LatencyMatrix) -> Vec<Level> {
    let n = latency.cpus().len();
    if n < 3 {
        return Vec::new();
    }
    let tree = Tree::average_linkage(n, |i, j| latency.at(i, j));
    let mut partitions = regular_cuts(&tree, GAP);
    let finest = partitions.iter().position(|groups| !is_smt(latency, groups));
    if let Some(at) = finest
        && at + 1 == partitions.len()
        && let Some(sockets) = by_profile(latency, &partitions[at])
    {
        partitions.push(sockets);
    }
    label(latency, partitions)
}

/// The merges of a hierarchical clustering, by growing height.
struct Tree {
    leaves: usize,
    /// (height, representative of one cluster, of the other); a representative is the cluster's
    /// smallest leaf.
    merges: Vec<(f64, usize, usize)>,
}

type Partition = Vec<Vec<usize>>;

impl Tree {
    /// Repeatedly joins the two clusters of least mean distance. Keeps the nearest neighbour of
    /// each cluster, so a merge costs O(n) on ordinary data and O(n^2) at worst.
    fn average_linkage(n: usize, distance: impl Fn(usize, usize) -> f64) -> Tree {
        let mut d: Vec<Vec<f64>> = (0..n).map(|i| (0..n).map(|j| distance(i, j)).collect()).collect();
        let mut size = vec![1.0_f64; n];
        let mut alive: Vec<usize> = (0..n).collect();
        let mut nearest: Vec<usize> = (0..n).map(|i| nearest_of(&d, &alive, i)).collect();
        let mut merges = Vec::with_capacity(n.saturating_sub(1));
        while alive.len() > 1 {
            let closest =
                alive.iter().copied().min_by(|a, b| d[*a][nearest[*a]].total_cmp(&d[*b][nearest[*b]]));
            let Some(a) = closest else { break };
            let (keep, gone) = (a.min(nearest[a]), a.max(nearest[a]));
            merges.push((d[keep][gone], keep, gone));
            alive.retain(|c| *c != gone);
            for &c in alive.iter().filter(|c| **c != keep) {
                let mean = (d[keep][c] * size[keep] + d[gone][c] * size[gone]) / (size[keep] + size[gone]);
                d[keep][c] = mean;
                d[c][keep] = mean;
            }
            size[keep] += size[gone];
            for &c in &alive {
                if c == keep || nearest[c] == keep || nearest[c] == gone {
                    nearest[c] = nearest_of(&d, &alive, c);
                }
            }
        }
        Tree { leaves: n, merges }
    }

    /// The partition after the first `merges` merges.
    fn cut(&self, merges: usize) -> Partition {
        let mut group_of: Vec<usize> = (0..self.leaves).collect();
        for (_, keep, gone) in &self.merges[..merges] {
            group_of.iter_mut().filter(|g| **g == *gone).for_each(|g| *g = *keep);
        }
        let mut groups: Partition = vec![Vec::new(); self.leaves];
        for (leaf, group) in group_of.into_iter().enumerate() {
            groups[group].push(leaf);
        }
        groups.retain(|group| !group.is_empty());
        groups
    }
}

fn nearest_of(d: &[Vec<f64>], alive: &[usize], i: usize) -> usize {
    let others = alive.iter().copied().filter(|j| *j != i);
    others.min_by(|a, b| d[i][*a].total_cmp(&d[i][*b])).unwrap_or(i)
}

/// The cuts at which the height grows by `gap`, finest first, by the rules at the top of the file.
fn regular_cuts(tree: &Tree, gap: f64) -> Vec<Partition> {
    let mut cuts: Vec<Partition> = Vec::new();
    for done in 1..tree.merges.len() {
        if tree.merges[done].0 < gap * tree.merges[done - 1].0 {
            continue;
        }
        let groups = tree.cut(done);
        if !is_regular(&groups) {
            continue;
        }
        if cuts.last().is_some_and(|finer| groups.len() as f64 > STEP * finer.len() as f64) {
            cuts.pop();
        }
        cuts.push(groups);
    }
    cuts
}

fn is_regular(groups: &[Vec<usize>]) -> bool {
    let mut sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    match (sizes.last(), sizes.get(sizes.len().saturating_sub(1) / 2)) {
        (Some(largest), Some(median)) => *largest <= LARGEST_OVER_MEDIAN * median,
        _ => false,
    }
}

fn is_smt(latency: &LatencyMatrix, groups: &[Vec<usize>]) -> bool {
    let few = groups.iter().all(|group| group.len() <= 8);
    few && inside(latency, groups).is_some_and(|ns| ns <= SMT_NS)
}

/// The two sockets that show in the groups' distances to third groups (see the top of the file).
/// `None` unless they show clearly and are of about equal size.
fn by_profile(latency: &LatencyMatrix, groups: &[Vec<usize>]) -> Option<Partition> {
    let n = groups.len();
    if n < 4 {
        return None;
    }
    let means: Vec<Vec<f64>> =
        groups.iter().map(|a| groups.iter().map(|b| mean_between(latency, a, b)).collect()).collect();
    let disagreement = |i: usize, j: usize| {
        let thirds = (0..n).filter(|k| *k != i && *k != j);
        thirds.map(|k| (means[i][k] - means[j][k]).abs()).sum::<f64>() / (n - 2) as f64
    };
    let tree = Tree::average_linkage(n, disagreement);
    let last = tree.merges.len() - 1;
    let (height, before) = (tree.merges[last].0, tree.merges[last - 1].0);
    let clear = height >= PROFILE_GAP * before && height >= PROFILE_SHARE * latency.median()?;
    let halves = tree.cut(last);
    let even = halves.iter().all(|half| 3 * half.len() >= n);
    (clear && even).then(|| {
        halves.iter().map(|half| half.iter().flat_map(|g| groups[*g].iter().copied()).collect()).collect()
    })
}

fn mean_between(latency: &LatencyMatrix, a: &[usize], b: &[usize]) -> f64 {
    let total: f64 = a.iter().flat_map(|i| b.iter().map(|j| latency.at(*i, *j))).sum();
    total / (a.len() * b.len()) as f64
}

fn inside(latency: &LatencyMatrix, groups: &[Vec<usize>]) -> Option<f64> {
    let pairs = groups.iter().flat_map(|group| {
        group.iter().enumerate().flat_map(|(at, i)| group[..at].iter().map(|j| latency.at(*i, *j)))
    });
    median(pairs.collect())
}

fn outside(latency: &LatencyMatrix, groups: &[Vec<usize>]) -> Option<f64> {
    let mut all = Vec::new();
    for (at, a) in groups.iter().enumerate() {
        for b in &groups[..at] {
            all.extend(a.iter().flat_map(|i| b.iter().map(|j| latency.at(*i, *j))));
        }
    }
    median(all)
}

fn label(latency: &LatencyMatrix, partitions: Vec<Partition>) -> Vec<Level> {
    let above_smt = partitions.iter().filter(|groups| !is_smt(latency, groups)).count();
    let mut rank = 0;
    let levels = partitions.into_iter().filter_map(|groups| {
        let (inside_ns, outside_ns) = (inside(latency, &groups)?, outside(latency, &groups)?);
        let kind = if is_smt(latency, &groups) {
            LevelKind::Smt
        } else {
            rank += 1;
            let only = above_smt == 1 && looks_like_sockets(&groups, inside_ns);
            if only || rank > 1 { LevelKind::Socket } else { LevelKind::Cache }
        };
        Some(Level { kind, groups: to_cpus(latency, groups), inside_ns, outside_ns })
    });
    levels.collect()
}

/// Whether the single level above SMT is one of sockets: there is no second level to compare with.
/// Cores on one ring, mesh or crossbar of a whole die need 30 ns and more; cores of one L3 group of
/// a chiplet part need 15 to 27. Tiles and clusters are as slow as dies, but small or many.
fn looks_like_sockets(groups: &[Vec<usize>], inside_ns: f64) -> bool {
    inside_ns >= 30.0 && groups.len() <= 8 && groups.iter().all(|group| group.len() >= 4)
}

fn to_cpus(latency: &LatencyMatrix, groups: Partition) -> Vec<Vec<CpuId>> {
    let mut named: Vec<Vec<CpuId>> =
        groups.into_iter().map(|group| group.into_iter().map(|at| latency.cpus()[at]).collect()).collect();
    named.iter_mut().for_each(|group: &mut Vec<CpuId>| group.sort_unstable());
    named.sort();
    named
}
