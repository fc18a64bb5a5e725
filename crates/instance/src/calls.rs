//! Step requests under way to other instances: each waits for one reply.

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
    Waiting { gtid: Gtid, link: super::links::LinkId, waker: Option<Waker> },
    Done(Reply),
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
    pub fn open(&self, gtid: Gtid, link: super::links::LinkId) -> u32 {
        let state = State::Waiting { gtid, link, waker: None };
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
        let before = std::mem::replace(slot, State::Done(Reply { outcome, outputs: buffer }));
        if let State::Waiting { waker: Some(waker), .. } = before {
            waker.wake();
        }
    }

    /// Ends every call on a broken link.
    pub fn link_broke(&self, broken: super::links::LinkId) {
        for slot in self.slots.borrow_mut().iter_mut() {
            let State::Waiting { link, waker, .. } = slot else { continue };
            if *link == broken {
                let waker = waker.take();
                *slot = State::Done(Reply { outcome: Err(Abort::InstanceDown), outputs: Vec::new() });
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Ends the calls of a transaction that is being given up.
    pub fn give_up(&self, whose: Gtid) {
        for slot in self.slots.borrow_mut().iter_mut() {
            let State::Waiting { gtid, waker, .. } = slot else { continue };
            if *gtid == whose {
                let waker = waker.take();
                *slot = State::Done(Reply { outcome: Err(Abort::Participant), outputs: Vec::new() });
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    pub fn poll(&self, call: u32, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut slots = self.slots.borrow_mut();
        match &mut slots[call as usize] {
            State::Waiting { waker, .. } => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            done => {
                let State::Done(reply) = std::mem::replace(done, State::Free) else {
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
