//! The engine of these tests: the naive model of the crate `workload`, in one instance. A
//! conversation is played again from its begin at each command, so others see nothing of it before
//! its commit.

use server::engine::{Conversation, Engine, RunError, done};
use sql::Database;
use sql::database::{Answer, Command, Request};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use workload::oracle::Oracle;

pub const STORES: u16 = 32;

#[derive(Clone)]
pub struct Model(Arc<Mutex<Oracle<Database>>>);

impl Model {
    pub fn new() -> Model {
        let mut oracle = Oracle::new(Database { sites: 8, stores: STORES }, 1);
        oracle.load().expect("an empty database");
        Model(Arc::new(Mutex::new(oracle)))
    }

    fn lock(&self) -> MutexGuard<'_, Oracle<Database>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Model {
    type Conversation = Talk;

    async fn once(&self, request: Request) -> Result<Answer, RunError> {
        self.lock().submit(&request).map_err(RunError::Abort)
    }

    fn begin(&self) -> Talk {
        Talk { model: self.clone(), commands: Vec::new() }
    }
}

pub struct Talk {
    model: Model,
    commands: Vec<Command>,
}

impl Talk {
    /// Plays all commands; returns the answer to the last but one, and that at the end.
    fn play(&self, end: Command) -> Result<(Answer, Answer), RunError> {
        let mut oracle = self.model.lock();
        let Some((first, rest)) = self.commands.split_first() else {
            return Ok((Answer::Done, Answer::Done));
        };
        let encoded = |command: &Command| postcard::to_stdvec(command).expect("a plain value");
        oracle.says = rest.iter().chain([&end]).map(encoded).collect();
        oracle.hears.clear();
        let answer = oracle.submit(&Request::Converse(first.clone())).map_err(RunError::Abort)?;
        let last = oracle.hears.last().expect("an answer to each command");
        Ok((postcard::from_bytes(last).expect("an answer"), answer))
    }
}

impl Conversation for Talk {
    async fn command(&mut self, command: Command) -> Result<Answer, RunError> {
        self.commands.push(command);
        self.play(Command::Rollback).map(|(answer, _)| answer)
    }

    async fn commit(self) -> Result<(), RunError> {
        self.play(Command::Commit).and_then(|(_, end)| done(end))
    }

    async fn rollback(self) {}
}
