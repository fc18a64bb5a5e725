//! `atoll stats`: the records, locks and pages that one transaction of a workload touches, by kind,
//! beside the figures of papers and definitions.
//!
//! One client runs on one worker of one instance, and every transaction is counted: the figures are
//! those of the work itself, without waits, retries or messages. A bench with `--profile` has the
//! same figures for the deployment that it measures.

use crate::bench::{live_machine, stamp};
use crate::cli::{BenchArgs, COUNTER, Cli, Command, IPC, StatsArgs, workload_names};
use crate::failure::Failure;
use crate::output::print;
use crate::progress::Progress;
use crate::sheet::fitted;
use crate::stop::Stop;
use crate::sweep::Sweep;
use clap::Parser;
use comfy_table::{CellAlignment, Table, presets};
use deploy::Interrupt;
use driver::{Profiling, ResultRow, Session};
use std::collections::BTreeMap;

/// The counted quantities: the name in rows, and the heading in the table.
const COLUMNS: [(&str, &str); 7] = [
    ("records", "records"),
    ("row_locks", "row locks"),
    ("higher_locks", "higher locks"),
    ("unique_heap_pages", "unique heap pages"),
    ("unique_index_pages", "unique index pages"),
    ("heap_pages", "heap page visits"),
    ("index_pages", "index page visits"),
];

/// Published figures, in the order of [`COLUMNS`]; `None` where the source gives none.
struct Published {
    workload: &'static str,
    /// A kind of request, or the mean over the mix.
    kind: &'static str,
    source: &'static str,
    figures: [Option<f64>; COLUMNS.len()],
}

const MEAN: &str = "mean";

const fn records(workload: &'static str, kind: &'static str, n: f64) -> Published {
    let figures = [Some(n), None, None, None, None, None, None];
    Published { workload, kind, source: "derived from the definition", figures }
}

const fn thesis(workload: &'static str, figures: [f64; COLUMNS.len()]) -> Published {
    let [a, b, c, d, e, f, g] = figures;
    let figures = [Some(a), Some(b), Some(c), Some(d), Some(e), Some(f), Some(g)];
    Published { workload, kind: MEAN, source: "thesis, Table 5.2 (Shore-MT)", figures }
}

const PUBLISHED: &[Published] = &[
    thesis("tpcb", [4.0, 10.0, 10.0, 4.0, 4.0, 7.0, 4.0]),
    records("tpcb", MEAN, 4.0),
    thesis("tpcc", [36.0, 54.0, 36.0, 23.0, 33.0, 49.0, 90.0]),
    records("tpcc", MEAN, 39.0),
    records("tpcc", "new_order", 35.0),
    records("tpcc", "payment", 4.6),
    records("tpcc", "order_status", 12.6),
    records("tpcc", "delivery", 130.0),
    records("tpcc", "stock_level", 397.0),
    thesis("tpce", [149.0, 171.0, 69.0, 40.0, 33.0, 125.0, 211.0]),
    records("tpce", MEAN, 140.0),
    records("tpce", "customer_position", 131.0),
    records("tpce", "market_feed", 38.0),
    records("tpce", "market_watch", 257.0),
    records("tpce", "security_detail", 53.0),
    records("tpce", "trade_lookup", 96.0),
    records("tpce", "trade_order", 17.7),
    records("tpce", "trade_result", 18.0),
    records("tpce", "trade_status", 250.0),
    records("tpce", "trade_update", 126.0),
    records("tatp", "get_subscriber_data", 1.0),
    records("tatp", "get_access_data", 1.0),
    records("tatp", "update_subscriber_data", 2.0),
    records("tatp", "update_location", 1.0),
    records("tatp", "insert_call_forwarding", 4.5),
    records("tatp", "delete_call_forwarding", 2.0),
];

pub fn run(args: &StatsArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if [COUNTER, IPC].contains(&args.workload.as_str()) {
        let expected = workload_names();
        return Err(Failure::Usage(format!("counter and ipc run no transactions; expected {expected}")));
    }
    let machine = live_machine("live")?;
    let sweep = Sweep::plan(&as_bench(args)?, &machine, interrupt)?;
    let mut progress = Progress::new(1);
    let Some(Stop { deployment, placement, mut mixes }) = sweep.stops.into_iter().next() else {
        return Err(Failure::Usage("nothing to run".into()));
    };
    let (subject, mut schedule) = mixes.swap_remove(0);
    schedule.profiling = Profiling::OneIn(1);
    progress.next(&args.workload);
    let mut session = Session::open(deployment, stamp(&machine), placement.name(), &mut progress)?;
    let row = session.run(&subject, &schedule, &|| None, &mut progress)?;
    session.close()?;
    progress.finish();
    if args.json { print(&json(&row)?.to_string()) } else { print(&fitted(table(&row)?)) }
}

/// A bench of one client that counts everything.
fn as_bench(args: &StatsArgs) -> Result<BenchArgs, Failure> {
    let words = [
        "atoll",
        "bench",
        &args.workload,
        "--islands",
        "1",
        "--workers",
        "1",
        "--clients",
        "1",
        "--profile",
        "--repeat",
        "1",
        "--warmup",
        "200ms",
        "--durability",
        "memory",
    ];
    let Ok(Cli { command: Some(Command::Bench(bench)) }) = Cli::try_parse_from(words) else {
        return Err(Failure::Run("the command has lost its bench".into()));
    };
    let mut bench = *bench;
    bench.deployment.design = vec![args.design];
    bench.measuring.duration = args.duration;
    bench.measuring.seed = args.seed;
    bench.requests.scale = vec![args.scale];
    bench.requests.own = args.own.clone();
    Ok(bench)
}

/// A kind of transaction, the number of its requests that ended, and the mean counts of one
/// request.
type Kind<'a> = (&'a str, u64, &'a BTreeMap<String, f64>);

/// The measured figures: each kind with the number of its requests, and the mean over the mix.
fn measured(row: &ResultRow) -> Result<Vec<Kind<'_>>, Failure> {
    let lost = || Failure::Run("nothing was counted: no transaction ended; try a longer --duration".into());
    let profile = row.profile.as_ref().filter(|_| row.committed > 0).ok_or_else(lost)?;
    let ended = |kind: &str| {
        let of = |map: &BTreeMap<String, u64>| map.get(kind).copied().unwrap_or(0);
        of(&row.committed_by_kind) + of(&row.user_aborted_by_kind)
    };
    let kinds = profile.accesses_by_kind.iter().map(|(kind, counts)| (kind.as_str(), ended(kind), counts));
    let mut all: Vec<_> = kinds.collect();
    all.push((MEAN, row.committed, &profile.accesses_per_txn));
    Ok(all)
}

/// The published figures for a workload. A variant of the workload shares the figures of its kinds,
/// but not the mean.
fn published<'a>(workload: &'a str, kind: &'a str) -> impl Iterator<Item = &'static Published> + use<'a> {
    let about = move |p: &&Published| {
        let kin = p.workload == workload || kind != MEAN && workload.starts_with(p.workload);
        kin && p.kind == kind
    };
    PUBLISHED.iter().filter(about)
}

fn table(row: &ResultRow) -> Result<Table, Failure> {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["transaction", "source", "how many"].into_iter().chain(COLUMNS.map(|(_, head)| head)));
    for (kind, n, counts) in measured(row)? {
        let found = COLUMNS.map(|(name, _)| format!("{:.1}", counts.get(name).copied().unwrap_or(0.0)));
        table.add_row([kind.to_owned(), "measured".into(), n.to_string()].into_iter().chain(found));
        for p in published(&row.settings.workload, kind) {
            let figures = p.figures.map(|f| f.map_or_else(String::new, |f| format!("{f:.1}")));
            table.add_row([String::new(), p.source.into(), String::new()].into_iter().chain(figures));
        }
    }
    table.column_iter_mut().skip(2).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    Ok(table)
}

fn json(row: &ResultRow) -> Result<serde_json::Value, Failure> {
    let one = |(kind, n, counts): Kind<'_>| {
        let published: Vec<_> = published(&row.settings.workload, kind)
            .map(|p| {
                let figures: BTreeMap<_, _> =
                    COLUMNS.iter().zip(p.figures).filter_map(|((name, _), f)| Some((*name, f?))).collect();
                serde_json::json!({ "source": p.source, "figures": figures })
            })
            .collect();
        (kind.to_owned(), serde_json::json!({ "n": n, "measured": counts, "published": published }))
    };
    let transactions: serde_json::Map<_, _> = measured(row)?.into_iter().map(one).collect();
    Ok(serde_json::json!({
        "settings": row.settings,
        "transactions": transactions,
        "workload_stats": row.workload_stats,
        "consistent": row.consistent,
        "commit": row.commit,
        "version": row.version,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_figure_is_of_a_workload_that_there_is() {
        let names: Vec<_> = workload::spec::forms().map(|f| f.name).collect();
        assert!(PUBLISHED.iter().all(|p| names.contains(&p.workload)));
    }

    #[test]
    fn a_form_shares_the_figures_of_its_kinds_and_not_the_mean() {
        let sources = |workload, kind| published(workload, kind).count();
        assert_eq!((sources("tpcc", MEAN), sources("tpcc-payment", MEAN)), (2, 0));
        assert_eq!((sources("tpcc", "payment"), sources("tpcc-payment", "payment")), (1, 1));
        assert_eq!(sources("micro", MEAN), 0);
    }
}
