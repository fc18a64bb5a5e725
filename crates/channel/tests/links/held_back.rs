//! A link that its owner does not read for now.

use crate::common::{TOO_LONG, on_every_channel, sleep};
use channel::{Parked, Parker, SendError};
use std::time::Duration;

#[test]
fn an_owner_that_reads_nothing_sleeps_over_messages_and_finds_them_all_later() {
    on_every_channel(|channel, mut near, mut far| {
        let parker = Parker::new().unwrap();
        near.register(&parker).unwrap();
        near.hold_back(true);
        for number in 0..100u64 {
            far.send(&[&number.to_le_bytes()]).unwrap();
        }
        far.flush().unwrap();
        // Earlier events may have woken it; from then on it sleeps until the timeout.
        let mut parked = Parked::Busy;
        for _ in 0..10 {
            parked = parker.park(Some(Duration::from_millis(5)), || true);
            if parked == Parked::TimedOut {
                break;
            }
        }
        assert_eq!(parked, Parked::TimedOut, "{channel}");
        near.hold_back(false);
        for number in 0..100u64 {
            assert_eq!(sleep(&mut near, &parker), number.to_le_bytes(), "{channel}");
        }
    });
}

#[test]
fn a_message_wakes_an_owner_that_reads_again() {
    on_every_channel(|channel, mut near, mut far| {
        let parker = Parker::new().unwrap();
        near.register(&parker).unwrap();
        near.hold_back(true);
        while parker.park(Some(Duration::from_millis(1)), || true) != Parked::TimedOut {}
        near.hold_back(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                far.send(&[b"late"]).unwrap();
                far.flush().unwrap();
            });
            assert_eq!(sleep(&mut near, &parker), b"late", "{channel}");
        });
    });
}

#[test]
fn the_end_of_a_peer_shows_behind_messages_that_are_unread() {
    on_every_channel(|channel, near, mut far| {
        near.hold_back(true);
        far.send(&[b"a last word"]).unwrap();
        far.flush().unwrap();
        assert!(!near.peer_left(), "{channel}");
        drop(far);
        let start = std::time::Instant::now();
        while !near.peer_left() {
            assert!(start.elapsed() < TOO_LONG, "{channel}");
        }
    });
}

#[test]
fn a_peer_that_is_not_read_finds_the_channel_full() {
    on_every_channel(|channel, near, mut far| {
        near.hold_back(true);
        let message = vec![7; 1 << 20];
        let full = (0..200).find_map(|_| far.send(&[&message]).err());
        assert!(matches!(full, Some(SendError::Full { .. })), "{channel}: {full:?}");
        drop(near);
    });
}
