//! Guards on tables: a transaction shares a guard with others on each table that it touches, until
//! it ends; a change of the table's definition has the guard alone.
//!
//! So a program that was compiled against one version of the catalog never runs after a change of
//! its tables. Rows are protected elsewhere, by the engine.
//!
//! A session that waits lets later ones wait behind it, so a change of a table in constant use gets
//! its turn. A session that shares a guard may become its only holder. Two that want this at once
//! would wait for each other; one of them gives up when its time is over.

use foldhash::fast::RandomState;
use sql::catalog::Oid;
use sql::{SqlError, SqlState};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;

/// The number of a session.
pub type SessionId = i32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    Shared,
    Alone,
}

/// The guards of all tables.
#[derive(Default)]
pub struct Guards {
    tables: Mutex<HashMap<Oid, Table, RandomState>>,
}

#[derive(Default)]
struct Table {
    sharing: Vec<SessionId>,
    alone: Option<SessionId>,
    /// Sessions that wait to have it alone.
    waiting: usize,
    /// Sessions that wait to have it in either way.
    waiters: usize,
    changed: Arc<Notify>,
}

impl Table {
    fn grants(&self, session: SessionId, hold: Hold) -> bool {
        match (self.alone, hold) {
            (Some(holder), _) => holder == session,
            (None, Hold::Shared) => self.waiting == 0 || self.sharing.contains(&session),
            (None, Hold::Alone) => self.sharing.iter().all(|sharer| *sharer == session),
        }
    }
}

impl Guards {
    /// Takes a guard for a session, or waits for it.
    ///
    /// # Errors
    /// 55P03 when it is not granted within `patience`.
    pub async fn take(
        &self,
        session: SessionId,
        table: Oid,
        hold: Hold,
        patience: Duration,
    ) -> Result<(), SqlError> {
        if self.try_take(session, table, hold) {
            return Ok(());
        }
        let waiting = Waiting::new(self, table, hold);
        let granted = async {
            loop {
                let notified = waiting.changed.notified();
                tokio::pin!(notified);
                // From here on a change is noticed.
                notified.as_mut().enable();
                if self.try_take(session, table, hold) {
                    return;
                }
                notified.await;
            }
        };
        tokio::time::timeout(patience, granted).await.map_err(|_| {
            SqlError::new(SqlState(*b"55P03"), "canceling statement due to lock timeout")
                .with_detail("Another transaction uses the table, or changes its definition.")
                .with_hint("Repeat the transaction, or raise lock_timeout.")
        })
    }

    /// Shares guards for a session, those of `tables` that it does not hold yet, up to the first
    /// one for which it has to wait. Returns that one. `held` gets those that it has then.
    pub fn share(&self, session: SessionId, tables: &[Oid], held: &mut Vec<Oid>) -> Option<Oid> {
        if tables.iter().all(|table| held.contains(table)) {
            return None;
        }
        let mut guards = self.lock();
        for oid in tables {
            if held.contains(oid) {
                continue;
            }
            let table = guards.entry(*oid).or_default();
            if !table.grants(session, Hold::Shared) {
                return Some(*oid);
            }
            table.give(session, Hold::Shared);
            held.push(*oid);
        }
        None
    }

    /// Takes a guard for a session if it need not wait. Returns whether it has it.
    pub fn try_take(&self, session: SessionId, table: Oid, hold: Hold) -> bool {
        let mut tables = self.lock();
        let table = tables.entry(table).or_default();
        table.grants(session, hold) && {
            table.give(session, hold);
            true
        }
    }

    /// Returns what a session holds of these tables.
    pub fn release(&self, session: SessionId, held: impl IntoIterator<Item = Oid>) {
        let mut tables = self.lock();
        for oid in held {
            let Some(table) = tables.get_mut(&oid) else { continue };
            // Those that came last mostly go first.
            if let Some(at) = table.sharing.iter().rposition(|sharer| *sharer == session) {
                table.sharing.swap_remove(at);
            }
            if table.alone == Some(session) {
                table.alone = None;
            }
            if table.waiters > 0 {
                table.changed.notify_waiters();
            }
        }
    }

    /// How many sessions wait for each table for which any do.
    pub fn waits(&self) -> Vec<(Oid, usize)> {
        let tables = self.lock();
        let waits = tables.iter().filter(|(_, table)| table.waiters > 0);
        waits.map(|(oid, table)| (*oid, table.waiters)).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Oid, Table, RandomState>> {
        // No code panics while it holds this mutex, so its content is whole.
        self.tables.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Table {
    fn give(&mut self, session: SessionId, hold: Hold) {
        match hold {
            Hold::Alone => self.alone = Some(session),
            Hold::Shared if self.alone == Some(session) || self.sharing.contains(&session) => {}
            Hold::Shared => self.sharing.push(session),
        }
    }
}

/// A session in the queue of a table, for as long as this value lives.
struct Waiting<'g> {
    guards: &'g Guards,
    table: Oid,
    hold: Hold,
    changed: Arc<Notify>,
}

impl<'g> Waiting<'g> {
    fn new(guards: &'g Guards, oid: Oid, hold: Hold) -> Waiting<'g> {
        let mut tables = guards.lock();
        let table = tables.entry(oid).or_default();
        table.waiting += usize::from(hold == Hold::Alone);
        table.waiters += 1;
        Waiting { guards, table: oid, hold, changed: Arc::clone(&table.changed) }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut tables = self.guards.lock();
        let Some(table) = tables.get_mut(&self.table) else { return };
        table.waiters -= 1;
        if self.hold == Hold::Alone {
            table.waiting -= 1;
            // Those behind it may go on if it gave up.
            table.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(20);
    const T: Oid = Oid(7);

    #[tokio::test]
    async fn a_change_waits_for_those_that_share_and_later_ones_wait_for_it() {
        let guards = Arc::new(Guards::default());
        guards.take(1, T, Hold::Shared, LONG).await.unwrap();
        guards.take(2, T, Hold::Shared, LONG).await.unwrap();
        assert_eq!(guards.take(3, T, Hold::Alone, SHORT).await.unwrap_err().state, SqlState(*b"55P03"));
        // It gave up, so others go on.
        guards.take(4, T, Hold::Shared, LONG).await.unwrap();
        let change = tokio::spawn({
            let guards = Arc::clone(&guards);
            async move { guards.take(3, T, Hold::Alone, LONG).await }
        });
        while guards.lock()[&T].waiting == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(guards.waits(), [(T, 1)]);
        assert!(guards.take(5, T, Hold::Shared, SHORT).await.is_err(), "it overtook the change");
        // One that shares already is not held up: the change waits for it.
        guards.take(1, T, Hold::Shared, LONG).await.unwrap();
        [1, 2, 4].iter().for_each(|session| guards.release(*session, [T]));
        change.await.unwrap().unwrap();
        assert!(guards.take(5, T, Hold::Shared, SHORT).await.is_err());
        guards.release(3, [T]);
        guards.take(5, T, Hold::Shared, LONG).await.unwrap();
        guards.release(5, [T]);
        guards.take(6, T, Hold::Alone, SHORT).await.unwrap();
        assert_eq!(guards.waits(), []);
    }

    #[tokio::test]
    async fn the_only_one_that_shares_may_change_it() {
        let guards = Guards::default();
        guards.take(1, T, Hold::Shared, SHORT).await.unwrap();
        guards.take(1, T, Hold::Alone, SHORT).await.unwrap();
        guards.take(1, T, Hold::Shared, SHORT).await.unwrap();
        assert!(guards.take(2, T, Hold::Shared, SHORT).await.is_err());
        guards.release(1, [T]);
        guards.take(2, T, Hold::Alone, SHORT).await.unwrap();
    }
}
