//! The state of an open log that appenders, waiters, readers and the flusher share.

use crate::fault::LogFault;
use crate::insert::{Drain, Inserter, Room};
use crate::options::LogOptions;
use crate::ring::Ring;
use base::Durability;
use latch::{CachePadded, Waiters};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// State that appenders, waiters and the flusher share.
pub(crate) struct Shared {
    /// Unique in this process.
    pub id: u64,
    pub options: LogOptions,
    /// Random number of this opening, part of each frame's check.
    pub life: u64,
    /// Start of the first record of this opening.
    pub opened_at: u64,
    pub ring: Ring,
    pub inserter: Inserter,
    pub written: CachePadded<AtomicU64>,
    pub stable: CachePadded<AtomicU64>,
    /// The highest position that a waiter wants on the device (for `Sync`: durable).
    pub wanted: CachePadded<AtomicU64>,
    /// The highest position that a thread wants written, for room in the ring or to read it.
    pub pressed: AtomicU64,
    pub flushes: AtomicU64,
    pub fsyncs: AtomicU64,
    pub fault: OnceLock<LogFault>,
    /// Whether `fault` is set, for reads by appenders. Set after `fault`.
    pub broken: AtomicBool,
    pub waiters: Waiters,
}

impl Shared {
    pub fn new(options: LogOptions, ring: Ring, end: u64, segment_end: u64, life: u64) -> Shared {
        Shared {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            life,
            opened_at: end,
            inserter: Inserter::new(&options, ring.bytes() as u64, end, segment_end),
            options,
            ring,
            // All bytes below were given to the file system. Written by the flusher.
            written: CachePadded::new(AtomicU64::new(end)),
            // All bytes below are on the device. Written by the flusher.
            stable: CachePadded::new(AtomicU64::new(end)),
            wanted: CachePadded::new(AtomicU64::new(0)),
            pressed: AtomicU64::new(0),
            // Number of writes. Written by the flusher.
            flushes: AtomicU64::new(0),
            // Number of syncs. Written by the flusher.
            fsyncs: AtomicU64::new(0),
            // The fault that poisoned the log. Set once, by the thread that met it.
            fault: OnceLock::new(),
            broken: AtomicBool::new(false),
            // Tasks and threads that wait for `written` or `stable`.
            waiters: Waiters::default(),
        }
    }

    pub fn durable(&self) -> u64 {
        match self.options.durability {
            Durability::Sync | Durability::Replicated => self.stable.load(Ordering::Acquire),
            // After a fault the flusher has stopped, and a record without room in the ring is
            // dropped. It is not known which records these are, so only written records count,
            // although the bytes in the ring survive the process as well.
            Durability::Async if self.fault.get().is_some() => self.written.load(Ordering::Acquire),
            Durability::Async | Durability::Memory => self.inserter.reserved(),
        }
    }

    /// The position up to which a power cut loses nothing, in every mode. In memory mode, where
    /// nothing survives, the same as [`Shared::durable`].
    pub fn on_device(&self) -> u64 {
        match self.options.durability {
            Durability::Memory => self.durable(),
            Durability::Sync | Durability::Replicated | Durability::Async => {
                self.stable.load(Ordering::Acquire)
            }
        }
    }

    pub fn fault(&self) -> Result<(), LogFault> {
        self.fault.get().map_or(Ok(()), |f| Err(f.clone()))
    }

    /// Marks the log as broken. The first fault is kept.
    pub fn poison(&self, fault: LogFault) {
        let _ = self.fault.set(fault);
        self.broken.store(true, Ordering::Release);
        self.waiters.wake(u64::MAX);
    }

    /// Whether a waiter waits for the device.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire) > self.stable.load(Ordering::Relaxed)
    }

    #[inline]
    pub fn room(&self) -> Room<'_> {
        Room {
            ring: &self.ring,
            life: self.life,
            written: &self.written,
            broken: &self.broken,
            drain: match self.options.durability {
                Durability::Memory => Drain::Oblivion,
                Durability::Sync | Durability::Replicated | Durability::Async => Drain::Flusher,
            },
            flusher: None,
        }
    }
}
