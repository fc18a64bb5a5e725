//! Rows and their older versions in memory.
//!
//! ```text
//!   word  0    1        2                                     3 ..        ..
//!         TID  older    key length 16 | outside 1 | room 15   key,        value, or address
//!              version  | value length 20 | table 12          big-endian  of a block: room, value
//! ```
//! Access rules:
//!
//! - Table, key and the room for a value never change.
//! - One thread writes the value, its length and the older version: the one that has locked the TID
//!   word, or the one that has created the row and not entered it into the index yet.
//! - Any thread may read them. It believes them if it then finds the TID word unchanged and the row
//!   not absent.
//! - The upper bits of the word of the older version count read reservations
//!   ([`read_reservation`]). Prepared readers change them without the lock.
//!
//! A row stays at its address for life. A value that outgrows its room moves to a block outside,
//! and the row holds the address of that block. An older version is laid out the same way, has no
//! key, and never changes.

mod overwrite;

pub(crate) use overwrite::{Keep, Prepared, cancel, overwrite, prepare, read_past};

use crate::arena::{Arena, Full, Local, MAX_WORDS, Ref, rounded};
use crate::epoch::Epochs;
use crate::head::{compare_key, load_key, store_key};
use crate::life;
use crate::node::{ROW_KEY, ROW_LENGTHS};
use crate::read_reservation;
use crate::tid::{ABSENT, DEAD, LOCKED, PREPARED};
use base::TableId;
use latch::prefetch;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Words that are copied in one step. The compiler leaves a loop over single atomics as it is, so
/// the loop is unrolled by hand.
const LINE: usize = 8;

const TID: usize = 0;
const OLDER: usize = 1;
const OUTSIDE: u64 = 1 << 16;

/// The longest key, bytes.
pub const MAX_KEY: usize = 1024;
/// The longest row, bytes.
pub const MAX_ROW: usize = 256 << 10;
const _: () = assert!(ROW_KEY + (MAX_KEY + MAX_ROW) / 8 + 2 <= MAX_WORDS);
/// Longer values lie outside from the start, since the room has 15 bits.
const MAX_INSIDE: usize = 1 << 14;

#[derive(Clone, Copy)]
struct Lengths(u64);

/// The table number in rows of tables with this number or a larger one.
const OTHERS: u64 = 0xfff;
const TABLE_SHIFT: u32 = 52;
const _: () = assert!(MAX_ROW < 1 << (TABLE_SHIFT - 32));

impl Lengths {
    fn new(key: usize, room: usize) -> Lengths {
        Lengths(key as u64 | (room as u64) << 17)
    }
    fn of_table(self, table: TableId) -> Lengths {
        Lengths(self.0 | u64::from(table.0).min(OTHERS) << TABLE_SHIFT)
    }
    /// Whether these are the lengths of a row of this table with a key of this length. Tables that
    /// share [`OTHERS`] are never confirmed.
    #[inline]
    fn is_of(self, table: TableId, key: usize) -> bool {
        let of = |lengths: u64| lengths & (0xffff | OTHERS << TABLE_SHIFT);
        of(self.0) == key as u64 | u64::from(table.0) << TABLE_SHIFT && u64::from(table.0) < OTHERS
    }
    #[inline]
    fn key(self) -> usize {
        (self.0 & 0xffff) as usize
    }
    #[inline]
    fn room(self) -> usize {
        (self.0 >> 17 & 0x7fff) as usize
    }
    #[inline]
    fn value(self) -> usize {
        (self.0 >> 32 & ((1 << (TABLE_SHIFT - 32)) - 1)) as usize
    }
    #[inline]
    fn is_outside(self) -> bool {
        self.0 & OUTSIDE != 0
    }
    #[inline]
    fn with(self, value: usize, outside: bool) -> Lengths {
        Lengths(
            self.0 & (0xfffe_ffff | OTHERS << TABLE_SHIFT)
                | (value as u64) << 32
                | if outside { OUTSIDE } else { 0 },
        )
    }
    #[inline]
    fn value_at(self) -> usize {
        ROW_KEY + self.key().div_ceil(8)
    }
    #[inline]
    fn words(self) -> usize {
        self.value_at() + self.room()
    }
}

#[inline]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

#[inline]
fn store(word: &AtomicU64, to: u64) {
    word.store(to, Ordering::Relaxed);
}

#[inline]
fn lengths(arena: &Arena, row: Ref) -> Lengths {
    Lengths(load(&arena.array::<ROW_KEY>(row)[ROW_LENGTHS]))
}

/// The older version that a row or version points to.
#[inline]
fn older(word: &AtomicU64) -> Ref {
    Ref(load(word) & (read_reservation::OF_ROW - 1))
}

/// The word that counts read reservations on the row.
#[inline]
pub(crate) fn readers(arena: &Arena, row: Ref) -> &AtomicU64 {
    &arena.block(row, ROW_KEY)[OLDER]
}

#[inline]
pub(crate) fn tid(arena: &Arena, row: Ref) -> &AtomicU64 {
    &arena.array::<ROW_KEY>(row)[TID]
}

/// Creates a row with room for a value of `value` bytes. It is dead until it [is
/// entered](life::enter); then its word is `entered`.
#[inline]
pub(crate) fn create(
    arena: &Arena,
    local: &mut Local,
    (table, entered): (TableId, u64),
    key: &[u8],
    value: usize,
) -> Result<Ref, Full> {
    let least = ROW_KEY + key.len().div_ceil(8) + value.div_ceil(8).clamp(1, MAX_INSIDE);
    let words = rounded(least);
    let row = local.alloc_row(arena, words)?;
    let block = arena.block(row, words);
    store(&block[TID], entered | DEAD);
    store(&block[OLDER], 0);
    store(
        &block[ROW_LENGTHS],
        Lengths::new(key.len(), words - ROW_KEY - key.len().div_ceil(8)).of_table(table).0,
    );
    store_key(&block[ROW_KEY..], key);
    Ok(row)
}

/// See [`life::enter`].
#[inline]
pub(crate) fn enter(arena: &Arena, row: Ref) {
    life::enter(tid(arena, row));
}

/// Whether this block is, at present, the row with this key in the index of this table. Then the
/// answer is as good as a look-up in the index. The block must be one that always holds a row.
#[inline]
pub(crate) fn is_of(arena: &Arena, row: Ref, table: TableId, key: &[u8]) -> bool {
    let block: &[AtomicU64; ROW_KEY] = arena.array(row);
    if !life::is_there(&block[TID]) || !Lengths(load(&block[ROW_LENGTHS])).is_of(table, key.len()) {
        return false;
    }
    let words = arena.block(Ref(row.0 + ROW_KEY as u64), key.len().div_ceil(8));
    compare_key(words, key.len(), key).is_eq()
}

/// Puts a value into the room of a row that no other thread has seen. The row's word goes on saying
/// that it is absent. `false` if the value does not fit.
#[inline]
pub(crate) fn place(arena: &Arena, row: Ref, value: &[u8]) -> bool {
    let len = lengths(arena, row);
    let fits = value.len().div_ceil(8) <= len.room();
    if fits {
        let block = arena.block(row, len.words());
        store_words(&block[len.value_at()..], value);
        store(&block[ROW_LENGTHS], len.with(value.len(), false).0);
    }
    fits
}

/// Appends the value that [`place`] put into a row to `out`. The caller has locked the row in that
/// state.
pub(crate) fn placed(arena: &Arena, row: Ref, out: &mut Vec<u8>) {
    let len = lengths(arena, row);
    let end = out.len() + len.value();
    for word in &arena.block(row, len.words())[len.value_at()..][..len.value().div_ceil(8)] {
        out.extend_from_slice(&load(word).to_le_bytes());
    }
    out.truncate(end);
}

/// Copies the placed value while the row's word is `entered`; `None` once another transaction has
/// overwritten the row or locked it.
pub(crate) fn read_placed(arena: &Arena, row: Ref, entered: u64, out: &mut Vec<u8>) -> Option<()> {
    let word = tid(arena, row);
    if word.load(Ordering::Acquire) != entered {
        return None;
    }
    let len = lengths(arena, row);
    // A transaction that overwrites the row meanwhile may put the value elsewhere.
    let value = arena.block(row, len.words()).get(len.value_at()..)?.get(..len.value().div_ceil(8))?;
    copy_words(value, len.value(), out);
    fence(Ordering::Acquire);
    (word.load(Ordering::Relaxed) == entered).then_some(())
}

/// Ends the lock of a row to which [`place`] gave its value.
#[inline]
pub(crate) fn appear(arena: &Arena, row: Ref, word: u64) {
    tid(arena, row).store(word, Ordering::Release);
}

/// Gives back a row that no other thread has seen.
pub(crate) fn discard(arena: &Arena, local: &mut Local, row: Ref) {
    local.free_row(row, lengths(arena, row).words());
}

/// Gives back a row that has left the index, with its outside block if it has one.
pub(crate) fn retire(arena: &Arena, local: &mut Local, epochs: &Epochs, row: Ref) {
    retire_outside(arena, local, epochs, row);
    local.retire_row(epochs, row, lengths(arena, row).words());
}

/// The same for a version that has left its chain.
pub(crate) fn retire_version(arena: &Arena, local: &mut Local, epochs: &Epochs, version: Ref) {
    retire_outside(arena, local, epochs, version);
    local.retire(epochs, version, lengths(arena, version).words());
}

fn retire_outside(arena: &Arena, local: &mut Local, epochs: &Epochs, row: Ref) {
    let len = lengths(arena, row);
    if len.is_outside() {
        let outside = Ref(load(&arena.block(row, len.words())[len.value_at()]));
        local.retire(epochs, outside, outside_words(arena, outside));
    }
}

#[inline]
fn outside_words(arena: &Arena, outside: Ref) -> usize {
    1 + load(&arena.block(outside, 1)[0]) as usize
}

pub(crate) fn key(arena: &Arena, row: Ref, out: &mut Vec<u8>) {
    let len = lengths(arena, row);
    load_key(&arena.block(row, len.words())[ROW_KEY..len.value_at()], len.key(), out);
}

#[inline]
pub(crate) fn prefetch_row(arena: &Arena, row: Ref) {
    let first = arena.block(row, ROW_KEY).as_ptr();
    (0..5).for_each(|line| prefetch(first.wrapping_add(line * LINE)));
}

/// As [`prefetch_row`], when only the word, the key of `key` bytes, and the bytes at `at` in the
/// value will be read.
#[inline]
pub(crate) fn prefetch_part(arena: &Arena, row: Ref, key: usize, at: usize) {
    let first = arena.block(row, ROW_KEY).as_ptr();
    prefetch(first);
    prefetch(first.wrapping_add(ROW_KEY + key.div_ceil(8) + at / 8));
}

/// Copies the row's value to `out`. Returns the word under which the value is valid, or as an error
/// the word that says that the row is locked.
#[inline]
pub(crate) fn read(arena: &Arena, row: Ref, out: &mut Vec<u8>) -> Result<u64, u64> {
    read_while(arena, row, out, |word| word & LOCKED == 0)
}

/// As [`read`], and also reads a row that is only prepared: its value is still the committed one.
pub(crate) fn read_committed(arena: &Arena, row: Ref, out: &mut Vec<u8>) -> Result<u64, u64> {
    read_while(arena, row, out, |word| word & (LOCKED | PREPARED) != LOCKED)
}

/// As [`read`], for rows with a `stable` word: no thread writes to the row until the word changes.
#[inline]
fn read_while(arena: &Arena, row: Ref, out: &mut Vec<u8>, stable: impl Fn(u64) -> bool) -> Result<u64, u64> {
    let word = tid(arena, row);
    loop {
        let before = word.load(Ordering::Acquire);
        if !stable(before) {
            return Err(before);
        }
        let is_whole = before & ABSENT != 0 || copy_value(arena, row, out, word, before);
        fence(Ordering::Acquire);
        if is_whole && word.load(Ordering::Relaxed) == before {
            return Ok(before);
        }
    }
}

/// `false` when the row changed before the address of its value was certain.
#[inline]
fn copy_value(arena: &Arena, row: Ref, out: &mut Vec<u8>, word: &AtomicU64, before: u64) -> bool {
    let len = lengths(arena, row);
    if !len.is_outside() {
        // Both lengths come from one word, so they fit each other even if the row is changing.
        let value = Ref(row.0 + len.value_at() as u64);
        copy_words(arena.block(value, len.value().div_ceil(8)), len.value(), out);
        return true;
    }
    copy_outside(arena, row, out, word, before)
}

#[cold]
fn copy_outside(arena: &Arena, row: Ref, out: &mut Vec<u8>, word: &AtomicU64, before: u64) -> bool {
    let len = lengths(arena, row);
    if !len.is_outside() {
        return false;
    }
    let outside = Ref(load(&arena.block(row, len.words())[len.value_at()]));
    fence(Ordering::Acquire);
    if word.load(Ordering::Relaxed) != before {
        return false;
    }
    let words = 1 + len.value().div_ceil(8);
    copy_words(&arena.block(outside, words)[1..], len.value(), out);
    true
}

#[inline]
fn copy_words(words: &[AtomicU64], len: usize, out: &mut Vec<u8>) {
    // The buffer is resized and not emptied first: rows of one table have about the same length, so
    // almost nothing is zeroed.
    out.resize(words.len() * 8, 0);
    let (to, _) = out.as_chunks_mut::<8>();
    let ((to_lines, to_rest), (lines, rest)) = (to.as_chunks_mut::<LINE>(), words.as_chunks::<LINE>());
    for (to, words) in to_lines.iter_mut().zip(lines) {
        for i in 0..LINE {
            to[i] = load(&words[i]).to_le_bytes();
        }
    }
    for (to, word) in to_rest.iter_mut().zip(rest) {
        *to = load(word).to_le_bytes();
    }
    out.truncate(len);
}

#[inline]
fn store_words(words: &[AtomicU64], value: &[u8]) {
    let (whole, rest) = value.as_chunks::<8>();
    let ((lines, ones), (to_lines, _)) = (whole.as_chunks::<LINE>(), words.as_chunks::<LINE>());
    for n in 0..lines.len() {
        let (to, from) = (&to_lines[n], &lines[n]);
        for i in 0..LINE {
            store(&to[i], u64::from_le_bytes(from[i]));
        }
    }
    let to = &words[lines.len() * LINE..];
    for n in 0..ones.len() {
        store(&to[n], u64::from_le_bytes(ones[n]));
    }
    if !rest.is_empty() {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        store(&words[whole.len()], u64::from_le_bytes(bytes));
    }
}

/// The words that hold the value of a locked row, and its length in bytes.
#[inline]
fn value_words(arena: &Arena, row: Ref) -> (&[AtomicU64], usize) {
    let len = lengths(arena, row);
    let words = len.value().div_ceil(8);
    let block = arena.block(row, len.words());
    match len.is_outside() {
        false => (&block[len.value_at()..][..words], len.value()),
        true => (&arena.block(Ref(load(&block[len.value_at()])), 1 + words)[1..], len.value()),
    }
}

/// Passes each run of bytes in which `value` differs from the value of a locked row to `run`: its
/// position and its bytes. A run may contain some equal bytes. Looks only at the bytes `touched`.
/// Returns `false`, without a call of `run`, if the lengths differ.
#[inline]
pub(crate) fn differences(
    arena: &Arena,
    row: Ref,
    value: &[u8],
    touched: Touched,
    mut run: impl FnMut(usize, &[u8]),
) -> bool {
    let (words, len) = value_words(arena, row);
    if len != value.len() {
        return false;
    }
    // Start of the open run, and the end of its last byte that differs.
    let mut open: Option<(usize, usize)> = None;
    for at in touched.words(len) {
        let mut bytes = [0; 8];
        let here = &value[at * 8..len.min(at * 8 + 8)];
        bytes[..here.len()].copy_from_slice(here);
        let other = load(&words[at]) ^ u64::from_le_bytes(bytes);
        // Bytes behind the end of the value do not count.
        let other = if here.len() < 8 { other & ((1 << (8 * here.len())) - 1) } else { other };
        if other == 0 {
            continue;
        }
        let begins = at * 8 + other.trailing_zeros() as usize / 8;
        let ends = at * 8 + 8 - other.leading_zeros() as usize / 8;
        open = Some(match open {
            // A gap of up to four bytes stays in the run: the head of another run would take as
            // many.
            Some((from, to)) if begins <= to + 4 => (from, ends),
            Some((from, to)) => {
                run(from, &value[from..to]);
                (begins, ends)
            }
            None => (begins, ends),
        });
    }
    if let Some((from, to)) = open {
        run(from, &value[from..to]);
    }
    true
}

/// Replaces bytes of a locked row's value from `at` on; `false`, with nothing done, if the value is
/// too short.
pub(crate) fn patch(arena: &Arena, row: Ref, at: usize, bytes: &[u8]) -> bool {
    let (words, len) = value_words(arena, row);
    if at.checked_add(bytes.len()).is_none_or(|end| end > len) {
        return false;
    }
    let (mut at, mut bytes) = (at, bytes);
    while !bytes.is_empty() {
        let within = at % 8;
        let n = bytes.len().min(8 - within);
        let mut word = load(&words[at / 8]).to_le_bytes();
        word[within..within + n].copy_from_slice(&bytes[..n]);
        store(&words[at / 8], u64::from_le_bytes(word));
        (at, bytes) = (at + n, &bytes[n..]);
    }
    true
}

/// The bytes of a row that a write may have changed: a range from the first to the end of the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Touched {
    from: u32,
    to: u32,
}

impl Touched {
    pub(crate) const ALL: Touched = Touched { from: 0, to: u32::MAX };

    /// An empty range touches no byte.
    #[inline]
    pub(crate) fn new(range: std::ops::Range<usize>) -> Touched {
        let [from, to] = [range.start, range.end].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        Touched { from, to }
    }

    /// The smallest range that covers both.
    pub(crate) fn or(self, other: Touched) -> Touched {
        Touched { from: self.from.min(other.from), to: self.to.max(other.to) }
    }

    /// The words of a value of `len` bytes that hold the touched bytes.
    #[inline]
    fn words(self, len: usize) -> std::ops::Range<usize> {
        let (from, to) = (self.from as usize / 8, (self.to as usize).min(len).div_ceil(8));
        from.min(to)..to
    }
}
