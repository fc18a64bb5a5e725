//! The transaction of a session: begun by a statement, by several in one text, or by the first of
//! several that the client sends before one Sync.

use super::{Failure, Session, Stream};
use crate::counters::Counters;
use crate::emptying;
use crate::engine::{Conversation, Engine, RunError, done, refusal};
use crate::guards::Hold;
use crate::language::{Prepared, Ready};
use crate::outgoing::Status;
use crate::settings::Limit;
use crate::shared::now;
use sql::catalog::{Catalog, Oid};
use sql::database::{Answer, Command};
use sql::{SqlError, SqlState};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    None,
    /// It ends with the text, or with the next Sync.
    Implicit,
    /// It ends with a statement of the client.
    Explicit,
}

pub(super) struct Block<C> {
    pub kind: Kind,
    /// After an error: nothing runs until the client ends the transaction, or goes back to a
    /// savepoint.
    pub failed: bool,
    pub read_only: bool,
    /// None before the first program, and after the engine has ended the transaction.
    pub conversation: Option<C>,
    /// Whether the engine has ended it: no savepoint is left.
    pub lost: bool,
    pub savepoints: Vec<Savepoint>,
    /// The tables of which the session holds a guard.
    pub held: Vec<Oid>,
    /// When it began, in microseconds since 2000-01-01.
    pub now: i64,
    pub changing: Option<Changing>,
    /// Whether it may have advisory locks, which its end gives back.
    pub has_advisory: bool,
}

/// A point of a transaction.
pub(super) struct Savepoint {
    pub name: String,
    /// Its number in the conversation.
    pub number: u64,
    /// The catalog of that moment, if the transaction had changed it.
    pub catalog: Option<Arc<Catalog>>,
}

/// A change of the catalog that has not committed.
pub(super) struct Changing {
    pub catalog: Arc<Catalog>,
    /// No other transaction changes the catalog meanwhile.
    pub _alone: tokio::sync::OwnedMutexGuard<()>,
}

impl<C> Default for Block<C> {
    fn default() -> Block<C> {
        Block {
            kind: Kind::None,
            failed: false,
            read_only: false,
            conversation: None,
            lost: false,
            savepoints: Vec::new(),
            held: Vec::new(),
            now: 0,
            changing: None,
            has_advisory: false,
        }
    }
}

impl<C> Block<C> {
    pub fn status(&self) -> Status {
        match self.kind {
            Kind::None => Status::Idle,
            Kind::Implicit | Kind::Explicit if self.failed => Status::Failed,
            Kind::Implicit | Kind::Explicit => Status::InTransaction,
        }
    }
}

/// The error of a statement in a failed transaction.
pub(super) fn in_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(SqlState(*b"25P02"), message)
}

impl<S: Stream, E: Engine> Session<S, E> {
    /// The catalog as this transaction sees it.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        match &self.block.changing {
            Some(changing) => Arc::clone(&changing.catalog),
            None => self.shared.catalog(),
        }
    }

    /// A statement as compiled for the catalog that this transaction sees; `None` for an empty
    /// text.
    pub(super) fn ready_of(&self, prepared: &Prepared) -> Result<Option<Arc<Ready>>, SqlError> {
        let is_shared = self.block.changing.is_none();
        match prepared.kept_for(self.shared.version()).filter(|_| is_shared) {
            Some(ready) => Ok(Some(ready)),
            None => prepared.ready(&self.catalog(), is_shared),
        }
    }

    /// A statement as compiled for the present catalog. Its tables stay as they are until the
    /// guards are released. `None` for an empty text.
    pub(super) async fn guarded(&mut self, prepared: &Prepared) -> Result<Option<Arc<Ready>>, SqlError> {
        loop {
            let version = self.shared.version();
            let Some(ready) = self.ready_of(prepared)? else { return Ok(None) };
            let session = self.registered.id;
            while let Some(table) = self.shared.guards.share(session, &ready.tables, &mut self.block.held) {
                self.guard(table, Hold::Shared).await?;
            }
            if self.shared.version() == version {
                return Ok(Some(ready));
            }
        }
    }

    pub(super) async fn guard(&mut self, table: Oid, hold: Hold) -> Result<(), SqlError> {
        if hold == Hold::Shared && self.block.held.contains(&table) {
            return Ok(());
        }
        if self.shared.guards.try_take(self.registered.id, table, hold) {
            self.block.held.push(table);
            return Ok(());
        }
        let patience = self.settings.limit(Limit::Lock).unwrap_or(Duration::from_secs(365 * 86_400));
        tokio::select! {
            biased;
            taken = self.shared.guards.take(self.registered.id, table, hold, patience) => taken?,
            error = self.given_up(self.settings.limit(Limit::Statement)) => return Err(error),
        }
        self.block.held.push(table);
        Ok(())
    }

    /// Returns the guards of a statement that was a transaction by itself.
    pub(super) fn release_guards(&mut self) {
        if self.block.kind == Kind::None {
            self.shared.guards.release(self.registered.id, self.block.held.drain(..));
            self.end_advisory();
        }
    }

    /// Gives back the advisory locks of a transaction that is over.
    fn end_advisory(&mut self) {
        if std::mem::take(&mut self.block.has_advisory) {
            self.shared.advisory.end_transaction(self.registered.id);
        }
    }

    pub(super) fn begin(&mut self, kind: Kind) {
        if self.block.kind == Kind::None {
            self.block.now = now();
            self.block.read_only = self.settings.is_on("default_transaction_read_only");
        }
        self.block.kind = kind;
    }

    /// The conversation of the transaction, begun if this is its first program.
    pub(super) fn conversation(&mut self) -> Result<&mut E::Conversation, SqlError> {
        if self.block.lost {
            return Err(in_failed().with_detail("The engine has ended the transaction."));
        }
        Ok(self.block.conversation.get_or_insert_with(|| self.shared.engine.begin()))
    }

    /// Ends the transaction with its effects, if it has not failed. Returns whether it committed.
    ///
    /// # Errors
    /// Why it could not commit; it is over all the same.
    pub(super) async fn commit(&mut self) -> Result<bool, SqlError> {
        if self.block.failed || self.block.lost {
            self.roll_back().await;
            return Ok(false);
        }
        let outcome = match self.block.conversation.take() {
            Some(conversation) => conversation.commit().await.map_err(RunError::into_sql),
            None => Ok(()),
        };
        if let (Ok(()), Some(changing)) = (&outcome, &self.block.changing) {
            self.shared.publish(Arc::clone(&changing.catalog));
            if !changing.catalog.emptying.is_empty() {
                tokio::spawn(emptying::empty(Arc::clone(&self.shared)));
            }
        }
        if outcome.is_ok() {
            Counters::add(&self.shared.counters.commits);
        }
        self.over(outcome.is_ok());
        outcome.map(|()| true)
    }

    /// Ends the transaction without effect.
    pub(super) async fn roll_back(&mut self) {
        if self.block.kind == Kind::None {
            return;
        }
        Counters::add(&self.shared.counters.rollbacks);
        if let Some(conversation) = self.block.conversation.take() {
            conversation.rollback().await;
        }
        self.over(false);
    }

    fn over(&mut self, commits: bool) {
        self.end_advisory();
        let held = std::mem::take(&mut self.block.held);
        self.block = Block::default();
        self.shared.guards.release(self.registered.id, held);
        if self.settings.have_changed() {
            let before = self.settings.reported();
            self.settings.end_transaction(commits);
            self.report(&before);
        }
        self.portals.clear();
        self.end_cursors(commits);
    }

    /// Ends the transaction that a text or a run of messages began, without its effects: after an
    /// error.
    pub(super) async fn end_implicit(&mut self) {
        if self.block.kind == Kind::Implicit {
            self.roll_back().await;
        }
        self.release_guards();
    }

    /// An error has happened. What cannot be undone to a savepoint is rolled back at once, so that
    /// nothing waits for its locks.
    pub(super) async fn fail(&mut self) {
        if self.block.kind == Kind::None {
            self.release_guards();
            return;
        }
        self.block.failed = true;
        if self.block.savepoints.is_empty() {
            self.block.lost = true;
            if let Some(conversation) = self.block.conversation.take() {
                conversation.rollback().await;
            }
            self.end_advisory();
        }
    }

    pub(super) async fn savepoint(&mut self, name: String) -> Result<(), Failure> {
        self.require_block("SAVEPOINT")?;
        let number = match self.conversation()?.command(Command::Savepoint).await {
            Ok(Answer::Point(number)) => number,
            Ok(other) => return Err(refusal(other).into_sql().into()),
            Err(error) => return Err(self.ended(error).into()),
        };
        let catalog = self.block.changing.as_ref().map(|changing| Arc::clone(&changing.catalog));
        self.block.savepoints.push(Savepoint { name, number, catalog });
        Ok(())
    }

    pub(super) async fn roll_back_to(&mut self, name: &str) -> Result<(), Failure> {
        self.require_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        let number = self.block.savepoints[at].number;
        let undone = self.conversation()?.command(Command::UndoTo(number)).await;
        if let Err(error) = undone.and_then(done) {
            return Err(self.ended(error).into());
        }
        // Definitions since then are undone with their rows. Without any before it, the catalog is
        // the one that other sessions know: no other transaction has changed it meanwhile.
        let known = self.shared.catalog();
        if let Some(changing) = &mut self.block.changing {
            let before = self.block.savepoints[at].catalog.as_ref();
            changing.catalog = before.map_or(known, Arc::clone);
        }
        self.block.savepoints.truncate(at + 1);
        self.block.failed = false;
        Ok(())
    }

    pub(super) fn release(&mut self, name: &str) -> Result<(), Failure> {
        self.require_block("RELEASE SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        self.block.savepoints.truncate(at);
        Ok(())
    }

    fn require_block(&self, word: &str) -> Result<(), SqlError> {
        match self.block.kind {
            Kind::Explicit => Ok(()),
            Kind::None | Kind::Implicit => {
                let message = format!("{word} can only be used in transaction blocks");
                Err(SqlError::new(SqlState(*b"25P01"), message))
            }
        }
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, SqlError> {
        self.block
            .savepoints
            .iter()
            .rposition(|point| point.name == name)
            .ok_or_else(|| SqlError::new(SqlState(*b"3B001"), format!("savepoint \"{name}\" does not exist")))
    }

    /// The engine's answer to a part of the transaction was an error. Unless a statement was at
    /// fault the transaction is over.
    pub(super) fn ended(&mut self, error: RunError) -> SqlError {
        if !matches!(error, RunError::Sql(_)) {
            self.block.lost = true;
            self.block.savepoints.clear();
            self.block.conversation = None;
        }
        error.into_sql()
    }
}
