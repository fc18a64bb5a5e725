//! Step requests under way to other instances: each waits for one reply.

use crate::links::LinkId;
use base::Gtid;
use std::cell::RefCell;
use std::task::{Context, Poll, Waker};
use twophase::Vote;
use txn::Abort;

/// A reply as it came in.
#[derive(Debug)]
pub(crate) struct Reply {
    pub outcome: Result<Option<Vote>, Abort>,
    pub outputs: Vec<u8>,
}

enum State {
    Free,
    Waiting { gtid: Gtid, link: LinkId, waker: Option<Waker>, patience: Patience },
    Done(Gtid, Reply),
}

/// How long a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Until somebody ends it.
    Endless,
    /// It has been there when the worker looked, so many times.
    Looks(u32),
}

/// The calls of one worker. A call's number is a slot of this table; a reply must also name the transaction that waits
/// there, so a late reply finds nobody.
#[derive(Default)]
pub(crate) struct Calls {
    slots: RefCell<Vec<State>>,
    free: RefCell<Vec<u32>>,
    buffers: RefCell<Vec<Vec<u8>>>,
}

impl Calls {
    pub fn open(&self, gtid: Gtid, link: LinkId) -> u32 {
        self.open_with(gtid, link, Patience::Endless)
    }

    /// A call that nobody looks after: the only one of a transaction that no coordinator knows of. It is given up in time
    /// ([`Calls::grow_old`]).
    pub fn open_alone(&self, gtid: Gtid, link: LinkId) -> u32 {
        self.open_with(gtid, link, Patience::Looks(0))
    }

    fn open_with(&self, gtid: Gtid, link: LinkId, patience: Patience) -> u32 {
        let state = State::Waiting { gtid, link, waker: None, patience };
        let mut slots = self.slots.borrow_mut();
        match self.free.borrow_mut().pop() {
            Some(call) => {
                slots[call as usize] = state;
                call
            }
            None => {
                slots.push(state);
                (slots.len() - 1) as u32
            }
        }
    }

    /// Brings the reply to a request that was submitted elsewhere; its call number holds the low half of a
    /// transaction number as the guard against late replies.
    pub fn done(&self, call: u64, outcome: Result<(), Abort>) {
        let waiting = match self.slots.borrow().get(call as u32 as usize) {
            Some(State::Waiting { gtid, .. }) => *gtid,
            _ => return,
        };
        if waiting.number as u32 == (call >> 32) as u32 {
            self.reply(call as u32, waiting, outcome.map(|()| None), &[]);
        }
    }

    /// Brings a reply to whoever waits for it.
    pub fn reply(&self, call: u32, from: Gtid, outcome: Result<Option<Vote>, Abort>, outputs: &[u8]) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut(call as usize) else { return };
        if !matches!(slot, State::Waiting { gtid, .. } if *gtid == from) {
            return;
        }
        let mut buffer = self.buffers.borrow_mut().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(outputs);
        let before = std::mem::replace(slot, State::Done(from, Reply { outcome, outputs: buffer }));
        if let State::Waiting { waker: Some(waker), .. } = before {
            waker.wake();
        }
    }

    /// Ends those calls for which `ends` says so, as failed.
    fn fail(&self, outcome: Abort, mut ends: impl FnMut(Gtid, LinkId, &mut Patience) -> bool) {
        for slot in self.slots.borrow_mut().iter_mut() {
            let State::Waiting { gtid, link, waker, patience } = slot else { continue };
            let gtid = *gtid;
            if ends(gtid, *link, patience) {
                let waker = waker.take();
                *slot = State::Done(gtid, Reply { outcome: Err(outcome), outputs: Vec::new() });
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Ends every call on a broken link.
    pub fn link_broke(&self, broken: LinkId) {
        self.fail(Abort::InstanceDown, |_, link, _| link == broken);
    }

    /// Ends the calls of a transaction that is being given up.
    pub fn give_up(&self, whose: Gtid) {
        self.fail(Abort::Participant, |gtid, _, _| gtid == whose);
    }

    /// The worker looks. Gives up calls that stand alone and were there so many times before; tells of each.
    pub fn grow_old(&self, most: u32, mut given_up: impl FnMut(Gtid, LinkId)) {
        self.fail(Abort::Participant, |gtid, link, patience| {
            let Patience::Looks(looks) = patience else { return false };
            *looks += 1;
            let ends = *looks > most;
            if ends {
                given_up(gtid, link);
            }
            ends
        });
    }

    /// Whether a transaction has a call whose reply is not here, or not yet taken.
    pub fn has_open(&self, whose: Gtid) -> bool {
        self.slots.borrow().iter().any(|slot| match slot {
            State::Free => false,
            State::Waiting { gtid, .. } | State::Done(gtid, _) => *gtid == whose,
        })
    }

    pub fn poll(&self, call: u32, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut slots = self.slots.borrow_mut();
        match &mut slots[call as usize] {
            State::Waiting { waker, .. } => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            done => {
                let State::Done(_, reply) = std::mem::replace(done, State::Free) else {
                    unreachable!("a call is polled by its owner until it is done, and not again")
                };
                self.free.borrow_mut().push(call);
                Poll::Ready(reply)
            }
        }
    }

    /// Nobody will ask for this call's reply.
    pub fn abandon(&self, call: u32) {
        self.slots.borrow_mut()[call as usize] = State::Free;
        self.free.borrow_mut().push(call);
    }

    /// Gives a reply's buffer back for the next.
    pub fn recycle(&self, reply: Reply) {
        let mut buffers = self.buffers.borrow_mut();
        if buffers.len() < 64 {
            buffers.push(reply.outputs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::InstanceId;

    fn outcome(calls: &Calls, call: u32) -> Poll<Result<Option<Vote>, Abort>> {
        calls.poll(call, &mut Context::from_waker(Waker::noop())).map(|reply| reply.outcome)
    }

    #[test]
    fn a_call_that_nobody_looks_after_is_given_up_in_time() {
        let calls = Calls::default();
        let gtid = |number| Gtid { home: InstanceId(1), life: 1, number };
        let link = LinkId::for_tests(3);
        let (alone, other, answered) =
            (calls.open_alone(gtid(1), link), calls.open(gtid(2), link), calls.open_alone(gtid(3), link));
        calls.reply(answered, gtid(3), Ok(Some(Vote::ReadOnly)), b"");
        let mut given_up = Vec::new();
        for _ in 0..5 {
            assert!(outcome(&calls, alone).is_pending());
            calls.grow_old(5, |gtid, link| given_up.push((gtid, link)));
        }
        assert_eq!(given_up, []);
        calls.grow_old(5, |gtid, link| given_up.push((gtid, link)));
        assert_eq!(given_up, [(gtid(1), link)]);
        // Until its owner has taken that it is not over.
        assert!(calls.has_open(gtid(1)));
        assert_eq!(outcome(&calls, alone), Poll::Ready(Err(Abort::Participant)));
        assert!(!calls.has_open(gtid(1)) && calls.has_open(gtid(2)));
        assert!(outcome(&calls, other).is_pending());
        assert_eq!(outcome(&calls, answered), Poll::Ready(Ok(Some(Vote::ReadOnly))));
        calls.link_broke(link);
        assert_eq!(outcome(&calls, other), Poll::Ready(Err(Abort::InstanceDown)));
    }
}
