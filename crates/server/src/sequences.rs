//! Numbers of sequences. The server takes blocks of them from the engine, each durable before the
//! first of its numbers is given out, and gives them to its sessions. A restart loses the rest of
//! the blocks: gaps are allowed, equal numbers are not.

use sql::catalog::{Oid, Sequence};
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Numbers in a block.
pub const BLOCK: i64 = 1000;

/// The blocks of all sequences.
#[derive(Default)]
pub struct Sequences {
    blocks: Mutex<HashMap<Oid, Block>>,
}

/// What is left of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    pub next: i64,
    pub left: i64,
}

impl Sequences {
    /// The next number, if a block has one.
    pub fn next(&self, sequence: &Sequence) -> Option<i64> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let block = blocks.get_mut(&sequence.oid).filter(|block| block.left > 0)?;
        let number = block.next;
        block.left -= 1;
        block.next = block.next.saturating_add(sequence.increment);
        Some(number)
    }

    /// Adds a new block. If another session has added one meanwhile, its numbers are lost.
    pub fn put(&self, sequence: Oid, block: Block) {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).insert(sequence, block);
    }

    /// Forgets a block, for a sequence that was set or dropped.
    pub fn forget(&self, sequence: Oid) {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner).remove(&sequence);
    }
}

/// The block after `last`, the last number that was taken, and what `last` is then. Without `last`
/// no number was taken yet.
///
/// # Errors
/// 2200H at the end of a sequence that does not start again.
pub fn block_after(sequence: &Sequence, last: Option<i64>, most: i64) -> Result<(Block, i64), SqlError> {
    let step = sequence.increment;
    let (least, greatest) = (sequence.min, sequence.max);
    let next = match last {
        None => Some(sequence.start),
        Some(last) => last.checked_add(step).filter(|next| (least..=greatest).contains(next)),
    };
    let next = match next {
        Some(next) => next,
        None if sequence.cycle => if step > 0 { least } else { greatest },
        None => {
            let (word, bound) = if step > 0 { ("maximum", greatest) } else { ("minimum", least) };
            let message =
                format!("nextval: reached {word} value of sequence \"{}\" ({bound})", sequence.name);
            return Err(SqlError::new(SqlState(*b"2200H"), message));
        }
    };
    let room = if step > 0 { i128::from(greatest) - i128::from(next) } else { i128::from(next) - i128::from(least) };
    let fit = room / i128::from(step.unsigned_abs().max(1)) + 1;
    let left = fit.clamp(1, i128::from(most.max(1))) as i64;
    Ok((Block { next, left }, next.saturating_add(step.saturating_mul(left - 1))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::SqlType;

    fn sequence(increment: i64, min: i64, max: i64, cycle: bool) -> Sequence {
        let start = if increment > 0 { min } else { max };
        Sequence { oid: Oid(1), name: "s".into(), ty: SqlType::Int8, start, increment, min, max, cycle, owned_by: None }
    }

    #[test]
    fn blocks_follow_each_other_up_to_the_end() {
        let s = sequence(3, 1, 20, false);
        let (first, last) = block_after(&s, None, 4).unwrap();
        assert_eq!((first, last), (Block { next: 1, left: 4 }, 10));
        let (second, last) = block_after(&s, Some(last), 100).unwrap();
        assert_eq!((second, last), (Block { next: 13, left: 3 }, 19));
        assert_eq!(block_after(&s, Some(last), 100).unwrap_err().state, SqlState(*b"2200H"));
        let s = sequence(-1, -3, -1, true);
        let (first, last) = block_after(&s, None, 100).unwrap();
        assert_eq!((first, last), (Block { next: -1, left: 3 }, -3));
        assert_eq!(block_after(&s, Some(last), 2).unwrap().0, Block { next: -1, left: 2 });
    }

    #[test]
    fn numbers_come_in_order_and_once() {
        let (sequences, s) = (Sequences::default(), sequence(2, 1, 100, false));
        assert_eq!(sequences.next(&s), None);
        sequences.put(s.oid, block_after(&s, None, 2).unwrap().0);
        assert_eq!([sequences.next(&s), sequences.next(&s), sequences.next(&s)], [Some(1), Some(3), None]);
    }
}
