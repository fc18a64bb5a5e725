//! Rows about freshly loaded data: the database of an experiment is built, inspected as
//! `atoll check` does, and removed.
//!
//! There is a row for each table and one for `all`, over all instances: `records`, `heap_pages`
//! (pages of long rows included), `index_pages`, `indexes` (trees), `partition_table_pages`.

use crate::cli::{Cli, Command, LoadArgs};
use crate::failure::Failure;
use crate::load;
use base::counted;
use claims::Row;
use clap::Parser;
use deploy::{Inspected, Interrupt};
use std::collections::BTreeMap;
use std::path::Path;

/// Page memory for the inspection.
const LOOKING: u64 = 256 << 20;

/// The rows of one load, by its command line without `--data`.
///
/// # Errors
/// A line that `atoll load` refuses; a load that fails; damage, which freshly loaded data cannot
/// have.
pub fn rows(line: &str, interrupt: &Interrupt) -> Result<Vec<Row>, Failure> {
    let dir = tempfile::Builder::new().prefix("atoll-load-").tempdir();
    let dir =
        dir.map_err(|e| Failure::Run(format!("no room for a load: {e}; set TMPDIR to where there is")))?;
    let args = args(line, &dir.path().join("data"))?;
    load::build(&args, interrupt)?;
    let inspected = deploy::inspect(&args.data, LOOKING, &mut |_, _, _, _| ())?;
    let damage = inspected.all_findings().filter(|f| f.is_damage()).count();
    if damage > 0 {
        return Err(Failure::Run(format!(
            "atoll load {line}: {} in data that was just loaded; this is a bug",
            counted(damage, "finding")
        )));
    }
    Ok(told(&inspected))
}

/// The arguments of the command line with a data directory added.
///
/// # Errors
/// A line that `atoll load` refuses.
pub fn args(line: &str, data: &Path) -> Result<LoadArgs, Failure> {
    let dir = data.to_string_lossy();
    let words = ["atoll", "load"].into_iter().chain(line.split_whitespace()).chain(["--data", &dir]);
    match Cli::try_parse_from(words).map_err(|e| Failure::Usage(format!("{line}: {e}")))?.command {
        Some(Command::Load(args)) => Ok(*args),
        _ => Err(Failure::Usage(format!("{line}: no command line of load"))),
    }
}

#[derive(Default)]
struct Amount {
    records: u64,
    heap_pages: u64,
    index_pages: u64,
    indexes: u64,
    partition_table_pages: u64,
}

fn told(inspected: &Inspected) -> Vec<Row> {
    let mut tables: BTreeMap<String, Amount> = BTreeMap::new();
    for table in inspected.instances.iter().flat_map(|i| &i.report.tables) {
        // `all` (the empty name) comes before every table name in sort order, so it is the first
        // row of a load.
        for name in [String::new(), table.name.to_lowercase()] {
            let amount = tables.entry(name).or_default();
            amount.records += table.rows();
            amount.heap_pages += table.heap.pages + table.heap.large_pages;
            amount.indexes += table.trees.len() as u64;
            for (_, tree) in &table.trees {
                amount.index_pages += tree.leaves + tree.inner_nodes;
                amount.partition_table_pages += tree.table_pages;
            }
        }
    }
    let manifest = &inspected.look.manifest;
    let row = |(name, amount): (String, Amount)| {
        let mut row = Row::default();
        row.set("what", "loaded");
        claims::counting::label(&mut row, &manifest.workload);
        row.set("islands", manifest.islands);
        row.set("tables", manifest.tables.name());
        row.set("tree", manifest.trees.name());
        row.set("heap", manifest.heaps.name());
        row.set("partitions", manifest.partitions);
        row.set("table", if name.is_empty() { "all" } else { &name });
        row.set("records", amount.records);
        row.set("heap_pages", amount.heap_pages);
        row.set("index_pages", amount.index_pages);
        row.set("indexes", amount.indexes);
        row.set("partition_table_pages", amount.partition_table_pages);
        row
    };
    tables.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_typed_without_its_directory() {
        let load = args("tpcb --scale 2", Path::new("d")).unwrap();
        assert_eq!(
            (load.workload.as_str(), load.scale, load.data.as_path()),
            ("tpcb", Some(2), Path::new("d"))
        );
        assert!(args("tpcz", Path::new("d")).is_err());
        assert!(args("--help", Path::new("d")).is_err());
    }
}
