//! What the agent of a machine does for a deployment over several machines.
//!
//! ```text
//!   deployment                         agent of machine b            machine b
//!   Member --socket pair-- [Machines] ~~~~~~~~~ Keeper --socket pair-- child process
//!          orders, replies            any channel       orders, replies, and its restarts
//! ```
//!
//! The orders are those of a deployment on one machine ([`control`](crate::control)). A [`Keeper`]
//! fills in the places that only its machine knows, starts the child again when it dies, and then
//! lets the deployment attach anew.

use crate::control::{Birth, InstanceOrder, Reply, receive, send};
use crate::engine::{Address, Durability};
use crate::files::{make_private, write_whole};
use crate::lock::await_release;
use crate::manifest::{Contents, FILE, parse};
use crate::member::{Home, Member};
use crate::{DeployError, Host, Interrupt};
use base::InstanceId;
use std::io::ErrorKind;
use std::net::{IpAddr, Shutdown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The places of a machine that its agent fills in.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The directories of the instances are made here.
    pub data: PathBuf,
    /// A private directory for links within the machine.
    pub sockets: PathBuf,
    /// The machine's certificates.
    pub tls: Option<PathBuf>,
    /// Where instances listen for other machines.
    pub ip: IpAddr,
    /// The right to serve one island, where the machine needs it.
    pub right: Option<Right>,
}

/// The right of a machine to serve an island, under a lease that the agent renews.
#[derive(Clone, Debug)]
pub struct Right {
    /// See [`crate::RelayClaim::terms`].
    pub term: u64,
    /// See [`crate::RelayClaim::at_least`].
    pub at_least: u64,
    /// [`world::now_ns`] until which the instance may answer. The agent moves it while it holds the
    /// lease under which it claimed the island, and ends it with 0.
    pub answers_until: Arc<AtomicU64>,
}

impl Right {
    fn answers_until(&self) -> u64 {
        self.answers_until.load(Ordering::Acquire)
    }
}

impl Ground {
    /// Fills in the places of an instance.
    fn settle(&self, birth: &mut Birth) {
        let config = &mut birth.config;
        config.dir = self.data.join(config.id.to_string());
        if let Some(Address::Shm(path) | Address::Uds(path)) = &mut config.listen {
            *path = self.sockets.join(path.file_name().unwrap_or_default());
        }
        if let Some(Address::Tcp(at) | Address::Tls(at) | Address::Rdma(at)) = &mut config.listen_far {
            at.set_ip(self.ip);
        }
        birth.tls.clone_from(&self.tls);
        if let (Some(right), Some(relay)) = (&self.right, &mut birth.config.relay) {
            (relay.term, relay.at_least) = (Some(right.term), right.at_least);
        }
        self.renew(birth);
    }

    /// Notes how long the instance may answer from now on.
    fn renew(&self, birth: &mut Birth) {
        if let (Some(right), Some(relay)) = (&self.right, &mut birth.config.relay) {
            relay.answers_until = Some(right.answers_until());
        }
    }
}

/// The description on which all machines agree. The counters of runs may differ after a crash: then
/// the later streams count, and no effects.
///
/// # Errors
/// A description cannot be read, or the data differs.
pub(crate) fn agreed(
    database: &str,
    all: Vec<(String, Option<String>)>,
) -> Result<Option<Contents>, DeployError> {
    let mut known: Option<(String, Option<Contents>)> = None;
    for (host, text) in all {
        let contents = text.map(|text| parse(Path::new(database), &text)).transpose()?;
        known = Some(match (known, contents) {
            (None, contents) => (host, contents),
            (Some((first, None)), None) => (first, None),
            (Some((first, Some(mut a))), Some(b)) if a.manifest == b.manifest => {
                a.streams = a.streams.max(b.streams);
                a.effects = a.effects.filter(|effects| Some(*effects) == b.effects);
                (first, Some(a))
            }
            (Some((first, a)), b) => {
                let words =
                    |contents: Option<Contents>| contents.map_or("none".into(), |c| c.manifest.describe());
                return Err(DeployError::Machine(format!(
                    "hosts {first} and {host} disagree about database {database}: {} there, {} here; name another database, or \
                     restore one of them",
                    words(a),
                    words(b)
                )));
            }
        });
    }
    Ok(known.and_then(|(_, contents)| contents))
}

/// The number of islands in the description on which all hosts agree ([`crate::Machines::read`]);
/// `None` without descriptions.
///
/// # Errors
/// It is damaged, or of another version.
pub fn islands_in(database: &str, all: Vec<(String, Option<String>)>) -> Result<Option<u16>, DeployError> {
    Ok(agreed(database, all)?.map(|contents| contents.manifest.islands))
}

/// The description of the database in `dir`, on the agent's side of [`crate::Machines::read`].
///
/// # Errors
/// I/O.
pub fn read_description(dir: &Path) -> Result<Option<String>, DeployError> {
    let path = dir.join(FILE);
    match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        other => other.map(Some).map_err(DeployError::io("read", &path)),
    }
}

/// The agent's side of [`crate::Machines::write`].
///
/// # Errors
/// I/O.
pub fn write_description(dir: &Path, text: Option<&str>) -> Result<(), DeployError> {
    match text {
        Some(text) => {
            make_private(dir)?;
            write_whole(dir, FILE, text)
        }
        None if dir.exists() => std::fs::remove_dir_all(dir).map_err(DeployError::io("remove", dir)),
        None => Ok(()),
    }
}

/// How long a deployment may take to attach again after the restart of an instance.
const ATTACH: Duration = Duration::from_secs(10);
/// How often a keeper looks for the end of its instance.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long an instance that was killed may hold its files.
const RELEASE: Duration = Duration::from_secs(30);
/// How often an instance is started again before it stays down.
const STARTS: u32 = 5;
/// The deployment has its own, shorter patience.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The state of a kept instance, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kept {
    pub instance: InstanceId,
    /// 0 once it has ended.
    pub pid: u32,
    pub restarts: u64,
}

/// Keeps one instance up for a deployment that gives its orders from elsewhere. The instance ends
/// with the deployment's connection, or when this value is dropped.
pub struct Keeper {
    instance: InstanceId,
    streams: Sender<UnixStream>,
    shared: Arc<KeeperShared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct KeeperShared {
    pid: AtomicU32,
    restarts: AtomicU64,
    /// Set to end the instance.
    end: Interrupt,
    /// See [`Keeper::counted`].
    counted: Arc<AtomicU64>,
    /// Why the instance ended last.
    last: Mutex<String>,
    /// The orders that are being carried out.
    orders: Mutex<Option<UnixStream>>,
}

impl KeeperShared {
    /// Makes the thread end soon, also in the middle of an order.
    fn end(&self) {
        self.end.set();
        if let Some(orders) = &*self.orders.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = orders.shutdown(Shutdown::Both); // it may have ended already
        }
    }
}

impl Keeper {
    /// Starts the child process. Its first orders come over the first stream.
    ///
    /// # Errors
    /// No process or thread can be started; the directory cannot be made.
    pub fn start(instance: InstanceId, ground: Ground) -> Result<Keeper, DeployError> {
        let dir = ground.data.join(instance.to_string());
        make_private(&dir)?;
        let (streams, waiting) = mpsc::channel();
        let shared = Arc::new(KeeperShared::default());
        let keeping = Keeping { instance, ground, waiting, shared: shared.clone(), birth: None, peers: None };
        let name = format!("keep-{instance}");
        let thread = std::thread::Builder::new().name(name).spawn(move || keeping.run());
        let thread = Some(thread.map_err(DeployError::Thread)?);
        Ok(Keeper { instance, streams, shared, thread })
    }

    /// Takes orders from `stream` from now on.
    pub fn attach(&self, stream: UnixStream) {
        let _ = self.streams.send(stream); // a keeper that has ended closes it
    }

    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }

    /// Ends the instance, without waiting for it.
    pub fn end(&self) {
        self.shared.end();
    }

    /// Sends SIGKILL to the process.
    pub fn kill(&self) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.shared.pid.load(Ordering::Relaxed) as i32) {
            // It may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }

    /// Why the instance ended last; empty while it has not.
    pub fn last_words(&self) -> String {
        self.shared.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many entries of its log a quorum has, a little behind; 0 without a relay.
    pub fn counted(&self) -> u64 {
        self.shared.counted.load(Ordering::Acquire)
    }

    pub fn state(&self) -> Kept {
        let pid = if self.is_over() { 0 } else { self.shared.pid.load(Ordering::Relaxed) };
        Kept { instance: self.instance, pid, restarts: self.shared.restarts.load(Ordering::Relaxed) }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic was printed
        }
    }
}

/// Why a stream of orders ended.
enum Ended {
    /// The deployment has ended, or ends the instance.
    Over,
    /// The instance has died.
    Lost,
}

/// The thread of a [`Keeper`]. The kernel ends a child when the thread that started it ends, so
/// this thread starts it.
struct Keeping {
    instance: InstanceId,
    ground: Ground,
    waiting: Receiver<UnixStream>,
    shared: Arc<KeeperShared>,
    /// With the addresses at which the instance really listens.
    birth: Option<Birth>,
    peers: Option<Vec<(InstanceId, Address)>>,
}

impl Keeping {
    fn run(mut self) {
        let mut member: Option<Member> = None;
        while let Some(stream) = self.next_stream() {
            if let Ended::Over = self.serve(stream, &mut member) {
                return;
            }
            match self.revive_lasting() {
                Ok(Some(revived)) => {
                    self.shared.restarts.fetch_add(1, Ordering::Relaxed);
                    member = Some(revived);
                }
                Ok(None) => return,
                Err(why) => {
                    world::tell(format_args!("atoll agent: instance {} stays down: {why}", self.instance));
                    return;
                }
            }
        }
    }

    fn next_stream(&self) -> Option<UnixStream> {
        let until = std::time::Instant::now() + ATTACH;
        while !self.shared.end.is_set() && std::time::Instant::now() < until {
            match self.waiting.recv_timeout(LOOK_EVERY) {
                Ok(stream) => return Some(stream),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// Takes orders from one stream until its end.
    fn serve(&mut self, stream: UnixStream, member: &mut Option<Member>) -> Ended {
        let (Ok(reader), Ok(mut replies)) = (stream.try_clone(), stream.try_clone()) else {
            return Ended::Over;
        };
        let gone = Interrupt::default();
        *self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner) = stream.try_clone().ok();
        let Ok(orders) = orders(reader, gone.clone()) else { return Ended::Over };
        let ended = loop {
            if self.shared.end.is_set() {
                break Ended::Over;
            }
            match orders.recv_timeout(LOOK_EVERY) {
                Ok(order) => {
                    let stops = matches!(order, InstanceOrder::Stop);
                    match self.carry_out(order, member, &mut replies, &gone) {
                        Ok(()) if !stops => {}
                        Ok(()) => break Ended::Over,
                        Err(ended) => break ended,
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break Ended::Over,
                Err(RecvTimeoutError::Timeout) => match member.as_mut().map(Member::is_lost) {
                    Some(Ok(true)) => break Ended::Lost,
                    Some(Err(fault)) => {
                        let _ = send(&mut replies, &Reply::Fault(fault.to_string()));
                        break Ended::Over;
                    }
                    Some(Ok(false)) | None => {}
                },
            }
        };
        if let Ended::Lost = ended {
            self.tell_loss(member);
        }
        let _ = stream.shutdown(Shutdown::Both); // the deployment may be gone
        ended
    }

    /// Tells how the instance ended, before the deployment hears of it.
    fn tell_loss(&self, member: &mut Option<Member>) {
        let how = member.as_mut().map_or_else(String::new, |member| member.loss().to_string());
        world::tell(format_args!("atoll agent: {how}"));
        *self.shared.last.lock().unwrap_or_else(PoisonError::into_inner) = how;
    }

    fn carry_out(
        &mut self,
        order: InstanceOrder,
        member: &mut Option<Member>,
        replies: &mut UnixStream,
        gone: &Interrupt,
    ) -> Result<(), Ended> {
        let order = match (order, &self.birth) {
            // It was started again meanwhile.
            (InstanceOrder::Start(_), Some(Birth { config, .. })) => {
                let (near, far) = (config.listen.clone(), config.listen_far.clone());
                return send(replies, &Reply::Started { near, far }).map_err(|_| Ended::Over);
            }
            (InstanceOrder::Start(mut birth), None) => {
                self.ground.settle(&mut birth);
                require_relay(&birth).map_err(|why| tell_failure(replies, &why))?;
                self.birth = Some((*birth).clone());
                *member = Some(self.spawn(&birth, gone).map_err(|why| tell_failure(replies, &why))?);
                InstanceOrder::Start(birth)
            }
            (InstanceOrder::Connect(peers), _) => {
                self.peers = Some(peers.clone());
                InstanceOrder::Connect(peers)
            }
            (other, _) => other,
        };
        let Some(member) = member else {
            return send(replies, &Reply::Failed("it has not been started".into())).map_err(|_| Ended::Over);
        };
        let mut progress = |done, total| drop(send(&mut *replies, &Reply::Progress { done, total }));
        let name = order.name();
        let reply = member.order(&order).and_then(|()| member.reply(name, PATIENCE, gone, &mut progress));
        match reply {
            Ok(reply) => {
                self.learn(&reply);
                send(replies, &reply).map_err(|_| Ended::Over)
            }
            Err(DeployError::Lost { .. }) => Err(Ended::Lost),
            Err(DeployError::Interrupted) => Err(Ended::Over),
            Err(why) => Err(tell_failure(replies, &why)),
        }
    }

    /// Learns the ports that the system chose.
    fn learn(&mut self, reply: &Reply) {
        if let (Reply::Started { near, far }, Some(birth)) = (reply, &mut self.birth) {
            (birth.config.listen, birth.config.listen_far) = (near.clone(), far.clone());
        }
    }

    fn spawn(&self, birth: &Birth, interrupt: &Interrupt) -> Result<Member, DeployError> {
        await_release(&birth.config.dir, RELEASE);
        let mut member = Member::spawn(birth.config.clone(), &Home::Here(Host::Process), interrupt)?;
        member.counted = self.shared.counted.clone();
        if birth.config.relay.is_some() {
            member.lease = self.ground.right.as_ref().map(|right| (right.answers_until.clone(), 0));
        }
        self.shared.pid.store(member.pid().unwrap_or(0), Ordering::Relaxed);
        Ok(member)
    }

    /// As [`Keeping::revive`], again if the instance is lost while it starts.
    fn revive_lasting(&mut self) -> Result<Option<Member>, DeployError> {
        for _ in 1..STARTS {
            match self.revive() {
                Err(DeployError::Lost { .. }) if !self.shared.end.is_set() => {}
                outcome => return outcome,
            }
        }
        self.revive()
    }

    /// Starts the instance again on its data; `None` if its data was in memory.
    fn revive(&mut self) -> Result<Option<Member>, DeployError> {
        let Some(mut birth) = self.birth.clone() else { return Ok(None) };
        if let Some(relay) = &mut birth.config.relay {
            // A claimed term counts once; the log's next one follows it.
            (relay.term, relay.at_least) = (None, 0);
        }
        if self.ground.right.as_ref().is_some_and(|right| world::now_ns() >= right.answers_until()) {
            // Its next term would end the successor's.
            let why = "the right to serve was lost".into();
            return Err(DeployError::Start { instance: self.instance, why });
        }
        self.ground.renew(&mut birth);
        if birth.config.durability == Durability::Memory {
            return Ok(None);
        }
        let end = self.shared.end.clone();
        let mut member = self.spawn(&birth, &end)?;
        let mut ask = |order: &InstanceOrder| {
            member.order(order).and_then(|()| member.reply(order.name(), PATIENCE, &end, &mut |_, _| {}))
        };
        let reply = ask(&InstanceOrder::Start(Box::new(birth)))?;
        if let Some(peers) = self.peers.clone() {
            ask(&InstanceOrder::Connect(peers))?;
        }
        self.learn(&reply);
        Ok(Some(member))
    }
}

/// Refuses a directory with a log at a relay without the relay: what commits then would not be in
/// that log, so a successor would not have it.
fn require_relay(birth: &Birth) -> Result<(), DeployError> {
    let config = &birth.config;
    match config.relay.is_none() && config.dir.join(crate::RELAY_MARK).exists() {
        false => Ok(()),
        true => {
            let why = "its log is at a relay; expected --durability replicated with the same relay";
            Err(DeployError::Start { instance: config.id, why: why.into() })
        }
    }
}

/// Passes the failure of an instance on.
fn tell_failure(replies: &mut UnixStream, why: &DeployError) -> Ended {
    if let DeployError::Fault { why, .. } = why {
        let _ = send(replies, &Reply::Fault(why.clone()));
    }
    let text = match why {
        DeployError::Order { why, .. } | DeployError::Start { why, .. } => why.clone(),
        other => other.to_string(),
    };
    let _ = send(replies, &Reply::Failed(text)); // the deployment may be gone
    Ended::Over
}

/// Reads orders on a separate thread; `gone` is set at the end of the stream.
fn orders(mut stream: UnixStream, gone: Interrupt) -> std::io::Result<Receiver<InstanceOrder>> {
    let (tx, rx) = mpsc::channel();
    let body = move || {
        while let Ok(Some(order)) = receive::<InstanceOrder>(&mut stream) {
            if tx.send(order).is_err() {
                break;
            }
        }
        gone.set();
    };
    std::thread::Builder::new().name("orders".into()).spawn(body)?;
    Ok(rx)
}
