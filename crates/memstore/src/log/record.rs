//! Records: the units that a worker appends to the log.
//!
//! ```text
//!   0 bytes u32, of the whole record | 4 kind u8 | 5 epoch u64 (commit: its id instead) | 13 ...
//!
//!   commit       writes                           a transaction that committed at once
//!   late commit  id u64, writes                   one that was pre-committed, in an earlier epoch
//!   prepare      name u64, id u64, note, writes   undecided: may still go either way
//!   decision     name u64, id u64 or 0: abort     for the transaction that was prepared under that
//!                                                 name; the id may be another than it had then
//!   note         name u64, note                   returned at each opening,
//!   forget       name u64                         until it is forgotten
//!   reservations name u64, reads                  the reads of the prepared transaction of this
//!                                                 name, reserved until its decision
//!
//!   reads, to the end:   table u16, low bytes u16, high bytes u16, low, high
//!                        a range of keys, both ends included; without an upper end if `high bytes`
//!                        is u16::MAX; a single key, `low`, if it is u16::MAX - 1
//!   note:                bytes u32, bytes
//!   writes, to the end:  table u16, key bytes u16, value bytes u32 (u32::MAX: absent), key, value
//!   change, a write with value bytes of 2^31 or more (2^31 plus the length of the rest):
//!                        id u64 of the version that it changes, then runs to the end:
//!                        position 18 bits | length 14 bits, bytes
//! ```
//! A change is shorter than the whole row, and can be repeated only on the version that it names.
//! Each version of a row was made from the one before. So a row is given by its last whole value
//! and all changes since, in whichever order the records are read.
//!
//! All numbers are little-endian. A record counts when its epoch is durable. Records of one epoch
//! in one stream count together.

use crate::row::{MAX_KEY, MAX_ROW};
use txn::Range;

/// The effect of one write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RowChange<'a> {
    pub(crate) table: u16,
    pub(crate) key: &'a [u8],
    pub(crate) value: Left<'a>,
}

/// The new state of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Left<'a> {
    /// No such row.
    Absent,
    Whole(&'a [u8]),
    /// The version with the id `from`, except for these runs.
    Part {
        from: u64,
        runs: Runs<'a>,
    },
}

/// Runs of bytes of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Runs<'a>(pub(crate) &'a [u8]);

impl<'a> Runs<'a> {
    /// The next run: its position and its bytes. [`Malformed`] when there are fewer bytes than it
    /// states.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(usize, &'a [u8])>, Malformed> {
        let Some((head, rest)) = self.0.split_first_chunk() else {
            return if self.0.is_empty() { Ok(None) } else { Err(Malformed) };
        };
        let head = u32::from_le_bytes(*head);
        let (bytes, rest) = rest.split_at_checked((head & RUN_BYTES) as usize).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Some(((head >> RUN_SHIFT) as usize, bytes)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TxnVerdict {
    /// Under this id.
    Commit(u64),
    Abort,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Record<'a> {
    Commit { tid: u64, writes: Changes<'a> },
    Prepare { name: u64, tid: u64, note: &'a [u8], writes: Changes<'a> },
    Decision { name: u64, verdict: TxnVerdict },
    Note { name: u64, note: &'a [u8] },
    Forget { name: u64 },
    Reservations { name: u64, reads: Reads<'a> },
}

const COMMIT: u8 = 1;
const LATE_COMMIT: u8 = 2;
const PREPARE: u8 = 3;
const DECISION: u8 = 4;
const NOTE: u8 = 5;
const FORGET: u8 = 6;
const RESERVATIONS: u8 = 7;
const HEAD: usize = 13;
const ABSENT: u32 = u32::MAX;
/// Value lengths from this number on are those of a change.
const PART: u32 = 1 << 31;
const RUN_SHIFT: u32 = 14;
const RUN_BYTES: u32 = (1 << RUN_SHIFT) - 1;
const _: () = assert!(MAX_ROW <= 1 << (32 - RUN_SHIFT));

/// A record that has been begun; [`Open::end`] has to follow.
#[must_use]
pub(crate) struct Open {
    at: usize,
}

impl Open {
    fn new(out: &mut Vec<u8>, kind: u8, epoch: u64) -> Open {
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        out.push(kind);
        out.extend_from_slice(&epoch.to_le_bytes());
        Open { at }
    }

    pub(crate) fn commit(out: &mut Vec<u8>, tid: u64) -> Open {
        Open::new(out, COMMIT, tid)
    }

    pub(crate) fn late_commit(out: &mut Vec<u8>, epoch: u64, tid: u64) -> Open {
        let open = Open::new(out, LATE_COMMIT, epoch);
        out.extend_from_slice(&tid.to_le_bytes());
        open
    }

    pub(crate) fn prepare(out: &mut Vec<u8>, epoch: u64, name: u64, tid: u64, note: &[u8]) -> Open {
        let open = Open::new(out, PREPARE, epoch);
        out.extend_from_slice(&name.to_le_bytes());
        out.extend_from_slice(&tid.to_le_bytes());
        put_note(out, note);
        open
    }

    /// Ends the record: its length is known only here.
    #[inline]
    pub(crate) fn end(self, out: &mut [u8]) {
        let bytes = (out.len() - self.at) as u32;
        out[self.at..self.at + 4].copy_from_slice(&bytes.to_le_bytes());
    }
}

fn put_note(out: &mut Vec<u8>, note: &[u8]) {
    out.extend_from_slice(&(note.len() as u32).to_le_bytes());
    out.extend_from_slice(note);
}

/// Appends one write; `key` appends the key.
#[inline]
pub(crate) fn put_write(out: &mut Vec<u8>, table: u16, value: Option<&[u8]>, key: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 8]);
    key(out);
    let key_bytes = (out.len() - at - 8) as u16;
    let value_bytes = value.map_or(ABSENT, |value| value.len() as u32);
    let word = u64::from(table) | u64::from(key_bytes) << 16 | u64::from(value_bytes) << 32;
    out[at..at + 8].copy_from_slice(&word.to_le_bytes());
    out.extend_from_slice(value.unwrap_or_default());
}

/// Begins the write of a change; `key` appends the key. [`OpenChange::end`] has to follow.
#[inline]
pub(crate) fn put_change(
    out: &mut Vec<u8>,
    table: u16,
    from: u64,
    key: impl FnOnce(&mut Vec<u8>),
) -> OpenChange {
    let at = out.len();
    out.extend_from_slice(&[0; 8]);
    key(out);
    let key_bytes = (out.len() - at - 8) as u64;
    out[at..at + 4].copy_from_slice(&((u64::from(table) | key_bytes << 16) as u32).to_le_bytes());
    let from_at = out.len();
    out.extend_from_slice(&from.to_le_bytes());
    OpenChange { at, from_at }
}

/// A change that is being written.
#[must_use]
pub(crate) struct OpenChange {
    at: usize,
    from_at: usize,
}

impl OpenChange {
    #[inline]
    pub(crate) fn run(&self, out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
        for (n, piece) in bytes.chunks(RUN_BYTES as usize).enumerate() {
            let head = ((at + n * RUN_BYTES as usize) as u32) << RUN_SHIFT | piece.len() as u32;
            out.extend_from_slice(&head.to_le_bytes());
            out.extend_from_slice(piece);
        }
    }

    /// Bytes from the id on.
    #[inline]
    pub(crate) fn bytes(&self, out: &[u8]) -> usize {
        out.len() - self.from_at
    }

    #[inline]
    pub(crate) fn end(self, out: &mut [u8]) {
        let bytes = PART | self.bytes(out) as u32;
        out[self.at + 4..self.at + 8].copy_from_slice(&bytes.to_le_bytes());
    }

    /// Removes everything that was written of it.
    pub(crate) fn undo(self, out: &mut Vec<u8>) {
        out.truncate(self.at);
    }
}

/// As [`put_write`], for a value that `value` appends.
pub(crate) fn put_placed(
    out: &mut Vec<u8>,
    table: u16,
    key: impl FnOnce(&mut Vec<u8>),
    value: impl FnOnce(&mut Vec<u8>),
) {
    let at = out.len();
    put_write(out, table, Some(&[]), key);
    let behind = out.len();
    value(out);
    let bytes = (out.len() - behind) as u32;
    out[at + 4..at + 8].copy_from_slice(&bytes.to_le_bytes());
}

pub(crate) fn put_decision(out: &mut Vec<u8>, epoch: u64, name: u64, verdict: TxnVerdict) {
    let open = Open::new(out, DECISION, epoch);
    out.extend_from_slice(&name.to_le_bytes());
    let id = if let TxnVerdict::Commit(id) = verdict { id } else { 0 };
    out.extend_from_slice(&id.to_le_bytes());
    open.end(out);
}

pub(crate) fn put_named_note(out: &mut Vec<u8>, epoch: u64, name: u64, note: &[u8]) {
    let open = Open::new(out, NOTE, epoch);
    out.extend_from_slice(&name.to_le_bytes());
    put_note(out, note);
    open.end(out);
}

pub(crate) fn put_forget(out: &mut Vec<u8>, epoch: u64, name: u64) {
    let open = Open::new(out, FORGET, epoch);
    out.extend_from_slice(&name.to_le_bytes());
    open.end(out);
}

pub(crate) fn put_guards(out: &mut Vec<u8>, epoch: u64, name: u64, reads: &[u8]) {
    let open = Open::new(out, RESERVATIONS, epoch);
    out.extend_from_slice(&name.to_le_bytes());
    out.extend_from_slice(reads);
    open.end(out);
}

/// A read of a transaction, whether it found a row or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Read<'a> {
    Key(&'a [u8]),
    /// Both ends included.
    Range(Range<'a>),
}

const TO_THE_END: u16 = u16::MAX;
const ONE_KEY: u16 = u16::MAX - 1;

/// Cuts a key that is too long for any row, as the end of a range: the rows below it are the same.
fn end_of(key: &[u8]) -> &[u8] {
    &key[..key.len().min(MAX_KEY + 1)]
}

pub(crate) fn put_read(out: &mut Vec<u8>, table: u16, read: Read<'_>) {
    let (low, high, code) = match read {
        Read::Key(key) => (end_of(key), &[][..], ONE_KEY),
        Read::Range(Range { low, high }) => {
            let (low, high) = (low.map_or(&[][..], end_of), high.map(end_of));
            (low, high.unwrap_or_default(), high.map_or(TO_THE_END, |high| high.len() as u16))
        }
    };
    out.extend([table, low.len() as u16, code].iter().flat_map(|n| n.to_le_bytes()));
    out.extend_from_slice(low);
    out.extend_from_slice(high);
}

/// The reads of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reads<'a>(Bytes<'a>);

impl<'a> Reads<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Reads<'a> {
        Reads(Bytes(bytes))
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.0.0
    }

    /// The next read and its table; `None` at the end, [`Malformed`] when there are fewer bytes
    /// than it states.
    pub(crate) fn next(&mut self) -> Result<Option<(u16, Read<'a>)>, Malformed> {
        if self.0.0.is_empty() {
            return Ok(None);
        }
        self.read().map(Some).ok_or(Malformed)
    }

    fn read(&mut self) -> Option<(u16, Read<'a>)> {
        let mut number = || Some(u16::from_le_bytes(self.0.take(2)?.try_into().ok()?));
        let (table, low, high) = (number()?, number()?, number()?);
        let low = self.0.take(usize::from(low))?;
        Some((
            table,
            match high {
                ONE_KEY => Read::Key(low),
                TO_THE_END => Read::Range(Range { low: Some(low), high: None }),
                len => Read::Range(Range { low: Some(low), high: Some(self.0.take(usize::from(len))?) }),
            },
        ))
    }
}

/// Bytes that are read from the front.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.0.split_first_chunk().map(|(word, rest)| {
            self.0 = rest;
            u32::from_le_bytes(*word)
        })
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.0.split_first_chunk().map(|(word, rest)| {
            self.0 = rest;
            u64::from_le_bytes(*word)
        })
    }

    fn note(&mut self) -> Option<&'a [u8]> {
        let bytes = self.u32()?;
        self.take(bytes as usize)
    }
}

/// The writes of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Changes<'a>(Bytes<'a>);

impl<'a> Changes<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Changes<'a> {
        Changes(Bytes(bytes))
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.0.0
    }

    /// The next write; `None` at the end, [`Malformed`] when there are fewer bytes than it states.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<RowChange<'a>>, Malformed> {
        if self.0.0.is_empty() {
            return Ok(None);
        }
        self.read().map(Some).ok_or(Malformed)
    }

    #[inline]
    fn read(&mut self) -> Option<RowChange<'a>> {
        let word = self.0.u64()?;
        let (table, key, value) = (word as u16, (word >> 16) as u16, (word >> 32) as u32);
        let key = self.0.take(usize::from(key))?;
        let value = match value {
            ABSENT => Left::Absent,
            PART.. => {
                let mut part = Bytes(self.0.take((value & !PART) as usize)?);
                Left::Part { from: part.u64()?, runs: Runs(part.0) }
            }
            _ => Left::Whole(self.0.take(value as usize)?),
        };
        Some(RowChange { table, key, value })
    }
}

/// Not a record. The bytes passed their checksum, so the program that wrote them was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Malformed;

/// Takes the next record from the front of `bytes`; returns its epoch and its content.
#[inline]
pub(crate) fn next<'a>(bytes: &mut Bytes<'a>) -> Result<Option<(u64, Record<'a>)>, Malformed> {
    if bytes.0.is_empty() {
        return Ok(None);
    }
    take(bytes).map(Some).ok_or(Malformed)
}

#[inline]
fn take<'a>(bytes: &mut Bytes<'a>) -> Option<(u64, Record<'a>)> {
    let len = Bytes(bytes.0).u32()? as usize;
    let mut body = Bytes(bytes.take(len)?);
    let head = body.take(HEAD)?;
    let word = u64::from_le_bytes(head[5..HEAD].try_into().ok()?);
    if head[4] == COMMIT {
        return Some((crate::tid::epoch(word), Record::Commit { tid: word, writes: Changes(body) }));
    }
    let name = body.u64()?;
    let record = match head[4] {
        LATE_COMMIT => Record::Commit { tid: name, writes: Changes(body) },
        PREPARE => {
            let tid = body.u64()?;
            Record::Prepare { name, tid, note: body.note()?, writes: Changes(body) }
        }
        DECISION => {
            let verdict = match body.u64()? {
                0 => TxnVerdict::Abort,
                id => TxnVerdict::Commit(id),
            };
            Record::Decision { name, verdict }
        }
        NOTE => Record::Note { name, note: body.note()? },
        FORGET => Record::Forget { name },
        RESERVATIONS => Record::Reservations { name, reads: Reads(body) },
        _ => return None,
    };
    Some((word, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_of_each() -> Vec<u8> {
        let mut out = Vec::new();
        let tid = crate::tid::next(7, 0).unwrap();
        let open = Open::commit(&mut out, tid);
        put_write(&mut out, 3, Some(b"value"), |out| out.extend_from_slice(b"key"));
        put_write(&mut out, 65_535, None, |_| {});
        open.end(&mut out);
        let open = Open::late_commit(&mut out, 9, tid);
        put_write(&mut out, 1, Some(b""), |out| out.push(0));
        let change = put_change(&mut out, 2, tid, |out| out.extend_from_slice(b"key"));
        change.run(&mut out, 3, b"abc");
        change.run(&mut out, 262_000, &[7; 100]);
        change.end(&mut out);
        open.end(&mut out);
        let open = Open::prepare(&mut out, 9, 77, tid, b"note");
        put_write(&mut out, 1, Some(b"x"), |out| out.push(1));
        open.end(&mut out);
        put_decision(&mut out, 10, 77, TxnVerdict::Commit(tid));
        put_decision(&mut out, 10, 78, TxnVerdict::Abort);
        put_named_note(&mut out, 11, 79, b"");
        put_forget(&mut out, 12, 79);
        put_guards(&mut out, 12, 77, &reads());
        out
    }

    fn reads() -> Vec<u8> {
        let mut out = Vec::new();
        put_read(&mut out, 3, Read::Key(b"key"));
        put_read(&mut out, 4, Read::Range(Range { low: None, high: None }));
        put_read(&mut out, 5, Read::Range(Range { low: Some(b"a"), high: Some(b"bc") }));
        out
    }

    #[test]
    fn reads_come_back_as_they_were_put() {
        let bytes = reads();
        let mut reads = Reads::of(&bytes);
        assert_eq!(reads.next(), Ok(Some((3, Read::Key(b"key")))));
        let all = Range { low: Some(&b""[..]), high: None };
        assert_eq!(reads.next(), Ok(Some((4, Read::Range(all)))));
        let some = Range { low: Some(&b"a"[..]), high: Some(b"bc") };
        assert_eq!(reads.next(), Ok(Some((5, Read::Range(some)))));
        assert_eq!(reads.next(), Ok(None));
        let mut long = Vec::new();
        put_read(&mut long, 1, Read::Key(&[7; 100_000]));
        assert_eq!(Reads::of(&long).next(), Ok(Some((1, Read::Key(&[7; MAX_KEY + 1])))));
    }

    /// Reads everything; returns the epochs of the records and the number of writes and reads.
    fn read(bytes: &[u8]) -> Result<(Vec<u64>, usize), Malformed> {
        let (mut bytes, mut epochs, mut count) = (Bytes(bytes), Vec::new(), 0);
        while let Some((epoch, record)) = next(&mut bytes)? {
            epochs.push(epoch);
            if let Record::Commit { mut writes, .. } | Record::Prepare { mut writes, .. } = record {
                while let Some(change) = writes.next()? {
                    count += 1;
                    if let Left::Part { mut runs, .. } = change.value {
                        while runs.next()?.is_some() {}
                    }
                }
            }
            if let Record::Reservations { mut reads, .. } = record {
                while reads.next()?.is_some() {
                    count += 1;
                }
            }
        }
        Ok((epochs, count))
    }

    #[test]
    fn what_is_written_is_read() {
        let out = some_of_each();
        assert_eq!(read(&out), Ok((vec![7, 9, 9, 10, 10, 11, 12, 12], 8)));
        let Ok(Some((7, Record::Commit { mut writes, .. }))) = next(&mut Bytes(&out)) else { panic!() };
        assert_eq!(
            writes.next(),
            Ok(Some(RowChange { table: 3, key: b"key", value: Left::Whole(b"value") }))
        );
        assert_eq!(writes.next(), Ok(Some(RowChange { table: 65_535, key: b"", value: Left::Absent })));
    }

    #[test]
    fn a_change_is_its_runs_and_one_that_takes_too_much_is_taken_back() {
        let mut out = Vec::new();
        let change = put_change(&mut out, 2, 16, |out| out.push(9));
        change.run(&mut out, 3, b"abc");
        // Longer than the head of a run can state.
        change.run(&mut out, 1000, &[7; 20_000]);
        let bytes = change.bytes(&out);
        change.end(&mut out);
        let before = out.len();
        put_change(&mut out, 2, 16, |out| out.push(9)).undo(&mut out);
        assert_eq!((out.len(), bytes), (before, 8 + 4 + 3 + 8 + 20_000));
        let mut changes = Changes::of(&out);
        let Ok(Some(RowChange { table: 2, key: [9], value: Left::Part { from: 16, mut runs } })) =
            changes.next()
        else {
            panic!("{:?}", Changes::of(&out).next())
        };
        assert_eq!(runs.next(), Ok(Some((3, &b"abc"[..]))));
        assert_eq!(runs.next(), Ok(Some((1000, &[7; 16_383][..]))));
        assert_eq!(runs.next(), Ok(Some((17_383, &[7; 3617][..]))));
        assert_eq!((runs.next(), changes.next()), (Ok(None), Ok(None)));
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_but_never_panic() {
        let good = some_of_each();
        let mut random = fastrand::Rng::with_seed(5);
        for n in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bytes.len());
                bytes[at] = if n % 2 == 0 { random.u8(..) } else { 255 };
            }
            bytes.truncate(random.usize(0..=bytes.len()));
            let _ = read(&bytes);
        }
        for cut in 1..good.len() {
            assert!(read(&good[..cut]).is_err() || read(&good[..cut]).unwrap().0.len() < 8);
        }
    }
}
