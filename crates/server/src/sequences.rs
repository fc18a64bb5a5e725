//! Numbers of sequences. The server takes blocks of them from the engine, each durable before the
//! first of its numbers is given out, and gives them to its sessions. A restart loses the rest of
//! the blocks: gaps are allowed, equal numbers are not.

use crate::engine::{Conversation, Engine, RunError, outcomes};
use crate::shared::{Shared, now};
use sql::catalog::{Oid, Sequence, Slots, Store};
use sql::database::{Command, Request};
use sql::program::{
    Assignment, Conflict, Insert, InsertRows, Joined, Output, Path, Program, RowLock, Select, Source, Statement,
    Stored, StoredColumn,
};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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

/// The physical table of the sequences' numbers.
pub const STORE: Store = Store(1);

/// A row for each sequence that was used: its number, the last number that was taken or will be
/// next, and whether it was taken.
fn table() -> Arc<Stored> {
    let column = |name: &str, ty| StoredColumn { name: name.into(), ty, nullable: false, missing: Datum::Null };
    Arc::new(Stored {
        name: "sequences".into(),
        store: STORE,
        columns: vec![
            column("sequence", SqlType::Int8),
            column("number", SqlType::Int8),
            column("is_taken", SqlType::Bool),
        ],
        key: vec![0],
        key_name: "sequences_pkey".into(),
        slots: Slots::Hash(vec![0]),
        indexes: Vec::new(),
        layout: OnceLock::new(),
    })
}

/// Reads a sequence's row, for a change.
fn reading(sequence: Oid) -> Program {
    let key = vec![vec![Expr::Const(Datum::Int(sequence.0.into()))]];
    let source = Source { table: table(), path: Path::Keys(key), filter: None, lock: RowLock::Update };
    let output = |name: &str, column, ty| Output { name: name.into(), expr: Expr::Column(column), ty };
    let select = Select {
        sources: vec![Joined { source, is_outer: false }],
        grouping: None,
        having: None,
        output: vec![output("number", 1, SqlType::Int8), output("is_taken", 2, SqlType::Bool)],
        distinct: false,
        order: Vec::new(),
        is_ordered: false,
        limit: None,
        offset: None,
        hidden: 0,
    };
    Program { statements: vec![Statement::Select(select)], params: Vec::new(), only_reads: false }
}

/// Writes a sequence's row.
pub fn writing(sequence: Oid, number: i64, is_taken: bool) -> Program {
    let values = [Datum::Int(sequence.0.into()), Datum::Int(number), Datum::Bool(is_taken)].map(Expr::Const);
    let assign = |column: u16| Assignment { column, value: values[usize::from(column)].clone() };
    let insert = Insert {
        table: table(),
        conflict: Some(Conflict { index: None, update: Some((vec![assign(1), assign(2)], None)) }),
        rows: InsertRows::Values(vec![values.to_vec()]),
        checks: Vec::new(),
        references: Vec::new(),
        returning: Vec::new(),
    };
    Program { statements: vec![Statement::Insert(insert)], params: Vec::new(), only_reads: false }
}

/// Conflicts with other sessions that refill or set the same sequence.
const RUNS: u32 = 10;

/// Takes the next block from the engine.
///
/// # Errors
/// At the sequence's end, and when the engine cannot.
pub async fn refill<E: Engine>(shared: &Shared<E>, sequence: &Sequence) -> Result<(), SqlError> {
    let mut run = 1;
    loop {
        match take(shared, sequence).await {
            Ok(block) => {
                shared.sequences.put(sequence.oid, block);
                return Ok(());
            }
            Err(error) if error.is_transient() && run < RUNS => run += 1,
            Err(error) => return Err(error.into_sql()),
        }
    }
}

async fn take<E: Engine>(shared: &Shared<E>, sequence: &Sequence) -> Result<Block, RunError> {
    let mut conversation = shared.engine.begin();
    let read = shared.call(Arc::new(reading(sequence.oid)), Vec::new(), now());
    let rows = outcomes(conversation.command(Command::Run(read)).await?)?.pop().unwrap_or_default().rows;
    let (block, last) = match rows.first().map(Vec::as_slice) {
        Some([Datum::Int(next), Datum::Bool(false)]) => {
            let from = Sequence { start: *next, ..sequence.clone() };
            block_after(&from, None, BLOCK)
        }
        Some([Datum::Int(last), _]) => block_after(sequence, Some(*last), BLOCK),
        _ => block_after(sequence, None, BLOCK),
    }
    .map_err(RunError::Sql)?;
    let write = shared.call(Arc::new(writing(sequence.oid, last, true)), Vec::new(), now());
    outcomes(conversation.command(Command::Run(write)).await?)?;
    conversation.commit().await?;
    Ok(block)
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
    let program = Arc::new(writing(sequence.oid, number, is_taken));
    let call = shared.call(program, Vec::new(), now());
    let answer = shared.engine.once(Request::Once(call)).await.and_then(outcomes);
    shared.sequences.forget(sequence.oid);
    answer.map(drop).map_err(RunError::into_sql)
}

#[cfg(test)]
mod tests {
    use super::*;

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
