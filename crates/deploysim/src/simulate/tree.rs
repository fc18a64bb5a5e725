//! The worker with the least clock: a tournament over all clocks, so that a change costs the
//! logarithm of their number.

/// Clocks by worker. Invariant: each inner node names the winner of its two children; of equal
/// clocks the lower number wins.
pub(crate) struct Tree {
    leaves: usize,
    clocks: Vec<f64>,
    winners: Vec<u32>,
}

impl Tree {
    /// `n` workers at time 0.
    pub fn new(n: usize) -> Tree {
        let leaves = n.next_power_of_two().max(2);
        let mut clocks = vec![f64::INFINITY; leaves];
        clocks[..n].fill(0.0);
        let mut tree = Tree { leaves, clocks, winners: vec![0; leaves] };
        for node in (1..leaves).rev() {
            tree.winners[node] = tree.winner_of(node);
        }
        tree
    }

    fn winner_of(&self, node: usize) -> u32 {
        let child = |at: usize| if at >= self.leaves { (at - self.leaves) as u32 } else { self.winners[at] };
        let (a, b) = (child(2 * node), child(2 * node + 1));
        if self.clocks[b as usize] < self.clocks[a as usize] { b } else { a }
    }

    #[inline]
    pub fn set(&mut self, worker: usize, clock: f64) {
        self.clocks[worker] = clock;
        let mut node = (worker + self.leaves) / 2;
        while node >= 1 {
            self.winners[node] = self.winner_of(node);
            node /= 2;
        }
    }

    /// The worker with the least clock, and that clock.
    #[inline]
    pub fn least(&self) -> (usize, f64) {
        let worker = self.winners[1] as usize;
        (worker, self.clocks[worker])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_any_number_of_clocks_is_found() {
        for n in [1, 2, 3, 7, 8, 100] {
            let mut tree = Tree::new(n);
            let mut random = fastrand::Rng::with_seed(n as u64);
            let mut plain = vec![0.0; n];
            for _ in 0..1_000 {
                let (worker, clock) = (random.usize(0..n), random.f64());
                plain[worker] = clock;
                tree.set(worker, clock);
                let least = plain.iter().copied().fold(f64::INFINITY, f64::min);
                assert_eq!(tree.least().1, least);
                assert_eq!(plain[tree.least().0], least);
            }
        }
    }
}
