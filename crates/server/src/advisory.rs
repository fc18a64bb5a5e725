//! Advisory locks: locks on numbers, of which only the clients know the meaning.
//!
//! The server keeps them, beside the engine: all sessions of a database are sessions of one server.
//! A session has a lock until it gives it back or ends, a transaction until its end.
//!
//! A session that would wait for one that waits for it, over advisory locks alone, gets 40P01
//! instead.

use crate::guards::SessionId;
use compiler::compiled::{AdvisoryKey, LockMode, Owner};
use foldhash::fast::RandomState;
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most locks of all sessions.
const MOST: usize = 100_000;

/// A lock that a session has, once or several times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    session: SessionId,
    mode: LockMode,
    owner: Owner,
    times: u32,
}

#[derive(Default)]
struct State {
    held: HashMap<AdvisoryKey, Vec<Held>, RandomState>,
    /// The number of entries in `held`.
    count: usize,
    waits: HashMap<SessionId, (AdvisoryKey, LockMode), RandomState>,
}

/// The advisory locks of a server.
#[derive(Default)]
pub struct Advisory {
    state: Mutex<State>,
    changed: Arc<Notify>,
}

impl State {
    /// The sessions that keep another one from a lock.
    fn holders(
        &self,
        session: SessionId,
        key: AdvisoryKey,
        mode: LockMode,
    ) -> impl Iterator<Item = SessionId> {
        let all = self.held.get(&key).into_iter().flatten();
        let excludes = move |held: &&Held| {
            held.session != session && (held.mode == LockMode::Exclusive || mode == LockMode::Exclusive)
        };
        all.filter(excludes).map(|held| held.session)
    }

    fn give(
        &mut self,
        session: SessionId,
        key: AdvisoryKey,
        mode: LockMode,
        owner: Owner,
    ) -> Result<(), SqlError> {
        let all = self.held.entry(key).or_default();
        let same =
            all.iter_mut().find(|held| (held.session, held.mode, held.owner) == (session, mode, owner));
        match same {
            Some(held) => held.times = held.times.saturating_add(1),
            None if self.count >= MOST => {
                if all.is_empty() {
                    self.held.remove(&key);
                }
                let message = format!("a server has at most {MOST} advisory locks");
                return Err(SqlError::new(SqlState(*b"53200"), message));
            }
            None => {
                all.push(Held { session, mode, owner, times: 1 });
                self.count += 1;
            }
        }
        Ok(())
    }

    /// Whether a session waits for itself, over others.
    fn waits_for_itself(&self, session: SessionId) -> bool {
        let (mut seen, mut next) = (Vec::new(), vec![session]);
        while let Some(waiter) = next.pop() {
            let Some((key, mode)) = self.waits.get(&waiter) else { continue };
            for holder in self.holders(waiter, *key, *mode) {
                if holder == session {
                    return true;
                }
                if !seen.contains(&holder) {
                    seen.push(holder);
                    next.push(holder);
                }
            }
        }
        false
    }

    /// Takes away what a session holds and `is_over` says.
    fn release(&mut self, session: SessionId, is_over: impl Fn(&Held) -> bool) -> bool {
        let before = self.count;
        self.held.retain(|_, all| {
            let length = all.len();
            all.retain(|held| held.session != session || !is_over(held));
            self.count -= length - all.len();
            !all.is_empty()
        });
        self.count != before
    }
}

impl Advisory {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds this mutex, so its content is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lock if no other session keeps it from that. Returns whether it has it.
    ///
    /// # Errors
    /// `53200` for too many locks.
    pub fn try_take(
        &self,
        session: SessionId,
        key: AdvisoryKey,
        mode: LockMode,
        owner: Owner,
    ) -> Result<bool, SqlError> {
        let mut state = self.lock();
        if state.holders(session, key, mode).next().is_some() {
            return Ok(false);
        }
        state.give(session, key, mode, owner).map(|()| true)
    }

    /// Takes a lock, or waits for it as long as the future lives.
    ///
    /// # Errors
    /// `40P01` if the session would wait for itself, and those of [`Advisory::try_take`].
    pub async fn take(
        &self,
        session: SessionId,
        key: AdvisoryKey,
        mode: LockMode,
        owner: Owner,
    ) -> Result<(), SqlError> {
        let _waiting = Waiting { advisory: self, session };
        loop {
            let notified = self.changed.notified();
            tokio::pin!(notified);
            // From here on a change is noticed.
            notified.as_mut().enable();
            if self.try_take(session, key, mode, owner)? {
                return Ok(());
            }
            {
                let mut state = self.lock();
                state.waits.insert(session, (key, mode));
                if state.waits_for_itself(session) {
                    return Err(SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
                        .with_detail("Sessions wait for each other's advisory locks.")
                        .with_hint("Take the locks in the same order everywhere."));
                }
            }
            notified.await;
        }
    }

    /// Gives a lock of the session back once. Returns whether it had it.
    pub fn give_back(&self, session: SessionId, key: AdvisoryKey, mode: LockMode) -> bool {
        let mut state = self.lock();
        let Some(all) = state.held.get_mut(&key) else { return false };
        let is_it = |held: &Held| (held.session, held.mode, held.owner) == (session, mode, Owner::Session);
        let Some(at) = all.iter().position(is_it) else { return false };
        all[at].times -= 1;
        if all[at].times == 0 {
            all.swap_remove(at);
            if all.is_empty() {
                state.held.remove(&key);
            }
            state.count -= 1;
            drop(state);
            self.changed.notify_waiters();
        }
        true
    }

    /// Gives back all that the session's transaction has.
    pub fn end_transaction(&self, session: SessionId) {
        self.release(session, |held| held.owner == Owner::Transaction);
    }

    /// Gives back all that the session has by itself.
    pub fn unlock_all(&self, session: SessionId) {
        self.release(session, |held| held.owner == Owner::Session);
    }

    /// Gives back all that the session has.
    pub fn end_session(&self, session: SessionId) {
        self.release(session, |_| true);
    }

    fn release(&self, session: SessionId, is_over: impl Fn(&Held) -> bool) {
        let mut state = self.lock();
        if state.count > 0 && state.release(session, is_over) {
            drop(state);
            self.changed.notify_waiters();
        }
    }
}

/// A session that waits, as long as this value lives.
struct Waiting<'a> {
    advisory: &'a Advisory,
    session: SessionId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.advisory.lock().waits.remove(&self.session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockMode::{Exclusive, Shared};
    use Owner::{Session, Transaction};

    const A: AdvisoryKey = AdvisoryKey::One(1);
    const B: AdvisoryKey = AdvisoryKey::Two(0, 1);

    #[tokio::test]
    async fn a_lock_is_had_as_often_as_it_was_taken() {
        let locks = Advisory::default();
        for _ in 0..2 {
            assert!(locks.try_take(1, A, Exclusive, Session).unwrap());
        }
        assert!(locks.try_take(1, A, Shared, Transaction).unwrap());
        assert!(!locks.try_take(2, A, Shared, Session).unwrap());
        assert!(locks.try_take(2, B, Exclusive, Session).unwrap(), "two numbers are another lock than one");
        assert!(locks.give_back(1, A, Exclusive) && locks.give_back(1, A, Exclusive));
        assert!(!locks.give_back(1, A, Exclusive) && !locks.give_back(1, A, Shared));
        assert!(locks.try_take(2, A, Shared, Session).unwrap());
        assert!(!locks.try_take(2, A, Exclusive, Session).unwrap());
        locks.end_transaction(1);
        assert!(locks.try_take(2, A, Exclusive, Session).unwrap());
        locks.end_session(2);
        assert_eq!(locks.lock().count, 0);
        assert!(locks.lock().held.is_empty());
    }

    #[test]
    fn a_lock_too_many_is_refused_and_leaves_nothing() {
        let locks = Advisory::default();
        let numbered = |number: usize| AdvisoryKey::One(number as i64);
        for number in 0..MOST {
            assert!(locks.try_take(1, numbered(number), Exclusive, Session).unwrap());
        }
        let error = locks.try_take(1, numbered(MOST), Exclusive, Session).unwrap_err();
        assert_eq!(error.state, SqlState(*b"53200"));
        assert_eq!(locks.lock().held.len(), MOST, "a key without a lock would stay for ever");
        assert!(locks.try_take(1, numbered(0), Exclusive, Session).unwrap(), "one that it has");
    }

    #[tokio::test]
    async fn those_that_wait_get_it_and_a_circle_is_an_error() {
        let locks = Arc::new(Advisory::default());
        locks.take(1, A, Exclusive, Session).await.unwrap();
        locks.take(2, B, Exclusive, Session).await.unwrap();
        let waiter = tokio::spawn({
            let locks = Arc::clone(&locks);
            async move { locks.take(2, A, Exclusive, Transaction).await }
        });
        while locks.lock().waits.is_empty() {
            tokio::task::yield_now().await;
        }
        let error = locks.take(1, B, Exclusive, Session).await.unwrap_err();
        assert_eq!(error.state, SqlState::DEADLOCK_DETECTED);
        locks.unlock_all(1);
        waiter.await.unwrap().unwrap();
        assert!(locks.lock().waits.is_empty());
        assert!(!locks.try_take(1, A, Shared, Session).unwrap());
    }
}
