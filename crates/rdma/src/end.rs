//! The resources of one end: a queue pair, its completion queues and its buffers.

use crate::card::BUFFER_BYTES;
use crate::credits::{BUFFERS, GRANTS, GRANTS_QUEUED};
use crate::pages::{Buffers, reason};
use crate::port::Port;
use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::completion::{BasicCompletionQueue, CompletionChannel};
use sideway::ibverbs::queue_pair::{
    BasicQueuePair, QueuePair, QueuePairAttribute, QueuePairState, SetScatterGatherEntry,
};
use std::sync::Arc;

/// Send buffers: as many as the peer has buffers to receive.
pub(crate) const SENDS: u16 = BUFFERS;
/// All receive buffers.
pub(crate) const RECEIVES: u16 = BUFFERS + GRANTS;

/// The resources of one end. The fields are dropped in this order: the queue pair first, since the
/// device may write to the buffers as long as there is one.
pub(crate) struct End {
    pub pair: BasicQueuePair,
    pub received: Arc<BasicCompletionQueue>,
    pub sent: Arc<BasicCompletionQueue>,
    pub events: Arc<CompletionChannel>,
    /// Those to receive, then those to send.
    pub buffers: Buffers,
}

impl End {
    /// An end that can receive as soon as it is tied.
    ///
    /// # Errors
    /// The device or the system refuses a resource.
    pub(crate) fn new(port: &Port) -> Result<End, String> {
        let fail = |what: &str, error: &dyn std::error::Error| format!("{what}: {}", reason(error));
        let buffers = Buffers::new(&port.domain, usize::from(RECEIVES + SENDS))?;
        let events =
            port.context.create_comp_channel().map_err(|e| fail("making a completion channel", &e))?;
        events.set_nonblocking(true).map_err(|e| fail("making a completion channel", &e))?;
        let queue = |entries: u16| {
            let mut builder = port.context.create_cq_builder();
            builder.setup_cqe(entries.into()).setup_comp_channel(&events, 0);
            builder.build().map_err(|e| fail("making a completion queue", &e))
        };
        let (received, sent) = (queue(RECEIVES)?, queue(SENDS + GRANTS_QUEUED)?);
        let pair = port
            .domain
            .create_qp_builder()
            .setup_send_cq(sent.clone())
            .setup_recv_cq(received.clone())
            .setup_max_send_wr((SENDS + GRANTS_QUEUED).into())
            .setup_max_recv_wr(RECEIVES.into())
            .build()
            .map_err(|e| fail("making a queue pair", &e))?;
        let mut end = End { pair, received, sent, events, buffers };
        let mut init = QueuePairAttribute::new();
        init.setup_state(QueuePairState::Init)
            .setup_pkey_index(0)
            .setup_port(port.number)
            .setup_access_flags(AccessFlags::LocalWrite);
        end.pair.modify(&init).map_err(|e| fail("opening a queue pair", &e))?;
        for buffer in 0..RECEIVES {
            post_receive(&mut end.pair, &end.buffers, buffer)?;
        }
        Ok(end)
    }
}

/// Gives a receive buffer to the device.
pub(crate) fn post_receive(pair: &mut BasicQueuePair, buffers: &Buffers, buffer: u16) -> Result<(), String> {
    let (key, at) = buffers.place(buffer.into());
    let mut request = pair.start_post_recv();
    // SAFETY: the place is a whole buffer of memory that is registered under this key and lives
    // longer than the queue pair. No code here touches it until the completion was taken.
    unsafe { request.construct_wr(buffer.into()).setup_sge(key, at, BUFFER_BYTES as u32) };
    request.post().map_err(|error| format!("posting a receive buffer: {error}"))
}
