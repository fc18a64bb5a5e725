//! Random transactions on an engine, many clients at a time under its concurrency control, as a
//! life of one process.
//!
//! The changes of each transaction are recorded from the results of its operations (a row was there
//! or not). So the order of the clients does not matter: the order of the log determines the rows.

use crate::ledger::{Changes, Commit, Ledger, Prepare};
use crate::table::{self, ACCOUNTS, HISTORY, NAME, SCORE};
use crate::workers::{self, Client, Crew, Pace};
use base::Lsn;
use exec::{Design, Engine, Maintenance, PageEngine, PageOptions};
use fastrand::Rng;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::{Store, StoreFault};
use txn::{Abort, Access, Direction, Flow, Inserted, Range};
use world::sim::Disk;

/// The parameters of a life.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub crew: Crew,
    pub keys: i64,
    pub commits: usize,
    /// Of eight transactions that may be interrupted, this many are prepared first.
    pub prepares: u32,
    pub seed: u64,
}

/// Shared by the clients.
struct Book {
    ledger: Ledger,
    left: usize,
    /// Transactions that were prepared and left in doubt.
    doubtful: usize,
    /// Transactions refused for want of room since the last commit.
    refused: usize,
}

/// After this many consecutive refusals for want of room no change is possible, and the run ends.
const REFUSALS: usize = 1_000;

fn held(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the number of commits in the mix is reached, or a fault stops the engine. Returns the
/// store.
///
/// # Errors
/// The fault, along with the ledger at that time.
pub fn run<D: Design>(
    store: Store,
    disk: &Disk,
    ledger: Ledger,
    mix: Mix,
) -> (Ledger, Result<Store, StoreFault>) {
    let options = PageOptions {
        locks: workers::lock_options(mix.seed),
        lock_timeout_ns: 2_000_000_000,
        waits_for_log: true,
    };
    let engine = Arc::new(PageEngine::<D>::new(store, options));
    let ledger = run_on(&engine, disk, ledger, mix);
    let fault = engine.store().fault();
    let engine = loop {
        // A checkpoint's own thread may hold the engine for a moment longer.
        match Arc::strong_count(&engine) {
            1 => break Arc::into_inner(engine),
            _ => std::thread::yield_now(),
        }
    };
    let gone = || StoreFault::Schema("the engine is still in use".into());
    (ledger, fault.map_or_else(|| engine.map(PageEngine::into_store).ok_or_else(gone), Err))
}

/// As [`run`], on an open engine; the engine reports a fault that stopped it.
pub fn run_on<E: Maintenance>(engine: &Arc<E>, disk: &Disk, ledger: Ledger, mix: Mix) -> Ledger {
    let book = Arc::new(Mutex::new(Book { ledger, left: mix.commits, doubtful: 0, refused: 0 }));
    workers::run(engine, mix.crew, |client| work(client, Arc::clone(&book), disk.clone(), mix));
    std::mem::take(&mut held(&book).ledger)
}

async fn work<E: Engine>(mut client: Client<E>, book: Arc<Mutex<Book>>, disk: Disk, mix: Mix) {
    let mut random = Rng::with_seed(mix.seed ^ (client.number as u64) << 32);
    while held(&book).left > 0 && transact(&mut client, &book, &disk, mix, &mut random).await.is_continue() {
        exec::yield_now().await;
    }
}

/// One transaction; breaks when the engine accepts nothing more.
async fn transact<E: Engine>(
    client: &mut Client<E>,
    book: &Mutex<Book>,
    disk: &Disk,
    mix: Mix,
    random: &mut Rng,
) -> ControlFlow<()> {
    let number = {
        let mut book = held(book);
        book.ledger.next_number += 1;
        book.ledger.next_number
    };
    client.begin(if random.bool() { Pace::InOneGo } else { Pace::Interrupted });
    let changed = change(client, number, mix, random).await;
    let certain = match changed {
        Ok(changes) if random.u32(..10) > 0 => client.validate().await.map(|()| changes),
        other => other.and(Err(Abort::User(0))),
    };
    let changes = match certain {
        Ok(changes) => changes,
        Err(Abort::Fault) => {
            let _ = client.rollback();
            return ControlFlow::Break(());
        }
        Err(abort) => {
            let flow = rolled_back(client);
            let mut book = held(book);
            book.refused += usize::from(abort == Abort::NoSpace);
            return if book.refused > REFUSALS { ControlFlow::Break(()) } else { flow };
        }
    };
    if client.is_interrupted() && random.u32(..8) < mix.prepares {
        match prepare(client, book, disk, (number, &changes), random).await {
            Ended::Commits => {}
            Ended::Otherwise(flow) => return flow,
        }
    }
    // Entered before the commit, and in the order in which validated transactions arrive: when the
    // engine fails, it is unknown whether the record was written.
    let unknown = Commit { number, lsn: Lsn(u64::MAX), changes, appended: usize::MAX, acknowledged: None };
    held(book).ledger.commits.push(unknown);
    let edit = |edit: &dyn Fn(&mut Commit)| {
        held(book).ledger.commits.iter_mut().rev().find(|c| c.number == number).map(edit);
    };
    let told = |lsn| edit(&|c| (c.lsn, c.appended) = (lsn, disk.changes()));
    if client.commit_telling(told).await.is_err() {
        return ControlFlow::Break(());
    }
    edit(&|c| c.acknowledged = Some(disk.changes()));
    let mut book = held(book);
    book.left = book.left.saturating_sub(1);
    book.refused = 0;
    ControlFlow::Continue(())
}

/// The fate of a prepared transaction.
enum Ended {
    Commits,
    Otherwise(ControlFlow<()>),
}

/// How many may be left in doubt at the end: their rows stay locked.
const DOUBTFUL: usize = 3;

/// Prepares a validated transaction, then draws its end: it commits, is rolled back, or stays in
/// doubt.
async fn prepare<E: Engine>(
    client: &mut Client<E>,
    book: &Mutex<Book>,
    disk: &Disk,
    (number, changes): (i64, &Changes),
    random: &mut Rng,
) -> Ended {
    let unknown = Prepare { changes: changes.clone(), acknowledged: None, rolled_back: None };
    held(book).ledger.prepared.insert(number, unknown);
    let edit = |edit: &dyn Fn(&mut Prepare)| {
        held(book).ledger.prepared.entry(number).and_modify(edit);
    };
    if client.prepare(&number.to_le_bytes()).await.is_err() {
        return Ended::Otherwise(ControlFlow::Break(()));
    }
    edit(&|p| p.acknowledged = Some(disk.changes()));
    let may_stay = {
        let mut book = held(book);
        let may_stay = book.doubtful < DOUBTFUL && random.bool();
        book.doubtful += usize::from(may_stay);
        may_stay
    };
    if may_stay {
        client.abandon();
        return Ended::Otherwise(ControlFlow::Continue(()));
    }
    if random.bool() {
        return Ended::Commits;
    }
    let now = disk.changes();
    edit(&|p| p.rolled_back = Some(now));
    Ended::Otherwise(rolled_back(client))
}

fn rolled_back<E: Engine>(client: &mut Client<E>) -> ControlFlow<()> {
    if client.rollback().is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// A few operations; returns their changes.
async fn change<E: Engine>(
    client: &mut Client<E>,
    number: i64,
    mix: Mix,
    random: &mut Rng,
) -> Result<Changes, Abort> {
    let mut changes = Changes::new();
    client.access().append(HISTORY, &table::history_row(number)).await?;
    for _ in 0..random.usize(1..5) {
        let id = random.i64(..mix.keys);
        let key = table::key(id);
        let value = (random.i64(..50), "n".repeat(random.usize(..40).pow(2) / 4 + 1));
        match random.u32(..6) {
            0 | 1 => {
                if client.access().insert(ACCOUNTS, &key, &table::row(id, &value)).await? == Inserted::Done {
                    changes.insert(id, Some(value));
                }
            }
            2 => {
                if client.access().delete(ACCOUNTS, &key).await? {
                    changes.insert(id, None);
                }
            }
            3 => {
                let mut seen = 0;
                let range = Range { low: Some(&key), high: None };
                let visit = |_: &[u8], _: txn::Row<'_>| {
                    seen += 1;
                    if seen < 5 { Flow::More } else { Flow::Enough }
                };
                client.access().scan(ACCOUNTS, range, Direction::Forward, visit).await?;
            }
            _ => {
                let set = |row: &mut txn::RowMut<'_>| {
                    row.set_int(SCORE, value.0);
                    row.set_text(NAME, &value.1);
                };
                if client.access().update(ACCOUNTS, &key, set).await?.is_some() {
                    changes.insert(id, Some(value));
                }
            }
        }
        if random.bool() {
            client.pause().await;
        }
    }
    Ok(changes)
}
