//! Rows to figures, by what a reader asks: how fast, where the time goes, how long for whom, who met whom, and when.

mod latency;
mod overview;
mod seconds;
mod sections;
mod throughput;
mod time;

pub use overview::{NOISY, all_rows, winners};

use crate::chart::{Chart, Figure, Name, Part, View};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep};
use crate::table::{Align, Cell, Table};
use crate::text::short;
use std::collections::BTreeMap;

/// Bars of one chart that can still be compared.
const BARS: usize = 24;

/// Figures that answer one question.
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    /// How to read the figures.
    pub words: &'static str,
    pub figures: Vec<Figure>,
}

/// Every section for which the rows have something.
pub fn sections(rows: &[Row], sweep: &Sweep) -> Vec<Section> {
    let mut all = throughput::sections(rows, sweep);
    all.extend([
        time::section(rows, sweep),
        latency::section(rows, sweep),
        sections::section(rows, sweep),
        seconds::section(rows, sweep),
    ]);
    all.retain(|s| !s.figures.is_empty());
    all
}

/// What a figure of a panel is called.
fn titled(what: &str, panel: &Panel) -> String {
    if panel.name.is_empty() { what.into() } else { format!("{what}: {}", panel.name) }
}

/// The rows of a panel that have something, in portions that fit a chart.
fn portions(panel: &Panel, has: impl Fn(usize) -> bool, at_most: usize) -> Vec<Vec<usize>> {
    let rows: Vec<usize> = panel.rows().filter(|r| has(*r)).collect();
    rows.chunks(at_most).map(<[usize]>::to_vec).collect()
}

/// `Title`, or `Title (2 of 3)`.
fn portion_title(title: &str, at: usize, of: usize) -> String {
    if of > 1 { format!("{title} ({} of {of})", at + 1) } else { title.into() }
}

/// Parts of a whole for each row: name -> amount.
type Amounts = Vec<BTreeMap<String, f64>>;

/// Parts in the order of `order`, then what is not in there; what is nothing everywhere is left out.
fn parts(amounts: &Amounts, order: &[&str], scale: f64) -> Vec<Part> {
    let rank = |name: &str| order.iter().position(|o| *o == name).unwrap_or(order.len());
    let mut names: Vec<&String> = amounts.iter().flat_map(BTreeMap::keys).collect();
    names.sort_by_key(|name| (rank(name), name.as_str()));
    names.dedup();
    let value = |of: &BTreeMap<String, f64>, name: &str| {
        of.get(name).copied().filter(|v| v.is_finite()).unwrap_or_default().max(0.0) * scale
    };
    let part = |name: &String| Part {
        name: name.clone(),
        values: amounts.iter().map(|of| value(of, name)).collect(),
    };
    names.into_iter().map(part).filter(|p| p.values.iter().any(|v| *v > 0.0)).collect()
}

/// The same, each bar brought to 100.
fn shares(parts: &[Part]) -> Vec<Part> {
    let bars = parts.first().map_or(0, |p| p.values.len());
    let whole: Vec<f64> = (0..bars).map(|b| parts.iter().map(|p| p.values[b]).sum()).collect();
    let share = |p: &Part| Part {
        name: p.name.clone(),
        values: p
            .values
            .iter()
            .zip(&whole)
            .map(|(v, w)| if *w > 0.0 { v / w * 100.0 } else { 0.0 })
            .collect(),
    };
    parts.iter().map(share).collect()
}

/// A row of the table for each bar, a column for each part of the first view.
fn stacked_table(bars: &[Name], view: &View) -> Table {
    let head = [("".to_string(), Align::Left), (format!("all, {}", view.unit), Align::Right)];
    let parts = view.parts.iter().map(|p| (p.name.clone(), Align::Right));
    let mut table = Table::new(head.into_iter().chain(parts));
    for (b, bar) in bars.iter().enumerate() {
        let whole: f64 = view.parts.iter().map(|p| p.values[b]).sum();
        let cells = view.parts.iter().map(|p| Cell::number(p.values[b], short(p.values[b])));
        let first = [Cell::text(bar.to_string()), Cell::number(whole, short(whole))];
        table.rows.push(first.into_iter().chain(cells).collect());
    }
    table
}

/// `None` when there is nothing to stack. The table is that of the first view.
fn stacked(id: String, title: String, caption: &str, bars: Vec<Name>, views: Vec<View>) -> Option<Figure> {
    let views: Vec<View> = views.into_iter().filter(|v| !v.parts.is_empty()).collect();
    let table = stacked_table(&bars, views.first()?);
    Some(Figure { id, title, caption: caption.into(), chart: Chart::Stacked { bars, views }, table })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_order_and_shares_add_up() {
        let of = |pairs: &[(&str, f64)]| pairs.iter().map(|(k, v)| (k.to_string(), *v)).collect();
        let amounts = vec![of(&[("b", 1.0), ("a", 3.0), ("never", 0.0)]), of(&[("z", 4.0), ("a", f64::NAN)])];
        let parts = parts(&amounts, &["b", "a"], 2.0);
        assert_eq!(parts.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["b", "a", "z"]);
        assert_eq!(parts[1].values, [6.0, 0.0]);
        let shares = shares(&parts);
        assert_eq!(shares.iter().map(|p| p.values[0]).sum::<f64>(), 100.0);
        assert_eq!(shares[2].values, [0.0, 100.0]);
    }
}
