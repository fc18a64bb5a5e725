//! A procedure's part of a conversation with its client ([`crate::conversations`]).
//!
//! A coordinator gives a transaction up some time after its first remote step, and the next life of
//! a lost peer relies on that ([`opening`](crate::opening)). It relies only on the time from a vote
//! to the decision: until it votes, a participant answers each message from the local transaction
//! that it holds, and its next life has none. A conversation declares no phase as its last, so its
//! votes come after its end. Its deadline is therefore set anew at its end.

use super::Run;
use crate::conversations::ConversationId;
use crate::links::MOST_PAYLOAD;
use crate::local::Local;
use exec::Engine;
use txn::{Abort, Workload};
use wire::Frame;

impl<W: Workload, E: Engine> Run<'_, W, E> {
    /// Says `said` to the client, and waits for its next message.
    pub(super) async fn converse(&mut self, said: &[u8]) -> Result<Vec<u8>, Abort> {
        let local = self.local;
        let id = self.conversation.ok_or(Abort::BadRequest)?;
        if said.len() > MOST_PAYLOAD {
            return Err(Abort::TooLong);
        }
        self.keep_open(u64::MAX);
        local.answer(id.0, said.len(), &Frame::Said { call: id.1, said }).await;
        // This wait has no limit of its own: the client's server sets one.
        local.conversations.next(id).await
    }

    /// Ends the conversation: from here on the coordinator gives the transaction up in its time.
    pub(super) fn end_conversation(&mut self) {
        if self.conversation.is_some() {
            self.keep_open(world::now_ns().saturating_add(self.local.shared.give_up_ns()));
        }
    }

    fn keep_open(&self, until_ns: u64) {
        if let Some(gtid) = self.gtid
            && let Some(home) = self.local.distributed.homes.borrow_mut().get_mut(&gtid)
        {
            home.until_ns = until_ns;
        }
    }
}

/// Ends a request's conversation when the request ends in any way.
pub(crate) struct Open<'l, W: Workload, E: Engine> {
    local: &'l Local<W, E>,
    id: ConversationId,
}

impl<'l, W: Workload, E: Engine> Open<'l, W, E> {
    pub(crate) fn new(local: &'l Local<W, E>, id: ConversationId) -> Open<'l, W, E> {
        let is_gone = local.links.peer(id.0).is_none();
        local.conversations.open(id, is_gone.then_some(Abort::Abandoned));
        Open { local, id }
    }
}

impl<W: Workload, E: Engine> Drop for Open<'_, W, E> {
    fn drop(&mut self) {
        self.local.conversations.close(self.id);
    }
}
