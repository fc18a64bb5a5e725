//! Durability: opening a store from its files, waiting until a commit is durable, and checkpoints.

use crate::engine::{EngineFault, Recovered, Setup};
use crate::memory::{MemoryEngine, MemoryWorkerContext};
use crate::options::OccConflict;
use base::{Durability, FlushBy, Lsn, TableId};
use memstore::{InDoubt, LogFault, LogOptions, Memstore, OpenError, Options};
use probe::Wait;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use store::NoteId;
use txn::{Abort, Schema};
use world::Files;

/// Table ids of a store are below this, unless the schema has higher ones.
const IDS: u16 = 256;

/// The number above all ids of a schema.
pub(super) fn ids_of(schema: &Schema) -> u16 {
    ids(schema).map(|id| id.0 + 1).max().unwrap_or(1)
}

fn ids(schema: &Schema) -> impl Iterator<Item = TableId> {
    schema.tables.iter().flat_map(|table| table.indexes.iter().map(|index| index.id).chain([table.id]))
}

/// Whether the folder `dir` has every file that opening the store in it needs. Changes nothing.
///
/// # Errors
/// [`EngineFault::Memory`] with the file that is missing or cannot be used.
pub fn expect_files(files: &dyn Files, dir: &Path) -> Result<(), EngineFault> {
    Ok(memstore::expect_files(files, dir)?)
}

impl MemoryEngine {
    /// As [`Engine::open`](crate::Engine::open), on these files and with the log options that
    /// `tune` sets.
    ///
    /// # Errors
    /// [`EngineFault`]: the folder does not hold the expected data, or cannot be read.
    pub fn open_on(
        files: Arc<dyn Files>,
        setup: &Setup,
        tune: impl FnOnce(&mut LogOptions),
    ) -> Result<(MemoryEngine, Recovered<InDoubt>), EngineFault> {
        // Silo has no queues either.
        let (conflict, contention) = match setup.options.occ_conflict {
            OccConflict::Wait => (memstore::Conflict::Wait, memstore::Contention::Queues),
            OccConflict::Abort => (memstore::Conflict::Abort, memstore::Contention::Optimistic),
        };
        let (budget, tables) = (setup.pool_pages as u64 * 8192, ids_of(&setup.schema).max(IDS));
        let options = Options { tables, conflict, contention, ..Options::new(budget, setup.workers + 1) };
        let mut log = LogOptions::new(setup.durability);
        tune(&mut log);
        let (store, found) = Memstore::open_in(options, log, files, &setup.dir)?;
        let schema = match &found.schema {
            Some(bytes) => postcard::from_bytes(bytes).map_err(|e| EngineFault::Tables(e.to_string()))?,
            None => define(&store, &setup.schema)?,
        };
        let recovered = Recovered {
            life: u32::try_from(found.life.max(1)).unwrap_or(u32::MAX),
            log_bytes: found.replayed.log_bytes,
            in_doubt: found.in_doubt.into_iter().map(|doubt| (doubt.note.clone(), doubt)).collect(),
            notes: found.notes.into_iter().map(|(id, note)| (NoteId(Lsn(id.0)), note)).collect(),
        };
        Ok((MemoryEngine::of(store, &schema, setup.workers, setup.options.lock_timeout_ns()), recovered))
    }

    #[inline]
    pub(super) fn known(&self, lsn: Lsn) -> Option<Result<(), Abort>> {
        if self.store.durable_epoch() >= lsn.0 {
            return Some(Ok(()));
        }
        self.store.log_fault().map(|_| Err(Abort::Fault))
    }

    pub(super) async fn await_durable(
        &self,
        ctx: &MemoryWorkerContext,
        lsn: Lsn,
        flush_by: FlushBy,
    ) -> Result<(), Abort> {
        let mut is_entered = false;
        std::future::poll_fn(|cx| {
            if let Some(known) = self.known(lsn) {
                return Poll::Ready(known);
            }
            if !std::mem::replace(&mut is_entered, true) {
                let ask = |cx: &mut Context<'_>| self.store.poll_durable(lsn.0, flush_by, cx).is_pending();
                ctx.awaiting.enter(lsn.0, cx.waker(), ask);
            }
            probe::parks(Wait::Log, Poll::Pending)
        })
        .await
    }

    /// Waits until the device has all commits of epochs up to `lsn`. In the mode that does not
    /// promise this, few transactions ask for it, so each polls the log itself.
    pub(super) async fn await_stable(
        &self,
        ctx: &MemoryWorkerContext,
        lsn: Lsn,
        flush_by: FlushBy,
    ) -> Result<(), Abort> {
        if self.store.durability() != Some(Durability::Async) {
            return match self.known(lsn) {
                Some(known) => known,
                None => self.await_durable(ctx, lsn, flush_by).await,
            };
        }
        std::future::poll_fn(|cx| match self.store.poll_stable(lsn.0, flush_by, cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome.map_err(|_| Abort::Fault)),
            Poll::Pending => probe::parks(Wait::Log, Poll::Pending),
        })
        .await
    }

    /// Why the last checkpoint was not written, if it was not.
    pub(super) fn unwritten(&self) -> MutexGuard<'_, Option<String>> {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread that writes a checkpoint, unless one is running.
    pub(super) fn checkpoint_beside(self: &Arc<Self>) {
        if self.checkpointing.swap(true, Ordering::Acquire) {
            return;
        }
        let engine = Arc::clone(self);
        let write = move || {
            // A failed checkpoint changes nothing. The next is due when as much again is logged, or
            // after a pause if this one found no room.
            let fault = engine.store.checkpoint().err();
            *engine.unwritten() = fault.map(|fault| {
                format!(
                    "the log grows, because no checkpoint could be written: {fault}; make room on its device"
                )
            });
            engine.checkpointing.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("checkpoint".into()).spawn(write).is_err() {
            self.checkpointing.store(false, Ordering::Release);
        }
    }
}

/// Creates the tables of an empty store.
fn define(store: &Memstore, schema: &Schema) -> Result<Schema, EngineFault> {
    let bytes = postcard::to_stdvec(schema).map_err(|e| EngineFault::Tables(e.to_string()))?;
    store.define(&bytes, &ids(schema).collect::<Vec<_>>())?;
    Ok(schema.clone())
}

impl EngineFault {
    /// The file of a main-memory store where a fault lies, and the byte in it, if the fault names
    /// them.
    pub fn place(&self) -> Option<(&Path, Option<u64>)> {
        let EngineFault::Memory(OpenError::Log(fault)) = self else { return None };
        match fault {
            LogFault::Corrupt { file, offset, .. } => Some((file, Some(*offset))),
            LogFault::Version { file, .. } => Some((file, Some(0))),
            LogFault::Missing { file, .. } | LogFault::Foreign { file, .. } => Some((file, None)),
            LogFault::Io(_) | LogFault::NoRoom(_) | LogFault::InUse { .. } | LogFault::Options(_) => None,
        }
    }
}

impl From<std::io::Error> for EngineFault {
    fn from(error: std::io::Error) -> EngineFault {
        LogFault::from(error).into()
    }
}

impl From<memstore::LogFault> for EngineFault {
    fn from(fault: memstore::LogFault) -> EngineFault {
        EngineFault::Memory(OpenError::Log(fault))
    }
}
