//! The context that is furthest behind, found by a tournament: the winner of two contexts is the
//! one with the earlier time, and of equal times the one with the lower number. A change of one
//! time replays the matches on its way to the root only.

/// Times of contexts; infinite for those that have nothing to run.
#[derive(Clone, Debug)]
pub struct Earliest {
    times: Vec<f64>,
    /// The winner below each inner node; node 1 is the root, nodes 2 n and 2 n + 1 are below n.
    winners: Vec<u32>,
}

impl Earliest {
    pub fn new(contexts: usize) -> Earliest {
        let leaves = contexts.max(2).next_power_of_two();
        let mut earliest = Earliest { times: vec![f64::INFINITY; leaves], winners: vec![0; leaves] };
        (0..leaves).step_by(2).for_each(|context| earliest.set(context, f64::INFINITY));
        earliest
    }

    #[inline]
    pub fn set(&mut self, context: usize, time: f64) {
        self.times[context] = time;
        let leaves = self.times.len();
        let mut node = (leaves + context) / 2;
        let (left, right) = (context & !1, context | 1);
        let mut winner = if self.times[right] < self.times[left] { right } else { left };
        self.winners[node] = winner as u32;
        while node > 1 {
            let other = self.winners[node ^ 1] as usize;
            let (left, right) = if node & 1 == 0 { (winner, other) } else { (other, winner) };
            winner = if self.times[right] < self.times[left] { right } else { left };
            node /= 2;
            self.winners[node] = winner as u32;
        }
    }

    /// `None` where all times are infinite.
    #[inline]
    pub fn first(&self) -> Option<usize> {
        let winner = self.winners[1] as usize;
        (self.times[winner] < f64::INFINITY).then_some(winner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_search_over_all() {
        let mut random = fastrand::Rng::with_seed(5);
        for contexts in [1usize, 2, 3, 8, 16, 31, 128] {
            let (mut earliest, mut times) = (Earliest::new(contexts), vec![f64::INFINITY; contexts]);
            assert_eq!(earliest.first(), None);
            for _ in 0..2000 {
                let context = random.usize(0..contexts);
                let time = if random.u32(0..4) == 0 { f64::INFINITY } else { f64::from(random.u32(0..20)) };
                times[context] = time;
                earliest.set(context, time);
                let found = times.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
                let expected = found.filter(|(_, time)| time.is_finite()).map(|(context, _)| context);
                assert_eq!(earliest.first(), expected, "{contexts} contexts");
            }
        }
    }
}
