//! The way to a deployment from threads that have no links of their own: one thread, with a
//! [`Carrier`], takes their orders from an inbox.
//!
//! ```text
//!   task --> inbox --+                       +--> link --> instance
//!   task --> inbox --+--> thread: send, flush, receive
//!   task <-- oneshot <--- by number of the call <-- link <--
//! ```
//!
//! Sessions have a shorter way ([`crate::station`]); what is left are the server's own tasks.
//!
//! # Access rules
//!
//! - Any thread puts orders into the inbox, under its lock, and wakes the thread if the inbox was
//!   empty. The thread takes all orders at once.
//! - The carrier is the thread's alone.

use crate::carrier::{Carrier, Instances, Peers, Reply, ReplyTo};
use base::InstanceId;
use channel::Unparker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// What a task wants to be sent.
enum Order {
    /// A request; its number goes back first.
    Submit { home: InstanceId, request: Vec<u8>, number: oneshot::Sender<u64>, reply: ReplyTo },
    /// A message of a conversation.
    More { to: (InstanceId, u64), message: Vec<u8>, reply: Option<ReplyTo> },
}

/// Orders for the thread.
struct Inbox {
    orders: Mutex<Vec<Order>>,
    stops: AtomicBool,
}

impl Inbox {
    fn orders(&self) -> std::sync::MutexGuard<'_, Vec<Order>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks' side of the thread. Dropping it stops the thread.
pub struct Bridge {
    inbox: Arc<Inbox>,
    unparker: Unparker,
    thread: Option<JoinHandle<()>>,
}

impl Bridge {
    /// A bridge to a deployment.
    ///
    /// # Errors
    /// When the process has no descriptors or threads left.
    pub fn start(instances: Instances) -> std::io::Result<Bridge> {
        let carrier = Carrier::new(Arc::new(Peers::new(instances)), None).map_err(std::io::Error::other)?;
        let unparker = carrier.parker.unparker();
        let inbox = Arc::new(Inbox { orders: Mutex::default(), stops: AtomicBool::new(false) });
        let theirs = Arc::clone(&inbox);
        let thread =
            std::thread::Builder::new().name("atoll-bridge".into()).spawn(move || carry(&theirs, carrier))?;
        Ok(Bridge { inbox, unparker, thread: Some(thread) })
    }

    /// Sends a request, and returns its number and the place of its answer; `None` if the thread
    /// has ended.
    pub async fn submit(
        &self,
        home: InstanceId,
        request: Vec<u8>,
    ) -> Option<(u64, oneshot::Receiver<Reply>)> {
        let (number, given) = oneshot::channel();
        let (reply, answer) = oneshot::channel();
        self.put(Order::Submit { home, request, number, reply });
        given.await.ok().map(|call| (call, answer))
    }

    /// Sends the next message of a conversation; `None` if its answer interests no more.
    pub fn more(&self, to: (InstanceId, u64), message: Vec<u8>, reply: Option<ReplyTo>) {
        self.put(Order::More { to, message, reply });
    }

    fn put(&self, order: Order) {
        let is_first = {
            let mut orders = self.inbox.orders();
            orders.push(order);
            orders.len() == 1
        };
        // The task that put an order before this one has woken the thread.
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

/// The thread.
fn carry(inbox: &Inbox, mut carrier: Carrier) {
    loop {
        let orders = std::mem::take(&mut *inbox.orders());
        let mut works = !orders.is_empty();
        for order in orders {
            match order {
                Order::Submit { home, request, number, reply } => {
                    // The task may have gone.
                    let _ = number.send(carrier.submit(home, &request, reply));
                }
                Order::More { to, message, reply } => carrier.more(to, &message, reply),
            }
        }
        carrier.flush();
        works |= carrier.receive();
        if works {
            continue;
        }
        if inbox.stops.load(Ordering::Acquire) {
            return;
        }
        carrier
            .parker
            .park(Some(LOOK_EVERY), || !inbox.stops.load(Ordering::Acquire) && inbox.orders().is_empty());
        carrier.look_at_ends();
    }
}
