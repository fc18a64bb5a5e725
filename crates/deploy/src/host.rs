//! The inside of an instance's host, a child process or a thread: takes orders from a socket,
//! carries them out on an [`Instance`], replies.
//!
//! When the socket ends, the deployment is gone. A process then exits at once: no orderly end is
//! needed, since restart handles a crash. A thread drops its instance.

use crate::control::{Birth, InstanceOrder, Reply, receive, send};
use crate::engine::{Distance, Instance, InstanceConfig, start};
use crate::{DeployError, Host};
use channel::Guarding;
use std::mem::{Discriminant, discriminant};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use workload::{AnyWorkload, WorkloadSpec};

/// How often an instance without an order is checked for a failed engine.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The body of the hidden command `instance`: hosts one instance for the parent at the other end of
/// standard input, until the parent orders it to stop or ends.
///
/// # Errors
/// If standard input is not the socket that a deployment gives its children.
pub fn host_child() -> Result<(), DeployError> {
    host_child_guarded(no_guards)
}

/// As [`host_child`]; `guards` is asked for the guard of links with other machines, if the
/// deployment has any.
///
/// # Errors
/// As [`host_child`].
pub fn host_child_guarded(guards: Guards) -> Result<(), DeployError> {
    let refuse =
        || DeployError::Impossible("`instance` is started by atoll itself; use `atoll bench`".into());
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(|_| refuse())?;
    rustix::net::sockopt::socket_type(&input).map_err(|_| refuse())?;
    // The child must not outlive its parent, even when it is stuck and does not read the end of
    // file.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    // The program was started as /proc/self/exe, so the system has named it `exe`.
    let _ = rustix::thread::set_name(c"atoll");
    serve(UnixStream::from(input), Host::Process, guards);
    Ok(())
}

/// Makes the guard of this machine from the directory of its certificates, or says why it cannot.
pub type Guards = fn(&Path) -> Result<Guarding, String>;

/// For programs without links to other machines.
pub(crate) fn no_guards(_: &Path) -> Result<Guarding, String> {
    Err("this program makes no links with other machines; use `atoll agent`".into())
}

/// Carries out orders until [`InstanceOrder::Stop`] or the end of the socket.
pub(crate) fn serve(stream: UnixStream, host: Host, guards: Guards) {
    let Ok(mut replies) = stream.try_clone() else { return };
    let Ok(end) = stream.try_clone() else { return };
    let _end = End(end);
    let orders = match orders(stream, host) {
        Ok(orders) => orders,
        Err(e) => return drop(send(&mut replies, &Reply::Failed(format!("cannot start a thread: {e}")))),
    };
    let Ok(first) = orders.recv() else { return };
    let InstanceOrder::Start(birth) = first else {
        // The end of this function ends the host.
        let _ = send(&mut replies, &Reply::Failed("it has not been started".into()));
        return;
    };
    let Birth { spec, mut config, tls } = *birth;
    match tls.map(|dir| guards(&dir)).transpose() {
        Ok(guard) => config.guard = guard.unwrap_or_default(),
        Err(why) => return drop(send(&mut replies, &Reply::Failed(why))),
    }
    // For all memory that is allocated from here on, also by threads that this one starts (a
    // process has inherited the binding). The instance reports the result.
    topology::bind_thread_memory(config.node.map(|node| topology::NodeId(node as u32)));
    let own = match replies.try_clone() {
        Ok(own) => own,
        Err(e) => return drop(send(&mut replies, &Reply::Failed(format!("cannot copy a descriptor: {e}")))),
    };
    match spec.build() {
        Ok(workload) => Life { config, orders, replies: own }.run(workload),
        // The end of this function ends the host.
        Err(e) => drop(send(&mut replies, &Reply::Failed(e.to_string()))),
    }
}

/// Shuts the socket down when an instance ends, on any path. The reader of orders holds the socket
/// too, and a deployment waits for its end.
struct End(UnixStream);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.shutdown(std::net::Shutdown::Both); // it may have ended already
    }
}

/// Reads orders on a separate thread, so that the end of the socket is noticed during a long order.
fn orders(mut stream: UnixStream, host: Host) -> std::io::Result<mpsc::Receiver<InstanceOrder>> {
    let (tx, rx) = mpsc::channel();
    let body = move || {
        while let Ok(Some(order)) = receive::<InstanceOrder>(&mut stream) {
            if let InstanceOrder::AnswerUntil(ns) = order {
                instance::lease::answer_until(ns);
                continue;
            }
            let last = matches!(order, InstanceOrder::Stop);
            if tx.send(order).is_err() || last {
                return;
            }
        }
        if host == Host::Process {
            std::process::exit(1);
        }
    };
    std::thread::Builder::new().name("orders".into()).spawn(body)?;
    Ok(rx)
}

/// One instance, from start to stop.
struct Life {
    config: InstanceConfig,
    orders: mpsc::Receiver<InstanceOrder>,
    replies: UnixStream,
}

impl Life {
    fn run(mut self, workload: AnyWorkload) {
        let id = self.config.id;
        let kind = discriminant(&workload);
        let (instance, mut distance) = match start(workload, self.config) {
            Ok(started) => started,
            Err(e) => return drop(send(&mut self.replies, &Reply::Failed(e.to_string()))),
        };
        if let topology::Binding::Refused(why) = instance.binding() {
            world::tell(format_args!(
                "atoll: warning: {id:?}: the system does not let its memory be bound to a NUMA node ({why}); \
                 it comes from wherever its workers run"
            ));
        }
        if let Some(what) = instance.shortage() {
            world::tell(format_args!("atoll: warning: {id:?}: {what}"));
        }
        if send(&mut self.replies, &started(&instance)).is_err() {
            return;
        }
        let mut faults = Faults::default();
        loop {
            let order = match self.orders.recv_timeout(LOOK_EVERY) {
                Ok(order) => order,
                Err(RecvTimeoutError::Timeout) => {
                    faults.tell(&instance, &mut self.replies);
                    if let Some(counted) = distance.as_mut().and_then(Distance::grown) {
                        let _ = send(&mut self.replies, &Reply::Counted(counted)); // as above
                    }
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if let InstanceOrder::Stop = order {
                drop(distance);
                let reply = instance.stop().map_or_else(|e| Reply::Failed(e.to_string()), |()| Reply::Done);
                return drop(send(&mut self.replies, &reply));
            }
            let reply = carry_out(order, (&instance, kind), &self.replies).unwrap_or_else(Reply::Failed);
            if matches!(reply, Reply::Failed(_)) {
                // The cause comes before its consequence.
                faults.tell(&instance, &mut self.replies);
            }
            if send(&mut self.replies, &reply).is_err() {
                return;
            }
        }
    }
}

fn started(instance: &Instance) -> Reply {
    Reply::Started { near: instance.address(), far: instance.far_address() }
}

/// Whether the engine's fault was reported to the deployment.
#[derive(Default)]
struct Faults {
    told: bool,
}

impl Faults {
    /// Reports the fault once.
    fn tell(&mut self, instance: &Instance, replies: &mut UnixStream) {
        let Some(why) = instance.fault().filter(|_| !self.told) else { return };
        self.told = true;
        let _ = send(replies, &Reply::Fault(why)); // the reader thread notices a lost parent
    }
}

/// `kind`: the kind of the workload that the instance runs.
fn carry_out(
    order: InstanceOrder,
    (instance, kind): (&Instance, Discriminant<AnyWorkload>),
    replies: &UnixStream,
) -> Result<Reply, String> {
    match order {
        InstanceOrder::Start(_) | InstanceOrder::Stop => return Err("it runs already".into()),
        // The reader of orders has carried it out.
        InstanceOrder::AnswerUntil(_) => {}
        InstanceOrder::Connect(peers) => instance.connect(&peers),
        InstanceOrder::Load => load(instance, replies)?,
        InstanceOrder::Traffic(order) => {
            let order = order.in_form(|spec| rebuild(&spec, kind))?;
            instance.obey(&order).map_err(|e| e.to_string())?;
        }
        InstanceOrder::Halt => instance.halt().map_err(|e| e.to_string())?,
        InstanceOrder::Measure => {
            return instance.measure().map(|m| Reply::Measured(Box::new(m))).map_err(|e| e.to_string());
        }
        InstanceOrder::Audit => return instance.audit().map(Reply::Audit).map_err(|e| e.to_string()),
    }
    Ok(Reply::Done)
}

/// The workload of `spec`, which is of the kind that the instance runs.
fn rebuild(spec: &WorkloadSpec, kind: Discriminant<AnyWorkload>) -> Result<AnyWorkload, String> {
    let workload = spec.build().map_err(|e| e.to_string())?;
    if discriminant(&workload) == kind {
        Ok(workload)
    } else {
        Err(format!("it runs another workload than {}", spec.name))
    }
}

fn load(instance: &Instance, replies: &UnixStream) -> Result<(), String> {
    let report = |done, total| {
        if let Ok(mut stream) = replies.try_clone() {
            // The reader thread notices a lost parent.
            let _ = send(&mut stream, &Reply::Progress { done, total });
        }
    };
    instance.load(&report).map_err(|e| e.to_string())
}

/// CPU time of this process since it started, all threads, in nanoseconds.
pub fn cpu_ns() -> u64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64
}
