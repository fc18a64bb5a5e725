//! Overwriting a row, and the older versions that snapshots read.

use super::{
    Lengths, OLDER, TID, Touched, lengths, load, older as older_of, outside_words, read_while, store,
    store_words,
};
use crate::arena::{Arena, Full, Local, Ref, rounded};
use crate::epoch::Epochs;
use crate::node::{ROW_KEY, ROW_LENGTHS};
use crate::tid::{ABSENT, LOCKED, PREPARED, epoch, of};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Blocks that a write needs, allocated before it is certain that the write happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Prepared {
    /// For the version that is overwritten, if a snapshot may want it.
    older: Ref,
    /// For a value that does not fit into the row.
    outside: Ref,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// A snapshot may want the version that is overwritten.
    Older,
    Nothing,
}

/// Allocates the blocks for overwriting a locked row with `value` bytes.
#[inline]
pub(crate) fn prepare(
    arena: &Arena,
    local: &mut Local,
    row: Ref,
    value: usize,
    keep: Keep,
) -> Result<Prepared, Full> {
    let len = lengths(arena, row);
    let mut prepared = Prepared::default();
    if keep == Keep::Older {
        prepared.older = local.alloc(arena, older_words(len))?;
    }
    if value.div_ceil(8) > len.room() {
        match local.alloc(arena, 1 + value.div_ceil(8)) {
            Ok(outside) => {
                store(&arena.block(outside, 1)[0], rounded(1 + value.div_ceil(8)) as u64 - 1);
                prepared.outside = outside;
            }
            Err(Full) => {
                cancel(arena, local, row, prepared);
                return Err(Full);
            }
        }
    }
    Ok(prepared)
}

fn older_words(len: Lengths) -> usize {
    rounded(ROW_KEY + if len.is_outside() { 1 } else { len.value().div_ceil(8).max(1) })
}

/// Gives back the blocks that [`prepare`] allocated, before the row is unlocked.
pub(crate) fn cancel(arena: &Arena, local: &mut Local, row: Ref, prepared: Prepared) {
    if prepared.older != Ref::NONE {
        local.free(prepared.older, older_words(lengths(arena, row)));
    }
    if prepared.outside != Ref::NONE {
        local.free(prepared.outside, outside_words(arena, prepared.outside));
    }
}

/// Overwrites a locked row; `None` makes it absent. If the new value has the same length as the old
/// one, both are equal outside `touched`. Ends the lock with the word `tid`. Returns the older
/// version if one was kept.
#[inline]
#[expect(clippy::too_many_arguments, reason = "what a write is, one by one")]
pub(crate) fn overwrite(
    arena: &Arena,
    local: &mut Local,
    epochs: &Epochs,
    row: Ref,
    value: Option<&[u8]>,
    touched: Touched,
    prepared: Prepared,
    tid: u64,
) -> Ref {
    let len = lengths(arena, row);
    let block = arena.block(row, len.words());
    let at = len.value_at();
    // From here on snapshots do not read it either (`read_past`).
    store(&block[TID], load(&block[TID]) & !PREPARED);
    fence(Ordering::Release);
    if prepared.older != Ref::NONE {
        keep(arena, block, len, prepared.older);
    } else if len.is_outside() {
        let outside = Ref(load(&block[at]));
        local.retire(epochs, outside, outside_words(arena, outside));
    }
    let value = value.unwrap_or_default();
    if prepared.outside == Ref::NONE {
        let words = match len.value() == value.len() && !len.is_outside() {
            true => touched.words(value.len()),
            false => 0..value.len().div_ceil(8),
        };
        store_words(&block[at + words.start..], &value[8 * words.start..value.len().min(8 * words.end)]);
    } else {
        let words = outside_words(arena, prepared.outside);
        store_words(&arena.block(prepared.outside, words)[1..], value);
        store(&block[at], prepared.outside.0);
    }
    store(&block[ROW_LENGTHS], len.with(value.len(), prepared.outside != Ref::NONE).0);
    block[TID].store(tid, Ordering::Release);
    prepared.older
}

/// Copies a locked row's value to an older version, which becomes the head of the chain.
fn keep(arena: &Arena, block: &[AtomicU64], len: Lengths, older: Ref) {
    let words = older_words(len);
    let copy = arena.block(older, words);
    let value = &block[len.value_at()..];
    for (to, from) in copy[ROW_KEY..].iter().zip(value) {
        store(to, load(from));
    }
    store(&copy[TID], load(&block[TID]) & !(LOCKED | PREPARED));
    let oldest = older_of(&block[OLDER]);
    store(&copy[OLDER], oldest.0);
    store(&copy[ROW_LENGTHS], Lengths::new(0, words - ROW_KEY).with(len.value(), len.is_outside()).0);
    // An addition keeps the count of readers in the upper bits, which may change at the same time.
    block[OLDER].fetch_add(older.0.wrapping_sub(oldest.0), Ordering::Relaxed);
}

/// Copies the value as it was at the end of epoch `at` to `out`; `None` when there was no such row
/// then. The second value is the epoch of the version that was found, 0 if the row is newer. `Err`
/// holds the word of a row that is being overwritten. A row that is only prepared still has its old
/// value.
pub(crate) fn read_past(
    arena: &Arena,
    row: Ref,
    at: u64,
    out: &mut Vec<u8>,
) -> Result<(Option<()>, u64), u64> {
    let mut version = row;
    while version != Ref::NONE {
        let block = arena.block(version, ROW_KEY);
        let now = read_while(arena, version, out, |word| word & (LOCKED | PREPARED) != LOCKED)?;
        if epoch(now) <= at {
            return Ok(((now & ABSENT == 0).then_some(()), epoch(of(now))));
        }
        let older = older_of(&block[OLDER]);
        fence(Ordering::Acquire);
        if block[TID].load(Ordering::Relaxed) == now {
            version = older;
        }
    }
    Ok((None, 0))
}
