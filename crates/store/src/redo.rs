//! Repeating the log's changes to pages, on several threads.
//!
//! ```text
//!   reader ──> batch for thread 0 ──> pages 0, 8, 16, ...
//!     │   └──> batch for thread 1 ──> pages 1, 9, 17, ...
//!     └─ analysis, notes, allocator
//! ```
//!
//! Redo is physiological: what a record does to one page depends on that page and the record alone, and a record
//! that changes several pages (a structure modification) changes each of them by itself. So pages are dealt out to
//! threads, each thread sees the records about its pages in log order, and a record about pages of several threads is
//! seen by each of them, which repeats its own part. No thread waits for another, and the pages are the same as if
//! one thread had done everything.
//!
//! There are more threads than a small machine has cores, since each may be waiting for a page to be read.

use crate::StoreFault;
use crate::open::Store;
use crate::restart::stopped;
use access::redo_part;
use base::{Lsn, PageId};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};
use wal::RecordHeader;

/// Page reads in flight while pages are absent; also what a large machine's cores can repeat beside one reader.
const THREADS: usize = 8;
/// Bytes of records handed over at once: enough that the hand-over is not felt.
const BATCH_BYTES: usize = 256 << 10;
/// Batches that wait for a thread: the reader runs ahead by this much, and no further.
const AHEAD: usize = 2;

/// Which thread a page belongs to.
pub(crate) fn thread_of(page: PageId) -> usize {
    page.0 as usize % THREADS
}

/// Threads, one bit each.
#[derive(Clone, Copy, Default)]
pub(crate) struct Threads(u32);

impl Threads {
    pub fn add(&mut self, page: PageId) {
        self.0 |= 1 << thread_of(page);
    }
}

#[derive(Default)]
struct Batch {
    records: Vec<(RecordHeader, Lsn, usize)>,
    /// The records' bodies, one behind the other.
    bytes: Vec<u8>,
}

/// The reader's end.
pub(crate) struct Redo<'scope> {
    lanes: Vec<Lane<'scope>>,
}

struct Lane<'scope> {
    batch: Batch,
    to: Option<SyncSender<Batch>>,
    thread: ScopedJoinHandle<'scope, Result<(), StoreFault>>,
}

impl<'scope> Redo<'scope> {
    pub fn start<'env>(
        store: &'env Store,
        scope: &'scope Scope<'scope, 'env>,
    ) -> std::io::Result<Redo<'scope>> {
        let lane = |me| {
            let (to, from) = sync_channel(AHEAD);
            let thread = std::thread::Builder::new()
                .name(format!("redo-{me}"))
                .spawn_scoped(scope, move || repeat(store, me, &from))?;
            Ok(Lane { batch: Batch::default(), to: Some(to), thread })
        };
        Ok(Redo { lanes: (0..THREADS).map(lane).collect::<std::io::Result<_>>()? })
    }

    /// Has the record repeated by these threads. `lsn` is its end, which its pages bear.
    ///
    /// # Errors
    /// What a thread met on an earlier record.
    pub fn record(
        &mut self,
        threads: Threads,
        header: &RecordHeader,
        lsn: Lsn,
        body: &[u8],
    ) -> Result<(), StoreFault> {
        let mut left = threads.0;
        while left != 0 {
            let lane = &mut self.lanes[left.trailing_zeros() as usize];
            left &= left - 1;
            lane.batch.bytes.extend_from_slice(body);
            lane.batch.records.push((*header, lsn, lane.batch.bytes.len()));
            if lane.batch.bytes.len() >= BATCH_BYTES && !lane.hand_over() {
                // The thread is gone: its result says why.
                return self.finish();
            }
        }
        Ok(())
    }

    /// Waits until everything is repeated.
    ///
    /// # Errors
    /// What a thread met.
    pub fn finish(&mut self) -> Result<(), StoreFault> {
        for lane in &mut self.lanes {
            lane.hand_over();
            lane.to = None;
        }
        let done = self.lanes.drain(..).map(|lane| {
            lane.thread.join().unwrap_or_else(|_| Err(std::io::Error::other("a redo thread panicked").into()))
        });
        // Every thread is waited for before the first fault is given.
        done.collect::<Vec<_>>().into_iter().collect()
    }
}

impl Lane<'_> {
    /// Whether the thread takes it.
    fn hand_over(&mut self) -> bool {
        let batch = mem::take(&mut self.batch);
        self.to.as_ref().is_some_and(|to| to.send(batch).is_ok())
    }
}

/// What thread `me` does.
fn repeat(store: &Store, me: usize, batches: &Receiver<Batch>) -> Result<(), StoreFault> {
    for batch in batches {
        let mut from = 0;
        for &(header, lsn, end) in &batch.records {
            let body = &batch.bytes[from..end];
            from = end;
            let redo = || redo_part(&store.pool, &header, lsn, body, |page| thread_of(page) == me);
            store.insist(redo).map_err(stopped)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_bit_of_its_own() {
        let mut all = Threads::default();
        (1..=THREADS as u32).for_each(|page| all.add(PageId(page)));
        assert_eq!(all.0.count_ones() as usize, THREADS);
        all.add(PageId(77));
        assert_eq!(all.0.count_ones() as usize, THREADS);
    }
}
