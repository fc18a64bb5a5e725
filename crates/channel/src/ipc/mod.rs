//! Measures the time of a message between two workers, for every mechanism: the four channels, and
//! for comparison pipes, FIFOs and message queues.
//!
//! ```text
//!  near side: a thread on cpu 0 <---- messages ----> far side on cpu 1: a process
//!                                                    (a thread for `ring`)
//!    1. far sends "ready"    2. timed round trips    3. a one-way stream, answered once at its end
//! ```
//!
//! The far process is the same binary, started again with [`PEER_VARIABLE`] set. So a program that
//! offers the benchmark calls [`run_if_peer`] first in `main`. *Polled* spins for the next message,
//! as a busy worker does; *blocking* sleeps in the system for every message. Pipes, FIFOs and
//! queues use one system call per message; links flush once per `FLUSH_EVERY` messages of the
//! stream, as a worker's loop does.

mod classics;
mod ends;
mod wire;

use crate::error::ChannelError;
use crate::{Address, Closed};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wire::Wire;

/// The environment variable that makes a process the far side of a measurement.
pub const PEER_VARIABLE: &str = "ATOLL_IPC_PEER";

/// Messages of the one-way stream between two flushes.
const FLUSH_EVERY: usize = 16;
/// The longest message: pipes move no more than this in one piece.
const MOST_BYTES: usize = 4096;
/// How long either side waits for the other before it gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A way for two workers to exchange messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mechanism {
    Shm,
    Ring,
    Uds,
    Tcp,
    Pipe,
    Fifo,
    Mqueue,
}

impl Mechanism {
    pub const ALL: [Mechanism; 7] = [
        Mechanism::Shm,
        Mechanism::Ring,
        Mechanism::Uds,
        Mechanism::Tcp,
        Mechanism::Pipe,
        Mechanism::Fifo,
        Mechanism::Mqueue,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Shm => "shm",
            Mechanism::Ring => "ring",
            Mechanism::Uds => "uds",
            Mechanism::Tcp => "tcp",
            Mechanism::Pipe => "pipe",
            Mechanism::Fifo => "fifo",
            Mechanism::Mqueue => "mqueue",
        }
    }
}

/// How a side waits for the next message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Waiting {
    /// Asks again and again.
    Polled,
    /// Sleeps in the system.
    Blocking,
}

impl Waiting {
    pub const ALL: [Waiting; 2] = [Waiting::Polled, Waiting::Blocking];

    pub fn name(self) -> &'static str {
        match self {
            Waiting::Polled => "polled",
            Waiting::Blocking => "blocking",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = IpcError;
    fn from_str(text: &str) -> Result<Self, IpcError> {
        Mechanism::ALL.into_iter().find(|m| m.name() == text).ok_or_else(|| IpcError::Unknown {
            text: text.to_string(),
            expected: "shm, ring, uds, tcp, pipe, fifo or mqueue",
        })
    }
}

impl FromStr for Waiting {
    type Err = IpcError;
    fn from_str(text: &str) -> Result<Self, IpcError> {
        let expected = "polled or blocking";
        let found = Waiting::ALL.into_iter().find(|w| w.name() == text);
        found.ok_or_else(|| IpcError::Unknown { text: text.to_string(), expected })
    }
}

/// The parameters of a measurement.
#[derive(Clone, Debug)]
pub struct Plan {
    pub mechanism: Mechanism,
    pub waiting: Waiting,
    /// 1 to 4096.
    pub message_bytes: usize,
    /// Timed round trips; a tenth as many are made before, untimed.
    pub round_trips: usize,
    /// Messages of the one-way stream.
    pub streamed: usize,
    /// The CPUs of the near and the far side, as passed to `pin`.
    pub cpus: [usize; 2],
    /// The directory for sockets and FIFOs: of mode 0700, or one that does not exist.
    pub directory: PathBuf,
}

impl Plan {
    /// 256-byte messages, 20,000 round trips, 100,000 streamed messages between CPUs 0 and 1.
    pub fn new(mechanism: Mechanism, waiting: Waiting, directory: PathBuf) -> Plan {
        Plan {
            mechanism,
            waiting,
            message_bytes: 256,
            round_trips: 20_000,
            streamed: 100_000,
            cpus: [0, 1],
            directory,
        }
    }
}

/// The result of a measurement. Times are of a round trip: a message there and one of the same
/// length back.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    pub mechanism: Mechanism,
    pub waiting: Waiting,
    pub message_bytes: usize,
    pub cpus: [usize; 2],
    pub round_trips: usize,
    pub mean_ns: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    /// One way, in a stream.
    pub messages_per_s: f64,
}

/// The reason why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum IpcError {
    #[error("'{text}': expected {expected}")]
    Unknown { text: String, expected: &'static str },
    #[error("message of {given} bytes: expected 1 to {most}")]
    MessageBytes { given: usize, most: usize },
    #[error("{what} 0: expected at least 1")]
    Nothing { what: &'static str },
    #[error("{mechanism} is not available here: {source}")]
    Unavailable { mechanism: Mechanism, source: io::Error },
    #[error("the far side did not answer within {} s or ended: is run_if_peer called first thing in main?", PATIENCE.as_secs())]
    Silent,
    #[error("the far side ended with {0}")]
    Peer(std::process::ExitStatus),
    #[error("{PEER_VARIABLE} is '{0}': expected to be set by a measuring process only")]
    BadPeer(String),
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Closed(#[from] Closed),
    #[error("{doing}: {source}")]
    Io { doing: &'static str, source: io::Error },
}

/// The far side's parameters, passed as one line of text.
#[derive(Clone, Debug)]
struct Role {
    waiting: Waiting,
    message_bytes: usize,
    round_trips: usize,
    streamed: usize,
    cpu: usize,
    mechanism: Mechanism,
    place: String,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Role { waiting, message_bytes, round_trips, streamed, cpu, mechanism, place } = self;
        write!(f, "{waiting} {message_bytes} {round_trips} {streamed} {cpu} {mechanism} {place}")
    }
}

impl FromStr for Role {
    type Err = IpcError;
    fn from_str(text: &str) -> Result<Role, IpcError> {
        let bad = || IpcError::BadPeer(text.to_string());
        let fields: Vec<&str> = text.splitn(7, ' ').collect();
        let [waiting, message_bytes, round_trips, streamed, cpu, mechanism, place] = fields[..] else {
            return Err(bad());
        };
        let number = |text: &str| text.parse().map_err(|_| bad());
        Ok(Role {
            waiting: waiting.parse()?,
            message_bytes: number(message_bytes).and_then(checked_bytes)?,
            round_trips: number(round_trips)?,
            streamed: number(streamed)?,
            cpu: number(cpu)?,
            mechanism: mechanism.parse()?,
            place: place.to_string(),
        })
    }
}

fn checked_bytes(given: usize) -> Result<usize, IpcError> {
    if (1..=MOST_BYTES).contains(&given) {
        Ok(given)
    } else {
        Err(IpcError::MessageBytes { given, most: MOST_BYTES })
    }
}

fn untimed(round_trips: usize) -> usize {
    round_trips / 10 + 1
}

/// Measures one mechanism.
///
/// `launch` returns the command that starts this binary again; [`launch_self`] is right if the
/// caller owns `main`. `pin` binds the calling thread to a CPU. The caller's own thread is never
/// pinned.
///
/// # Errors
/// [`IpcError::Unavailable`] when this system lacks the mechanism; [`IpcError::Silent`] when the
/// far side does not answer; the others report a wrong plan or an error of the system.
pub fn measure(
    plan: &Plan,
    launch: impl Fn() -> Command + Sync,
    pin: impl Fn(usize) + Sync,
) -> Result<Figures, IpcError> {
    checked_bytes(plan.message_bytes)?;
    for (what, given) in [("round trips", plan.round_trips), ("streamed messages", plan.streamed)] {
        if given == 0 {
            return Err(IpcError::Nothing { what });
        }
    }
    std::thread::scope(|scope| {
        let near = scope.spawn(|| match plan.mechanism {
            Mechanism::Ring => with_thread(plan, &pin),
            _ => with_process(plan, &launch, &pin),
        });
        near.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The command that starts the running binary again, without arguments.
pub fn launch_self() -> Command {
    Command::new(std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")))
}

/// If this process was started as the far side of a measurement, plays that part and returns the
/// result; the process must end then. `None` in every other process.
pub fn run_if_peer(pin: impl Fn(usize)) -> Option<Result<(), IpcError>> {
    let text = std::env::var(PEER_VARIABLE).ok()?;
    Some(text.parse().and_then(|role: Role| far_side(&role, &pin)))
}

fn role_of(plan: &Plan, place: String) -> Role {
    Role {
        waiting: plan.waiting,
        message_bytes: plan.message_bytes,
        round_trips: plan.round_trips,
        streamed: plan.streamed,
        cpu: plan.cpus[1],
        mechanism: plan.mechanism,
        place,
    }
}

fn with_thread(plan: &Plan, pin: &(impl Fn(usize) + Sync)) -> Result<Figures, IpcError> {
    let address = Address::Ring(format!("ipc {}", unique()));
    let listener = crate::Listener::bind(&address)?;
    let role = role_of(plan, address.to_string());
    std::thread::scope(|scope| {
        let far = scope.spawn(|| far_side(&role, pin));
        let link = ends::accept(&listener, || far.is_finished())?;
        let figures = near_side(plan, &mut *ends::over_link(link, plan.waiting)?, pin)?;
        far.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(figures)
    })
}

fn with_process(
    plan: &Plan,
    launch: &impl Fn() -> Command,
    pin: &impl Fn(usize),
) -> Result<Figures, IpcError> {
    let start = |place: String| {
        let mut command = launch();
        command.env(PEER_VARIABLE, role_of(plan, place).to_string());
        let child = command.spawn();
        child.map(Peer).map_err(|source| IpcError::Io { doing: "starting the far side", source })
    };
    let (mut wire, peer) = ends::open(plan, start)?;
    let figures = near_side(plan, &mut *wire, pin)?;
    peer.finished()?;
    Ok(figures)
}

/// A far process; killed if the measurement ends before it does.
struct Peer(Child);

impl Peer {
    fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }

    fn finished(mut self) -> Result<(), IpcError> {
        let status =
            self.0.wait().map_err(|source| IpcError::Io { doing: "waiting for the far side", source })?;
        if status.success() { Ok(()) } else { Err(IpcError::Peer(status)) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn unique() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn near_side(plan: &Plan, wire: &mut dyn Wire, pin: &impl Fn(usize)) -> Result<Figures, IpcError> {
    pin(plan.cpus[0]);
    let mut message = vec![0x5a; plan.message_bytes];
    wire.receive(&mut message)?;
    for _ in 0..untimed(plan.round_trips) {
        round_trip(wire, &mut message)?;
    }
    let mut times = Vec::with_capacity(plan.round_trips);
    let whole = Instant::now();
    for _ in 0..plan.round_trips {
        let start = Instant::now();
        round_trip(wire, &mut message)?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    let mean_ns = whole.elapsed().as_nanos() as u64 / plan.round_trips as u64;
    let messages_per_s = stream(wire, &mut message, plan.streamed)?;
    times.sort_unstable();
    Ok(Figures {
        mechanism: plan.mechanism,
        waiting: plan.waiting,
        message_bytes: plan.message_bytes,
        cpus: plan.cpus,
        round_trips: plan.round_trips,
        mean_ns,
        p50_ns: times[times.len() / 2],
        p99_ns: times[times.len() * 99 / 100],
        messages_per_s,
    })
}

fn round_trip(wire: &mut dyn Wire, message: &mut [u8]) -> Result<(), IpcError> {
    wire.send(message)?;
    wire.flush()?;
    wire.receive(message)
}

fn stream(wire: &mut dyn Wire, message: &mut [u8], count: usize) -> Result<f64, IpcError> {
    let start = Instant::now();
    for number in 1..=count {
        wire.send(message)?;
        if number % FLUSH_EVERY == 0 || number == count {
            wire.flush()?;
        }
    }
    wire.receive(message)?;
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

fn far_side(role: &Role, pin: &impl Fn(usize)) -> Result<(), IpcError> {
    let mut wire = ends::join(role)?;
    pin(role.cpu);
    let mut message = vec![0; role.message_bytes];
    wire.send(&message)?;
    wire.flush()?;
    for _ in 0..untimed(role.round_trips) + role.round_trips {
        wire.receive(&mut message)?;
        wire.send(&message)?;
        wire.flush()?;
    }
    for _ in 0..role.streamed {
        wire.receive(&mut message)?;
    }
    wire.send(&message)?;
    wire.flush()
}
