//! Latency files: a CSV of the lower triangle, and the plain-text table of the same tool.
//!
//! CSV: line i, column j < i is the one-way latency in ns between CPUs i and j. The diagonal and
//! the cells to the right of it are empty, or repeat the same latencies. The text form has a
//! heading, a line with the word `latency`, a line of column numbers, and cells like `576±6`. The
//! project core-to-core-latency writes both forms; see `machines/README.md`.
//!
//! Each error text begins with its line number (from 1), a colon and a space.

use crate::cpu::CpuId;
use crate::latency::LatencyMatrix;
use crate::tables::MOST_CPUS;

/// Latencies above this (10 ms) do not come from one machine.
const MOST_NS: f64 = 1e7;
/// By chance, one direction may be this many times as slow as the other. More means that the cell
/// belongs to another machine.
const LOPSIDED: f64 = 3.0;

/// The matrix in `text`, over CPUs 0..n. An error is a line number and a description.
pub(crate) fn parse_latencies(text: &str) -> Result<LatencyMatrix, String> {
    let rows = match text.lines().position(is_column_heading) {
        Some(heading) => table_rows(text, heading)?,
        None => csv_rows(text),
    };
    if rows.len() > MOST_CPUS {
        return Err(format!("{}: more than {MOST_CPUS} CPUs", rows[MOST_CPUS].line));
    }
    let mut ns = Vec::with_capacity(rows.len() * rows.len().saturating_sub(1) / 2);
    for (cpu, row) in rows.iter().enumerate() {
        ns.extend(row.below(cpu)?);
        row.rest(cpu, &rows)?;
    }
    let cpus = (0..rows.len() as u32).map(CpuId).collect::<Vec<_>>();
    match LatencyMatrix::new(cpus, ns) {
        Some(matrix) if matrix.cpus().len() >= 2 => Ok(matrix),
        _ => Err(format!("{}: fewer than two CPUs", rows.last().map_or(1, |row| row.line))),
    }
}

struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

impl Row<'_> {
    fn wrong(&self, what: String) -> String {
        format!("{}: {what}", self.line)
    }

    fn latency(&self, column: usize) -> Result<f64, String> {
        let cell = self.cells[column];
        parse_ns(cell)
            .ok_or_else(|| self.wrong(format!("column {}: {cell:?} is not a latency in ns", column + 1)))
    }

    /// The latencies to the CPUs before this one.
    fn below(&self, cpu: usize) -> Result<Vec<f64>, String> {
        if self.cells.len() < cpu {
            return Err(self.wrong(format!("{} values, CPU {cpu} needs {cpu}", self.cells.len())));
        }
        (0..cpu).map(|column| self.latency(column)).collect()
    }

    /// Checks the diagonal and the cells to the right of it, if there are any: 0 from a CPU to
    /// itself, and to other CPUs about the latency in the other CPU's row.
    fn rest(&self, cpu: usize, rows: &[Row<'_>]) -> Result<(), String> {
        for (column, cell) in self.cells.iter().enumerate().skip(cpu).filter(|(_, cell)| !cell.is_empty()) {
            if column >= rows.len() {
                let most = rows.len();
                return Err(self.wrong(format!("column {}: {cell:?}, and there are {most} CPUs", column + 1)));
            }
            if column == cpu {
                if cell.parse::<f64>() != Ok(0.0) {
                    let expected = "expected nothing or 0 from a CPU to itself";
                    return Err(self.wrong(format!("column {}: {cell:?}, {expected}", column + 1)));
                }
                continue;
            }
            let (there, other) = (self.latency(column)?, &rows[column]);
            if other.cells.len() > cpu
                && let Some(back) = parse_ns(other.cells[cpu])
                && (there > back * LOPSIDED || back > there * LOPSIDED)
            {
                return Err(self.wrong(format!(
                    "column {}: {there} ns from CPU {cpu} to CPU {column}, and {back} ns back (line {})",
                    column + 1,
                    other.line
                )));
            }
        }
        Ok(())
    }
}

fn csv_rows(text: &str) -> Vec<Row<'_>> {
    let lines = text.trim_end().lines().enumerate();
    lines.map(|(at, line)| Row { line: at + 1, cells: line.split(',').map(str::trim).collect() }).collect()
}

/// A line such as `       0       1   `: numbers that count up from 0, no commas, at least two.
fn is_column_heading(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.len() >= 2 && words.iter().enumerate().all(|(at, word)| word.parse() == Ok(at))
}

fn table_rows(text: &str, heading: usize) -> Result<Vec<Row<'_>>, String> {
    let mut rows = Vec::new();
    for (at, line) in text.lines().enumerate().skip(heading + 1) {
        let mut words = line.split_whitespace();
        let Some(number) = words.next() else { break };
        if number.parse() != Ok(rows.len()) {
            return Err(format!("{}: expected the row of CPU {}, found {number:?}", at + 1, rows.len()));
        }
        rows.push(Row { line: at + 1, cells: words.collect() });
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
        let square = parse_latencies("0,5,90\n5.5,0,80\n70,80,0\n").unwrap();
        assert_eq!(square, csv, "below the diagonal it counts");
    }

    #[test]
    fn bad_cells_are_named_by_line_and_column() {
        let complaint = |text: &str| parse_latencies(text).unwrap_err();
        assert!(complaint(",,\nx,,\n").starts_with("2: column 1: \"x\""));
        assert!(complaint(",,\n1,,\n2\n").starts_with("3: 1 values"));
        assert!(complaint(",,\n-3,,\n").contains("-3"));
        assert!(complaint(",,\nNaN,,\n").contains("NaN"));
        assert!(complaint("hello\nworld\n").starts_with("1: column 1: \"hello\""));
        assert!(complaint("").starts_with("1: fewer than two"));
        assert!(complaint("0 1\n0\n7 3\n").starts_with("3: expected the row of CPU 1"));
    }

    #[test]
    fn more_than_a_matrix_and_lopsided_ones_are_refused() {
        let complaint = |text: &str| parse_latencies(text).unwrap_err();
        assert!(complaint(",,\n5,,9\n").starts_with("2: column 3: \"9\", and there are 2 CPUs"));
        assert!(complaint(",x\n5,\n").starts_with("1: column 2: \"x\""));
        assert!(complaint("y,\n5,\n").starts_with("1: column 1: \"y\""));
        assert!(complaint("5\n70,80\n").starts_with("1: column 1: \"5\", expected nothing or 0"));
        assert!(complaint(",-5\n5,\n").starts_with("1: column 2: \"-5\""));
        let text = complaint("0,100\n5,0\n");
        assert!(
            text.starts_with("1: column 2: 100 ns from CPU 0 to CPU 1, and 5 ns back (line 2)"),
            "{text}"
        );
        assert!(complaint(",,\n5,,\n\n7,8,\n").starts_with("3: 1 values, CPU 2 needs 2"));
    }
}
