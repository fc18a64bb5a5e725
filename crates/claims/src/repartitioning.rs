//! The cost of repartitioning and its decisions, counted with the crate that makes the decisions:
//! no engine runs.
//!
//! | value | a row for each | fields |
//! |---|---|---|
//! | `splits` | tree, system | `height`, `fanout`, `m1` .. (by level), `records_moved`, .. |
//! | `merges` | pair and system | `low_height`, `high_height`, `root_entries`, `records`, ... |
//! | `ages` | period | `accesses` in it, `load` after it |
//! | `levels` | load, partition | `requests`, `load`, `ideal`, `work`, `keys`, and `_after` |
//!
//! The thesis (Tözün, section 4.3 and 4.4) has them as tables 4.1 and 4.2 and figures 4.5 and 4.6.

use crate::count_row::row;
use crate::row::Row;
use partition::cost::{Changes, Cost, CostError, Merge, MergeCost, Split, System};
use partition::level::{Drift, Group, level, thesis_ideals, work};
use partition::{BadKeys, Grain, Histogram, PartitionLoad, QueueLength, SubLoad};
use serde::Deserialize;

/// A sub-tree and the place of its split: [`Split`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tree {
    height: usize,
    fanout: u64,
    /// Entries to move on each level, leaves first.
    moved: Vec<u64>,
}

/// Two sub-trees to be merged: [`Merge`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    low_height: usize,
    high_height: usize,
    root_entries: u64,
    records: u64,
}

/// Accesses to one range of keys, one number per period.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ageing {
    /// Periods in memory.
    ages: usize,
    accesses: Vec<u64>,
}

/// Partitions to be levelled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uneven {
    /// The name of this load.
    name: String,
    /// Accesses to each sub-bucket of each partition.
    loads: Vec<Vec<u64>>,
    /// Keys per sub-bucket.
    width: u64,
    /// The share of the ideal load within which levelling stops.
    tolerance: f64,
}

/// An impossible example.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BadExample {
    #[error(transparent)]
    Cost(#[from] CostError),
    #[error(transparent)]
    Keys(#[from] BadKeys),
    #[error("{0}: expected sub-buckets of one key or more in every partition")]
    Nothing(String),
}

/// The name of a system in rows and expressions.
fn word(system: System) -> &'static str {
    match system {
        System::PlpRegular => "plp-regular",
        System::PlpLeaf => "plp-leaf",
        System::PlpPartition => "plp-partition",
        System::SharedNothing => "shared-nothing",
        System::PlpClustered => "plp-clustered",
        System::SharedNothingClustered => "shared-nothing-clustered",
    }
}

/// A row for each of the six systems.
pub(crate) fn splits(tree: &Tree) -> Result<Vec<Row>, BadExample> {
    let split = Split { height: tree.height, fanout: tree.fanout, moved: tree.moved.clone() };
    let of = |system: System| {
        let cost = split.cost(system)?;
        let mut row = row("splits");
        row.set("system", word(system));
        row.set("height", tree.height);
        row.set("fanout", tree.fanout);
        for (level, moved) in tree.moved.iter().enumerate() {
            row.set(&format!("m{}", level + 1), *moved);
        }
        set_cost(&mut row, &cost);
        Ok(row)
    };
    System::ALL.into_iter().map(of).collect()
}

fn set_cost(row: &mut Row, cost: &Cost) {
    row.set("records_moved", cost.records_moved);
    row.set("entries_moved", cost.entries_moved);
    row.set("reads", cost.reads);
    row.set("pages_read", cost.pages_read);
    row.set("pointer_updates", cost.pointer_updates);
    for (index, Changes { updates, inserts, deletes }) in
        [("primary", cost.primary), ("secondary", cost.secondary)]
    {
        for (kind, count) in [("updates", updates), ("inserts", inserts), ("deletes", deletes)] {
            row.set(&format!("{index}_{kind}"), count);
        }
    }
}

/// A row for each form of PLP, and one for shared-nothing.
pub(crate) fn merges(pair: &Pair) -> Vec<Row> {
    let merge = Merge {
        low_height: pair.low_height,
        high_height: pair.high_height,
        high_root_entries: pair.root_entries,
        records: pair.records,
    };
    let of = |(system, cost): (&str, MergeCost)| {
        let mut row = row("merges");
        row.set("system", system);
        row.set("low_height", pair.low_height);
        row.set("high_height", pair.high_height);
        row.set("root_entries", pair.root_entries);
        row.set("records", pair.records);
        row.set("records_moved", cost.records_moved);
        row.set("entries_moved", cost.entries_moved);
        row.set("pages_visited", cost.pages_visited);
        row.set("entries_inserted", cost.entries_inserted);
        row
    };
    [("plp", merge.plp()), ("shared-nothing", merge.shared_nothing())].map(of).into()
}

/// A row for each period.
pub(crate) fn ages(ageing: &Ageing) -> Result<Vec<Row>, BadExample> {
    let grain = Grain { sub_buckets: 1, ages: ageing.ages };
    let mut histogram = Histogram::new(0..1, grain)?;
    let period = |(period, accesses): (usize, &u64)| {
        if period > 0 {
            histogram.age();
        }
        (0..*accesses).for_each(|_| histogram.record(0));
        let mut row = row("ages");
        row.set("period", period + 1);
        row.set("accesses", *accesses);
        row.set("load", histogram.load(0));
        row
    };
    Ok(ageing.accesses.iter().enumerate().map(period).collect())
}

/// A row for each partition, and one for all of them.
pub(crate) fn levels(of: &Uneven) -> Result<Vec<Row>, BadExample> {
    let nothing = of.loads.is_empty() || of.loads.iter().any(Vec::is_empty) || of.width == 0;
    if nothing {
        return Err(BadExample::Nothing(of.name.clone()));
    }
    let loads = told(of);
    let before = work(&loads);
    let mean = before.iter().map(Group::work).sum::<f64>() / before.len() as f64;
    let done = level(before.clone(), &vec![mean; before.len()], of.tolerance * mean, Drift::Carried);
    let ideals = thesis_ideals(&loads);
    let named = |partition: serde_json::Value| {
        let mut row = row("levels");
        row.set("example", of.name.as_str());
        row.set("partition", partition);
        row.set("tolerance", of.tolerance);
        row
    };
    let pieces = |groups: &[Group]| groups.iter().map(|g| g.pieces.len()).sum::<usize>();
    let mut all = named("all".into());
    all.set("sub_buckets", pieces(&before));
    all.set("sub_buckets_after", pieces(&done.groups));
    all.set("halved", done.splits);
    let each = |i: usize| {
        let mut row = named(i.into());
        row.set("requests", loads[i].requests);
        row.set("load", loads[i].load());
        row.set("ideal", ideals[i]);
        row.set("work", before[i].work());
        row.set("work_after", done.groups[i].work());
        row.set("keys", before[i].keys());
        row.set("keys_after", done.groups[i].keys());
        row
    };
    Ok((0..loads.len()).map(each).chain([all]).collect())
}

/// The loads as the partitions' owners report them: every access is a request, counted in the
/// current period.
fn told(of: &Uneven) -> Vec<PartitionLoad> {
    let mut start = 0;
    let mut sub = |accesses: &u64| {
        start += of.width;
        SubLoad { start: start - of.width, load: accesses * partition::WEIGHT }
    };
    let partition = |subs: &Vec<u64>| {
        let requests = subs.iter().sum();
        let subs: Vec<SubLoad> = subs.iter().map(&mut sub).collect();
        let end = subs.last().map_or(0, |last| last.start + of.width);
        PartitionLoad { end, requests, queue: QueueLength(0), subs }
    };
    of.loads.iter().map(partition).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(rows: &[Row], system: &str, field: &str) -> f64 {
        let row = rows.iter().find(|r| r.word("system").as_deref() == Some(system)).expect("a row");
        row.number(field).expect("a number")
    }

    #[test]
    fn a_split_has_a_row_for_each_system() {
        let rows = splits(&Tree { height: 3, fanout: 170, moved: vec![85; 3] }).unwrap();
        assert_eq!(rows.len(), 6);
        assert_eq!(number(&rows, "plp-regular", "entries_moved"), 255.0);
        assert_eq!(number(&rows, "plp-leaf", "secondary_updates"), 85.0);
        assert_eq!(number(&rows, "plp-partition", "pages_read"), 14_365.0);
        assert_eq!(number(&rows, "shared-nothing", "primary_deletes"), 2_441_965.0);
        assert_eq!(number(&rows, "plp-clustered", "m3"), 85.0);
        let error = splits(&Tree { height: 3, fanout: 170, moved: vec![85] }).unwrap_err();
        assert!(error.to_string().contains("height 3"), "{error}");
    }

    #[test]
    fn a_merge_moves_a_root_in_plp_and_a_partition_in_shared_nothing() {
        let rows = merges(&Pair { low_height: 3, high_height: 3, root_entries: 12, records: 9000 });
        assert_eq!(number(&rows, "plp", "entries_moved"), 12.0);
        assert_eq!(number(&rows, "plp", "records_moved"), 0.0);
        assert_eq!(number(&rows, "shared-nothing", "records_moved"), 9000.0);
    }

    #[test]
    fn loads_age_as_in_figure_4_5() {
        let rows = ages(&Ageing { ages: 4, accesses: vec![10, 20, 30, 40, 50] }).unwrap();
        let loads: Vec<f64> = rows.iter().map(|r| r.number("load").unwrap()).collect();
        assert_eq!(loads, [1000.0, 2500.0, 4330.0, 6410.0, 8490.0]);
    }

    #[test]
    fn levelled_partitions_have_as_much_to_do_as_each_other() {
        let uneven = |loads: &[&[u64]]| Uneven {
            name: "x".into(),
            loads: loads.iter().map(|l| l.to_vec()).collect(),
            width: 8,
            tolerance: 0.1,
        };
        let rows = levels(&uneven(&[&[10, 10], &[20, 20]])).unwrap();
        let after: Vec<f64> = rows.iter().filter_map(|r| r.number("work_after")).collect();
        assert_eq!(after, [30.0, 30.0]);
        assert_eq!(rows[0].number("ideal"), Some(3000.0), "in hundredths of an access");
        assert_eq!((rows[2].number("halved"), rows[2].number("sub_buckets_after")), (Some(1.0), Some(5.0)));
        assert!(levels(&uneven(&[&[1], &[]])).unwrap_err().to_string().contains("every partition"));
    }
}
