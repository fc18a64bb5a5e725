//! One of several instances: in this process; in this process on a simulated disk, of which the
//! power can be cut; or in a process of its own that can be killed.
//!
//! ```text
//!   parent                              child: `trials member`
//!     |-- Start: configuration, bug ----> Instance::start
//!     |<- Done, or why not ---------------
//!     |-- Connect: the others' addresses -> Instance::connect
//!     |<- Done ---------------------------
//!     |-- Stop, or the end of the pipe --> stops; or ends at once, as if it had been killed
//! ```
//!
//! Orders and replies are frames on standard input and output: their length as four bytes,
//! little-endian, then the value.

use crate::lists::Lists;
use base::InstanceId;
use channel::Address;
use instance::{Instance, InstanceConfig, InstanceFault};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use world::sim::{Disk, Lasts, Plan, Trouble};

/// An order to a child.
#[derive(Serialize, Deserialize)]
enum Order {
    Start { config: Box<InstanceConfig>, bug: u8 },
    Connect(Vec<(InstanceId, Address)>),
    Stop,
}

/// The reply to an order; an error as text.
type Reply = Result<(), String>;

/// Why a member could not carry out an order.
#[derive(Debug, thiserror::Error)]
pub enum MemberFault {
    #[error(transparent)]
    Instance(#[from] InstanceFault),
    #[error("instance {0}: {1}")]
    Told(InstanceId, String),
    #[error("the process of instance {0} cannot be reached: {1}")]
    Process(InstanceId, Error),
}

/// A running instance.
pub(crate) struct Member {
    id: InstanceId,
    place: Place,
}

/// Where a member runs.
enum Place {
    Here(Box<Instance<Lists>>),
    Disk(Box<Instance<Lists>>, Disk),
    Process(Child),
}

impl Member {
    /// In this process.
    pub fn here(config: InstanceConfig) -> Result<Member, MemberFault> {
        let id = config.id;
        Ok(Member { id, place: Place::Here(Box::new(Instance::start(Lists::default(), config)?)) })
    }

    /// In this process, with its files on a simulated disk.
    pub fn on_disk(disk: Disk, config: InstanceConfig) -> Result<Member, MemberFault> {
        let id = config.id;
        let instance = Instance::start_in(Lists::default(), config, disk.files())?;
        Ok(Member { id, place: Place::Disk(Box::new(instance), disk) })
    }

    /// In a process of its own, which runs the program of this crate with the same planted bug.
    pub fn process(program: &Path, config: InstanceConfig) -> Result<Member, MemberFault> {
        let id = config.id;
        let child = Command::new(program).arg("member").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|why| MemberFault::Process(id, why))?;
        let mut member = Member { id, place: Place::Process(child) };
        member.order(&Order::Start { config: Box::new(config), bug: planted() })?;
        Ok(member)
    }

    /// Sends the addresses of the others; returns when the links to those that run are open.
    pub fn connect(&mut self, peers: &[(InstanceId, Address)]) -> Result<(), MemberFault> {
        match &self.place {
            Place::Here(instance) | Place::Disk(instance, _) => {
                instance.connect(peers);
                Ok(())
            }
            Place::Process(_) => self.order(&Order::Connect(peers.to_vec())),
        }
    }

    /// Ends a process by SIGKILL, at any point of its work; ends an instance in this process in
    /// order.
    pub fn end(mut self) -> Result<(), MemberFault> {
        if let Place::Process(child) = &mut self.place {
            child.kill().map_err(|why| MemberFault::Process(self.id, why))?;
            return child.wait().map(drop).map_err(|why| MemberFault::Process(self.id, why));
        }
        self.stop()
    }

    /// Cuts the power of an instance on a simulated disk: returns the disk as one draw of a crash
    /// leaves it. From this moment on the device fails, so the instance makes no promise that
    /// depends on later writes.
    pub fn cut(self, draw: u64) -> Option<Disk> {
        let Place::Disk(instance, disk) = self.place else { return None };
        disk.plan(Plan { trouble: Trouble::Error, lasts: Lasts::Forever, at: 0, only: None });
        let left = disk.crash_image(draw);
        // It cannot end in order.
        let _ = instance.stop();
        Some(left)
    }

    /// Ends it in order.
    pub fn stop(mut self) -> Result<(), MemberFault> {
        if let Place::Process(_) = self.place {
            self.order(&Order::Stop)?;
        }
        match self.place {
            Place::Here(instance) | Place::Disk(instance, _) => Ok(instance.stop()?),
            Place::Process(mut child) => {
                child.wait().map(drop).map_err(|why| MemberFault::Process(self.id, why))
            }
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), MemberFault> {
        let Place::Process(child) = &mut self.place else { unreachable!("only processes take orders") };
        let (input, output) = (child.stdin.as_mut(), child.stdout.as_mut());
        let (input, output) = (input.expect("piped"), output.expect("piped"));
        let replied = write(input, order).and_then(|()| read::<Reply>(output));
        let replied = replied.and_then(|reply| reply.ok_or_else(|| ErrorKind::UnexpectedEof.into()));
        match replied {
            Ok(reply) => reply.map_err(|why| MemberFault::Told(self.id, why)),
            Err(why) => {
                // The child printed its last messages to standard error.
                let _ = child.kill();
                let _ = child.wait();
                Err(MemberFault::Process(self.id, why))
            }
        }
    }
}

#[cfg(feature = "planted")]
fn planted() -> u8 {
    instance::planted::planted() as u8
}

#[cfg(not(feature = "planted"))]
fn planted() -> u8 {
    0
}

/// The child's side.
///
/// # Errors
/// Orders that cannot be read, replies that cannot be written.
pub fn serve(mut input: impl Read, mut output: impl Write) -> std::io::Result<()> {
    let mut running: Option<Instance<Lists>> = None;
    while let Some(order) = read::<Order>(&mut input)? {
        let reply: Reply = match (order, running.as_ref()) {
            (Order::Start { config, bug }, None) => {
                plant(bug);
                let started = Instance::start(Lists::default(), *config);
                started.map(|instance| running = Some(instance)).map_err(|fault| fault.to_string())
            }
            (Order::Connect(peers), Some(instance)) => {
                instance.connect(&peers);
                Ok(())
            }
            (Order::Stop, Some(_)) => {
                let stopped =
                    running.take().map_or(Ok(()), Instance::stop).map_err(|fault| fault.to_string());
                return write(&mut output, &stopped);
            }
            (Order::Start { .. }, Some(_)) => Err("it runs already".into()),
            (_, None) => Err("it does not run".into()),
        };
        write(&mut output, &reply)?;
    }
    // The parent is gone, so an orderly end has no purpose.
    std::process::exit(1)
}

#[cfg(feature = "planted")]
fn plant(bug: u8) {
    use instance::planted::{Bug, plant};
    plant(Bug::ALL.into_iter().find(|known| *known as u8 == bug).unwrap_or(Bug::None));
}

#[cfg(not(feature = "planted"))]
fn plant(_: u8) {}

fn write<T: Serialize>(to: &mut impl Write, value: &T) -> std::io::Result<()> {
    let bytes = postcard::to_stdvec(value).map_err(Error::other)?;
    to.write_all(&(bytes.len() as u32).to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// `None` at the end.
fn read<T: DeserializeOwned>(from: &mut impl Read) -> std::io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(Error::other)
}
