//! The four tables, and the table of subscriber numbers for an index that is not aligned.
//!
//! Subscribers count from 1. The routing domain is one longer than their number, so S_ID is the
//! routing key unchanged, and every site has the same number of them. Bits, digits and bytes are
//! four-byte integers, the smallest type: a row of SUBSCRIBER has 159 bytes (100 in the research
//! driver). Locations are unsigned 32-bit numbers and take eight bytes.

use super::{Index, TatpOptions};
use crate::columns::columns;
use base::{Key, TableId};
use txn::schema::{Column, IndexDef, Schema, TableDef, Type};

pub const SUBSCRIBER: TableId = TableId(1);
/// SUBSCRIBER by (S_ID, SUB_NBR), if the index is aligned with the table.
pub const SUBSCRIBER_NUMBER: TableId = TableId(2);
pub const ACCESS_INFO: TableId = TableId(3);
pub const SPECIAL_FACILITY: TableId = TableId(4);
pub const CALL_FORWARDING: TableId = TableId(5);
/// SUB_NBR to S_ID, as a table of its own, if the index is not aligned.
pub const NUMBER: TableId = TableId(6);

columns! { subscriber:
    S_ID I32; SUB_NBR Char(15);
    BIT_1 I32; BIT_2 I32; BIT_3 I32; BIT_4 I32; BIT_5 I32; BIT_6 I32; BIT_7 I32; BIT_8 I32; BIT_9 I32; BIT_10 I32;
    HEX_1 I32; HEX_2 I32; HEX_3 I32; HEX_4 I32; HEX_5 I32; HEX_6 I32; HEX_7 I32; HEX_8 I32; HEX_9 I32; HEX_10 I32;
    BYTE2_1 I32; BYTE2_2 I32; BYTE2_3 I32; BYTE2_4 I32; BYTE2_5 I32; BYTE2_6 I32; BYTE2_7 I32; BYTE2_8 I32; BYTE2_9 I32; BYTE2_10 I32;
    MSC_LOCATION I64; VLR_LOCATION I64;
}
columns! { access_info: S_ID I32; AI_TYPE I32; DATA1 I32; DATA2 I32; DATA3 Char(3); DATA4 Char(5); }
columns! { special_facility: S_ID I32; SF_TYPE I32; IS_ACTIVE I32; ERROR_CNTRL I32; DATA_A I32; DATA_B Char(5); }
columns! { call_forwarding: S_ID I32; SF_TYPE I32; START_TIME I32; END_TIME I32; NUMBERX Char(15); }
columns! { number: SLOT I32; SUB_NBR Char(15); S_ID I32; }

/// The columns of SUBSCRIBER that come in tens, with the largest value of each.
pub(super) const TENS: [(u16, u32); 3] =
    [(subscriber::BIT_1, 1), (subscriber::HEX_1, 15), (subscriber::BYTE2_1, 255)];

/// Fifteen digits: a SUB_NBR or a NUMBERX.
pub type Digits = [u8; 15];

/// A number as fifteen digits.
pub fn digits(number: u64) -> Digits {
    let mut rest = number;
    let mut digits = [b'0'; 15];
    for digit in digits.iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    digits
}

pub(super) fn schema(options: &TatpOptions) -> Schema {
    let domain = u64::from(options.population()) + 1;
    let mut tables = vec![
        TableDef::new(SUBSCRIBER, "SUBSCRIBER", subscriber::list(), &[0], domain),
        TableDef::new(ACCESS_INFO, "ACCESS_INFO", access_info::list(), &[0, 1], domain),
        TableDef::new(SPECIAL_FACILITY, "SPECIAL_FACILITY", special_facility::list(), &[0, 1], domain),
        TableDef::new(CALL_FORWARDING, "CALL_FORWARDING", call_forwarding::list(), &[0, 1, 2], domain),
    ];
    match options.index {
        Index::Aligned => tables[0].indexes.push(IndexDef {
            id: SUBSCRIBER_NUMBER,
            name: "SUBSCRIBER_NUMBER".into(),
            columns: vec![subscriber::S_ID, subscriber::SUB_NBR],
        }),
        Index::NonAligned => tables.push(TableDef::new(NUMBER, "NUMBER", number::list(), &[0, 1], domain)),
    }
    Schema { tables }
}

/// A key of integers, or the beginning of one.
pub(super) fn key<const N: usize>(columns: [u32; N]) -> Key {
    columns.into_iter().fold(Key::new(), |key, column| key.i64(i64::from(column)))
}

/// The first column of a subscriber's entry in either index, then its number.
pub(super) fn number_key(place: u32, subscriber: u32) -> Key {
    key([place]).bytes(&digits(subscriber.into()))
}

/// CALL_FORWARDING, for building its rows.
pub(super) fn forwarding_table() -> TableDef {
    TableDef::new(CALL_FORWARDING, "CALL_FORWARDING", call_forwarding::list(), &[0, 1, 2], 1)
}
