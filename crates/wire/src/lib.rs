//! What instances and clients say to each other: step requests, votes, decisions; requests and replies.
//!
//! A [`Frame`] is one message of a channel. Between instances there is nothing else: no page, no lock, no log record
//! ever crosses. Frames borrow their payload from the receive buffer; [`Frame::decode`] checks every length before
//! anything is allocated and refuses what does not fit with [`Malformed`].

#![forbid(unsafe_code)]

mod batch;

pub use batch::{Batch, BatchReader};

use base::{Gtid, InstanceId, WorkerId};
use serde::{Deserialize, Serialize, Serializer};
use twophase::{LockPoint, Message, Vote};
use txn::Abort;

/// Bumped whenever a frame changes its meaning; peers of another version are refused at the handshake.
pub const VERSION: u16 = 3;

/// The first message of a connection: who is calling. `deployment` keeps instances of different deployments apart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub version: u16,
    pub deployment: u64,
    pub from: Caller,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Caller {
    /// A worker of an instance, in the life with this number: its store has been opened so often.
    Instance(InstanceId, WorkerId, u32),
    Client,
}

/// Whether more steps of this transaction may follow at this participant, or the prepare request rides along.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ride {
    More,
    Prepare(LockPoint),
    /// No steps: the procedure has decided to abort. Was all that the transaction has seen here there until now? The
    /// participant rolls back and says so, or that it was not ([`Abort::Conflict`]), once that is durable here.
    Check,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// Run these steps (a [`Batch`] of step id and arguments) as part of `gtid`.
    Steps {
        call: u32,
        gtid: Gtid,
        ride: Ride,
        #[serde(borrow, serialize_with = "whole")]
        steps: &'a [u8],
    },
    /// Their outputs in the order of the steps, or why the participant has rolled back. The vote, if the prepare
    /// request rode along.
    StepsDone {
        call: u32,
        gtid: Gtid,
        outcome: Result<Option<Vote>, Abort>,
        #[serde(borrow, serialize_with = "whole")]
        outputs: &'a [u8],
    },
    /// From the commit protocol.
    TwoPhase(Message),
    /// A client's request (an encoded `Workload::Request`).
    Submit {
        call: u64,
        #[serde(borrow, serialize_with = "whole")]
        request: &'a [u8],
    },
    /// Its reply (an encoded `Workload::Reply`, empty after an abort).
    Done {
        call: u64,
        outcome: Result<(), Abort>,
        #[serde(borrow, serialize_with = "whole")]
        reply: &'a [u8],
    },
    /// The first frame on a link that an instance was called by: nothing here rests any more on a
    /// life of yours before this one; and this is the life that was called.
    Known { yours: u32, mine: u32 },
}

/// As one run of bytes, which reads the same and is written in one go.
fn whole<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_bytes(bytes)
}

/// Bytes that are no frame of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a message of {0} bytes is not a frame of protocol version {VERSION}; is the peer of another version?"
)]
pub struct Malformed(pub usize);

impl<'a> Frame<'a> {
    /// Replaces the content of `out` by this frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        txn::step::encode(self, out);
    }

    pub fn decode(bytes: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        match postcard::take_from_bytes(bytes) {
            Ok((frame, [])) => Ok(frame),
            _ => Err(Malformed(bytes.len())),
        }
    }
}

impl Hello {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("a hello is a plain value")
    }

    pub fn decode(bytes: &[u8]) -> Result<Hello, Malformed> {
        postcard::from_bytes(bytes).map_err(|_| Malformed(bytes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Frame<'static>> {
        let gtid = Gtid { home: InstanceId(1), life: 7, number: 99 };
        vec![
            Frame::Steps { call: 3, gtid, ride: Ride::Prepare(LockPoint::Ahead), steps: b"abc" },
            Frame::StepsDone { call: 3, gtid, outcome: Ok(Some(Vote::Yes)), outputs: b"out" },
            Frame::Steps { call: 5, gtid, ride: Ride::Check, steps: b"" },
            Frame::StepsDone { call: 4, gtid, outcome: Err(Abort::User(5)), outputs: b"" },
            Frame::TwoPhase(Message::Ack { gtid }),
            Frame::Submit { call: 1 << 40, request: b"x" },
            Frame::Known { yours: 3, mine: 70_000 },
        ]
    }

    #[test]
    fn frames_survive_the_wire() {
        let mut buf = Vec::new();
        for frame in samples() {
            frame.encode(&mut buf);
            assert_eq!(Frame::decode(&buf), Ok(frame));
        }
    }

    #[test]
    fn cut_and_flipped_frames_never_panic() {
        let mut buf = Vec::new();
        for frame in samples() {
            frame.encode(&mut buf);
            for cut in 0..buf.len() {
                assert!(Frame::decode(&buf[..cut]).is_err(), "a prefix of {frame:?} passed");
                for bit in 0..8 {
                    let mut bad = buf.clone();
                    bad[cut] ^= 1 << bit;
                    let _ = Frame::decode(&bad);
                }
            }
        }
    }
}
