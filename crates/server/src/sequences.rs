//! Numbers of sequences. The server takes blocks of them from the engine, each durable before the
//! first of its numbers is given out, and gives them to its sessions. A restart loses the rest of
//! the blocks: gaps are allowed, equal numbers are not.

use crate::engine::{Engine, RunError, done, refusal};
use crate::shared::Shared;
use sql::catalog::{Oid, Sequence};
use sql::database::{Answer, Request};
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Numbers in a block.
const BLOCK: u32 = 1000;

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

/// Takes the next block from the engine.
///
/// # Errors
/// At the sequence's end, and when the engine cannot.
pub async fn refill<E: Engine>(shared: &Shared<E>, sequence: &Sequence) -> Result<(), SqlError> {
    let request = Request::TakeNumbers { sequence: sequence.clone(), most: BLOCK };
    match repeated(shared, request).await? {
        Answer::Numbers { first, count } => {
            shared.sequences.put(sequence.oid, Block { next: first, left: count.into() });
            Ok(())
        }
        other => Err(refusal(other).into_sql()),
    }
}

/// Sets the number of a sequence, and whether it was given out already.
///
/// # Errors
/// 22003 for a number outside of the sequence, and when the engine cannot.
pub async fn set<E: Engine>(
    shared: &Shared<E>,
    sequence: &Sequence,
    number: i64,
    is_taken: bool,
) -> Result<(), SqlError> {
    if !(sequence.min..=sequence.max).contains(&number) {
        let message = format!(
            "setval: value {number} is out of bounds for sequence \"{}\" ({}..{})",
            sequence.name, sequence.min, sequence.max
        );
        return Err(SqlError::new(SqlState::NUMERIC_OUT_OF_RANGE, message));
    }
    let request = Request::SetNumber { sequence: sequence.oid, number, is_taken };
    let answer = repeated(shared, request).await;
    shared.sequences.forget(sequence.oid);
    done(answer?).map_err(RunError::into_sql)
}

/// Conflicts with other sessions that refill or set the same sequence.
const RUNS: u32 = 10;

async fn repeated<E: Engine>(shared: &Shared<E>, request: Request) -> Result<Answer, SqlError> {
    let mut run = 1;
    loop {
        match shared.engine.once(request.clone()).await {
            Err(error) if error.is_transient() && run < RUNS => run += 1,
            answer => return answer.map_err(RunError::into_sql),
        }
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
