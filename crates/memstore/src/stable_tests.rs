//! An epoch that is asked for on the device is there, also in modes that do not promise it.

use crate::durable_tests::{log_options, of, open_with, put, rows_of};
use crate::{Durability, FlushBy, Memstore};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use world::sim::Disk;

/// Wakes the thread that waits.
struct Rouse(Thread, AtomicBool);

impl Wake for Rouse {
    fn wake(self: Arc<Self>) {
        self.1.store(true, Ordering::SeqCst);
        self.0.unpark();
    }
}

/// Waits as a task does: until it is woken, or until the first poll answers.
fn wait(store: &Memstore, epoch: u64, flush_by: FlushBy) {
    let begun = Instant::now();
    loop {
        let rouse = Arc::new(Rouse(std::thread::current(), AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&rouse));
        match store.poll_stable(epoch, flush_by, &mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome.unwrap(),
            Poll::Pending if flush_by == FlushBy::Caller => store.flush_here(),
            Poll::Pending => {}
        }
        while !rouse.1.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(100));
            assert!(begun.elapsed() < Duration::from_secs(20), "the task was not woken");
        }
    }
}

#[test]
fn what_was_asked_for_on_the_device_survives_a_power_cut_in_async_mode() {
    for (seed, flush_by) in (0..20).flat_map(|seed| [(seed, FlushBy::Flusher), (seed, FlushBy::Caller)]) {
        let disk = Disk::new();
        let (store, _) = open_with(disk.files(), log_options(Durability::Async)).unwrap();
        let mut w = store.worker(0).unwrap();
        put(&mut w, b"before", b"1");
        let asked = put(&mut w, b"asked", b"2");
        wait(&store, asked.epoch, flush_by);
        assert!(store.ask_stable(asked.epoch));
        let cut = disk.crash_image(seed);
        assert_eq!(rows_of(&cut), of(&[(b"before", b"1"), (b"asked", b"2")]), "{seed} {flush_by:?}");
        // An epoch that is not asked for is not waited for.
        store.wait_durable(put(&mut w, b"after", b"3").epoch).unwrap();
    }
}

/// Two workers keep asking for epochs on the device, while two threads write and sync their blocks
/// side by side: every task is woken.
#[test]
fn every_task_that_asks_is_woken() {
    let disk = Disk::new();
    let (store, _) = open_with(disk.files(), log_options(Durability::Async)).unwrap();
    std::thread::scope(|scope| {
        for (number, flush_by) in [FlushBy::Flusher, FlushBy::Caller].into_iter().enumerate() {
            let store = &store;
            scope.spawn(move || {
                let mut w = store.worker(number).unwrap();
                for n in 0..300u32 {
                    let done = put(&mut w, &[number as u8], &n.to_le_bytes());
                    match n % 3 {
                        0 => store.wait_durable(done.epoch).unwrap(),
                        _ => wait(store, done.epoch, flush_by),
                    }
                }
            });
        }
    });
    let last = 299u32.to_le_bytes();
    assert!(store.log_stats().fsyncs > 0);
    store.write_out().unwrap();
    assert_eq!(rows_of(&disk.crash_image(1)), of(&[(&[0], &last), (&[1], &last)]));
}

/// With a log that promises the device, stable is the same as durable. Without a log there is
/// nothing to wait for.
#[test]
fn where_the_device_is_promised_it_is_the_same() {
    let disk = Disk::new();
    let (store, _) = open_with(disk.files(), log_options(Durability::Sync)).unwrap();
    let done = put(&mut store.worker(0).unwrap(), b"a", b"1");
    wait(&store, done.epoch, FlushBy::Flusher);
    assert!(store.durable_epoch() >= done.epoch && store.ask_stable(done.epoch));
    assert_eq!(rows_of(&disk.crash_image(3)), of(&[(b"a", b"1")]));
}
