//! The values that a program needs and only the server knows.

use super::block::Kind;
use super::carry::given_up;
use super::{Failure, Session, Stream, limit_of};
use crate::access::USER;
use crate::advisory::Advisory as Locks;
use crate::engine::Engine;
use crate::numbering;
use crate::outgoing::Severity;
use crate::settings::Limit;
use crate::shared::now;
use crate::transport::Lost;
use compiler::compiled::{Advisory, AdvisoryKey, AdvisoryWord, Fill, LockMode, Owner, Query};
use sql::bound::Bound;
use sql::catalog::Oid;
use sql::datetime::zone::Zone;
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The numbers that this session has last taken from sequences.
#[derive(Default)]
pub(super) struct Numbers {
    last: HashMap<Oid, i64>,
    latest: Option<i64>,
}

impl Numbers {
    pub fn clear(&mut self) {
        *self = Numbers::default();
    }
}

/// How long a transaction that may hold rows waits for an advisory lock if it sets no
/// `lock_timeout`.
const WITH_ROWS: Duration = Duration::from_secs(60);

/// Takes of one block after another until one has a number. Other sessions may empty a block before
/// this one gets at it, but not for ever.
const MOST_BLOCKS: u32 = 1000;

impl<S: Stream, E: Engine> Session<S, E> {
    /// Appends the values of `fills`.
    pub(super) async fn fill(&mut self, fills: &[Fill], params: &mut Vec<Datum>) -> Result<(), Failure> {
        for fill in fills {
            let value = match fill {
                Fill::Advisory(lock) => self.advisory(lock, params).await?,
                fill => self.value(fill).await?,
            };
            params.push(value);
        }
        Ok(())
    }

    /// The program's first parameters in place of those that the client gave, if it is a call.
    pub(super) async fn called(&mut self, query: &Query, params: &mut Vec<Datum>) -> Result<(), Failure> {
        let Some(call) = &query.call else { return Ok(()) };
        self.fill(&call.fills, params).await?;
        let begun = if self.block.kind == Kind::None { now() } else { self.block.now };
        let zone = self.settings.zone();
        let given = Bound { params: std::mem::take(params), now: begun, zone };
        *params = Expr::eval_all(&call.args, &given.context(), &Vec::new())?;
        Ok(())
    }

    async fn value(&mut self, fill: &Fill) -> Result<Datum, Failure> {
        Ok(match fill {
            Fill::Next(sequence) => Datum::Int(self.next_number(*sequence).await?),
            Fill::Current(sequence) => {
                let number = self.numbers.last.get(sequence).copied();
                Datum::Int(number.ok_or_else(|| self.no_number(*sequence))?)
            }
            Fill::LastValue => {
                let missing =
                    || SqlError::new(SqlState(*b"55000"), "lastval is not yet defined in this session");
                Datum::Int(self.numbers.latest.ok_or_else(missing)?)
            }
            Fill::SetSequence(oid, number, is_taken) => {
                let sequence = self.sequence(*oid)?;
                numbering::set(&self.shared, &sequence, *number, *is_taken).await?;
                Datum::Int(*number)
            }
            Fill::User => Datum::Text(USER.into()),
            Fill::Database => Datum::Text(self.database.clone()),
            Fill::Setting(name) => Datum::Text(self.settings.get(name)?.to_owned()),
            Fill::Backend => Datum::Int(self.registered.id.into()),
            Fill::StatementTime | Fill::ClockTime => Datum::Timestamp(now()),
            Fill::Sleep(time) => {
                self.sleep(*time).await?;
                Datum::Text(String::new())
            }
            Fill::Given(_) | Fill::Advisory(_) => Datum::Null,
        })
    }

    /// An advisory lock, by the numbers that the parameters give.
    async fn advisory(&mut self, lock: &Advisory, params: &[Datum]) -> Result<Datum, Failure> {
        let given = Bound { params: params.to_vec(), now: now(), zone: self.settings.zone() };
        let key = match Expr::eval_all(&lock.key, &given.context(), &Vec::new())?.as_slice() {
            [] => None,
            [Datum::Int(one)] => Some(AdvisoryKey::One(*one)),
            [Datum::Int(one), Datum::Int(two)] => Some(AdvisoryKey::Two(*one as i32, *two as i32)),
            _ => return Ok(Datum::Null),
        };
        if let AdvisoryWord::Lock(Owner::Transaction) | AdvisoryWord::TryLock(Owner::Transaction) = lock.does
        {
            self.block.has_advisory = true;
        }
        let (locks, session) = (Arc::clone(&self.shared), self.registered.id);
        let locks = &locks.advisory;
        Ok(match (lock.does, key) {
            (AdvisoryWord::Lock(owner), Some(key)) => {
                if !locks.try_take(session, key, lock.mode, owner)? {
                    self.wait_for(locks, (key, lock.mode), owner).await?;
                }
                Datum::Text(String::new())
            }
            (AdvisoryWord::TryLock(owner), Some(key)) => {
                Datum::Bool(locks.try_take(session, key, lock.mode, owner)?)
            }
            (AdvisoryWord::Unlock, Some(key)) => {
                let had = locks.give_back(session, key, lock.mode);
                if !had {
                    let mode = if lock.mode == LockMode::Exclusive { "ExclusiveLock" } else { "ShareLock" };
                    let message = format!("you don't own a lock of type {mode}");
                    self.notice(Severity::Warning, SqlState(*b"01000"), &message);
                }
                Datum::Bool(had)
            }
            _ => {
                locks.unlock_all(session);
                Datum::Text(String::new())
            }
        })
    }

    async fn wait_for(
        &mut self,
        locks: &Locks,
        (key, mode): (AdvisoryKey, LockMode),
        owner: Owner,
    ) -> Result<(), Failure> {
        // A transaction that has rows might wait for one that waits for these.
        let has_rows = self.block.conversation.is_some();
        let patience = self.settings.limit(Limit::Lock).or_else(|| has_rows.then_some(WITH_ROWS));
        let limit = self.settings.limit(Limit::Statement);
        let late = || {
            SqlError::new(SqlState(*b"55P03"), "canceling statement due to lock timeout")
                .with_detail("Another session has the advisory lock.")
                .with_hint("Take it at the begin of the transaction, or set lock_timeout.")
        };
        tokio::select! {
            biased;
            taken = locks.take(self.registered.id, key, mode, owner) => Ok(taken?),
            () = limit_of(patience) => Err(late().into()),
            error = given_up(&self.registered, limit) => Err(error.into()),
            () = self.transport.gone() => Err(Lost::Gone.into()),
        }
    }

    async fn sleep(&mut self, time: Duration) -> Result<(), Failure> {
        let limit = self.settings.limit(Limit::Statement);
        tokio::select! {
            biased;
            () = tokio::time::sleep(time) => Ok(()),
            error = given_up(&self.registered, limit) => Err(error.into()),
            () = self.transport.gone() => Err(Lost::Gone.into()),
        }
    }

    async fn next_number(&mut self, oid: Oid) -> Result<i64, SqlError> {
        let sequence = self.sequence(oid)?;
        for _ in 0..MOST_BLOCKS {
            if let Some(number) = self.shared.sequences.next(&sequence) {
                self.numbers.last.insert(oid, number);
                self.numbers.latest = Some(number);
                return Ok(number);
            }
            numbering::refill(&self.shared, &sequence).await?;
        }
        Err(SqlError::new(SqlState::INTERNAL, format!("sequence \"{}\" gives no number", sequence.name)))
    }

    fn sequence(&self, oid: Oid) -> Result<sql::catalog::Sequence, SqlError> {
        let missing = || SqlError::new(SqlState::UNDEFINED_TABLE, "the sequence does not exist any more");
        self.catalog().sequences.get(&oid).cloned().ok_or_else(missing)
    }

    fn no_number(&self, oid: Oid) -> SqlError {
        let name = self.sequence(oid).map(|sequence| sequence.name).unwrap_or_default();
        let message = format!("currval of sequence \"{name}\" is not yet defined in this session");
        SqlError::new(SqlState(*b"55000"), message)
    }
}

/// The values of `EXECUTE name (args)`, for parameters of these types, in the session's zone.
pub(super) fn arguments(
    name: &str,
    args: &[(Expr, SqlType)],
    types: &[SqlType],
    zone: &Zone,
) -> Result<Vec<Datum>, SqlError> {
    if args.len() != types.len() {
        let message = format!("wrong number of parameters for prepared statement \"{name}\"");
        let detail = format!("Expected {} parameters but got {}.", types.len(), args.len());
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_detail(detail));
    }
    args.iter()
        .zip(types)
        .map(|((expr, from), to)| crate::format::evaluate(expr, *from, *to, (now(), zone)))
        .collect()
}
