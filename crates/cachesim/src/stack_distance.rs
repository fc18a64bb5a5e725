//! Stack distances: how many other lines were used since a line was used last. A fully associative
//! LRU cache of n lines misses exactly where the distance is n or more (Mattson et al., 1970), so
//! one pass gives the misses of all sizes.
//!
//! The line used at time t is a 1 at position t of a Fenwick tree; the distance is the number of
//! ones behind the line's last use. When the positions are used up, the lines move together.

use crate::hash::LineMap;

#[derive(Clone, Debug)]
pub struct StackDistance {
    /// Sums of ones, with position p at index p + 1.
    tree: Vec<u32>,
    last: LineMap<u32>,
    now: u32,
}

/// The fewest positions of a tree.
const SMALLEST: usize = 1 << 12;

impl Default for StackDistance {
    fn default() -> Self {
        StackDistance { tree: vec![0; SMALLEST + 1], last: LineMap::default(), now: 0 }
    }
}

impl StackDistance {
    /// Uses a line: the number of other lines used since its last use; `None` the first time.
    pub fn access(&mut self, line: u64) -> Option<u32> {
        if self.now as usize + 1 == self.tree.len() {
            self.compact();
        }
        let now = self.now;
        self.now += 1;
        let before = self.last.insert(line, now);
        let distance = before.map(|before| {
            if before + 1 == now {
                return 0;
            }
            let behind = self.sum(now) - self.sum(before + 1);
            self.add(before, u32::MAX);
            behind
        });
        match before {
            // Nothing was used in between: the line keeps its place.
            Some(before) if before + 1 == now => {
                self.now -= 1;
                self.last.insert(line, before);
            }
            _ => self.add(now, 1),
        }
        distance
    }

    /// The number of lines seen.
    pub fn lines(&self) -> usize {
        self.last.len()
    }

    /// The ones in front of a position.
    fn sum(&self, position: u32) -> u32 {
        let (mut at, mut sum) = (position as usize, 0u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    fn add(&mut self, position: u32, n: u32) {
        let mut at = position as usize + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(n);
            at += at & at.wrapping_neg();
        }
    }

    /// Gives the lines the first positions, in the order of their last use.
    fn compact(&mut self) {
        let mut lines: Vec<(u32, u64)> = self.last.iter().map(|(line, at)| (*at, *line)).collect();
        lines.sort_unstable();
        self.tree = vec![0; (lines.len() * 4).max(SMALLEST) + 1];
        self.now = 0;
        for (_, line) in lines {
            self.last.insert(line, self.now);
            self.add(self.now, 1);
            self.now += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::SetCache;

    /// The distances give the misses of a fully associative cache, for any accesses.
    #[test]
    fn as_a_fully_associative_cache() {
        for seed in 0..12 {
            let mut random = fastrand::Rng::with_seed(seed);
            let span = 1 + random.u64(0..400);
            let ways = 1 + random.usize(0..128);
            let (mut distances, mut cache) = (StackDistance::default(), SetCache::new(1, ways));
            for _ in 0..20_000 {
                let line = random.u64(0..span).min(random.u64(0..span));
                let hit = distances.access(line).is_some_and(|d| (d as usize) < ways);
                assert_eq!(hit, cache.access(line, 0).is_hit(), "seed {seed}, {ways} ways");
            }
        }
    }

    #[test]
    fn a_loop_has_its_length() {
        let mut distances = StackDistance::default();
        for round in 0..400 {
            for line in 0..1000 {
                assert_eq!(distances.access(line), (round > 0).then_some(999));
            }
        }
        assert_eq!(distances.access(999), Some(0));
    }
}
