//! An engine with several workers, each a thread with an executor and many clients that run one transaction after the
//! other: the smallest thing that interleaves as an instance does.

use exec::{Design, Executor, Here, PageEngine, Part, Protection, yield_now};
use locks::{Escalation, LockOptions, LockTuning};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use txn::Abort;
use wal::Urge;

/// Few buckets, so that names share them; inheritance as usual, and escalation early for every second seed.
pub fn lock_options(seed: u64) -> LockOptions {
    let usual = LockTuning::default();
    let early = LockTuning { escalation: Escalation::after(4), ..usual };
    LockOptions { buckets: 256, tuning: if seed.is_multiple_of(2) { usual } else { early } }
}

/// How many threads, and clients on each.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    pub workers: usize,
    pub clients: usize,
}

/// One client: runs transactions on its worker's thread.
pub struct Client<D: Design> {
    pub engine: Arc<PageEngine<D>>,
    executor: Rc<Executor>,
    part: Part,
    worker: usize,
    /// Among all clients of all workers.
    pub number: usize,
}

/// Whether a transaction may be interrupted between two of its operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// From begin to commit in one go where nothing must be waited for.
    InOneGo,
    /// As one that waits for other instances: under locks in every design, and others run in between.
    Interrupted,
}

impl<D: Design> Client<D> {
    pub fn begin(&mut self, pace: Pace) {
        let protection = match pace {
            Pace::InOneGo => self.engine.protection_at_home(self.worker),
            Pace::Interrupted => Protection::Locks,
        };
        self.engine.begin(&mut self.part, self.worker, protection);
    }

    /// The rows, as this client's transaction sees them.
    pub fn here(&mut self) -> Here<'_, D> {
        Here { engine: &self.engine, executor: &self.executor, part: &mut self.part }
    }

    /// Lets others run, if this transaction may be interrupted.
    pub async fn pause(&self) {
        if self.part.protection() == Protection::Locks {
            yield_now().await;
        }
    }

    /// Commits and waits until that is durable.
    ///
    /// # Errors
    /// [`Abort::Fault`]; whether it is committed is then unknown.
    pub async fn commit(&mut self) -> Result<base::Lsn, Abort> {
        let lsn = self.engine.commit(&mut self.part)?;
        self.engine.durable(lsn, self.urge()).await?;
        Ok(lsn)
    }

    /// As [`Client::commit`], with the position of the commit record told before the wait.
    ///
    /// # Errors
    /// As [`Client::commit`].
    pub async fn commit_telling(&mut self, told: impl FnOnce(base::Lsn)) -> Result<(), Abort> {
        let lsn = self.engine.commit(&mut self.part)?;
        told(lsn);
        self.engine.durable(lsn, self.urge()).await
    }

    /// The log is flushed by its own thread for some, by the worker for others.
    fn urge(&self) -> Urge {
        if self.number.is_multiple_of(2) { Urge::Caller } else { Urge::Flusher }
    }

    /// # Errors
    /// [`Abort::Fault`]; restart will undo it.
    pub fn rollback(&mut self) -> Result<(), Abort> {
        self.engine.rollback(&mut self.part)
    }
}

/// Runs `client` for every client of the crew until all have returned.
///
/// # Panics
/// When a client does.
pub fn run<D, F>(engine: &Arc<PageEngine<D>>, crew: Crew, client: impl Fn(Client<D>) -> F + Sync)
where
    D: Design,
    F: Future<Output = ()> + 'static,
{
    std::thread::scope(|scope| {
        for worker in 0..crew.workers {
            let client = &client;
            scope.spawn(move || {
                engine.own();
                let executor = Rc::new(Executor::new(Arc::new(|| {})));
                for n in 0..crew.clients {
                    let number = worker * crew.clients + n;
                    let (engine, part) = (Arc::clone(engine), engine.part());
                    let executor_of = Rc::clone(&executor);
                    let spawned = executor.spawn(client(Client {
                        engine,
                        executor: executor_of,
                        part,
                        worker,
                        number,
                    }));
                    assert!(spawned, "more clients than an executor has tasks");
                }
                while executor.tasks() > 0 {
                    engine.checkpoint_if_due(worker);
                    engine.turn();
                    if executor.turn(world::now_ns()) == 0 {
                        engine.flush_log_here();
                        std::thread::yield_now();
                    }
                }
                engine.disown();
            });
        }
    });
}
