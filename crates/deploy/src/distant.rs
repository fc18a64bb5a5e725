//! Deployments over several machines: what a deployment asks of them. The agent of a machine does
//! it with a [`Keeper`](crate::machines::Keeper).

use crate::DeployError;
use crate::engine::Address;
use base::InstanceId;
use channel::Guarding;
use std::fmt;
use std::os::unix::net::UnixStream;

/// Names a deployment to the agents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Errand {
    /// See [`crate::Deployment::number`].
    pub deployment: u64,
    /// The directory of its data below that of each agent; `None`: a temporary one.
    pub database: Option<String>,
    /// Whether the instance has run before in this deployment: then its data must be there.
    pub again: bool,
}

/// The machines of a deployment.
pub trait Machines: Send + Sync + fmt::Debug {
    /// The number of machines.
    fn count(&self) -> usize;

    /// The machine that an instance of a deployment with this many runs on, from 0.
    fn of(&self, instance: InstanceId, islands: u16) -> usize;

    /// The address of the machine for all others, with port 0.
    fn address(&self, machine: usize) -> Address;

    /// For clients of instances at sealed addresses.
    fn guard(&self) -> Guarding;

    /// Has the machine's agent start the host of an instance, or attach to it after a restart.
    ///
    /// # Errors
    /// The machine cannot be reached, or its agent refuses.
    fn spawn(&self, errand: &Errand, instance: InstanceId, machine: usize) -> Result<Distant, DeployError>;

    /// The description of a database on each machine, with the machine's name; `None` where there
    /// is none.
    ///
    /// # Errors
    /// As [`Machines::spawn`].
    fn read(&self, database: &str) -> Result<Vec<(String, Option<String>)>, DeployError>;

    /// Writes the description on all machines; `None` removes the database.
    ///
    /// # Errors
    /// As [`Machines::spawn`]; I/O there.
    fn write(&self, database: &str, text: Option<&str>) -> Result<(), DeployError>;
}

/// The host of an instance on another machine.
pub struct Distant {
    /// Orders and replies.
    pub orders: UnixStream,
    pub host: Box<dyn DistantHost>,
}

/// What can be done with such a host besides giving it orders.
pub trait DistantHost: Send {
    /// Sends SIGKILL to the process.
    ///
    /// # Errors
    /// Its machine cannot be reached.
    fn kill(&mut self) -> std::io::Result<()>;

    /// Why it ended, as far as that is known.
    fn last_words(&mut self) -> String;
}
