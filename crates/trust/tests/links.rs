//! Sealed links end to end: which callers are let in, which are refused and why, and that bytes
//! arrive.

use channel::{
    Address, ChannelError, Guarding, Hello, Link, Listener, Parker, Role, connect, connect_guarded,
};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::thread;
use std::time::Duration;
use trust::{Holder, guard, make};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(30);

fn holder(name: &str, role: Role, address: Option<IpAddr>) -> Holder {
    Holder { name: name.into(), role, address }
}

/// Certificates of a cluster: machine `a` at this address, an operator, a client.
fn certificates(dir: &Path, days: u32) {
    let holders = [
        holder("a", Role::Machine, Some(HERE)),
        holder("far", Role::Machine, Some([10, 1, 2, 3].into())),
        holder("operator", Role::Operator, None),
        holder("client", Role::Client, None),
    ];
    make(dir, "test", &holders, days).unwrap();
}

fn guarding(dir: &Path, name: &str) -> Guarding {
    Guarding(Some(guard(&dir.join(name)).unwrap()))
}

type Accepted = Result<(Link, Hello), ChannelError>;

/// One connection: the results of both ends.
fn meet(listener: &Guarding, caller: &Guarding) -> (Accepted, Result<Link, ChannelError>) {
    let listener = Listener::bind_guarded(&Address::Tls((HERE, 0).into()), listener).unwrap();
    let at = listener.address().clone();
    let accepting = thread::spawn(move || listener.accept());
    let called = connect_guarded(&at, Hello(b"me".to_vec()), PATIENCE, caller);
    (accepting.join().unwrap(), called)
}

fn why<T>(result: Result<T, ChannelError>) -> String {
    result.map(drop).expect_err("refused").to_string()
}

#[test]
fn each_role_is_known_to_the_listener_and_messages_pass() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), 7);
    let a = guarding(dir.path(), "a");
    for (name, role) in [("a", Role::Machine), ("operator", Role::Operator), ("client", Role::Client)] {
        let (accepted, called) = meet(&a, &guarding(dir.path(), name));
        let (mut here, hello) = accepted.unwrap();
        let mut there = called.unwrap();
        assert_eq!(
            (here.role(), there.role(), hello.0.as_slice()),
            (Some(role), Some(Role::Machine), &b"me"[..])
        );
        exchange(&mut here, &mut there);
    }
}

/// Messages of many lengths in both directions, more than the socket holds, with sleeping owners.
fn exchange(here: &mut Link, there: &mut Link) {
    let lengths: Vec<usize> = (0..400).map(|i| (i * 7919) % 90_000).collect();
    let echo = |link: &mut Link, lengths: &[usize]| {
        let parker = Parker::new().unwrap();
        link.register(&parker).unwrap();
        let (mut sent, mut got) = (0, 0);
        loop {
            while sent < lengths.len() && link.held() < 1 << 20 {
                let body = vec![(sent % 251) as u8; lengths[sent]];
                link.send(&[&body]).unwrap();
                sent += 1;
            }
            link.flush().unwrap();
            while let Some(message) = link.receive().unwrap() {
                assert_eq!(message.len(), lengths[got]);
                assert!(message.iter().all(|byte| *byte == (got % 251) as u8));
                got += 1;
            }
            if got == lengths.len() && sent == lengths.len() && link.held() == 0 {
                return;
            }
            parker.park(Some(PATIENCE), || sent == lengths.len() || link.held() >= 1 << 20);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| echo(here, &lengths));
        echo(there, &lengths);
    });
}

#[test]
fn strangers_and_outdated_certificates_are_refused_at_both_ends() {
    let (ours, theirs, old) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    certificates(ours.path(), 7);
    certificates(theirs.path(), 7);
    certificates(old.path(), 0); // ends when it begins
    let a = guarding(ours.path(), "a");
    let (accepted, called) = meet(&a, &guarding(theirs.path(), "client"));
    assert!(why(accepted).contains("another cluster"));
    assert!(why(called).contains("another cluster"));
    thread::sleep(Duration::from_millis(1100));
    let old = guarding(old.path(), "a");
    let (accepted, called) = meet(&old, &old);
    assert!(why(accepted).contains("expired"));
    assert!(why(called).contains("atoll cluster certificates"));
}

#[test]
fn a_listener_must_be_the_machine_that_was_called() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), 7);
    let client = guarding(dir.path(), "client");
    let (_, called) = meet(&guarding(dir.path(), "far"), &client);
    assert!(why(called).contains("not for the address"), "a certificate for another address");
    let (_, called) = meet(&guarding(dir.path(), "operator"), &client);
    assert!(called.is_err(), "an operator is no machine");
}

#[test]
fn an_end_without_tls_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), 7);
    let a = guarding(dir.path(), "a");
    let sealed = Listener::bind_guarded(&Address::Tls((HERE, 0).into()), &a).unwrap();
    let Address::Tls(at) = *sealed.address() else { panic!("another address") };
    let accepting = thread::spawn(move || sealed.accept());
    assert!(why(connect(&Address::Tcp(at), Hello::default(), PATIENCE)).contains("--tls"));
    assert!(why(accepting.join().unwrap()).contains("--tls"));
    let plain = Listener::bind(&Address::Tcp((HERE, 0).into())).unwrap();
    let Address::Tcp(at) = *plain.address() else { panic!("another address") };
    let accepting = thread::spawn(move || plain.accept());
    assert!(connect_guarded(&Address::Tls(at), Hello::default(), PATIENCE, &a).is_err());
    assert!(why(accepting.join().unwrap()).contains("--tls"));
    assert!(why(connect(&Address::Tls(at), Hello::default(), PATIENCE)).contains("--tls"));
}

#[test]
fn certificates_made_later_are_of_the_same_cluster() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), 7);
    let a = guarding(dir.path(), "a");
    let made = make(dir.path(), "test", &[holder("b", Role::Machine, Some(HERE))], 7).unwrap();
    assert!(!made.new_authority);
    let (accepted, called) = meet(&a, &guarding(dir.path(), "b"));
    assert!(accepted.is_ok() && called.is_ok());
    let missing = guard(&dir.path().join("missing")).map(drop).unwrap_err().to_string();
    assert!(missing.contains("atoll cluster certificates"), "{missing}");
}
