//! Who met whom: critical sections and latches of a transaction, and the locks and pages behind them.

use super::{Amounts, BARS, Section, parts, portion_title, portions, stacked, titled};
use crate::chart::{Figure, View};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep};
use driver::PerTransaction;
use std::collections::BTreeMap;

use super::time::COMPONENTS;

const KINDS: &[&str] = &["fixed", "cooperative", "unbounded"];
const PAGES: &[&str] = &["index", "heap", "catalog", "free_space"];

type Counts = BTreeMap<String, BTreeMap<String, f64>>;

pub fn section(rows: &[Row], sweep: &Sweep) -> Section {
    let figures = sweep
        .panels()
        .iter()
        .enumerate()
        .flat_map(|(i, panel)| panel_figures(rows, sweep, panel, i))
        .collect();
    Section {
        id: "sections",
        title: "Critical sections and latches",
        words: "Counts per committed transaction. An unbounded section is one that every worker of an instance may want at once, so it \
            grows with the machine; a fixed one is met by a fixed number of threads; whoever waits at a cooperative one can have its \
            work done by another.",
        figures,
    }
}

fn panel_figures(rows: &[Row], sweep: &Sweep, panel: &Panel, number: usize) -> Vec<Figure> {
    let portions = portions(panel, |r| rows[r].row.profile.is_some(), BARS);
    let mut figures = Vec::new();
    for (at, portion) in portions.iter().enumerate() {
        let profiles: Vec<&PerTransaction> =
            portion.iter().filter_map(|r| rows[*r].row.profile.as_ref()).collect();
        let bars: Vec<String> = portion.iter().map(|r| sweep.name_in_panel(*r)).collect();
        let title = |what: &str| portion_title(&titled(what, panel), at, portions.len());
        figures.extend(stacked(
            format!("sections-{number}-{at}"),
            title("Critical sections of a transaction"),
            "Contended sections were occupied and had to be waited for.",
            bars.clone(),
            section_views(&profiles),
        ));
        figures.extend(stacked(
            format!("latches-{number}-{at}"),
            title("Latches and accesses of a transaction"),
            "Page latches by what the page holds; pages visited, records touched and locks taken beside them.",
            bars,
            latch_views(&profiles),
        ));
    }
    figures
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
