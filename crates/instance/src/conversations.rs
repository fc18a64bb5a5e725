//! Conversations: transactions of which the client decides the next step after each answer
//! ([`txn::Transaction::hear`]).
//!
//! ```text
//!   client   Submit{call}        More{call}         More{call}
//!              |        ^          |       ^          |       ^
//!   procedure  +-> work | Said     +-> ... | Said     +-> end | Done
//! ```
//!
//! A conversation belongs to the link and the number of the request that began it. The worker that
//! received the request has the link, so it receives all messages. A client that leaves, or an
//! instance that stops, ends the wait, and the transaction is rolled back.
//!
//! A request waits in the worker's queue before its conversation is open, and its client may be
//! gone, or give up, before that. So a message without an open conversation goes through the same
//! queue, and an opening looks whether its link still exists. Otherwise the transaction would wait
//! for ever, and keep its locks.

use crate::links::LinkId;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::task::{Poll, Waker};
use txn::Abort;

/// The link and the number of the request that began a conversation.
pub(crate) type ConversationId = (LinkId, u64);

/// The conversations of one worker.
#[derive(Default)]
pub(crate) struct Conversations(RefCell<HashMap<ConversationId, Conversation>>);

#[derive(Default)]
struct Conversation {
    /// Messages that the procedure has not taken, oldest first.
    messages: VecDeque<Vec<u8>>,
    /// Why no further message will come.
    ended: Option<Abort>,
    waker: Option<Waker>,
}

impl Conversation {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Conversations {
    /// `ended`: why no message will come.
    pub(crate) fn open(&self, id: ConversationId, ended: Option<Abort>) {
        self.0.borrow_mut().insert(id, Conversation { ended, ..Conversation::default() });
    }

    pub(crate) fn knows(&self, id: ConversationId) -> bool {
        self.0.borrow().contains_key(&id)
    }

    pub(crate) fn close(&self, id: ConversationId) {
        self.0.borrow_mut().remove(&id);
    }

    /// Delivers a client's message. Returns false if there is no such conversation: it has ended,
    /// or an earlier life of this instance had it. Its client must get to know, for it may wait for
    /// an answer to this message.
    pub(crate) fn deliver(&self, id: ConversationId, message: Vec<u8>) -> bool {
        let mut all = self.0.borrow_mut();
        let Some(conversation) = all.get_mut(&id) else { return false };
        conversation.messages.push_back(message);
        conversation.wake();
        true
    }

    /// Ends the conversations of a link that has broken.
    pub(crate) fn link_broke(&self, link: LinkId) {
        self.end(Abort::Abandoned, |id| id.0 == link);
    }

    /// Ends all conversations.
    pub(crate) fn stop(&self) {
        self.end(Abort::Stopping, |_| true);
    }

    fn end(&self, abort: Abort, ends: impl Fn(ConversationId) -> bool) {
        for (_, conversation) in self.0.borrow_mut().iter_mut().filter(|(id, _)| ends(**id)) {
            conversation.ended.get_or_insert(abort);
            conversation.wake();
        }
    }

    /// Waits for the next message of the client.
    pub(crate) async fn next(&self, id: ConversationId) -> Result<Vec<u8>, Abort> {
        std::future::poll_fn(|cx| {
            let mut all = self.0.borrow_mut();
            let Some(conversation) = all.get_mut(&id) else { return Poll::Ready(Err(Abort::BadRequest)) };
            match (conversation.ended, conversation.messages.pop_front()) {
                (Some(abort), _) => Poll::Ready(Err(abort)),
                (None, Some(message)) => Poll::Ready(Ok(message)),
                (None, None) => {
                    conversation.waker = Some(cx.waker().clone());
                    probe::parks_untimed(Poll::Pending)
                }
            }
        })
        .await
    }
}
