//! The messages that a link may carry, by the kind of its other end.
//!
//! | frame | on a link from a client | from an instance | to an instance |
//! |---|---|---|---|
//! | `Submit` | yes | yes | |
//! | `More` | yes | | |
//! | `Done` | | | yes |
//! | `Known` | | | yes |
//! | `Steps` | | of a transaction that has its home there | |
//! | `StepsDone` | | | of a transaction that has its home here |
//! | `Prepare`, `Decide`, `Release` | | from the transaction's home | likewise |
//! | `Vote`, `Ack`, `Inquire` | | to the transaction's home | likewise |
//!
//! A message that is not in the table ends its link: its sender has a bug, or is not part of this
//! deployment.

use crate::links::Peer;
use base::InstanceId;
use wire::Frame;

/// Describes a forbidden message.
pub(crate) type Offence = &'static str;

/// # Errors
/// Why `peer` may not send this frame to instance `me`.
#[inline]
pub(crate) fn check(frame: &Frame<'_>, peer: Peer, me: InstanceId) -> Result<(), Offence> {
    let allowed = |condition: bool, offence| if condition { Ok(()) } else { Err(offence) };
    match (frame, peer) {
        (Frame::Submit { .. }, _) => {
            allowed(!matches!(peer, Peer::Callee(_)), "a request on a link that was opened for answers")
        }
        (Frame::More { .. }, _) => {
            allowed(peer == Peer::Client, "a part of a conversation, which only clients have")
        }
        (_, Peer::Client) => Err("a message that only instances send; a client submits requests"),
        (Frame::Said { .. }, _) => Err("words for a client"),
        (Frame::Done { .. }, _) => allowed(matches!(peer, Peer::Callee(_)), "an answer to no request"),
        (Frame::Known { .. }, _) => allowed(matches!(peer, Peer::Callee(_)), "word of a life unasked"),
        (Frame::Steps { gtid, .. }, _) => allowed(
            matches!(peer, Peer::Caller(from, _) if from == gtid.home),
            "steps of a transaction that has another home",
        ),
        (Frame::StepsDone { gtid, .. }, _) => allowed(
            matches!(peer, Peer::Callee(_)) && gtid.home == me,
            "results for a transaction that did not ask for them",
        ),
        (Frame::TwoPhase(message), Peer::Caller(from, _) | Peer::Callee(from)) => {
            let home = message.gtid().home;
            if message.is_for_coordinator() {
                allowed(home == me, "a vote, or the like, on a transaction that has its home elsewhere")
            } else {
                allowed(home == from, "a decision, or the like, on a transaction that has another home")
            }
        }
    }
}

/// Reports on standard error that a link is closed, and why.
#[cold]
pub(crate) fn tell(me: InstanceId, peer: Peer, offence: &str) {
    let other = match peer {
        Peer::Client => "a client".to_string(),
        Peer::Caller(instance, _) | Peer::Callee(instance) => format!("instance {instance}"),
    };
    world::tell(format_args!("atoll: instance {me}: closed a link with {other}, which sent {offence}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Gtid;
    use twophase::{Decision, LockPoint, Message, Vote};
    use wire::Piggyback;

    const ME: InstanceId = InstanceId(0);
    const OTHER: InstanceId = InstanceId(1);
    const THIRD: InstanceId = InstanceId(2);

    /// Every peer that may send a frame, by the table above.
    fn senders(frame: &Frame<'_>) -> Vec<Peer> {
        let peers = [
            Peer::Client,
            Peer::Caller(OTHER, 1),
            Peer::Callee(OTHER),
            Peer::Caller(THIRD, 1),
            Peer::Callee(THIRD),
        ];
        peers.into_iter().filter(|peer| check(frame, *peer, ME).is_ok()).collect()
    }

    #[test]
    fn each_frame_has_its_senders() {
        let of = |home| Gtid { home, life: 1, number: 7 << 10 };
        let (callers, callees) = (|i| Peer::Caller(i, 1), |i| Peer::Callee(i));
        let instances = vec![callers(OTHER), callees(OTHER), callers(THIRD), callees(THIRD)];
        let steps = |gtid| Frame::Steps { call: 0, gtid, piggyback: Piggyback::More, steps: b"" };
        let done = |gtid| Frame::StepsDone { call: 0, gtid, outcome: Ok(None), outputs: b"" };
        let submit = Frame::Submit { call: 0, request: b"" };
        assert_eq!(senders(&submit), [Peer::Client, callers(OTHER), callers(THIRD)]);
        assert_eq!(senders(&Frame::More { call: 0, message: b"" }), [Peer::Client]);
        assert_eq!(senders(&Frame::Said { call: 0, said: b"" }), []);
        let reply = Frame::Done { call: 0, outcome: Ok(()), reply: b"" };
        assert_eq!(senders(&reply), [callees(OTHER), callees(THIRD)]);
        assert_eq!(senders(&steps(of(OTHER))), [callers(OTHER)]);
        assert_eq!(senders(&steps(of(ME))), []);
        assert_eq!(senders(&done(of(ME))), [callees(OTHER), callees(THIRD)]);
        assert_eq!(senders(&done(of(OTHER))), []);
        for gtid in [of(ME), of(OTHER)] {
            let for_home =
                [Message::Vote { gtid, vote: Vote::Yes }, Message::Ack { gtid }, Message::Inquire { gtid }];
            let expected = if gtid.home == ME { instances.clone() } else { Vec::new() };
            for message in for_home {
                assert_eq!(senders(&Frame::TwoPhase(message)), expected, "{message:?}");
            }
            let from_home = [
                Message::Prepare { gtid, lock_point: LockPoint::Reached },
                Message::Release { gtid },
                Message::Decide { gtid, decision: Decision::Commit },
            ];
            let expected = if gtid.home == ME { Vec::new() } else { vec![callers(OTHER), callees(OTHER)] };
            for message in from_home {
                assert_eq!(senders(&Frame::TwoPhase(message)), expected, "{message:?}");
            }
        }
    }
}
