//! The card of an end: the facts that the other end needs, as bytes.
//!
//! ```text
//!   0 version  1 mtu  2 buffers:u16  4 queue_pair:u32  8 packet:u32  12 lid:u16  14 0 0
//!  16 buffer_bytes:u32  20 gid[16]  36 0 0 0 0
//! ```
//!
//! Little-endian; the gid as the network has it.

use crate::credits::BUFFERS;
use std::net::Ipv6Addr;

/// Changes with the card, or with the messages between the ends.
const VERSION: u8 = 1;
/// Bytes of one buffer: that of the largest packet.
pub const BUFFER_BYTES: usize = 4096;
/// Queue pairs and packets have numbers of 24 bits.
const NUMBERS: u32 = 1 << 24;

/// The length of a card.
pub const BYTES: usize = 40;

/// One end of a connection that is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Card {
    /// The largest packet of this end's port: 1 for 256 bytes, and twice as much with each further
    /// number up to 5.
    pub mtu: u8,
    /// Receive buffers for data.
    pub buffers: u16,
    pub buffer_bytes: u32,
    pub queue_pair: u32,
    /// The number of the first packet that this end sends.
    pub packet: u32,
    /// The port within an InfiniBand subnet; 0 with Ethernet.
    pub lid: u16,
    /// The port anywhere.
    pub gid: [u8; 16],
}

/// Why a card is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CardError {
    #[error(
        "the peer's end has version {0}, this build makes version {VERSION}: run the same build at both ends"
    )]
    Version(u8),
    #[error("the peer's card has {what} {value}: expected {expected}; is the peer an atoll?")]
    Value { what: &'static str, value: u64, expected: &'static str },
    #[error(
        "the peer's buffers are {0} x {1} bytes, here they are {BUFFERS} x {BUFFER_BYTES}: run the same build at both ends"
    )]
    Buffers(u16, u32),
    #[error("the peer's card names no port; is the peer an atoll?")]
    NoPort,
}

impl Card {
    pub fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        (out[0], out[1]) = (VERSION, self.mtu);
        out[2..4].copy_from_slice(&self.buffers.to_le_bytes());
        out[4..8].copy_from_slice(&self.queue_pair.to_le_bytes());
        out[8..12].copy_from_slice(&self.packet.to_le_bytes());
        out[12..14].copy_from_slice(&self.lid.to_le_bytes());
        out[16..20].copy_from_slice(&self.buffer_bytes.to_le_bytes());
        out[20..36].copy_from_slice(&self.gid);
        out
    }

    /// # Errors
    /// [`CardError`]: no bytes of a peer are used unchecked.
    pub fn decode(from: &[u8; BYTES]) -> Result<Card, CardError> {
        let wide = |at: usize| u32::from_le_bytes([from[at], from[at + 1], from[at + 2], from[at + 3]]);
        let short = |at: usize| u16::from_le_bytes([from[at], from[at + 1]]);
        if from[0] != VERSION {
            return Err(CardError::Version(from[0]));
        }
        let mut gid = [0; 16];
        gid.copy_from_slice(&from[20..36]);
        let card = Card {
            mtu: from[1],
            buffers: short(2),
            buffer_bytes: wide(16),
            queue_pair: wide(4),
            packet: wide(8),
            lid: short(12),
            gid,
        };
        let value = |what, value: u32, expected| CardError::Value { what, value: value.into(), expected };
        if !(1..=5).contains(&card.mtu) {
            return Err(value("a largest packet of kind", card.mtu.into(), "1 to 5"));
        }
        if !(1..NUMBERS).contains(&card.queue_pair) {
            return Err(value("queue pair", card.queue_pair, "a number of 24 bits above 0"));
        }
        if card.packet >= NUMBERS {
            return Err(value("first packet", card.packet, "a number of 24 bits"));
        }
        if (card.buffers, card.buffer_bytes) != (BUFFERS, BUFFER_BYTES as u32) {
            return Err(CardError::Buffers(card.buffers, card.buffer_bytes));
        }
        if card.lid == 0 && card.gid == [0; 16] {
            return Err(CardError::NoPort);
        }
        if short(14) != 0 || wide(36) != 0 {
            return Err(value("unused bytes", wide(36).max(short(14).into()), "zeros"));
        }
        Ok(card)
    }

    /// The gid as an address: with Ethernet it is one.
    pub fn address(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: Card = Card {
        mtu: 3,
        buffers: BUFFERS,
        buffer_bytes: BUFFER_BYTES as u32,
        queue_pair: 17,
        packet: 0xabcdef,
        lid: 0,
        gid: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1],
    };

    #[test]
    fn a_card_is_these_bytes() {
        let bytes = GOOD.encode();
        let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            text,
            "0103400011000000efcdab000000000000100000\
             00000000000000000000ffff0a00000100000000"
        );
        assert_eq!(Card::decode(&bytes), Ok(GOOD));
        assert_eq!(GOOD.address().to_ipv4_mapped(), Some([10, 0, 0, 1].into()));
    }

    #[test]
    fn each_wrong_field_is_named() {
        let wrong = |at: usize, byte: u8| {
            let mut bytes = GOOD.encode();
            bytes[at] = byte;
            Card::decode(&bytes).unwrap_err().to_string()
        };
        assert!(wrong(0, 2).contains("version 2"), "{}", wrong(0, 2));
        for mtu in [0, 6, 255] {
            assert!(wrong(1, mtu).contains("largest packet"), "{}", wrong(1, mtu));
        }
        assert!(wrong(2, 63).contains("63 x 4096"), "{}", wrong(2, 63));
        assert!(wrong(18, 1).contains("x 69632"), "{}", wrong(18, 1));
        assert!(wrong(4, 0).contains("queue pair 0"), "{}", wrong(4, 0));
        assert!(wrong(7, 1).contains("queue pair"), "{}", wrong(7, 1));
        assert!(wrong(11, 1).contains("first packet"), "{}", wrong(11, 1));
        assert!(wrong(15, 1).contains("unused"), "{}", wrong(15, 1));
        assert!(wrong(39, 9).contains("unused"), "{}", wrong(39, 9));
        let nowhere = Card { gid: [0; 16], ..GOOD };
        assert_eq!(Card::decode(&nowhere.encode()), Err(CardError::NoPort));
        assert!(Card::decode(&Card { lid: 5, ..nowhere }.encode()).is_ok());
    }

    proptest! {
        #[test]
        fn bytes_that_are_taken_are_those_of_the_card(bytes in prop::array::uniform32(any::<u8>()), whole: bool) {
            let mut from = if whole { GOOD.encode() } else { [0; BYTES] };
            from[8..].copy_from_slice(&bytes);
            if let Ok(card) = Card::decode(&from) {
                prop_assert_eq!(card.encode(), from);
            }
        }
    }
}
