//! What all sessions of a server share.

use crate::access::Access;
use crate::advisory::Advisory;
use crate::counters::{Activity, Counters};
use crate::engine::Engine;
use crate::guards::{Guards, SessionId};
use crate::language::Cache;
use crate::scram;
use crate::sequences::Sequences;
use futures_util::task::AtomicWaker;
use sql::bound::Bound;
use sql::catalog::Catalog;
use sql::database::Call;
use sql::datetime::zone::Zone;
use sql::{Datum, Program};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub connections: usize,
    /// For the start-up of a connection, with its password.
    pub startup: Duration,
    /// For a client that does not read what it asked for.
    pub write: Duration,
    /// For transactions under way when the server stops.
    pub stop: Duration,
    /// For a statement, and for a transaction between two statements, if the client chooses no
    /// limit; `None` for none.
    pub statement: Option<Duration>,
    pub idle_transaction: Option<Duration>,
}

impl Limits {
    /// Settings with which each session begins.
    pub fn settings(&self) -> Vec<(String, String)> {
        let limits = [
            ("statement_timeout", self.statement),
            ("idle_in_transaction_session_timeout", self.idle_transaction),
        ];
        let given = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
        given.map(|(name, limit)| (name.to_owned(), limit.as_millis().to_string())).collect()
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1000,
            startup: Duration::from_secs(30),
            write: Duration::from_secs(60),
            stop: Duration::from_secs(10),
            statement: None,
            idle_transaction: None,
        }
    }
}

pub struct Shared<E: Engine> {
    pub engine: E,
    pub access: Access,
    pub limits: Limits,
    /// The number of physical tables.
    pub stores: u16,
    pub guards: Guards,
    pub advisory: Advisory,
    pub sequences: Sequences,
    pub cache: Cache,
    pub counters: Counters,
    /// As of the last committed change.
    catalog: RwLock<Arc<Catalog>>,
    /// That of `catalog`. Written after it, before the guards of the change are given back.
    version: AtomicU64,
    /// Held by the one transaction that changes the catalog.
    pub defining: Arc<tokio::sync::Mutex<()>>,
    /// Held by the one task that empties tables.
    pub emptying: tokio::sync::Mutex<()>,
    running: Mutex<HashMap<SessionId, Running>>,
    next: AtomicI32,
    /// Of the next statement: higher than all numbers that an earlier server gave, because it
    /// begins with the nanoseconds since 2000 and no server runs a statement each nanosecond.
    next_statement: AtomicI64,
    /// True from the moment at which the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// What others need to know of a session: those that cancel, and those that look at the server.
struct Running {
    key: Vec<u8>,
    cancel: Arc<Cancel>,
    activity: Arc<Activity>,
}

/// The wish of another connection that a session's statement end. Only the session's own task waits
/// for it, so one waker is enough.
#[derive(Default)]
pub struct Cancel {
    asked: AtomicBool,
    waker: AtomicWaker,
}

impl Cancel {
    fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Forgets wishes about statements that have ended.
    pub fn clear(&self) {
        self.asked.store(false, Ordering::Release);
    }

    pub async fn asked(&self) {
        std::future::poll_fn(|cx| {
            // A wish that comes after this look wakes the task.
            self.waker.register(cx.waker());
            if self.asked.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A session in the list of those that can be cancelled.
pub struct Registered {
    pub id: SessionId,
    pub key: Vec<u8>,
    pub cancel: Arc<Cancel>,
    pub activity: Arc<Activity>,
}

/// Bytes of the secret key in protocol 3.0, and in 3.2.
const KEY_BYTES: usize = 4;
const LONG_KEY_BYTES: usize = 32;

impl<E: Engine> Shared<E> {
    pub fn new(
        engine: E,
        access: Access,
        limits: Limits,
        (catalog, stores): (Catalog, u16),
        stopping: watch::Receiver<bool>,
    ) -> Shared<E> {
        Shared {
            engine,
            access,
            limits,
            stores,
            guards: Guards::default(),
            advisory: Advisory::default(),
            sequences: Sequences::default(),
            cache: Cache::default(),
            counters: Counters::default(),
            version: AtomicU64::new(catalog.version),
            catalog: RwLock::new(Arc::new(catalog)),
            defining: Arc::default(),
            emptying: tokio::sync::Mutex::default(),
            running: Mutex::default(),
            next: AtomicI32::new(1),
            next_statement: AtomicI64::new(now().saturating_mul(1000)),
            stopping,
        }
    }

    /// A number that no other statement of the database has.
    pub fn statement(&self) -> i64 {
        self.next_statement.fetch_add(1, Ordering::Relaxed)
    }

    pub fn call(&self, program: Arc<Program>, params: Vec<Datum>, now: i64, zone: Zone) -> Call {
        Call { program, bound: Arc::new(Bound { params, now, zone }), statement: self.statement() }
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The version of the catalog. To read it costs less than to hold the catalog.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Makes a committed change of the catalog known to all sessions.
    pub fn publish(&self, catalog: Arc<Catalog>) {
        let version = catalog.version;
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
        self.version.store(version, Ordering::Release);
        self.cache.clear();
    }

    /// Gives a new session its number and its key, which is longer from protocol 3.2 on.
    pub fn register(&self, minor: u16) -> Registered {
        let random = scram::random::<LONG_KEY_BYTES>().unwrap_or_default();
        let key = random[..if minor >= 2 { LONG_KEY_BYTES } else { KEY_BYTES }].to_vec();
        let cancel = Arc::new(Cancel::default());
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut id = self.next.fetch_add(1, Ordering::Relaxed);
        while id <= 0 || running.contains_key(&id) {
            self.next.compare_exchange(i32::MIN, 1, Ordering::Relaxed, Ordering::Relaxed).ok();
            id = self.next.fetch_add(1, Ordering::Relaxed);
        }
        let activity = Arc::new(Activity::default());
        let known =
            Running { key: key.clone(), cancel: Arc::clone(&cancel), activity: Arc::clone(&activity) };
        running.insert(id, known);
        Registered { id, key, cancel, activity }
    }

    pub fn unregister(&self, id: SessionId) {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    /// Cancels the statement of a session, if the key is its. A wrong key has no answer.
    pub fn cancel(&self, id: SessionId, key: &[u8]) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = running.get(&id).filter(|session| session.key == key) {
            session.cancel.ask();
        }
    }

    /// The sessions, and how long the statement of each has run that has one under way.
    pub fn activities(&self) -> Vec<(SessionId, Option<Duration>)> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.iter().map(|(id, session)| (*id, session.activity.runs_for())).collect()
    }

    pub fn sessions(&self) -> usize {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The time in microseconds since 2000-01-01 UTC.
pub fn now() -> i64 {
    const FROM_1970: Duration = Duration::from_secs(946_684_800);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(FROM_1970);
    since.saturating_sub(FROM_1970).as_micros() as i64
}

/// Ends when the server stops.
pub async fn stopped(mut stopping: watch::Receiver<bool>) {
    // A sender that is gone has stopped too.
    let _ = stopping.wait_for(|stops| *stops).await;
}
