//! Keys as numbers: the first ten bytes behind the common prefix of a node's keys. A search
//! compares words of the node, and follows a pointer only for keys that agree in all ten bytes.
//!
//! A head is the first eight bytes, big-endian, padded with zeros. A mark is the next two bytes,
//! and the number of bytes: 0 to 10, or 11 for more. Comparing (head, mark) compares the keys,
//! unless both pairs are equal and the mark says that there are more bytes.

use std::sync::atomic::{AtomicU64, Ordering};

/// A mark has at most this many bits.
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
    (first, mark(byte(0) << 8 | byte(1), rest.len()))
}

#[inline]
fn mark(bytes: u64, len: usize) -> u64 {
    bytes << 4 | (len as u64).min(LONG)
}

/// The first bytes of a key as words, padded with zeros: as many as a prefix and the head behind it
/// can cover.
#[derive(Clone, Copy)]
pub(crate) struct Beginning {
    words: [u64; REACH],
    len: usize,
}

/// A prefix of [`MAX_PREFIX`] bytes, ten bytes of head and mark, and one more word, so that no
/// access needs a bounds check.
const REACH: usize = 6;
/// The longest prefix that nodes leave out, bytes.
pub(crate) const MAX_PREFIX: usize = 24;
const _: () = assert!(MAX_PREFIX.is_multiple_of(8) && (MAX_PREFIX + 10).div_ceil(8) < REACH);

impl Beginning {
    #[inline]
    pub(crate) fn new(key: &[u8]) -> Beginning {
        let mut words = [0; REACH];
        let (whole, rest) = key.as_chunks::<8>();
        for (word, bytes) in words.iter_mut().zip(whole) {
            *word = u64::from_be_bytes(*bytes);
        }
        if let Some(word) = words.get_mut(whole.len()) {
            *word = padded(rest);
        }
        Beginning { words, len: key.len() }
    }

    /// As [`head`], for a node with a prefix of `skip` bytes.
    #[inline]
    pub(crate) fn head(&self, skip: usize) -> (u64, u64) {
        let (at, shift) = (skip.min(MAX_PREFIX) / 8, skip % 8 * 8);
        let [a, b, c] = [self.words[at], self.words[at + 1], self.words[at + 2]];
        // In two steps, since a shift by all 64 bits is not allowed.
        let joined = |high: u64, low: u64| high << shift | low >> 1 >> (63 - shift);
        (joined(a, b), mark(joined(b, c) >> 48, self.len.saturating_sub(skip)))
    }

    /// Whether the key begins with the first `len` bytes of these words, without a branch per byte.
    #[inline]
    pub(crate) fn begins_with(&self, prefix: [u64; MAX_PREFIX / 8], len: usize) -> bool {
        let mut differ = 0;
        for (i, part) in prefix.into_iter().enumerate() {
            let bits = 8 * (len.saturating_sub(8 * i) as u32);
            differ |= (self.words[i] ^ part) & !u64::MAX.checked_shr(bits).unwrap_or(0);
        }
        differ == 0 && self.len >= len
    }

    /// Compares the key with a prefix of `len` bytes, given as words: equal if the key begins with
    /// it.
    pub(crate) fn compare(&self, prefix: impl Iterator<Item = u64>, len: usize) -> std::cmp::Ordering {
        let mut left = len;
        for (word, part) in self.words.iter().zip(prefix) {
            let masked = if left < 8 { word & !(u64::MAX >> (8 * left)) } else { *word };
            if masked != part {
                return masked.cmp(&part);
            }
            left = left.saturating_sub(8);
        }
        // A key that is shorter sorts before a longer one, even if the longer one goes on with
        // zeros.
        if self.len < len { std::cmp::Ordering::Less } else { std::cmp::Ordering::Equal }
    }
}

/// Whether two keys with equal heads and with this mark in common may still differ.
#[inline]
pub(crate) fn is_open(mark: u64) -> bool {
    mark & 15 == LONG
}

/// Up to eight bytes as a number that sorts as they do. Without a loop, and without a call to copy
/// a few bytes.
#[inline]
pub(crate) fn padded(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    if let Some(all) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*all);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        // The two halves overlap, and agree where they do.
        let [first, last] = [first, last].map(|half| u64::from(u32::from_be_bytes(*half)));
        return first << 32 | last << (8 * (8 - n));
    }
    bytes.iter().zip([56, 48, 40]).fold(0, |word, (byte, shift)| word | u64::from(*byte) << shift)
}

pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Writes a key as big-endian words. No other thread writes them.
#[inline]
pub(crate) fn store_key(words: &[AtomicU64], key: &[u8]) {
    let (whole, rest) = key.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_be_bytes(*bytes), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        words[whole.len()].store(padded(rest), Ordering::Relaxed);
    }
}

/// Compares a stored key of `len` bytes with another one.
#[inline]
pub(crate) fn compare_key(words: &[AtomicU64], len: usize, key: &[u8]) -> std::cmp::Ordering {
    let (whole, rest) = key.as_chunks::<8>();
    let last = (!rest.is_empty()).then(|| padded(rest));
    let parts = whole.iter().map(|bytes| u64::from_be_bytes(*bytes)).chain(last);
    for (word, part) in words.iter().zip(parts) {
        let order = word.load(Ordering::Relaxed).cmp(&part);
        if order.is_ne() {
            return order;
        }
    }
    len.cmp(&key.len())
}

/// Appends a stored key of `len` bytes to `out`.
#[inline]
pub(crate) fn load_key(words: &[AtomicU64], len: usize, out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + 8 * words.len(), 0);
    for (to, word) in out[begin..].as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.load(Ordering::Relaxed).to_be_bytes();
    }
    out.truncate(begin + len);
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
    fn a_beginning_is_as_good_as_the_key() {
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..40_000 {
            let long = random.usize(0..4);
            let mut key: Vec<u8> = (0..long).flat_map(|_| random_key(&mut random)).collect();
            let beginning = Beginning::new(&key);
            let skip = random.usize(0..=MAX_PREFIX.min(key.len()));
            assert_eq!(beginning.head(skip), head(&key, skip), "{key:?} {skip}");
            let whole = key.clone();
            if random.bool() {
                key.extend_from_slice(&random_key(&mut random));
            }
            if let Some(at) = (!key.is_empty()).then(|| random.usize(..key.len())) {
                key[at] = if random.bool() { key[at] } else { random.u8(..) };
            }
            let prefix = &key[..random.usize(0..=MAX_PREFIX.min(key.len()))];
            let words = prefix.chunks(8).map(padded);
            let expected = whole[..whole.len().min(prefix.len())].cmp(prefix);
            assert_eq!(beginning.compare(words.clone(), prefix.len()), expected, "{whole:?} {prefix:?}");
            // The bytes behind the prefix in its words have no meaning.
            let mut all = [random.u64(..); MAX_PREFIX / 8];
            for (i, (word, part)) in all.iter_mut().zip(words).enumerate() {
                let rest = u64::MAX.checked_shr(8 * (prefix.len() - 8 * i) as u32).unwrap_or(0);
                *word = part | *word & rest;
            }
            assert_eq!(beginning.begins_with(all, prefix.len()), expected.is_eq(), "{whole:?} {prefix:?}");
        }
    }

    #[test]
    fn up_to_eight_bytes_are_a_number() {
        for n in 0..=8 {
            let bytes: Vec<u8> = (1..=n).collect();
            let expected = bytes.iter().chain(&[0; 8]).take(8).fold(0, |word, b| word << 8 | u64::from(*b));
            assert_eq!(padded(&bytes), expected);
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
