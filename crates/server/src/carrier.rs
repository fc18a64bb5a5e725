//! The links of one thread to all instances of a deployment, and the calls that are under way on
//! them.
//!
//! ```text
//!   session --send--> link --> instance        one link for each instance, opened when first used
//!   session <--oneshot-- calls by number <-- receive <-- link
//! ```
//!
//! A carrier copies bytes and reads nothing in them. It belongs to one thread: that of a
//! [`station`](crate::station), or that of the [`bridge`](crate::bridge).

use base::{InstanceId, WorkerId};
use channel::{Address, Hello, Link, Parker, SendError};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
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

/// Where an answer goes.
pub type ReplyTo = oneshot::Sender<Reply>;

/// How long a failed connection is not tried again: each try holds up the calls to other instances.
const CONNECT_AGAIN: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_millis(500);
/// Messages taken from one link before the others have their turn.
const BUDGET: usize = 256;

/// The instances of a deployment, and where they listen.
#[derive(Clone, Debug)]
pub struct Instances {
    pub deployment: u64,
    /// Of instance `i` at `i`.
    pub addresses: Vec<Address>,
}

/// The state that the carriers of a server share.
#[derive(Debug, Default)]
pub struct Peers {
    /// Set once.
    instances: OnceLock<Instances>,
    ends: AtomicBool,
}

impl Peers {
    pub fn new(instances: Instances) -> Peers {
        Peers { instances: OnceLock::from(instances), ends: AtomicBool::new(false) }
    }

    /// Says where the instances listen; to be called once.
    pub fn set(&self, instances: Instances) {
        // A second call would be of the same deployment.
        let _ = self.instances.set(instances);
    }

    /// The server ends, and the instances after it: the end of a link is no news from here on.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Release);
    }
}

/// The link to one instance, opened when first needed and again after it broke.
#[derive(Default)]
struct To {
    link: Option<Link>,
    failed: Option<(Instant, String)>,
}

/// The session that waits for the answer to each call.
type Waiting = HashMap<u64, (InstanceId, ReplyTo), RandomState>;

pub struct Carrier {
    pub parker: Parker,
    peers: Arc<Peers>,
    /// The worker that shares this carrier's thread: its instance, and its number there.
    near: Option<(InstanceId, WorkerId)>,
    links: Vec<To>,
    waiting: Waiting,
    next_call: u64,
    /// The frame that is being encoded.
    frame: Vec<u8>,
}

impl Carrier {
    /// # Errors
    /// When the process has no descriptors left.
    pub fn new(
        peers: Arc<Peers>,
        near: Option<(InstanceId, WorkerId)>,
    ) -> Result<Carrier, channel::ChannelError> {
        let (parker, waiting, links) = (Parker::new()?, Waiting::default(), Vec::new());
        Ok(Carrier { parker, peers, near, links, waiting, next_call: 1, frame: Vec::new() })
    }

    /// The number of the deployment, once it is known.
    pub fn deployment(&self) -> Option<u64> {
        self.peers.instances.get().map(|instances| instances.deployment)
    }

    /// Sends a request, and returns its number.
    pub fn submit(&mut self, home: InstanceId, request: &[u8], reply: ReplyTo) -> u64 {
        let call = self.next_call;
        self.next_call += 1;
        self.send((home, call), &Frame::Submit { call, request }, Some(reply));
        call
    }

    /// Sends the next message of a conversation; `None` if its answer interests no more.
    pub fn more(&mut self, (home, call): (InstanceId, u64), message: &[u8], reply: Option<ReplyTo>) {
        self.send((home, call), &Frame::More { call, message }, reply);
    }

    fn send(&mut self, (home, call): (InstanceId, u64), frame: &Frame<'_>, reply: Option<ReplyTo>) {
        // The session may have gone.
        let refuse = |reply: Option<ReplyTo>, why| reply.map(|reply| reply.send(Err(why)).ok());
        let at = usize::from(home.0);
        let mut bytes = std::mem::take(&mut self.frame);
        frame.encode(&mut bytes);
        let sent = self.link(at).map(|link| link.send(&[&bytes]));
        self.frame = bytes;
        match sent {
            Ok(Ok(())) => match reply {
                Some(reply) => drop(self.waiting.insert(call, (home, reply))),
                None => drop(self.waiting.remove(&call)),
            },
            Ok(Err(SendError::TooLong { .. })) => drop(refuse(reply, NoAnswer::Abort(Abort::TooLong))),
            Ok(Err(SendError::Full { .. })) => drop(refuse(reply, NoAnswer::Abort(Abort::Overloaded))),
            Ok(Err(SendError::Closed(_))) => {
                refuse(reply, NoAnswer::Unreachable(format!("the link to instance {at} is closed")));
                self.lose(at);
            }
            Err(why) => drop(refuse(reply, NoAnswer::Unreachable(why))),
        }
    }

    /// The link to an instance, opened if need be.
    fn link(&mut self, instance: usize) -> Result<&mut Link, String> {
        let address =
            self.peers.instances.get().and_then(|all| Some((all.deployment, all.addresses.get(instance)?)));
        let Some((deployment, address)) = address else {
            return Err(format!("there is no instance {instance}"));
        };
        if self.links.len() <= instance {
            self.links.resize_with(instance + 1, To::default);
        }
        let to = &mut self.links[instance];
        if to.link.is_none() {
            if let Some((when, why)) = &to.failed
                && when.elapsed() < CONNECT_AGAIN
            {
                return Err(why.clone());
            }
            let from = match self.near {
                Some((near, worker)) if usize::from(near.0) == instance => Caller::ClientAt(worker),
                _ => Caller::Client,
            };
            let hello = wire::Hello { version: wire::VERSION, deployment, from };
            let opened = channel::connect(address, Hello(hello.encode()), CONNECT)
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

    /// Makes what was sent known to the instances that sleep.
    pub fn flush(&mut self) {
        for link in self.links.iter_mut().filter_map(|to| to.link.as_mut()) {
            // The next receive reports the end of the link.
            let _ = link.flush();
        }
    }

    /// Delivers the answers that have come. Returns whether there was a message.
    pub fn receive(&mut self) -> bool {
        let mut works = false;
        for instance in 0..self.links.len() {
            works |= self.receive_from(instance);
        }
        works
    }

    fn receive_from(&mut self, instance: usize) -> bool {
        let Some(link) = self.links[instance].link.as_mut() else { return false };
        let mut works = false;
        for _ in 0..BUDGET {
            match link.receive() {
                Ok(None) => return works,
                Ok(Some(message)) => {
                    works = true;
                    if !deliver(&mut self.waiting, message) {
                        tracing::error!(instance, "an instance sent what is no answer");
                        self.lose(instance);
                        return true;
                    }
                }
                Err(end) => {
                    if self.peers.ends.load(Ordering::Acquire) {
                        tracing::debug!(instance, "the link to an instance has ended: {end}");
                    } else {
                        tracing::warn!(instance, "the link to an instance has ended: {end}");
                    }
                    self.lose(instance);
                    return true;
                }
            }
        }
        works
    }

    /// Makes the next receive look whether the other ends are gone: a ring reports the end of its
    /// peer only if it is asked to look.
    pub fn look_at_ends(&mut self) {
        self.links.iter_mut().filter_map(|to| to.link.as_mut()).for_each(Link::look_at_end);
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
fn deliver(waiting: &mut Waiting, message: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use channel::Listener;
    use std::io;
    use std::sync::Mutex;
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Told(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Told {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Told {
        type Writer = Told;

        fn make_writer(&self) -> Told {
            self.clone()
        }
    }

    /// The warnings of a carrier with one instance, which ends while a call waits for it.
    fn warnings(name: &str, ends: bool) -> String {
        let address = Address::Ring(name.into());
        let listener = Listener::bind(&address).unwrap();
        let accepting = std::thread::spawn(move || listener.accept().unwrap().0);
        let peers = Arc::new(Peers::new(Instances { deployment: 1, addresses: vec![address] }));
        let mut carrier = Carrier::new(Arc::clone(&peers), None).unwrap();
        let (reply, mut answer) = oneshot::channel();
        carrier.submit(InstanceId(0), b"request", reply);
        drop(accepting.join().unwrap());
        if ends {
            peers.end();
        }
        let told = Told::default();
        let subscriber = tracing_subscriber::fmt().with_writer(told.clone()).finish();
        tracing::subscriber::with_default(subscriber, || {
            while matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                carrier.look_at_ends();
                carrier.receive();
            }
        });
        let told = told.0.lock().unwrap().clone();
        String::from_utf8(told).unwrap()
    }

    #[test]
    fn the_end_of_a_link_is_a_warning_unless_the_server_ends() {
        let unasked = warnings("carrier-unasked", false);
        assert!(unasked.contains("WARN") && unasked.contains("link to an instance has ended"), "{unasked}");
        assert_eq!(warnings("carrier-asked", true), "");
    }
}
