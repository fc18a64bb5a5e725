//! The sub-trees of a multi-rooted tree by their start keys: the partition table in memory.
//!
//! # Access rules
//!
//! - One thread at a time publishes another table: the one that holds the partition table's first
//!   page exclusively. It also holds the roots that change exclusively.
//! - Every thread may look keys up; it writes nothing. A look-up returns a number, which changes
//!   with each publication and plays the role of a parent's version. A descent takes the sub-tree's
//!   root, then asks whether the number is still the same ([`RootMap::unchanged`]). If so, the root
//!   was the right one at the version at which it was taken.
//!
//! ```text
//!   table:  count | first 8 bytes of start key, root and place of the key | ... | the keys' bytes,
//!                                                                                 8 to a word
//! ```
//!
//! A reader loads the words as relaxed atomics between two loads of the number (a seqlock). Each
//! table is twice as long as the one before; a table that became too small is kept until the map is
//! dropped, so all tables together take at most twice the space of the largest.

use super::node::Probe;
use base::{Key, PageId};
use std::cmp::Ordering as Order;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of the smallest table. 26 doublings hold any partition table; 32 slots, because a power of
/// two gives the mask that bounds the index.
const FIRST: usize = 64;
const TABLES: usize = 32;
/// Bit of the number that is set during a publication. The bits below it are the index of the
/// current table.
const PUBLISHING: u64 = 1 << 7;
const NEXT: u64 = 1 << 8;
/// In an entry's second word: the offset of its key in words, and the key's length in bytes.
const AT_BITS: u32 = 20;
const LEN_BITS: u32 = 12;

type Words = Box<[AtomicU64]>;

/// The sub-trees of a multi-rooted tree, by their start keys.
pub struct RootMap {
    now: AtomicU64,
    tables: [OnceLock<Words>; TABLES],
}

/// A sub-tree's entry: its start key and its root.
pub(crate) type Start = (Key, PageId);

/// A view of a table that may change meanwhile. If the number has changed after the reads, their
/// results must be discarded.
#[derive(Clone, Copy)]
struct View<'m>(&'m [AtomicU64]);

impl View<'_> {
    #[inline]
    fn word(self, i: usize) -> u64 {
        self.0.get(i).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline]
    fn count(self) -> usize {
        (self.word(0) as usize).min(self.0.len() / 2)
    }

    #[inline]
    fn root(self, i: usize) -> PageId {
        PageId((self.word(2 * i + 2) >> (AT_BITS + LEN_BITS)) as u32)
    }

    fn byte(self, entry: u64, n: usize) -> u8 {
        let at = (entry >> LEN_BITS) as usize & ((1 << AT_BITS) - 1);
        self.word(at + n / 8).to_be_bytes()[n % 8]
    }

    fn key(self, i: usize) -> Key {
        let entry = self.word(2 * i + 2);
        let len = entry as usize & ((1 << LEN_BITS) - 1);
        Key::from_bytes(&(0..len).map(|n| self.byte(entry, n)).collect::<Vec<_>>())
    }

    /// Compares start key number `i` with a key of which the first eight bytes are `head`.
    #[inline]
    fn order(self, i: usize, head: u64, key: &[u8]) -> Order {
        self.word(2 * i + 1).cmp(&head).then_with(|| self.order_behind(i, key))
    }

    /// Compares the rest, when the first eight bytes (padded with zeros) are equal.
    fn order_behind(self, i: usize, key: &[u8]) -> Order {
        let entry = self.word(2 * i + 2);
        let len = entry as usize & ((1 << LEN_BITS) - 1);
        let differ = (8..len.min(key.len())).map(|n| self.byte(entry, n).cmp(&key[n])).find(|o| o.is_ne());
        differ.unwrap_or_else(|| len.cmp(&key.len()))
    }

    /// The last sub-tree that begins below `key`, or also at it if `at_too`. If there is none, the
    /// first sub-tree, which begins at the empty key.
    #[inline]
    fn last_from(self, key: &[u8], at_too: AtToo) -> usize {
        let head = head_of(key);
        let (mut last, mut end) = (0, self.count());
        while end - last > 1 {
            let middle = last.midpoint(end);
            let order = self.order(middle, head, key);
            if order == Order::Less || (order == Order::Equal && at_too == AtToo::Yes) {
                last = middle;
            } else {
                end = middle;
            }
        }
        last
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AtToo {
    Yes,
    No,
}

#[inline]
fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut head = [0; 8];
            head[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(head)
        }
    }
}

impl RootMap {
    /// The map of these sub-trees, which are in the order of their start keys; the first start key
    /// is empty.
    pub(crate) fn new(starts: &[Start]) -> RootMap {
        let map = RootMap { now: AtomicU64::new(0), tables: [const { OnceLock::new() }; TABLES] };
        map.publish(starts);
        map
    }

    /// Calls `f` until all its reads were of one table; returns its result and the number.
    #[inline]
    fn look<R>(&self, f: impl Fn(View<'_>) -> R) -> (R, u64) {
        loop {
            let now = self.now.load(Ordering::Acquire);
            if now & PUBLISHING == 0
                && let Some(words) = self.tables[(now % PUBLISHING) as usize % TABLES].get()
            {
                let seen = f(View(words));
                if self.unchanged(now) {
                    return (seen, now);
                }
            }
            std::hint::spin_loop();
        }
    }

    /// The root of the sub-tree that covers the probe, and the number of this look-up.
    #[inline]
    pub(super) fn covering(&self, probe: Probe<'_>) -> (PageId, u64) {
        self.look(|view| view.root(view.last_from(probe.key(), AtToo::Yes)))
    }

    /// The root of the sub-tree that covers the keys just below the probe, and the number.
    pub(super) fn below(&self, probe: Probe<'_>) -> (PageId, u64) {
        self.look(|view| view.root(view.last_from(probe.key(), AtToo::No)))
    }

    pub(super) fn last(&self) -> (PageId, u64) {
        self.look(|view| view.root(view.count().saturating_sub(1)))
    }

    /// The root of the sub-tree after the one with this root (`None` for the last one), and the
    /// number.
    pub(super) fn behind(&self, root: PageId) -> (Option<PageId>, u64) {
        self.look(|view| {
            let at = (0..view.count()).find(|&i| view.root(i) == root)?;
            (at + 1 < view.count()).then(|| view.root(at + 1))
        })
    }

    /// Whether nothing was published since the look-up that returned this number.
    #[inline]
    pub(super) fn unchanged(&self, since: u64) -> bool {
        fence(Ordering::Acquire);
        self.now.load(Ordering::Relaxed) == since
    }

    /// All sub-trees, and the number of this look-up.
    pub(crate) fn starts(&self) -> (Vec<Start>, u64) {
        self.look(|view| (0..view.count()).map(|i| (view.key(i), view.root(i))).collect())
    }

    /// Publishes these sub-trees. At most one thread at a time may call this.
    pub(crate) fn publish(&self, starts: &[Start]) {
        let words = words_of(starts);
        let before = self.now.load(Ordering::Relaxed);
        let table = (0..TABLES).find(|t| FIRST << t >= words.len()).expect("a partition table fits");
        let table = table.max((before % PUBLISHING) as usize);
        let into =
            self.tables[table].get_or_init(|| (0..FIRST << table).map(|_| AtomicU64::new(0)).collect());
        self.now.store(before | PUBLISHING, Ordering::Relaxed);
        fence(Ordering::Release);
        words.iter().zip(into).for_each(|(&word, to)| to.store(word, Ordering::Relaxed));
        self.now.store(before - before % NEXT + NEXT + table as u64, Ordering::Release);
    }
}

/// # Panics
/// When there are more sub-trees than an entry's offset can address: about 350,000.
fn words_of(starts: &[Start]) -> Vec<u64> {
    let mut words = vec![starts.len() as u64];
    let mut at = 1 + 2 * starts.len();
    for (key, root) in starts {
        words.push(head_of(key));
        words.push(u64::from(root.0) << (AT_BITS + LEN_BITS) | (at as u64) << LEN_BITS | key.len() as u64);
        at += key.len().div_ceil(8);
    }
    assert!(at <= 1 << AT_BITS, "a partition table of {} sub-trees takes {at} words", starts.len());
    for (key, _) in starts {
        words.extend(key.chunks(8).map(head_of));
    }
    words
}

impl std::fmt::Debug for RootMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.starts().0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread::scope;

    fn starts(keys: &[&[u8]]) -> Vec<Start> {
        keys.iter().zip(10..).map(|(key, root)| (Key::from_bytes(key), PageId(root))).collect()
    }

    #[test]
    fn keys_are_found_as_in_a_sorted_list() {
        let keys: [&[u8]; 9] = [
            b"",
            b"a",
            b"a\0",
            b"a\0\0\0\0\0\0\0",
            b"a\0\0\0\0\0\0\0\0",
            b"aaaaaaaab",
            b"aaaaaaaabc",
            b"aaaaaaaabd",
            b"b",
        ];
        let map = RootMap::new(&starts(&keys));
        assert_eq!(map.starts().0, starts(&keys));
        let mut probes: Vec<Vec<u8>> = keys.iter().map(|k| k.to_vec()).collect();
        for key in keys {
            probes.push([key, b"\0"].concat());
            probes.push([key, b"zzzzzzzzzz"].concat());
            probes.extend(key.split_last().map(|(_, front)| front.to_vec()));
        }
        for probe in &probes {
            let at = keys.iter().rposition(|k| *k <= &probe[..]).unwrap() as u32;
            assert_eq!(map.covering(Probe::new(probe)).0, PageId(10 + at), "{probe:?}");
            let below = keys.iter().rposition(|k| *k < &probe[..]).unwrap_or(0) as u32;
            assert_eq!(map.below(Probe::new(probe)).0, PageId(10 + below), "{probe:?}");
        }
        assert_eq!((map.last().0, map.behind(PageId(18)).0), (PageId(18), None));
        assert_eq!(map.behind(PageId(12)).0, Some(PageId(13)));
    }

    /// Readers beside a publisher: roots that passed validation are all from one table.
    #[test]
    fn what_is_believed_is_of_one_table() {
        let table = |n: u32| -> Vec<Start> {
            let count = 1 + n % 60;
            (0..count)
                .map(|i| (Key::from_bytes(&vec![i as u8; i as usize % 20]), PageId(n * 64 + i)))
                .collect()
        };
        let (map, done) = (&RootMap::new(&table(0)), &AtomicBool::new(false));
        scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || {
                    let mut seen = 0;
                    while !done.load(Ordering::Relaxed) || seen == 0 {
                        let (starts, number) = map.starts();
                        let n = starts[0].1.0 / 64;
                        assert_eq!(starts, table(n));
                        seen += u32::from(map.unchanged(number));
                    }
                });
            }
            (1..3000).for_each(|n| map.publish(&table(n)));
            done.store(true, Ordering::Relaxed);
        });
    }
}
