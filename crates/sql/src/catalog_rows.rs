//! Where the catalog and the numbers of sequences are stored, and the rows of a physical table as
//! an audit visits them.

use crate::catalog::{Catalog, Oid, Store};
use crate::place::{self, Placed};
use crate::{Datum, SqlError, SqlState};
use base::counted;
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

/// The catalog in the row of a slot. A database has one at each slot from its beginning.
///
/// # Errors
/// There is no row, or its bytes are no catalog of this version: the database must not pass for an
/// empty one.
pub(crate) fn catalog_in(slot: u32, row: Option<&[u8]>) -> Result<Catalog, SqlError> {
    let read = |bytes: &[u8]| match postcard::take_from_bytes::<Catalog>(bytes) {
        Ok((catalog, [])) => Some(catalog),
        _ => None,
    };
    // One from before there were types ends where their number stands.
    if let Some(catalog) = row.and_then(|row| read(row).or_else(|| read(&[row, &[0]].concat()))) {
        return Ok(catalog);
    }
    let found = match row.map(postcard::take_from_bytes::<Catalog>) {
        Some(Ok((_, rest))) => {
            format!("{} more than a catalog has are in its row", counted(rest.len(), "byte"))
        }
        Some(Err(_)) => format!(
            "its row has {} that this version cannot read",
            counted(row.map_or(0, <[u8]>::len), "byte")
        ),
        None => "its row is missing".to_owned(),
    };
    let message = format!(
        "the catalog at slot {slot}: {found}; another version of Atoll has written it, or it is damaged: serve the \
         database with the version that made it, or restore a backup"
    );
    Err(SqlError::new(SqlState::DATA_CORRUPTED, message))
}

/// Reads the copy of the catalog of one slot.
pub(crate) async fn catalog_at<A: Access>(
    slot: u32,
    access: &mut A,
) -> Result<Result<Catalog, SqlError>, Abort> {
    let at = catalog_place(slot);
    let key = place::physical_key(at.slot, &at.key);
    let row = access.read(place::table_id(CATALOG), &key, |row| row.bytes(place::ROW).to_vec()).await?;
    Ok(catalog_in(slot, row.as_deref()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_catalog_do_not_pass_for_an_empty_one() {
        let catalog = Catalog { version: 300, next_oid: 7, ..Catalog::default() };
        let bytes = postcard::to_stdvec(&catalog).unwrap();
        assert_eq!(catalog_in(3, Some(&bytes)), Ok(catalog.clone()));
        let refused = |row: Option<&[u8]>, found: &str| {
            let error = catalog_in(3, row).unwrap_err();
            assert_eq!(error.state, SqlState::DATA_CORRUPTED);
            assert!(
                error.message.starts_with("the catalog at slot 3: ") && error.message.contains(found),
                "{error}"
            );
            assert!(
                error.message.ends_with("or restore a backup") && !error.message.contains('\n'),
                "{error}"
            );
        };
        refused(None, "its row is missing");
        // Without its last byte it is a catalog from before there were types.
        assert_eq!(catalog_in(3, Some(&bytes[..bytes.len() - 1])), Ok(catalog));
        for cut in 0..bytes.len() - 1 {
            refused(Some(&bytes[..cut]), &format!("its row has {} that this", counted(cut, "byte")));
        }
        refused(Some(&[0xff; 12]), "its row has 12 bytes that this version cannot read");
        // Zeros, as of a page that was never written, begin like an empty catalog.
        refused(Some(&[0; 40]), "33 bytes more than a catalog has");
        refused(Some(&[&bytes[..], &[1]].concat()), "1 byte more");
    }
}
