//! The engine of a deployment: one thread owns a link to each instance, and carries the requests of
//! all sessions.
//!
//! ```text
//!   session --encode--> inbox --+                       +--> link --> instance
//!   session --encode--> inbox --+--> thread: send, flush, receive
//!   session <--decode-- oneshot <--- by number of the call <----- link <--
//! ```
//!
//! The thread sleeps in its [`Parker`] until a session puts an order into the inbox or a link has a
//! message. It takes all orders at once and flushes each link once, so a request costs one wake-up
//! each way at most, and less under load. It copies bytes and reads nothing in them.

use base::InstanceId;
use channel::{Address, Hello, Link, Parker, SendError, Unparker};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use txn::Abort;
use wire::{Caller, Frame};

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoAnswer {
    /// The transaction had no effect.
    Abort(Abort),
    /// It was not sent.
    Unreachable(String),
    /// It was sent, and the link broke.
    Lost,
}

/// An answer, and whether it ends the call or is one of a conversation.
#[derive(Debug)]
pub struct Answered {
    pub bytes: Vec<u8>,
    pub ends: bool,
}

pub type Reply = Result<Answered, NoAnswer>;

/// A frame for an instance.
struct Order {
    home: InstanceId,
    call: u64,
    frame: Vec<u8>,
    /// Where the answer goes; `None` if it interests no more.
    reply: Option<oneshot::Sender<Reply>>,
}

/// Orders of sessions for the thread.
struct Inbox {
    orders: Mutex<Vec<Order>>,
    stops: AtomicBool,
}

/// The sessions' side of the thread. Dropping it stops the thread.
pub struct Bridge {
    inbox: Arc<Inbox>,
    unparker: Unparker,
    next_call: AtomicU64,
    thread: Option<JoinHandle<()>>,
}

impl Bridge {
    /// A bridge to the deployment `deployment`; its instance `i` listens at `addresses[i]`.
    ///
    /// # Errors
    /// When the process has no descriptors or threads left.
    pub fn start(deployment: u64, addresses: Vec<Address>) -> std::io::Result<Bridge> {
        let parker = Parker::new().map_err(std::io::Error::other)?;
        let unparker = parker.unparker();
        let inbox = Arc::new(Inbox { orders: Mutex::default(), stops: AtomicBool::new(false) });
        let links = addresses.into_iter().map(|address| To { address, link: None, failed: None }).collect();
        let mut carrier =
            Carrier { inbox: Arc::clone(&inbox), parker, deployment, links, waiting: HashMap::new() };
        let thread =
            std::thread::Builder::new().name("atoll-bridge".into()).spawn(move || carrier.carry())?;
        Ok(Bridge { inbox, unparker, next_call: AtomicU64::new(1), thread: Some(thread) })
    }

    /// Sends a request, and returns its number and the place of its answer.
    pub fn submit(&self, home: InstanceId, request: &[u8]) -> (u64, oneshot::Receiver<Reply>) {
        let call = self.next_call.fetch_add(1, Ordering::Relaxed);
        let mut frame = Vec::new();
        Frame::Submit { call, request }.encode(&mut frame);
        (call, self.order(home, call, frame))
    }

    /// Sends the next message of a conversation.
    pub fn more(&self, home: InstanceId, call: u64, message: &[u8]) -> oneshot::Receiver<Reply> {
        let mut frame = Vec::new();
        Frame::More { call, message }.encode(&mut frame);
        self.order(home, call, frame)
    }

    /// Sends the last message of a conversation of which the end interests no more.
    pub fn last(&self, home: InstanceId, call: u64, message: &[u8]) {
        let mut frame = Vec::new();
        Frame::More { call, message }.encode(&mut frame);
        self.put(Order { home, call, frame, reply: None });
    }

    fn order(&self, home: InstanceId, call: u64, frame: Vec<u8>) -> oneshot::Receiver<Reply> {
        let (reply, answer) = oneshot::channel();
        self.put(Order { home, call, frame, reply: Some(reply) });
        answer
    }

    fn put(&self, order: Order) {
        let is_first = {
            let mut orders = self.inbox.orders.lock().unwrap_or_else(PoisonError::into_inner);
            orders.push(order);
            orders.len() == 1
        };
        // The session that put an order before this one has woken the thread.
        if is_first {
            self.unparker.unpark();
        }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.inbox.stops.store(true, Ordering::Release);
        self.unparker.unpark();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// How long the thread sleeps at most, if all is quiet: it then looks at the ends of its links.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a failed connection is not tried again: each try holds up the calls to other instances.
const CONNECT_AGAIN: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_millis(500);

/// The link to one instance, opened when first needed and again after it broke.
struct To {
    address: Address,
    link: Option<Link>,
    failed: Option<(Instant, String)>,
}

/// The thread.
struct Carrier {
    inbox: Arc<Inbox>,
    parker: Parker,
    deployment: u64,
    links: Vec<To>,
    /// The session that waits for the answer to each call.
    waiting: HashMap<u64, (InstanceId, oneshot::Sender<Reply>)>,
}

impl Carrier {
    fn carry(&mut self) {
        loop {
            let orders = {
                let mut orders = self.inbox.orders.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::take(&mut *orders)
            };
            let mut works = !orders.is_empty();
            orders.into_iter().for_each(|order| self.send(order));
            for instance in 0..self.links.len() {
                works |= self.exchange(instance);
            }
            if works {
                continue;
            }
            if self.inbox.stops.load(Ordering::Acquire) {
                return;
            }
            let inbox = Arc::clone(&self.inbox);
            self.parker.park(Some(LOOK_EVERY), || {
                !inbox.stops.load(Ordering::Acquire)
                    && inbox.orders.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
            });
            // A ring reports the end of its peer only if it is asked to look.
            self.links.iter_mut().filter_map(|to| to.link.as_mut()).for_each(Link::look_at_end);
        }
    }

    fn send(&mut self, order: Order) {
        let home = usize::from(order.home.0);
        let refuse = |order: Order, why: NoAnswer| {
            // The session may have gone.
            order.reply.map(|reply| reply.send(Err(why)).ok());
        };
        let link = match self.link(home) {
            Ok(link) => link,
            Err(why) => return refuse(order, NoAnswer::Unreachable(why)),
        };
        match link.send(&[&order.frame]) {
            Ok(()) => match order.reply {
                Some(reply) => drop(self.waiting.insert(order.call, (order.home, reply))),
                None => drop(self.waiting.remove(&order.call)),
            },
            Err(SendError::TooLong { .. }) => refuse(order, NoAnswer::Abort(Abort::TooLong)),
            Err(SendError::Full { .. }) => refuse(order, NoAnswer::Abort(Abort::Overloaded)),
            Err(SendError::Closed(_)) => {
                let why = format!("the link to instance {home} is closed");
                refuse(order, NoAnswer::Unreachable(why));
                self.lose(home);
            }
        }
    }

    /// The link to an instance, opened if need be.
    fn link(&mut self, instance: usize) -> Result<&mut Link, String> {
        let Some(to) = self.links.get_mut(instance) else {
            return Err(format!("there is no instance {instance}"));
        };
        if to.link.is_none() {
            if let Some((when, why)) = &to.failed
                && when.elapsed() < CONNECT_AGAIN
            {
                return Err(why.clone());
            }
            let version = wire::VERSION;
            let hello = wire::Hello { version, deployment: self.deployment, from: Caller::Client }.encode();
            let opened = channel::connect(&to.address, Hello(hello), CONNECT)
                .and_then(|mut link| link.register(&self.parker).map(|()| link));
            match opened {
                Ok(link) => (to.link, to.failed) = (Some(link), None),
                Err(error) => {
                    let why = format!("instance {instance} cannot be reached: {error}");
                    to.failed = Some((Instant::now(), why.clone()));
                    return Err(why);
                }
            }
        }
        to.link.as_mut().ok_or_else(|| format!("instance {instance} cannot be reached"))
    }

    /// Flushes and receives. Returns whether there was a message.
    fn exchange(&mut self, instance: usize) -> bool {
        let Some(link) = self.links[instance].link.as_mut() else { return false };
        // The next receive reports the end of the link.
        let _ = link.flush();
        let mut works = false;
        loop {
            match link.receive() {
                Ok(None) => return works,
                Ok(Some(message)) => {
                    works = true;
                    if !deliver(&mut self.waiting, message) {
                        tracing::error!(instance, "an instance sent what is no answer");
                        break;
                    }
                }
                Err(end) => {
                    tracing::warn!(instance, "the link to an instance has ended: {end}");
                    break;
                }
            }
        }
        self.lose(instance);
        true
    }

    /// The link is gone, and the answers that were to come over it.
    fn lose(&mut self, instance: usize) {
        self.links[instance].link = None;
        let lost = |home: InstanceId| usize::from(home.0) == instance;
        for (_, (_, reply)) in self.waiting.extract_if(|_, (home, _)| lost(*home)) {
            // The session may have gone.
            let _ = reply.send(Err(NoAnswer::Lost));
        }
    }
}

/// Gives an answer to the session that waits for it. Returns whether the bytes are an answer.
fn deliver(waiting: &mut HashMap<u64, (InstanceId, oneshot::Sender<Reply>)>, message: &[u8]) -> bool {
    let (call, reply) = match Frame::decode(message) {
        Ok(Frame::Said { call, said }) => (call, Ok(Answered { bytes: said.to_vec(), ends: false })),
        Ok(Frame::Done { call, outcome: Ok(()), reply }) => {
            (call, Ok(Answered { bytes: reply.to_vec(), ends: true }))
        }
        // The log may have failed after the commit record was in it.
        Ok(Frame::Done { call, outcome: Err(Abort::Fault), .. }) => (call, Err(NoAnswer::Lost)),
        Ok(Frame::Done { call, outcome: Err(abort), .. }) => (call, Err(NoAnswer::Abort(abort))),
        _ => return false,
    };
    if let Some((_, sender)) = waiting.remove(&call) {
        // The session may have gone.
        let _ = sender.send(reply);
    }
    true
}
