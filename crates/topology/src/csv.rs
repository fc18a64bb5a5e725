//! Latency files: a CSV of the lower triangle, and the plain-text table of the same tool.
//!
//! CSV: line i, column j < i is the one-way latency in ns between CPUs i and j; the diagonal and what is right of it
//! are empty. The text form has a heading, a line of column numbers after a line with the word `latency`, and
//! cells like `576±6`. Both are what the project core-to-core-latency writes; see `machines/README.md`.

use crate::cpu::CpuId;
use crate::latency::LatencyMatrix;

/// The most CPUs a file may name: bounds what a wrong file can make us allocate (64 MiB of latencies).
pub(crate) const MOST_CPUS: usize = 4096;

/// Latencies above this (10 ms) are not of one machine.
const MOST_NS: f64 = 1e7;

/// The matrix in `text`, over CPUs 0..n; or what is wrong with it, for an error line.
pub(crate) fn parse_latencies(text: &str) -> Result<LatencyMatrix, String> {
    let rows = match text.lines().position(is_column_heading) {
        Some(heading) => table_rows(text, heading)?,
        None => csv_rows(text),
    };
    if rows.len() > MOST_CPUS {
        return Err(format!("{} rows, more than {MOST_CPUS} CPUs", rows.len()));
    }
    let mut ns = Vec::with_capacity(rows.len() * rows.len().saturating_sub(1) / 2);
    for (cpu, (line, cells)) in rows.iter().enumerate() {
        if cells.len() < cpu {
            return Err(format!("line {line} has {} values, CPU {cpu} needs {cpu}", cells.len()));
        }
        for (column, cell) in cells[..cpu].iter().enumerate() {
            let at = || format!("line {line}, column {}", column + 1);
            ns.push(parse_ns(cell).ok_or_else(|| format!("{}: {cell:?} is not a latency in ns", at()))?);
        }
        if let Some(extra) = cells[cpu..].iter().find(|cell| !cell.is_empty() && parse_ns(cell).is_none()) {
            return Err(format!("line {line}: {extra:?} is not a latency in ns"));
        }
    }
    let cpus = (0..rows.len() as u32).map(CpuId).collect::<Vec<_>>();
    match LatencyMatrix::new(cpus, ns) {
        Some(matrix) if matrix.cpus().len() >= 2 => Ok(matrix),
        _ => Err("fewer than two CPUs".to_owned()),
    }
}

/// Rows with their line numbers (from 1).
type Rows<'a> = Vec<(usize, Vec<&'a str>)>;

fn csv_rows(text: &str) -> Rows<'_> {
    let lines = text.trim_end().lines().enumerate();
    lines.map(|(at, line)| (at + 1, line.split(',').map(str::trim).collect())).collect()
}

/// `       0       1   `: numbers counting up from 0, no commas, at least two.
fn is_column_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.len() >= 2 && words.iter().enumerate().all(|(at, word)| word.parse() == Ok(at))
}

fn table_rows(text: &str, heading: usize) -> Result<Rows<'_>, String> {
    let mut rows = Vec::new();
    for (at, line) in text.lines().enumerate().skip(heading + 1) {
        let mut words = line.split_whitespace();
        let Some(number) = words.next() else { break };
        if number.parse() != Ok(rows.len()) {
            return Err(format!("line {}: expected the row of CPU {}, found {number:?}", at + 1, rows.len()));
        }
        rows.push((at + 1, words.collect()));
    }
    Ok(rows)
}

fn parse_ns(cell: &str) -> Option<f64> {
    let value = cell.split('±').next()?.trim();
    value.parse::<f64>().ok().filter(|ns| *ns > 0.0 && *ns <= MOST_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_triangle_and_a_text_table_read_alike() {
        let csv = parse_latencies(",,\n5.5,,\n70,80,\n").unwrap();
        let table =
            parse_latencies("latency in ns:\n\n  0  1  2\n 0\n 1 5.5±1\n 2 70±2 80±3 \n\nMin 5\n").unwrap();
        assert_eq!(csv, table);
        assert_eq!(csv.at(0, 2), 70.0);
        assert_eq!(csv.between(CpuId(2), CpuId(1)), Some(80.0));
    }

    #[test]
    fn bad_cells_are_named_by_line_and_column() {
        let complaint = |text: &str| parse_latencies(text).unwrap_err();
        assert!(complaint(",,\nx,,\n").contains("line 2, column 1: \"x\""));
        assert!(complaint(",,\n1,,\n2\n").contains("line 3 has 1 values"));
        assert!(complaint(",,\n-3,,\n").contains("-3"));
        assert!(complaint(",,\nNaN,,\n").contains("NaN"));
        assert!(complaint("hello\nworld\n").contains("world") || complaint("hello\n").contains("hello"));
        assert!(complaint("").contains("fewer than two"));
        assert!(complaint("0 1\n0\n7 3\n").contains("row of CPU 1"));
    }
}
