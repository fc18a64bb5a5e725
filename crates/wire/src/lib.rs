//! The messages between instances and clients: step requests, votes, decisions; requests and
//! replies.
//!
//! A [`Frame`] is one message of a channel. Instances exchange nothing else: no page, lock or log
//! record crosses. Frames borrow their payload from the receive buffer. [`Frame::decode`] checks
//! every length before it allocates, and refuses bytes that do not fit with [`Malformed`].

#![forbid(unsafe_code)]

mod batch;

pub use batch::{Batch, BatchReader};

use base::{Gtid, InstanceId, WorkerId};
use serde::{Deserialize, Serialize, Serializer};
use twophase::{LockPoint, Message, Vote};
use txn::Abort;

/// Incremented whenever a frame changes its meaning; the handshake refuses peers of another
/// version.
pub const VERSION: u16 = 5;

/// The first message of a connection: it names the caller. `deployment` keeps instances of
/// different deployments apart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    pub version: u16,
    pub deployment: u64,
    pub from: Caller,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Caller {
    /// A worker of an instance, and the number of times that the instance's store has been opened
    /// (its life).
    Instance(InstanceId, WorkerId, u32),
    /// Any worker may serve it.
    Client,
    /// A client on the thread of this worker.
    ClientAt(WorkerId),
}

/// Piggyback: whether more steps of this transaction may follow at this participant, or the prepare
/// request rides on these.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Piggyback {
    More,
    Prepare(LockPoint),
    /// There are no steps: the procedure has decided to abort, and asks the participant to validate
    /// that. The participant rolls back. Once that is durable here, it answers whether all the
    /// transaction's reads here held until then ([`Abort::Conflict`] if not).
    Check,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Frame<'a> {
    /// Run these steps (a [`Batch`] of step id and arguments) as part of `gtid`.
    Steps {
        call: u32,
        gtid: Gtid,
        piggyback: Piggyback,
        #[serde(borrow, serialize_with = "whole")]
        steps: &'a [u8],
    },
    /// The outputs of the steps in their order, and the vote if the prepare request rode on them;
    /// or why the participant has rolled back.
    StepsDone {
        call: u32,
        gtid: Gtid,
        outcome: Result<Option<Vote>, Abort>,
        #[serde(borrow, serialize_with = "whole")]
        outputs: &'a [u8],
    },
    /// A message of the commit protocol.
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
    /// The answer of an instance that was called, and the first frame it sends on the link. It
    /// acknowledges the caller's life `yours`: no worker here has a link to an earlier one, and no
    /// undecided transaction depends on one. `mine` is the life of the instance that was called.
    Known { yours: u32, mine: u32 },
    /// From an instance, in a conversation (`txn::Transaction::hear`): the procedure of request
    /// `call` says this, and waits for the client's next message.
    Said {
        call: u64,
        #[serde(borrow, serialize_with = "whole")]
        said: &'a [u8],
    },
    /// From a client: the next message of the conversation that request `call` began.
    More {
        call: u64,
        #[serde(borrow, serialize_with = "whole")]
        message: &'a [u8],
    },
}

/// Written as one run of bytes: the encoding is the same as element by element, and faster to
/// produce.
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
            Frame::Steps { call: 3, gtid, piggyback: Piggyback::Prepare(LockPoint::Ahead), steps: b"abc" },
            Frame::StepsDone { call: 3, gtid, outcome: Ok(Some(Vote::Yes)), outputs: b"out" },
            Frame::Steps { call: 5, gtid, piggyback: Piggyback::Check, steps: b"" },
            Frame::StepsDone { call: 4, gtid, outcome: Err(Abort::User(5)), outputs: b"" },
            Frame::TwoPhase(Message::Ack { gtid }),
            Frame::Submit { call: 1 << 40, request: b"x" },
            Frame::Known { yours: 3, mine: 70_000 },
            Frame::Said { call: 1 << 40, said: b"rows" },
            Frame::More { call: 1 << 40, message: b"statement" },
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
