//! Numbers of sequences. The server takes blocks of them from the engine, each durable before the
//! first of its numbers is given out, and gives them to its sessions. A restart loses the rest of
//! the blocks: gaps are allowed, equal numbers are not.

use sql::catalog::{Oid, Sequence};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

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

#[cfg(test)]
mod tests {
    use super::*;
    use sql::SqlType;

    #[test]
    fn numbers_come_in_order_and_once() {
        let sequences = Sequences::default();
        let s = Sequence {
            oid: Oid(1),
            name: "s".into(),
            ty: SqlType::Int8,
            start: 1,
            increment: 2,
            min: 1,
            max: 100,
            cycle: false,
            owned_by: None,
        };
        assert_eq!(sequences.next(&s), None);
        sequences.put(s.oid, Block { next: 1, left: 2 });
        assert_eq!([sequences.next(&s), sequences.next(&s), sequences.next(&s)], [Some(1), Some(3), None]);
    }
}
