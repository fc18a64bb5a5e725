//! Ends of links: in order, by a killed process, and addresses that no device has.

use crate::common::{TOO_LONG, at, connected, content, sleep, spin};
use channel::{ChannelError, Closed, Hello, Link, Listener, Parked, Parker, connect};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const PLACE: &str = "ATOLL_RDMA_PEER";

/// Not a test by itself: the part of this binary when a test below starts it as the peer process.
/// Sends for ever; the parent reads some messages and kills this process.
#[test]
fn peer_process() {
    let Ok(place) = std::env::var(PLACE) else { return };
    rdma::provide();
    let mut link = connect(&place.parse().unwrap(), Hello::default(), TOO_LONG).unwrap();
    for number in 0.. {
        while link.held() > 1 << 16 {
            link.flush().unwrap();
        }
        link.send(&[&content(number, length(number))]).unwrap();
        link.flush().unwrap();
    }
}

fn length(number: u64) -> usize {
    (number * 131 % 9_000) as usize
}

fn with_peer() -> (Child, Link) {
    let listener = Listener::bind(&at()).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ends::peer_process", "--nocapture"])
        .env(PLACE, listener.address().to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (link, _) = listener.accept().unwrap();
    (child, link)
}

/// Checks messages until the link ends; sleeps with a parker.
fn read_to_the_end(link: &mut Link, mut number: u64, parker: Option<&Parker>) -> Closed {
    let start = Instant::now();
    loop {
        match link.receive() {
            Ok(Some(message)) => {
                assert_eq!(message, content(number, length(number)));
                number += 1;
            }
            Ok(None) => match parker {
                Some(parker) => assert_ne!(parker.park(Some(TOO_LONG), || true), Parked::TimedOut),
                None => link.look_at_end(),
            },
            Err(end) => return end,
        }
        assert!(start.elapsed() < TOO_LONG, "the end was not noticed");
    }
}

#[test]
fn a_killed_peer_ends_the_link_of_an_owner_that_is_awake_and_of_one_that_sleeps() {
    for sleeps in [false, true] {
        let (mut child, mut link) = with_peer();
        let parker = Parker::new().unwrap();
        link.register(&parker).unwrap();
        for number in 0..100 {
            let message = if sleeps { sleep(&mut link, &parker) } else { spin(&mut link) };
            assert_eq!(message, content(number, length(number)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let end = read_to_the_end(&mut link, 100, sleeps.then_some(&parker));
        assert!(matches!(end, Closed::ByPeer | Closed::Cut), "{end}");
        assert!(link.send(&[b"x"]).is_err() && link.receive().is_err());
    }
}

#[test]
fn what_was_sent_before_an_end_in_order_arrives() {
    let (mut near, mut far) = connected(&at());
    for number in 0..200 {
        far.send(&[&content(number, length(number) / 10)]).unwrap();
    }
    while far.held() > 0 {
        far.flush().unwrap();
    }
    drop(far);
    for number in 0..200 {
        assert_eq!(spin(&mut near), content(number, length(number) / 10));
    }
    near.look_at_end();
    assert!(matches!(near.receive(), Err(Closed::ByPeer)));
}

#[test]
fn many_links_stand_side_by_side() {
    let mut links: Vec<(Link, Link)> = (0..16).map(|_| connected(&at())).collect();
    for (number, (near, far)) in links.iter_mut().enumerate() {
        near.send(&[&content(number as u64, 5_000)]).unwrap();
        far.send(&[&content(number as u64, 50_000)]).unwrap();
        near.flush().unwrap();
        far.flush().unwrap();
    }
    for (number, (near, far)) in links.iter_mut().enumerate().rev() {
        assert_eq!(spin(far), content(number as u64, 5_000));
        assert_eq!(spin(near), content(number as u64, 50_000));
    }
}

#[test]
fn an_address_that_no_device_has_is_refused_with_those_that_there_are() {
    rdma::provide();
    let error = Listener::bind(&"rdma:192.0.2.77:0".parse().unwrap()).map(drop).unwrap_err();
    let ChannelError::Fabric { why } = &error else { panic!("{error}") };
    assert!(why.contains("192.0.2.77") && why.contains("expected one of"), "{why}");
}
