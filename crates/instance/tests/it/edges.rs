//! Misbehaviour of clients and peers: steps after the last ones, messages that their sender may not
//! send, replies that are too long, clients that do not read, peers that do not answer.

use crate::peer::{Manners, On, Peer, steps};
use crate::support::{Deployment, Via, config, private_dir};
use base::{Gtid, InstanceId, Key, SiteId, TableId, WorkerId};
use channel::{Address, Hello, Link};
use client::{Client, ClientError};
use exec::DesignKind;
use instance::{Instance, InstanceConfig};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use twophase::{Decision, LockPoint, Message, Vote};
use txn::step::Each;
use txn::{
    Abort, Access, Column, Effect, Generator, Placement, Route, RowBuf, Schema, Step, StepId, TableDef,
    Transaction, Type, Verdict, Workload,
};
use wal::Durability;
use wire::{Caller, Frame, Piggyback};
use workload::oracle::Oracle;

const ROWS: TableId = TableId(1);
/// Rows of each site.
const OF_SITE: i64 = 100;
const SITES: u32 = 6;
const PATIENCE: Duration = Duration::from_secs(60);

fn table() -> TableDef {
    let columns = ["id", "value"].map(|name| Column::new(name, Type::I64)).into();
    TableDef::new(ROWS, "rows", columns, &[0], (i64::from(SITES) * OF_SITE) as u64)
}

/// The row with this number at the first site of an instance; there are `of` instances.
fn row(instance: u16, of: u16, number: i64) -> i64 {
    i64::from(SITES) / i64::from(of) * i64::from(instance) * OF_SITE + number
}

/// Adds one to a row, and returns the given number of bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Raise(i64, usize);

impl Step for Raise {
    const ID: StepId = 1;
    type Output = String;

    fn route(&self) -> Route {
        Route { table: ROWS, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<String, Abort> {
        let raise = |row: &mut txn::RowMut<'_>| {
            let now = row.int(1) + 1;
            row.set_int(1, now);
        };
        access.update(ROWS, &Key::new().i64(self.0), raise).await?.ok_or(Abort::BadRequest)?;
        Ok("7".repeat(self.1))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct See(i64);

impl Step for See {
    const ID: StepId = 2;
    const EFFECT: Effect = Effect::Reads;
    type Output = i64;

    fn route(&self) -> Route {
        Route { table: ROWS, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<i64, Abort> {
        let read = access.read(ROWS, &Key::new().i64(self.0), |row| row.int(1)).await?;
        read.ok_or(Abort::BadRequest)
    }
}

/// Reads a row; its arguments contain a text.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Hear(i64, String);

impl Step for Hear {
    const ID: StepId = 3;
    const EFFECT: Effect = Effect::Reads;
    type Output = usize;

    fn route(&self) -> Route {
        Route { table: ROWS, key: self.0 as u64 }
    }

    async fn run<A: Access>(&self, access: &mut A) -> Result<usize, Abort> {
        See(self.0).run(access).await?;
        Ok(self.1.len())
    }
}

/// The first of a request's rows determines its home.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    See(i64),
    /// Reads in a phase that is not the last.
    Look(i64, i64),
    /// The same, and ends by the procedure's decision.
    Tell(i64, i64),
    Raise(i64),
    RaiseBoth(i64, i64),
    /// Changes both; the reply has this many bytes.
    Print(i64, i64, usize),
    /// Changes both; the result of the second step has this many bytes, the reply none.
    Fetch(i64, i64, usize),
    /// Sends the text twice to the second row.
    Speak(i64, i64, String),
    /// Changes the second row with its last steps, then the third. The outcome of that ends the
    /// transaction, or is ignored.
    GoOn(i64, i64, i64, Then),
    /// The same after a last step that reads.
    ReadOn(i64, i64, i64, Then),
    /// The same after the last steps elsewhere.
    Return(i64, i64, i64, Then),
    /// A phase of all sites after the last steps.
    Widen(i64, i64),
}

#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum Then {
    End,
    Shrug,
}

impl Then {
    fn make<T>(self, outcome: Result<T, Abort>) -> Result<String, Abort> {
        match (self, outcome) {
            (Then::End, Err(abort)) => Err(abort),
            _ => Ok(String::new()),
        }
    }
}

#[derive(Clone)]
struct Edges;

/// No clients inside the instance.
struct Nothing;

impl Generator for Nothing {
    type Request = Ask;

    fn next(&mut self) -> Ask {
        Ask::See(0)
    }
}

impl Workload for Edges {
    type Request = Ask;
    type Reply = String;
    type Generator = Nothing;
    type Audit = ();

    fn name(&self) -> String {
        "edges".into()
    }

    fn schema(&self) -> Schema {
        Schema { tables: vec![table()] }
    }

    fn sites(&self) -> u32 {
        SITES
    }

    async fn run<T: Transaction>(&self, request: &Ask, txn: &mut T) -> Result<String, Abort> {
        match request {
            Ask::See(row) => txn.last(See(*row)).await.map(|value| value.to_string()),
            Ask::Look(_, row) => txn.all(See(*row)).await.map(|value| value.to_string()),
            Ask::Tell(_, row) => {
                txn.all(See(*row)).await?;
                Err(Abort::User(9))
            }
            Ask::Raise(row) => txn.last(Raise(*row, 0)).await,
            Ask::RaiseBoth(a, b) => txn.last((Raise(*a, 0), Raise(*b, 0))).await.map(|(one, _)| one),
            Ask::Print(a, b, bytes) => {
                txn.last((Raise(*a, 0), Raise(*b, 0))).await?;
                Ok("3".repeat(*bytes))
            }
            Ask::Fetch(a, b, bytes) => {
                txn.last((Raise(*a, 0), Raise(*b, *bytes))).await?;
                Ok(String::new())
            }
            Ask::Speak(a, b, words) => {
                let heard = (Hear(*b, words.clone()), Hear(*b, words.clone()), See(*a));
                txn.last(heard).await.map(|_| String::new())
            }
            Ask::GoOn(_, first, second, then) => {
                txn.last(Raise(*first, 0)).await?;
                then.make(txn.all(Raise(*second, 0)).await)
            }
            Ask::ReadOn(_, first, second, then) => {
                txn.last(See(*first)).await?;
                then.make(txn.last(Raise(*second, 0)).await)
            }
            Ask::Return(_, first, second, then) => {
                txn.last_elsewhere(Raise(*first, 0)).await?;
                then.make(txn.last(Raise(*second, 0)).await)
            }
            Ask::Widen(_, row) => {
                txn.last(Raise(*row, 0)).await?;
                txn.last_elsewhere(Each::<See>([See(*row), See(row + 1)].into_iter().collect())).await?;
                Ok(String::new())
            }
        }
    }

    async fn run_step<A: Access>(
        &self,
        id: StepId,
        args: &[u8],
        access: &mut A,
        out: &mut Vec<u8>,
    ) -> Result<(), Abort> {
        txn::run_one_of!(id, args, access, out; Raise, See, Hear)
    }

    fn routes(&self, request: &Ask, visit: &mut dyn FnMut(Route)) {
        let mut at = |row: &i64| visit(Route { table: ROWS, key: *row as u64 });
        match request {
            Ask::See(a) | Ask::Raise(a) => at(a),
            Ask::Look(a, b)
            | Ask::Tell(a, b)
            | Ask::RaiseBoth(a, b)
            | Ask::Print(a, b, _)
            | Ask::Fetch(a, b, _)
            | Ask::Speak(a, b, _)
            | Ask::Widen(a, b) => [a, b].into_iter().for_each(at),
            Ask::GoOn(a, b, c, _) | Ask::ReadOn(a, b, c, _) | Ask::Return(a, b, c, _) => {
                [a, b, c].into_iter().for_each(at);
            }
        }
    }

    fn kind(&self, _: &Ask) -> &'static str {
        "edge"
    }

    fn generator(&self, _: u64, _: Range<u32>) -> Nothing {
        Nothing
    }

    fn load_parts(&self, _: SiteId) -> u32 {
        1
    }

    async fn load<A: Access>(&self, site: SiteId, _: u32, access: &mut A) -> Result<(), Abort> {
        for id in (0..OF_SITE).map(|number| i64::from(site.0) * OF_SITE + number) {
            let mut buf = RowBuf::new(&table());
            let mut values = buf.start();
            values.set_int(0, id);
            values.set_int(1, 0);
            access.insert(ROWS, &Key::new().i64(id), buf.bytes()).await?;
        }
        Ok(())
    }

    async fn audit<A: Access>(&self, _: Range<u32>, _: &mut A) -> Result<(), Abort> {
        Ok(())
    }

    fn judge(&self, _: Vec<()>, _: Option<u64>) -> Verdict {
        Verdict::default()
    }
}

const DESIGNS: [DesignKind; 7] = [
    DesignKind::Conventional,
    DesignKind::Logical,
    DesignKind::PlpRegular,
    DesignKind::PlpPartition,
    DesignKind::PlpLeaf,
    DesignKind::Serial,
    DesignKind::Occ,
];

fn settings(dir: &Path, design: DesignKind, (id, of): (u16, u16)) -> InstanceConfig {
    let workers = if design == DesignKind::Serial { 1 } else { 2 };
    config(&Edges, dir, design, Durability::Memory, (id, of), workers, Via::Uds)
        .with(|o| o.lock_timeout_ms = 30_000)
}

/// Instances that are all real, and a client.
fn deployment(dir: &TempDir, design: DesignKind, of: u16) -> (Deployment<Edges>, Client<Edges>) {
    deployment_with(of, |id| settings(dir.path(), design, (id, of)))
}

fn deployment_with(of: u16, config: impl Fn(u16) -> InstanceConfig) -> (Deployment<Edges>, Client<Edges>) {
    let deployment = Deployment::start(Edges, (0..of).map(config).collect());
    deployment.load();
    let addresses = deployment.instances.iter().map(|i| i.address().unwrap()).collect();
    let mut client = Client::new(Edges, Placement::even(SITES, of), 7, addresses).unwrap();
    client.patience = PATIENCE;
    (deployment, client)
}

fn value(client: &mut Client<Edges>, row: i64) -> i64 {
    client.submit(&Ask::See(row)).unwrap().parse().unwrap()
}

/// The first of several instances; the test plays the others.
fn alone(config: InstanceConfig, peers: &mut [Peer]) -> (Instance<Edges>, Address) {
    std::fs::create_dir_all(&config.dir).unwrap();
    let workers = config.workers();
    let instance = Instance::start(Edges, config).unwrap();
    let address = instance.address().unwrap();
    instance.load(&|_, _| {}).unwrap();
    let places: Vec<_> = peers.iter().map(Peer::place).collect();
    peers.iter_mut().for_each(|peer| peer.call(&address, workers, 1));
    instance.connect(&places);
    (instance, address)
}

fn peer(dir: &TempDir, id: u16) -> Peer {
    Peer::new(id, Address::Uds(dir.path().join(format!("played{id}.sock"))), Manners::Acknowledges)
}

/// A link with the given caller in its hello.
fn link(address: &Address, from: Caller) -> Link {
    let hello = Hello(wire::Hello { version: wire::VERSION, deployment: 7, from }.encode());
    channel::connect(address, hello, Duration::from_secs(5)).unwrap()
}

fn send(link: &mut Link, frame: &Frame<'_>) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    link.send(&[&bytes]).unwrap();
    link.flush().unwrap();
}

fn submit(link: &mut Link, call: u64, ask: &Ask) {
    send(link, &Frame::Submit { call, request: &postcard::to_stdvec(ask).unwrap() });
}

/// The next answer that has arrived.
fn answer(link: &mut Link) -> Option<(u64, Result<(), Abort>)> {
    link.flush().unwrap();
    let message = link.receive().unwrap()?;
    match Frame::decode(message).unwrap() {
        Frame::Done { call, outcome, .. } => Some((call, outcome)),
        other => panic!("{other:?}"),
    }
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Whether the other end has closed a link.
fn is_closed(link: &mut Link) -> bool {
    loop {
        match link.receive() {
            Ok(Some(_)) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// The outcome of a call that a played peer has made.
fn done(peer: &mut Peer, of: u32) -> Result<Option<Vote>, Abort> {
    peer.next("the results of steps", |_, frame| match frame {
        Frame::StepsDone { call, outcome, .. } if call == of => Some(outcome),
        _ => None,
    })
}

/// A procedure with this bug once wrote rows under `occ` that were neither validated nor locked.
#[test]
fn steps_after_the_last_ones_end_the_transaction_in_every_design() {
    for design in DESIGNS {
        for of in [1, 2] {
            let dir = private_dir();
            let (deployment, mut client) = deployment(&dir, design, of);
            let (near, far) = (row(0, of, 1), row(of - 1, of, 2));
            let mut asked = Vec::new();
            for then in [Then::End, Then::Shrug] {
                for (first, second) in [(near, near + 2), (near, far), (far, near), (far, far + 2)] {
                    asked.push(Ask::GoOn(near, first, second, then));
                    asked.push(Ask::ReadOn(near, first, second, then));
                }
                if of > 1 {
                    asked.push(Ask::Return(near, far, far + 2, then));
                }
            }
            asked.push(Ask::Widen(near, far));
            for ask in &asked {
                let outcome = client.submit(ask);
                let expected = Err(ClientError::Aborted(Abort::AfterLast));
                assert_eq!(outcome, expected, "{design}, {of} instances: {ask:?}");
            }
            // The model of an engine, against which workloads are tested, finds the bugs that it
            // can.
            let mut model = Oracle::new(Edges, of);
            model.load().unwrap();
            for ask in &asked {
                if let Ask::GoOn(.., Then::End) | Ask::ReadOn(.., Then::End) = ask {
                    assert_eq!(model.submit(ask), Err(Abort::AfterLast), "{of} instances: {ask:?}");
                }
            }
            let values = [near, near + 2, far, far + 2].map(|row| value(&mut client, row));
            assert_eq!(values, [0; 4], "{design}, {of} instances");
            let told = deployment.measure().aborted.get("after_last").copied();
            assert_eq!(told, Some(asked.len() as u64), "{design}, {of} instances");
            // Steps that follow at home alone are no bug.
            if of > 1 {
                client.submit(&Ask::Return(near, far, near + 2, Then::End)).unwrap();
                assert_eq!([far, near + 2].map(|row| value(&mut client, row)), [1, 1], "{design}");
            }
            drop(client);
            deployment.stop();
        }
    }
}

/// The same at the participant, if the home does not find its own bug.
#[test]
fn a_prepared_part_takes_no_more_steps_and_waits_for_its_decision() {
    for design in [DesignKind::Conventional, DesignKind::Logical, DesignKind::Occ] {
        let dir = private_dir();
        let mut peers = [peer(&dir, 1)];
        let (instance, _) = alone(settings(dir.path(), design, (0, 2)), &mut peers);
        let home = &mut peers[0];
        let gtid = home.gtid(1, 1, 0);
        let (raise, more) = (steps(&Raise(1, 0)), steps(&Raise(2, 0)));
        let piggyback = Piggyback::Prepare(LockPoint::Ahead);
        home.send(On::Ours(0), &Frame::Steps { call: 1, gtid, piggyback, steps: raise.bytes() });
        assert_eq!(done(home, 1), Ok(Some(Vote::Yes)), "{design}");
        home.send(
            On::Ours(0),
            &Frame::Steps { call: 2, gtid, piggyback: Piggyback::More, steps: more.bytes() },
        );
        assert_eq!(done(home, 2), Err(Abort::AfterLast), "{design}");
        home.send(On::Ours(0), &Frame::Steps { call: 3, gtid, piggyback: Piggyback::Check, steps: &[] });
        assert_eq!(done(home, 3), Err(Abort::Conflict), "{design}");
        home.send(On::Ours(0), &Frame::TwoPhase(Message::Decide { gtid, decision: Decision::Commit }));
        home.next("an acknowledgement", |_, frame| {
            (frame == Frame::TwoPhase(Message::Ack { gtid })).then_some(())
        });
        for (call, row, expected) in [(4, 1, 1), (5, 2, 0)] {
            let gtid = home.gtid(1, u64::from(call), 0);
            let piggyback = Piggyback::Prepare(LockPoint::Reached);
            home.send(On::Ours(0), &Frame::Steps { call, gtid, piggyback, steps: steps(&See(row)).bytes() });
            let found = home.next("a row", |_, frame| match frame {
                Frame::StepsDone { call: of, outcome: Ok(_), outputs, .. } if of == call => {
                    let (_, bytes) = wire::BatchReader::new(outputs).next().unwrap();
                    Some(postcard::from_bytes::<i64>(bytes).unwrap())
                }
                _ => None,
            });
            assert_eq!(found, expected, "{design}: row {row}");
        }
        instance.stop().unwrap();
    }
}

#[test]
fn a_message_that_its_sender_may_not_send_ends_the_link_and_does_nothing() {
    let dir = private_dir();
    let mut peers = [peer(&dir, 1), peer(&dir, 2)];
    let (instance, address) = alone(settings(dir.path(), DesignKind::Conventional, (0, 3)), &mut peers);
    let [home, _] = &mut peers;
    let gtid = home.gtid(1, 1, 0);
    let raise = steps(&Raise(1, 0));
    let piggyback = Piggyback::Prepare(LockPoint::Ahead);
    home.send(On::Ours(0), &Frame::Steps { call: 1, gtid, piggyback, steps: raise.bytes() });
    assert_eq!(done(home, 1), Ok(Some(Vote::Yes)));

    let ours = Gtid { home: InstanceId(0), life: instance.recovery().life, number: 1 << 10 };
    let more = Frame::Steps { call: 2, gtid, piggyback: Piggyback::More, steps: raise.bytes() };
    let results = Frame::StepsDone { call: 0, gtid: ours, outcome: Ok(None), outputs: &[] };
    let decision = Frame::TwoPhase(Message::Decide { gtid, decision: Decision::Abort });
    let vote = Frame::TwoPhase(Message::Vote { gtid: ours, vote: Vote::No });
    let stranger = Caller::Instance(InstanceId(2), WorkerId(0), 1);
    let offences = [
        (Caller::Client, &more),
        (Caller::Client, &results),
        (Caller::Client, &decision),
        (Caller::Client, &vote),
        (stranger, &more),
        (stranger, &results),
        (stranger, &decision),
    ];
    for (from, offence) in offences {
        let mut link = link(&address, from);
        send(&mut link, offence);
        wait_for("the link stays open", || is_closed(&mut link).then_some(()));
    }
    for id in [0, 3, 99] {
        let mut link = link(&address, Caller::Instance(InstanceId(id), WorkerId(0), 1));
        wait_for("a stranger is let in", || is_closed(&mut link).then_some(()));
    }
    let home = &mut peers[0];
    home.send(On::Ours(0), &Frame::TwoPhase(Message::Decide { gtid, decision: Decision::Commit }));
    home.next("an acknowledgement", |_, frame| {
        (frame == Frame::TwoPhase(Message::Ack { gtid })).then_some(())
    });
    let mut client = link(&address, Caller::Client);
    submit(&mut client, 1, &Ask::See(1));
    assert_eq!(wait_for("no answer", || answer(&mut client)), (1, Ok(())));
    instance.stop().unwrap();
}

/// A little more than the longest message.
const TOO_LONG: usize = channel::MOST_MESSAGE_BYTES + 1;

#[test]
fn what_is_longer_than_a_message_ends_the_transaction_before_it_commits() {
    for design in [DesignKind::Conventional, DesignKind::Serial, DesignKind::Occ] {
        let dir = private_dir();
        let (deployment, mut client) = deployment(&dir, design, 2);
        let (near, far) = (row(0, 2, 1), row(1, 2, 1));
        let words = "5".repeat(channel::MOST_MESSAGE_BYTES / 2 + 1);
        let asked = [
            Ask::Print(near, far, TOO_LONG),
            Ask::Print(near, near + 1, TOO_LONG),
            Ask::Fetch(near, far, TOO_LONG),
            Ask::Fetch(far, near, TOO_LONG),
            Ask::Speak(near, far, words),
        ];
        for ask in &asked {
            let outcome = client.submit(ask).map(drop);
            let what = format!("{ask:?}").chars().take(80).collect::<String>();
            assert_eq!(outcome, Err(ClientError::Aborted(Abort::TooLong)), "{design}: {what}");
        }
        let request = Ask::Speak(near, near, "5".repeat(TOO_LONG));
        assert_eq!(client.submit(&request).map(drop), Err(ClientError::Aborted(Abort::TooLong)), "{design}");
        let values = [near, near + 1, far].map(|row| value(&mut client, row));
        assert_eq!(values, [0; 3], "{design}");
        let aborted = deployment.measure().aborted;
        assert_eq!(aborted.get("too_long").copied(), Some(asked.len() as u64), "{design}: {aborted:?}");
        // Within one instance only the reply is a message.
        client.submit(&Ask::Fetch(near, near + 1, TOO_LONG)).unwrap();
        let long = channel::MOST_MESSAGE_BYTES - 1000;
        assert_eq!(client.submit(&Ask::Print(near, far, long)).unwrap().len(), long, "{design}");
        client.submit(&Ask::Fetch(near, far, long)).unwrap();
        deployment.stop();
    }
}

/// More replies than a link holds for its peer. Replies that found no room were once lost.
#[test]
fn replies_wait_for_a_client_that_does_not_read() {
    const REPLIES: u64 = 20;
    let dir = private_dir();
    let (deployment, _) = deployment(&dir, DesignKind::Conventional, 1);
    let address = deployment.instances[0].address().unwrap();
    let mut link = link(&address, Caller::Client);
    for call in 0..REPLIES {
        submit(&mut link, call, &Ask::Print(1, 2, channel::MOST_HELD_BYTES / 10));
    }
    let mut committed = 0;
    wait_for("the requests do not run", || {
        link.flush().unwrap();
        committed += deployment.measure().committed_total();
        (committed == REPLIES).then_some(())
    });
    let mut answers: Vec<u64> = (0..REPLIES)
        .map(|_| wait_for("an answer has vanished", || answer(&mut link)))
        .map(|(call, outcome)| outcome.map(|()| call).unwrap())
        .collect();
    answers.sort_unstable();
    assert!(answers.iter().copied().eq(0..REPLIES), "{answers:?}");
    deployment.stop();
}

/// Requests that wait for a lock. A request that was not taken stays at its client, and a worker
/// that holds a client back serves others.
#[test]
fn a_worker_takes_no_more_requests_than_it_may_and_forgets_none() {
    const ALL: u64 = 100_000;
    const MOST: usize = 64;
    for (design, via) in [
        (DesignKind::Conventional, Via::Uds),
        (DesignKind::Serial, Via::Shm),
        (DesignKind::Conventional, Via::Tcp),
    ] {
        let dir = private_dir();
        let mut peers = [peer(&dir, 1)];
        let config = config(&Edges, dir.path(), design, Durability::Memory, (0, 2), 1, via).with(|o| {
            o.most_requests = MOST;
            (o.lock_timeout_ms, o.distributed_timeout_ms) = (600_000, Some(600_000));
        });
        let (instance, address) = alone(config, &mut peers);
        let home = &mut peers[0];
        let gtid = home.gtid(1, 1, 0);
        let raise = steps(&Raise(1, 0));
        home.send(
            On::Ours(0),
            &Frame::Steps { call: 1, gtid, piggyback: Piggyback::More, steps: raise.bytes() },
        );
        assert_eq!(done(home, 1), Ok(None));
        // Each waits for the row that the transaction above has written.
        let request = postcard::to_stdvec(&Ask::Speak(1, 1, "9".repeat(150))).unwrap();
        let mut link = link(&address, Caller::Client);
        let (mut frame, mut bytes) = (Vec::new(), 0);
        for call in 0..ALL {
            Frame::Submit { call, request: &request }.encode(&mut frame);
            bytes += frame.len();
            link.send(&[&frame]).unwrap();
        }
        // At least a thousand turns of the worker's loop.
        for call in 2..1_000 {
            link.flush().unwrap();
            let gtid = home.gtid(1, u64::from(call), 0);
            let piggyback = Piggyback::Prepare(LockPoint::Reached);
            home.send(On::Ours(0), &Frame::Steps { call, gtid, piggyback, steps: steps(&See(2)).bytes() });
            assert_eq!(done(home, call), Ok(Some(Vote::ReadOnly)), "{via:?}");
        }
        // The channels keep some: a ring, or the buffers of sockets.
        let taken = bytes.saturating_sub(link.held());
        assert!(taken < 6 << 20, "{via:?}: {taken} of {bytes} bytes were taken");
        let decision = Message::Decide { gtid, decision: Decision::Abort };
        home.send(On::Ours(0), &Frame::TwoPhase(decision));
        let mut answered = vec![false; ALL as usize];
        for _ in 0..ALL {
            let (call, outcome) = wait_for("a request is forgotten", || answer(&mut link));
            outcome.unwrap();
            assert!(!std::mem::replace(&mut answered[call as usize], true), "{via:?}: answered twice");
        }
        instance.stop().unwrap();
    }
}

/// Each holds its clients back while its transactions need the other.
#[test]
fn two_instances_that_are_both_full_serve_each_other() {
    const EACH: u64 = 1_000;
    let dir = private_dir();
    for design in [DesignKind::Conventional, DesignKind::Serial, DesignKind::Occ] {
        let (deployment, mut client) = deployment_with(2, |id| {
            let config = settings(dir.path(), design, (id, 2));
            let config = config.with(|o| (o.most_requests, o.lock_timeout_ms) = (4, 200));
            InstanceConfig { dir: dir.path().join(format!("{design}{id}")), ..config }
        });
        let mut links: Vec<Link> = deployment
            .instances
            .iter()
            .map(|instance| link(&instance.address().unwrap(), Caller::Client))
            .collect();
        for call in 0..EACH {
            for (id, link) in links.iter_mut().enumerate() {
                let rows = [id as u16, 1 - id as u16].map(|id| row(id, 2, call as i64 % OF_SITE));
                submit(link, call, &Ask::RaiseBoth(rows[0], rows[1]));
            }
        }
        let mut committed = 0;
        for call in 0..2 * EACH {
            let (_, outcome) = wait_for("an answer is missing", || links.iter_mut().find_map(answer));
            match outcome {
                Ok(()) => committed += 1,
                Err(abort) => assert!(abort.is_transient(), "{design}, answer {call}: {abort:?}"),
            }
        }
        let rows = (0..OF_SITE).flat_map(|number| [0, 1].map(|id| row(id, 2, number)));
        let sum: i64 = rows.map(|row| value(&mut client, row)).sum();
        assert!(committed > 0 && sum == 2 * committed, "{design}: {committed} committed, rows have {sum}");
        drop(client);
        deployment.stop();
    }
}

/// A peer that answers late, and one that never answers.
#[test]
fn a_transaction_over_instances_is_given_up_when_its_own_time_is_over() {
    for design in [DesignKind::Conventional, DesignKind::Occ] {
        for (timeout, answers) in [(Some(100), false), (None, true)] {
            let dir = private_dir();
            let mut peers = [peer(&dir, 1)];
            let config = settings(dir.path(), design, (0, 2));
            let config = config.with(|o| o.distributed_timeout_ms = timeout);
            let (instance, address) = alone(config, &mut peers);
            let mut client = link(&address, Caller::Client);
            submit(&mut client, 1, &Ask::RaiseBoth(row(0, 2, 1), row(1, 2, 1)));
            let (on, call, gtid) = peers[0].next("no steps", |on, frame| match frame {
                Frame::Steps { call, gtid, .. } => Some((on, call, gtid)),
                _ => None,
            });
            if answers {
                // Longer than a transaction's time-out would be if it did not follow the lock
                // time-out, which is 30 s here.
                std::thread::sleep(Duration::from_millis(2_500));
                assert_eq!(answer(&mut client), None, "{design}");
                let mut outputs = wire::Batch::default();
                let body = outputs.open(Raise::ID);
                outputs.buffer().extend(postcard::to_stdvec(&String::new()).unwrap());
                outputs.close(body);
                let outcome = Ok(Some(Vote::Yes));
                peers[0].send(on, &Frame::StepsDone { call, gtid, outcome, outputs: outputs.bytes() });
            }
            let expected = if answers { Ok(()) } else { Err(Abort::Participant) };
            assert_eq!(wait_for("no answer", || answer(&mut client)), (1, expected), "{design}");
            if answers {
                peers[0].send(on, &Frame::TwoPhase(Message::Ack { gtid }));
            }
            instance.stop().unwrap();
        }
    }
}

/// Rows read elsewhere in a phase that was not the last may depend on a commit that is not yet
/// durable there. An answer that reveals them waits until the other instance confirms that they are
/// durable. Such an answer is an abort by the procedure's decision, or a commit that wrote nothing.
#[test]
fn an_answer_about_what_was_read_elsewhere_waits_for_the_word_of_the_other_side() {
    for design in [DesignKind::Conventional, DesignKind::Logical, DesignKind::Serial, DesignKind::Occ] {
        let dir = private_dir();
        let mut peers = [peer(&dir, 1)];
        let (instance, address) = alone(settings(dir.path(), design, (0, 2)), &mut peers);
        let mut client = link(&address, Caller::Client);
        let (near, far) = (row(0, 2, 1), row(1, 2, 1));
        let asked = [
            (Ask::Tell(near, far), Ok(()), Err(Abort::User(9))),
            (Ask::Tell(near, far), Err(Abort::Conflict), Err(Abort::Conflict)),
            (Ask::Look(near, far), Ok(()), Ok(())),
        ];
        for (number, (ask, word, expected)) in (1..).zip(asked) {
            submit(&mut client, number, &ask);
            let (on, call, gtid) = peers[0].next("no steps", |on, frame| match frame {
                Frame::Steps { call, gtid, piggyback, .. } => {
                    assert_eq!(piggyback, Piggyback::More);
                    Some((on, call, gtid))
                }
                _ => None,
            });
            let mut outputs = wire::Batch::default();
            let body = outputs.open(See::ID);
            outputs.buffer().extend(postcard::to_stdvec(&4i64).unwrap());
            outputs.close(body);
            let outcome = Ok(None);
            peers[0].send(on, &Frame::StepsDone { call, gtid, outcome, outputs: outputs.bytes() });
            // The question comes with an abort as an empty list of steps, with a commit as a
            // prepare request to a reader.
            let question = peers[0].next("no question", |_, frame| match frame {
                Frame::Steps { call, gtid: of, piggyback: Piggyback::Check, .. } if of == gtid => {
                    Some(Some(call))
                }
                Frame::TwoPhase(Message::Prepare { gtid: of, .. }) if of == gtid => Some(None),
                Frame::TwoPhase(Message::Decide { gtid: of, .. }) if of == gtid => {
                    panic!("{design}: {ask:?} is ended without a word of the other side")
                }
                _ => None,
            });
            assert_eq!(answer(&mut client), None, "{design}: {ask:?}");
            match question {
                Some(call) => {
                    let outcome = word.map(|()| None);
                    peers[0].send(on, &Frame::StepsDone { call, gtid, outcome, outputs: &[] });
                }
                None => {
                    let message = Message::Vote { gtid, vote: Vote::ReadOnly };
                    peers[0].send(on, &Frame::TwoPhase(message));
                }
            }
            assert_eq!(
                wait_for("no answer", || answer(&mut client)),
                (number, expected),
                "{design}: {ask:?}"
            );
        }
        instance.stop().unwrap();
    }
}
