//! The inside of an instance's host, be it a child process or a thread: takes orders from a socket, carries them out
//! on an [`Instance`], replies.
//!
//! When the socket ends, its deployment is gone: a process exits at once (there is nobody left to be orderly for, and
//! restart is built for that), a thread drops its instance.

use crate::control::{Birth, Order, Reply, Sample, receive, send};
use crate::engine::Instance;
use crate::{DeployError, Host, Hosted};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

/// What the hidden command `instance` does: hosts one instance of workload `W` for the parent at the other end of
/// standard input, until the parent says stop or is gone.
///
/// # Errors
/// If standard input is not the socket that a deployment gives its children.
pub fn host_child<W: Hosted>() -> Result<(), DeployError> {
    let refuse =
        || DeployError::Impossible("`instance` is started by atoll itself; use `atoll bench`".into());
    let input = std::io::stdin().as_fd().try_clone_to_owned().map_err(|_| refuse())?;
    rustix::net::sockopt::socket_type(&input).map_err(|_| refuse())?;
    // Without a parent there must be no child, even if it is stuck where no end of file is read.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    serve::<W>(UnixStream::from(input), Host::Process);
    Ok(())
}

/// Carries out orders until [`Order::Stop`] or the end of the socket.
pub(crate) fn serve<W: Hosted>(stream: UnixStream, host: Host) {
    let Ok(mut replies) = stream.try_clone() else { return };
    let orders = orders(stream, host);
    let mut instance: Option<Instance<W>> = None;
    for order in orders {
        let last = matches!(order, Order::Stop);
        let reply = carry_out(order, &mut instance, &mut replies).unwrap_or_else(Reply::Failed);
        if send(&mut replies, &reply).is_err() || last {
            break;
        }
    }
}

/// Reads orders on a thread of its own, so that the end of the socket is noticed in the middle of a long order.
fn orders(mut stream: UnixStream, host: Host) -> mpsc::Receiver<Order> {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        while let Ok(Some(order)) = receive::<Order>(&mut stream) {
            let last = matches!(order, Order::Stop);
            if tx.send(order).is_err() || last {
                return;
            }
        }
        if host == Host::Process {
            std::process::exit(1);
        }
    });
    rx
}

fn carry_out<W: Hosted>(
    order: Order,
    slot: &mut Option<Instance<W>>,
    replies: &mut UnixStream,
) -> Result<Reply, String> {
    if let Order::Start(birth) = order {
        let Birth { workload, config } = *birth;
        let instance = Instance::start(decode::<W>(&workload)?, config).map_err(|e| e.to_string())?;
        let address = instance.address();
        *slot = Some(instance);
        return Ok(Reply::Started(address));
    }
    if let Order::Stop = order {
        return slot.take().map_or(Ok(()), Instance::stop).map(|()| Reply::Done).map_err(|e| e.to_string());
    }
    let instance = slot.as_ref().ok_or("it has not been started")?;
    match order {
        Order::Start(_) | Order::Stop => unreachable!("handled above"),
        Order::Connect(peers) => instance.connect(&peers),
        Order::Load => load(instance, replies)?,
        Order::Drive { clients_per_worker, seed } => instance.drive(clients_per_worker as usize, seed),
        Order::Halt => instance.halt(),
        Order::Reconfigure(workload) => instance.reconfigure(decode(&workload)?),
        Order::Measure => return Ok(Reply::Measured(Box::new(sample(instance)))),
        Order::Audit => return instance.audit().map(Reply::Audit).map_err(|e| e.to_string()),
    }
    Ok(Reply::Done)
}

fn decode<W: Hosted>(json: &str) -> Result<W, String> {
    serde_json::from_str(json).map_err(|e| format!("its workload does not decode: {e}"))
}

fn load<W: Hosted>(instance: &Instance<W>, replies: &UnixStream) -> Result<(), String> {
    let report = |done, total| {
        if let Ok(mut stream) = replies.try_clone() {
            let _ = send(&mut stream, &Reply::Progress { done, total }); // the reader thread notices a lost parent
        }
    };
    instance.load(&report).map_err(|e| e.to_string())
}

fn sample<W: Hosted>(instance: &Instance<W>) -> Sample {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Sample {
        measured: instance.measure(),
        cpu_ns: cpu.tv_sec as u64 * 1_000_000_000 + cpu.tv_nsec as u64,
        rss_bytes: resident_bytes(),
        pid: std::process::id(),
    }
}

/// Resident memory of this process; 0 where `/proc` does not tell.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}
