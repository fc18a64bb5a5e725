//! An engine with several workers, each a thread with an executor and many clients that run one
//! transaction after the other: the smallest program that interleaves transactions as an instance
//! does.

use exec::{Engine, Executor, LockPoint, Maintenance, Protection, Scope, yield_now};
use locks::{Escalation, LockOptions, LockTuning};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use txn::Abort;
use wal::FlushBy;

/// Few buckets, so that names share them; inheritance as usual, and escalation early for every
/// second seed.
pub fn lock_options(seed: u64) -> LockOptions {
    let usual = LockTuning::default();
    let early = LockTuning { escalation: Escalation::after(4), ..usual };
    LockOptions { buckets: 256, tuning: if seed.is_multiple_of(2) { usual } else { early } }
}

/// The number of threads, and of clients on each.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    pub workers: usize,
    pub clients: usize,
}

/// One client: runs transactions on its worker's thread.
pub struct Client<E: Engine> {
    pub engine: Arc<E>,
    ctx: Rc<E::WorkerContext>,
    executor: Rc<Executor>,
    txn: E::LocalTxn,
    pace: Pace,
    /// Among all clients of all workers.
    pub number: usize,
}

/// Whether a transaction may be interrupted between two of its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// From begin to commit in one go, as long as it has to wait for nothing.
    InOneGo,
    /// As one that waits for other instances: under locks in every design, and others run in
    /// between.
    Interrupted,
}

impl<E: Engine> Client<E> {
    /// Begins a transaction.
    pub fn begin(&mut self, pace: Pace) {
        let protection = match pace {
            Pace::InOneGo => self.engine.protection_at_home(&self.ctx),
            Pace::Interrupted => Protection::Locks,
        };
        self.pace = pace;
        self.engine.begin(&self.ctx, &mut self.txn, protection);
    }

    /// Begins a read-only transaction: on a snapshot, where the engine offers that.
    pub fn begin_reading(&mut self, pace: Pace) {
        if !E::SNAPSHOTS {
            return self.begin(pace);
        }
        self.pace = pace;
        self.engine.begin(&self.ctx, &mut self.txn, Protection::Snapshot);
    }

    /// The rows, as this client's transaction sees them.
    pub fn access(&mut self) -> E::RowAccess<'_> {
        self.engine.access(&self.ctx, &self.executor, &mut self.txn)
    }

    /// Runs other clients, if this transaction may be interrupted.
    pub async fn pause(&self) {
        if [Protection::Locks, Protection::Snapshot].contains(&E::protection(&self.txn)) {
            yield_now().await;
        }
    }

    /// Validates the transaction, so that it can commit. If it may be interrupted, others run
    /// before it goes on.
    ///
    /// # Errors
    /// It has to be rolled back.
    pub async fn validate(&mut self) -> Result<(), Abort> {
        let scope = if self.pace == Pace::InOneGo { Scope::Home } else { Scope::Distributed };
        self.engine.validate(&self.ctx, &self.executor, &mut self.txn, scope).await?;
        if self.pace == Pace::Interrupted {
            self.pause().await;
        }
        Ok(())
    }

    /// Whether it may be interrupted, as one that waits for other instances.
    pub fn is_interrupted(&self) -> bool {
        self.pace == Pace::Interrupted
    }

    /// Prepares the validated transaction, and waits until that is durable.
    ///
    /// # Errors
    /// [`Abort::Fault`]; whether it is prepared is then unknown.
    pub async fn prepare(&mut self, note: &[u8]) -> Result<(), Abort> {
        let lsn = self.engine.prepare(&self.ctx, &mut self.txn, note, LockPoint::Ahead)?;
        self.engine.durable(&self.ctx, lsn, self.flush_by()).await
    }

    /// Leaves a prepared transaction in doubt, for the next opening.
    pub fn abandon(&mut self) {
        self.engine.abandon(&self.ctx, &mut self.txn);
        self.txn = self.engine.local_txn(&self.ctx);
    }

    /// Commits the validated transaction, and waits until that is durable.
    ///
    /// # Errors
    /// [`Abort::Fault`]; whether it is committed is then unknown.
    pub async fn commit(&mut self) -> Result<base::Lsn, Abort> {
        let lsn = self.engine.commit(&self.ctx, &mut self.txn)?;
        self.engine.durable(&self.ctx, lsn, self.flush_by()).await?;
        Ok(lsn)
    }

    /// As [`Client::commit`]; `told` gets the position of the commit record before the wait.
    ///
    /// # Errors
    /// As [`Client::commit`].
    pub async fn commit_telling(&mut self, told: impl FnOnce(base::Lsn)) -> Result<(), Abort> {
        let lsn = self.engine.commit(&self.ctx, &mut self.txn)?;
        told(lsn);
        self.engine.durable(&self.ctx, lsn, self.flush_by()).await
    }

    /// For some clients the log's own thread flushes, for others the worker.
    fn flush_by(&self) -> FlushBy {
        if self.number.is_multiple_of(2) { FlushBy::Caller } else { FlushBy::Flusher }
    }

    /// # Errors
    /// [`Abort::Fault`]; restart will undo it.
    pub fn rollback(&mut self) -> Result<(), Abort> {
        self.engine.rollback(&self.ctx, &mut self.txn)
    }
}

/// Runs `client` for every client of the crew until all have returned.
///
/// # Panics
/// When a client panics.
pub fn run<E, F>(engine: &Arc<E>, crew: Crew, client: impl Fn(Client<E>) -> F + Sync)
where
    E: Maintenance,
    F: Future<Output = ()> + 'static,
{
    std::thread::scope(|scope| {
        for worker in 0..crew.workers {
            let client = &client;
            scope.spawn(move || {
                let ctx = Rc::new(engine.worker_context(worker, Arc::new(|| {})));
                let executor = Rc::new(Executor::new(Arc::new(|| {})));
                for n in 0..crew.clients {
                    let spawned = executor.spawn(client(Client {
                        engine: Arc::clone(engine),
                        ctx: Rc::clone(&ctx),
                        executor: Rc::clone(&executor),
                        txn: engine.local_txn(&ctx),
                        pace: Pace::InOneGo,
                        number: worker * crew.clients + n,
                    }));
                    assert!(spawned, "more clients than an executor has tasks");
                }
                while executor.tasks() > 0 {
                    engine.checkpoint_if_due(&ctx);
                    engine.turn(&ctx);
                    if executor.turn(world::now_ns()) == 0 {
                        engine.flush_log_here();
                        std::thread::yield_now();
                    }
                }
                engine.leave(&ctx);
            });
        }
    });
}
