//! An end that does not know its peer: a queue pair that can receive as soon as it is tied.

use crate::card::{self, BUFFER_BYTES, Card};
use crate::credits::{BUFFERS, Credits, GRANTS, GRANTS_QUEUED};
use crate::device::Port;
use crate::lane::{Tied, Work, post_receive};
use crate::pages::{Buffers, reason};
use channel::fabric::{CARD_BYTES, Lane, LooseEnd, Side};
use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::address::{AddressHandleAttribute, Gid};
use sideway::ibverbs::completion::{BasicCompletionQueue, CompletionChannel};
use sideway::ibverbs::device_context::Mtu;
use sideway::ibverbs::queue_pair::{BasicQueuePair, QueuePair, QueuePairAttribute, QueuePairState};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// Send buffers: as many as the peer has buffers to receive.
pub(crate) const SENDS: u16 = BUFFERS;
/// All receive buffers.
pub(crate) const RECEIVES: u16 = BUFFERS + GRANTS;

/// An answer is awaited for 4.096 us * 2^16 (0.27 s), and then the packet is sent again, up to
/// [`RETRIES`] times: a peer that is gone is known to be so after 2 s.
const TIMEOUT: u8 = 16;
const RETRIES: u8 = 7;
/// A receiver without a buffer is tried again for ever. By the rules of [`Credits`] there is none.
const WITHOUT_END: u8 = 7;
/// 0.64 ms until it is tried again.
const NOT_READY: u8 = 12;
/// Routers between the ends.
const HOPS: u8 = 64;

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

pub(crate) struct Loose {
    end: End,
    card: Card,
    number: u8,
    gid_index: u8,
}

impl Loose {
    /// A new end, with all receive buffers posted.
    ///
    /// # Errors
    /// The device or the system refuses a resource.
    pub(crate) fn new(port: &Port) -> Result<Loose, String> {
        let end = make(port)?;
        let card = Card {
            mtu: port.mtu as u8,
            buffers: BUFFERS,
            buffer_bytes: BUFFER_BYTES as u32,
            queue_pair: end.pair.qp_number(),
            // So that a packet of an earlier connection of the same number is not taken for one of
            // this connection.
            packet: RandomState::new().build_hasher().finish() as u32 & 0xff_ffff,
            lid: port.lid,
            gid: port.gid,
        };
        Ok(Loose { end, card, number: port.number, gid_index: port.gid_index })
    }
}

fn make(port: &Port) -> Result<End, String> {
    let fail = |what: &str, error: &dyn std::error::Error| format!("{what}: {}", reason(error));
    let buffers = Buffers::new(&port.domain, usize::from(RECEIVES + SENDS))?;
    let events = port.context.create_comp_channel().map_err(|e| fail("making a completion channel", &e))?;
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

impl LooseEnd for Loose {
    fn card(&self) -> channel::fabric::Card {
        const { assert!(card::BYTES == CARD_BYTES) };
        self.card.encode()
    }

    fn tie(mut self: Box<Self>, peer: &channel::fabric::Card, side: Side) -> Result<Arc<dyn Lane>, String> {
        let peer = Card::decode(peer).map_err(|e| e.to_string())?;
        let refused = |error: &dyn std::error::Error| {
            format!(
                "no connection with {} ({}): expected a device that reaches it",
                peer.address(),
                reason(error)
            )
        };
        let mut path = AddressHandleAttribute::new();
        path.setup_port(self.number)
            .setup_dest_lid(peer.lid)
            .setup_grh_src_gid_index(self.gid_index)
            .setup_grh_dest_gid(&Gid { raw: peer.gid })
            .setup_grh_hop_limit(HOPS);
        let mut receive = QueuePairAttribute::new();
        receive
            .setup_state(QueuePairState::ReadyToReceive)
            .setup_path_mtu(Mtu::from(u32::from(peer.mtu.min(self.card.mtu))))
            .setup_dest_qp_num(peer.queue_pair)
            .setup_rq_psn(peer.packet)
            .setup_max_dest_read_atomic(0)
            .setup_min_rnr_timer(NOT_READY)
            .setup_address_vector(&path);
        self.end.pair.modify(&receive).map_err(|e| refused(&e))?;
        let mut send = QueuePairAttribute::new();
        send.setup_state(QueuePairState::ReadyToSend)
            .setup_sq_psn(self.card.packet)
            .setup_timeout(TIMEOUT)
            .setup_retry_cnt(RETRIES)
            .setup_rnr_retry(WITHOUT_END)
            .setup_max_read_atomic(0);
        self.end.pair.modify(&send).map_err(|e| refused(&e))?;
        let credits = match side {
            Side::Caller => Credits::of_caller(),
            Side::Listener => Credits::of_listener(),
        };
        Ok(Arc::new(Tied::new(Work::new(self.end, credits))?))
    }
}
