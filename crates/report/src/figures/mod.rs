//! From rows to figures, by the reader's question: throughput, where the time goes, latency,
//! contention, and the course over time.

mod latency;
mod overview;
mod seconds;
mod sections;
mod throughput;
mod time;

pub use overview::{NOISY, all_rows, winners};

use crate::chart::{Chart, Figure, Name, Part, View};
use crate::rows::Row;
use crate::sweep::{LINES, Panel, Sweep};
use crate::table::{Align, Cell, Table};
use crate::text::short;
use std::collections::BTreeMap;

/// The most bars of one chart that can still be compared.
const BARS: usize = 24;

/// The figures that answer one question.
pub struct Section {
    pub id: &'static str,
    pub title: &'static str,
    /// How to read the figures.
    pub words: &'static str,
    pub figures: Vec<Figure>,
}

/// Every section that the rows have data for.
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

/// The title of a panel's figure.
fn titled(what: &str, panel: &Panel) -> String {
    if panel.name.is_empty() { what.into() } else { format!("{what}: {}", panel.name) }
}

/// The rows of a panel for which `has` holds, in portions that fit a chart. A deployment stays in
/// one portion, unless it alone has too many rows.
fn portions(panel: &Panel, has: impl Fn(usize) -> bool, at_most: usize) -> Vec<Vec<usize>> {
    let mut portions: Vec<Vec<usize>> = Vec::new();
    for (_, rows) in &panel.lines {
        let rows: Vec<usize> = rows.iter().copied().filter(|r| has(*r)).collect();
        match portions.last_mut() {
            Some(last) if last.len() + rows.len() <= at_most => last.extend(rows),
            _ => portions.extend(rows.chunks(at_most).map(<[usize]>::to_vec)),
        }
    }
    portions
}

/// Rows that share a chart with a curve for each row.
struct Curves {
    /// The place on the axis that they share, in words; empty if there is none.
    place: String,
    rows: Vec<usize>,
    /// There are more places, or rows, than were chosen.
    left_out: bool,
}

/// The most charts of this kind in one panel.
const PLACES: usize = 3;

/// The rows of a panel for which `has` holds, as charts of curves. Several deployments are compared
/// at one place of the axis at a time, each in its own colour; a single deployment has all its
/// places in one chart. If there are too many, an even selection is shown, with the first and the
/// last.
fn curves(panel: &Panel, sweep: &Sweep, has: impl Fn(usize) -> bool) -> Vec<Curves> {
    let rows: Vec<usize> = panel.rows().filter(|r| has(*r)).collect();
    let mut places: Vec<f64> = rows.iter().filter_map(|r| sweep.at(*r)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let lines = panel.lines.iter().filter(|(_, of)| of.iter().any(|r| rows.contains(r))).count();
    if rows.is_empty() {
        return Vec::new();
    }
    if lines < 2 || places.len() < 2 {
        let chosen = evenly(&rows, LINES);
        return vec![Curves { place: String::new(), left_out: chosen.len() < rows.len(), rows: chosen }];
    }
    let chosen = evenly(&places, PLACES);
    let left_out = chosen.len() < places.len();
    let at = |place: f64| {
        let rows: Vec<usize> = rows.iter().copied().filter(|r| sweep.at(*r) == Some(place)).collect();
        Curves { place: sweep.name(rows[0]).place, rows: evenly(&rows, LINES), left_out }
    };
    chosen.into_iter().map(at).collect()
}

/// At most `at_most` elements of `all`, in their order, with the first and the last.
fn evenly<T: Copy>(all: &[T], at_most: usize) -> Vec<T> {
    if all.len() <= at_most {
        return all.to_vec();
    }
    (0..at_most).map(|i| all[i * (all.len() - 1) / (at_most - 1)]).collect()
}

impl Curves {
    /// The title of the figure of these curves.
    fn title(&self, what: &str, panel: &Panel) -> String {
        let words: Vec<&str> =
            [panel.name.as_str(), &self.place].into_iter().filter(|w| !w.is_empty()).collect();
        if words.is_empty() { what.into() } else { format!("{what}: {}", words.join(", ")) }
    }

    /// The name of a curve: if all curves share a place, it is in the title.
    fn name(&self, sweep: &Sweep, row: usize) -> String {
        let name = sweep.name(row);
        if self.place.is_empty() { name.to_string() } else { name.group }
    }

    fn remark(&self) -> &'static str {
        if self.left_out { " Some of many are shown; all rows are in the table at the end." } else { "" }
    }
}

/// `Title`, or `Title (2 of 3)`.
fn portion_title(title: &str, at: usize, of: usize) -> String {
    if of > 1 { format!("{title} ({} of {of})", at + 1) } else { title.into() }
}

/// The parts of a whole for each row: name -> amount.
type Amounts = Vec<BTreeMap<String, f64>>;

/// Parts in the order of `order`, then the other parts; parts that are 0 everywhere are omitted.
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

/// The same parts, with each bar scaled to 100.
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

/// A table with a row for each bar and a column for each part of the first view.
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

/// `None` if there is nothing to stack. The table shows the first view.
fn stacked(id: String, title: String, caption: &str, bars: Vec<Name>, views: Vec<View>) -> Option<Figure> {
    let views: Vec<View> = views.into_iter().filter(|v| !v.parts.is_empty()).collect();
    let table = stacked_table(&bars, views.first()?);
    Some(Figure { id, title, caption: caption.into(), chart: Chart::Stacked { bars, views }, table })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_is_not_torn_over_two_charts() {
        let line = |name: &str, rows: std::ops::Range<usize>| (name.to_string(), rows.collect());
        let lines = vec![line("a", 0..5), line("b", 5..10), line("c", 10..22)];
        let panel = Panel { name: String::new(), lines };
        let portions = portions(&panel, |_| true, 8);
        assert_eq!(portions.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 8, 4]);
        assert_eq!(super::portions(&panel, |r| r < 7, 8), [(0..7).collect::<Vec<_>>()]);
        assert!(super::portions(&panel, |_| false, 8).is_empty());
    }

    #[test]
    fn of_many_the_ends_and_some_between_are_chosen() {
        assert_eq!(evenly(&[1, 2, 3], 3), [1, 2, 3]);
        let all: Vec<usize> = (0..20).collect();
        assert_eq!(evenly(&all, 6), [0, 3, 7, 11, 15, 19]);
    }

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
