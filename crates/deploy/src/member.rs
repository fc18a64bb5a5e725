//! One hosted instance as its deployment sees it: its host, the socket to it, its mailbox.
//!
//! A reader thread fills the mailbox, and lives as long as this life of the instance. Its last
//! entry is always [`Mail::Lost`]. A new life gets a new socket and a new mailbox, so no message of
//! an old life is ever read in a new one.

use crate::control::{InstanceOrder, Reply, receive, send};
use crate::distant::{DistantHost, Errand, Machines};
use crate::engine::{Address, InstanceConfig};
use crate::{DeployError, Host, Interrupt, host};
use base::InstanceId;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a wait checks for Ctrl-C.
const TICK: Duration = Duration::from_millis(20);
/// How long an orderly end may take before the host is killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// An entry of the mailbox.
enum Mail {
    Reply(Reply),
    /// The socket has ended.
    Lost,
}

/// The host of an instance.
enum Body {
    Process(Child),
    Thread(Option<JoinHandle<()>>),
    Distant(Box<dyn DistantHost>),
}

/// Where the host of an instance is started.
pub(crate) enum Home<'a> {
    Here(Host),
    /// On this one of these machines.
    Afar(&'a dyn Machines, &'a Errand, usize),
}

/// A hosted instance.
pub(crate) struct Member {
    pub config: InstanceConfig,
    /// Where instances on other machines reach it.
    pub far: Option<Address>,
    socket: UnixStream,
    mail: Receiver<Mail>,
    body: Body,
    /// The host has ended.
    lost: bool,
    /// Why nothing commits there any more.
    fault: Option<String>,
    /// How many entries of its log a quorum has, as far as it has told.
    pub counted: Arc<AtomicU64>,
    /// Until when it may answer, and what it was told last; [`Member::renew`] tells it.
    pub lease: Option<(Arc<AtomicU64>, u64)>,
    interrupt: Interrupt,
}

impl Member {
    /// Starts the host; [`InstanceOrder::Start`] is still to be sent.
    pub fn spawn(
        config: InstanceConfig,
        home: &Home<'_>,
        interrupt: &Interrupt,
    ) -> Result<Member, DeployError> {
        let id = config.id;
        let fail = |why: std::io::Error| DeployError::Start { instance: id, why: why.to_string() };
        let (ours, body) = match home {
            Home::Here(Host::Process) => {
                let (ours, theirs) = UnixStream::pair().map_err(fail)?;
                // Memory that the child allocates before it knows its node comes from that node,
                // too.
                let node = config.node.map(|node| topology::NodeId(node as u32));
                let child = topology::with_memory_of(node, || spawn_process(id, theirs));
                (ours, Body::Process(child.map_err(fail)?))
            }
            Home::Here(Host::Thread) => {
                let (ours, theirs) = UnixStream::pair().map_err(fail)?;
                let thread = std::thread::Builder::new().name(format!("instance-{id}"));
                let body = move || host::serve(theirs, Host::Thread, host::no_guards);
                (ours, Body::Thread(Some(thread.spawn(body).map_err(fail)?)))
            }
            Home::Afar(machines, errand, machine) => {
                let distant = machines.spawn(errand, id, *machine)?;
                (distant.orders, Body::Distant(distant.host))
            }
        };
        let mut reader = ours.try_clone().map_err(fail)?;
        let (tx, mail) = channel();
        let read = move || {
            while let Ok(Some(reply)) = receive::<Reply>(&mut reader) {
                if tx.send(Mail::Reply(reply)).is_err() {
                    return;
                }
            }
            let _ = tx.send(Mail::Lost); // the receiver is gone: nothing to report
        };
        let interrupt = interrupt.clone();
        // The member is complete before its reader thread starts: if that fails, dropping it ends
        // the host.
        let (far, lost, fault, lease, counted) = (None, false, None, None, Arc::default());
        let member = Member { config, far, socket: ours, mail, body, lost, fault, counted, lease, interrupt };
        std::thread::Builder::new().name(format!("replies-{id}")).spawn(read).map_err(fail)?;
        Ok(member)
    }

    pub fn id(&self) -> InstanceId {
        self.config.id
    }

    /// The process of the host; `None` for a thread, and on another machine.
    pub fn pid(&self) -> Option<u32> {
        match &self.body {
            Body::Process(child) => Some(child.id()),
            Body::Thread(_) | Body::Distant(_) => None,
        }
    }

    /// Sends an order. Its reply is collected by [`Member::reply`].
    pub fn order(&mut self, order: &InstanceOrder) -> Result<(), DeployError> {
        if send(&mut self.socket, order).is_err() {
            return Err(self.last_words(order.name()));
        }
        Ok(())
    }

    /// Tells an instance under a lease how long it may answer, if that has changed.
    fn renew(&mut self) {
        let Some((until, told)) = &mut self.lease else { return };
        let until = until.load(Ordering::Acquire);
        if std::mem::replace(told, until) != until {
            // The mailbox tells that the host has ended.
            let _ = send(&mut self.socket, &InstanceOrder::AnswerUntil(until));
        }
    }

    /// Why a host has ended, by its last messages.
    fn last_words(&mut self, order: &'static str) -> DeployError {
        let instance = self.id();
        while let Ok(mail) = self.mail.recv_timeout(PATIENCE) {
            match mail {
                Mail::Reply(Reply::Fault(why)) => return DeployError::Fault { instance, why },
                Mail::Reply(Reply::Failed(why)) => return DeployError::Order { instance, order, why },
                Mail::Reply(_) => {}
                Mail::Lost => break,
            }
        }
        self.lost = true;
        self.loss()
    }

    /// The final reply to the last order. Progress goes to `progress` and renews `patience`.
    pub fn reply(
        &mut self,
        order: &'static str,
        patience: Duration,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Reply, DeployError> {
        let mut deadline = Instant::now() + patience;
        loop {
            self.renew();
            match self.mail.recv_timeout(TICK) {
                Ok(Mail::Reply(Reply::Progress { done, total })) => {
                    progress(done, total);
                    deadline = Instant::now() + patience;
                }
                Ok(Mail::Reply(Reply::Fault(why))) => self.fault = Some(why),
                Ok(Mail::Reply(Reply::Counted(n))) => self.counted.store(n, Ordering::Release),
                Ok(Mail::Reply(Reply::Failed(why))) => {
                    let instance = self.id();
                    return Err(match self.fault.take() {
                        Some(why) => DeployError::Fault { instance, why },
                        None => DeployError::Order { instance, order, why },
                    });
                }
                Ok(Mail::Reply(reply)) => return Ok(reply),
                Ok(Mail::Lost) | Err(RecvTimeoutError::Disconnected) => {
                    self.lost = true;
                    return Err(self.loss());
                }
                Err(RecvTimeoutError::Timeout) if interrupt.is_set() => return Err(DeployError::Interrupted),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    let seconds = patience.as_secs();
                    return Err(DeployError::Timeout { instance: self.id(), order, seconds });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Whether the host has died. Only called between orders, when no reply is awaited.
    ///
    /// # Errors
    /// The host lives, but its engine has failed.
    pub fn is_lost(&mut self) -> Result<bool, DeployError> {
        self.renew();
        while let Ok(mail) = self.mail.try_recv() {
            match mail {
                Mail::Lost => self.lost = true,
                Mail::Reply(Reply::Fault(why)) => self.fault = Some(why),
                Mail::Reply(Reply::Counted(n)) => self.counted.store(n, Ordering::Release),
                Mail::Reply(_) => {}
            }
        }
        match &self.fault {
            Some(why) if !self.lost => Err(DeployError::Fault { instance: self.id(), why: why.clone() }),
            _ => Ok(self.lost),
        }
    }

    /// Reaps the dead host and returns how it died. If the run was interrupted, returns that
    /// instead: a Ctrl-C between the birth of a process and its change of process group ends that
    /// process, too.
    pub fn loss(&mut self) -> DeployError {
        let how = match &mut self.body {
            Body::Process(child) => match wait(child, PATIENCE) {
                Some(status) => describe(status),
                None => "it closed its control socket".into(),
            },
            Body::Thread(_) => "its thread ended".into(),
            Body::Distant(host) => host.last_words(),
        };
        match self.interrupt.is_set() {
            true => DeployError::Interrupted,
            false => DeployError::Lost { instance: self.id(), how, hint: "" },
        }
    }

    /// Sends SIGKILL, as the crash tests do.
    pub fn kill(&mut self) -> Result<(), DeployError> {
        match &mut self.body {
            Body::Process(child) => {
                child.kill().map_err(|e| DeployError::Start { instance: self.config.id, why: e.to_string() })
            }
            Body::Distant(host) => {
                host.kill().map_err(|e| DeployError::Start { instance: self.config.id, why: e.to_string() })
            }
            Body::Thread(_) => Err(DeployError::Impossible(
                "a thread cannot be killed: instances die one by one only with --host process".into(),
            )),
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // The end of the socket ends a host that is still there.
        let _ = self.socket.shutdown(Shutdown::Both);
        match &mut self.body {
            Body::Process(child) => {
                if wait(child, PATIENCE).is_none() {
                    let _ = child.kill(); // it is dead already or about to be
                    let _ = child.wait();
                }
            }
            // Its agent ends it.
            Body::Distant(_) => {}
            Body::Thread(thread) => {
                if let Some(Err(_)) = thread.take().map(JoinHandle::join) {
                    world::tell(format_args!("atoll: the thread of instance {} panicked", self.config.id));
                }
            }
        }
    }
}

fn spawn_process(id: InstanceId, socket: UnixStream) -> std::io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("atoll")
        .args(["instance", "--number", &id.to_string()])
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        // Ctrl-C at a terminal goes to the parent alone, which then ends its children in order.
        .process_group(0)
        .spawn()
}

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            _ => return None,
        }
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (_, Some(signal)) => format!("signal {signal}"),
        (Some(code), _) => format!("exit code {code}"),
        _ => "an unknown end".into(),
    }
}
