//! Records on which another instance relies are on the device, in asynchronous mode too: a power
//! cut leaves each log a different end.
//!
//! The test plays one of the two instances ([`Peer`]). The log's count of syncs shows that a sync
//! has happened; the logs' own tests show that a power cut then keeps the synced records.

use crate::peer::{Manners, On, Peer, steps};
use crate::rows::{Ask, Raise, Rows, row};
use crate::support::{Via, config, private_dir};
use channel::Address;
use client::Client;
use exec::DesignKind;
use instance::Instance;
use std::path::Path;
use twophase::{Decision, LockPoint, Message, Vote};
use txn::Placement;
use wal::Durability;
use wire::{Frame, Piggyback};

const ROWS: Rows = Rows { sites: 2 };

fn start(dir: &Path, id: u16, design: DesignKind) -> Instance<Rows> {
    let config = config(&ROWS, dir, design, Durability::Async, (id, 2), 1, Via::Uds);
    std::fs::create_dir_all(&config.dir).unwrap();
    let instance = Instance::start(ROWS, config).unwrap();
    instance.load(&|_, _| {}).unwrap();
    instance
}

fn peer(dir: &Path, id: u16) -> Peer {
    Peer::new(id, Address::Uds(dir.join(format!("{id}.sock"))), Manners::Acknowledges)
}

/// Syncs of the log since the last call.
fn syncs(instance: &Instance<Rows>) -> u64 {
    instance.measure().unwrap().log.fsyncs
}

#[test]
fn a_vote_and_an_acknowledgement_wait_for_the_device() {
    for design in [DesignKind::Conventional, DesignKind::Occ] {
        let dir = private_dir();
        let mut home = peer(dir.path(), 0);
        let instance = start(dir.path(), 1, design);
        home.call(&instance.address().unwrap(), 1, 1);
        for n in 1..=10 {
            let (gtid, batch) = (home.gtid(1, n, 0), steps(&Raise(row(1, 0))));
            let piggyback = Piggyback::Prepare(LockPoint::Reached);
            syncs(&instance);
            home.send(On::Ours(0), &Frame::Steps { call: 1, gtid, piggyback, steps: batch.bytes() });
            home.next("a vote", |_, frame| match frame {
                Frame::StepsDone { gtid: of, outcome, .. } if of == gtid => {
                    assert_eq!(outcome, Ok(Some(Vote::Yes)));
                    Some(())
                }
                _ => None,
            });
            assert!(syncs(&instance) > 0, "{design}: voted for what the device does not have");
            let decision = Message::Decide { gtid, decision: Decision::Commit };
            home.send(On::Ours(0), &Frame::TwoPhase(decision));
            let ack = Frame::TwoPhase(Message::Ack { gtid });
            home.next("an acknowledgement", |_, frame| (frame == ack).then_some(()));
            assert!(syncs(&instance) > 0, "{design}: acknowledged what the device does not have");
        }
        instance.stop().unwrap();
    }
}

#[test]
fn a_decision_waits_for_the_device() {
    for design in [DesignKind::Conventional, DesignKind::Occ] {
        let dir = private_dir();
        let mut part = peer(dir.path(), 1);
        let instance = start(dir.path(), 0, design);
        instance.connect(&[part.place()]);
        let addresses = vec![instance.address().unwrap(), part.place().1];
        for _ in 0..10 {
            std::thread::scope(|scope| {
                let ask = Ask::RaiseBoth(row(0, 0), row(1, 0));
                let placement = Placement::even(2, 2);
                let mut client = Client::new(ROWS, placement, 7, addresses.clone()).unwrap();
                let asked = scope.spawn(move || client.submit(&ask).unwrap());
                let at_part = part.steps();
                syncs(&instance);
                part.answer(at_part, Vote::Yes, 1);
                let (on, gtid) = part.next("a decision", |on, frame| match frame {
                    Frame::TwoPhase(Message::Decide { gtid, decision: Decision::Commit }) => Some((on, gtid)),
                    _ => None,
                });
                assert!(syncs(&instance) > 0, "{design}: decided what the device does not have");
                part.send(on, &Frame::TwoPhase(Message::Ack { gtid }));
                asked.join().unwrap();
            });
        }
        instance.stop().unwrap();
    }
}
