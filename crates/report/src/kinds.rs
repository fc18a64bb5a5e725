//! A table of the kinds of transactions in a mix: count, rate, latency, and aborts by reason.

use crate::table::{Align, Cell, Table};
use crate::text::{short, thousands};
use driver::{LatencyUs, ResultRow};
use std::collections::BTreeSet;

/// The name of the last line.
pub const ALL: &str = "all";
/// The reason of rollbacks that the workload asks for.
const USER: &str = "user";

/// The table for rows with a mix of several kinds, each with the name to show; `None` if there is
/// no such row. Without names there is no column for them.
pub fn kinds(rows: &[(String, &ResultRow)]) -> Option<Table> {
    let mixed: Vec<_> = rows.iter().filter(|(_, row)| names(row).len() > 1).collect();
    let reasons: Vec<&str> = {
        let all = mixed.iter().flat_map(|(_, row)| row.aborted_by_kind.values());
        let names: BTreeSet<&str> = all.flat_map(|of| of.keys().map(String::as_str)).collect();
        names.into_iter().filter(|reason| *reason != USER).collect()
    };
    let called = mixed.iter().any(|(name, _)| !name.is_empty());
    let right = |name: &str| (name.to_string(), Align::Right);
    let mut head = vec![("transaction".to_string(), Align::Left)];
    if called {
        head.insert(0, ("deployment".into(), Align::Left));
    }
    head.extend(
        ["committed", "share %", "per second", "p50 µs", "p95 µs", "p99 µs", "user rollbacks"].map(right),
    );
    head.extend(reasons.iter().map(|reason| right(&reason.replace('_', " "))));
    let mut table = Table::new(head);
    for (name, row) in &mixed {
        for kind in names(row).into_iter().map(Some).chain([None]) {
            let first = called.then(|| Cell::text(name));
            table.rows.push(first.into_iter().chain(line(row, kind, &reasons)).collect());
        }
    }
    (!mixed.is_empty()).then_some(table)
}

fn names(row: &ResultRow) -> Vec<&str> {
    let all =
        row.committed_by_kind.keys().chain(row.aborted_by_kind.keys()).chain(row.user_aborted_by_kind.keys());
    all.map(String::as_str).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The line of one kind; `None` for all kinds together.
fn line(row: &ResultRow, kind: Option<&str>, reasons: &[&str]) -> Vec<Cell> {
    let count = |n: u64| Cell::number(n as f64, thousands(n as f64));
    let committed = match kind {
        Some(kind) => row.committed_by_kind.get(kind).copied().unwrap_or(0),
        None => row.committed,
    };
    let rolled_back = match kind {
        Some(kind) => row.user_aborted_by_kind.get(kind).copied().unwrap_or(0),
        None => row.user_rollbacks(),
    };
    let ended = row.committed + row.user_rollbacks();
    let share = (committed + rolled_back) as f64 / (ended.max(1)) as f64 * 100.0;
    // In a window over several instances each has its own rate, so a kind's rate is its share of
    // the sum.
    let tps = row.tps * committed as f64 / row.committed.max(1) as f64;
    let latency: Option<LatencyUs> = match kind {
        Some(kind) => row.latency_us_by_kind.get(kind).copied(),
        None => row.latency_us,
    };
    let us = |value: Option<f64>| value.map_or(Cell::text("–"), |v| Cell::number(v, short(v)));
    let mut cells = vec![
        Cell::text(kind.unwrap_or(ALL)),
        count(committed),
        Cell::number(share, format!("{share:.1}")),
        Cell::number(tps, if tps < 100.0 { short(tps) } else { thousands(tps) }),
        us(latency.map(|l| l.p50)),
        us(latency.and_then(|l| l.p95)),
        us(latency.map(|l| l.p99)),
        count(rolled_back),
    ];
    cells.extend(reasons.iter().map(|reason| {
        let of =
            |reasons: &std::collections::BTreeMap<String, u64>| reasons.get(*reason).copied().unwrap_or(0);
        count(match kind {
            Some(kind) => row.aborted_by_kind.get(kind).map_or(0, of),
            None => of(&row.aborted),
        })
    }));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> std::collections::BTreeMap<String, u64> {
        pairs.iter().map(|(name, n)| (name.to_string(), *n)).collect()
    }

    fn tpcc() -> ResultRow {
        let latency = LatencyUs { p50: 120.0, p95: Some(300.0), p99: 900.0, ..LatencyUs::default() };
        ResultRow {
            tps: 100.0,
            committed: 980,
            committed_by_kind: counts(&[("new_order", 430), ("payment", 550)]),
            user_aborted_by_kind: counts(&[("new_order", 20)]),
            aborted: counts(&[("user", 20), ("deadlock", 7)]),
            aborted_by_kind: [
                ("new_order".to_string(), counts(&[("user", 20), ("deadlock", 3)])),
                ("payment".to_string(), counts(&[("deadlock", 4)])),
            ]
            .into(),
            latency_us: Some(latency),
            latency_us_by_kind: [("payment".to_string(), latency)].into(),
            ..ResultRow::default()
        }
    }

    #[test]
    fn each_kind_has_a_line_and_all_together_have_one() {
        let row = tpcc();
        let table = kinds(&[(String::new(), &row)]).unwrap();
        let head: Vec<&str> = table.head.iter().map(|h| h.0.as_str()).collect();
        let names = [
            "transaction",
            "committed",
            "share %",
            "per second",
            "p50 µs",
            "p95 µs",
            "p99 µs",
            "user rollbacks",
            "deadlock",
        ];
        assert_eq!(head, names);
        let texts = |n: usize| table.rows[n].iter().map(|c| c.text.as_str()).collect::<Vec<_>>();
        assert_eq!(texts(0), ["new_order", "430", "45.0", "43.9", "–", "–", "–", "20", "3"]);
        assert_eq!(texts(1), ["payment", "550", "55.0", "56.1", "120", "300", "900", "0", "4"]);
        assert_eq!(texts(2), ["all", "980", "100.0", "100", "120", "300", "900", "20", "7"]);
        let both = kinds(&[("serial".into(), &row), ("occ".into(), &row)]).unwrap();
        assert_eq!(
            (both.rows.len(), both.head[0].0.as_str(), both.rows[5][0].text.as_str()),
            (6, "deployment", "occ")
        );
    }

    #[test]
    fn one_kind_is_no_mix() {
        let mut row = tpcc();
        row.committed_by_kind.remove("new_order");
        row.user_aborted_by_kind.clear();
        row.aborted_by_kind.remove("new_order");
        assert_eq!(kinds(&[(String::new(), &row)]), None);
    }
}
