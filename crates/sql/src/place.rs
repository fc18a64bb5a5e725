//! Where rows are stored: slots, and keys of the physical tables.
//!
//! Each physical table has the columns (slot, key, row). Its key is the slot, which is also the
//! routing key of steps, and the encoded key of the SQL table or index. Rows of one slot lie
//! together, in the order of their keys.

use crate::catalog::{Slots, Store};
use crate::program::{Stored, StoredIndex};
use crate::{Datum, key};
use base::{Key, TableId};
use std::cell::RefCell;
use txn::{Column, Route, RowBuf, TableDef, Type};

/// Bytes of the longest encoded key. A tree's page of 8 KiB takes keys of an eighth of it.
pub const LONGEST_KEY: u32 = 900;
/// Bytes of the longest stored row.
pub const LONGEST_ROW: u32 = 1 << 20;

/// The physical table `store`, over `sites` slots.
pub fn physical_table(store: Store, sites: u32) -> TableDef {
    let columns = vec![
        Column::new("slot", Type::I64),
        Column::new("key", Type::Text(LONGEST_KEY)),
        Column::new("row", Type::Text(LONGEST_ROW)),
    ];
    TableDef::new(table_id(store), &format!("store{}", store.0), columns, &[0, 1], sites.into())
}

/// Positions of the columns of a physical table.
pub const SLOT: u16 = 0;
pub const KEY: u16 = 1;
pub const ROW: u16 = 2;

/// The engine's number of a physical table. Engines count tables from 1.
pub fn table_id(store: Store) -> TableId {
    TableId(store.0 + 1)
}

/// A row of a physical table, in the form of [`txn::row`].
pub fn physical_row(slot: u32, key: &[u8], row: &[u8]) -> Vec<u8> {
    thread_local!(static BUFFER: RefCell<RowBuf> =
        RefCell::new(RowBuf::new(&physical_table(Store(0), 1))));
    BUFFER.with_borrow_mut(|buffer| {
        let mut physical = buffer.start();
        physical.set_int(SLOT, slot.into());
        physical.set_bytes(KEY, key);
        physical.set_bytes(ROW, row);
        buffer.bytes().to_vec()
    })
}

/// The route of a step on a slot.
pub fn route(store: Store, slot: u32) -> Route {
    Route { table: table_id(store), key: slot.into() }
}

/// The key of a row in its physical table. `encoded` is the key in the form of [`crate::key`].
pub fn physical_key(slot: u32, encoded: &[u8]) -> Key {
    Key::new().i64(slot.into()).bytes(encoded)
}

/// The slot and the encoded key in a key of a physical table.
pub fn slot_and_key(physical: &[u8]) -> Option<(u32, Vec<u8>)> {
    let mut reader = base::KeyReader::new(physical);
    Some((u32::try_from(reader.i64()?).ok()?, reader.bytes()?))
}

/// The bytes before every physical key of `slot` of which the encoded key begins with `prefix`.
pub fn physical_prefix(slot: u32, prefix: &[u8]) -> Key {
    let whole = physical_key(slot, prefix);
    // The end mark of the encoded key is left out.
    Key::from_bytes(&whole[..whole.len() - 2])
}

/// The encoded key of these values.
pub fn encode_key(values: &[Datum]) -> Vec<u8> {
    let mut out = Vec::with_capacity(16);
    values.iter().for_each(|value| key::append(&mut out, value));
    out
}

/// The slot of a key, which may be cut behind the positions that decide it: `None` if one of those
/// is missing.
pub fn slot_of(slots: &Slots, values: &[Datum], sites: u32) -> Option<u32> {
    let sites_wide = i64::from(sites);
    match slots {
        Slots::Hash(positions) => {
            let mut bytes = Vec::with_capacity(32);
            for &position in positions {
                key::append(&mut bytes, values.get(usize::from(position))?);
            }
            Some((base::hash64(&bytes) % u64::from(sites)) as u32)
        }
        Slots::Runs { position, run } => match values.get(usize::from(*position))? {
            Datum::Int(value) => Some(value.div_euclid((*run).into()).rem_euclid(sites_wide) as u32),
            // A key column can be null in an index only.
            _ => Some(0),
        },
        Slots::Ranges { position, bounds } => match values.get(usize::from(*position))? {
            Datum::Int(value) => {
                let range = bounds.partition_point(|bound| bound <= value);
                Some((range as u64 * u64::from(sites) / (bounds.len() as u64 + 1)) as u32)
            }
            _ => Some(0),
        },
    }
}

/// The slots that may have keys of which the first values are `equal`, and the next one lies in
/// `low..=high` (`None` is unbounded).
pub fn slots_of_range(
    slots: &Slots,
    equal: &[Datum],
    (low, high): (Option<&Datum>, Option<&Datum>),
    sites: u32,
) -> Vec<u32> {
    if let Some(slot) = slot_of(slots, equal, sites) {
        return vec![slot];
    }
    let all = || (0..sites).collect();
    let (position, ends) = match slots {
        Slots::Hash(_) => return all(),
        Slots::Runs { position, .. } | Slots::Ranges { position, .. } => (*position, (low, high)),
    };
    let (Some(Datum::Int(low)), Some(Datum::Int(high))) = ends else {
        return all();
    };
    if usize::from(position) != equal.len() {
        return all();
    }
    match slots {
        Slots::Runs { run, .. } => {
            let (first, last) = (low.div_euclid((*run).into()), high.div_euclid((*run).into()));
            if last < first {
                return Vec::new();
            }
            if last.saturating_sub(first) >= i64::from(sites) - 1 {
                return all();
            }
            (first..=last).map(|run| run.rem_euclid(i64::from(sites)) as u32).collect()
        }
        _ => {
            let at = |value: i64| {
                let values: Vec<Datum> = equal.iter().cloned().chain([Datum::Int(value)]).collect();
                slot_of(slots, &values, sites).unwrap_or(0)
            };
            let mut slots: Vec<u32> = (at(*low)..=at(*high).max(at(*low))).collect();
            slots.dedup();
            slots
        }
    }
}

/// The place of a row or an entry: its slot and its encoded key.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Placed {
    pub slot: u32,
    pub key: Vec<u8>,
}

impl Stored {
    /// The place of the row with these key values.
    pub fn place(&self, key: &[Datum], sites: u32) -> Placed {
        let slot = if self.key.is_empty() {
            hidden_slot(key, sites)
        } else {
            slot_of(&self.slots, key, sites).unwrap_or(0)
        };
        Placed { slot, key: encode_key(key) }
    }
}

/// The slot of a row that has a hidden key: the number of a statement and that of a row in it. Runs
/// of rows go round the slots.
fn hidden_slot(key: &[Datum], sites: u32) -> u32 {
    let [Datum::Int(statement), Datum::Int(row)] = key else { return 0 };
    statement.wrapping_add(row / 64).rem_euclid(i64::from(sites)) as u32
}

impl StoredIndex {
    /// The place of an entry: the indexed values, and where they do not determine the row, the
    /// row's key behind them.
    pub fn place(&self, values: &[Datum], row_key: &[u8], sites: u32) -> Placed {
        let slot = slot_of(&self.slots, values, sites).unwrap_or(0);
        let mut key = encode_key(values);
        if !self.unique || values.iter().any(Datum::is_null) {
            key.extend_from_slice(row_key);
        }
        Placed { slot, key }
    }
}

/// The content of an index entry: the place of its row.
pub fn entry(row: &Placed) -> Vec<u8> {
    let mut bytes = row.slot.to_le_bytes().to_vec();
    bytes.extend_from_slice(&row.key);
    bytes
}

/// The place that an index entry leads to.
pub fn place_in_entry(bytes: &[u8]) -> Option<Placed> {
    let (slot, key) = bytes.split_first_chunk()?;
    Some(Placed { slot: u32::from_le_bytes(*slot), key: key.to_vec() })
}
