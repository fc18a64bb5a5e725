//! Connectors that send nothing, or little, while others connect.

use crate::common::{TOO_LONG, addresses};
use channel::{Address, ChannelError, Hello, Listener, connect};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::thread;

/// A connection that has not begun its handshake.
enum Silent {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Silent {
    fn at(address: &Address) -> Silent {
        match address {
            Address::Shm(path) | Address::Uds(path) => Silent::Unix(UnixStream::connect(path).unwrap()),
            Address::Tcp(place) | Address::Tls(place) | Address::Rdma(place) => {
                Silent::Tcp(TcpStream::connect(place).unwrap())
            }
            Address::Ring(_) => unreachable!("a ring has no handshake"),
        }
    }

    fn say(&mut self, bytes: &[u8]) {
        match self {
            Silent::Unix(stream) => stream.write_all(bytes).unwrap(),
            Silent::Tcp(stream) => stream.write_all(bytes).unwrap(),
        }
    }

    /// Waits until the listener has closed it.
    fn is_given_up(&mut self) {
        let read = match self {
            Silent::Unix(stream) => stream.read(&mut [0]),
            Silent::Tcp(stream) => stream.read(&mut [0]),
        };
        assert!(matches!(read, Ok(0) | Err(_)), "the listener has answered: {read:?}");
    }
}

/// The next connector that is accepted, and the number of connectors given up before it.
fn let_in(listener: &Listener) -> (usize, Hello) {
    let mut given_up = 0;
    loop {
        match listener.accept() {
            Ok((_, hello)) => return (given_up, hello),
            Err(ChannelError::Timeout { .. }) => given_up += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn silent_connectors_hold_up_no_other_one_and_are_given_up_in_time() {
    let (_directory, addresses) = addresses();
    for address in &addresses[..3] {
        let listener = Listener::bind(address).unwrap();
        let place = listener.address().clone();
        let mut silent: Vec<Silent> = (0..5).map(|_| Silent::at(&place)).collect();
        // Half of a head, and half of a hello.
        silent[0].say(b"atollch\n");
        silent[1].say(b"atollch\n\x01\0");
        for name in [&b"first"[..], b"second"] {
            let place = place.clone();
            let good = thread::spawn(move || connect(&place, Hello(name.to_vec()), TOO_LONG).map(drop));
            assert_eq!(let_in(&listener), (0, Hello(name.to_vec())), "{address}");
            good.join().unwrap().unwrap();
        }
        for _ in &silent {
            assert!(matches!(listener.accept().map(drop), Err(ChannelError::Timeout { .. })));
        }
        silent.iter_mut().for_each(Silent::is_given_up);
    }
}

#[test]
fn a_handshake_that_comes_byte_by_byte_is_completed() {
    let (_directory, addresses) = addresses();
    for (address, kind) in addresses[1..3].iter().zip([2, 3]) {
        let listener = Listener::bind(address).unwrap();
        let mut slow = Silent::at(listener.address());
        let speaking = thread::spawn(move || {
            let head = [&b"atollch\n\x01\0"[..], &[kind, 0, 5, 0, 0, 0], b"pearl"].concat();
            head.iter().for_each(|byte| slow.say(&[*byte]));
            slow
        });
        assert_eq!(let_in(&listener), (0, Hello(b"pearl".to_vec())));
        drop(speaking.join().unwrap());
    }
}

/// The bound on handshakes under way: beyond it the oldest is given up.
#[test]
fn a_crowd_of_silent_connectors_makes_room_for_one_that_speaks() {
    let (_directory, addresses) = addresses();
    let listener = Listener::bind(&addresses[1]).unwrap();
    let place = listener.address().clone();
    // The listener's queue is shorter than the crowd, so it is filled while the listener accepts.
    let crowd = {
        let place = place.clone();
        thread::spawn(move || {
            let crowd: Vec<Silent> = (0..200).map(|_| Silent::at(&place)).collect();
            (crowd, connect(&place, Hello(b"good".to_vec()), TOO_LONG).map(drop))
        })
    };
    let (given_up, hello) = let_in(&listener);
    assert_eq!((given_up >= 200 - 64, hello.0), (true, b"good".to_vec()), "{given_up}");
    let (mut crowd, good) = crowd.join().unwrap();
    good.unwrap();
    crowd[0].is_given_up();
    drop(crowd);
}
