//! Searching a node for a key.
//!
//! A search compares the node's prefix once and then slots as numbers, which compares the heads of
//! their keys. It reads a tail only of the keys that have the probe's head. The layout is in
//! [`node`](super::node).

use super::node::{HEAD, MAX_SLOTS, Node, PREFIX, Probe, SLOT, SLOTS, Slot};
use crate::bytes::{Garbled, Source, order_at};
use std::cmp::Ordering;
use std::hint::select_unpredictable;

/// Nodes with fewer slots are searched without a guess.
const GUESS_FROM: usize = 32;
/// The distance from a guess within which the search continues, in slots: one cache line on either
/// side.
const GUESS_REACH: usize = 8;

impl<S: Source> Node<S> {
    /// The first eight bytes of the prefix, as a number with the same order.
    #[inline]
    fn prefix_word(self) -> u64 {
        self.0.word(PREFIX / 8).swap_bytes()
    }

    /// Whether the probe begins with the node's prefix. `false` may be wrong (for a long prefix);
    /// then the caller compares in full.
    #[inline(always)]
    fn begins_alike(self, probe: Probe<'_>, skip: usize) -> bool {
        let differ = self.prefix_word() ^ probe.first;
        skip <= probe.key.len().min(8) && differ.unbounded_shr(64 - 8 * skip as u32) == 0
    }

    /// The probe's position (`Ok`) or its insert position (`Err`), as in the standard library's
    /// binary search.
    #[inline]
    pub(crate) fn search(self, probe: Probe<'_>) -> Result<Result<usize, usize>, Garbled> {
        let count = self.count();
        if count == 0 {
            return Ok(Err(0));
        }
        if count > MAX_SLOTS {
            return Err(Garbled);
        }
        let skip = self.skip();
        if !self.begins_alike(probe, skip) {
            match self.against_prefix(probe, skip)? {
                Ordering::Less => return Ok(Err(0)),
                Ordering::Greater => return Ok(Err(count)),
                Ordering::Equal => {}
            }
        }
        let head = probe.head(skip);
        let from = self.lower_bound(count, u64::from(head) << 32);
        if from == count {
            return Ok(Err(count));
        }
        let slot = Slot(self.raw(from));
        if slot.head() != head {
            return Ok(Err(from));
        }
        // Most keys end within the head; then the first key with this head is the only one.
        let rest = probe.key.len() - skip;
        if slot.key_len() == rest && rest <= HEAD {
            return Ok(Ok(from));
        }
        self.search_run(count, probe, skip, from)
    }

    /// Searches among the keys with the probe's head, of which `from` is the first. They are in the
    /// order of their tails; keys that end within the head are in the order of their lengths.
    #[inline(never)]
    fn search_run(
        self,
        count: usize,
        probe: Probe<'_>,
        skip: usize,
        mut from: usize,
    ) -> Result<Result<usize, usize>, Garbled> {
        let head = probe.head(skip);
        let mut to = from + 1;
        if to < count && Slot(self.raw(to)).head() == head {
            to = match head.checked_add(1) {
                Some(next) => self.lower_bound(count, u64::from(next) << 32),
                None => count,
            };
        }
        let rest = probe.key.len() - skip;
        let end = probe.key.get(skip + HEAD..).unwrap_or_default();
        while from < to {
            let mid = from.midpoint(to);
            let slot = Slot(self.raw(mid));
            let tails = order_at(self.0, slot.offset(), slot.tail_len(), end)?;
            match tails.then(slot.key_len().cmp(&rest)) {
                Ordering::Less => from = mid + 1,
                Ordering::Equal => return Ok(Ok(mid)),
                Ordering::Greater => to = mid,
            }
        }
        Ok(Err(from))
    }

    /// The position of the first key at or after `probe`.
    pub(crate) fn at_or_behind(self, probe: Probe<'_>) -> Result<usize, Garbled> {
        self.search(probe).map(|found| found.unwrap_or_else(|at| at))
    }

    /// The position of the first key after `probe`; in an inner node, also the ordinal of the child
    /// that covers the probe.
    #[inline]
    pub(crate) fn behind(self, probe: Probe<'_>) -> Result<usize, Garbled> {
        self.search(probe).map(|found| match found {
            Ok(at) => at + 1,
            Err(at) => at,
        })
    }

    /// Offset of the last slot, which a search with a guess reads first.
    #[inline]
    pub(super) fn last_slot_at(self) -> usize {
        SLOTS + SLOT * self.count().saturating_sub(1)
    }

    /// Offset of the slot that a search for `probe` guesses.
    #[inline]
    pub(super) fn guess_at(self, probe: Probe<'_>) -> usize {
        let count = self.count();
        if count < GUESS_FROM {
            return SLOTS;
        }
        let bound = u64::from(probe.head(self.skip())) << 32;
        let (first, last) = (self.raw(0), self.raw(count - 1));
        let (offset, span) = (bound.saturating_sub(first) >> 32, (last.saturating_sub(first) >> 32).max(1));
        SLOTS + SLOT * (offset.saturating_mul(count as u64 - 1) / span).min(count as u64 - 1) as usize
    }

    /// The first slot at or above `bound`.
    ///
    /// Where keys are spread evenly, as counters are, the position of a key can be computed
    /// (interpolation search). So a guess is tried first. An exact guess ends the search; a guess
    /// that is nearly right saves most of the cache misses; a wrong guess still narrows the range.
    #[inline]
    fn lower_bound(self, count: usize, bound: u64) -> usize {
        if count < GUESS_FROM {
            return self.bisect(0, count, bound);
        }
        let (first, last) = (self.raw(0), self.raw(count - 1));
        if bound <= first {
            return 0;
        }
        if bound > last {
            return count;
        }
        // Heads are 32 bits and a page has fewer than 2^13 slots, so nothing overflows. In a
        // malformed page the last slot may be below the first.
        let (offset, span) = ((bound - first) >> 32, (last.saturating_sub(first) >> 32).max(1));
        let guess = (offset * (count as u64 - 1) / span).min(count as u64 - 2) as usize;
        self.ask_behind(Slot(first), guess);
        let (here, next) = (self.raw(guess), self.raw(guess + 1));
        if here < bound && bound <= next {
            return guess + 1;
        }
        if bound <= here && (guess == 0 || self.raw(guess - 1) < bound) {
            return guess;
        }
        let low = guess.saturating_sub(GUESS_REACH);
        let high = (guess + GUESS_REACH).min(count - 1);
        match (self.raw(low) < bound, self.raw(high) < bound) {
            (true, false) => self.bisect(low, high, bound),
            (true, true) => self.bisect(high, count, bound),
            (false, _) => self.bisect(0, low, bound),
        }
    }

    /// Prefetches the content of slot `i` while the slot itself is still being loaded. The address
    /// is computed: entries of equal length that were inserted in key order lie one below the
    /// other, from the first one down.
    #[inline]
    fn ask_behind(self, first: Slot, i: usize) {
        let len = first.tail_len() + first.value_len();
        self.0.prefetch(first.offset().wrapping_sub(i * len));
    }

    /// The first slot at or above `bound`, from `from` to before `to`. A binary search without a
    /// branch that depends on the data.
    #[inline(never)]
    fn bisect(self, from: usize, to: usize, bound: u64) -> usize {
        let (mut base, mut len) = (from, to - from);
        while len > 1 {
            let half = len / 2;
            let below = self.raw(base + half - 1) < bound;
            base = select_unpredictable(below, base + half, base);
            len -= half;
        }
        base + usize::from(len > 0 && self.raw(base) < bound)
    }
}
