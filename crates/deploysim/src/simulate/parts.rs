//! The things that a simulation moves: workers, messages, transactions, sessions.

use super::locks::LockId;
use super::stations::{Line, Log, Writers};
use crate::case::{Service, Shape};
use crate::transaction::{Request, Requests};
use smallvec::SmallVec;
use std::collections::VecDeque;
use twophase::{Coordinator, Decision, LockPoint, Participant, Vote};

/// A task of a worker's executor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Task {
    /// A client draws its next request, due since then.
    Next(f64),
    /// A transaction goes on at its home.
    Run(u32),
    /// A session's steps run.
    Steps(u32),
    /// A record is durable.
    Durable(Record),
    /// A transaction that another owner of the instance has run is answered.
    Answered(u32),
}

/// A record in the log, by its waiter.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Record {
    /// The commit of a local transaction.
    Local(u32),
    /// The commit of a distributed one, at its home.
    Home(u32),
    /// The prepare of a session.
    Prepare(u32),
    /// The commit of a session.
    Commit(u32),
}

/// A message's content. `txn` and `session` are numbers of the simulation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Message {
    Steps { session: u32 },
    Reply { txn: u32, attempt: u32, from: u16, vote: Option<Vote> },
    Prepare { session: u32, serial: u32, lock_point: LockPoint },
    Vote { txn: u32, attempt: u32, from: u16, vote: Vote },
    Release { session: u32, serial: u32 },
    Decide { session: u32, serial: u32, decision: Decision },
    Ack { txn: u32, from: u16 },
    Submit { txn: u32 },
    Done { txn: u32 },
}

/// A message under way on a link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Post {
    /// When the receiver can see it.
    pub at: f64,
    pub from: u32,
    pub message: Message,
}

/// A message that waits for the end of the loop.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Outgoing {
    pub to: u32,
    pub link: u32,
    pub message: Message,
}

/// The place in the worker's loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Begin,
    /// Between two turns over the ready tasks.
    Turn,
    /// In a turn, with some tasks left.
    Task,
    Look,
    /// Nothing to do since `idle_since`; parked once the spin time is over.
    Idle,
}

pub(super) struct Worker {
    pub core: usize,
    pub instance: usize,
    /// Its number within the instance.
    pub index: usize,
    pub clock: f64,
    pub state: State,
    /// The task that goes on in the next step.
    pub current: Option<Task>,
    /// A task that gave way to messages: it goes on after the tasks that they bring.
    pub preempted: Option<Task>,
    pub ready: VecDeque<Task>,
    /// Tasks left in this turn.
    pub left: usize,
    pub turn: usize,
    pub worked: bool,
    pub loop_start: f64,
    pub next_ask: f64,
    pub idle_since: f64,
    pub wake_at: f64,
    /// Messages by link: to instance 0, 1, ..., then from each worker that has a link to this one.
    pub links: Vec<VecDeque<Post>>,
    /// Links with a message on them.
    pub active: Vec<u32>,
    /// The number of links of this worker.
    pub peers: usize,
    pub out: Vec<Outgoing>,
    /// Requests and answers for other workers of the instance, not yet published.
    pub staged: Vec<(usize, Task)>,
    pub requests: Requests,
    /// Distributed transactions begun and not ended, where a gate limits them.
    pub inside: usize,
    pub outside: VecDeque<u32>,
    pub busy: f64,
    pub idle: f64,
    pub parked: f64,
    /// The share of its recent transactions that had rows at another owner.
    pub handed: f64,
}

pub(super) struct Instance {
    pub service: Service,
    pub is_shared: bool,
    pub lines: Vec<Line>,
    pub log: Log<(usize, Record)>,
    pub writers: Writers<(usize, Record)>,
    /// Distributed transactions that live here.
    pub distributed: u32,
}

/// The rows of one phase at one instance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Group {
    pub instance: u16,
    pub phase: u8,
    pub start: u16,
    pub end: u16,
    pub updates: bool,
}

impl Group {
    pub fn rows(&self) -> usize {
        usize::from(self.end - self.start)
    }
}

/// A transaction's next deed at its home.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Op {
    /// Run the rows of a group of its own instance; without a group, only the inserts.
    Home(Option<u8>),
    /// Send the steps of a group, with the prepare request if this is the last phase.
    Send { group: u8, prepare: Option<LockPoint> },
    /// Wait for the replies.
    Await,
    /// The procedure has ended.
    Ready,
}

/// Progress of locking and paying for the rows of a group.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Cursor {
    /// The next hot line.
    pub line: usize,
    /// The next row to lock, from the group's start.
    pub row: usize,
    /// The next line of that row's runs.
    pub run: u8,
    /// The lock for which it waits, and since when; until it runs again.
    pub waits: Option<(LockId, f64)>,
    /// Its wait for a lock was too long.
    pub has_given_up: bool,
    /// Rows that are paid for.
    pub paid: usize,
}

#[derive(Default)]
pub(super) struct Txn {
    pub request: Request,
    pub shape: Option<Shape>,
    pub groups: SmallVec<[Group; 4]>,
    pub ops: SmallVec<[Op; 8]>,
    pub pc: usize,
    pub cursor: Cursor,
    pub home: usize,
    pub client: usize,
    pub born: f64,
    pub attempt: u32,
    pub coordinator: Option<Coordinator>,
    pub sessions: SmallVec<[(u16, u32); 4]>,
    /// Replies that are still to come, and those that came since the last wait.
    pub waiting: u32,
    pub replies: u32,
    pub held: SmallVec<[LockId; 16]>,
    /// It has entered its worker's gate.
    pub is_inside: bool,
    /// Another instance has had a part in it.
    pub is_distributed: bool,
    /// The client has its answer.
    pub is_answered: bool,
}

impl Txn {
    /// The slot takes the next request; its buffers serve again. Messages to the earlier
    /// transaction are told apart by the attempt.
    pub fn restart(&mut self, worker: usize, born: f64) {
        (self.home, self.client, self.born) = (worker, worker, born);
        self.attempt += 1;
        self.coordinator = None;
        self.sessions.clear();
        self.held.clear();
        (self.is_inside, self.is_answered) = (false, false);
        self.rewind();
    }

    /// The same request begins again.
    pub fn rewind(&mut self) {
        (self.pc, self.waiting, self.replies) = (0, 0, 0);
        self.cursor = Cursor::default();
    }
}

#[derive(Default)]
pub(super) struct Session {
    /// Another one each time that the session's number is used: messages may come too late.
    pub serial: u32,
    pub machine: Option<Participant>,
    pub txn: u32,
    pub attempt: u32,
    pub home: usize,
    pub worker: usize,
    pub group: Option<Group>,
    pub prepare: Option<LockPoint>,
    pub cursor: Cursor,
    pub held: SmallVec<[LockId; 16]>,
    /// Rows that it has updated.
    pub wrote: f64,
    /// Its steps are queued or running.
    pub is_running: bool,
}
