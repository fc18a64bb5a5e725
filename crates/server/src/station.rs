//! Stations: threads on which sessions run, each with links of its own to all instances, and with
//! the worker of an instance as a lodger, if that instance runs in this process.
//!
//! ```text
//!   sockets --epoll--> sessions --> carrier --ring--> worker of this thread: no thread is woken
//!                                      +-----ring--> workers of other threads, and instances in
//!                                                    other processes: one bell for a whole turn
//!   sockets <--write-- sessions <-- carrier <---------- answers
//! ```
//!
//! A station is a tokio runtime of one thread. One of its tasks, the *turn*, flushes the links,
//! gives the lodger a round, and delivers answers. A session that sends makes the turn ready; the
//! turn is then behind all sessions that are ready, so it carries what all of them have sent. The
//! thread sleeps only when nothing is ready, in the runtime's own wait for sockets and timers, to
//! which the descriptors of the two parkers (the links' and the worker's) belong.
//!
//! # Access rules
//!
//! - The cells below are those of one thread; no other thread has a reference to them. None is
//!   borrowed while another task runs.
//! - The thread is announced as asleep, on both parkers, only between the runtime's two hooks
//!   (`before_sleep`, `after_sleep`), so what a session sends to its own thread rings no bell.
//! - [`Stations`] is shared: its list is behind a lock, and a handle in it may be used by any
//!   thread. A station leaves the list when its worker ends; the connections of its sessions end.

use crate::carrier::{Carrier, Instances, Peers, Reply, ReplyTo};
use base::{InstanceId, WorkerId};
use channel::Doze;
use channel::lodging::{self, House, Place, Resident, Round};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

thread_local! {
    static CARRIER: RefCell<Option<Carrier>> = const { RefCell::new(None) };
    static LODGER: RefCell<Option<Box<dyn Resident>>> = const { RefCell::new(None) };
    /// Makes the turn ready.
    static TURN: RefCell<Option<Waker>> = const { RefCell::new(None) };
    /// The present thread stops after this turn.
    static STOPS: Cell<bool> = const { Cell::new(false) };
    /// For the encoding of requests.
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Tasks that run before the runtime looks for events of sockets.
const EVENT_INTERVAL: u32 = 31;
/// How often a station looks whether the other ends of its links are gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A station that runs.
struct Station {
    number: usize,
    handle: Handle,
    has_lodger: bool,
}

/// All stations of a server.
#[derive(Default)]
pub struct Stations {
    running: Mutex<Vec<Station>>,
    peers: Arc<Peers>,
    /// Numbers given so far.
    numbers: AtomicUsize,
    /// Sessions placed so far.
    placed: AtomicUsize,
}

impl Stations {
    /// Says where the instances listen. Sessions can send from here on; to be called once.
    pub fn connect(&self, instances: Instances) {
        self.peers.set(instances);
    }

    /// Starts stations without lodgers, unless there are some with lodgers.
    ///
    /// # Errors
    /// When the system has no threads or descriptors left.
    pub fn start(self: &Arc<Self>, count: usize) -> io::Result<()> {
        if !self.list().is_empty() {
            return Ok(());
        }
        for number in 0..count.max(1) {
            let (stations, (ready, started)) = (Arc::clone(self), std::sync::mpsc::channel());
            std::thread::Builder::new().name(format!("atoll-serve{number}")).spawn(move || {
                let station = stations.run(None, None, |()| {
                    let _ = ready.send(());
                });
                if let Err(error) = station {
                    tracing::error!("a thread of the server has ended: {error}");
                }
            })?;
            started.recv().map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// From here on the workers of this deployment that start in this process share their threads
    /// with sessions.
    pub fn take_in(self: &Arc<Self>, deployment: u64) {
        lodging::open(deployment, Arc::clone(self) as Arc<dyn House>);
    }

    /// Ends the stations without lodgers, and the sessions on them. Others end with their lodgers.
    pub fn stop(&self) {
        self.peers.end();
        for station in self.list().iter().filter(|station| !station.has_lodger) {
            station.handle.spawn(async {
                STOPS.set(true);
                wake_turn();
            });
        }
    }

    /// Where the next session is to run; `None` if there is no station.
    pub fn next(&self) -> Option<Handle> {
        let list = self.list();
        let at = self.placed.fetch_add(1, Ordering::Relaxed);
        list.get(at % list.len().max(1)).map(|station| station.handle.clone())
    }

    fn list(&self) -> MutexGuard<'_, Vec<Station>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a station on the calling thread until its lodger ends.
    fn run(
        &self,
        place: Option<Place>,
        lodger: Option<Box<dyn Resident>>,
        started: impl FnOnce(()),
    ) -> io::Result<()> {
        let near = place.map(|place| (InstanceId(place.instance), WorkerId(place.worker)));
        let carrier = Carrier::new(Arc::clone(&self.peers), near).map_err(io::Error::other)?;
        let mut descriptors = vec![clone(&carrier.parker)?];
        if let Some(lodger) = &lodger {
            descriptors.push(lodger.descriptor().try_clone_to_owned()?);
        }
        CARRIER.set(Some(carrier));
        LODGER.set(lodger);
        STOPS.set(false);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .event_interval(EVENT_INTERVAL)
            .on_thread_park(before_sleep)
            .on_thread_unpark(after_sleep)
            .build()?;
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let ended = runtime.block_on(async {
            let mut turn = Turn::new(descriptors)?;
            let turns = tokio::spawn(std::future::poll_fn(move |cx| turn.poll(cx)));
            self.list().push(Station { number, handle: Handle::current(), has_lodger: place.is_some() });
            started(());
            io::Result::Ok(turns.await)
        });
        self.list().retain(|station| station.number != number);
        // Sessions end here: their transactions are told to end, if the links still stand.
        drop(runtime);
        CARRIER.set(None);
        TURN.set(None);
        match ended? {
            Err(panicked) if panicked.is_panic() => std::panic::resume_unwind(panicked.into_panic()),
            _ => {}
        }
        if let Some(lodger) = LODGER.take() {
            lodger.end();
        }
        Ok(())
    }
}

impl House for Stations {
    fn lodge(&self, place: Place, resident: Box<dyn Resident>) {
        if let Err(error) = self.run(Some(place), Some(resident), |()| {}) {
            // The instance finds that its worker has ended.
            tracing::error!("a worker has no thread to share with sessions: {error}");
        }
    }
}

fn clone(parker: &channel::Parker) -> io::Result<OwnedFd> {
    std::os::fd::AsFd::as_fd(parker).try_clone_to_owned()
}

/// Runs `send` on the carrier of the calling thread, with a buffer; `None` if the thread has none
/// for this deployment.
pub fn send<T>(deployment: u64, send: impl FnOnce(&mut Carrier, &mut Vec<u8>) -> T) -> Option<T> {
    let sent = CARRIER.with_borrow_mut(|carrier| {
        let carrier = carrier.as_mut().filter(|carrier| carrier.deployment() == Some(deployment))?;
        Some(SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            send(carrier, scratch)
        }))
    });
    if sent.is_some() {
        wake_turn();
    }
    sent
}

/// A place for an answer.
pub fn reply() -> (ReplyTo, oneshot::Receiver<Reply>) {
    oneshot::channel()
}

fn wake_turn() {
    TURN.with_borrow(|turn| turn.as_ref().map(Waker::wake_by_ref));
}

/// The task that carries messages and gives the lodger its rounds.
struct Turn {
    /// Those of the parkers: readable when there is something to wake up for.
    descriptors: Vec<AsyncFd<OwnedFd>>,
    timer: Pin<Box<Sleep>>,
    next_look: Instant,
}

impl Turn {
    fn new(descriptors: Vec<OwnedFd>) -> io::Result<Turn> {
        // Deprecated for descriptors that may be closed meanwhile; these are owned. The function in
        // its place is unsafe.
        #[allow(deprecated)]
        let watch = |descriptor: OwnedFd| AsyncFd::with_interest(descriptor, Interest::READABLE);
        let now = Instant::now();
        Ok(Turn {
            descriptors: descriptors.into_iter().map(watch).collect::<io::Result<_>>()?,
            timer: Box::pin(tokio::time::sleep_until(now)),
            next_look: now + LOOK_EVERY,
        })
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        TURN.with_borrow_mut(|turn| {
            if !turn.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                *turn = Some(cx.waker().clone());
            }
        });
        self.take_events(cx);
        CARRIER.with_borrow_mut(|carrier| carrier.as_mut().map(Carrier::flush));
        let round = LODGER.with_borrow_mut(|lodger| lodger.as_mut().map(|lodger| lodger.round()));
        let received = CARRIER.with_borrow_mut(|carrier| carrier.as_mut().is_some_and(Carrier::receive));
        match round {
            Some(Round::Ended) => return Poll::Ready(()),
            Some(Round::Worked) => cx.waker().wake_by_ref(),
            _ if received => cx.waker().wake_by_ref(),
            Some(Round::Idle) | None => self.set_timer(cx),
        }
        if STOPS.get() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Forgets events that have woken the thread, so that the next ones are noticed.
    fn take_events(&mut self, cx: &mut Context<'_>) {
        for (i, descriptor) in self.descriptors.iter().enumerate() {
            while let Poll::Ready(Ok(mut guard)) = descriptor.poll_read_ready(cx) {
                guard.clear_ready();
                if i == 0 {
                    CARRIER.with_borrow(|carrier| carrier.as_ref().map(|c| c.parker.take_events()));
                } else {
                    LODGER.with_borrow_mut(|lodger| lodger.as_mut().map(|lodger| lodger.take_events()));
                }
            }
        }
    }

    /// Wakes this task when the lodger has something to do, or it is time to look at the links'
    /// ends. A timer that comes too early does no harm.
    fn set_timer(&mut self, cx: &mut Context<'_>) {
        let now = Instant::now();
        if now >= self.next_look {
            self.next_look = now + LOOK_EVERY;
            CARRIER.with_borrow_mut(|carrier| carrier.as_mut().map(Carrier::look_at_ends));
        }
        let left = LODGER.with_borrow(|lodger| lodger.as_ref().map(|lodger| lodger.time_left()));
        let at = left.map_or(self.next_look, |left| self.next_look.min(now + left));
        let set = self.timer.deadline();
        if set <= now || at < set {
            self.timer.as_mut().reset(at);
            if self.timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
        }
    }
}

/// The runtime has nothing to do. If there is something after all, the turn is made ready, and the
/// runtime does not sleep.
fn before_sleep() {
    let carrier_sleeps = CARRIER
        .with_borrow(|carrier| carrier.as_ref().is_none_or(|c| c.parker.doze(|| true) == Doze::MaySleep));
    let lodger_sleeps = LODGER.with_borrow_mut(|lodger| lodger.as_mut().is_none_or(|l| l.may_sleep()));
    if !carrier_sleeps || !lodger_sleeps {
        wake_turn();
    }
}

fn after_sleep() {
    CARRIER.with_borrow(|carrier| carrier.as_ref().map(|carrier| carrier.parker.rise()));
    LODGER.with_borrow_mut(|lodger| lodger.as_mut().map(|lodger| lodger.awake()));
}
