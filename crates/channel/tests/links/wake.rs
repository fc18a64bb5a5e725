//! A sleeping end is woken by a message, by room, by an end, and through its mailbox.

use crate::common::{TOO_LONG, content, on_every_channel, sleep};
use channel::{Parked, Parker};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Spins for a time that differs from round to round, so that sends hit every moment while the peer
/// falls asleep.
fn dawdle(round: u64) {
    for _ in 0..round * 7919 % 97 * 20 {
        std::hint::spin_loop();
    }
}

#[test]
fn two_ends_that_sleep_at_every_turn_answer_each_other() {
    const ROUNDS: u64 = 10_000;
    on_every_channel(|_, mut near, mut far| {
        thread::scope(|scope| {
            scope.spawn(move || {
                let parker = Parker::new().unwrap();
                far.register(&parker).unwrap();
                for round in 0..ROUNDS {
                    let message = sleep(&mut far, &parker);
                    dawdle(round);
                    far.send(&[&message]).unwrap();
                    far.flush().unwrap();
                }
            });
            let parker = Parker::new().unwrap();
            near.register(&parker).unwrap();
            for round in 0..ROUNDS {
                dawdle(round + 31);
                near.send(&[&round.to_le_bytes()]).unwrap();
                near.flush().unwrap();
                assert_eq!(sleep(&mut near, &parker), round.to_le_bytes());
            }
        });
    });
}

#[test]
fn a_sender_without_room_sleeps_and_is_woken_by_the_reader() {
    const BYTES: usize = 1 << 20;
    on_every_channel(|_, mut near, mut far| {
        let stuck = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let parker = Parker::new().unwrap();
                far.register(&parker).unwrap();
                stuck.wait();
                for number in 0..32 {
                    assert!(sleep(&mut far, &parker) == content(number, BYTES));
                }
                far.send(&[b"all"]).unwrap();
                far.flush().unwrap();
            });
            let parker = Parker::new().unwrap();
            near.register(&parker).unwrap();
            (0..32).for_each(|number| near.send(&[&content(number, BYTES)]).unwrap());
            assert!(near.held() > 0);
            stuck.wait();
            assert_eq!(sleep(&mut near, &parker), b"all");
            assert_eq!(near.held(), 0);
        });
    });
}

#[test]
fn a_sleeper_learns_that_its_peer_left() {
    on_every_channel(|channel, mut near, far| {
        let parker = Parker::new().unwrap();
        near.register(&parker).unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(20));
                drop(far);
            });
            while near.receive().is_ok() {
                assert_ne!(parker.park(Some(TOO_LONG), || true), Parked::TimedOut, "{channel}");
            }
        });
        assert!(near.closed());
        assert_eq!(
            parker.park(Some(Duration::from_millis(1)), || true),
            Parked::TimedOut,
            "an ended link is quiet"
        );
    });
}

#[test]
fn a_message_not_yet_read_keeps_its_owner_awake() {
    on_every_channel(|channel, mut near, mut far| {
        let parker = Parker::new().unwrap();
        near.register(&parker).unwrap();
        far.send(&[b"one"]).unwrap();
        far.send(&[b"two"]).unwrap();
        far.flush().unwrap();
        assert_eq!(sleep(&mut near, &parker), b"one");
        assert_ne!(parker.park(Some(TOO_LONG), || true), Parked::TimedOut, "{channel}");
        assert_eq!(near.receive().unwrap(), Some(&b"two"[..]), "{channel}");
        assert!(near.receive().unwrap().is_none());
        let start = Instant::now();
        while parker.park(Some(Duration::from_millis(5)), || true) != Parked::TimedOut {
            assert!(start.elapsed() < TOO_LONG, "{channel}: never quiet");
        }
    });
}

#[test]
fn work_put_into_a_mailbox_wakes_its_worker_every_time() {
    const WORK: u64 = 20_000;
    let (mailbox, parker) = (AtomicU64::new(0), Parker::new().unwrap());
    thread::scope(|scope| {
        for sender in 0..2 {
            let (mailbox, unparker) = (&mailbox, parker.unparker());
            scope.spawn(move || {
                for round in 0..WORK / 2 {
                    mailbox.fetch_add(1, Ordering::Release);
                    unparker.unpark();
                    dawdle(round + sender);
                }
            });
        }
        let mut done = 0;
        while done < WORK {
            let found = mailbox.load(Ordering::Acquire);
            if found > done {
                done = found;
                continue;
            }
            let parked = parker.park(Some(TOO_LONG), || mailbox.load(Ordering::Acquire) == done);
            assert_ne!(parked, Parked::TimedOut, "a wake-up was lost");
        }
    });
}

#[test]
fn parking_ends_at_its_time_and_not_before() {
    let parker = Parker::new().unwrap();
    let start = Instant::now();
    assert_eq!(parker.park(Some(Duration::from_millis(20)), || true), Parked::TimedOut);
    assert!(start.elapsed() >= Duration::from_millis(19));
    assert_eq!(parker.park(Some(TOO_LONG), || false), Parked::Busy);
}

/// Two workers watch one bell, which is never read: each ring wakes a sleeper, and no ring is lost
/// between the second look and the sleep.
#[test]
fn a_watched_bell_wakes_a_sleeper_at_every_ring() {
    use rustix::event::{EventfdFlags, eventfd};
    const RINGS: u64 = 2_000;
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let (rung, seen, left) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let ring = || rustix::io::write(&bell, &1u64.to_ne_bytes()).unwrap();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let parker = Parker::new().unwrap();
                parker.watch_bell(&bell).unwrap();
                while seen.load(Ordering::SeqCst) < RINGS {
                    let now = rung.load(Ordering::SeqCst);
                    if seen.fetch_max(now, Ordering::SeqCst) == now && now < RINGS {
                        let idle = || rung.load(Ordering::SeqCst) == now;
                        parker.park(Some(TOO_LONG * 2), idle);
                    }
                }
                left.fetch_add(1, Ordering::SeqCst);
            });
        }
        for number in 1..=RINGS {
            dawdle(number);
            rung.store(number, Ordering::SeqCst);
            ring();
            let begun = Instant::now();
            while seen.load(Ordering::SeqCst) < number {
                assert!(begun.elapsed() < TOO_LONG, "ring {number} woke nobody");
                thread::yield_now();
            }
        }
        // A ring need not wake both.
        while left.load(Ordering::SeqCst) < 2 {
            ring();
            thread::yield_now();
        }
    });
}
