//! A peer process that is killed: the messages it had sent arrive, then the link ends, whether this
//! end is asleep or awake.

use crate::common::{TOO_LONG, addresses, content, sleep};
use channel::{Address, Closed, Hello, Link, Listener, Parked, Parker, connect};
use std::process::{Child, Command};
use std::time::Instant;

const PLACE: &str = "ATOLL_TEST_PLACE";
const ROLE: &str = "ATOLL_TEST_ROLE";

/// Not a test by itself: the part of this binary when a test below starts it as the peer process.
#[test]
fn peer_process() {
    let (Ok(place), Ok(role)) = (std::env::var(PLACE), std::env::var(ROLE)) else { return };
    let mut link = connect(&place.parse().unwrap(), Hello(role.clone().into_bytes()), TOO_LONG).unwrap();
    match role.as_str() {
        "flood" => flood(&mut link),
        "echo" => echo(&mut link),
        other => panic!("role '{other}': expected flood or echo"),
    }
}

/// Sends for ever; the parent reads some messages and kills this process.
fn flood(link: &mut Link) {
    for number in 0.. {
        while link.held() > 1 << 20 {
            link.flush().unwrap();
        }
        link.send(&[&content(number, (number % 500) as usize)]).unwrap();
        link.flush().unwrap();
    }
}

/// Answers every message with itself, sleeping between them, until the parent leaves.
fn echo(link: &mut Link) {
    let parker = Parker::new().unwrap();
    link.register(&parker).unwrap();
    loop {
        match link.receive() {
            Ok(Some(message)) => {
                let message = message.to_vec();
                link.send(&[&message]).unwrap();
            }
            Ok(None) => {
                link.flush().unwrap();
                assert_ne!(parker.park(Some(TOO_LONG), || true), Parked::TimedOut, "a wake-up was lost");
            }
            Err(end) => {
                assert!(matches!(end, Closed::ByPeer), "{end}");
                return;
            }
        }
    }
}

fn with_peer(address: &Address, role: &str) -> (Child, Link) {
    let listener = Listener::bind(address).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "death::peer_process", "--nocapture"])
        .env(PLACE, listener.address().to_string())
        .env(ROLE, role)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let (link, hello) = listener.accept().unwrap();
    assert_eq!(hello.0, role.as_bytes());
    (child, link)
}

/// Checks messages until the link ends; sleeps when asked to.
fn read_to_the_end(link: &mut Link, mut number: u64, parker: Option<&Parker>) -> Closed {
    let start = Instant::now();
    loop {
        match link.receive() {
            Ok(Some(message)) => {
                assert_eq!(message, content(number, (number % 500) as usize));
                number += 1;
            }
            Ok(None) => match parker {
                Some(parker) => assert_ne!(parker.park(Some(TOO_LONG), || true), Parked::TimedOut),
                None => assert!(start.elapsed() < TOO_LONG, "the end went unnoticed"),
            },
            Err(end) => return end,
        }
    }
}

#[test]
fn a_peer_killed_in_mid_stream_ends_the_link() {
    let (_directory, addresses) = addresses();
    for address in &addresses[..3] {
        for asleep in [false, true] {
            let (mut child, mut link) = with_peer(address, "flood");
            let parker = Parker::new().unwrap();
            if asleep {
                link.register(&parker).unwrap();
            }
            let mut number = 0;
            while number < 5_000 {
                if let Some(message) = link.receive().unwrap() {
                    assert_eq!(message, content(number, (number % 500) as usize));
                    number += 1;
                }
            }
            child.kill().unwrap();
            child.wait().unwrap();
            let end = read_to_the_end(&mut link, number, asleep.then_some(&parker));
            assert!(matches!(end, Closed::ByPeer | Closed::Cut), "{address}: {end}");
            assert!(link.closed());
        }
    }
}

#[test]
fn two_processes_that_sleep_at_every_turn_answer_each_other() {
    let (_directory, addresses) = addresses();
    for address in &addresses[..3] {
        let (mut child, mut link) = with_peer(address, "echo");
        let parker = Parker::new().unwrap();
        link.register(&parker).unwrap();
        for round in 0..10_000u64 {
            for _ in 0..round * 7919 % 97 * 20 {
                std::hint::spin_loop();
            }
            link.send(&[&round.to_le_bytes()]).unwrap();
            link.flush().unwrap();
            assert_eq!(sleep(&mut link, &parker), round.to_le_bytes());
        }
        drop(link);
        assert!(child.wait().unwrap().success());
    }
}
