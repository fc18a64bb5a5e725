//! An instance dies during transactions of other instances, and restarts before these have noticed.
//!
//! The test plays some of the instances ([`Peer`]), so that it controls when each message is sent.

use crate::peer::{Manners, On, Peer, steps};
use crate::rows::{Ask, Rows, See, row};
use crate::support::{Via, config, private_dir};
use base::InstanceId;
use channel::Address;
use client::{Client, ClientError};
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use std::path::Path;
use std::time::{Duration, Instant};
use twophase::{LockPoint, Vote};
use txn::Placement;
use wal::Durability;
use wire::{Frame, Piggyback};

const DESIGNS: [DesignKind; 2] = [DesignKind::Conventional, DesignKind::Occ];

fn of(workload: &Rows, dir: &Path, id: u16, design: DesignKind, via: Via) -> InstanceConfig {
    let of = workload.sites as u16;
    let config = config(workload, dir, design, Durability::Async, (id, of), 1, via);
    std::fs::create_dir_all(&config.dir).unwrap();
    config
}

fn peer(dir: &Path, id: u16, manners: Manners) -> Peer {
    Peer::new(id, Address::Uds(dir.join(format!("{id}.sock"))), manners)
}

fn client(workload: &Rows, addresses: &[Address]) -> Client<Rows> {
    let placement = Placement::even(workload.sites, workload.sites as u16);
    Client::new(workload.clone(), placement, 7, addresses.to_vec()).unwrap()
}

/// Waits until a peer has acknowledged this life.
fn wait_until_known(peer: &mut Peer, life: u32) {
    peer.next("word that this life is known", |_, frame| match frame {
        Frame::Known { yours, .. } => (yours == life).then_some(()),
        _ => None,
    });
}

/// The home has acknowledged the reader's next life, so the rows that the former life read may be
/// changed. The home must therefore not commit, although the link on which the former life voted
/// has not broken.
#[test]
fn a_life_is_acknowledged_when_nothing_rests_on_the_one_before() {
    for design in DESIGNS {
        let (dir, workload) = (private_dir(), Rows { sites: 3 });
        let [mut reader, mut other] = [0, 2].map(|id| peer(dir.path(), id, Manners::Acknowledges));
        let home = Instance::start(workload.clone(), of(&workload, dir.path(), 1, design, Via::Uds)).unwrap();
        let address = home.address().unwrap();
        let addresses = [reader.place().1, address.clone(), other.place().1];
        reader.call(&address, 1, 1);
        home.connect(&[reader.place(), other.place()]);
        let ask = Ask::SeeFrom(row(1, 0), (row(0, 0), row(2, 0)));
        let outcome = std::thread::scope(|scope| {
            let asked = scope.spawn(|| client(&workload, &addresses).submit(&ask));
            let at_reader = reader.steps();
            reader.answer(at_reader, Vote::ReadOnly, 0);
            let at_other = other.steps();
            reader.call(&address, 1, 2);
            wait_until_known(&mut reader, 2);
            other.answer(at_other, Vote::ReadOnly, 1);
            asked.join().unwrap()
        });
        assert!(matches!(outcome, Err(ClientError::Aborted(_))), "{design}: {outcome:?}");
        home.stop().unwrap();
    }
}

/// Messages that peers and clients send to a life are handled only when all peers know that life.
#[test]
fn an_instance_that_comes_back_lets_no_transaction_in_before_its_peers_know() {
    let (dir, workload) = (private_dir(), Rows { sites: 2 });
    let mut home = peer(dir.path(), 1, Manners::Silent);
    let config = of(&workload, dir.path(), 0, DesignKind::Conventional, Via::Uds);
    let instance = Instance::start(workload.clone(), config.clone()).unwrap();
    instance.load(&|_, _| {}).unwrap();
    let mut life = 1;
    instance.stop().unwrap();
    loop {
        let begun = Instant::now();
        let instance = Instance::start(workload.clone(), config.clone()).unwrap();
        life += 1;
        assert_eq!(instance.recovery().life, life);
        let address = instance.address().unwrap();
        home.call(&address, 1, 1);
        let before = home.arrived();
        instance.connect(&[home.place()]);
        home.next("a link", |_, _| Some(()));
        let batch = steps(&See(row(0, 0)));
        let (gtid, piggyback) = (home.gtid(1, u64::from(life), 0), Piggyback::Prepare(LockPoint::Reached));
        home.send(On::Ours(0), &Frame::Steps { call: 1, gtid, piggyback, steps: batch.bytes() });
        let mut done = |_, frame: Frame<'_>| match frame {
            Frame::StepsDone { outcome, .. } => Some(outcome),
            _ => None,
        };
        let mut early = None;
        for _ in 0..100 {
            std::thread::sleep(Duration::from_millis(1));
            early = early.or(home.look(&mut done));
        }
        // After this time admission opens by itself.
        let in_time = begun.elapsed() < Duration::from_secs(2);
        if in_time {
            assert_eq!(early, None, "served before its peer knew");
            assert!(home.arrived() > before);
            home.send(On::Theirs(before), &Frame::Known { yours: life, mine: 1 });
            assert_eq!(home.next("the results", done), Ok(Some(Vote::ReadOnly)));
        }
        instance.stop().unwrap();
        if in_time {
            return;
        }
    }
}

/// A peer that stays down, or silent, does not stop the others.
#[test]
fn an_instance_that_comes_back_to_silent_peers_opens_in_time() {
    let (dir, workload) = (private_dir(), Rows { sites: 2 });
    let mut home = peer(dir.path(), 1, Manners::Silent);
    let config = of(&workload, dir.path(), 0, DesignKind::Occ, Via::Uds);
    for life in 1..=2 {
        let instance = Instance::start(workload.clone(), config.clone()).unwrap();
        if life == 1 {
            instance.load(&|_, _| {}).unwrap();
        }
        instance.connect(&[home.place()]);
        home.call(&instance.address().unwrap(), 1, 1);
        let batch = steps(&See(row(0, 0)));
        let (gtid, piggyback) = (home.gtid(1, life, 0), Piggyback::Prepare(LockPoint::Reached));
        home.send(On::Ours(0), &Frame::Steps { call: 1, gtid, piggyback, steps: batch.bytes() });
        let outcome = home.next("the results", |_, frame| match frame {
            Frame::StepsDone { gtid: of, outcome, .. } if of == gtid => Some(outcome),
            _ => None,
        });
        assert_eq!(outcome, Ok(Some(Vote::ReadOnly)));
        instance.stop().unwrap();
    }
}

/// A reader dies while its home, kept busy by its own clients, waits for another instance. The
/// reader's next life serves a transaction that changes both the rows that were read and those
/// still to be read. A home that commits has seen half of that transaction.
#[test]
fn a_reader_that_dies_ahead_of_the_lock_point_takes_its_transactions_along() {
    for (design, via) in [(DesignKind::Conventional, Via::Shm), (DesignKind::Occ, Via::Uds)] {
        let (dir, workload) = (private_dir(), Rows { sites: 3 });
        let start =
            |id| Instance::start(workload.clone(), of(&workload, dir.path(), id, design, via)).unwrap();
        let listen = of(&workload, dir.path(), 2, design, via).listen.unwrap();
        let mut other = Peer::new(2, listen, Manners::Acknowledges);
        let (reader, home) = (start(0), start(1));
        let addresses = [reader.address().unwrap(), home.address().unwrap(), other.place().1];
        let places: Vec<_> =
            addresses.iter().enumerate().map(|(i, at)| (InstanceId(i as u16), at.clone())).collect();
        [&reader, &home].into_iter().for_each(|instance| instance.connect(&places));
        [&reader, &home].into_iter().for_each(|instance| instance.load(&|_, _| {}).unwrap());
        home.drive(64, 1);
        let (reader, outcome) = std::thread::scope(|scope| {
            reader.measure().unwrap();
            let ask = Ask::SeeFrom(row(1, 0), (row(0, 0), row(2, 0)));
            let (workload, addresses) = (&workload, &addresses);
            let asked = scope.spawn(move || client(workload, addresses).submit(&ask));
            let sees = other.steps();
            // Its results and vote are the only message that it has sent.
            while reader.measure().unwrap().messages == 0 {}
            reader.stop().unwrap();
            let reader = start(0);
            reader.connect(&places);
            let both = Ask::RaiseBoth(row(0, 0), row(2, 0));
            let raised = scope.spawn(move || client(workload, addresses).submit(&both));
            let raises = other.steps();
            other.answer(raises, Vote::Yes, 1);
            assert_eq!(raised.join().unwrap(), Ok((1, 1)));
            other.answer(sees, Vote::ReadOnly, 1);
            (reader, asked.join().unwrap())
        });
        assert!(matches!(outcome, Err(ClientError::Aborted(_))), "{design} {via:?}: {outcome:?}");
        home.halt().unwrap();
        [reader, home].into_iter().for_each(|instance| instance.stop().unwrap());
    }
}
