//! Contention: critical sections and latches of a transaction, and the locks and pages behind them.

use super::{Amounts, BARS, Section, parts, portion_title, portions, stacked, titled};
use crate::chart::{Figure, Name, View};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep};
use driver::PerTransaction;
use std::collections::BTreeMap;

use super::time::COMPONENTS;

const KINDS: &[&str] = &["fixed", "cooperative", "unbounded"];
const PAGES: &[&str] = &["index", "heap", "catalog", "free_space"];

type Counts = BTreeMap<String, BTreeMap<String, f64>>;

/// Title, id, how to read it, and the ways to count.
type Kind = (&'static str, &'static str, &'static str, fn(&[&PerTransaction]) -> Vec<View>);

const FIGURES: &[Kind] = &[
    (
        "Critical sections of a transaction",
        "sections",
        "Contended sections were occupied and had to be waited for.",
        section_views,
    ),
    (
        "Latches and accesses of a transaction",
        "latches",
        "Page latches by the kind of page; pages visited, records touched and locks taken beside them.",
        latch_views,
    ),
];

pub fn section(rows: &[Row], sweep: &Sweep) -> Section {
    let panels = sweep.panels();
    let of =
        |kind| panels.iter().enumerate().flat_map(move |(i, panel)| figures_of(rows, sweep, panel, i, kind));
    Section {
        id: "sections",
        title: "Critical sections and latches",
        words: "Counts per committed transaction. An unbounded section is one that every worker of an instance may want at once, so it \
            grows with the machine; a fixed one is met by a fixed number of threads; a thread that waits at a cooperative one can have its \
            work done by another.",
        figures: FIGURES.iter().flat_map(of).collect(),
    }
}

fn figures_of(rows: &[Row], sweep: &Sweep, panel: &Panel, number: usize, kind: &Kind) -> Vec<Figure> {
    let (what, id, words, views) = kind;
    let portions = portions(panel, |r| rows[r].row.profile.is_some(), BARS);
    let figure = |(at, portion): (usize, &Vec<usize>)| {
        let profiles: Vec<&PerTransaction> =
            portion.iter().filter_map(|r| rows[*r].row.profile.as_ref()).collect();
        let bars: Vec<Name> = portion.iter().map(|r| sweep.name(*r)).collect();
        let title = portion_title(&titled(what, panel), at, portions.len());
        stacked(format!("{id}-{number}-{at}"), title, words, bars, views(&profiles))
    };
    portions.iter().enumerate().filter_map(figure).collect()
}

fn section_views(profiles: &[&PerTransaction]) -> Vec<View> {
    let per_component = |of: &Counts| of.iter().map(|(c, kinds)| (c.clone(), kinds.values().sum())).collect();
    let per_kind = |of: &Counts| {
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for (kind, n) in of.values().flatten() {
            *sums.entry(kind.clone()).or_default() += n;
        }
        sums
    };
    let entered: Vec<&Counts> = profiles.iter().map(|p| &p.critical_sections_per_txn).collect();
    let contended: Vec<&Counts> = profiles.iter().map(|p| &p.contended_sections_per_txn).collect();
    let view = |name: &str, amounts: Amounts, order: &[&str]| View {
        name: name.into(),
        unit: "sections".into(),
        parts: parts(&amounts, order, 1.0),
    };
    vec![
        view("by component", entered.iter().map(|c| per_component(c)).collect(), COMPONENTS),
        view("by kind", entered.iter().map(|c| per_kind(c)).collect(), KINDS),
        view("contended", contended.iter().map(|c| per_component(c)).collect(), COMPONENTS),
    ]
}

fn latch_views(profiles: &[&PerTransaction]) -> Vec<View> {
    let latches: Amounts = profiles.iter().map(|p| p.latches_per_txn.clone()).collect();
    let some = |names: &[&str]| -> Amounts {
        let chosen = |p: &&PerTransaction| {
            let of = p.accesses_per_txn.iter().filter(|(name, _)| names.contains(&name.as_str()));
            of.map(|(name, n)| (name.replace('_', " "), *n)).collect()
        };
        profiles.iter().map(chosen).collect()
    };
    let view = |name: &str, unit: &str, amounts: Amounts, order: &[&str]| View {
        name: name.into(),
        unit: unit.into(),
        parts: parts(&amounts, order, 1.0),
    };
    vec![
        view("latches", "latches", latches, PAGES),
        view("pages", "visits", some(&["index_pages", "heap_pages"]), &["index pages", "heap pages"]),
        view("records", "records", some(&["records"]), &[]),
        view("locks", "locks", some(&["row_locks", "higher_locks"]), &["row locks", "higher locks"]),
    ]
}
