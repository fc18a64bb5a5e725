//! The rows of an experiment as the table behind its plot: x down, one column for each line of the
//! plot.

use crate::experiment::Plot;
use crate::row::Row;

/// Why rows have nothing to draw, in the rows' own words: a row without `a.b` may give the reason
/// in `a_missing`.
pub fn missing(plot: &Plot, rows: &[&Row]) -> Option<String> {
    let whole = |y: &String| y.split('.').next().unwrap_or(y).to_owned();
    plot.y.iter().find_map(|y| rows.iter().find_map(|row| row.word(&format!("{}_missing", whole(y)))))
}

/// The table of one panel for one quantity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The panel and the quantity.
    pub title: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// The values of some fields of a row, in words: `read, 2 islands`.
fn words(row: &Row, fields: &[String]) -> String {
    let word = |field: &String| {
        let value = row.word(field)?;
        let name = field.rsplit('.').next().unwrap_or(field);
        Some(if row.number(field).is_some() { format!("{name} {value}") } else { value })
    };
    fields.iter().filter_map(word).collect::<Vec<_>>().join(", ")
}

/// Without duplicates, in the order of first appearance.
fn distinct(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

/// Every table of the plot. The cell of a combination that was not run is empty.
pub fn tables(plot: &Plot, rows: &[&Row]) -> Vec<Table> {
    let is_drawn = |row: &&&Row| plot.table.is_none() || row.word("table") == plot.table;
    let rows: Vec<&Row> = rows.iter().filter(is_drawn).copied().collect();
    let panels = distinct(rows.iter().map(|row| words(row, &plot.panels)));
    let mut tables = Vec::new();
    for panel in &panels {
        let inside: Vec<&&Row> = rows.iter().filter(|row| words(row, &plot.panels) == *panel).collect();
        for y in &plot.y {
            let with: Vec<&Row> = inside.iter().filter(|row| row.number(y).is_some()).map(|r| **r).collect();
            if !with.is_empty() {
                tables.push(table(plot, panel, y, &with));
            }
        }
    }
    tables
}

fn table(plot: &Plot, panel: &str, y: &str, rows: &[&Row]) -> Table {
    let x = |row: &Row| row.word(&plot.x).unwrap_or_default();
    let mut xs = distinct(rows.iter().map(|row| x(row)));
    // A sweep runs over x for each deployment in turn, and deployments may have different values of
    // x.
    if xs.iter().all(|x| x.parse::<f64>().is_ok()) {
        let number = |x: &String| x.parse::<f64>().unwrap_or_default();
        xs.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    let series = distinct(rows.iter().map(|row| words(row, &plot.series)));
    let cell = |at: &String, line: &String| {
        let found = rows.iter().find(|row| x(row) == *at && words(row, &plot.series) == *line);
        found.and_then(|row| row.number(y)).map_or(String::new(), number)
    };
    let heads = series.iter().map(|s| if s.is_empty() { y.to_owned() } else { s.clone() });
    let title = if panel.is_empty() { y.to_owned() } else { format!("{y}: {panel}") };
    Table {
        title,
        head: std::iter::once(plot.x.clone()).chain(heads).collect(),
        rows: xs
            .iter()
            .map(|at| std::iter::once(at.clone()).chain(series.iter().map(|s| cell(at, s))).collect())
            .collect(),
    }
}

/// A number with three or four significant digits: `1,234,568`, `12.34`, `0.0123`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let digits = format!("{size:.0}");
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
        return format!("{}{}", if value < 0.0 { "-" } else { "" }, groups.join(","));
    }
    let decimals = match size {
        _ if value == value.trunc() => 0,
        _ if size >= 100.0 => 1,
        _ if size >= 1.0 => 2,
        _ if size >= 0.1 => 3,
        _ if size >= 0.0001 => 4,
        _ => return format!("{value:.1e}"),
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (value, text) in [
            (0.0, "0"),
            (4.0, "4"),
            (1234567.8, "1,234,568"),
            (-1000.0, "-1,000"),
            (123.45, "123.5"),
            (1.2345, "1.23"),
            (0.12345, "0.123"),
            (0.0123, "0.0123"),
            (0.0000123, "1.2e-5"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn rows_say_why_there_is_nothing_to_draw() {
        let row = Row::parse(r#"{"hardware":null,"hardware_missing":"a virtual machine"}"#).unwrap();
        let y = vec!["tps".into(), "hardware.cycles".into()];
        let plot = Plot { x: "islands".into(), y, series: vec![], panels: vec![], table: None };
        assert!(tables(&plot, &[&row]).is_empty());
        assert_eq!(missing(&plot, &[&row]).as_deref(), Some("a virtual machine"));
        assert_eq!(missing(&plot, &[]), None);
    }

    #[test]
    fn rows_become_the_table_of_a_plot() {
        let lines = [
            r#"{"op":"read","islands":1,"multisite":100,"tps":90}"#,
            r#"{"op":"read","islands":1,"multisite":20,"tps":100}"#,
            r#"{"op":"read","islands":2,"multisite":20,"tps":150}"#,
            r#"{"op":"update","islands":2,"multisite":20,"tps":15}"#,
        ];
        let rows: Vec<Row> = lines.map(|l| Row::parse(l).unwrap()).into();
        let plot = Plot {
            x: "multisite".into(),
            y: vec!["tps".into(), "nothing".into()],
            series: vec!["islands".into()],
            panels: vec!["op".into()],
            table: None,
        };
        let tables = tables(&plot, &rows.iter().collect::<Vec<_>>());
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].title, "tps: read");
        assert_eq!(tables[0].head, ["multisite", "islands 1", "islands 2"]);
        assert_eq!(tables[0].rows, [["20", "100", "150"], ["100", "90", ""]]);
    }
}
