//! An instance that the test plays: it sends the frames of the protocol, with any contents at any
//! time, and has no data.

use base::{Gtid, InstanceId, WorkerId};
use channel::{Address, Hello, Link, Listener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use twophase::Vote;
use txn::Step;
use wire::{Batch, Caller, Frame};

const PATIENCE: Duration = Duration::from_secs(20);

/// Whether an instance's lives are acknowledged when they arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manners {
    Acknowledges,
    Silent,
}

/// The link on which a frame came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// Opened by the test in the name of this worker.
    Ours(usize),
    /// Opened by an instance; in the order of arrival.
    Theirs(usize),
}

pub struct Peer {
    pub id: InstanceId,
    address: Address,
    ours: Vec<Link>,
    theirs: Vec<Link>,
    arriving: Receiver<Link>,
    life: Arc<AtomicU32>,
}

impl Peer {
    /// Listens at `address` from now on.
    pub fn new(id: u16, address: Address, manners: Manners) -> Peer {
        let listener = Listener::bind(&address).unwrap();
        let address = listener.address().clone();
        let (arrives, arriving) = mpsc::channel();
        let life = Arc::new(AtomicU32::new(1));
        let mine = Arc::clone(&life);
        std::thread::spawn(move || {
            while let Ok((mut link, hello)) = listener.accept() {
                let hello = wire::Hello::decode(&hello.0).unwrap();
                if let (Caller::Instance(_, _, yours), Manners::Acknowledges) = (hello.from, manners) {
                    send(&mut link, &Frame::Known { yours, mine: mine.load(Ordering::Relaxed) });
                }
                if arrives.send(link).is_err() {
                    return;
                }
            }
        });
        Peer { id: InstanceId(id), address, ours: Vec::new(), theirs: Vec::new(), arriving, life }
    }

    pub fn place(&self) -> (InstanceId, Address) {
        (self.id, self.address.clone())
    }

    /// Opens a link in the name of each of `workers` workers of this life, and keeps the links that
    /// it had.
    pub fn call(&mut self, address: &Address, workers: usize, life: u32) {
        self.life.store(life, Ordering::Relaxed);
        let link = |worker| {
            let from = Caller::Instance(self.id, WorkerId(worker as u16), life);
            let hello = Hello(wire::Hello { version: wire::VERSION, deployment: 7, from }.encode());
            channel::connect(address, hello, Duration::from_secs(5)).unwrap()
        };
        let links: Vec<_> = (0..workers).map(link).collect();
        self.ours.splice(0..0, links);
    }

    pub fn send(&mut self, on: On, frame: &Frame<'_>) {
        let link = match on {
            On::Ours(i) => &mut self.ours[i],
            On::Theirs(i) => &mut self.theirs[i],
        };
        send(link, frame);
    }

    /// How many links instances have opened to it.
    pub fn arrived(&mut self) -> usize {
        self.theirs.extend(self.arriving.try_iter());
        self.theirs.len()
    }

    /// Waits for steps; returns their link, call and transaction.
    pub fn steps(&mut self) -> (On, u32, Gtid) {
        self.next("steps", |on, frame| match frame {
            Frame::Steps { call, gtid, .. } => Some((on, call, gtid)),
            _ => None,
        })
    }

    /// Answers one step that returns a number.
    pub fn answer(&mut self, (on, call, gtid): (On, u32, Gtid), vote: Vote, value: i64) {
        let mut outputs = Batch::default();
        let body = outputs.open(1);
        outputs.buffer().extend(postcard::to_stdvec(&value).unwrap());
        outputs.close(body);
        self.send(on, &Frame::StepsDone { call, gtid, outcome: Ok(Some(vote)), outputs: outputs.bytes() });
    }

    /// The next frame for which `take` returns a value, on any link; other frames are dropped.
    pub fn next<T>(&mut self, what: &str, mut take: impl FnMut(On, Frame<'_>) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(taken) = self.look(&mut take) {
                return taken;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}: nothing came");
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// As [`Peer::next`], among the frames that have arrived.
    pub fn look<T>(&mut self, take: &mut impl FnMut(On, Frame<'_>) -> Option<T>) -> Option<T> {
        self.theirs.extend(self.arriving.try_iter());
        let ours = self.ours.iter_mut().enumerate().map(|(i, link)| (On::Ours(i), link));
        let theirs = self.theirs.iter_mut().enumerate().map(|(i, link)| (On::Theirs(i), link));
        for (on, link) in ours.chain(theirs) {
            // A link that has ended has no more frames.
            while let Ok(Some(bytes)) = link.receive() {
                if let Some(taken) = take(on, Frame::decode(bytes).unwrap()) {
                    return Some(taken);
                }
            }
        }
        None
    }

    /// A number for a transaction that has its home at this peer's worker `worker`.
    pub fn gtid(&self, life: u32, n: u64, worker: usize) -> Gtid {
        Gtid { home: self.id, life, number: n << 10 | worker as u64 }
    }
}

fn send(link: &mut Link, frame: &Frame<'_>) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    link.send(&[&bytes]).unwrap();
    link.flush().unwrap();
}

/// One step, encoded as in a request.
pub fn steps<S: Step>(step: &S) -> Batch {
    let mut steps = Batch::default();
    let body = steps.open(S::ID);
    steps.buffer().extend(postcard::to_stdvec(step).unwrap());
    steps.close(body);
    steps
}
