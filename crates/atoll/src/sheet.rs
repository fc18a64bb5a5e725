//! A table that fits the terminal and is written row by row: its columns and widths are fixed
//! before the first row.
//!
//! ```text
//!   common: workload micro, workers 2            settings that all rows share
//!
//!   islands  channel    per s  spread      p50   a column per setting that differs, then results
//!   -------  -------  -------  ------  -------
//!   design conventional, op read:                settings that vary slowest, if columns do not fit
//!         1  shm      12.35k      3%   80.9us
//! ```
//!
//! Columns that do not fit are dropped in this order: the least important results; then the
//! settings that vary slowest, which move to a line of their own above the rows they apply to; then
//! other results. So no setting is ever omitted.

use comfy_table::{ContentArrangement, Table};
use std::fmt::Write;

/// Between two columns.
const GAP: usize = 2;
/// No table is made narrower than this.
const NARROWEST: usize = 40;

/// A setting, with its value in each planned row, in the order of the rows; the value is empty
/// where the setting does not apply. Columns are ordered by how fast settings change, the slowest
/// first.
pub struct Setting {
    pub name: &'static str,
    pub values: Vec<String>,
}

/// A result: its name, its widest possible value, and the rank that decides when it is dropped.
#[derive(Clone, Copy)]
pub struct Measure {
    pub name: &'static str,
    pub width: usize,
    pub rank: Rank,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rank {
    /// Dropped before any setting moves.
    Detail,
    /// Dropped when no setting is left to move.
    Result,
    /// Never dropped.
    Essence,
}

struct Column {
    /// Its index in the list of settings or measures.
    at: usize,
    name: &'static str,
    width: usize,
    numeric: bool,
}

pub struct Sheet {
    width: Option<usize>,
    common: Vec<String>,
    /// Settings that stand on a line above the rows.
    grouped: Vec<(usize, &'static str)>,
    settings: Vec<Column>,
    measures: Vec<Column>,
    left_out: Vec<Column>,
    /// The group of the previous row.
    group: Option<String>,
}

impl Sheet {
    /// `width`: characters per line; `None` for any number.
    pub fn new(settings: &[Setting], measures: &[Measure], width: Option<usize>) -> Sheet {
        let differs = |s: &Setting| s.values.windows(2).any(|w| w[0] != w[1]);
        let same = settings.iter().filter(|s| !differs(s));
        let common = same.filter_map(|s| s.values.first().filter(|v| !v.is_empty()).map(|v| (s.name, v)));
        let common = common.map(|(name, value)| format!("{name} {value}")).collect();
        let mut told: Vec<_> = settings.iter().enumerate().filter(|(_, s)| differs(s)).collect();
        told.sort_by_key(|(_, s)| s.values.windows(2).filter(|w| w[0] != w[1]).count());
        let column = |(at, s): (usize, &Setting)| Column {
            at,
            name: s.name,
            width: s.values.iter().map(|v| length(v)).chain([length(s.name)]).max().unwrap_or(0),
            numeric: s.values.iter().all(|v| v.is_empty() || v.parse::<f64>().is_ok()),
        };
        let results = measures.iter().enumerate().map(|(at, m)| Column {
            at,
            name: m.name,
            width: m.width.max(length(m.name)),
            numeric: true,
        });
        let mut sheet = Sheet {
            width: width.map(|w| w.max(NARROWEST)),
            common,
            grouped: Vec::new(),
            settings: told.into_iter().map(column).collect(),
            measures: results.collect(),
            left_out: Vec::new(),
            group: None,
        };
        sheet.fit(measures);
        sheet
    }

    fn fit(&mut self, measures: &[Measure]) {
        let Some(width) = self.width else { return };
        self.leave_out(measures, Rank::Detail, width);
        while self.total() > width && !self.settings.is_empty() {
            let column = self.settings.remove(0);
            self.grouped.push((column.at, column.name));
        }
        self.leave_out(measures, Rank::Result, width);
        self.take_back(width);
    }

    /// Restores the dropped columns that fit beside the settings that did not move, the last
    /// dropped first.
    fn take_back(&mut self, width: usize) {
        for column in std::mem::take(&mut self.left_out).into_iter().rev() {
            if self.total() + GAP + column.width <= width {
                self.measures.push(column);
            } else {
                self.left_out.push(column);
            }
        }
        self.measures.sort_by_key(|c| c.at);
        self.left_out.sort_by_key(|c| c.at);
    }

    /// Drops columns of this rank from the end until the rest fits.
    fn leave_out(&mut self, measures: &[Measure], rank: Rank, width: usize) {
        while self.total() > width
            && let Some(i) = self.measures.iter().rposition(|c| measures[c.at].rank == rank)
        {
            self.left_out.push(self.measures.remove(i));
        }
    }

    fn total(&self) -> usize {
        let columns = self.settings.iter().chain(&self.measures);
        columns.map(|c| c.width + GAP).sum::<usize>().saturating_sub(GAP)
    }

    /// The lines above the first row, without a final line break.
    pub fn head(&self) -> String {
        let mut text = String::new();
        for (about, words) in
            [("common", &self.common), ("left out for want of room", &self.names_left_out())]
        {
            if !words.is_empty() {
                text += &list(about, words, self.width);
                text.push('\n');
            }
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let columns = || self.settings.iter().chain(&self.measures);
        text += &line(columns().map(|c| (c, c.name.to_owned())));
        text.push('\n');
        text + &line(columns().map(|c| (c, "-".repeat(c.width))))
    }

    fn names_left_out(&self) -> Vec<String> {
        self.left_out.iter().map(|c| c.name.to_owned()).collect()
    }

    /// The names of the results that have a column.
    pub fn shown(&self) -> impl Iterator<Item = &'static str> {
        self.measures.iter().map(|c| c.name)
    }

    /// The lines of a row. `settings` and `measures` hold a value for each setting and result, in
    /// the order given to [`Sheet::new`].
    pub fn row(&mut self, settings: &[String], measures: &[String]) -> String {
        let value = |values: &[String], at: usize| values.get(at).cloned().unwrap_or_default();
        let told = self.settings.iter().map(|c| (c, value(settings, c.at)));
        let results = self.measures.iter().map(|c| (c, value(measures, c.at)));
        let row = line(told.chain(results));
        if self.grouped.is_empty() {
            return row;
        }
        let words = self.grouped.iter().map(|(at, name)| (name, value(settings, *at)));
        let words: Vec<_> = words.filter(|w| !w.1.is_empty()).map(|(n, v)| format!("{n} {v}")).collect();
        let group = wrapped(&words, self.width, 0) + ":";
        if self.group.as_ref() == Some(&group) {
            return row;
        }
        let text = format!("{group}\n{row}");
        self.group = Some(group);
        text
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Numbers are aligned to the right and words to the left; there are no trailing blanks.
fn line<'a>(cells: impl Iterator<Item = (&'a Column, String)>) -> String {
    let mut text = String::new();
    for (i, (column, cell)) in cells.enumerate() {
        let (gap, width) = (if i > 0 { GAP } else { 0 }, column.width);
        let _ = match column.numeric {
            true => write!(text, "{:gap$}{cell:>width$}", ""),
            false => write!(text, "{:gap$}{cell:<width$}", ""),
        };
    }
    text.truncate(text.trim_end().len());
    text
}

/// `about: word, word, ...` in lines of at most `width` characters.
pub fn list(about: &str, words: &[String], width: Option<usize>) -> String {
    format!("{about}: {}", wrapped(words, width, length(about) + 2))
}

/// `text` after `head`, in lines of at most `width` characters; lines after the first are indented
/// to where the text begins.
pub fn folded(head: &str, text: &str, width: Option<usize>) -> String {
    let indent = length(head);
    let Some(width) = width.filter(|width| *width > indent + 20) else { return format!("{head}{text}") };
    let (mut out, mut at) = (head.to_owned(), indent);
    for (i, word) in text.split(' ').enumerate() {
        if i > 0 && at + 1 + length(word) > width {
            out += &format!("\n{:indent$}", "");
            at = indent;
        } else if i > 0 {
            out.push(' ');
            at += 1;
        }
        out += word;
        at += length(word);
    }
    out
}

/// Words separated by commas. The first line already has `used` characters; one character stays
/// free after the last word.
fn wrapped(words: &[String], width: Option<usize>, used: usize) -> String {
    let (mut text, mut at) = (String::new(), used);
    for (i, word) in words.iter().enumerate() {
        let last = i + 1 == words.len();
        let word = if last { word.clone() } else { format!("{word},") };
        let long = length(&word) + usize::from(last);
        if i > 0 {
            let breaks = width.is_some_and(|width| at + 1 + long > width);
            text += if breaks { "\n  " } else { " " };
            at = if breaks { 2 } else { at + 1 };
        }
        // A word longer than a line is cut at the end of the line.
        for c in word.chars() {
            if width.is_some_and(|width| at + usize::from(last) >= width) {
                text += "\n  ";
                at = 2;
            }
            text.push(c);
            at += 1;
        }
    }
    text
}

/// A table as text, with its cells folded so that it fits the terminal.
pub fn fitted(mut table: Table) -> String {
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    table.to_string()
}

/// Characters per line on standard output: COLUMNS if it is set, else the width of the terminal;
/// `None` without a terminal.
pub fn terminal_width() -> Option<usize> {
    told_width().or_else(|| width_of(terminal_size::terminal_size_of(std::io::stdout())))
}

/// The same for standard error.
pub fn error_width() -> Option<usize> {
    told_width().or_else(|| width_of(terminal_size::terminal_size_of(std::io::stderr())))
}

fn told_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns > 0)
}

fn width_of(size: Option<(terminal_size::Width, terminal_size::Height)>) -> Option<usize> {
    size.map(|(width, _)| usize::from(width.0)).filter(|columns| *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(of: &[(&'static str, &[&str])]) -> Vec<Setting> {
        let values = |of: &[&str]| of.iter().map(|v| (*v).to_owned()).collect();
        of.iter().map(|(name, of)| Setting { name, values: values(of) }).collect()
    }

    fn measures(n: usize) -> Vec<Measure> {
        let names = ["per s", "spread", "p50", "p99", "distr", "msg/s", "noise", "ok"];
        let rank = |name| match name {
            "per s" => Rank::Essence,
            "distr" | "msg/s" | "noise" => Rank::Detail,
            _ => Rank::Result,
        };
        names[..n].iter().map(|name| Measure { name, width: 6, rank: rank(*name) }).collect()
    }

    /// The whole table.
    fn table(settings: &[Setting], measures: &[Measure], width: Option<usize>) -> String {
        let mut sheet = Sheet::new(settings, measures, width);
        let mut text = sheet.head();
        for i in 0..settings[0].values.len() {
            let told: Vec<_> = settings.iter().map(|s| s.values[i].clone()).collect();
            let cells: Vec<_> = measures.iter().map(|m| format!("{i}{}", m.name.len())).collect();
            text += "\n";
            text += &sheet.row(&told, &cells);
        }
        text
    }

    #[test]
    fn what_differs_is_a_column_and_what_does_not_stands_above() {
        let settings =
            settings(&[("workload", &["micro", "micro"]), ("islands", &["1", "2"]), ("think", &["", ""])]);
        let text = table(&settings, &measures(2), None);
        let expected = "common: workload micro\n\nislands   per s  spread\n-------  ------  ------\n      \
                        1      05      06\n      2      15      16";
        assert_eq!(text, expected);
    }

    #[test]
    fn settings_that_vary_slowest_move_above_their_rows_when_there_is_no_room() {
        let design = ["conventional", "conventional", "serial", "serial"];
        let settings = settings(&[("design", &design), ("channel", &["shm", "uds", "shm", "uds"])]);
        let text = table(&settings, &measures(4), Some(40));
        assert!(text.contains("design conventional:\nshm "), "{text}");
        assert_eq!(text.matches("design ").count(), 2, "once for each\n{text}");
        let wide = table(&settings, &measures(4), Some(60));
        assert!(!wide.contains("design conventional"), "{wide}");
    }

    #[test]
    fn details_give_way_first_and_are_named() {
        let settings = settings(&[("design", &["conventional", "serial"])]);
        let text = table(&settings, &measures(8), Some(60));
        assert!(text.contains("left out for want of room: msg/s, noise"), "{text}");
        assert!(text.contains("conventional ") && text.contains(" ok"), "{text}");
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        let long = ["a-design-with-a-long-name", "b", "c", "d"];
        let phases =
            ["10s hot 50/30, 20s hot off, 30s multisite 50, 40s rate 5000, 50s hot 10/90", "x", "y", "z"];
        let mut all = vec![("workload", &["tpcc"; 4]), ("phases", &phases), ("design", &long)];
        for name in ["islands", "workers", "placement", "host", "channel", "durability", "tables", "balance"]
        {
            all.push((name, &long));
        }
        let all: Vec<(&'static str, &[&str])> = all.into_iter().map(|(n, v)| (n, &v[..])).collect();
        for width in [40, 60, 80, 100, 120, 200] {
            for n in 0..all.len() {
                let text = table(&settings(&all[..=n]), &measures(8), Some(width));
                let longest = text.lines().map(length).max().unwrap();
                assert!(longest <= width, "{longest} > {width}:\n{text}");
                assert!(text.contains("per s"), "{text}");
            }
        }
    }

    #[test]
    fn texts_are_folded_below_their_begin() {
        let text = "a text that is longer than one line";
        assert_eq!(folded("x  ", text, Some(26)), "x  a text that is longer\n   than one line");
        assert_eq!(folded("x  ", text, None), format!("x  {text}"));
    }

    #[test]
    fn lists_break_between_words() {
        let words = ["first 1", "second 2", "third 3"].map(str::to_owned);
        assert_eq!(list("common", &words, Some(26)), "common: first 1, second 2,\n  third 3");
        assert_eq!(list("common", &words, None), "common: first 1, second 2, third 3");
    }
}
