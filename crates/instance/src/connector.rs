//! Two threads of an instance that may block: one accepts links, the other opens links and reopens
//! them.

use crate::links::Peer;
use crate::orders::{ConnectorOrder, WorkerOrder};
use crate::shared::Shared;
use base::{InstanceId, WorkerId};
use channel::{Address, ChannelError, Hello, Listener, Role};
use exec::Engine;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use txn::Workload;
use wire::Caller;

/// The pause before links that are missing are tried again.
const RETRY: Duration = Duration::from_millis(10);

/// Accepts links until `stop`, and hands each to a worker. A worker of a peer always gets the same
/// worker here. A peer is first told that its life is known here ([`opening`](crate::opening)).
pub(crate) fn accept<W: Workload, E: Engine>(
    shared: &Arc<Shared<W, E>>,
    listener: &Listener,
    stop: &AtomicBool,
) {
    let clients = AtomicUsize::new(0);
    let mut last_refusal = String::new();
    while !stop.load(Ordering::Acquire) {
        let (mut link, hello) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) => {
                refused(shared.config.id, &error, &mut last_refusal);
                continue;
            }
        };
        let Ok(hello) = wire::Hello::decode(&hello.0) else { continue };
        if hello.version != wire::VERSION || hello.deployment != shared.config.deployment {
            continue;
        }
        let workers = shared.config.workers();
        let (me, instances) = (shared.config.id, shared.config.placement.instances());
        let (worker, peer) = match hello.from {
            Caller::Instance(other, ..) if link.role().is_some_and(|role| role != Role::Machine) => {
                let role = link.role().map_or("", Role::name);
                world::tell(format_args!(
                    "atoll: instance {me}: refused a link of a peer that calls itself instance {other} and has the \
                     certificate of a {role}: expected that of a machine"
                ));
                continue;
            }
            Caller::Instance(other, ..) if other == me || other.0 >= instances => {
                world::tell(format_args!(
                    "atoll: instance {me}: refused a link of a peer that calls itself instance {other}: expected \
                     another one of the {instances} of this deployment"
                ));
                continue;
            }
            Caller::Instance(instance, worker, life) => {
                if !shared.meet(instance, life, stop) {
                    continue;
                }
                let mut known = Vec::new();
                wire::Frame::Known { yours: life, mine: shared.life }.encode(&mut known);
                // If the link is already broken, its worker finds out.
                let _ = link.send(&[&known]).map(|()| link.flush());
                (worker.0 as usize % workers, Peer::Caller(instance, life))
            }
            Caller::Client => (clients.fetch_add(1, Ordering::Relaxed) % workers, Peer::Client),
            Caller::ClientAt(worker) => (usize::from(worker.0) % workers, Peer::Client),
        };
        shared.let_in(worker, link, peer);
    }
}

/// Reports an error that concerns more than one caller, and a certificate that is not accepted: the
/// same one once, because its holder tries again. Sleeps if the next attempt would fail at once.
fn refused(id: InstanceId, error: &ChannelError, last: &mut String) {
    match error {
        ChannelError::Stopped => {}
        ChannelError::Refused { why } if why != last => {
            world::tell(format_args!("atoll: instance {id}: refused a caller: {why}"));
            last.clone_from(why);
        }
        ChannelError::Starved { .. } => world::tell(format_args!("atoll: instance {id}: {error}")),
        error if error.goes_on() => {}
        error => {
            world::tell(format_args!("atoll: instance {id}: {error}"));
            std::thread::sleep(RETRY);
        }
    }
}

/// Keeps one link from each worker to each peer.
pub(crate) fn connect<W: Workload, E: Engine>(shared: &Arc<Shared<W, E>>, wanted: &Receiver<ConnectorOrder>) {
    let mut addresses: HashMap<InstanceId, Address> = HashMap::new();
    let mut missing: Vec<(usize, InstanceId)> = Vec::new();
    let mut waiting: Vec<Sender<()>> = Vec::new();
    loop {
        let next = if missing.is_empty() {
            wanted.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            wanted.recv_timeout(RETRY)
        };
        match next {
            Ok(ConnectorOrder::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(ConnectorOrder::Lost(worker, peer)) => missing.push((worker, peer)),
            Ok(ConnectorOrder::Peers(peers, done)) => {
                waiting.push(done);
                for (peer, address) in peers {
                    if addresses.insert(peer, address).is_none() {
                        missing.extend((0..shared.config.workers()).map(|worker| (worker, peer)));
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let ends = || shared.lost.lock().expect("no holder of this lock panics").is_none();
        try_each(&mut missing, ends, |worker, peer| open(shared, worker, peer, addresses.get(&peer)));
        if missing.is_empty() {
            waiting.drain(..).for_each(|done| _ = done.send(()));
        }
    }
}

/// Tries to open each missing link and keeps those that stay missing. A peer that did not answer
/// for one worker is not tried for the others: peers that are down would hold up links to peers
/// that are there, and the end of the instance, by a time-out for each worker. Stops early when the
/// instance `ends`.
fn try_each(
    missing: &mut Vec<(usize, InstanceId)>,
    ends: impl Fn() -> bool,
    mut open: impl FnMut(usize, InstanceId) -> bool,
) {
    let mut down = Vec::new();
    missing.retain(|&(worker, peer)| {
        if down.contains(&peer) || ends() {
            return true;
        }
        let opened = open(worker, peer);
        if !opened {
            down.push(peer);
        }
        !opened
    });
}

fn open<W: Workload, E: Engine>(
    shared: &Arc<Shared<W, E>>,
    worker: usize,
    peer: InstanceId,
    address: Option<&Address>,
) -> bool {
    let Some(address) = address else { return false };
    // On one machine a listener is there or not; over a network the answer takes a while.
    let patience = match address {
        Address::Tcp(_) | Address::Tls(_) | Address::Rdma(_) => Duration::from_millis(500),
        Address::Shm(_) | Address::Uds(_) | Address::Ring(_) => Duration::ZERO,
    };
    let guard = &shared.config.guard;
    let Ok(link) = channel::connect_guarded(address, hello(shared, worker), patience, guard) else {
        return false;
    };
    shared.inboxes[worker].put(WorkerOrder::Link(link, Peer::Callee(peer)));
    true
}

fn hello<W: Workload, E: Engine>(shared: &Shared<W, E>, worker: usize) -> Hello {
    let from = Caller::Instance(shared.config.id, WorkerId(worker as u16), shared.life);
    Hello(wire::Hello { version: wire::VERSION, deployment: shared.config.deployment, from }.encode())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const LINKS: [(usize, u16); 6] = [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2)];

    fn missing() -> Vec<(usize, InstanceId)> {
        LINKS.map(|(worker, peer)| (worker, InstanceId(peer))).into()
    }

    #[test]
    fn a_peer_that_is_down_is_tried_once_and_holds_up_no_other() {
        let (mut links, mut tried) = (missing(), Vec::new());
        let open = |worker, peer: InstanceId| {
            tried.push((worker, peer.0));
            peer.0 == 2
        };
        try_each(&mut links, || false, open);
        assert_eq!(tried, [(0, 1), (0, 2), (1, 2), (2, 2)]);
        assert_eq!(links, [(0, InstanceId(1)), (1, InstanceId(1)), (2, InstanceId(1))]);
    }

    #[test]
    fn the_end_of_the_instance_ends_the_attempts() {
        let (mut links, tried) = (missing(), Cell::new(0));
        let open = |_, _| {
            tried.set(tried.get() + 1);
            true
        };
        try_each(&mut links, || tried.get() == 2, open);
        assert_eq!((tried.get(), links.len()), (2, 4));
    }
}
