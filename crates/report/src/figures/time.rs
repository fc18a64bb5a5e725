//! Where the time goes: a transaction's, what it waits for, and the workers'.

use super::{Amounts, BARS, Section, parts, portion_title, portions, shares, stacked, titled};
use crate::chart::{Figure, View};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep};
use driver::PerTransaction;

/// From the work to what keeps from it.
pub const COMPONENTS: &[&str] =
    &["execution", "locking", "latching", "logging", "communication", "management", "waiting", "idle"];
const WAITS: &[&str] = &["lock", "log", "reply", "decision", "page", "turn", "retry"];

const MICROSECONDS: f64 = 1e-3;

/// Title, id, what of a profile, the order of its parts, and how to read it.
type Kind =
    (&'static str, &'static str, fn(&PerTransaction) -> &Breakdown, &'static [&'static str], &'static str);
type Breakdown = std::collections::BTreeMap<String, f64>;

const KINDS: &[Kind] = &[
    (
        "Time of a transaction",
        "time",
        |p| &p.time_ns_per_txn,
        COMPONENTS,
        "From the client's request to the durable end. All parts but waiting are time in which the transaction itself ran.",
    ),
    (
        "What it waits for",
        "waits",
        |p| &p.waiting_ns_per_txn,
        WAITS,
        "The part called waiting in the figure above, divided.",
    ),
    (
        "Time of the workers",
        "workers",
        |p| &p.worker_ns_per_txn,
        COMPONENTS,
        "All workers' time for each committed transaction, work for other instances and idleness included.",
    ),
];

pub fn section(rows: &[Row], sweep: &Sweep) -> Section {
    let panels = sweep.panels();
    let of =
        |kind| panels.iter().enumerate().flat_map(move |(i, panel)| figures_of(rows, sweep, panel, i, kind));
    Section {
        id: "time",
        title: "Where the time goes",
        words: "Means per committed transaction, aborted tries included.",
        figures: KINDS.iter().flat_map(of).collect(),
    }
}

fn figures_of(rows: &[Row], sweep: &Sweep, panel: &Panel, number: usize, kind: &Kind) -> Vec<Figure> {
    let (what, id, of, order, words) = kind;
    let portions = portions(panel, |r| rows[r].row.profile.is_some(), BARS);
    let figure = |(at, portion): (usize, &Vec<usize>)| {
        let amounts: Amounts =
            portion.iter().filter_map(|r| rows[*r].row.profile.as_ref()).map(|p| of(p).clone()).collect();
        let absolute = parts(&amounts, order, MICROSECONDS);
        let views = vec![
            View { name: "µs".into(), unit: "µs".into(), parts: absolute.clone() },
            View { name: "%".into(), unit: "%".into(), parts: shares(&absolute) },
        ];
        let bars = portion.iter().map(|r| sweep.name(*r)).collect();
        let title = portion_title(&titled(what, panel), at, portions.len());
        stacked(format!("{id}-{number}-{at}"), title, words, bars, views)
    };
    portions.iter().enumerate().filter_map(figure).collect()
}
