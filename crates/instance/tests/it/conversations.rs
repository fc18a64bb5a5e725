//! Conversations over whole deployments: clients that decide step by step, leave, or meet an
//! instance that stops.

use crate::support::{Deployment, Via, config, private_dir};
use channel::lodging::{self, House, Place, Resident, Round};
use client::{Client, ClientError, Turn};
use exec::DesignKind;
use instance::InstanceConfig;
use sql::catalog::{Slots, Store};
use sql::database::{Answer, Call, Command, Request};
use sql::program::*;
use sql::{Database, Datum, Expr, SqlState, SqlType};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use txn::{Abort, Placement, Workload};
use wal::Durability;
use workload::{AnyReply, AnyRequest, AnyWorkload};

const SITES: u32 = 4;

fn any() -> AnyWorkload {
    Database { sites: SITES, stores: 3 }.into()
}

/// `t (id int primary key, n int)`: successive ids lie at different slots.
fn table() -> Arc<Stored> {
    let column = |name: &str| StoredColumn {
        name: name.into(),
        ty: SqlType::Int8,
        nullable: false,
        missing: Datum::Null,
        dropped: false,
    };
    Arc::new(Stored {
        name: "t".into(),
        store: Store(1),
        columns: ["id", "n"].map(column).into(),
        key: vec![0],
        key_name: "t_pkey".into(),
        slots: Slots::Runs { position: 0, run: 1 },
        indexes: Vec::new(),
        layout: OnceLock::new(),
    })
}

fn int(value: i64) -> Expr {
    Expr::Const(Datum::Int(value))
}

fn call(statement: Statement) -> Call {
    let only_reads = matches!(statement, Statement::Select(_));
    let program =
        Arc::new(Program { statements: vec![statement], params: Vec::new(), flow: None, only_reads });
    Call { program, bound: Arc::default(), statement: 1 }
}

fn insert(ids: &[i64]) -> Call {
    call(Statement::Insert(Insert {
        table: table(),
        rows: InsertRows::Values(ids.iter().map(|&id| vec![int(id), int(0)]).collect()),
        checks: Vec::new(),
        references: Vec::new(),
        conflict: None,
        returning: Vec::new(),
    }))
}

fn source(id: i64, lock: RowLock) -> Source {
    Source { table: table(), path: Path::Keys(vec![vec![int(id)]]), filter: None, lock }
}

fn set(id: i64, n: i64) -> Call {
    call(Statement::Update(Update {
        source: source(id, RowLock::Update),
        from: Vec::new(),
        set: vec![Assignment { column: 1, value: int(n) }].into(),
        checks: Vec::new().into(),
        references: Vec::new(),
        returning: Vec::new(),
    }))
}

fn read(id: i64) -> Call {
    call(Statement::Select(Select {
        sources: vec![Joined { source: source(id, RowLock::None), is_outer: false }],
        grouping: None,
        having: None,
        output: vec![Output { name: "n".into(), expr: Expr::Column(1), ty: SqlType::Int8 }],
        distinct: false,
        order: Vec::new(),
        is_ordered: true,
        limit: None,
        offset: None,
        hidden: 0,
    }))
}

/// The ids of rows, which it locks.
fn take(path: Path, lock: RowLock, limit: Option<i64>) -> Call {
    let source = Source { table: table(), path, filter: None, lock };
    let select = Select {
        sources: vec![Joined { source, is_outer: false }],
        grouping: None,
        having: None,
        output: vec![Output { name: "id".into(), expr: Expr::Column(0), ty: SqlType::Int8 }],
        distinct: false,
        order: vec![SortKey { column: 0, descending: false, nulls_first: false }],
        is_ordered: false,
        limit: limit.map(int),
        offset: None,
        hidden: 0,
    };
    let statements = vec![Statement::Select(select)];
    let program = Arc::new(Program { statements, params: Vec::new(), flow: None, only_reads: false });
    Call { program, bound: Arc::default(), statement: 1 }
}

fn ids(answer: &Answer) -> Vec<Datum> {
    let Answer::Outcomes(outcomes) = answer else { panic!("{answer:?}") };
    outcomes.iter().flat_map(|outcome| &outcome.rows).map(|row| row[0].clone()).collect()
}

/// A client of SQL requests.
struct Sql(Client<AnyWorkload>);

impl Sql {
    fn new(deployment: &Deployment<AnyWorkload>) -> Sql {
        let addresses: Vec<_> = deployment.instances.iter().map(|i| i.address().unwrap()).collect();
        let placement = Placement::even(SITES, deployment.instances.len() as u16);
        Sql(Client::new(any(), placement, 7, addresses).unwrap())
    }

    fn once(&mut self, call: Call) -> Result<Answer, ClientError> {
        let mut tries = 0;
        loop {
            match self.0.submit(&AnyRequest::Sql(Request::Once(call.clone()))) {
                Ok(AnyReply::Sql(answer)) => return Ok(answer),
                Ok(other) => panic!("{other:?}"),
                // The locks of a client that left are released a little later.
                Err(ClientError::Aborted(abort)) if abort.is_transient() && tries < 50 => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    fn n(&mut self, id: i64) -> Option<i64> {
        match self.once(read(id)).unwrap() {
            Answer::Outcomes(outcomes) => match outcomes[0].rows.first().map(|row| row[0].clone()) {
                None => None,
                Some(Datum::Int(n)) => Some(n),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn begin(&mut self, first: Command) -> Talk<'_> {
        let request = AnyRequest::Sql(Request::Converse(first));
        let (conversation, turn) = self.0.converse(&request).unwrap();
        Talk { client: &mut self.0, conversation, answer: said(turn) }
    }
}

struct Talk<'c> {
    client: &'c mut Client<AnyWorkload>,
    conversation: client::Conversation,
    /// To the last command.
    answer: Answer,
}

impl Talk<'_> {
    fn say(&mut self, command: &Command) -> &Answer {
        self.answer = self.try_say(command).unwrap();
        &self.answer
    }

    fn try_say(&mut self, command: &Command) -> Result<Answer, ClientError> {
        self.client.say(self.conversation, &postcard::to_stdvec(command).unwrap()).map(said)
    }
}

fn said(turn: Turn<AnyReply>) -> Answer {
    match turn {
        Turn::Said(bytes) => postcard::from_bytes(&bytes).unwrap(),
        Turn::Ended(AnyReply::Sql(answer)) => answer,
        Turn::Ended(other) => panic!("{other:?}"),
    }
}

/// Every design, alone and with three instances.
fn each_deployment(test: impl Fn(Deployment<AnyWorkload>, &str)) {
    let all = DesignKind::ALL.into_iter().flat_map(|design| [(design, 1), (design, 3)]);
    for (design, instances) in all {
        let dir = private_dir();
        let workers = if design == DesignKind::Serial { 1 } else { 2 };
        let of =
            |id| config(&any(), dir.path(), design, Durability::Async, (id, instances), workers, Via::Uds);
        let deployment = Deployment::start(any(), (0..instances).map(of).collect());
        deployment.load();
        test(deployment, &format!("{design:?} over {instances}"));
    }
}

#[test]
fn a_conversation_commits_all_or_nothing() {
    each_deployment(|deployment, which| {
        let (mut one, mut other) = (Sql::new(&deployment), Sql::new(&deployment));
        assert!(matches!(one.once(insert(&[0, 1, 2, 3, 4, 5])).unwrap(), Answer::Outcomes(_)), "{which}");
        let mut talk = one.begin(Command::Run(set(1, 10)));
        assert!(matches!(talk.answer, Answer::Outcomes(_)), "{which}: {:?}", talk.answer);
        talk.say(&Command::Run(set(2, 20)));
        assert_eq!(talk.say(&Command::Savepoint), &Answer::Point(0));
        talk.say(&Command::Run(insert(&[6, 7])));
        talk.say(&Command::Run(set(3, 30)));
        let failed = talk.say(&Command::Run(insert(&[8, 0])));
        assert!(matches!(failed, Answer::Failed(e) if e.state == SqlState::UNIQUE_VIOLATION), "{which}");
        assert_eq!(talk.say(&Command::UndoTo(0)), &Answer::Done, "{which}");
        talk.say(&Command::Run(set(4, 40)));
        assert_eq!(talk.say(&Command::Commit), &Answer::Done, "{which}");
        let all: Vec<_> = (0..9).map(|id| other.n(id)).collect();
        let expected = [Some(0), Some(10), Some(20), Some(0), Some(40), Some(0), None, None, None];
        assert_eq!(all, expected, "{which}");
        let mut talk = one.begin(Command::Run(set(1, 99)));
        talk.say(&Command::Run(insert(&[9])));
        assert_eq!(talk.say(&Command::Rollback), &Answer::Done, "{which}");
        assert_eq!((other.n(1), other.n(9)), (Some(10), None), "{which}");
        deployment.stop();
    });
}

#[test]
fn locked_rows_are_told_or_left_out() {
    each_deployment(|deployment, which| {
        let (mut one, mut other) = (Sql::new(&deployment), Sql::new(&deployment));
        other.once(insert(&[0, 1, 2, 3])).unwrap();
        let mut talk = one.begin(Command::Run(set(1, 10)));
        assert!(matches!(talk.answer, Answer::Outcomes(_)), "{which}: {:?}", talk.answer);
        let key = |id| Path::Keys(vec![vec![int(id)]]);
        let numbers = |ids: &[i64]| ids.iter().copied().map(Datum::Int).collect::<Vec<_>>();
        let told = other.once(take(key(1), RowLock::NoWait, None)).unwrap();
        let (all, two) = (take(Path::All, RowLock::Skip, None), take(Path::All, RowLock::Skip, Some(2)));
        if which.starts_with("Occ") {
            // It has no locks that others could see.
            assert_eq!(ids(&told), numbers(&[1]), "{which}");
            assert_eq!(ids(&other.once(two).unwrap()), numbers(&[0, 1]), "{which}");
            // The other one has taken the row and committed first.
            let late = talk.try_say(&Command::Commit);
            assert!(matches!(late, Err(ClientError::Aborted(Abort::Conflict))), "{which}: {late:?}");
            assert_eq!(other.n(1), Some(0), "{which}");
        } else {
            let is_told = matches!(&told, Answer::Failed(error) if error.state == SqlState(*b"55P03"));
            assert!(is_told, "{which}: {told:?}");
            assert_eq!(ids(&other.once(all).unwrap()), numbers(&[0, 2, 3]), "{which}");
            assert_eq!(ids(&other.once(take(key(1), RowLock::Skip, None)).unwrap()), [], "{which}");
            // Those that one has taken are left out by the other; after the error it goes on.
            let mut takes = other.begin(Command::Run(two.clone()));
            assert_eq!(ids(&takes.answer), numbers(&[0, 2]), "{which}");
            assert_eq!(ids(talk.say(&Command::Run(two))), numbers(&[1, 3]), "{which}");
            talk.say(&Command::Savepoint);
            let refused = talk.say(&Command::Run(take(key(0), RowLock::NoWait, None)));
            assert!(matches!(refused, Answer::Failed(_)), "{which}: {refused:?}");
            assert_eq!(talk.say(&Command::UndoTo(0)), &Answer::Done, "{which}");
            assert_eq!(takes.say(&Command::Commit), &Answer::Done, "{which}");
            assert_eq!(talk.say(&Command::Commit), &Answer::Done, "{which}");
            assert_eq!(other.n(1), Some(10), "{which}");
        }
        deployment.stop();
    });
}

#[test]
fn a_client_that_leaves_leaves_nothing() {
    each_deployment(|deployment, which| {
        let mut other = Sql::new(&deployment);
        other.once(insert(&[0, 1, 2, 3])).unwrap();
        let mut one = Sql::new(&deployment);
        let mut talk = one.begin(Command::Run(set(0, 1)));
        talk.say(&Command::Run(set(1, 1)));
        talk.say(&Command::Run(set(2, 1)));
        drop(one);
        // Its locks are free again, and its changes are undone.
        for id in 0..3 {
            assert!(matches!(other.once(set(id, 5)).unwrap(), Answer::Outcomes(_)), "{which}");
            assert_eq!(other.n(id), Some(5), "{which}");
        }
        deployment.stop();
    });
}

#[test]
fn a_conversation_outlives_the_time_in_which_others_are_given_up() {
    let dir = private_dir();
    let of = |id| {
        config(&any(), dir.path(), DesignKind::Conventional, Durability::Async, (id, 2), 1, Via::Uds)
            .with(|o| o.distributed_timeout_ms = Some(300))
    };
    let deployment = Deployment::start(any(), (0..2).map(of).collect());
    deployment.load();
    let mut one = Sql::new(&deployment);
    one.once(insert(&[0, 1, 2, 3])).unwrap();
    let mut talk = one.begin(Command::Run(set(0, 1)));
    talk.say(&Command::Run(set(3, 1)));
    std::thread::sleep(Duration::from_millis(900));
    talk.say(&Command::Run(set(1, 1)));
    assert_eq!(talk.say(&Command::Commit), &Answer::Done);
    assert_eq!([0, 1, 2, 3].map(|id| one.n(id)), [Some(1), Some(1), Some(0), Some(1)]);
    deployment.stop();
}

#[test]
fn a_conversation_ends_when_a_participant_is_lost() {
    let dir = private_dir();
    let of =
        |id| config(&any(), dir.path(), DesignKind::Conventional, Durability::Async, (id, 2), 1, Via::Uds);
    let mut deployment = Deployment::start(any(), (0..2).map(of).collect());
    deployment.load();
    let mut one = Sql::new(&deployment);
    one.once(insert(&[0, 1, 2, 3])).unwrap();
    let mut talk = one.begin(Command::Run(set(0, 1)));
    talk.say(&Command::Run(set(3, 1)));
    deployment.instances.pop().unwrap().stop().unwrap();
    // The changes of the lost instance are gone, so a commit must fail.
    let outcome = talk.try_say(&Command::Commit);
    assert!(matches!(outcome, Err(ClientError::Aborted(abort)) if abort != Abort::Abandoned), "{outcome:?}");
    assert_eq!(one.n(0), Some(0));
    deployment.stop();
}

#[test]
fn a_request_that_is_no_conversation_hears_nothing() {
    let dir = private_dir();
    let config = config(&any(), dir.path(), DesignKind::Occ, Durability::Memory, (0, 1), 1, Via::Uds);
    let deployment = Deployment::start(any(), vec![config]);
    deployment.load();
    let mut one = Sql::new(&deployment);
    // `submit` gives up a procedure that waits for messages; the transaction ends without effect.
    let talk = AnyRequest::Sql(Request::Converse(Command::Run(insert(&[1]))));
    assert!(matches!(one.0.submit(&talk), Err(ClientError::Aborted(Abort::Abandoned))));
    assert_eq!(one.n(1), None);
    assert_eq!(any().sites(), SITES);
    deployment.stop();
}

/// A house with one inhabitant. Its thread sleeps for at most a millisecond, as one with sockets
/// would sleep until they have something.
#[derive(Default)]
struct Alone {
    rounds: AtomicU64,
    sleeps: AtomicU64,
    ended: AtomicU64,
}

impl House for Alone {
    fn lodge(&self, _: Place, mut resident: Box<dyn Resident>) {
        loop {
            self.rounds.fetch_add(1, Ordering::Relaxed);
            match resident.round() {
                Round::Ended => break,
                Round::Worked => continue,
                Round::Idle => {}
            }
            let left = resident.time_left();
            assert!(left < Duration::from_millis(100), "a worker has a tick: {left:?}");
            if resident.may_sleep() {
                self.sleeps.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(left.min(Duration::from_millis(1)));
                resident.awake();
            }
            resident.take_events();
        }
        resident.end();
        self.ended.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn workers_on_threads_that_they_share_do_all_that_others_do() {
    const NUMBER: u64 = 4_711;
    let house = Arc::new(Alone::default());
    lodging::open(NUMBER, Arc::clone(&house) as Arc<dyn House>);
    for design in DesignKind::ALL {
        let dir = private_dir();
        let of = |id| InstanceConfig {
            deployment: NUMBER,
            ..config(&any(), dir.path(), design, Durability::Sync, (id, 2), 1, Via::Ring)
        };
        let deployment = Deployment::start(any(), (0..2).map(of).collect());
        deployment.load();
        let addresses = deployment.instances.iter().map(|i| i.address().unwrap()).collect();
        let mut one = Sql(Client::new(any(), Placement::even(SITES, 2), NUMBER, addresses).unwrap());
        one.once(insert(&[0, 1, 2, 3])).unwrap();
        let mut talk = one.begin(Command::Run(set(0, 1)));
        talk.say(&Command::Run(set(3, 1)));
        assert_eq!(talk.say(&Command::Commit), &Answer::Done, "{design:?}");
        assert_eq!([0, 1, 2, 3].map(|id| one.n(id)), [Some(1), Some(0), Some(0), Some(1)], "{design:?}");
        deployment.stop();
    }
    lodging::close(NUMBER);
    let [rounds, sleeps, ended] =
        [&house.rounds, &house.sleeps, &house.ended].map(|n| n.load(Ordering::Relaxed));
    assert_eq!(ended, 2 * DesignKind::ALL.len() as u64);
    assert!(sleeps > 0 && sleeps < rounds, "{sleeps} of {rounds}");
}

/// A message for a conversation that is over, or that an earlier life of the instance had, is
/// answered: otherwise its client would wait for ever.
#[test]
fn a_message_after_the_end_is_answered() {
    each_deployment(|deployment, at| {
        let mut client = Sql::new(&deployment);
        let mut talk = client.begin(Command::Run(insert(&[1])));
        talk.say(&Command::Commit);
        let late = talk.try_say(&Command::Run(read(1)));
        assert!(matches!(late, Err(ClientError::Aborted(Abort::InstanceDown))), "{at}: {late:?}");
        assert_eq!(client.n(1), Some(0), "{at}");
    });
}
