//! Notes with keys into a recording with numbers.

use super::note::{self, Note, Seen};
use super::{Header, Recorded, Recording, Table, Touch, VERSION, estimate};
use base::TableId;
use std::collections::{BTreeMap, BTreeSet};
use txn::Schema;

/// The rows of a table and site, by key, with the transactions that touched each; the last one
/// counts once.
type Rows<'a> = BTreeMap<&'a [u8], (u32, usize)>;

/// Describes the run of which these are the notes.
pub(super) fn recording(of: &note::Recorded, notes: &[Note]) -> Recording {
    let (sites, schema) = (of.placement.sites(), &of.schema);
    let seen =
        || notes.iter().enumerate().flat_map(|(at, note)| note.phases.iter().flatten().map(move |s| (at, s)));
    let ids: BTreeSet<TableId> = seen().map(|(_, seen)| seen.table).collect();
    let position = |id: TableId| ids.iter().position(|known| *known == id).unwrap_or(0);
    let mut rows: Vec<BTreeMap<u32, Rows<'_>>> = vec![BTreeMap::new(); ids.len()];
    for (at, seen) in seen() {
        let Some(key) = &seen.key else { continue };
        let of_site = rows[position(seen.table)].entry(seen.site.unwrap_or(0)).or_default();
        let (times, last) = of_site.entry(key).or_insert((0, usize::MAX));
        if *last != at {
            (*times, *last) = (*times + 1, at);
        }
    }
    let numbers: Vec<BTreeMap<u32, BTreeMap<&[u8], u64>>> =
        rows.iter().map(|sites| sites.iter().map(|(site, rows)| (*site, popular(rows))).collect()).collect();
    let tables = ids.iter().enumerate();
    let tables: Vec<Table> =
        tables.map(|(at, id)| table(*id, schema, &rows[at], seen().map(|(_, seen)| seen))).collect();
    let kinds: BTreeSet<&str> = notes.iter().map(|note| note.kind).collect();
    let touch = |seen: &Seen| {
        let (table, site) = (position(seen.table), seen.site.unwrap_or(0));
        let of_site = numbers[table].get(&site);
        let row = of_site.zip(seen.key.as_deref()).and_then(|(of_site, key)| of_site.get(key)).copied();
        Touch { table: table as u16, site, op: seen.op, row, count: seen.count.max(1) }
    };
    let transactions = notes.iter().map(|note| {
        let kind = kinds.iter().position(|kind| *kind == note.kind).unwrap_or(0);
        let first = note.phases.iter().flatten().find_map(|seen| seen.site);
        let phases = note.phases.iter().filter(|phase| !phase.is_empty());
        let phases = phases.map(|phase| phase.iter().map(touch).collect()).collect();
        Recorded(kind as u16, note.home.or(first).unwrap_or(0), phases)
    });
    Recording {
        transactions: transactions.collect(),
        header: Header {
            atoll_recording: VERSION,
            source: of.source.clone(),
            sites,
            is_routed: of.is_routed,
            tables,
            kinds: kinds.into_iter().map(str::to_owned).collect(),
        },
    }
}

/// Numbers for the rows that several transactions touched.
fn popular<'a>(rows: &Rows<'a>) -> BTreeMap<&'a [u8], u64> {
    let again = rows.iter().filter(|(_, (times, _))| *times > 1);
    again.enumerate().map(|(number, (key, _))| (*key, number as u64)).collect()
}

fn table<'a>(
    id: TableId,
    schema: &Schema,
    rows: &BTreeMap<u32, Rows<'_>>,
    seen: impl Iterator<Item = &'a Seen>,
) -> Table {
    let mut index =
        schema.tables.iter().flat_map(|table| table.indexes.iter().map(move |index| (table, index)));
    let (name, is_replicated) = match (schema.table(id), index.find(|(_, index)| index.id == id)) {
        (Some(table), _) => (table.name.clone(), table.domain == 0),
        (None, Some((table, index))) => (format!("{}.{}", table.name, index.name), table.domain == 0),
        (None, None) => (format!("table {}", id.0), false),
    };
    let (bytes, measured) = seen
        .filter(|seen| seen.table == id && seen.bytes > 0)
        .fold((0u64, 0u64), |(sum, n), seen| (sum + u64::from(seen.bytes), n + 1));
    let times = |n| rows.values().flat_map(BTreeMap::values).filter(|(times, _)| *times == n).count() as u64;
    let distinct = rows.values().map(|of_site| of_site.len() as u64).sum();
    let rows = estimate(distinct, times(1), times(2)).max(1);
    Table { name, row_bytes: (bytes / measured.max(1)) as u32, rows, is_replicated }
}
