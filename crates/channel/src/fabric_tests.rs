//! Links over a fabric that lies in this process' memory: pipes with little room.

use crate::fabric::{CARD_BYTES, Card, Fabric, Lane, LooseEnd, Side, provide};
use crate::handshake::Status;
use crate::parker::{new_bell, ring_bell};
use crate::{Address, ChannelError, Closed, Hello, Link, Listener, Parked, Parker, connect};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Bytes of a pipe: less than a message may have.
const ROOM: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// The events of one end, and the bytes for it.
struct Mouth {
    bytes: Mutex<VecDeque<u8>>,
    bell: OwnedFd,
    stirred: AtomicBool,
}

impl Mouth {
    fn new() -> Mouth {
        Mouth { bytes: Mutex::default(), bell: new_bell().unwrap(), stirred: AtomicBool::new(false) }
    }
    fn stir(&self) {
        self.stirred.store(true, Ordering::SeqCst);
        ring_bell(&self.bell);
    }
}

type Pipes = Arc<[Mouth; 2]>;

static LAST: AtomicU64 = AtomicU64::new(0);
static PIPES: Mutex<BTreeMap<(u64, u64), Pipes>> = Mutex::new(BTreeMap::new());

struct InMemory;

struct Loose(u64);

struct Pipe {
    pipes: Pipes,
    mine: usize,
}

impl Fabric for InMemory {
    fn check(&self, _: IpAddr) -> Result<(), String> {
        Ok(())
    }
    fn end(&self, _: IpAddr) -> Result<Box<dyn LooseEnd>, String> {
        Ok(Box::new(Loose(LAST.fetch_add(1, Ordering::Relaxed) + 1)))
    }
}

impl LooseEnd for Loose {
    fn card(&self) -> Card {
        let mut card = [0; CARD_BYTES];
        card[..8].copy_from_slice(&self.0.to_le_bytes());
        card
    }
    fn tie(self: Box<Self>, peer: &Card, side: Side) -> Result<Arc<dyn Lane>, String> {
        let theirs = u64::from_le_bytes(peer[..8].try_into().unwrap());
        if theirs == 0 {
            return Err("a card of no end".to_string());
        }
        let mine = usize::from(side == Side::Caller);
        let ends = if mine == 0 { (self.0, theirs) } else { (theirs, self.0) };
        let both = || Arc::new([Mouth::new(), Mouth::new()]);
        let pipes = PIPES.lock().unwrap().entry(ends).or_insert_with(both).clone();
        Ok(Arc::new(Pipe { pipes, mine }))
    }
}

impl Pipe {
    fn mine(&self) -> &Mouth {
        &self.pipes[self.mine]
    }
    fn theirs(&self) -> &Mouth {
        &self.pipes[1 - self.mine]
    }
}

impl Lane for Pipe {
    fn push(&self, bytes: &[u8]) -> Result<usize, String> {
        let mut queue = self.theirs().bytes.lock().unwrap();
        let count = bytes.len().min(ROOM - queue.len());
        queue.extend(&bytes[..count]);
        drop(queue);
        self.theirs().stir();
        Ok(count)
    }
    fn pull(&self, space: &mut [u8]) -> Result<usize, String> {
        let mut queue = self.mine().bytes.lock().unwrap();
        let count = space.len().min(queue.len());
        queue.drain(..count).zip(space).for_each(|(byte, place)| *place = byte);
        drop(queue);
        if count > 0 {
            self.theirs().stir();
        }
        Ok(count)
    }
    fn has_bytes(&self) -> bool {
        !self.mine().bytes.lock().unwrap().is_empty()
    }
    fn has_room(&self) -> bool {
        self.theirs().bytes.lock().unwrap().len() < ROOM
    }
    fn arm(&self) {
        self.mine().stirred.store(false, Ordering::SeqCst);
    }
    fn stirred(&self) -> bool {
        self.mine().stirred.load(Ordering::SeqCst)
    }
    fn descriptor(&self) -> BorrowedFd<'_> {
        self.mine().bell.as_fd()
    }
    fn close(&self) {}
}

fn listen() -> Listener {
    provide(Box::new(InMemory));
    Listener::bind(&"rdma:127.0.0.1:0".parse().unwrap()).unwrap()
}

/// The listener's end and the caller's.
fn linked() -> (Link, Link) {
    let listener = listen();
    let at = listener.address().clone();
    let calling = thread::spawn(move || connect(&at, Hello(vec![7]), PATIENCE).unwrap());
    let (link, hello) = listener.accept().unwrap();
    assert_eq!(hello, Hello(vec![7]));
    (link, calling.join().unwrap())
}

/// Message number `n` of `length` bytes.
fn message(n: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + n) as u8).collect()
}

fn next(link: &mut Link) -> Result<Vec<u8>, Closed> {
    loop {
        link.flush()?;
        if let Some(message) = link.receive()? {
            return Ok(message.to_vec());
        }
        thread::yield_now();
    }
}

#[test]
fn messages_of_all_sizes_pass_both_ways_in_order() {
    let (mut a, mut b) = linked();
    let lengths = [0, 1, 3, 4, 5, ROOM - 5, ROOM - 4, ROOM - 3, 10 * ROOM, 0, 100];
    for (n, length) in lengths.iter().enumerate() {
        a.send(&[&message(n, *length)]).unwrap();
        b.send(&[&message(n, *length), b"b"]).unwrap();
    }
    a.flush().unwrap();
    assert!(a.held() > 0, "the pipe has room for some of them only");
    let other = thread::spawn(move || {
        for (n, length) in lengths.iter().enumerate() {
            assert_eq!(next(&mut b).unwrap(), message(n, *length));
        }
        while b.held() > 0 {
            b.flush().unwrap();
        }
        b
    });
    for (n, length) in lengths.iter().enumerate() {
        assert_eq!(next(&mut a).unwrap(), [message(n, *length), b"b".to_vec()].concat());
    }
    while a.held() > 0 {
        a.flush().unwrap();
    }
    let (a, b) = (a.counts(), other.join().unwrap().counts());
    assert_eq!((a.messages_sent, a.bytes_sent), (b.messages_received, b.bytes_received));
    assert_eq!((b.messages_sent, b.bytes_sent), (a.messages_received, a.bytes_received));
}

#[test]
fn what_was_sent_before_the_end_arrives_before_the_end() {
    let (mut a, mut b) = linked();
    a.send(&[b"last words"]).unwrap();
    drop(a);
    assert_eq!(b.receive().unwrap(), Some(&b"last words"[..]));
    assert!(b.peer_left());
    b.look_at_end();
    assert!(matches!(b.receive(), Err(Closed::ByPeer)));
    assert!(b.closed());
}

#[test]
fn an_end_within_a_message_is_told_apart() {
    let (mut a, mut b) = linked();
    a.send(&[&[1; 2 * ROOM]]).unwrap();
    a.flush().unwrap();
    drop(a);
    b.look_at_end();
    assert!(matches!(b.receive(), Err(Closed::Cut)));
}

#[test]
fn a_sleeping_owner_is_woken_by_a_message_by_room_and_by_the_end() {
    let (mut a, mut b) = linked();
    let parker = Parker::new().unwrap();
    b.register(&parker).unwrap();
    let sleep = || while parker.park(Some(PATIENCE), || true) == Parked::Busy {};
    for step in 0..3 {
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            match step {
                0 => a.send(&[b"one"]).unwrap(),
                1 => _ = next(&mut a),
                _ => return None,
            }
            a.flush().unwrap();
            Some(a)
        });
        match step {
            0 => assert_eq!(wait(&mut b, sleep).unwrap(), b"one"),
            1 => {
                b.send(&[&[2; ROOM + 50]]).unwrap();
                b.flush().unwrap();
                while b.held() > 0 {
                    sleep();
                    b.flush().unwrap();
                }
            }
            _ => assert!(matches!(wait(&mut b, sleep), Err(Closed::ByPeer))),
        }
        let Some(same) = other.join().unwrap() else { break };
        a = same;
    }
}

/// The next message, without a look while the parker sleeps.
fn wait(link: &mut Link, sleep: impl Fn()) -> Result<Vec<u8>, Closed> {
    loop {
        if let Some(message) = link.receive()? {
            return Ok(message.to_vec());
        }
        sleep();
    }
}

#[test]
fn a_link_that_is_held_back_keeps_no_owner_awake() {
    let (mut a, mut b) = linked();
    let parker = Parker::new().unwrap();
    b.register(&parker).unwrap();
    b.hold_back(true);
    a.send(&[b"one"]).unwrap();
    a.flush().unwrap();
    // The first look may still find that something has come.
    parker.park(Some(Duration::from_millis(1)), || true);
    parker.take_events();
    assert_eq!(parker.park(Some(Duration::from_millis(1)), || true), Parked::TimedOut);
    b.hold_back(false);
    assert_eq!(parker.park(Some(PATIENCE), || true), Parked::Busy);
    assert_eq!(b.receive().unwrap(), Some(&b"one"[..]));
}

#[test]
fn a_card_that_makes_no_sense_is_refused_at_both_ends() {
    let listener = listen();
    let Address::Rdma(at) = *listener.address() else { panic!("another address") };
    let accepting = thread::spawn(move || listener.accept().map(drop));
    let mut caller = TcpStream::connect(at).unwrap();
    let mut first = b"atollch\n\x01\0\x05\0\0\0\0\0".to_vec();
    first.extend([0; CARD_BYTES]);
    caller.write_all(&first).unwrap();
    let mut reply = Vec::new();
    let _ = caller.read_to_end(&mut reply);
    assert_eq!(reply[10], Status::NoFabric as u8);
    let error = accepting.join().unwrap().unwrap_err();
    assert!(matches!(&error, ChannelError::Fabric { why } if why == "a card of no end"), "{error}");
    assert!(error.goes_on());
}
