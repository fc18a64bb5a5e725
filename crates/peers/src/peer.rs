//! Another engine, seen as an ordered map of bytes with transactions, and the workload's procedures on it.
//!
//! ```text
//!   Micro::run  ->  Door (Access, Transaction)  ->  PeerTxn  ->  the engine
//! ```
//!
//! The procedure is the one that Atoll runs; nothing on this way waits, so its futures are polled once.

use crate::contestant::{Contestant, Rate, Table, Work};
use crate::fault::PeerFault;
use base::{SiteId, TableId};
use std::time::{Duration, Instant};
use topology::CpuId;
use txn::row::Layout;
use txn::step::{Steps, Transaction};
use txn::{Abort, Access, Direction, Flow, Generator, Inserted, Range, Row, RowMut, Workload};
use workload::micro::{MICRO, Micro, Op};
use workload::oracle::at_once;

/// An engine with one table.
pub trait Peer: Send {
    type Txn<'a>: PeerTxn
    where
        Self: 'a;

    /// # Errors
    /// The engine's own.
    fn begin(&mut self) -> Result<Self::Txn<'_>, PeerFault>;
}

/// A serialisable transaction. Dropped without [`PeerTxn::commit`] it has ended badly, and so has the comparison.
pub trait PeerTxn {
    fn read<R>(&mut self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, PeerFault>;
    /// Reads for update and writes back what `f` left.
    fn update<R>(&mut self, key: &[u8], f: impl FnOnce(&mut Vec<u8>) -> R) -> Result<Option<R>, PeerFault>;
    fn insert(&mut self, key: &[u8], row: &[u8]) -> Result<Inserted, PeerFault>;
    /// Visits all rows in key order. Used when nothing else runs.
    fn scan(&mut self, f: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<(), PeerFault>;
    fn commit(self) -> Result<(), PeerFault>;
}

/// What a procedure sees of a transaction of another engine.
struct Door<'l, T> {
    txn: T,
    layout: &'l Layout,
    /// Why the procedure was told [`Abort::Fault`].
    fault: Option<PeerFault>,
}

impl<'l, T: PeerTxn> Door<'l, T> {
    fn new(txn: T, layout: &'l Layout) -> Self {
        Door { txn, layout, fault: None }
    }

    fn note<R>(&mut self, outcome: Result<R, PeerFault>) -> Result<R, Abort> {
        outcome.map_err(|fault| {
            self.fault = Some(fault);
            Abort::Fault
        })
    }

    /// Commits what the procedure did.
    fn end<R>(self, name: &str, outcome: Result<R, Abort>) -> Result<R, PeerFault> {
        match (self.fault, outcome) {
            (Some(fault), _) => Err(fault),
            (None, Err(abort)) => Err(PeerFault::Aborted { name: name.into(), abort }),
            (None, Ok(reply)) => self.txn.commit().map(|()| reply),
        }
    }
}

fn only_table(table: TableId) -> Result<(), Abort> {
    if table == MICRO { Ok(()) } else { Err(Abort::BadRequest) }
}

impl<T: PeerTxn> Access for Door<'_, T> {
    async fn read<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(Row<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        only_table(table)?;
        let found = self.txn.read(key, |bytes| f(Row::new(self.layout, bytes)));
        self.note(found)
    }

    async fn update<R>(
        &mut self,
        table: TableId,
        key: &[u8],
        f: impl FnOnce(&mut RowMut<'_>) -> R,
    ) -> Result<Option<R>, Abort> {
        only_table(table)?;
        let found = self.txn.update(key, |bytes| f(&mut RowMut::new(self.layout, bytes)));
        self.note(found)
    }

    async fn insert(&mut self, table: TableId, key: &[u8], row: &[u8]) -> Result<Inserted, Abort> {
        only_table(table)?;
        let inserted = self.txn.insert(key, row);
        self.note(inserted)
    }

    /// The microbenchmark has no table without a key and deletes nothing.
    async fn append(&mut self, _: TableId, _: &[u8]) -> Result<(), Abort> {
        Err(Abort::BadRequest)
    }

    async fn delete(&mut self, _: TableId, _: &[u8]) -> Result<bool, Abort> {
        Err(Abort::BadRequest)
    }

    async fn scan(
        &mut self,
        index: TableId,
        range: Range<'_>,
        direction: Direction,
        mut f: impl FnMut(&[u8], Row<'_>) -> Flow,
    ) -> Result<(), Abort> {
        only_table(index)?;
        if range != Range::ALL || direction != Direction::Forward {
            return Err(Abort::BadRequest);
        }
        let scanned = self.txn.scan(|key, bytes| f(key, Row::new(self.layout, bytes)));
        self.note(scanned)
    }
}

impl<T: PeerTxn> Transaction for Door<'_, T> {
    async fn all<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        steps.run_all(self).await
    }

    async fn last<S: Steps>(&mut self, steps: S) -> Result<S::Outputs, Abort> {
        steps.run_all(self).await
    }
}

/// A loaded peer.
pub struct Hosted<P> {
    name: &'static str,
    peer: P,
    table: Table,
    layout: Layout,
    cpu: Option<CpuId>,
    /// Updating transactions committed since loading.
    updates: u64,
}

impl<P: Peer> Hosted<P> {
    /// # Errors
    /// The engine's own.
    pub fn load(name: &'static str, peer: P, table: Table, cpu: Option<CpuId>) -> Result<Self, PeerFault> {
        let micro = table.micro(Op::Read)?;
        let layout = Layout::of(&micro.schema().tables[0]);
        let mut hosted = Hosted { name, peer, table, layout, cpu, updates: 0 };
        for part in 0..micro.load_parts(SiteId(0)) {
            let mut door = Door::new(hosted.peer.begin()?, &hosted.layout);
            let loaded = at_once(micro.load(SiteId(0), part, &mut door));
            door.end(name, loaded)?;
        }
        Ok(hosted)
    }

    /// Runs transactions on the calling thread.
    fn worker(&mut self, work: &Work, micro: &Micro) -> Result<Rate, PeerFault> {
        if let Some(cpu) = self.cpu {
            topology::pin_thread(cpu)?;
        }
        let mut requests = micro.generator(work.stream(), 0..1);
        let mut one = || {
            let request = requests.next();
            let mut door = Door::new(self.peer.begin()?, &self.layout);
            let outcome = at_once(micro.run(&request, &mut door));
            door.end(self.name, outcome).map(drop)
        };
        let (warm, _) = repeat(work.warm_up, &mut one)?;
        let cpu_ns = world::usage().cpu_ns;
        let (committed, seconds) = repeat(work.window, &mut one)?;
        let cpu_ns = world::usage().cpu_ns - cpu_ns;
        if work.op == Op::Update {
            self.updates += warm + committed;
        }
        Ok(Rate::new(committed, seconds, cpu_ns))
    }
}

/// Calls `one` for so long; gives the number of calls and the seconds that they took. The clock costs as much as a row:
/// it is read once in a batch.
fn repeat(time: Duration, one: &mut impl FnMut() -> Result<(), PeerFault>) -> Result<(u64, f64), PeerFault> {
    const BATCH: u64 = 32;
    let (start, mut calls) = (Instant::now(), 0);
    loop {
        let elapsed = start.elapsed();
        if elapsed >= time {
            return Ok((calls, elapsed.as_secs_f64()));
        }
        for _ in 0..BATCH {
            one()?;
        }
        calls += BATCH;
    }
}

impl<P: Peer> Contestant for Hosted<P> {
    fn name(&self) -> &str {
        self.name
    }

    /// On a thread of its own, so that pinning it leaves the rest of the process free.
    fn run(&mut self, work: &Work) -> Result<Rate, PeerFault> {
        let (name, micro) = (self.name, self.table.micro(work.op)?);
        let rate = std::thread::scope(|s| s.spawn(|| self.worker(work, &micro)).join());
        let rate = rate.map_err(|_| PeerFault::Panicked(name.into()))??;
        if rate.tps > 0.0 { Ok(rate) } else { Err(PeerFault::Idle(name.into())) }
    }

    fn check(&mut self) -> Result<(), PeerFault> {
        let micro = self.table.micro(Op::Update)?;
        let mut door = Door::new(self.peer.begin()?, &self.layout);
        let audit = at_once(micro.audit(0..1, &mut door));
        let audit = door.end(self.name, audit)?;
        let violations = micro.judge(vec![audit], Some(self.updates)).violations;
        if violations.is_empty() {
            Ok(())
        } else {
            Err(PeerFault::Wrong { name: self.name.into(), violations })
        }
    }
}
