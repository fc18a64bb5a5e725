//! Binding, connecting, and the refusals on the way.

use crate::common::{TOO_LONG, addresses, private_directory, spin};
use channel::{Address, ChannelError, Closed, Hello, Link, Listener, connect};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

fn path_of(address: &Address) -> Option<&PathBuf> {
    match address {
        Address::Shm(path) | Address::Uds(path) => Some(path),
        _ => None,
    }
}

/// The first 16 bytes of a connector: version, kind, and the length of the hello that it promises.
fn head(version: u16, what: u8, bytes: u32) -> Vec<u8> {
    let mut head = b"atollch\n".to_vec();
    head.extend(version.to_le_bytes());
    head.extend([what, 0]);
    head.extend(bytes.to_le_bytes());
    head
}

/// Sends `bytes` to the listener as a connector would; returns the reply and the listener's result.
fn say(address: &Address, bytes: &[u8]) -> (Vec<u8>, Result<(Link, Hello), ChannelError>) {
    let listener = Listener::bind(address).unwrap();
    let place = listener.address().clone();
    let accepting = thread::spawn(move || listener.accept());
    let mut reply = Vec::new();
    match &place {
        Address::Tcp(place) => talk(TcpStream::connect(place).unwrap(), bytes, &mut reply),
        other => talk(UnixStream::connect(path_of(other).unwrap()).unwrap(), bytes, &mut reply),
    }
    (reply, accepting.join().unwrap())
}

fn talk(mut stream: impl Read + Write, bytes: &[u8], reply: &mut Vec<u8>) {
    stream.write_all(bytes).unwrap();
    // The listener may have reset the connection by now.
    let _ = stream.read_to_end(reply);
}

#[test]
fn a_peer_of_another_version_is_refused_at_both_ends_with_both_versions_named() {
    let (_directory, addresses) = addresses();
    for (address, kind) in addresses[..3].iter().zip(1u8..) {
        let (reply, accepted) = say(address, &head(7, kind, 0));
        let error = accepted.map(drop).unwrap_err();
        assert!(matches!(error, ChannelError::Version { ours: 1, theirs: 7 }), "{error}");
        assert!(error.goes_on());
        assert_eq!(reply, head(1, 1, 0));
    }
}

#[test]
fn a_connector_names_the_version_of_the_listener_that_refused_it() {
    let directory = private_directory();
    let path = directory.path().join("old.sock");
    let old = UnixListener::bind(&path).unwrap();
    let answering = thread::spawn(move || {
        let (mut peer, _) = old.accept().unwrap();
        peer.read_exact(&mut [0; 16]).unwrap();
        peer.write_all(&head(9, 1, 0)).unwrap();
    });
    let error = connect(&Address::Uds(path), Hello::default(), TOO_LONG).unwrap_err();
    answering.join().unwrap();
    let text = error.to_string();
    assert!(text.contains("version 9") && text.contains("speaks 1"), "{text}");
}

#[test]
fn whoever_does_not_speak_the_protocol_is_refused() {
    let (_directory, addresses) = addresses();
    for address in &addresses[..3] {
        let wrong_kind = head(1, 9, 0);
        let long_hello = head(1, addresses.iter().position(|a| a == address).unwrap() as u8 + 1, u32::MAX);
        let web = b"GET / HTTP/1.1\r\nHost: me\r\n\r\n".to_vec();
        for bytes in [wrong_kind, long_hello, web] {
            let (reply, accepted) = say(address, &bytes);
            let error = accepted.map(drop).unwrap_err();
            assert!(error.goes_on(), "{error}");
            assert!(reply.is_empty() || reply[10] != 0, "welcomed");
        }
    }
}

#[test]
fn a_listener_that_offers_no_rings_is_refused() {
    let directory = private_directory();
    let path = directory.path().join("false.sock");
    let false_one = UnixListener::bind(&path).unwrap();
    let answering = thread::spawn(move || {
        let (mut peer, _) = false_one.accept().unwrap();
        peer.write_all(&head(1, 0, 1 << 18)).unwrap();
        peer.read_to_end(&mut Vec::new())
    });
    let error = connect(&Address::Shm(path), Hello::default(), TOO_LONG).unwrap_err();
    assert!(matches!(error, ChannelError::Protocol { .. }), "{error}");
    answering.join().unwrap().unwrap();
}

#[test]
fn a_cut_connector_is_refused_and_a_passer_by_is_ignored() {
    let directory = private_directory();
    let address = Address::Uds(directory.path().join("a.sock"));
    let listener = Listener::bind(&address).unwrap();
    let path = path_of(&address).unwrap();
    drop(UnixStream::connect(path).unwrap());
    UnixStream::connect(path).unwrap().write_all(&head(1, 2, 100)[..9]).unwrap();
    assert!(matches!(listener.accept().unwrap_err(), ChannelError::Protocol { .. }));
}

#[test]
fn a_silent_connector_is_given_up() {
    let directory = private_directory();
    let address = Address::Shm(directory.path().join("a.sock"));
    let listener = Listener::bind(&address).unwrap();
    let _silent = UnixStream::connect(path_of(&address).unwrap()).unwrap();
    let start = Instant::now();
    let error = listener.accept().unwrap_err();
    assert!(matches!(error, ChannelError::Timeout { .. }), "{error}");
    assert!(start.elapsed() < TOO_LONG);
}

#[test]
fn an_address_in_use_is_refused_and_free_again_after_the_drop() {
    let (_directory, addresses) = addresses();
    for address in &addresses {
        let first = Listener::bind(address).unwrap();
        let place = first.address().clone();
        // The second bind connects to the first listener as a probe; that connection waits in the
        // listener's queue.
        let error = Listener::bind(&place).map(drop).unwrap_err();
        assert!(matches!(error, ChannelError::InUse { .. }), "{error}");
        assert!(error.to_string().contains(place.channel()));
        drop(first);
        assert!(path_of(&place).is_none_or(|path| !path.exists()), "the socket file stayed");
        Listener::bind(&place).unwrap();
    }
}

#[test]
fn a_dead_process_socket_is_replaced_and_other_files_are_not() {
    let directory = private_directory();
    let path = directory.path().join("a.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    drop(Listener::bind(&Address::Shm(path.clone())).unwrap());
    fs::write(&path, "precious").unwrap();
    let error = Listener::bind(&Address::Shm(path.clone())).map(drop).unwrap_err();
    assert!(matches!(error, ChannelError::NotASocket { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn sockets_are_private_to_the_user() {
    let directory = private_directory();
    let made = directory.path().join("made");
    let _listener = Listener::bind(&Address::Uds(made.join("a.sock"))).unwrap();
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(made.clone()), 0o700);
    assert_eq!(mode(made.join("a.sock")), 0o600);
    fs::set_permissions(&made, fs::Permissions::from_mode(0o750)).unwrap();
    let error = Listener::bind(&Address::Uds(made.join("b.sock"))).map(drop).unwrap_err();
    assert!(matches!(error, ChannelError::DirectoryNotPrivate { mode: 0o750, .. }), "{error}");
}

#[test]
fn nobody_there_is_a_timeout_and_a_late_listener_is_found() {
    let (_directory, addresses) = addresses();
    for address in &addresses {
        let place = Listener::bind(address).unwrap().address().clone();
        let error = connect(&place, Hello::default(), Duration::ZERO).unwrap_err();
        assert!(matches!(error, ChannelError::Timeout { .. }), "{error}");
        let early = {
            let place = place.clone();
            thread::spawn(move || connect(&place, Hello(b"early".to_vec()), TOO_LONG).unwrap())
        };
        thread::sleep(Duration::from_millis(30));
        let listener = Listener::bind(&place).unwrap();
        let (mut far, hello) = listener.accept().unwrap();
        assert_eq!(hello.0, b"early");
        let mut near = early.join().unwrap();
        near.send(&[b"hi"]).unwrap();
        near.flush().unwrap();
        assert_eq!(spin(&mut far), b"hi");
    }
}

#[test]
fn too_long_paths_and_hellos_are_refused_with_their_bounds() {
    let long = Address::Uds(PathBuf::from(format!("/tmp/{}", "x".repeat(200))));
    assert!(Listener::bind(&long).map(drop).unwrap_err().to_string().contains("107"));
    assert!(connect(&long, Hello::default(), Duration::ZERO).unwrap_err().to_string().contains("107"));
    let nowhere = Address::Ring("nowhere".to_string());
    let error = connect(&nowhere, Hello(vec![0; 4097]), Duration::ZERO).unwrap_err();
    assert!(matches!(error, ChannelError::HelloTooLong { length: 4097, most: 4096 }), "{error}");
}

/// No fabric is provided in this program.
#[test]
fn rdma_without_a_fabric_is_refused_with_the_way_out() {
    let address: Address = "rdma:127.0.0.1:0".parse().unwrap();
    let refused = Listener::bind(&address).map(drop).unwrap_err();
    assert!(refused.to_string().contains("--features rdma"), "{refused}");
    let tcp = Listener::bind(&"tcp:0".parse().unwrap()).unwrap();
    let Address::Tcp(at) = *tcp.address() else { panic!("another address") };
    let refused = connect(&Address::Rdma(at), Hello::default(), Duration::ZERO).unwrap_err();
    assert!(matches!(refused, ChannelError::NoFabric), "{refused}");
}

#[test]
fn a_stopped_listener_stops_for_good() {
    let (_directory, addresses) = addresses();
    for address in &addresses {
        let listener = Listener::bind(address).unwrap();
        let stopper = listener.stopper();
        thread::scope(|scope| {
            let accepting = scope.spawn(|| listener.accept().map(drop));
            thread::sleep(Duration::from_millis(10));
            stopper.stop();
            assert!(matches!(accepting.join().unwrap(), Err(ChannelError::Stopped)));
        });
        assert!(matches!(listener.accept().map(drop), Err(ChannelError::Stopped)));
    }
}

/// A correct handshake and then garbage: frames cut short, lengths out of range, noise.
#[test]
fn hostile_bytes_on_a_stream_end_the_link_and_nothing_else() {
    let directory = private_directory();
    let address = Address::Uds(directory.path().join("a.sock"));
    let listener = Listener::bind(&address).unwrap();
    let mut noise = 0x1234_5678_9abc_def0u64;
    for round in 0..500 {
        let mut peer = UnixStream::connect(path_of(&address).unwrap()).unwrap();
        peer.write_all(&head(1, 2, 0)).unwrap();
        let (mut link, _) = listener.accept().unwrap();
        let bytes: Vec<u8> = (0..round % 90)
            .map(|_| {
                noise = noise.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if noise >> 62 == 0 { 0 } else { (noise >> 33) as u8 % 11 }
            })
            .collect();
        peer.write_all(&bytes).unwrap();
        drop(peer);
        let mut delivered = 0;
        let end = loop {
            match link.receive() {
                Ok(Some(message)) => delivered += message.len() + 4,
                Ok(None) => {}
                Err(end) => break end,
            }
        };
        assert!(delivered <= bytes.len());
        match end {
            Closed::ByPeer => assert_eq!(delivered, bytes.len()),
            Closed::Cut | Closed::Corrupt(_) => assert!(delivered < bytes.len()),
            Closed::Io(error) => panic!("{error}"),
        }
        assert!(link.closed() && link.receive().is_err() && link.send(&[b"x"]).is_err());
    }
}
