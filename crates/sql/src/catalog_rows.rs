//! Where the catalog and the numbers of sequences are stored, and the rows of a physical table as
//! an audit visits them.

use crate::Datum;
use crate::catalog::{Catalog, Oid, Store};
use crate::place::{self, Placed};
use txn::{Abort, Access, Direction, Flow};

/// The physical table of the catalog.
pub const CATALOG: Store = Store(0);

/// The place of a slot's copy of the catalog.
pub(crate) fn catalog_place(slot: u32) -> Placed {
    Placed { slot, key: Vec::new() }
}

/// The place of a sequence's number.
pub(crate) fn sequence_place(sequence: Oid, sites: u32) -> Placed {
    Placed { slot: sequence.0 % sites, key: place::encode_key(&[Datum::Int(sequence.0.into())]) }
}

/// Reads the copy of the catalog of one slot.
pub(crate) async fn catalog_at<A: Access>(slot: u32, access: &mut A) -> Result<Option<Catalog>, Abort> {
    let at = catalog_place(slot);
    let key = place::physical_key(at.slot, &at.key);
    let bytes = access.read(place::table_id(CATALOG), &key, |row| row.bytes(place::ROW).to_vec()).await?;
    Ok(bytes.and_then(|bytes| postcard::from_bytes(&bytes).ok()))
}

/// Visits the rows of a physical table.
pub(crate) async fn visit_rows<A: Access>(
    store: Store,
    access: &mut A,
    mut visit: impl FnMut(Placed, &[u8]),
) -> Result<(), Abort> {
    access
        .scan(place::table_id(store), txn::Range::ALL, Direction::Forward, |physical, row| {
            if let Some((slot, key)) = place::slot_and_key(physical) {
                visit(Placed { slot, key }, row.bytes(place::ROW));
            }
            Flow::More
        })
        .await
}
