//! Messages: many, large, empty, too long, too many.

use crate::common::{TOO_LONG, addresses, connected, content, on_every_channel, sleep, spin};
use channel::{Address, Closed, Link, MOST_HELD_BYTES, MOST_MESSAGE_BYTES, Parker, SendError};

/// Sends messages of changing lengths and receives the peer's at the same time, a few sends per
/// turn.
fn chatter(mut link: Link, count: u64, seed: u64, peer_seed: u64) {
    let parker = Parker::new().unwrap();
    link.register(&parker).unwrap();
    let (mut sent, mut received) = (0, 0);
    let length = |number: u64| (number * 37 % 300) as usize;
    while sent < count || received < count {
        for _ in 0..(count - sent).min(16) {
            let message = content(seed + sent, length(sent));
            let (front, back) = message.split_at(message.len() / 3);
            link.send(&[front, &[], back]).unwrap();
            sent += 1;
        }
        link.flush().unwrap();
        while received < count
            && let Some(message) = link.receive().unwrap()
        {
            assert_eq!(message, content(peer_seed + received, length(received)), "message {received}");
            received += 1;
        }
        if sent == count && received < count {
            parker.park(Some(TOO_LONG), || true);
        }
    }
    while link.held() > 0 {
        link.flush().unwrap();
        parker.park(Some(TOO_LONG), || true);
    }
    let counts = link.counts();
    assert_eq!((counts.messages_sent, counts.messages_received), (count, count));
    assert_eq!(counts.bytes_sent, (0..count).map(|n| length(n) as u64).sum::<u64>());
    assert_eq!(counts.bytes_received, counts.bytes_sent);
    // Both ends stay until both have received everything.
    link.send(&[b"done"]).unwrap();
    assert_eq!(sleep(&mut link, &parker), b"done");
}

#[test]
fn a_hundred_thousand_messages_cross_both_ways_whole_and_in_order() {
    on_every_channel(|_, near, far| {
        std::thread::scope(|scope| {
            scope.spawn(|| chatter(near, 100_000, 1, 1 << 40));
            chatter(far, 100_000, 1 << 40, 1);
        });
    });
}

#[test]
fn messages_of_every_size_up_to_the_bound_arrive() {
    on_every_channel(|channel, mut near, mut far| {
        let sizes = [0, 1, 7, 8, 9, 65_527, 65_528, 65_529, 262_144, 1 << 20, MOST_MESSAGE_BYTES];
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for size in sizes {
                    far.send(&[&content(size as u64, size)]).unwrap();
                    assert_eq!(spin(&mut far), b"next");
                }
            });
            for size in sizes {
                assert!(spin(&mut near) == content(size as u64, size), "{size} bytes over {channel}");
                near.send(&[b"next"]).unwrap();
                near.flush().unwrap();
            }
        });
    });
}

#[test]
fn a_message_over_the_bound_is_refused_and_the_link_goes_on() {
    on_every_channel(|_, mut near, mut far| {
        let half = vec![0; MOST_MESSAGE_BYTES / 2 + 1];
        let refused = near.send(&[&half, &half]).unwrap_err();
        assert!(matches!(refused, SendError::TooLong { most: MOST_MESSAGE_BYTES, .. }), "{refused}");
        near.send(&[b"still here"]).unwrap();
        near.flush().unwrap();
        assert_eq!(spin(&mut far), b"still here");
    });
}

#[test]
fn a_peer_that_does_not_read_fills_the_buffer_and_no_more_and_loses_nothing() {
    on_every_channel(|_, mut near, mut far| {
        let message = vec![5; 1 << 20];
        let mut taken = 0;
        let refused = loop {
            match near.send(&[&message]) {
                Ok(()) => taken += 1,
                Err(refused) => break refused,
            }
            near.flush().unwrap();
        };
        assert!(matches!(refused, SendError::Full { most: MOST_HELD_BYTES, .. }), "{refused}");
        assert!(near.held() <= MOST_HELD_BYTES);
        let mut read = 0;
        while read < taken {
            near.flush().unwrap();
            while let Some(got) = far.receive().unwrap() {
                assert_eq!(got.len(), message.len());
                read += 1;
            }
        }
        assert_eq!(near.held(), 0);
        near.send(&[b"again"]).unwrap();
        near.flush().unwrap();
        assert_eq!(spin(&mut far), b"again");
    });
}

/// A ring is looked at without a system call; when its owner asks for it, the next look finds that
/// the other end is gone.
#[test]
fn a_look_for_the_end_of_a_ring_finds_it_at_once() {
    let (_directory, addresses) = addresses();
    let shm = addresses.iter().find(|address| matches!(address, Address::Shm(_))).expect("one of each");
    let (mut near, mut far) = connected(shm);
    near.look_at_end();
    assert!(near.receive().unwrap().is_none(), "it is there");
    far.send(&[b"last words"]).unwrap();
    far.flush().unwrap();
    drop(far);
    near.look_at_end();
    assert_eq!(near.receive().unwrap(), Some(&b"last words"[..]));
    near.look_at_end();
    assert!(matches!(near.receive(), Err(Closed::ByPeer)));
}
