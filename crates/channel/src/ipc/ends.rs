//! The two ends of a connection by any mechanism: made here, joined in the far process.

use super::classics::{Fifo, Mqueue, Pipe};
use super::wire::{Wire, spin};
use super::{IpcError, Mechanism, PATIENCE, Peer, Plan, Role, Waiting, unique};
use crate::{Address, ChannelError, Hello, Link, Listener, Parked, Parker, SendError, connect};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Makes the near end, starts the far process with the place to join, and connects with it.
pub(super) fn open(
    plan: &Plan,
    start: impl Fn(String) -> Result<Peer, IpcError>,
) -> Result<(Box<dyn Wire>, Peer), IpcError> {
    let socket = || plan.directory.join(format!("ipc-{}.sock", unique()));
    let address = match plan.mechanism {
        Mechanism::Pipe => return Pipe::open(plan.waiting, start),
        Mechanism::Fifo => return Fifo::open(plan.waiting, &plan.directory, start),
        Mechanism::Mqueue => return Mqueue::open(plan.waiting, plan.message_bytes, start),
        Mechanism::Shm => Address::Shm(socket()),
        Mechanism::Uds => Address::Uds(socket()),
        Mechanism::Tcp => "tcp:0".parse()?,
        Mechanism::Ring => Address::Ring(unique()),
    };
    let listener = Listener::bind(&address)?;
    let mut peer = start(listener.address().to_string())?;
    let link = accept(&listener, || peer.has_ended())?;
    Ok((over_link(link, plan.waiting)?, peer))
}

/// The far end, at the place that the near side named.
pub(super) fn join(role: &Role) -> Result<Box<dyn Wire>, IpcError> {
    match role.mechanism {
        Mechanism::Pipe => Pipe::join(role.waiting, &role.place),
        Mechanism::Fifo => Fifo::join(role.waiting, &role.place),
        Mechanism::Mqueue => Mqueue::join(role.waiting, &role.place),
        _ => over_link(connect(&role.place.parse()?, Hello::default(), PATIENCE)?, role.waiting),
    }
}

/// Accepts the one link, unless the far side ends or takes too long.
pub(super) fn accept(listener: &Listener, mut ended: impl FnMut() -> bool + Send) -> Result<Link, IpcError> {
    let (stopper, done) = (listener.stopper(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let start = Instant::now();
            while !done.load(Ordering::Acquire) {
                if ended() || start.elapsed() > PATIENCE {
                    return stopper.stop();
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let accepted = listener.accept();
        done.store(true, Ordering::Release);
        match accepted {
            Ok((link, _)) => Ok(link),
            Err(ChannelError::Stopped) => Err(IpcError::Silent),
            Err(other) => Err(other.into()),
        }
    })
}

pub(super) fn over_link(mut link: Link, waiting: Waiting) -> Result<Box<dyn Wire>, IpcError> {
    let parker = Parker::new()?;
    link.register(&parker)?;
    Ok(Box::new(LinkWire { link, parker, waiting }))
}

struct LinkWire {
    link: Link,
    parker: Parker,
    waiting: Waiting,
}

/// The most bytes that a link may hold before its sender waits: the reader must limit a stream, not
/// memory.
const MOST_HELD: usize = 1 << 20;

impl LinkWire {
    fn wait(&mut self) -> Result<(), IpcError> {
        match self.waiting {
            Waiting::Polled => std::hint::spin_loop(),
            Waiting::Blocking if self.parker.park(Some(PATIENCE), || true) == Parked::TimedOut => {
                return Err(IpcError::Silent);
            }
            Waiting::Blocking => {}
        }
        Ok(())
    }
}

impl Wire for LinkWire {
    fn send(&mut self, message: &[u8]) -> Result<(), IpcError> {
        self.link.send(&[message]).map_err(|error| match error {
            SendError::Closed(end) => IpcError::Closed(end),
            SendError::Full { .. } | SendError::TooLong { .. } => IpcError::Silent,
        })
    }

    fn flush(&mut self) -> Result<(), IpcError> {
        self.link.flush()?;
        while self.link.held() > MOST_HELD {
            self.wait()?;
            self.link.flush()?;
        }
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<(), IpcError> {
        if self.waiting == Waiting::Polled {
            return spin(|| {
                if self.link.held() > 0 {
                    self.link.flush()?;
                }
                Ok(self.link.receive()?.map(|message| into.copy_from_slice(message)))
            });
        }
        loop {
            if let Some(message) = self.link.receive()? {
                into.copy_from_slice(message);
                return Ok(());
            }
            self.link.flush()?;
            self.wait()?;
        }
    }
}
