//! The protocol between a deployment and the instances that it hosts: orders down, replies up, as
//! plain values over a unix socket pair that the child inherits as its standard input.
//!
//! A frame is `[length: u32 LE][postcard]`. The length is checked before anything is allocated. End
//! of file has a meaning on both sides: a child that has lost its parent exits, and a parent that
//! has lost a child restarts it.

use crate::engine::{Address, InstanceConfig, TrafficOrder};
use base::InstanceId;
use probe::Measured;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use workload::WorkloadSpec;

/// The longest frame accepted, in bytes. The largest real one is an audit: tens of bytes per branch
/// or site.
const MAX_FRAME: u32 = 256 << 20;

/// An order to an instance. Each order has exactly one final reply; [`Reply::Progress`] may come
/// before it.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum InstanceOrder {
    Start(Box<Birth>),
    Connect(Vec<(InstanceId, Address)>),
    Load,
    Traffic(Box<TrafficOrder<WorkloadSpec>>),
    Measure,
    Halt,
    Audit,
    /// The process answers until this time ([`world::now_ns`]); without a reply.
    AnswerUntil(u64),
    Stop,
}

impl InstanceOrder {
    /// As in "instance 1 could not ...".
    pub fn name(&self) -> &'static str {
        match self {
            InstanceOrder::Start(_) => "start",
            InstanceOrder::Connect(_) => "connect",
            InstanceOrder::Load => "load",
            InstanceOrder::Traffic(order) => match &**order {
                TrafficOrder::Profile(_) | TrafficOrder::Drive { .. } => "drive",
                TrafficOrder::Change(_) => "take the phases of the load",
                TrafficOrder::Reconfigure(_) => "take the new options",
            },
            InstanceOrder::Measure => "report its measurements",
            InstanceOrder::Halt => "halt",
            InstanceOrder::Audit => "audit its data",
            InstanceOrder::AnswerUntil(_) => "take the lease",
            InstanceOrder::Stop => "stop",
        }
    }
}

/// The parameters of an instance's start.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub(crate) struct Birth {
    pub spec: WorkloadSpec,
    pub config: InstanceConfig,
    /// The directory of the machine's certificates, for links with other machines.
    pub tls: Option<PathBuf>,
}

/// A reply to an order, or news from an instance.
#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Reply {
    /// The addresses at which it listens; ports that the system chose are known from here on.
    Started {
        near: Option<Address>,
        /// For other machines.
        far: Option<Address>,
    },
    Progress {
        done: u64,
        total: u64,
    },
    Done,
    Measured(Box<Measured>),
    Audit(Vec<u8>),
    Failed(String),
    /// Why nothing commits here any more. Sent once, by itself or before the reply to an order.
    Fault(String),
    /// How many entries of its log a quorum has. Sent by itself, whenever there are more.
    Counted(u64),
}

/// Sends one frame.
pub(crate) fn send<T: Serialize>(stream: &mut UnixStream, value: &T) -> io::Result<()> {
    let mut frame = vec![0u8; 4];
    postcard::to_io(value, &mut frame).map_err(io::Error::other)?;
    let len = u32::try_from(frame.len() - 4).ok().filter(|&n| n <= MAX_FRAME);
    let len = len.ok_or_else(|| io::Error::other(format!("a frame of {} bytes is too long", frame.len())))?;
    frame[..4].copy_from_slice(&len.to_le_bytes());
    stream.write_all(&frame)
}

/// `None` at a clean end of file.
pub(crate) fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<Option<T>> {
    let mut head = [0u8; 4];
    match stream.read_exact(&mut head) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(head);
    if len > MAX_FRAME {
        let what = format!("a control frame claims {len} bytes, at most {MAX_FRAME} are expected");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    // The buffer grows as the bytes arrive: a wrong length costs a short read, not the memory that
    // it claims.
    let mut frame = Vec::new();
    stream.take(u64::from(len)).read_to_end(&mut frame)?;
    if frame.len() < len as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&frame).map(Some).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use traffic::{Share, Traffic};

    #[test]
    fn orders_arrive_and_wrong_lengths_are_refused() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let (traffic, share) = (Traffic::closed(3), Share::whole(2));
        let order = TrafficOrder::Drive { traffic, share, seed: 9 };
        send(&mut a, &InstanceOrder::Traffic(Box::new(order))).unwrap();
        let Ok(Some(InstanceOrder::Traffic(order))) = receive(&mut b) else { panic!("another order") };
        let TrafficOrder::Drive { traffic: Traffic { clients, .. }, seed, .. } = *order else {
            panic!("another order: {order:?}")
        };
        assert_eq!((clients, seed), (3, 9));
        a.write_all(&u32::MAX.to_le_bytes()).unwrap();
        let refused = receive::<InstanceOrder>(&mut b).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        assert!(refused.to_string().contains("4294967295"));
    }

    #[test]
    fn a_cut_frame_is_an_error_and_a_closed_socket_is_the_end() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        a.write_all(&[9, 0, 0, 0, 1, 2]).unwrap();
        drop(a);
        assert_eq!(receive::<InstanceOrder>(&mut b).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(matches!(receive::<InstanceOrder>(&mut b), Ok(None)));
    }
}
