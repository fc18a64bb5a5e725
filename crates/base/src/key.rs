//! Order-preserving keys: comparing two encoded keys as bytes gives the order of their values.
//!
//! An unsigned integer is its big-endian bytes; a signed one has its sign bit flipped first. A
//! string is its bytes with every 0x00 written as 0x00 0xff, ended by 0x00 0x00. So no string is a
//! prefix of another key's bytes, and `("a", "b")` sorts before `("ab", "")`.

use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// An encoded key. Up to 32 bytes are stored in place; longer ones allocate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Key(SmallVec<[u8; PLACE]>);

/// The length in bytes up to which a key needs no allocation.
const PLACE: usize = 32;

impl Key {
    #[inline]
    pub fn new() -> Key {
        Key(SmallVec::new())
    }

    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Key {
        Key(SmallVec::from_slice(bytes))
    }

    #[must_use]
    #[inline]
    pub fn u32(mut self, v: u32) -> Key {
        self.0.extend_from_slice(&v.to_be_bytes());
        self
    }

    #[must_use]
    #[inline]
    pub fn u64(mut self, v: u64) -> Key {
        let bytes = v.to_be_bytes();
        if self.0.is_empty() {
            // Most keys are one number: this path spares them the call that makes room for it.
            let mut place = [0; PLACE];
            place[..8].copy_from_slice(&bytes);
            return Key(SmallVec::from_buf_and_len(place, 8));
        }
        self.0.extend_from_slice(&bytes);
        self
    }

    #[must_use]
    #[inline]
    pub fn i64(self, v: i64) -> Key {
        self.u64((v as u64) ^ (1 << 63))
    }

    /// The key of several numbers: the same as repeated [`Key::i64`], in one pass.
    #[inline]
    pub fn of_i64s<const N: usize>(numbers: [impl Into<i64> + Copy; N]) -> Key {
        if 8 * N > PLACE {
            return numbers.into_iter().fold(Key::new(), |key, v| key.i64(v.into()));
        }
        let mut place = [0; PLACE];
        let parts = place.as_chunks_mut::<8>().0;
        for i in 0..N {
            let v: i64 = numbers[i].into();
            parts[i] = ((v as u64) ^ (1 << 63)).to_be_bytes();
        }
        Key(SmallVec::from_buf_and_len(place, 8 * N))
    }

    #[must_use]
    pub fn bytes(mut self, v: &[u8]) -> Key {
        let zeros = v.iter().filter(|byte| **byte == 0).count();
        let mut at = self.0.len();
        if at + v.len() + zeros + 2 <= PLACE {
            // Most keys are short: calls that make room for few bytes each would take far longer.
            let mut place = [0; PLACE];
            place[..at].copy_from_slice(&self.0);
            for &byte in v {
                place[at] = byte;
                at += 1;
                if byte == 0 {
                    place[at] = 0xff;
                    at += 1;
                }
            }
            return Key(SmallVec::from_buf_and_len(place, at + 2));
        }
        if zeros > 0 {
            for part in v.split_inclusive(|b| *b == 0) {
                self.0.extend_from_slice(part);
                if part.ends_with(&[0]) {
                    self.0.push(0xff);
                }
            }
        } else {
            self.0.extend_from_slice(v);
        }
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    #[must_use]
    pub fn str(self, v: &str) -> Key {
        self.bytes(v.as_bytes())
    }

    /// Appends a part of another key, encoded as it is there.
    #[must_use]
    #[inline]
    pub fn encoded(mut self, part: &[u8]) -> Key {
        self.0.extend_from_slice(part);
        self
    }

    /// Appends to `out` the bytes that [`Key::i64`] would append, for a key that is built outside
    /// [`Key`].
    #[inline]
    pub fn put_i64(out: &mut Vec<u8>, v: i64) {
        out.extend_from_slice(&((v as u64) ^ (1 << 63)).to_be_bytes());
    }

    /// As [`Key::put_i64`], for [`Key::bytes`].
    pub fn put_bytes(out: &mut Vec<u8>, v: &[u8]) {
        out.extend_from_slice(&Key::new().bytes(v));
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// The smallest key greater than every key that starts with this one; `None` if there is none.
    pub fn prefix_end(&self) -> Option<Key> {
        let mut end = self.clone();
        while let Some(last) = end.0.last_mut() {
            if *last < 0xff {
                *last += 1;
                return Some(end);
            }
            end.0.pop();
        }
        None
    }
}

impl AsRef<[u8]> for Key {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Deref for Key {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(")?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        write!(f, ")")
    }
}

/// Decodes an encoded key, in the order in which it was built. Every method returns `None` on bytes
/// that do not fit.
#[derive(Clone, Debug)]
pub struct KeyReader<'a>(&'a [u8]);

impl<'a> KeyReader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        KeyReader(bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.u64().map(|v| (v ^ (1 << 63)) as i64)
    }

    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            match self.take::<1>()? {
                [0] => match self.take::<1>()? {
                    [0] => return Some(out),
                    [0xff] => out.push(0),
                    _ => return None,
                },
                [b] => out.push(b),
            }
        }
    }

    /// As [`KeyReader::bytes`], without returning the bytes.
    pub fn skip_bytes(&mut self) -> Option<()> {
        loop {
            let zero = self.0.iter().position(|b| *b == 0)?;
            self.0 = &self.0[zero + 1..];
            match self.take::<1>()? {
                [0] => return Some(()),
                [0xff] => {}
                _ => return None,
            }
        }
    }

    /// The number at the end of the key; the bytes before it are not looked at.
    pub fn last_i64(bytes: &[u8]) -> Option<i64> {
        KeyReader(bytes.last_chunk::<8>()?).i64()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// A fast, well-mixed 64-bit hash of a key. It is not keyed: a collision costs speed or a false
/// lock conflict, never correctness.
#[inline]
pub fn hash64(bytes: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |a: u64, b: u64| {
        let p = u128::from(a) * u128::from(b);
        (p as u64) ^ ((p >> 64) as u64)
    };
    let mut h = K ^ bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for c in &mut chunks {
        h = fold(h ^ u64::from_le_bytes(c.try_into().expect("eight bytes")), K | 1);
    }
    let mut tail = [0u8; 8];
    let rest = chunks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    fold(h ^ u64::from_le_bytes(tail), 0xd6e8_feb8_6659_fd93)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_bytes_is_order_of_values() {
        let ints = [i64::MIN, -5, -1, 0, 1, 7, i64::MAX];
        let strs = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "b"];
        let all: Vec<_> = ints.iter().flat_map(|&i| strs.map(|s| (i, s))).collect();
        for a in &all {
            for b in &all {
                let (ka, kb) = (Key::new().i64(a.0).str(a.1), Key::new().i64(b.0).str(b.1));
                assert_eq!(a.cmp(b), ka.cmp(&kb), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn numbers_together_are_as_one_after_the_other() {
        fn check<const N: usize>() {
            let numbers: [i64; N] = std::array::from_fn(|i| [i64::MIN, -1, 0, 77, i64::MAX][i % 5]);
            let one_by_one = numbers.into_iter().fold(Key::new(), Key::i64);
            assert_eq!(Key::of_i64s(numbers), one_by_one);
        }
        check::<0>();
        check::<1>();
        check::<4>();
        check::<5>();
    }

    #[test]
    fn reads_back_what_was_written() {
        let k = Key::new().u32(7).i64(-3).str("x\0y").u64(9);
        let mut r = KeyReader::new(&k);
        assert_eq!((r.u32(), r.i64()), (Some(7), Some(-3)));
        let mut skipping = r.clone();
        assert_eq!(r.bytes().as_deref(), Some(&b"x\0y"[..]));
        assert!(skipping.skip_bytes().is_some() && skipping.rest() == r.rest());
        assert!(
            KeyReader::new(b"x\0y").skip_bytes().is_none() && KeyReader::new(b"x").skip_bytes().is_none()
        );
        assert_eq!(r.u64(), Some(9));
        assert!(r.is_empty() && r.u32().is_none());
    }

    #[test]
    fn prefix_end_bounds_the_prefix() {
        let k = Key::from_bytes(&[1, 0xff]);
        assert_eq!(k.prefix_end().unwrap().as_slice(), &[2]);
        assert!(Key::from_bytes(&[0xff, 0xff]).prefix_end().is_none());
    }
}
