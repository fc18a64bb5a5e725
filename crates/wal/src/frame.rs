//! The layout of a record in the log: a *frame*.
//!
//! ```text
//!  0 length u32   4 check u32   8 lsn u64   16 behind u32   20 kind u8
//! 21 flags u8     22 unused u16
//! 24 txn u64     32 previous u64   [undo_next u64, compensation records only]
//!    [depends_on u64, if it is not 0]   body   zeros to 8 bytes
//! ```
//!
//! - `length` counts the whole frame without the padding; frames start at multiples of 8.
//! - `check` is the CRC-32C of all bytes from 20 on, mixed with length, lsn, behind and the *life*
//!   of the log. A life is a random number per opening, stored in the segment's header. So bytes of
//!   an earlier life or of another place in the log never pass for a record, even if the device
//!   kept them.
//! - `behind` is the distance from the end of the log on the device, at the time of the append, to
//!   the start of the record. It tells damage from a torn tail: if a frame fails its check and a
//!   later frame shows that the first one was on the device, the first one was damaged. Otherwise
//!   it belongs to the torn tail.
//!
//! Two further kinds of frames hold no record. They take 16 bytes, and their `length` has bit 31
//! set:
//!
//! - a *pad* (bit 30 clear) is followed by bytes without meaning, `length` bytes in all;
//! - a *mark* (bit 30 set) states that one thread reserved `length` bytes from the mark on.
//!
//! All integers are little-endian.

use base::{Lsn, TxnId, copy_short, crc32c};

/// Bit of [`RecordHeader::flags`]: a compensation record. It is redone, never undone, and has an
/// `undo_next`.
pub const CLR: u8 = 1;

/// Bit of the stored flags: the frame has a `depends_on`.
const DEPENDS: u8 = 2;

const FIXED: usize = 40;
/// Bytes of a frame that holds no record.
pub(crate) const HEAD: usize = 16;
const FILLER: u32 = 1 << 31;
const MARK: u32 = 1 << 30;
/// Stands in for the checksum of the bytes in the check of a pad or mark.
const FILLER_SUM: u32 = 0x5eed_f111;
/// First byte of the part of a frame that is checksummed before its place in the log is known.
const SUMMED_FROM: usize = 20;

/// The fields of a record that the log itself reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHeader {
    /// Kind of the record, numbered by the writer.
    pub kind: u8,
    /// Bit 0 is [`CLR`].
    pub flags: u8,
    /// The transaction; 0 for records of the system.
    pub txn: TxnId,
    /// The same transaction's previous record, 0 for its first.
    pub prev: Lsn,
    /// In a compensation record, the next record to undo; else not stored, 0.
    pub undo_next: Lsn,
    /// The position up to which the log must have survived for this record to count; 0 if that is
    /// at or before the record in any case. The log sets it
    /// ([`LogOrder::Dependent`](crate::LogOrder::Dependent)).
    pub depends_on: Lsn,
}

impl RecordHeader {
    pub fn is_clr(&self) -> bool {
        self.flags & CLR != 0
    }
}

/// Place of a record: bytes `start..end` of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: Lsn,
    pub end: Lsn,
    /// Once the log is durable up to here, no crash loses the record: its end or the position that
    /// it depends on, whichever is larger.
    pub holds: Lsn,
}

impl Span {
    pub(crate) fn new(start: u64, end: u64, depends_on: Lsn) -> Span {
        Span { start: Lsn(start), end: Lsn(end), holds: Lsn(end).max(depends_on) }
    }
}

/// Bytes that a frame takes in the log, padding included.
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(8)
}

/// Multiplies and folds: each bit of `a` and `b` affects each bit of the result.
#[inline]
fn mix(a: u64, b: u64) -> u32 {
    let p = u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xd6e8_feb8_6659_fd93);
    let folded = (p as u64) ^ ((p >> 64) as u64);
    (folded as u32) ^ ((folded >> 32) as u32)
}

#[inline]
fn check(sum: u32, length: u32, lsn: u64, behind: u32, life: u64) -> u32 {
    sum ^ mix(lsn ^ life, (u64::from(length) << 32 | u64::from(behind)) ^ life.rotate_left(32))
}

/// The life of a log in memory. Its frames carry no checksum of their bytes, which would be half
/// the cost of an append: memory has no failures that a checksum would find. The check still covers
/// their place.
pub(crate) const IN_MEMORY: u64 = 0;

fn sum(frame: &[u8], length: usize, life: u64) -> u32 {
    if life == IN_MEMORY { 0 } else { crc32c(&frame[SUMMED_FROM..length]) }
}

/// Builds the frame in `out`, except the fields that depend on its place in the log. Returns the
/// sum for [`seal`].
#[inline]
pub(crate) fn build(out: &mut Vec<u8>, header: &RecordHeader, body: &[&[u8]], life: u64) -> u32 {
    out.clear();
    let mut fixed = [0u8; FIXED];
    fixed[20] = header.kind;
    fixed[21] = header.flags | if header.depends_on == Lsn(0) { 0 } else { DEPENDS };
    fixed[24..32].copy_from_slice(&header.txn.0.to_le_bytes());
    fixed[32..40].copy_from_slice(&header.prev.0.to_le_bytes());
    out.extend_from_slice(&fixed);
    if header.is_clr() {
        out.extend_from_slice(&header.undo_next.0.to_le_bytes());
    }
    if header.depends_on != Lsn(0) {
        out.extend_from_slice(&header.depends_on.0.to_le_bytes());
    }
    for part in body {
        out.extend_from_slice(part);
    }
    let length = out.len();
    out[..4].copy_from_slice(&(length as u32).to_le_bytes());
    let sum = sum(out, length, life);
    // Does the same as `resize`, without its call of `memset` for a few bytes.
    out.extend_from_slice(&[0; 8]);
    out.truncate(padded(length));
    sum
}

/// A record that is no compensation record, depends on nothing and carries no checksum. These
/// fields and its place determine its frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plain<'a> {
    pub kind: u8,
    pub txn: TxnId,
    pub prev: Lsn,
    pub body: &'a [&'a [u8]],
    /// Length of the frame without the padding.
    pub length: usize,
}

impl<'a> Plain<'a> {
    #[inline]
    pub fn new(kind: u8, txn: TxnId, prev: Lsn, body: &'a [&'a [u8]]) -> Plain<'a> {
        let mut length = FIXED;
        for part in body {
            length += part.len();
        }
        Plain { kind, txn, prev, body, length }
    }

    /// Builds the frame in `to`, its place in the ring, which has the frame's padded length. The
    /// frame is not built in a buffer and copied: a copy reads large pieces of bytes just written
    /// in small pieces, and such a read waits until all these writes have reached the cache.
    #[inline]
    pub fn lay(&self, to: &mut [u8], lsn: u64, behind: u64, life: u64) {
        let (length, behind) = (self.length as u32, u32::try_from(behind).unwrap_or(u32::MAX));
        let check = check(0, length, lsn, behind, life);
        let words = [
            u64::from(length) | u64::from(check) << 32,
            lsn,
            u64::from(behind) | u64::from(self.kind) << 32,
            self.txn.0,
            self.prev.0,
        ];
        // The padding first: the body overwrites its own part of the same word.
        if let Some(last) = to.last_chunk_mut::<8>() {
            *last = [0; 8];
        }
        let (fixed, mut rest) = to.split_at_mut(FIXED);
        if let [a, b, c, d, e] = fixed.as_chunks_mut::<8>().0 {
            *a = words[0].to_le_bytes();
            *b = words[1].to_le_bytes();
            *c = words[2].to_le_bytes();
            *d = words[3].to_le_bytes();
            *e = words[4].to_le_bytes();
        }
        for part in self.body {
            let (place, behind) = rest.split_at_mut(part.len());
            copy_short(place, part);
            rest = behind;
        }
    }
}

/// Sets the fields of a built frame that depend on its place.
#[inline]
pub(crate) fn seal(frame: &mut [u8], sum: u32, lsn: u64, behind: u64, life: u64) {
    let length = u32_at(frame, 0);
    let behind = u32::try_from(behind).unwrap_or(u32::MAX);
    frame[4..8].copy_from_slice(&check(sum, length, lsn, behind, life).to_le_bytes());
    frame[8..16].copy_from_slice(&lsn.to_le_bytes());
    frame[16..20].copy_from_slice(&behind.to_le_bytes());
}

/// Seals the intact frame at the start of `frames` again, for another life. Returns its padded
/// length.
pub(crate) fn reseal(frames: &mut [u8], lsn: u64, life: u64) -> usize {
    let length = u32_at(frames, 0) as usize;
    let sum = sum(frames, length, life);
    let behind = u64::from(u32_at(frames, 16));
    seal(frames, sum, lsn, behind, life);
    padded(length)
}

/// A pad frame that covers `bytes` bytes without a record.
pub(crate) fn pad(lsn: u64, bytes: u64, life: u64) -> [u8; HEAD] {
    filler(FILLER, lsn, bytes, life)
}

/// A mark frame: one thread reserved `bytes` bytes from here on, the mark included.
pub(crate) fn mark(lsn: u64, bytes: u64, life: u64) -> [u8; HEAD] {
    filler(FILLER | MARK, lsn, bytes, life)
}

fn filler(tag: u32, lsn: u64, bytes: u64, life: u64) -> [u8; HEAD] {
    debug_assert!((HEAD as u64..u64::from(MARK)).contains(&bytes) && bytes.is_multiple_of(8));
    let word = tag | bytes as u32;
    let mut frame = [0; HEAD];
    frame[..4].copy_from_slice(&word.to_le_bytes());
    frame[4..8].copy_from_slice(&check(FILLER_SUM, word, lsn, 0, life).to_le_bytes());
    frame[8..].copy_from_slice(&lsn.to_le_bytes());
    frame
}

/// Bytes in the log of a frame with this `length` field.
pub(crate) fn span(length: u32) -> usize {
    match length & (FILLER | MARK) {
        0 | MARK => padded(length as usize),
        FILLER => (length & !FILLER) as usize,
        _ => HEAD,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Copies the frame at the start of `pieces` (or all bytes, if its length field is larger).
pub(crate) fn prefix(pieces: [&[u8]; 2]) -> Vec<u8> {
    let byte = |n: usize| pieces[0].get(n).or_else(|| pieces[1].get(n - pieces[0].len()));
    let length = u32::from_le_bytes(std::array::from_fn(|n| byte(n).copied().unwrap_or(0)));
    let take = span(length).min(pieces[0].len() + pieces[1].len());
    let first = take.min(pieces[0].len());
    let second = (take - first).min(pieces[1].len());
    [&pieces[0][..first], &pieces[1][..second]].concat()
}

/// The fields of an intact frame.
pub(crate) struct Frame<'a> {
    pub header: RecordHeader,
    pub body: &'a [u8],
    /// Padded length in bytes.
    pub bytes: usize,
    /// All positions before this one were on the device when the record was appended; `None` if not
    /// known.
    pub stable_before: Option<u64>,
}

/// An intact frame of any kind.
pub(crate) enum Item<'a> {
    Record(Frame<'a>),
    /// This many bytes hold no record.
    Pad(usize),
    /// One thread reserved this many bytes from here on, this frame included.
    Mark(u64),
}

impl Item<'_> {
    /// Bytes to the next frame.
    pub fn bytes(&self) -> usize {
        match self {
            Item::Record(frame) => frame.bytes,
            Item::Pad(bytes) => *bytes,
            Item::Mark(_) => HEAD,
        }
    }
}

/// The frame at the start of `bytes`, which lie at position `lsn`; `None` unless it is intact and
/// of this place and life. The bytes that a pad covers need not be present.
///
/// Inlined: returning the value through memory costs a restart more than checking it.
#[inline(always)]
pub(crate) fn item(bytes: &[u8], lsn: u64, life: u64) -> Option<Item<'_>> {
    if bytes.len() < HEAD || u32_at(bytes, 0) & FILLER == 0 {
        return parse(bytes, lsn, life).map(Item::Record);
    }
    let word = u32_at(bytes, 0);
    let reserved = u64::from(word & !(FILLER | MARK));
    let good = u64_at(bytes, 8) == lsn && u32_at(bytes, 4) == check(FILLER_SUM, word, lsn, 0, life);
    if !good || reserved < HEAD as u64 || !reserved.is_multiple_of(8) {
        return None;
    }
    Some(if word & MARK == 0 { Item::Pad(reserved as usize) } else { Item::Mark(reserved) })
}

/// Offset of a record's body in its frame.
#[inline]
fn before_body(flags: u8) -> usize {
    FIXED + if flags & CLR != 0 { 8 } else { 0 } + if flags & DEPENDS != 0 { 8 } else { 0 }
}

/// The record at the start of `bytes`, which lie at position `lsn`; `None` unless it is intact and
/// of this place and life.
#[inline(always)]
fn parse(bytes: &[u8], lsn: u64, life: u64) -> Option<Frame<'_>> {
    if bytes.len() < FIXED || u64_at(bytes, 8) != lsn {
        return None;
    }
    let length = u32_at(bytes, 0) as usize;
    let fixed = before_body(bytes[21]);
    if length < fixed || padded(length) > bytes.len() {
        return None;
    }
    let behind = u32_at(bytes, 16);
    let sum = sum(bytes, length, life);
    if u32_at(bytes, 4) != check(sum, length as u32, lsn, behind, life) {
        return None;
    }
    Some(Frame {
        header: RecordHeader {
            kind: bytes[20],
            flags: bytes[21] & !DEPENDS,
            txn: TxnId(u64_at(bytes, 24)),
            prev: Lsn(u64_at(bytes, 32)),
            undo_next: Lsn(if bytes[21] & CLR != 0 { u64_at(bytes, FIXED) } else { 0 }),
            depends_on: Lsn(if bytes[21] & DEPENDS != 0 { u64_at(bytes, fixed - 8) } else { 0 }),
        },
        body: &bytes[fixed..length],
        bytes: padded(length),
        stable_before: (behind != u32::MAX).then(|| lsn - u64::from(behind).min(lsn)),
    })
}

/// Kind, padded length and body of the record at the start of `bytes`. The caller has found it
/// intact before.
#[inline]
pub(crate) fn known(bytes: &[u8]) -> (u8, u64, &[u8]) {
    let length = u32_at(bytes, 0) as usize;
    let fixed = before_body(bytes[21]);
    (bytes[20], padded(length) as u64, &bytes[fixed..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(header: &RecordHeader, body: &[&[u8]], lsn: u64, life: u64) -> Vec<u8> {
        let mut frame = Vec::new();
        let sum = build(&mut frame, header, body, life);
        seal(&mut frame, sum, lsn, 16, life);
        frame
    }

    #[test]
    fn reads_back_what_was_written() {
        for flags in [0, CLR] {
            for depends_on in [Lsn(0), Lsn(4096)] {
                let undo_next = Lsn(if flags == CLR { 77 } else { 0 });
                let header =
                    RecordHeader { kind: 9, flags, txn: TxnId(5), prev: Lsn(800), undo_next, depends_on };
                let bytes = framed(&header, &[b"ab", b"", b"cde"], 1600, 3);
                let frame = parse(&bytes, 1600, 3).unwrap();
                assert_eq!((frame.header, frame.body, frame.bytes), (header, &b"abcde"[..], bytes.len()));
                assert_eq!(frame.stable_before, Some(1584));
                assert!(bytes.len().is_multiple_of(8));
                assert_eq!(known(&bytes), (9, bytes.len() as u64, &b"abcde"[..]));
            }
        }
    }

    /// A frame built in place has the same bytes as one built and sealed.
    #[test]
    fn a_plain_frame_is_the_same_in_place() {
        let cases: [&[&[u8]]; 4] = [&[], &[b"ab", b"", b"cde"], &[&[7; 24]], &[&[1; 11], &[2; 90]]];
        for parts in cases {
            let header = RecordHeader { kind: 9, txn: TxnId(5), prev: Lsn(800), ..Default::default() };
            let built = framed(&header, parts, 1600, IN_MEMORY);
            let plain = Plain::new(9, TxnId(5), Lsn(800), parts);
            let mut laid = vec![0xee; padded(plain.length)];
            plain.lay(&mut laid, 1600, 16, IN_MEMORY);
            assert_eq!(laid, built);
        }
    }

    #[test]
    fn no_flipped_bit_other_place_or_other_life_passes() {
        let header = RecordHeader { kind: 1, txn: TxnId(2), ..Default::default() };
        let bytes = framed(&header, &[&[7; 30]], 4096, 11);
        assert!(parse(&bytes, 4104, 11).is_none());
        assert!(parse(&bytes, 4096, 12).is_none());
        assert!(parse(&bytes[..bytes.len() - 8], 4096, 11).is_none());
        for bit in 0..(70 * 8) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&bad, 4096, 11).is_none(), "bit {bit}");
        }
    }
}
