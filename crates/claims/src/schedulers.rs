//! The hardware and the rules of the schedulers that follow the code, counted with the crate that
//! simulates them: nothing runs.
//!
//! | value | a row for each | fields |
//! |---|---|---|
//! | `hardware` | scheduler | `monitor_bits`, `scheduler_bits`, `team_bits`, `bits`, `bytes` |
//! | `defaults` | scheduler | the parameters of the thesis |
//! | `teams` | queue | `transactions`, `cores`, `team_cores`, `team` |
//! | `places` | cores, place in the code | `operation`, `point` (0: the entry), `cores_of` |
//!
//! The thesis (Tözün, sections 7.3.3, 7.5.6 and 8.2.2) has them as tables 7.1 and 7.4, and as
//! examples.

use crate::count_row::row;
use crate::row::Row;
use ::trace::code;
use cachesim::hardware;
use cachesim::machine::Machine;
use cachesim::run::settings::Settings;
use cachesim::run::{addict, slicc, strex};
use serde::Deserialize;

/// Waiting transactions of one type on a chip.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    cores: usize,
    /// Numbers of them, one after the other.
    transactions: Vec<usize>,
}

/// The points of a type's operations, and the chips over which they are distributed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Points {
    /// The name of this example.
    name: String,
    operations: Vec<Operation>,
    cores: Vec<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    name: String,
    /// The lines at which a cache is full.
    points: Vec<u64>,
    /// How often it runs.
    runs: u64,
}

/// An impossible example.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChip {
    #[error("{name}: {cores} cores are fewer than its operations; expected one for each, and one more")]
    TooFew { name: String, cores: usize },
    #[error("{name}: {operation:?} is no operation of a trace; expected one such as probe")]
    Unknown { name: String, operation: String },
    #[error("{0}")]
    Machine(String),
}

/// The points of a table of ADDICT in the thesis' example.
const POINTS: u64 = 40;

/// A row for each scheduler, on 16 cores with the L1-I of the thesis' machine.
pub(crate) fn hardware() -> Result<Vec<Row>, BadChip> {
    let machine = Machine::built_in("zesto").map_err(|e| BadChip::Machine(e.to_string()))?;
    let settings = Settings::default();
    let lines = machine.l1i.lines() as u64;
    let slicc = hardware::slicc(settings.cores as u64, settings.matched as u64, settings.signature as u64);
    let all = [("slicc", slicc), ("strex", hardware::strex(lines)), ("addict", hardware::addict(POINTS))];
    let of = |(scheduler, bits): (&str, hardware::Bits)| {
        let mut row = row("hardware");
        row.set("scheduler", scheduler);
        row.set("monitor_bits", bits.monitor);
        row.set("scheduler_bits", bits.scheduler);
        row.set("team_bits", bits.teams);
        row.set("bits", bits.total());
        row.set("bytes", bits.bytes());
        if scheduler == "addict" {
            row.set("points", POINTS);
            row.set("point_bits", bits.scheduler / POINTS);
        }
        row
    };
    Ok(all.map(of).into())
}

/// A row for each scheduler that has parameters.
pub(crate) fn defaults() -> Vec<Row> {
    let settings = Settings::default();
    let named = |scheduler: &str| {
        let mut row = row("defaults");
        row.set("scheduler", scheduler);
        row
    };
    let mut slicc = named("slicc");
    slicc.set("fill_up", settings.fill_up);
    slicc.set("matched", settings.matched);
    slicc.set("dilution", settings.dilution);
    slicc.set("signature", settings.signature);
    let mut strex = named("strex");
    strex.set("team", settings.team);
    strex.set("window", settings.window);
    strex.set("phase_bits", strex::PHASE_BITS);
    vec![slicc, strex]
}

/// A row for each length of the queue.
pub(crate) fn teams(queue: &Queue) -> Vec<Row> {
    let of = |&transactions: &usize| {
        let (cores, team) = slicc::team(transactions, queue.cores, 1);
        let mut row = row("teams");
        row.set("transactions", transactions);
        row.set("cores", queue.cores);
        row.set("team_cores", cores);
        row.set("team", team);
        row
    };
    queue.transactions.iter().map(of).collect()
}

/// A row for each place, for each number of cores.
pub(crate) fn places(example: &Points) -> Result<Vec<Row>, BadChip> {
    let name = || example.name.clone();
    let mut profile = addict::Profile::new();
    for operation in &example.operations {
        let known = code::OPERATIONS.iter().find(|(_, word)| *word == operation.name);
        let (code, _) =
            known.ok_or_else(|| BadChip::Unknown { name: name(), operation: operation.name.clone() })?;
        let (sequence, runs) = (operation.points.clone(), operation.runs);
        profile.insert((0, *code), addict::Points { sequence, runs, stable: runs });
    }
    let mut rows = Vec::new();
    for &cores in &example.cores {
        let places = addict::assign(&profile, 0, cores);
        let places = places.ok_or_else(|| BadChip::TooFew { name: name(), cores })?;
        rows.extend(places.iter().map(|(place, of)| {
            let mut row = row("places");
            row.set("example", example.name.as_str());
            row.set("cores", cores);
            row.set("operation", code::name(place.operation).unwrap_or("begin"));
            row.set("point", place.line);
            row.set("cores_of", of.len());
            row
        }));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_becomes_a_team_by_its_length() {
        let rows = teams(&Queue { cores: 8, transactions: vec![3, 4, 11, 12] });
        let cores: Vec<_> = rows.iter().filter_map(|row| row.number("team_cores")).collect();
        assert_eq!(cores, [1.0, 4.0, 4.0, 8.0]);
        assert_eq!(rows[0].number("team"), Some(1.0), "a stray goes alone");
    }

    #[test]
    fn impossible_examples_are_explained() {
        let operation = |name: &str| Operation { name: name.into(), points: vec![], runs: 1 };
        let example = |operations, cores| Points { name: "x".into(), operations, cores };
        let few = places(&example(vec![operation("probe"), operation("update")], vec![2])).unwrap_err();
        assert!(few.to_string().contains("2 cores are fewer"), "{few}");
        let unknown = places(&example(vec![operation("dance")], vec![2])).unwrap_err();
        assert!(unknown.to_string().contains("\"dance\" is no operation"), "{unknown}");
    }
}
