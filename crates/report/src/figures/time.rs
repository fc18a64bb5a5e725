//! Where the time goes: a transaction's time, its waits, and the workers' time.

use super::{Amounts, BARS, Section, parts, portion_title, portions, shares, stacked, titled};
use crate::chart::{Figure, Part, View};
use crate::rows::Row;
use crate::sweep::{Panel, Sweep};
use driver::PerTransaction;

/// From useful work to overhead and waits.
pub const COMPONENTS: &[&str] =
    &["execution", "locking", "latching", "logging", "communication", "management", "waiting", "idle"];
const WAITS: &[&str] = &["lock", "log", "reply", "decision", "page", "turn", "retry"];

/// Parts in which no work is done.
const PASSIVE: &[&str] = &["waiting", "idle"];

const MICROSECONDS: f64 = 1e-3;

/// Title, id, the part of the profile, the order of its parts, and how to read it.
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
        let profiles: Vec<&PerTransaction> =
            portion.iter().filter_map(|r| rows[*r].row.profile.as_ref()).collect();
        let amounts: Amounts = profiles.iter().map(|p| of(p).clone()).collect();
        let bars = portion.iter().map(|r| sweep.name(*r)).collect();
        let title = portion_title(&titled(what, panel), at, portions.len());
        let words = match *id {
            "time" => format!("{words}{}", waiting_in_words(portion.iter().map(|r| &rows[*r]))),
            _ => words.to_string(),
        };
        stacked(format!("{id}-{number}-{at}"), title, &words, bars, views(&amounts, order))
    };
    portions.iter().enumerate().filter_map(figure).collect()
}

/// The ways to divide a bar: first without the passive part, if there are other parts, then the
/// whole.
fn views(amounts: &Amounts, order: &[&str]) -> Vec<View> {
    let all = parts(amounts, order, MICROSECONDS);
    let work: Vec<Part> = all.iter().filter(|p| !PASSIVE.contains(&p.name.as_str())).cloned().collect();
    let passive = all.iter().find(|p| PASSIVE.contains(&p.name.as_str()));
    let view = |name: String, unit: &str, parts: Vec<Part>| View { name, unit: unit.into(), parts };
    match passive.filter(|_| !work.is_empty()) {
        None => vec![view("µs".into(), "µs", all.clone()), view("%".into(), "%", shares(&all))],
        Some(passive) => vec![
            view("work, µs".into(), "µs", work.clone()),
            view("work, %".into(), "%", shares(&work)),
            view(format!("with {}, µs", passive.name), "µs", all.clone()),
            view(format!("with {}, %", passive.name), "%", shares(&all)),
        ],
    }
}

/// The share of time spent waiting, and the longest wait.
fn waiting_in_words<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> String {
    let share = |row: &Row| {
        let profile = row.row.profile.as_ref()?;
        let waiting = profile.time_ns_per_txn.get("waiting")?;
        Some(waiting / profile.elapsed_ns().max(1e-9) * 100.0).filter(|share| share.is_finite())
    };
    let shares: Vec<f64> = rows.clone().filter_map(share).collect();
    let (Some(least), Some(most)) =
        (shares.iter().copied().reduce(f64::min), shares.iter().copied().reduce(f64::max))
    else {
        return String::new();
    };
    let range = match (least.round(), most.round()) {
        (least, most) if least == most => format!("{most} %"),
        (least, most) => format!("{least} to {most} %"),
    };
    let turns = rows.clone().filter(|row| mostly(row) == Some("turn")).count();
    let clients = rows.clone().find_map(|row| row.row.settings.clients);
    let why = match clients {
        _ if turns == 0 => String::new(),
        Some(n) if n > 1 => format!(
            ", mostly for its turn: {n} clients share a worker, and while it runs one transaction {} wait",
            n - 1
        ),
        _ => ", mostly for its turn at the worker".into(),
    };
    format!(" Waiting stands apart: {range} of the time{why}.")
}

/// The longest wait of a row.
fn mostly(row: &Row) -> Option<&str> {
    let waits = &row.row.profile.as_ref()?.waiting_ns_per_txn;
    waits.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::{ResultRow, Settings};

    fn amounts(pairs: &[(&str, f64)]) -> Breakdown {
        pairs.iter().map(|(name, ns)| (name.to_string(), *ns)).collect()
    }

    #[test]
    fn work_is_shown_without_the_waiting_that_would_dwarf_it() {
        let all = vec![amounts(&[("execution", 9000.0), ("logging", 1000.0), ("waiting", 30_000.0)])];
        let views = views(&all, COMPONENTS);
        let told: Vec<(&str, Vec<&str>)> = views
            .iter()
            .map(|v| (v.name.as_str(), v.parts.iter().map(|p| p.name.as_str()).collect()))
            .collect();
        assert_eq!(told[0], ("work, µs", vec!["execution", "logging"]));
        assert_eq!(told[2], ("with waiting, µs", vec!["execution", "logging", "waiting"]));
        assert_eq!((views[1].parts[0].values[0], views[3].parts[2].values[0]), (90.0, 75.0));
        let waits = super::views(&vec![amounts(&[("turn", 5.0), ("log", 5.0)])], WAITS);
        assert_eq!(waits.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["µs", "%"]);
    }

    #[test]
    fn waiting_for_a_turn_is_said_to_be_the_number_of_clients() {
        let row = |waiting: f64, wait: &str| {
            let profile = PerTransaction {
                time_ns_per_txn: amounts(&[("execution", 100.0 - waiting), ("waiting", waiting)]),
                waiting_ns_per_txn: amounts(&[(wait, waiting)]),
                ..PerTransaction::default()
            };
            let settings = Settings { clients: Some(4), ..Settings::default() };
            Row::from(&ResultRow { settings, profile: Some(profile), ..ResultRow::default() })
        };
        let text = waiting_in_words([row(75.0, "turn"), row(60.0, "turn")].iter());
        assert!(
            text.contains("60 to 75 %")
                && text.contains("4 clients share a worker")
                && text.contains("3 wait"),
            "{text}"
        );
        let text = waiting_in_words([row(75.0, "log")].iter());
        assert!(text.contains("75 % of the time.") && !text.contains("clients"), "{text}");
        assert_eq!(waiting_in_words([].iter()), "");
    }
}
