//! Reading and writing numbers in byte buffers of untrusted content.
//!
//! A page may be corrupt, or may change under an optimistic reader; a log body comes from a file.
//! So every offset that was itself read from the buffer is checked. Bytes that do not fit are
//! [`Garbled`]: a value, not a panic.

use pages::{PAGE_SIZE, Racing};
use std::cmp::Ordering;
use std::ops::Range;

/// A page as bytes.
pub(crate) type Bytes = [u8; PAGE_SIZE];

/// The bytes do not form the expected structure. The caller that knows the page or the record turns
/// this into a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Garbled;

/// The bytes of a page to read: under a latch (`&Bytes`), or while other threads may change them
/// ([`Racing`]). Numbers are little-endian. One that would reach beyond the page is [`Garbled`].
pub(crate) trait Source: Copy {
    /// Aligned word number `i`, modulo the words of a page: never out of bounds.
    fn word(self, i: usize) -> u64;
    fn u8(self, at: usize) -> Result<u8, Garbled>;
    fn u32(self, at: usize) -> Result<u32, Garbled>;
    fn u64(self, at: usize) -> Result<u64, Garbled>;
    /// Prefetches the cache line of the byte at `at`, modulo the bytes of a page.
    fn prefetch(self, at: usize);
}

#[inline]
fn array_at<const N: usize>(bytes: &Bytes, at: usize) -> Result<[u8; N], Garbled> {
    if at > PAGE_SIZE - N {
        return Err(Garbled);
    }
    bytes[at..at + N].try_into().map_err(|_| Garbled)
}

impl Source for &Bytes {
    #[inline]
    fn word(self, i: usize) -> u64 {
        u64::from_le_bytes(self.as_chunks::<8>().0[i % (PAGE_SIZE / 8)])
    }
    #[inline]
    fn u8(self, at: usize) -> Result<u8, Garbled> {
        self.get(at).copied().ok_or(Garbled)
    }
    #[inline]
    fn u32(self, at: usize) -> Result<u32, Garbled> {
        array_at(self, at).map(u32::from_le_bytes)
    }
    #[inline]
    fn u64(self, at: usize) -> Result<u64, Garbled> {
        array_at(self, at).map(u64::from_le_bytes)
    }
    #[inline]
    fn prefetch(self, at: usize) {
        latch::prefetch(&raw const self[at % PAGE_SIZE]);
    }
}

impl Source for Racing<'_> {
    #[inline]
    fn word(self, i: usize) -> u64 {
        Racing::word(self, i)
    }
    #[inline]
    fn u8(self, at: usize) -> Result<u8, Garbled> {
        self.u8_at(at).ok_or(Garbled)
    }
    #[inline]
    fn u32(self, at: usize) -> Result<u32, Garbled> {
        self.u32_at(at).ok_or(Garbled)
    }
    #[inline]
    fn u64(self, at: usize) -> Result<u64, Garbled> {
        self.u64_at(at).ok_or(Garbled)
    }
    #[inline]
    fn prefetch(self, at: usize) {
        Racing::prefetch(self, at);
    }
}

/// Compares the page's `len` bytes at `at` with the slice `with`.
#[inline]
pub(crate) fn order_at(page: impl Source, at: usize, len: usize, with: &[u8]) -> Result<Ordering, Garbled> {
    let (words, rest) = with[..len.min(with.len())].as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let (a, b) = (page.u64(at + 8 * i)?.swap_bytes(), u64::from_be_bytes(*word));
        if a != b {
            return Ok(a.cmp(&b));
        }
    }
    for (i, b) in rest.iter().enumerate() {
        let a = page.u8(at + 8 * words.len() + i)?;
        if a != *b {
            return Ok(a.cmp(b));
        }
    }
    Ok(len.cmp(&with.len()))
}

/// Copies the page's bytes from `at` on into `to`.
#[inline]
pub(crate) fn copy_at(page: impl Source, at: usize, to: &mut [u8]) -> Result<(), Garbled> {
    let (words, rest) = to.as_chunks_mut::<8>();
    for (i, word) in words.iter_mut().enumerate() {
        *word = page.u64(at + 8 * i)?.to_le_bytes();
    }
    for (i, byte) in rest.iter_mut().enumerate() {
        *byte = page.u8(at + 8 * words.len() + i)?;
    }
    Ok(())
}

#[inline]
pub(crate) fn u16_at(bytes: &Bytes, at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) fn u32_at(bytes: &Bytes, at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[inline]
pub(crate) fn put_u16(bytes: &mut Bytes, at: usize, v: usize) {
    debug_assert!(v <= usize::from(u16::MAX));
    bytes[at..at + 2].copy_from_slice(&(v as u16).to_le_bytes());
}

#[inline]
pub(crate) fn put_u32(bytes: &mut Bytes, at: usize, v: u32) {
    bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

/// Reads a log body or a packed image from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], Garbled> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Garbled)?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Garbled> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Garbled)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Garbled> {
        self.array::<1>().map(|[b]| b)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Garbled> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Garbled> {
        self.array().map(u32::from_le_bytes)
    }

    /// A length as `u16`, then that many bytes.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], Garbled> {
        let n = self.u16()?;
        self.take(usize::from(n))
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a length as `u16` and the bytes, in the form that [`Cursor::sized`] reads.
pub(crate) fn push_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() <= usize::from(u16::MAX));
    out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Compares two short byte strings word by word in place: a call of `memcmp` costs as much as the
/// rest of a step down the tree.
#[inline]
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    let (a8, a_tail) = a.as_chunks::<8>();
    let (b8, b_tail) = b.as_chunks::<8>();
    for (x, y) in a8.iter().zip(b8) {
        if x != y {
            return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y));
        }
    }
    if a8.len() == b8.len() {
        return word(a_tail).cmp(&word(b_tail)).then(a.len().cmp(&b.len()));
    }
    // One string ends within the other's next word: the remaining bytes decide, then the length.
    let n = a8.len().min(b8.len()) * 8;
    a[n..].cmp(&b[n..])
}

/// Up to eight bytes as a number with the same order; shorter strings are padded with zeros.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*eight);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let low = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - bytes.len()));
        return u64::from(u32::from_be_bytes(*first)) << 32 | low;
    }
    let n = bytes.len() as u32;
    bytes.iter().fold(0, |word, &b| word << 8 | u64::from(b)).unbounded_shl(8 * (8 - n))
}

/// The range of `a` in which the two byte strings differ: it leaves out their common prefix, and
/// the common suffix of the bytes after it. For strings of equal length the caller knows that they
/// are equal outside `within`, which may reach beyond their ends.
#[inline]
pub(crate) fn difference(a: &[u8], b: &[u8], within: Range<usize>) -> Range<usize> {
    let (mut from, mut tail) = (0, 0);
    if a.len() == b.len() {
        let end = within.end.min(a.len());
        (from, tail) = (within.start.min(end), a.len() - end);
        debug_assert!(a[..from] == b[..from] && a[end..] == b[end..], "a byte changed that was not touched");
    }
    let (x, y) = (&a[from..a.len() - tail], &b[from..b.len() - tail]);
    // Fast path: eight bytes, as when one number was set.
    if let (Ok(x), Ok(y)) = (<&[u8; 8]>::try_from(x), <&[u8; 8]>::try_from(y)) {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        let (alike, behind) = (differ.trailing_zeros() as usize / 8, differ.leading_zeros() as usize / 8);
        return from + alike..from + 8 - behind.min(8 - alike);
    }
    let alike = common_prefix(x, y);
    from += alike;
    tail += common_suffix(&x[alike..], &y[alike..]);
    from..a.len() - tail
}

/// Length of the longest common prefix.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let (a8, a_rest) = a[..n].as_chunks::<8>();
    let (b8, b_rest) = b[..n].as_chunks::<8>();
    for (i, (x, y)) in a8.iter().zip(b8).enumerate() {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return 8 * i + differ.trailing_zeros() as usize / 8;
        }
    }
    8 * a8.len() + a_rest.iter().zip(b_rest).take_while(|(x, y)| x == y).count()
}

/// Length of the longest common suffix.
#[inline]
pub(crate) fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let (a_rest, a8) = a[a.len() - n..].as_rchunks::<8>();
    let (b_rest, b8) = b[b.len() - n..].as_rchunks::<8>();
    for (i, (x, y)) in a8.iter().rev().zip(b8.iter().rev()).enumerate() {
        let differ = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differ != 0 {
            return 8 * i + differ.leading_zeros() as usize / 8;
        }
    }
    8 * a8.len() + a_rest.iter().rev().zip(b_rest.iter().rev()).take_while(|(x, y)| x == y).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    #[test]
    fn order_is_the_order_of_slices() {
        let mut random = Random(1);
        for _ in 0..60_000 {
            // Few distinct bytes, so that prefixes are often common.
            let mut draw = || {
                let n = random.below(20);
                (0..n).map(|_| [0, 1, 255][random.below(3).min(random.below(3))]).collect::<Vec<u8>>()
            };
            let (a, b) = (draw(), draw());
            assert_eq!(order(&a, &b), a.cmp(&b), "{a:?} {b:?}");
            let mut padded = a.clone();
            padded.resize(padded.len().max(8), 0);
            assert_eq!(word(&a).to_be_bytes()[..], padded[..8], "{a:?}");
            let (mut page, at) = ([9; PAGE_SIZE], PAGE_SIZE - a.len());
            page[at..].copy_from_slice(&a);
            assert_eq!(order_at(&page, at, a.len(), &b), Ok(a.cmp(&b)));
            let mut copy = vec![0; a.len()];
            copy_at(&page, at, &mut copy).unwrap();
            assert_eq!(copy, a);
            let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            assert_eq!(common_prefix(&a, &b), common);
            let common = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
            assert_eq!(common_suffix(&a, &b), common);
            let differ = difference(&a, &b, 0..usize::MAX);
            let behind = differ.end + b.len() - a.len();
            assert_eq!((&a[..differ.start], &a[differ.end..]), (&b[..differ.start], &b[behind..]));
            assert!(
                differ.start == common_prefix(&a, &b)
                    && (a == b) == (differ.is_empty() && behind == differ.end)
            );
            if a.len() == b.len() {
                let wider = differ.start.saturating_sub(random.below(3))..differ.end + random.below(3);
                let narrow = difference(&a, &b, wider);
                assert!(narrow == differ || narrow.is_empty() && differ.is_empty());
            }
        }
    }
}
