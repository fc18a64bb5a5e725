//! Messages about a transaction reach the worker that is responsible for it, for any number of
//! workers that either instance had when it began.
//!
//! The test plays one of the two instances ([`Peer`]), so that it controls when each message is
//! sent.

use crate::peer::{Manners, On, Peer, steps};
use crate::rows::{Ask, Raise, Rows, See, row};
use crate::support::{Via, config, private_dir};
use base::Gtid;
use channel::Address;
use client::Client;
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use std::path::Path;
use twophase::{Decision, LockPoint, Message, Vote};
use txn::Placement;
use wal::Durability;
use wire::{Frame, Piggyback};

/// Designs before and after a crash, with their workers.
const CHANGES: [((DesignKind, usize), (DesignKind, usize)); 4] = [
    ((DesignKind::Conventional, 4), (DesignKind::Conventional, 3)),
    ((DesignKind::Conventional, 3), (DesignKind::Logical, 5)),
    ((DesignKind::Logical, 2), (DesignKind::Serial, 1)),
    ((DesignKind::Occ, 4), (DesignKind::Occ, 3)),
];

const ROWS: Rows = Rows { sites: 2 };

fn of(dir: &Path, id: u16, (design, workers): (DesignKind, usize)) -> InstanceConfig {
    let config = config(&ROWS, dir, design, Durability::Async, (id, 2), workers, Via::Uds);
    std::fs::create_dir_all(&config.dir).unwrap();
    config
}

fn peer(dir: &Path, id: u16) -> Peer {
    Peer::new(id, Address::Uds(dir.join(format!("{id}.sock"))), Manners::Acknowledges)
}

/// Runs one step as the only step of a participant.
fn run<S: txn::Step>(peer: &mut Peer, gtid: Gtid, worker: usize, step: &S) -> (Option<Vote>, i64) {
    let batch = steps(step);
    let piggyback = Piggyback::Prepare(LockPoint::Reached);
    peer.send(On::Ours(worker), &Frame::Steps { call: 1, gtid, piggyback, steps: batch.bytes() });
    peer.next("the results of a step", |_, frame| match frame {
        Frame::StepsDone { gtid: of, outcome, outputs, .. } if of == gtid => {
            let (_, value) = wire::BatchReader::new(outputs).next().expect("one output");
            Some((outcome.unwrap(), postcard::from_bytes(value).unwrap()))
        }
        _ => None,
    })
}

/// The home decides Commit after the participant has restarted with another number of workers. The
/// home must not get an acknowledgement before the commit is done.
#[test]
fn decisions_reach_parts_in_doubt_when_the_participant_comes_back_with_other_workers() {
    for (before, after) in CHANGES {
        let dir = private_dir();
        let mut home = peer(dir.path(), 0);
        let instance = Instance::start(ROWS, of(dir.path(), 1, before)).unwrap();
        instance.load(&|_, _| {}).unwrap();
        home.call(&instance.address().unwrap(), 4, 1);
        let gtids: Vec<_> = (0..8).map(|n| home.gtid(1, n + 1, n as usize % 4)).collect();
        for (n, gtid) in gtids.iter().enumerate() {
            let (vote, value) = run(&mut home, *gtid, n % 4, &Raise(row(1, n as i64)));
            assert_eq!((vote, value), (Some(Vote::Yes), 1));
        }
        instance.stop().unwrap();

        let instance = Instance::start(ROWS, of(dir.path(), 1, after)).unwrap();
        assert_eq!(instance.recovery().in_doubt, gtids.len());
        // The home has restarted too, with 2 workers.
        home.call(&instance.address().unwrap(), 2, 2);
        instance.connect(&[home.place()]);
        for gtid in &gtids {
            let worker = twophase::worker_of(*gtid, 2);
            let commit = Message::Decide { gtid: *gtid, decision: Decision::Commit };
            home.send(On::Ours(worker), &Frame::TwoPhase(commit));
        }
        let mut missing = gtids.clone();
        while !missing.is_empty() {
            let acked = home.next("an acknowledgement", |_, frame| match frame {
                Frame::TwoPhase(Message::Ack { gtid }) => Some(gtid),
                _ => None,
            });
            missing.retain(|gtid| *gtid != acked);
        }
        let in_doubt = instance.measure().unwrap().in_doubt;
        assert_eq!(in_doubt, 0, "{before:?} {after:?}: acknowledged, and still in doubt");
        for n in 0..8 {
            let (gtid, worker) = (home.gtid(2, n + 1, 0), 0);
            let seen = run(&mut home, gtid, worker, &See(row(1, n as i64)));
            assert_eq!(seen, (Some(Vote::ReadOnly), 1), "{before:?} {after:?}: row {n}");
        }
        instance.stop().unwrap();
    }
}

/// A participant inquires after the home has restarted with another number of workers: the home
/// must not answer that it knows no such transaction.
#[test]
fn inquiries_reach_decided_homes_when_the_home_comes_back_with_other_workers() {
    for (before, after) in CHANGES {
        let dir = private_dir();
        let mut part = peer(dir.path(), 1);
        let instance = Instance::start(ROWS, of(dir.path(), 0, before)).unwrap();
        instance.load(&|_, _| {}).unwrap();
        instance.connect(&[part.place()]);
        let address = instance.address().unwrap();
        let committed: Vec<_> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..6)
                .map(|n| {
                    let addresses = vec![address.clone(), part.place().1];
                    let ask = Ask::RaiseBoth(row(0, n), row(1, n));
                    scope.spawn(move || {
                        let mut client = Client::new(ROWS, Placement::even(2, 2), 7, addresses).unwrap();
                        client.submit(&ask).unwrap()
                    })
                })
                .collect();
            let gtids = (0..clients.len())
                .map(|_| {
                    let asked = part.steps();
                    part.answer(asked, Vote::Yes, 9);
                    let (.., gtid) = asked;
                    gtid
                })
                .collect();
            clients.into_iter().for_each(|client| assert_eq!(client.join().unwrap(), (1, 9)));
            gtids
        });
        instance.stop().unwrap();

        let instance = Instance::start(ROWS, of(dir.path(), 0, after)).unwrap();
        part.call(&instance.address().unwrap(), 5, 1);
        instance.connect(&[part.place()]);
        for gtid in committed {
            for worker in 0..5 {
                part.send(On::Ours(worker), &Frame::TwoPhase(Message::Inquire { gtid }));
            }
            for _ in 0..5 {
                let decision = part.next("a decision", |_, frame| match frame {
                    Frame::TwoPhase(Message::Decide { gtid: of, decision }) if of == gtid => Some(decision),
                    _ => None,
                });
                assert_eq!(decision, Decision::Commit, "{before:?} {after:?}: {gtid}");
            }
            part.send(On::Ours(0), &Frame::TwoPhase(Message::Ack { gtid }));
        }
        instance.audit().unwrap();
        assert_eq!(instance.recovery().life, 2);
        instance.stop().unwrap();
    }
}
