//! Whether indexes and tables agree.
//!
//! The entries of an index may lie at other instances than their rows. So each instance sums up the
//! entries that its rows should have, and those that it has. Over all instances both sums are equal
//! if each row has its entries and no entry is left over: the sums are of 64-bit hashes.

use crate::catalog::Oid;
use crate::catalog_rows::{catalog_at, visit_rows};
use crate::place;
use crate::program::Stored;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use txn::{Abort, Access, Verdict};

/// One instance's sums.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Audit {
    indexes: BTreeMap<Oid, Sums>,
    /// Rows that cannot be decoded, and the like.
    damages: Vec<String>,
    /// The versions of the catalog's copies.
    versions: Vec<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Sums {
    name: String,
    /// Entries that the rows should have: number and sum.
    expected: (u64, u64),
    /// Entries that are there.
    found: (u64, u64),
}

fn add(sum: &mut (u64, u64), place: &place::Placed, entry: &[u8]) {
    let bytes = [&place.slot.to_le_bytes()[..], &place.key, &[0, 0], entry].concat();
    *sum = (sum.0 + 1, sum.1.wrapping_add(base::hash64(&bytes)));
}

/// Sums up what the instance with these sites has.
///
/// # Errors
/// As the access has them.
pub(crate) async fn audit<A: Access>(
    sites_in_all: u32,
    sites: Range<u32>,
    access: &mut A,
) -> Result<Audit, Abort> {
    let mut audit = Audit::default();
    let mut readable = None;
    for site in sites {
        match catalog_at(site, access).await? {
            Ok(catalog) => {
                audit.versions.push(catalog.version);
                readable.get_or_insert(catalog);
            }
            Err(error) => audit.damages.push(error.to_string()),
        }
    }
    // Without a copy of the catalog nothing is known of the rows.
    let Some(catalog) = readable else { return Ok(audit) };
    for table in catalog.tables.values() {
        let stored = Stored::of(table);
        let mut sums: Vec<Sums> =
            table.indexes.iter().map(|i| Sums { name: i.name.clone(), ..Sums::default() }).collect();
        visit_rows(stored.store, access, |at, row| match stored.layout().decode_all(row) {
            Err(error) => audit.damages.push(format!("a row of {} at slot {}: {error}", table.name, at.slot)),
            Ok(values) => {
                let key: Vec<_> = table.key.iter().map(|&c| values[usize::from(c)].clone()).collect();
                if !table.key.is_empty() && stored.place(&key, sites_in_all) != at {
                    audit.damages.push(format!("a row of {} is not stored under its key", table.name));
                }
                for (sums, index) in sums.iter_mut().zip(&stored.indexes) {
                    let values: Vec<_> =
                        index.columns.iter().map(|&c| values[usize::from(c)].clone()).collect();
                    let place = index.place(&values, &at.key, sites_in_all);
                    add(&mut sums.expected, &place, &place::entry(&at));
                }
            }
        })
        .await?;
        for (sums, index) in sums.iter_mut().zip(&stored.indexes) {
            visit_rows(index.store, access, |at, entry| add(&mut sums.found, &at, entry)).await?;
        }
        audit.indexes.extend(table.indexes.iter().map(|index| index.oid).zip(sums));
    }
    Ok(audit)
}

/// Judges the sums of all instances.
pub(crate) fn judge(audits: Vec<Audit>) -> Verdict {
    let mut violations: Vec<String> = Vec::new();
    let mut indexes: BTreeMap<Oid, Sums> = BTreeMap::new();
    let mut versions: Vec<u64> = Vec::new();
    let compares = audits.iter().all(|audit| !audit.versions.is_empty());
    for audit in audits {
        violations.extend(audit.damages);
        versions.extend(audit.versions);
        for (oid, sums) in audit.indexes {
            let all = indexes.entry(oid).or_default();
            all.name = sums.name;
            for (all, one) in [(&mut all.expected, sums.expected), (&mut all.found, sums.found)] {
                *all = (all.0 + one.0, all.1.wrapping_add(one.1));
            }
        }
    }
    versions.dedup();
    if versions.len() > 1 {
        violations.push(format!("copies of the catalog have different versions: {versions:?}"));
    }
    // An instance that has no copy of the catalog has summed up nothing.
    for sums in indexes.values().filter(|sums| compares && sums.expected != sums.found) {
        let (expected, found) = (sums.expected.0, sums.found.0);
        let others = if expected == found { ", and some of them are others" } else { "" };
        violations.push(format!(
            "index {}: the rows of its table need {expected} entries, found {found}{others}",
            sums.name
        ));
    }
    Verdict { violations }
}
