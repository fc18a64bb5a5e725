//! Requests under way to other instances: each waits for one reply.

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

/// The state of a slot.
enum CallState {
    Free,
    Waiting { gtid: Gtid, link: LinkId, waker: Option<Waker>, patience: Patience },
    Done(Gtid, Reply),
}

/// How long a call waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Until its owner or the coordinator ends it.
    Endless,
    /// The number of the worker's regular checks that it has outlived.
    Looks(u32),
}

/// A slot of the table, and how often it was used before.
struct Slot {
    state: CallState,
    use_number: u32,
}

/// The low bits of a call's number are its slot. The other bits count the slot's uses.
const SLOT_BITS: u32 = 18;
/// The bits of a call's number that hold its slot.
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;

/// The calls of one worker. A call's number holds a slot of this table and the number of its use. A
/// reply must name both, and the transaction that waits there, and it must arrive on the link on
/// which the request was sent. So a late reply to a call that was given up finds no call, even when
/// the same transaction uses the slot again. (Use numbers wrap after 16,384 uses; one transaction
/// does not use a slot that often while a reply is on its way.)
#[derive(Default)]
pub(crate) struct Calls {
    slots: RefCell<Vec<Slot>>,
    free: RefCell<Vec<u32>>,
    buffers: RefCell<Vec<Vec<u8>>>,
}

impl Calls {
    /// Opens a call of a transaction on `link`, and returns its number.
    pub fn open(&self, gtid: Gtid, link: LinkId) -> u32 {
        self.open_with(gtid, link, Patience::Endless)
    }

    /// A call that no coordinator watches: the only one of its transaction
    /// ([`Run::ask_alone`](crate::home::Run)). [`Calls::grow_old`] gives it up in time.
    pub fn open_alone(&self, gtid: Gtid, link: LinkId) -> u32 {
        self.open_with(gtid, link, Patience::Looks(0))
    }

    fn open_with(&self, gtid: Gtid, link: LinkId, patience: Patience) -> u32 {
        let state = CallState::Waiting { gtid, link, waker: None, patience };
        let mut slots = self.slots.borrow_mut();
        let slot = self.free.borrow_mut().pop().unwrap_or_else(|| {
            assert!(slots.len() <= SLOT_MASK as usize, "more calls under way than tasks can have");
            slots.push(Slot { state: CallState::Free, use_number: 0 });
            (slots.len() - 1) as u32
        });
        let used = &mut slots[slot as usize];
        used.state = state;
        used.use_number << SLOT_BITS | slot
    }

    /// Frees a call's slot. Numbers given out before do not match the slot's next use.
    fn free(&self, slots: &mut [Slot], call: u32) -> CallState {
        let slot = call & SLOT_MASK;
        self.free.borrow_mut().push(slot);
        let used = &mut slots[slot as usize];
        used.use_number = used.use_number.wrapping_add(1) & (u32::MAX >> SLOT_BITS);
        std::mem::replace(&mut used.state, CallState::Free)
    }

    /// Delivers the reply to a request that was submitted elsewhere. Its call number holds the low
    /// half of a transaction number, as a guard against late replies.
    pub fn done(&self, (call, link): (u64, LinkId), outcome: Result<(), Abort>) {
        let waiting = match self.slots.borrow().get((call as u32 & SLOT_MASK) as usize) {
            Some(Slot { state: CallState::Waiting { gtid, .. }, .. }) => *gtid,
            _ => return,
        };
        if waiting.number as u32 == (call >> 32) as u32 {
            self.reply((call as u32, link), waiting, outcome.map(|()| None), &[]);
        }
    }

    /// Delivers a reply that arrived on `link` to the task that waits for it.
    pub fn reply(
        &self,
        (call, link): (u32, LinkId),
        from: Gtid,
        outcome: Result<Option<Vote>, Abort>,
        outputs: &[u8],
    ) {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.get_mut((call & SLOT_MASK) as usize) else { return };
        let is_its = matches!(slot.state, CallState::Waiting { gtid, link: asked, .. } if gtid == from && asked == link);
        if !is_its || slot.use_number != call >> SLOT_BITS {
            return;
        }
        let slot = &mut slot.state;
        let mut buffer = self.buffers.borrow_mut().pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(outputs);
        let before = std::mem::replace(slot, CallState::Done(from, Reply { outcome, outputs: buffer }));
        if let CallState::Waiting { waker: Some(waker), .. } = before {
            waker.wake();
        }
    }

    /// Ends the calls for which `ends` returns true, with `outcome`.
    fn fail(&self, outcome: Abort, mut ends: impl FnMut(Gtid, LinkId, &mut Patience) -> bool) {
        for slot in self.slots.borrow_mut().iter_mut() {
            let slot = &mut slot.state;
            let CallState::Waiting { gtid, link, waker, patience } = slot else { continue };
            let gtid = *gtid;
            if ends(gtid, *link, patience) {
                let waker = waker.take();
                *slot = CallState::Done(gtid, Reply { outcome: Err(outcome), outputs: Vec::new() });
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

    /// One regular check of the worker. Gives up calls of [`Calls::open_alone`] that have outlived
    /// `most` earlier checks, and reports each.
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

    /// Whether a transaction has a call of which the reply has not arrived, or has not been taken.
    pub fn has_open(&self, whose: Gtid) -> bool {
        self.slots.borrow().iter().any(|slot| match &slot.state {
            CallState::Free => false,
            CallState::Waiting { gtid, .. } | CallState::Done(gtid, _) => *gtid == whose,
        })
    }

    /// The reply to a call, once it has arrived; this frees the call.
    pub fn poll(&self, call: u32, cx: &mut Context<'_>) -> Poll<Reply> {
        let mut slots = self.slots.borrow_mut();
        if let CallState::Waiting { waker, .. } = &mut slots[(call & SLOT_MASK) as usize].state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let CallState::Done(_, reply) = self.free(&mut slots, call) else {
            unreachable!("a call is polled by its owner until it is done, and not again")
        };
        Poll::Ready(reply)
    }

    /// Ends a call. Its reply, if one comes, is dropped.
    pub fn abandon(&self, call: u32) {
        self.free(&mut self.slots.borrow_mut(), call);
    }

    /// Returns a reply's buffer for the next reply.
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
        calls.reply((answered, link), gtid(3), Ok(Some(Vote::ReadOnly)), b"");
        let mut given_up = Vec::new();
        for _ in 0..5 {
            assert!(outcome(&calls, alone).is_pending());
            calls.grow_old(5, |gtid, link| given_up.push((gtid, link)));
        }
        assert_eq!(given_up, []);
        calls.grow_old(5, |gtid, link| given_up.push((gtid, link)));
        assert_eq!(given_up, [(gtid(1), link)]);
        // It is over only once its owner has taken the outcome.
        assert!(calls.has_open(gtid(1)));
        assert_eq!(outcome(&calls, alone), Poll::Ready(Err(Abort::Participant)));
        assert!(!calls.has_open(gtid(1)) && calls.has_open(gtid(2)));
        assert!(outcome(&calls, other).is_pending());
        assert_eq!(outcome(&calls, answered), Poll::Ready(Ok(Some(Vote::ReadOnly))));
        calls.link_broke(link);
        assert_eq!(outcome(&calls, other), Poll::Ready(Err(Abort::InstanceDown)));
    }

    /// A transaction gives up a call, and its next call uses the same slot. Then the reply to the
    /// first call arrives.
    #[test]
    fn a_late_reply_finds_no_call() {
        let calls = Calls::default();
        let gtid = Gtid { home: InstanceId(1), life: 1, number: 1 };
        let (link, other) = (LinkId::for_tests(3), LinkId::for_tests(4));
        let late = calls.open(gtid, link);
        calls.abandon(late);
        let now = calls.open(gtid, link);
        assert_eq!((now & SLOT_MASK, late & SLOT_MASK), (0, 0));
        calls.reply((late, link), gtid, Ok(None), b"late");
        assert!(outcome(&calls, now).is_pending());
        calls.reply((now, other), gtid, Ok(None), b"on another link");
        assert!(outcome(&calls, now).is_pending());
        calls.reply((now, link), gtid, Ok(Some(Vote::Yes)), b"");
        assert_eq!(outcome(&calls, now), Poll::Ready(Ok(Some(Vote::Yes))));
        // The second call is not found either, once it is done.
        calls.reply((now, link), gtid, Ok(None), b"twice");
        assert!(!calls.has_open(gtid));
    }

    #[test]
    fn a_slot_is_used_again_for_ever() {
        let calls = Calls::default();
        let (gtid, link) = (Gtid { home: InstanceId(1), life: 1, number: 1 }, LinkId::for_tests(3));
        for _ in 0..(3 << (32 - SLOT_BITS)) {
            let call = calls.open(gtid, link);
            assert_eq!(call & SLOT_MASK, 0);
            calls.reply((call, link), gtid, Ok(None), b"");
            assert_eq!(outcome(&calls, call), Poll::Ready(Ok(None)));
        }
    }
}
