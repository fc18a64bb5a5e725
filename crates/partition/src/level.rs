//! New borders that even the load out: the thesis' Algorithm 3, and the additions by which the last
//! partition comes out even too.
//!
//! ```text
//!   partition i                 partition i + 1
//!   | 9 | 11 | 10 | 12 |        | 80 | 75 | 60 | 12 |
//!                      <--- leftmost sub-bucket moves left while i has too little;
//!                           split in two if it is too much
//! ```
//!
//! From left to right each partition but the last takes sub-buckets from its right neighbour, or
//! gives some to it, until its load is within its ideal load plus or minus a tolerance. Three
//! things differ from the printed algorithm:
//!
//! 1. The printed algorithm updates the load of partition i alone. Here sub-buckets change sides,
//!    so the next round sees them.
//! 2. The printed algorithm stops as soon as a partition is just inside the tolerance. So 63
//!    partitions that each stop at 90 % leave 7.3 times its share to the 64th, and as no later run
//!    looks at the last one, that stays. [`Drift::Carried`] gives partition i the excess or
//!    shortfall of those before it, within half the tolerance. Then every border is off by half a
//!    tolerance at most, and every partition, the last too, by a whole one. [`Drift::Left`] is the
//!    printed rule.
//! 3. A sub-bucket of one key cannot be split. It goes to the side where the load is nearer to the
//!    ideal, and the difference is shared out over all partitions to the right. Each partition
//!    keeps at least one key.

use crate::histogram::PartitionLoad;
use std::collections::VecDeque;

/// The treatment of the difference between a partition's load and its ideal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drift {
    /// It ends up in the last partition: Algorithm 3 as printed.
    Left,
    /// The next partition makes up for it.
    Carried,
}

/// Work on a run of keys, in the unit that the caller levels.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Piece {
    pub start: u64,
    pub end: u64,
    pub work: f64,
}

impl Piece {
    fn keys(&self) -> u64 {
        self.end - self.start
    }

    /// Two halves of the keys, each with its share of the work; `None` for a single key.
    fn halves(self) -> Option<(Piece, Piece)> {
        let middle = self.start + self.keys() / 2;
        let lower = self.work * ((middle - self.start) as f64 / self.keys() as f64);
        let halves = (
            Piece { end: middle, work: lower, ..self },
            Piece { start: middle, work: self.work - lower, ..self },
        );
        (middle > self.start).then_some(halves)
    }
}

/// The sub-buckets of a partition, in key order.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Group {
    pub pieces: VecDeque<Piece>,
}

impl Group {
    pub fn work(&self) -> f64 {
        self.pieces.iter().map(|p| p.work).sum()
    }
    pub fn keys(&self) -> u64 {
        self.pieces.iter().map(Piece::keys).sum()
    }
    /// First key; `None` if it has none.
    pub fn start(&self) -> Option<u64> {
        self.pieces.front().map(|p| p.start)
    }

    fn split_front(&mut self) -> bool {
        let halves = self.pieces.front().and_then(|p| p.halves());
        let Some((lower, upper)) = halves else { return false };
        self.pieces[0] = upper;
        self.pieces.push_front(lower);
        true
    }

    fn split_back(&mut self) -> bool {
        let halves = self.pieces.back().and_then(|p| p.halves());
        let Some((lower, upper)) = halves else { return false };
        self.pieces.pop_back();
        self.pieces.extend([lower, upper]);
        true
    }
}

/// Each partition's sub-buckets with their share of the partition's work. Work is requests if any
/// were counted, since requests differ in length, else accesses. Work without a counted access is
/// spread evenly over the keys.
pub fn work(loads: &[PartitionLoad]) -> Vec<Group> {
    let counted = loads.iter().any(|l| l.requests > 0);
    loads.iter().map(|l| group(l, counted)).collect()
}

fn group(load: &PartitionLoad, by_requests: bool) -> Group {
    let accesses = load.load() as f64;
    let total = if by_requests { load.requests as f64 } else { accesses };
    let start = load.subs.first().map_or(load.end, |s| s.start);
    let ends = load.subs.iter().skip(1).map(|s| s.start).chain([load.end]);
    let piece = |(sub, end): (&crate::SubLoad, u64)| {
        let share = if accesses > 0.0 {
            sub.load as f64 / accesses
        } else {
            (end - sub.start) as f64 / (load.end - start) as f64
        };
        Piece { start: sub.start, end, work: total * share }
    };
    Group { pieces: load.subs.iter().zip(ends).map(piece).collect() }
}

/// The thesis' ideal access loads, `Q_ideal * L_i / Q_i` (section 4.4.2): the access load at which
/// a partition's request load would be the mean. They sum up to the given loads only where requests
/// cost the same everywhere, and a partition without a request has none. So [`work`] turns accesses
/// into work first, and then every ideal is the mean. This function is for comparison.
pub fn thesis_ideals(loads: &[PartitionLoad]) -> Vec<f64> {
    let mean = loads.iter().map(|l| l.requests as f64).sum::<f64>() / loads.len() as f64;
    loads.iter().map(|l| mean * l.load() as f64 / (l.requests as f64).max(1.0)).collect()
}

/// The result of levelling.
#[derive(Clone, PartialEq, Debug)]
pub struct Levelled {
    pub groups: Vec<Group>,
    /// Sub-buckets that were split in two.
    pub splits: usize,
    /// Partitions that miss their ideal because of single keys, or of too few keys.
    pub stuck: usize,
}

/// Moves borders until the work of group i is `ideals[i]` plus or minus `tolerance` (in units of
/// work), as far as the keys allow.
///
/// # Panics
/// If the number of ideals is not the number of groups.
pub fn level(groups: Vec<Group>, ideals: &[f64], tolerance: f64, drift: Drift) -> Levelled {
    assert_eq!(groups.len(), ideals.len(), "one ideal for each partition");
    let mut run = Levelled { groups, splits: 0, stuck: 0 };
    let (mut carry, mut scale) = (0.0, 1.0);
    for i in 0..run.groups.len().saturating_sub(1) {
        let half = if drift == Drift::Carried { tolerance / 2.0 } else { tolerance };
        let ideal = ideals[i] * scale;
        let window = Window { low: ideal + carry - half, high: ideal + carry + half };
        let reached = run.fill(i, window) && run.shed(i, window);
        run.stuck += usize::from(!reached);
        if drift == Drift::Carried && reached {
            carry += ideal - run.groups[i].work();
        } else if drift == Drift::Carried {
            let right: f64 = run.groups[i + 1..].iter().map(Group::work).sum();
            scale = right / ideals[i + 1..].iter().sum::<f64>().max(f64::MIN_POSITIVE);
            carry = 0.0;
        }
    }
    run
}

#[derive(Clone, Copy)]
struct Window {
    low: f64,
    high: f64,
}

impl Window {
    /// Whether `a` is nearer to the middle than `b`.
    fn nearer(&self, a: f64, b: f64) -> bool {
        let middle = f64::midpoint(self.low, self.high);
        (a - middle).abs() < (b - middle).abs()
    }
}

impl Levelled {
    /// Group i takes leftmost sub-buckets from its right; whether it has enough afterwards.
    fn fill(&mut self, i: usize, window: Window) -> bool {
        let needed = (self.groups.len() - 1 - i) as u64;
        let mut right: u64 = self.groups[i + 1..].iter().map(Group::keys).sum();
        loop {
            let have = self.groups[i].work();
            let holds_a_key = !self.groups[i].pieces.is_empty();
            if have >= window.low && holds_a_key {
                return true;
            }
            let Some(from) = self.groups[i + 1..].iter().position(|g| !g.pieces.is_empty()) else {
                return false;
            };
            let from = &mut self.groups[i + 1 + from];
            let piece = from.pieces[0];
            let too_much = have + piece.work > window.high || right < needed + piece.keys();
            if too_much && from.split_front() {
                self.splits += 1;
                continue;
            }
            let barred = right < needed + piece.keys();
            let useless = holds_a_key && too_much && !window.nearer(have + piece.work, have);
            if barred || useless {
                return false;
            }
            from.pieces.pop_front();
            right -= piece.keys();
            self.groups[i].pieces.push_back(piece);
            if too_much {
                return have + piece.work <= window.high;
            }
        }
    }

    /// Group i gives rightmost sub-buckets to its right neighbour; whether it has little enough
    /// afterwards.
    fn shed(&mut self, i: usize, window: Window) -> bool {
        loop {
            let group = &mut self.groups[i];
            let have = group.work();
            if have <= window.high {
                return true;
            }
            let Some(&piece) = group.pieces.back() else { return true };
            let too_much = have - piece.work < window.low || group.pieces.len() == 1;
            if too_much && group.split_back() {
                self.splits += 1;
                continue;
            }
            if group.pieces.len() == 1 || too_much && !window.nearer(have - piece.work, have) {
                return false;
            }
            group.pieces.pop_back();
            self.groups[i + 1].pieces.push_front(piece);
            if too_much {
                return have - piece.work >= window.low;
            }
        }
    }

    /// Largest work over the mean; 1 if there is no work.
    pub fn imbalance(&self) -> f64 {
        imbalance(self.groups.iter().map(Group::work))
    }

    /// First key of each partition; `None` if one has no key.
    pub fn starts(&self) -> Option<Vec<u64>> {
        self.groups.iter().map(Group::start).collect()
    }
}

/// The largest over the mean; 1 if there is no work.
pub fn imbalance(work: impl Iterator<Item = f64> + Clone) -> f64 {
    let (sum, count) = work.clone().fold((0.0, 0.0), |(s, n), w| (s + w, n + 1.0));
    if sum <= 0.0 { 1.0 } else { work.fold(0.0, f64::max) * count / sum }
}

/// The same sub-buckets in `count` groups. The busiest group is cut where its work is halved, or
/// the pair of neighbours with the least work together is joined. `None` if there are fewer keys
/// than `count`, or `count` is 0.
pub fn regroup(mut groups: Vec<Group>, count: usize) -> Option<Vec<Group>> {
    if count == 0 || count as u64 > groups.iter().map(Group::keys).sum() {
        return None;
    }
    while groups.len() > count {
        let pair = |i: &usize| groups[*i].work() + groups[i + 1].work();
        let left = (0..groups.len() - 1).min_by(|a, b| pair(a).total_cmp(&pair(b)))?;
        let right = groups.remove(left + 1);
        groups[left].pieces.extend(right.pieces);
    }
    while groups.len() < count {
        let divisible = (0..groups.len()).filter(|&i| groups[i].keys() > 1);
        let busiest = divisible.max_by(|&a, &b| groups[a].work().total_cmp(&groups[b].work()))?;
        let upper = upper_half(&mut groups[busiest]);
        groups.insert(busiest + 1, upper);
    }
    Some(groups)
}

/// Cuts a group of two keys or more near half its work, and returns the upper half.
fn upper_half(group: &mut Group) -> Group {
    let half = group.work() / 2.0;
    let mut upper = Group::default();
    let mut moved = 0.0;
    loop {
        let last = group.pieces[group.pieces.len() - 1];
        let fits = group.pieces.len() > 1 && moved + last.work <= half;
        if !fits && last.keys() > 1 && (upper.pieces.is_empty() || last.work > half / 8.0) {
            group.split_back();
        } else if fits || upper.pieces.is_empty() {
            moved += last.work;
            upper.pieces.extend(group.pieces.pop_back());
        } else {
            break;
        }
    }
    upper.pieces.make_contiguous().reverse();
    upper
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{QueueLength, SubLoad};

    /// Partitions of `width` keys per sub-bucket with these loads.
    fn groups(width: u64, loads: &[&[u64]]) -> Vec<Group> {
        let mut start = 0;
        let mut group = |loads: &&[u64]| {
            let sub = |&load: &u64| {
                start += width;
                Piece { start: start - width, end: start, work: load as f64 }
            };
            Group { pieces: loads.iter().map(sub).collect() }
        };
        loads.iter().map(&mut group).collect()
    }

    fn run(groups: Vec<Group>, tolerance: f64, drift: Drift) -> Levelled {
        let mean = groups.iter().map(Group::work).sum::<f64>() / groups.len() as f64;
        let ideals = vec![mean; groups.len()];
        level(groups, &ideals, tolerance * mean, drift)
    }

    fn loads(run: &Levelled) -> Vec<f64> {
        run.groups.iter().map(Group::work).collect()
    }

    #[test]
    fn both_sides_of_a_border_are_updated() {
        let run = run(groups(12, &[&[10, 10], &[30, 30], &[10, 30]]), 0.0, Drift::Left);
        assert_eq!(loads(&run), [40.0, 40.0, 40.0]);
        // Two thirds of the first 30 moved left. If partition 1 did not count that, it would give
        // 20 of its 60 away again.
        assert_eq!(run.starts(), Some(vec![0, 32, 48]));
        assert!(run.splits > 0);
    }

    #[test]
    fn a_sub_bucket_that_overshoots_is_halved_and_there_is_one_more() {
        let before = groups(8, &[&[10, 10], &[20, 20]]);
        let run = run(before, 0.1, Drift::Left);
        assert_eq!((run.splits, loads(&run)), (1, vec![30.0, 30.0]));
        let upper: Vec<Piece> = run.groups[1].pieces.iter().copied().collect();
        assert_eq!(upper[0], Piece { start: 20, end: 24, work: 10.0 });
        assert_eq!(run.starts(), Some(vec![0, 20]));
    }

    #[test]
    fn figure_4_6_the_hot_partition_becomes_narrow() {
        let run = run(groups(10, &[&[4, 6, 10, 20], &[60, 70, 60, 50], &[10, 6, 2, 2]]), 0.1, Drift::Carried);
        let widths: Vec<u64> = run.groups.iter().map(Group::keys).collect();
        assert!(run.imbalance() <= 1.1, "{:?}", loads(&run));
        assert!(widths[1] < 20 && widths[0] > 40 && widths[2] > 40, "{widths:?}");
    }

    #[test]
    fn algorithm_3_as_printed_leaves_its_errors_to_the_last_partition() {
        // A rising load, so that every partition but the last has to fill up from its right.
        let rising: Vec<Vec<u64>> = (0..64).map(|i| vec![100 + 10 * i; 32]).collect();
        let rising = groups(64, &rising.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let printed = run(rising.clone(), 0.1, Drift::Left);
        let last = printed.groups[63].work() / (loads(&printed).iter().sum::<f64>() / 64.0);
        assert!(last > 5.0, "{last}");
        let again = run(printed.groups.clone(), 0.1, Drift::Left);
        assert_eq!(again.starts(), printed.starts(), "and no later run mends it");
        let carried = run(rising, 0.1, Drift::Carried);
        assert!(carried.imbalance() <= 1.1, "{}", carried.imbalance());
    }

    #[test]
    fn one_key_with_half_of_the_work_gets_a_partition_and_the_others_stay_even() {
        let mut hot = groups(1, &[&[1; 100], &[1; 100], &[1; 100], &[1; 100]]);
        hot[1].pieces[50].work = 400.0;
        let run = run(hot, 0.1, Drift::Carried);
        let mut found = loads(&run);
        found.sort_by(f64::total_cmp);
        assert!(found[3] >= 400.0 && found[3] < 410.0, "{found:?}");
        assert!(found[0] > 100.0, "{found:?}");
        assert!(run.stuck > 0);
    }

    #[test]
    fn each_partition_keeps_a_key() {
        for hot in 0..4 {
            let mut few = groups(1, &[&[0], &[0], &[0], &[0]]);
            few[hot].pieces[0].work = 10.0;
            for drift in [Drift::Left, Drift::Carried] {
                assert_eq!(run(few.clone(), 0.1, drift).starts(), Some(vec![0, 1, 2, 3]));
            }
        }
    }

    fn told(loads: &[(u64, u64)]) -> Vec<PartitionLoad> {
        let of = |(i, &(requests, load)): (usize, &(u64, u64))| {
            let start = i as u64 * 100;
            let subs = (0..4).map(|s| SubLoad { start: start + s * 25, load: load / 4 }).collect();
            PartitionLoad { end: start + 100, requests, queue: QueueLength(0), subs }
        };
        loads.iter().enumerate().map(of).collect()
    }

    #[test]
    fn ideals_are_those_of_section_4_4_2() {
        assert_eq!(thesis_ideals(&told(&[(10, 400), (30, 600)])), [800.0, 400.0]);
    }

    #[test]
    fn requests_that_cost_more_weigh_more() {
        // Equal accesses everywhere, but those of the first partition are three times the work.
        let loads = told(&[(300, 1000), (100, 1000), (100, 1000), (100, 1000)]);
        let even = run(work(&loads), 0.1, Drift::Carried);
        assert!(even.imbalance() <= 1.1);
        assert!(even.groups[0].keys() < 60);
        // By the thesis' ideals partition 1 should take 50 % more accesses, although they come from
        // the costly side.
        let accesses: Vec<PartitionLoad> =
            loads.iter().cloned().map(|l| PartitionLoad { requests: 0, ..l }).collect();
        let thesis = level(work(&accesses), &thesis_ideals(&loads), 15.0, Drift::Left);
        let dear: f64 =
            thesis.groups[1].pieces.iter().map(|p| if p.end <= 100 { 3.0 } else { 1.0 } * p.work).sum();
        assert!(dear > 1900.0, "{dear}: a mean of 1500 was meant");
    }

    #[test]
    fn work_without_an_access_is_spread_over_the_keys() {
        let groups = work(&told(&[(40, 0), (40, 400)]));
        assert!(groups.iter().all(|g| g.pieces.iter().all(|p| p.work == 10.0)));
    }

    #[test]
    fn regrouping_cuts_the_busiest_and_joins_the_idle() {
        let five = groups(8, &[&[1, 1], &[1, 1], &[40, 40], &[9, 9]]);
        let cut = regroup(five.clone(), 6).unwrap();
        let widths: Vec<u64> = cut.iter().map(Group::keys).collect();
        assert_eq!(widths.iter().sum::<u64>(), 64);
        assert_eq!(widths, [16, 16, 8, 4, 4, 16]);
        let joined = regroup(five.clone(), 2).unwrap();
        assert_eq!(joined.iter().map(Group::work).collect::<Vec<_>>(), [84.0, 18.0]);
        assert!(regroup(five.clone(), 65).is_none() && regroup(five.clone(), 0).is_none());
        let single = regroup(five, 64).unwrap();
        assert!(single.iter().all(|g| g.keys() == 1));
    }
}
