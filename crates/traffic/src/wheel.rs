//! Very many timers: a hierarchical timing wheel (Varghese and Lauck, SOSP 1987, scheme 7).
//!
//! ```text
//!   level 0: 64 slots of one tick   level 1: 64 slots of 64 ticks  ...  level 4: of 64^4 ticks
//!   slot -> entry -> entry -> entry     a list threaded through one array: 16 bytes per entry,
//!                                       no allocation
//! ```
//!
//! A timer lies at the level of the highest digit (base 64) in which its tick differs from the
//! current one. It moves down a level whenever time enters its slot: at most four times. A bit per
//! slot says whether the slot holds a timer, so empty ticks cost nothing.

/// 2^20 ns, about a millisecond; pauses last seconds.
pub const TICK_NS: u64 = 1 << 20;
const BITS: u32 = 6;
const SLOTS: u64 = 1 << BITS;
const LEVELS: usize = 5;
/// The farthest that a timer can lie ahead, in ticks: some 13 days.
const HORIZON: u64 = 1 << (BITS * LEVELS as u32);
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at_tick: u64,
    next: u32,
}

/// Timers by number. Each is armed at most once at a time.
#[derive(Clone, Debug)]
pub struct Wheel {
    entries: Vec<Entry>,
    heads: [[u32; SLOTS as usize]; LEVELS],
    occupied: [u64; LEVELS],
    /// Every timer before this tick has fired; the timers of this tick are at level 0.
    tick: u64,
    armed: usize,
}

impl Wheel {
    /// A wheel of `timers` timers, none armed.
    pub fn new(timers: u32, now_ns: u64) -> Wheel {
        Wheel {
            entries: vec![Entry { at_tick: 0, next: NONE }; timers as usize],
            heads: [[NONE; SLOTS as usize]; LEVELS],
            occupied: [0; LEVELS],
            tick: now_ns / TICK_NS,
            armed: 0,
        }
    }

    pub fn armed(&self) -> usize {
        self.armed
    }

    /// Arms `timer`, which must not be armed, to fire at the first tick that is not before `at_ns`;
    /// returns that moment.
    pub fn arm(&mut self, timer: u32, at_ns: u64) -> u64 {
        let at_tick =
            at_ns.div_ceil(TICK_NS).clamp(self.tick, self.tick + HORIZON - SLOTS.pow(LEVELS as u32 - 1));
        self.entries[timer as usize].at_tick = at_tick;
        self.armed += 1;
        self.put(timer);
        at_tick * TICK_NS
    }

    fn put(&mut self, timer: u32) {
        let at = self.entries[timer as usize].at_tick;
        let differs = at ^ self.tick;
        let level = if differs == 0 { 0 } else { ((63 - differs.leading_zeros()) / BITS) as usize };
        // Beyond the top level's range the slots repeat; the horizon keeps them apart.
        let level = level.min(LEVELS - 1);
        let slot = (at >> (BITS * level as u32)) & (SLOTS - 1);
        self.entries[timer as usize].next = self.heads[level][slot as usize];
        self.heads[level][slot as usize] = timer;
        self.occupied[level] |= 1 << slot;
    }

    fn take_list(&mut self, level: usize, slot: u64) -> u32 {
        self.occupied[level] &= !(1 << slot);
        std::mem::replace(&mut self.heads[level][slot as usize], NONE)
    }

    /// Fires the timers that are due, earliest first: `fire` gets the timer and the moment it was
    /// armed for.
    pub fn advance(&mut self, now_ns: u64, mut fire: impl FnMut(u32, u64)) {
        let until = now_ns / TICK_NS;
        while self.tick <= until {
            if self.armed == 0 {
                self.tick = until + 1;
                return;
            }
            let here = self.tick & (SLOTS - 1);
            let ahead = self.occupied[0] >> here;
            if ahead == 0 {
                let boundary = self.boundary();
                self.tick = boundary.min(until + 1);
                if self.tick == boundary {
                    self.cascade();
                }
                continue;
            }
            let next = self.tick + u64::from(ahead.trailing_zeros());
            if next > until {
                self.tick = until + 1;
                return;
            }
            self.tick = next;
            let mut timer = self.take_list(0, next & (SLOTS - 1));
            while timer != NONE {
                let entry = self.entries[timer as usize];
                self.armed -= 1;
                fire(timer, entry.at_tick * TICK_NS);
                timer = entry.next;
            }
            self.tick = next + 1;
            if self.tick & (SLOTS - 1) == 0 {
                self.cascade();
            }
        }
    }

    /// The next tick at which a timer can move down: level 0 is empty from the current tick on.
    fn boundary(&self) -> u64 {
        let mut level = 1;
        while level < LEVELS - 1 {
            let digit = (self.tick >> (BITS * level as u32)) & (SLOTS - 1);
            if self.occupied[level] & !(u64::MAX >> (SLOTS - 1 - digit)) != 0 {
                break;
            }
            level += 1;
        }
        ((self.tick >> (BITS * level as u32)) + 1) << (BITS * level as u32)
    }

    /// Time has entered a new slot of level 1, and perhaps of higher levels: the timers in these
    /// slots move down.
    fn cascade(&mut self) {
        let mut top = 1;
        while top < LEVELS - 1 && (self.tick >> (BITS * top as u32)) & (SLOTS - 1) == 0 {
            top += 1;
        }
        for level in (1..=top).rev() {
            let slot = (self.tick >> (BITS * level as u32)) & (SLOTS - 1);
            let mut timer = self.take_list(level, slot);
            while timer != NONE {
                let next = self.entries[timer as usize].next;
                self.put(timer);
                timer = next;
            }
        }
    }

    /// A moment before which no timer fires; `None` when none is armed.
    pub fn next_ns(&self) -> Option<u64> {
        if self.armed == 0 {
            return None;
        }
        let here = self.tick & (SLOTS - 1);
        let ahead = self.occupied[0] >> here;
        let tick = match ahead {
            0 => self.boundary(),
            _ => self.tick + u64::from(ahead.trailing_zeros()),
        };
        Some(tick * TICK_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;
    use std::collections::BTreeMap;

    /// Compared with a sorted map, over random arms and steps of very different lengths.
    #[test]
    fn it_fires_what_a_sorted_map_would() {
        for seed in 0..40 {
            let mut random = Rng::with_seed(seed);
            let mut now = random.u64(0..1 << 50);
            let mut wheel = Wheel::new(200, now);
            let mut model: BTreeMap<(u64, u32), ()> = BTreeMap::new();
            let mut idle: Vec<u32> = (0..200).collect();
            for _ in 0..2_000 {
                for _ in 0..random.usize(0..4) {
                    if let Some(timer) = idle.pop() {
                        let bits = random.u32(1..48);
                        let at = now + random.u64(0..1 << bits);
                        model.insert((wheel.arm(timer, at), timer), ());
                    }
                }
                let bits = random.u32(1..46);
                now += random.u64(0..1 << bits);
                let mut fired = Vec::new();
                wheel.advance(now, |timer, at| fired.push((at, timer)));
                assert!(fired.is_sorted_by_key(|f| f.0), "seed {seed}: {fired:?}");
                fired.sort_unstable();
                let due: Vec<(u64, u32)> = model.keys().copied().take_while(|(at, _)| *at <= now).collect();
                assert_eq!(fired, due, "seed {seed}");
                due.iter().for_each(|d| _ = model.remove(d));
                idle.extend(due.iter().map(|d| d.1));
                assert_eq!(wheel.armed(), model.len());
                match (wheel.next_ns(), model.keys().next()) {
                    (Some(next), Some((at, _))) => assert!(next <= *at && next > now, "seed {seed}"),
                    (next, first) => assert!(next.is_none() && first.is_none()),
                }
            }
        }
    }

    #[test]
    fn a_timer_never_fires_early_and_at_most_a_tick_late() {
        let mut wheel = Wheel::new(1, 7);
        for at in [7, TICK_NS + 1, 5 * TICK_NS, 99 * TICK_NS, 5_000 * TICK_NS - 1] {
            let set = wheel.arm(0, at);
            assert!(set >= at && set < at + TICK_NS);
            let mut fired = None;
            wheel.advance(set - 1, |_, at| fired = Some(at));
            assert_eq!(fired, None);
            wheel.advance(set, |_, at| fired = Some(at));
            assert_eq!(fired, Some(set));
        }
    }

    #[test]
    fn a_timer_takes_sixteen_bytes() {
        assert_eq!(size_of::<Entry>(), 16);
    }
}
