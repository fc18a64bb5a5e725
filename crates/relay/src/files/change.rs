//! Changes of files, as the payload of an entry.
//!
//! ```text
//!   kind u8 | name bytes u16, name | then:
//!   1 write: at u64, bytes u32, bytes      4 allocate: bytes u64     6 rename: name as above
//!   2 zeros: at u64, bytes u64             5 create                  7 remove
//!   3 length: bytes u64
//! ```

use std::io;
use std::sync::Arc;
use world::File;

/// The largest write in one piece, in bytes.
const PIECE: usize = 1 << 17;
/// Zeros of this length or more are written as their number.
const MANY: usize = 4096;
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// A change of one file that can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Write { at: u64, bytes: Arc<[u8]> },
    Zeros { at: u64, len: u64 },
    Length(u64),
    Allocate(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Change(String, Change),
    /// The file is there, empty unless it was there before.
    Create(String),
    Rename(String, String),
    Remove(String),
}

impl Change {
    pub fn write(bytes: &[u8], at: u64) -> Change {
        if bytes.len() >= MANY && bytes.iter().all(|&b| b == 0) {
            return Change::Zeros { at, len: bytes.len() as u64 };
        }
        Change::Write { at, bytes: bytes.into() }
    }

    /// The change in pieces, none of which is too large for an entry.
    pub fn pieces(&self) -> Vec<Change> {
        match self {
            Change::Write { at, bytes } if bytes.len() > PIECE => (0..)
                .zip(bytes.chunks(PIECE))
                .map(|(n, piece)| Change::Write { at: at + n * PIECE as u64, bytes: piece.into() })
                .collect(),
            whole => vec![whole.clone()],
        }
    }

    pub fn bytes(&self) -> usize {
        32 + if let Change::Write { bytes, .. } = self { bytes.len() } else { 0 }
    }

    /// Whether `next` became part of this change: zeros that go on.
    pub fn extend(&mut self, next: &Change) -> bool {
        match (self, next) {
            (Change::Zeros { at, len }, Change::Zeros { at: from, len: more }) if *at + *len == *from => {
                *len += more;
                true
            }
            _ => false,
        }
    }

    pub fn apply(&self, file: &dyn File) -> io::Result<()> {
        match self {
            Change::Write { at, bytes } => file.write_all_at(bytes, *at),
            Change::Zeros { at, len } => {
                for from in (0..*len).step_by(ZEROS.len()) {
                    let n = (len - from).min(ZEROS.len() as u64) as usize;
                    file.write_all_at(&ZEROS[..n], at + from)?;
                }
                Ok(())
            }
            Change::Length(bytes) => file.set_len(*bytes),
            Change::Allocate(bytes) => file.allocate(*bytes),
        }
    }
}

fn put_name(out: &mut Vec<u8>, name: &str) {
    // Names of the engine's own files: some tens of bytes.
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

pub(super) fn encode(ops: &[Op]) -> Vec<u8> {
    let mut out = Vec::new();
    for op in ops {
        let (kind, name) = match op {
            Op::Change(name, Change::Write { .. }) => (1, name),
            Op::Change(name, Change::Zeros { .. }) => (2, name),
            Op::Change(name, Change::Length(_)) => (3, name),
            Op::Change(name, Change::Allocate(_)) => (4, name),
            Op::Create(name) => (5, name),
            Op::Rename(name, _) => (6, name),
            Op::Remove(name) => (7, name),
        };
        out.push(kind);
        put_name(&mut out, name);
        match op {
            Op::Change(_, Change::Write { at, bytes }) => {
                out.extend_from_slice(&at.to_le_bytes());
                out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                out.extend_from_slice(bytes);
            }
            Op::Change(_, Change::Zeros { at, len }) => {
                out.extend_from_slice(&at.to_le_bytes());
                out.extend_from_slice(&len.to_le_bytes());
            }
            Op::Change(_, Change::Length(bytes) | Change::Allocate(bytes)) => {
                out.extend_from_slice(&bytes.to_le_bytes());
            }
            Op::Rename(_, to) => put_name(&mut out, to),
            Op::Create(_) | Op::Remove(_) => {}
        }
    }
    out
}

/// The changes of a payload; `None` if it is none of [`encode`].
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Op>> {
    let (mut rest, mut ops) = (bytes, Vec::new());
    while !rest.is_empty() {
        ops.push(next(&mut rest)?);
    }
    Some(ops)
}

fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(n)?;
    *rest = tail;
    Some(head)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(take(rest, 8)?.try_into().ok()?))
}

/// A name below the folder: no way out of it.
fn name(rest: &mut &[u8]) -> Option<String> {
    let len = u16::from_le_bytes(take(rest, 2)?.try_into().ok()?);
    let name = std::str::from_utf8(take(rest, usize::from(len))?).ok()?;
    let is_plain = !name.is_empty() && name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    is_plain.then(|| name.to_owned())
}

fn next(rest: &mut &[u8]) -> Option<Op> {
    let kind = take(rest, 1)?[0];
    let file = name(rest)?;
    Some(match kind {
        1 => {
            let at = number(rest)?;
            let len = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
            Op::Change(file, Change::Write { at, bytes: take(rest, len as usize)?.into() })
        }
        2 => Op::Change(file, Change::Zeros { at: number(rest)?, len: number(rest)? }),
        3 => Op::Change(file, Change::Length(number(rest)?)),
        4 => Op::Change(file, Change::Allocate(number(rest)?)),
        5 => Op::Create(file),
        6 => Op::Rename(file, name(rest)?),
        7 => Op::Remove(file),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_and_cut_ones_do_not() {
        let file = || "log/a".to_owned();
        let ops = vec![
            Op::Create(file()),
            Op::Change(file(), Change::write(b"abc", 7)),
            Op::Change(file(), Change::write(&[0; 5000], 0)),
            Op::Change(file(), Change::Length(9)),
            Op::Change(file(), Change::Allocate(10)),
            Op::Rename(file(), "b".to_owned()),
            Op::Remove("b".to_owned()),
        ];
        let bytes = encode(&ops);
        assert_eq!(decode(&bytes), Some(ops.clone()));
        let ends: Vec<usize> = (0..=ops.len()).map(|n| encode(&ops[..n]).len()).collect();
        for cut in (0..bytes.len()).filter(|cut| !ends.contains(cut)) {
            assert_eq!(decode(&bytes[..cut]), None, "cut at {cut}");
        }
        assert_eq!(decode(&encode(&[Op::Remove("../x".to_owned())])), None);
        assert_eq!(decode(&encode(&[Op::Remove("/x".to_owned())])), None);
    }

    #[test]
    fn a_long_write_goes_in_pieces() {
        let bytes: Vec<u8> = (0..300_000u32).map(|n| n as u8 | 1).collect();
        let pieces = Change::write(&bytes, 10).pieces();
        let mut at = 10;
        for piece in &pieces {
            let Change::Write { at: from, bytes: some } = piece else { panic!() };
            assert_eq!((*from, &some[..]), (at, &bytes[at as usize - 10..][..some.len()]));
            at += some.len() as u64;
        }
        assert_eq!((pieces.len(), at), (3, 300_010));
    }
}
