//! Prints the balancer's decision for a histogram in a file, and the reason.
//!
//! ```text
//! cargo run --release -p partition --example balance -- FILE [off|advise|on]
//!
//! keys 3000                          the table's routing keys: 0..3000
//! partition 0 40 4 6 10 20           first key, requests, accesses by sub-buckets of equal width
//! partition 1000 240 60 70 60 50
//! partition 2000 20 10 6 2 2
//! ```
//!
//! Lines that begin with # and empty lines are ignored.

use base::{TableId, WorkerId};
use partition::{
    BalanceVerdict, Balancer, Decision, Mode, Partition, PartitionLoad, QueueLength, Ranges, Settings,
    SubLoad,
};
use std::fmt::Write as _;
use std::process::ExitCode;

struct Line {
    start: u64,
    requests: u64,
    accesses: Vec<u64>,
}

struct Table {
    keys: u64,
    lines: Vec<Line>,
}

fn number(word: &str, line: usize, what: &str) -> Result<u64, String> {
    let bad = |_| format!("line {line}: '{word}' is no number; expected {what}");
    word.parse().map_err(bad).and_then(|n: u64| {
        if n > 1 << 50 {
            Err(format!("line {line}: {n} is too large; expected {what} of at most 2^50"))
        } else {
            Ok(n)
        }
    })
}

fn parse(text: &str) -> Result<Table, String> {
    let mut table = Table { keys: 0, lines: Vec::new() };
    for (i, line) in text.lines().enumerate() {
        let (n, words) = (i + 1, line.split_whitespace().collect::<Vec<_>>());
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["keys", keys] => table.keys = number(keys, n, "the number of routing keys")?,
            ["partition", start, requests, accesses @ ..] if !accesses.is_empty() => {
                let accesses = accesses.iter().map(|a| number(a, n, "accesses of a sub-bucket"));
                table.lines.push(Line {
                    start: number(start, n, "the partition's first key")?,
                    requests: number(requests, n, "the partition's requests")?,
                    accesses: accesses.collect::<Result<_, _>>()?,
                });
            }
            [first, ..] => {
                return Err(format!(
                    "line {n}: expected 'keys N' or 'partition START REQUESTS ACCESSES...', found '{first}' with {} words",
                    words.len() - 1
                ));
            }
        }
    }
    if table.keys == 0 {
        return Err("no line 'keys N': expected the number of routing keys before the partitions".into());
    }
    Ok(table)
}

fn ranges(table: &Table) -> Result<Ranges, String> {
    let ends = table.lines.iter().skip(1).map(|l| l.start).chain([table.keys]);
    let parts = table.lines.iter().zip(ends).enumerate();
    let parts = parts.map(|(i, (l, end))| Partition { keys: l.start..end, owner: WorkerId(i as u16) });
    Ranges::new(TableId(0), table.keys, parts.collect()).map_err(|e| e.to_string())
}

fn load(partition: &Partition, line: &Line) -> Result<PartitionLoad, String> {
    let (start, end) = (partition.keys.start, partition.keys.end);
    let (width, subs) = (end - start, line.accesses.len() as u64);
    if subs > width {
        return Err(format!(
            "the partition at {start} has {subs} sub-buckets for {width} keys: at most one for each"
        ));
    }
    let sub = |(i, n): (usize, &u64)| {
        let offset = u128::from(width) * i as u128 / u128::from(subs);
        SubLoad { start: start + offset as u64, load: n * partition::WEIGHT }
    };
    let subs = line.accesses.iter().enumerate().map(sub).collect();
    Ok(PartitionLoad { end, requests: line.requests, queue: QueueLength(0), subs })
}

fn decide(text: &str, mode: Mode) -> Result<String, String> {
    let table = parse(text)?;
    let ranges = ranges(&table)?;
    let loads: Vec<PartitionLoad> =
        ranges.partitions().zip(&table.lines).map(|(p, l)| load(&p, l)).collect::<Result<_, _>>()?;
    let settings = Settings { mode, confirm: 1, ..Settings::default() };
    let mut balancer = Balancer::new(settings).map_err(|e| e.to_string())?;
    let decision = balancer.judge(&ranges, &loads).map_err(|e| e.to_string())?;
    Ok(told(&decision))
}

fn told(decision: &Decision) -> String {
    let mut out = format!("{decision}\n");
    if let BalanceVerdict::Repartition { plan, to, .. } = &decision.verdict {
        let _ = writeln!(out, "{plan}\nafterwards:");
        for Partition { keys, owner } in to.partitions() {
            let _ = writeln!(out, "  worker {owner}: {}..{}", keys.start, keys.end);
        }
    }
    out
}

fn run() -> Result<String, String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (file, mode) = match args.as_slice() {
        [file] => (file, Mode::Advise),
        [file, mode] => (file, mode.parse().map_err(|e: partition::SettingsError| e.to_string())?),
        _ => return Err("expected: balance FILE [off|advise|on]".into()),
    };
    let text =
        std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}; expected a readable text file"))?;
    decide(&text, mode).map_err(|e| format!("{file}: {e}"))
}

fn main() -> ExitCode {
    match run() {
        Ok(told) => {
            print!("{told}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("balance: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE_4_6: &str = "# figure 4.6\nkeys 3000\npartition 0 40 4 6 10 20\npartition 1000 240 60 70 60 50\n\
                              partition 2000 20 10 6 2 2\n";

    #[test]
    fn a_decision_has_a_reason_and_a_plan() {
        let told = decide(FIGURE_4_6, Mode::Advise).unwrap();
        assert!(told.starts_with(
            "table 0: partition 1 of 3 has 2.40 of the mean work (300 accesses): advise to repartition"
        ));
        assert!(told.contains("2 splits, 2 merges, 0 moves") && told.contains("worker 2: "), "{told}");
        assert!(decide(FIGURE_4_6, Mode::Off).unwrap().contains("keep, balancing is off"));
    }

    #[test]
    fn bad_files_are_explained() {
        let bad = |text: &str| decide(text, Mode::On).unwrap_err();
        assert!(bad("").contains("no line 'keys N'"));
        assert!(bad("keys 10").contains("no partition was given"));
        assert!(
            bad("keys 10\npartition 0 x 1")
                .contains("line 2: 'x' is no number; expected the partition's requests")
        );
        assert!(bad("keys 10\npartition 0 1").contains("line 2: expected 'keys N'"));
        assert!(bad("keys 10\npartition 1 1 1").contains("keys 0..1 are in no range"));
        assert!(bad("keys 2\npartition 0 1 1 1 1").contains("3 sub-buckets for 2 keys"));
        assert!(bad("keys 99999999999999999999").contains("is no number"));
        assert!(bad("keys 10\npartition 5 1 1\npartition 0 1 1").contains("holds no key"));
        assert!(bad("keys 2\npartition 0 1 9999999999999999").contains("too large"));
    }
}
