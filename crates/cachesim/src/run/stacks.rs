//! Stacks of transactions in flight. Each one has a stack of its own, with the variables of its
//! thread above, and the next transaction in its place of the pool goes on with the same stack, as
//! the next one of a thread does. The trace has the stack of the worker that ran the transaction;
//! pages keep their distance from the place where the transaction began.
//!
//! The L1-D is indexed by the offset in a page, so equal depths of two stacks meet in one set, as
//! on hardware. The last level is indexed by physical addresses: each page has a frame of its own,
//! spread over the sets.

/// Lines of a page of 4 KB.
const PAGE: u64 = 64;
/// Pages of a stack, and some more: 2 MB below the place where a transaction began and 64 KB above.
const PAGES: u64 = 1024;
/// The first frame's first line, above all lines of a trace.
const FIRST: u64 = 1 << 46;

/// The pages of a transaction's stack.
#[derive(Clone, Copy, Debug)]
pub struct Stack {
    /// The lines of the worker's stack in the trace.
    first: u64,
    last: u64,
    /// The first page of the stack in the pool.
    page: u64,
}

impl Stack {
    /// The worker's lines, as the trace has them, and the transaction's place in the pool.
    pub fn new((first, last): (u64, u64), slot: u64) -> Stack {
        Stack { first, last, page: slot * PAGES }
    }

    #[inline]
    pub fn holds(&self, line: u64) -> bool {
        line >= self.first && line <= self.last
    }

    /// The place of one of its lines in memory.
    #[inline]
    pub fn line(&self, line: u64) -> u64 {
        let page = self.page + (line / PAGE - self.first / PAGE);
        FIRST + u64::from(frame(page as u32)) * PAGE + line % PAGE
    }
}

/// The frame of a page: each step can be undone, so no two pages have the same one (the mixing
/// function "lowbias32" by C. Wellons).
#[inline]
fn frame(page: u32) -> u32 {
    let page = (page ^ page >> 16).wrapping_mul(0x7feb_352d);
    let page = (page ^ page >> 15).wrapping_mul(0x846c_a68b);
    page ^ page >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two workers' stacks are one in one place of the pool, and two in two places.
    #[test]
    fn a_place_of_the_pool_has_one_stack() {
        let lines = |stack: u64| (stack - 32_768, stack + 1024);
        let (one, other) = (1 << 33, (1 << 33) + (9 << 15));
        let of = |stack: u64, slot| Stack::new(lines(stack), slot);
        for depth in 0..32_768 {
            assert!(of(one, 3).holds(one - depth));
            assert_eq!(of(one, 3).line(one - depth), of(other, 3).line(other - depth));
            assert_ne!(of(one, 3).line(one - depth), of(one, 4).line(one - depth));
            assert_eq!(of(one, 3).line(one - depth) % PAGE, (one - depth) % PAGE);
        }
        assert!(!of(one, 3).holds(one + 1025) && !of(one, 3).holds(one - 32_769));
    }

    /// The same line of many stacks meets few others in a set of the last level.
    #[test]
    fn stacks_are_spread_over_the_last_level() {
        let sets = 16_384;
        let mut in_set = vec![0u32; sets];
        for slot in 0..160 {
            for depth in 0..400 {
                let stack = Stack::new(((1 << 33) - 32_768, (1 << 33) + 1024), slot);
                in_set[stack.line((1 << 33) - depth) as usize % sets] += 1;
            }
        }
        let most = in_set.iter().max().copied();
        assert!(most <= Some(16), "{most:?} lines of 64,000 in one of {sets} sets");
    }
}
