//! An end that does not know its peer: a queue pair that can receive as soon as it is tied.

use crate::card::{self, BUFFER_BYTES, Card};
use crate::credits::{BUFFERS, Credits};
use crate::end::End;
use crate::lane::{Tied, Work};
use crate::pages::reason;
use crate::port::Port;
use channel::fabric::{CARD_BYTES, Lane, LooseEnd, Side};
use sideway::ibverbs::address::{AddressHandleAttribute, Gid};
use sideway::ibverbs::device_context::Mtu;
use sideway::ibverbs::queue_pair::{QueuePair, QueuePairAttribute, QueuePairState};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

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
        let end = End::new(port)?;
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
