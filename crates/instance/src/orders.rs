//! Orders to an instance, and to the threads in it.
//!
//! ```text
//!   deployment --- TrafficOrder<spec> ---> instance --- TrafficOrder<W> ---> each worker
//!              --- other orders ---------> a method of Instance --- WorkerOrder ---> workers
//!                                                              --- ConnectorOrder ---> connector
//! ```
//!
//! An order about the load is one value on the whole way; only the form of its requests changes.
//! The other orders differ on the two sides. An order to an instance is plain data and has one
//! answer. An order to a worker carries the sender of that worker's answer, and one order to an
//! instance may become several orders to workers: an audit first waits until all are settled.

use crate::links::Peer;
use crate::owners::sampling::Loads;
use crate::plan::LoadPlan;
use base::InstanceId;
use channel::{Address, Link};
use exec::{EngineFault, RepartitionRequest};
use probe::{Measured, Profiling};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use traffic::{LoadChange, Share, Traffic};
use twophase::Message;

/// An order about the load. `R` says which requests: the workload with its options, or the
/// description from which it is made.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub enum TrafficOrder<R> {
    /// Turn the profile on or off.
    Profile(Profiling),
    /// Start this load; clients draw streams of requests from `seed` on.
    Drive { traffic: Traffic, share: Share, seed: u64 },
    /// Changes of the load, ascending by time, at times of the clock that all processes of a
    /// machine share; each with its requests and the first of their streams.
    Change(Vec<LoadChange<(R, u64)>>),
    /// Other requests over the same data, while no load runs.
    Reconfigure(R),
}

impl<R> TrafficOrder<R> {
    /// The same order with its requests in another form.
    ///
    /// # Errors
    /// The first error of `form`.
    pub fn in_form<Q, E>(self, form: impl Fn(R) -> Result<Q, E>) -> Result<TrafficOrder<Q>, E> {
        Ok(match self {
            TrafficOrder::Profile(profiling) => TrafficOrder::Profile(profiling),
            TrafficOrder::Drive { traffic, share, seed } => TrafficOrder::Drive { traffic, share, seed },
            TrafficOrder::Change(changes) => {
                let change = |change: LoadChange<(R, u64)>| {
                    change.in_form(0, |(requests, seed)| Ok((form(requests)?, seed)))
                };
                TrafficOrder::Change(changes.into_iter().map(change).collect::<Result<_, E>>()?)
            }
            TrafficOrder::Reconfigure(requests) => TrafficOrder::Reconfigure(form(requests)?),
        })
    }
}

/// An order to a worker from another thread of the instance.
pub(crate) enum WorkerOrder<W> {
    Link(Link, Peer),
    /// An order about the load; reply when it is carried out here.
    Traffic(TrafficOrder<W>, Sender<()>),
    /// End the clients; reply when no transaction of theirs is in flight.
    Halt(Sender<()>),
    /// Reply when no local part of a distributed transaction is left here.
    Settle(Sender<()>),
    Measure(Sender<Measured>),
    Load(Arc<LoadPlan>, Sender<Result<(), String>>),
    Audit(Sender<Result<Vec<u8>, String>>),
    /// Repartition request: change the owners of keys, as far as this worker is concerned.
    Repartition(RepartitionRequest),
    /// Reply with the counts for the balancer.
    Loads(Sender<Loads>),
    /// Write a checkpoint: on the worker, because it may own the pages.
    Checkpoint(Sender<Result<(), EngineFault>>),
    /// A message for a transaction of this worker that another worker received.
    Message {
        from: InstanceId,
        message: Message,
    },
    /// A peer runs in this life: give up the state that depends on its earlier lives, then reply.
    Reborn {
        peer: InstanceId,
        life: u32,
        done: Sender<()>,
    },
    Stop,
}

/// An order to the connector thread.
pub(crate) enum ConnectorOrder {
    /// The present addresses of the peers (sent again after a restart of one of them). Answered
    /// when every worker has its link to each peer.
    Peers(Vec<(InstanceId, Address)>, Sender<()>),
    /// A worker's link to a peer has broken.
    Lost(usize, InstanceId),
    Stop,
}
