//! The load inside one worker: its clients, the source of an open loop, and changes while it runs.
//!
//! ```text
//!   Drive --> closed loop: clients
//!             open loop:   source <-- arrival timer; open-loop clients take from it
//!   Change --> kept until due --> next_change: other requests, another rate
//! ```

use super::Worker;
use crate::clients::{arrival_timer, closed_loop_client, open_loop_client};
use crate::orders::TrafficOrder;
use crate::source::{Kind, Source, Terminals};
use crate::state::Mix;
use exec::{KeyOwners, Load, Maintenance, Prefetch};
use probe::Role;
use std::rc::Rc;
use traffic::{ArrivalStream, LoadModel, Share, Thinker, Traffic, model};
use txn::Workload;

impl<W: Workload, E: Load + Maintenance + Prefetch> Worker<W, E> {
    /// Carries out an order about the load.
    pub(super) fn obey_traffic(&mut self, order: TrafficOrder<W>) {
        match order {
            TrafficOrder::Profile(profiling) => probe::profile(profiling),
            TrafficOrder::Drive { traffic, share, seed } => self.drive(&traffic, share, seed),
            TrafficOrder::Change(changes) => self.changes = changes.into(),
            TrafficOrder::Reconfigure(workload) => self.local.reconfigure(workload),
        }
    }

    fn drive(&mut self, traffic: &Traffic, share: Share, seed: u64) {
        let local = Rc::clone(&self.local);
        let (clients, retries) = (u64::from(traffic.clients), traffic.retries);
        let first = local.worker as u64 * clients;
        local.clients.halting.set(false);
        if let Some(owners) = local.owners() {
            owners.take_over(&local.ctx);
        }
        local.clients.mix.set(Mix { number: local.clients.mix.get().number + 1, seed });
        self.share = 1.0 / f64::from(share.of.max(1));
        self.terminals_stream = self.stream_of_terminals(traffic.clients);
        *local.clients.source.borrow_mut() = self.source(traffic, share);
        let open = local.clients.source.borrow().is_some();
        if open {
            self.spawn_client(arrival_timer(Rc::clone(&local)));
        }
        for stream in first..first + clients {
            let local = Rc::clone(&local);
            let spawned = if open {
                self.spawn_client(probe::charged(Role::Home, open_loop_client(local, stream, retries)))
            } else {
                self.spawn_client(probe::charged(Role::Home, closed_loop_client(local, stream, retries)))
            };
            if !spawned {
                break;
            }
        }
    }

    fn spawn_client(&self, client: impl Future<Output = ()> + 'static) -> bool {
        let spawned = self.local.executor.spawn(client);
        self.local.clients.running.set(self.local.clients.running.get() + usize::from(spawned));
        spawned
    }

    /// The source of requests; `None` for a closed loop.
    fn source(&self, traffic: &Traffic, share: Share) -> Option<Source<W>> {
        let local = &self.local;
        let now = world::now_ns();
        let seed =
            base::hash64(&(local.clients.mix.get().seed.wrapping_add(local.worker as u64)).to_le_bytes());
        let kind = match traffic.model {
            LoadModel::Closed => return None,
            LoadModel::Open { rate, arrivals } => {
                let place = share.first + local.worker as u32;
                let phase = f64::from(place) / f64::from(share.of.max(1));
                Kind::Arrivals(ArrivalStream::new(arrivals, rate.scaled(self.share), seed, phase, now))
            }
            LoadModel::Terminals { terminals, think } => {
                let (placement, workers) =
                    (&local.shared.config.placement, local.shared.config.workers() as u32);
                let sites = placement.sites();
                let own = model::terminals_of(terminals, placement.sites_of(local.me()), sites);
                let (first, worker) = (own.start, local.worker as u32);
                let count = (own.len() as u32 + workers - 1 - worker) / workers;
                let place = move |terminal: u32| {
                    let number = first + worker + terminal * workers;
                    let site = model::site_of(number, terminals, sites);
                    (site, number - model::terminals_of(terminals, site..site + 1, sites).start)
                };
                let thinker = Thinker::new(think, seed);
                let generator = local.generator_of_terminals(self.terminals_stream);
                let workload = local.workload();
                let place = Box::new(place);
                Kind::Terminals(Box::new(Terminals::new(&*workload, count, thinker, generator, place, now)))
            }
        };
        Some(Source::new(kind))
    }

    /// The stream that this worker's terminals share: its number follows those of all clients.
    fn stream_of_terminals(&self, clients: u32) -> u64 {
        self.local.shared.config.workers() as u64 * u64::from(clients) + self.local.worker as u64
    }

    /// Carries out the change of the load that is due.
    pub(super) fn next_change(&mut self, now: u64) {
        let Some(change) = self.changes.pop_front() else { return };
        let local = &self.local;
        if let Some((workload, seed)) = change.requests {
            local.reconfigure(workload);
            local.clients.mix.set(Mix { number: local.clients.mix.get().number + 1, seed });
            if let Some(source) = &mut *local.clients.source.borrow_mut() {
                source.draw_from(local.generator_of_terminals(self.terminals_stream));
            }
        }
        if let (Some(rate), Some(source)) = (change.rate, &mut *local.clients.source.borrow_mut()) {
            source.change(rate.scaled(self.share), now);
        }
    }
}
