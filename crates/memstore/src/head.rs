//! Keys as numbers: the first ten bytes behind what all keys of a node share, so that a search compares words of the node
//! and follows a pointer only for keys that agree in all of them.
//!
//! A head is eight bytes, big-endian, padded with zeros; a mark is the next two, and how many bytes there were: 0 to 10, or
//! 11 for more. Comparing (head, mark) compares the keys, unless both are equal and the mark says that there is more.

use std::sync::atomic::{AtomicU64, Ordering};

/// A mark of this many bits, or less.
pub(crate) const MARK_BITS: u32 = 20;
const LONG: u64 = 11;

#[inline]
pub(crate) fn head(key: &[u8], skip: usize) -> (u64, u64) {
    let rest = key.get(skip..).unwrap_or_default();
    let (first, more) = match rest.split_first_chunk::<8>() {
        Some((first, more)) => (u64::from_be_bytes(*first), more),
        None => (padded(rest), &[][..]),
    };
    let byte = |i: usize| u64::from(more.get(i).copied().unwrap_or(0));
    (first, (byte(0) << 8 | byte(1)) << 4 | (rest.len() as u64).min(LONG))
}

/// Whether equal heads and equal marks, one of which is this, leave the order of the keys open.
#[inline]
pub(crate) fn is_open(mark: u64) -> bool {
    mark & 15 == LONG
}

/// Up to eight bytes as a number that sorts as they do.
#[inline]
pub(crate) fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(word)
}

pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Writes a key as big-endian words; nobody else writes them.
#[inline]
pub(crate) fn store_key(words: &[AtomicU64], key: &[u8]) {
    for (word, bytes) in words.iter().zip(key.chunks(8)) {
        word.store(padded(bytes), Ordering::Relaxed);
    }
}

/// Compares a stored key of `len` bytes with another.
#[inline]
pub(crate) fn compare_key(words: &[AtomicU64], len: usize, key: &[u8]) -> std::cmp::Ordering {
    for (word, bytes) in words.iter().zip(key.chunks(8)) {
        let order = word.load(Ordering::Relaxed).cmp(&padded(bytes));
        if order.is_ne() {
            return order;
        }
    }
    len.cmp(&key.len())
}

/// Appends a stored key of `len` bytes to `out`.
#[inline]
pub(crate) fn load_key(words: &[AtomicU64], len: usize, out: &mut Vec<u8>) {
    let end = out.len() + len;
    for word in words {
        out.extend_from_slice(&word.load(Ordering::Relaxed).to_be_bytes());
    }
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_key(random: &mut fastrand::Rng) -> Vec<u8> {
        let bytes = [0u8, 0, 1, 255];
        (0..random.usize(0..20)).map(|_| bytes[random.usize(0..4)]).collect()
    }

    #[test]
    fn heads_sort_as_keys_do() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let (mut a, mut b) = (random_key(&mut random), random_key(&mut random));
            if random.bool() {
                b.splice(0..0, a.iter().copied());
            }
            let shared = common_prefix(&a, &b);
            let skip = random.usize(0..=shared);
            let (ha, hb) = (head(&a, skip), head(&b, skip));
            if ha != hb || !is_open(ha.1) {
                assert_eq!(ha.cmp(&hb), a.cmp(&b), "{a:?} {b:?} {skip}");
            }
            a.truncate(9);
            b.truncate(9);
            assert_eq!(head(&a, 0).cmp(&head(&b, 0)), a.cmp(&b));
        }
    }

    #[test]
    fn stored_keys_compare_and_read_as_bytes() {
        let mut random = fastrand::Rng::with_seed(8);
        for _ in 0..5_000 {
            let (a, b) = (random_key(&mut random), random_key(&mut random));
            let words: Vec<AtomicU64> = (0..a.len().div_ceil(8)).map(|_| AtomicU64::new(0)).collect();
            store_key(&words, &a);
            assert_eq!(compare_key(&words, a.len(), &b), a.cmp(&b), "{a:?} {b:?}");
            let mut out = vec![9];
            load_key(&words, a.len(), &mut out);
            assert_eq!(out[1..], a);
        }
    }
}
