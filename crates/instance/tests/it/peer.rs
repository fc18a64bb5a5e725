//! An instance that is played by the test: it speaks the wire's frames, says what it likes when it likes, and has no data.

use base::{Gtid, InstanceId, WorkerId};
use channel::{Address, Hello, Link, Listener};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use txn::Step;
use wire::{Batch, Caller, Frame};

const PATIENCE: Duration = Duration::from_secs(20);

/// The link that a frame came on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// Opened by the test in the name of this worker.
    Ours(usize),
    /// Opened by an instance; in the order of their coming.
    Theirs(usize),
}

pub struct Peer {
    pub id: InstanceId,
    address: Address,
    ours: Vec<Link>,
    theirs: Vec<Link>,
    arriving: Receiver<Link>,
}

impl Peer {
    /// Listens at `address` from now on.
    pub fn new(id: u16, address: Address) -> Peer {
        let listener = Listener::bind(&address).unwrap();
        let address = listener.address().clone();
        let (arrives, arriving) = mpsc::channel();
        std::thread::spawn(move || {
            while let Ok((link, _)) = listener.accept()
                && arrives.send(link).is_ok()
            {}
        });
        Peer { id: InstanceId(id), address, ours: Vec::new(), theirs: Vec::new(), arriving }
    }

    pub fn place(&self) -> (InstanceId, Address) {
        (self.id, self.address.clone())
    }

    /// Opens a link in the name of each of so many workers, in place of those it had.
    pub fn call(&mut self, address: &Address, workers: usize) {
        let link = |worker| {
            let from = Caller::Instance(self.id, WorkerId(worker as u16));
            let hello = Hello(wire::Hello { version: wire::VERSION, deployment: 7, from }.encode());
            channel::connect(address, hello, Duration::from_secs(5)).unwrap()
        };
        self.ours = (0..workers).map(link).collect();
    }

    pub fn send(&mut self, on: On, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        let link = match on {
            On::Ours(i) => &mut self.ours[i],
            On::Theirs(i) => &mut self.theirs[i],
        };
        link.send(&[&bytes]).unwrap();
        link.flush().unwrap();
    }

    /// The next frame for which `take` gives something, on whichever link; others are passed over.
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

    /// The same among the frames that are here.
    pub fn look<T>(&mut self, take: &mut impl FnMut(On, Frame<'_>) -> Option<T>) -> Option<T> {
        self.theirs.extend(self.arriving.try_iter());
        let ours = self.ours.iter_mut().enumerate().map(|(i, link)| (On::Ours(i), link));
        let theirs = self.theirs.iter_mut().enumerate().map(|(i, link)| (On::Theirs(i), link));
        for (on, link) in ours.chain(theirs) {
            // A link that has ended has nothing to say.
            while let Ok(Some(bytes)) = link.receive() {
                if let Some(taken) = take(on, Frame::decode(bytes).unwrap()) {
                    return Some(taken);
                }
            }
        }
        None
    }

    /// A number for a transaction whose home is this peer's worker `worker`.
    pub fn gtid(&self, life: u32, n: u64, worker: usize) -> Gtid {
        Gtid { home: self.id, life, number: n << 10 | worker as u64 }
    }
}

/// One step, as a request carries it.
pub fn steps<S: Step>(step: &S) -> Batch {
    let mut steps = Batch::default();
    let body = steps.open(S::ID);
    steps.buffer().extend(postcard::to_stdvec(step).unwrap());
    steps.close(body);
    steps
}
