//! Rows as text for a terminal: a table for each name, cut into parts that fit its width. Each part
//! repeats the columns that tell the rows apart; settings that all rows share stand in the title.

use super::Row;
use serde_json::Value;

/// Facts of the capture, which all rows of a study share.
const FACTS: [&str; 6] = ["table", "workload", "design", "scale", "workers", "options"];
/// Columns that say what a row is about, in their order; the others are results.
const SETTINGS: [&str; 25] = [
    "machine",
    "scheduler",
    "protect",
    "types",
    "reset",
    "cores",
    "contexts",
    "l1i_kb",
    "team",
    "batch",
    "fill_up",
    "matched",
    "dilution",
    "signature",
    "first_instructions",
    "first_blocks",
    "warm",
    "transactions",
    "cache",
    "kind",
    "operation",
    "component",
    "inside",
    "part",
    "instances_share",
];
/// Between two columns.
const GAP: usize = 2;

/// All tables of a study, no line wider than `width` characters where its settings allow it.
pub fn text(rows: &[Row], width: usize) -> String {
    let mut names: Vec<&str> = rows.iter().filter_map(|row| row.get("table")?.as_str()).collect();
    names.dedup();
    names.into_iter().map(|name| table(rows, name, width) + "\n").collect()
}

fn table(rows: &[Row], name: &str, width: usize) -> String {
    let theirs: Vec<&Row> =
        rows.iter().filter(|row| row.get("table").and_then(Value::as_str) == Some(name)).collect();
    let present = |column: &str| theirs.iter().any(|row| row.contains_key(column));
    let differs =
        |column: &str| theirs.iter().any(|row| cell(row.get(column)) != cell(theirs[0].get(column)));
    let (mut title, mut keys) = (name.to_owned(), Vec::new());
    for setting in SETTINGS.into_iter().filter(|setting| present(setting)) {
        match differs(setting) {
            true => keys.push(setting.to_owned()),
            false => title += &format!(", {} {}", setting.replace('_', " "), cell(theirs[0].get(setting))),
        }
    }
    let mut results: Vec<String> = Vec::new();
    for column in theirs.iter().flat_map(|row| row.keys()) {
        let known = FACTS.contains(&column.as_str()) || SETTINGS.contains(&column.as_str());
        if !known && !results.contains(column) {
            results.push(column.clone());
        }
    }
    let widths =
        |columns: &[String]| columns.iter().map(|column| broad(&theirs, column) + GAP).sum::<usize>();
    let of_keys = widths(&keys);
    let mut text = title + "\n";
    let mut rest = &results[..];
    while !rest.is_empty() {
        let fits = (1..=rest.len()).take_while(|&n| n == 1 || of_keys + widths(&rest[..n]) <= width + GAP);
        let (part, later) = rest.split_at(fits.last().unwrap_or(1));
        text += &lines(&theirs, &[&keys[..], part].concat());
        text += if later.is_empty() { "" } else { "\n" };
        rest = later;
    }
    text
}

fn lines(rows: &[&Row], columns: &[String]) -> String {
    let is_number = |column: &String| rows.iter().any(|row| row.get(column).is_some_and(Value::is_number));
    let line = |cells: Vec<String>| {
        let padded = cells.into_iter().zip(columns).map(|(cell, column)| match is_number(column) {
            true => format!("{cell:>width$}", width = broad(rows, column)),
            false => format!("{cell:width$}", width = broad(rows, column)),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    let of = |row: &&Row| line(columns.iter().map(|column| cell(row.get(column))).collect());
    line(columns.to_vec()) + &rows.iter().map(of).collect::<String>()
}

/// The widest of a column's name and cells.
fn broad(rows: &[&Row], column: &str) -> usize {
    let cells = rows.iter().map(|row| cell(row.get(column)).chars().count());
    cells.max().unwrap_or(0).max(column.chars().count())
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(n)) if n.is_u64() || n.is_i64() => n.to_string(),
        Some(Value::Number(n)) => match n.as_f64().unwrap_or(0.0) {
            n if n.abs() >= 1000.0 || n == n.trunc() => format!("{n:.0}"),
            n => format!("{n:.3}"),
        },
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_fit_the_width_and_repeat_what_tells_rows_apart() {
        let row = |cores: u64| {
            let mut row = Row::new();
            for (name, value) in
                [("table", json!("t")), ("scheduler", json!("strex")), ("cores", json!(cores))]
            {
                row.insert(name.into(), value);
            }
            (0..12).for_each(|i| drop(row.insert(format!("result_number_{i}"), json!(1.5 * i as f64))));
            row
        };
        let rows = [row(2), row(16)];
        for width in [40, 80, 100] {
            let text = text(&rows, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.starts_with("t, scheduler strex\n"));
            let heads = text.lines().filter(|line| line.starts_with("cores")).count();
            assert!(
                heads > 1
                    && heads * 2 == text.lines().filter(|l| l.trim_start().starts_with(['2', '1'])).count()
            );
            assert!((0..12).all(|i| text.contains(&format!("result_number_{i}"))));
        }
    }
}
