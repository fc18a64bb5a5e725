//! Compares two sets of rows: pairs each row of one set with its counterpart in the other, and
//! judges the change.
//!
//! Rows are a pair if their settings agree. The comparison ignores the seed, the page memory that
//! was computed from free memory, settings that the caller names, and settings that one of the sets
//! does not have at all because it is of another version.

use crate::rows::Row;
use crate::sweep::{Sweep, settings};
use crate::table::{Align, Cell, Table, Tone};
use crate::text::{short, thousands};
use crate::verdict::{Measure, RowVerdict, Spread};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Settings that do not make two rows different experiments.
const ASIDE: &[&str] = &["seed", "memory_mib"];

/// The parameters of the comparison.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    pub by: Measure,
    /// A loss up to this share is no regression.
    pub threshold: f64,
    /// Settings in which the two sets may differ, by their names in rows.
    pub aside: Vec<String>,
}

/// A pair of rows, or a row without a counterpart.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    /// The settings in which the rows of either set differ, in words.
    pub name: String,
    pub a: Option<Side>,
    pub b: Option<Side>,
    /// B divided by A; for latencies a ratio above 1 is worse.
    pub ratio: Option<f64>,
    pub verdict: Outcome,
    /// Worse by more than the threshold.
    pub regression: bool,
}

/// One row's value, with its least and greatest repetition.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Side {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub noise: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Better,
    Worse,
    NoDifference,
    OnlyInA,
    OnlyInB,
    /// A row does not have the measure.
    NotMeasured,
}

impl Outcome {
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Better => "better",
            Outcome::Worse => "worse",
            Outcome::NoDifference => "no difference",
            Outcome::OnlyInA => "only in A",
            Outcome::OnlyInB => "only in B",
            Outcome::NotMeasured => "not measured",
        }
    }
}

/// The rows of A in their order, each with its counterpart of B if there is one, then the other
/// rows of B.
pub fn pairs(a: &[Row], b: &[Row], question: &Question) -> Vec<Pair> {
    let (keys_a, keys_b) = keys(a, b, question);
    let all: Vec<Row> = a.iter().chain(b).cloned().collect();
    let sweep = Sweep::of(&all);
    let name = |row: usize| {
        let words = [sweep.request(row), sweep.deployment_less(row, &["run", "repetition"])];
        let words: Vec<String> = words.into_iter().filter(|words| !words.is_empty()).collect();
        if words.is_empty() { all[row].row.settings.workload.clone() } else { words.join(" · ") }
    };
    let mut free: Vec<usize> = (0..b.len()).collect();
    let mut out = Vec::new();
    for (at, row) in a.iter().enumerate() {
        let other = free.iter().position(|other| keys_b[*other] == keys_a[at]).map(|at| free.remove(at));
        out.push(pair(name(at), Some(row), other.map(|other| &b[other]), question));
    }
    out.extend(free.into_iter().map(|at| pair(name(a.len() + at), None, Some(&b[at]), question)));
    out
}

type Key = BTreeMap<String, String>;

/// The keys by which rows are paired.
fn keys(a: &[Row], b: &[Row], question: &Question) -> (Vec<Key>, Vec<Key>) {
    let of = |rows: &[Row]| rows.iter().map(settings).collect::<Vec<Key>>();
    let (mut a, mut b) = (of(a), of(b));
    let known = |keys: &[Key]| keys.iter().flat_map(BTreeMap::keys).cloned().collect::<BTreeSet<String>>();
    let both: BTreeSet<String> = known(&a).intersection(&known(&b)).cloned().collect();
    let counts =
        |key: &String| both.contains(key) && !ASIDE.contains(&key.as_str()) && !question.aside.contains(key);
    a.iter_mut().chain(&mut b).for_each(|key| key.retain(|name, _| counts(name)));
    (a, b)
}

fn pair(name: String, a: Option<&Row>, b: Option<&Row>, question: &Question) -> Pair {
    let side = |row: Option<&Row>| {
        let row = &row?.row;
        let Spread { low, value, high, .. } = question.by.spread(row)?;
        Some(Side { value, low, high, noise: row.noise })
    };
    let (verdict, advantage) = match (a, b) {
        (Some(_), None) => (Outcome::OnlyInA, None),
        (None, _) => (Outcome::OnlyInB, None),
        (Some(a), Some(b)) => {
            let verdict = match question.by.judge(&b.row, &a.row) {
                None => Outcome::NotMeasured,
                Some(RowVerdict::Better) => Outcome::Better,
                Some(RowVerdict::Worse) => Outcome::Worse,
                Some(RowVerdict::NoDifference) => Outcome::NoDifference,
            };
            (verdict, question.by.advantage(&b.row, &a.row))
        }
    };
    let (a, b) = (side(a), side(b));
    let ratio = a.zip(b).map(|(a, b)| b.value / a.value).filter(|ratio| ratio.is_finite());
    // Without an advantage one of the two values is 0: everything was lost, or there was nothing to
    // lose.
    let kept = advantage.unwrap_or(0.0);
    let regression = verdict == Outcome::Worse && kept < 1.0 - question.threshold;
    Pair { name, a, b, ratio, verdict, regression }
}

/// The pairs as a table for human readers.
pub fn table(pairs: &[Pair], by: Measure) -> Table {
    let unit = if by == Measure::Tps { "per second".to_string() } else { format!("{} µs", by.name()) };
    let right = |name: String| (name, Align::Right);
    let mut table = Table::new([
        ("rows".to_string(), Align::Left),
        right(format!("A, {unit}")),
        right("spread %".into()),
        right(format!("B, {unit}")),
        right("spread %".into()),
        right("B / A".into()),
        ("verdict".to_string(), Align::Left),
    ]);
    for pair in pairs {
        let value = |side: Option<Side>| {
            side.map_or(Cell::text("–"), |s| {
                Cell::number(s.value, if s.value < 100.0 { short(s.value) } else { thousands(s.value) })
            })
        };
        let spread = |side: Option<Side>| {
            side.map_or(Cell::text("–"), |s| {
                let share = (s.high - s.low) / s.value.max(1e-9) * 100.0;
                Cell::number(share, format!("{share:.0}"))
            })
        };
        let tone = match pair.verdict {
            Outcome::Better => Tone::Best,
            Outcome::Worse => Tone::Alarming,
            _ => Tone::Plain,
        };
        let words = pair.verdict.words().to_string() + if pair.regression { ", a regression" } else { "" };
        table.rows.push(vec![
            Cell::text(&pair.name),
            value(pair.a),
            spread(pair.a),
            value(pair.b),
            spread(pair.b),
            pair.ratio.map_or(Cell::text("–"), |ratio| Cell::number(ratio, format!("{ratio:.3}"))),
            Cell::text(words).toned(tone),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::{LatencyUs, RepetitionRow, ResultRow, Settings};

    fn row(design: &str, islands: u16, tps: f64) -> Row {
        let settings = Settings {
            workload: "tpcb".into(),
            design: Some(design.into()),
            islands: Some(islands),
            ..Settings::default()
        };
        let latency = |tps: f64| Some(LatencyUs { p50: 1e6 / tps, p99: 1e7 / tps, ..LatencyUs::default() });
        let repetition =
            |tps: f64| RepetitionRow { tps, latency_us: latency(tps), ..RepetitionRow::default() };
        let repetitions = [0.99, 1.0, 1.01].map(|f| repetition(tps * f)).into();
        let row = ResultRow { settings, tps, repetitions, latency_us: latency(tps), ..ResultRow::default() };
        Row::from(&row)
    }

    fn ask(by: Measure, threshold: f64) -> Question {
        Question { by, threshold, aside: Vec::new() }
    }

    #[test]
    fn rows_are_matched_by_their_settings_in_whatever_order() {
        let a = [row("serial", 1, 100.0), row("occ", 1, 200.0), row("occ", 2, 300.0)];
        let mut b = [row("occ", 1, 150.0), row("serial", 1, 101.0), row("serial", 2, 50.0)];
        (b[0].row.settings.seed, b[0].row.settings.memory_mib) = (Some(9), Some(4711.0));
        b[1].row.settings.engine.set("tables", "heap");
        let pairs = pairs(&a, &b, &ask(Measure::Tps, 0.05));
        let told: Vec<(&str, Outcome, bool)> =
            pairs.iter().map(|p| (p.name.as_str(), p.verdict, p.regression)).collect();
        assert_eq!(
            told,
            [
                ("serial, 1 island", Outcome::NoDifference, false),
                ("occ, 1 island", Outcome::Worse, true),
                ("occ, 2 islands", Outcome::OnlyInA, false),
                ("serial, 2 islands", Outcome::OnlyInB, false),
            ]
        );
        assert_eq!((pairs[1].ratio, pairs[2].ratio), (Some(0.75), None));
        let text = table(&pairs, Measure::Tps).html("x");
        assert!(text.contains("worse, a regression") && text.contains("only in B"), "{text}");
    }

    #[test]
    fn a_loss_within_the_threshold_is_worse_and_no_regression() {
        let (a, b) = ([row("occ", 1, 100.0)], [row("occ", 1, 92.0)]);
        let of = |by, threshold| {
            let all = pairs(&a, &b, &ask(by, threshold));
            (all[0].verdict, all[0].regression)
        };
        assert_eq!(of(Measure::Tps, 0.10), (Outcome::Worse, false));
        assert_eq!(of(Measure::Tps, 0.05), (Outcome::Worse, true));
        assert_eq!(of(Measure::P99, 0.05), (Outcome::Worse, true));
        assert_eq!(of(Measure::P95, 0.05), (Outcome::NotMeasured, false));
        let turned = pairs(&b, &a, &ask(Measure::P50, 0.0));
        assert_eq!((turned[0].verdict, turned[0].regression), (Outcome::Better, false));
        assert!((turned[0].ratio.unwrap() - 0.92).abs() < 1e-9, "the ratio is of the values as they are");
    }

    #[test]
    fn settings_may_be_left_aside() {
        let (a, b) = ([row("occ", 1, 100.0)], [row("serial", 1, 150.0)]);
        let mut question = ask(Measure::Tps, 0.05);
        assert_eq!(pairs(&a, &b, &question).len(), 2);
        question.aside = vec!["design".into()];
        let pairs = pairs(&a, &b, &question);
        assert_eq!((pairs.len(), pairs[0].verdict), (1, Outcome::Better));
    }

    #[test]
    fn equal_rows_are_matched_one_to_one() {
        let (a, b) = (vec![row("occ", 1, 100.0); 3], vec![row("occ", 1, 100.0); 2]);
        let told: Vec<Outcome> = pairs(&a, &b, &ask(Measure::Tps, 0.0)).iter().map(|p| p.verdict).collect();
        assert_eq!(told, [Outcome::NoDifference, Outcome::NoDifference, Outcome::OnlyInA]);
        let dead = [row("occ", 1, 0.0)];
        let lost = pairs(&a[..1], &dead, &ask(Measure::Tps, 0.5));
        assert!(lost[0].regression, "all is lost: {lost:?}");
    }
}
