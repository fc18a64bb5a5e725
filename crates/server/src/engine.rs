//! The interface of a session to the engine that runs its programs.

use sql::database::{Answer, Command, Request};
use sql::program::Outcome;
use sql::{SqlError, SqlState};
use std::future::Future;
use txn::Abort;

/// Why a program did not run to its end. It had no effect, but for [`RunError::Unknown`].
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RunError {
    /// The statement is at fault.
    #[error("{0}")]
    Sql(SqlError),
    /// The engine ended the transaction.
    #[error("{0}")]
    Abort(Abort),
    /// The engine cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The answer is missing: the transaction may have committed or not.
    #[error("the answer of the engine is missing")]
    Unknown,
}

/// What runs programs. Requests of all sessions go through one value.
pub trait Engine: Send + Sync + 'static {
    type Conversation: Conversation;

    /// Runs a request as one transaction, durable at the end. An abandoned call may still commit.
    fn once(&self, request: Request) -> impl Future<Output = Result<Answer, RunError>> + Send;

    /// The slots that a request surely reaches, with their instances, as far as they are known.
    fn reached(&self, _request: &Request) -> Vec<(u32, Option<u32>)> {
        Vec::new()
    }

    /// A transaction of several commands. It begins with the first of them.
    fn begin(&self) -> Self::Conversation;

    /// The runtime of one thread on which the next session is to run, because it is near to the
    /// engine; `None` for the runtime that accepts.
    fn station(&self) -> Option<tokio::runtime::Handle> {
        None
    }

    /// The number of requests so far that began at each instance, by its number.
    fn requests(&self) -> Vec<u64> {
        Vec::new()
    }

    /// The island that has a slot of each table; `None` if there is one for all.
    fn island_of(&self, _slot: u32) -> Option<u32> {
        None
    }
}

/// A transaction under way. Dropping it rolls it back. After any error it is over.
pub trait Conversation: Send + Sync + 'static {
    /// Obeys any command but `Commit` and `Rollback`. After [`Answer::Failed`] a part of the
    /// command may be done: the transaction has to be rolled back, at least to a savepoint.
    fn command(&mut self, command: Command) -> impl Future<Output = Result<Answer, RunError>> + Send;

    fn commit(self) -> impl Future<Output = Result<(), RunError>> + Send;

    fn rollback(self) -> impl Future<Output = ()> + Send;
}

/// The outcomes of a program.
///
/// # Errors
/// When the program failed, or the answer is of another kind.
pub fn outcomes(answer: Answer) -> Result<Vec<Outcome>, RunError> {
    match answer {
        Answer::Outcomes(outcomes) => Ok(outcomes),
        other => Err(refusal(other)),
    }
}

/// The error of an answer that is not of the expected kind.
pub fn refusal(answer: Answer) -> RunError {
    match answer {
        Answer::Failed(error) => RunError::Sql(error),
        _ => unexpected(),
    }
}

/// Success, without more.
///
/// # Errors
/// As [`outcomes`].
pub fn done(answer: Answer) -> Result<(), RunError> {
    if answer == Answer::Done { Ok(()) } else { Err(refusal(answer)) }
}

pub(crate) fn unexpected() -> RunError {
    RunError::Sql(SqlError::new(SqlState::INTERNAL, "the engine's answer does not fit the request"))
}

impl RunError {
    /// Whether the same program may succeed if it runs again.
    pub fn is_transient(&self) -> bool {
        matches!(self, RunError::Abort(abort) if abort.is_transient())
    }

    /// As the client sees it.
    pub fn into_sql(self) -> SqlError {
        match self {
            RunError::Sql(error) => error,
            RunError::Abort(abort) => of_abort(abort),
            RunError::Unreachable(why) => {
                SqlError::new(SqlState(*b"08006"), why).with_detail("The transaction had no effect.")
            }
            RunError::Unknown => SqlError::new(
                SqlState(*b"08007"),
                "the answer of the engine is missing: the transaction may have committed or not",
            )
            .with_hint("Look whether its changes are there before you repeat it."),
        }
    }
}

fn of_abort(abort: Abort) -> SqlError {
    let retry = "The transaction had no effect. Repeat it.";
    let (state, message, hint) = match abort {
        Abort::Deadlock => (SqlState::DEADLOCK_DETECTED, "deadlock detected", Some(retry)),
        Abort::Conflict => (
            SqlState::SERIALIZATION_FAILURE,
            "could not serialize access due to concurrent update",
            Some(retry),
        ),
        Abort::LockTimeout => (
            SqlState::SERIALIZATION_FAILURE,
            "a lock was not granted in time: another transaction holds it, or waits for this one",
            Some(retry),
        ),
        Abort::Participant | Abort::Crowded | Abort::Overloaded => {
            (SqlState::SERIALIZATION_FAILURE, "the transaction was ended by the engine", Some(retry))
        }
        Abort::InstanceDown => (SqlState(*b"08006"), "an instance of the database is down", Some(retry)),
        Abort::Stopping | Abort::Abandoned => {
            (SqlState(*b"57P01"), "terminating connection due to administrator command", None)
        }
        Abort::NoSpace => (
            SqlState(*b"53100"),
            "the data file or the memory for pages is full",
            Some("Free space on the device, or start the server with more --memory."),
        ),
        Abort::TooLong => (
            SqlState::PROGRAM_LIMIT,
            "a statement, its rows or its result is longer than a message of 16 MiB",
            Some("Ask for fewer rows at once, or insert fewer."),
        ),
        Abort::Fault => (SqlState(*b"58030"), "the database has met an I/O error or corruption", None),
        Abort::User(_) | Abort::BadRequest | Abort::NeedsLocks | Abort::NotHere(_) | Abort::AfterLast => {
            (SqlState::INTERNAL, "the engine refused the program", None)
        }
    };
    let error = SqlError::new(state, message).with_detail(format!("{}: {abort}.", abort.name()));
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}
