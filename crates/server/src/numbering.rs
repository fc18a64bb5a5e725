//! Takes blocks of numbers from the engine, and sets sequences.

use crate::engine::{Engine, RunError, done, refusal};
use crate::sequences::Block;
use crate::shared::Shared;
use sql::catalog::Sequence;
use sql::database::{Answer, Request};
use sql::{SqlError, SqlState};

/// Numbers in a block.
const BLOCK: u32 = 1000;

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
