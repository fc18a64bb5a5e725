//! Short measured trials of the deployments that the model cannot tell apart.

use super::question::Question;
use super::window::{self, Windows};
use crate::failure::Failure;
use crate::progress::Progress;
use advisor::plan::{Entry, Plan};
use advisor::race::{Arm, Ended, median, race};
use advisor::{Basis, Candidate, Interval, Objective, RaceError, RaceOptions, RaceResult, Trial};
use deploy::Interrupt;
use driver::ResultRow;
use std::time::{Duration, Instant};

/// The most deployments to try.
const MOST_ARMS: usize = 12;
/// The windows of one trial.
const WINDOWS: Windows = Windows { warmup: "300ms", duration: "400ms", repeat: "2", seed: 1 };
/// The expected time of a trial: windows, warm-up, start, load and check of a small database.
const TRIAL_S: f64 = 2.0;
/// The budget unless the options set it.
pub const BUDGET: Duration = Duration::from_secs(60);

/// Lets measured windows choose between the entries of the ranking that may be the best, and orders
/// the ranking by them.
///
/// # Errors
/// A budget too small for one trial of each of two deployments; a run that fails; an interruption.
pub fn decide(question: &Question<'_>, plan: &mut Plan, interrupt: &Interrupt) -> Result<(), Failure> {
    let Some(machine) = &question.live else { return Ok(()) };
    let arms = put_arms_first(&mut plan.ranking);
    let preference = preference(question, &plan.ranking[..arms]);
    // Probes that were not asked for are paid from the same budget.
    let probed = if question.args.calibrate.is_none() { question.probed } else { Duration::ZERO };
    let budget_s = question.args.budget.unwrap_or(BUDGET).saturating_sub(probed).as_secs_f64();
    let windows = Windows { seed: question.args.seed, ..WINDOWS };
    let options = RaceOptions { budget_s, trial_s: TRIAL_S, ..RaceOptions::default() };
    let mut progress = Progress::new((budget_s / TRIAL_S) as usize);
    let mut p99: Vec<Vec<f64>> = vec![Vec::new(); arms];
    let result = race(&preference, &options, |at| {
        let candidate = &plan.ranking[at].candidate;
        let begun = Instant::now();
        progress.next(&candidate.to_string());
        let load = (plan.workload.name.as_str(), &*plan.workload.options);
        let row = window::measure(load, candidate, &windows, machine, interrupt, &mut progress)?;
        progress.done(&format!("{:.0} /s", row.tps));
        p99[at].extend(row.latency_us.map(|latency| latency.p99));
        Ok(Trial {
            windows: scores(question.args.objective, candidate, &row),
            seconds: begun.elapsed().as_secs_f64(),
        })
    });
    progress.finish();
    let result = result.map_err(|e: RaceError<Failure>| match e {
        RaceError::Advice(error) => super::refused(error),
        RaceError::Trial(failure) => failure,
        RaceError::AllFailed => Failure::Usage(format!(
            "--objective {}: no deployment reached it in a trial; the nearest was {}",
            question.args.objective,
            nearest(plan, &p99)
        )),
    })?;
    apply(plan, &result, &p99);
    Ok(())
}

/// Puts the entries to try at the head of the ranking, and returns their number. These are the
/// simulated ones that may be the best: those with an interval that reaches that of the first, and
/// the best of each design. The costs of a design are wrong for all its deployments alike, so an
/// interval says less about the difference between two designs.
fn put_arms_first(ranking: &mut Vec<Entry>) -> usize {
    let least = ranking[0].score.low;
    let mut designs = Vec::new();
    let (mut arms, others): (Vec<Entry>, Vec<Entry>) = ranking.drain(..).partition(|entry| {
        let is_new = !designs.contains(&entry.candidate.design);
        if is_new {
            designs.push(entry.candidate.design.clone());
        }
        entry.basis == Basis::Refined && (is_new || entry.score.high >= least)
    });
    let count = arms.len().clamp(1, MOST_ARMS);
    arms.extend(others);
    *ranking = arms;
    count
}

/// The place of each entry among equals.
fn preference(question: &Question<'_>, entries: &[Entry]) -> Vec<usize> {
    let preference = question.options().preference;
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|at| preference.rank(&entries[*at].candidate));
    let place = |at: usize| order.iter().position(|other| *other == at).unwrap_or(at);
    (0..entries.len()).map(place).collect()
}

/// The score of each window; none if the row breaks the objective's bound.
fn scores(objective: Objective, candidate: &Candidate, row: &ResultRow) -> Vec<f64> {
    let windows = row.repetitions.iter().map(|window| window.tps);
    match objective {
        Objective::Tps => windows.collect(),
        Objective::TpsPerCore => windows.map(|tps| tps / candidate.workers.max(1) as f64).collect(),
        Objective::P99Below(us) => {
            let keeps = row.latency_us.as_ref().is_none_or(|latency| latency.p99 < us);
            if keeps { windows.collect() } else { Vec::new() }
        }
    }
}

fn nearest(plan: &Plan, p99: &[Vec<f64>]) -> String {
    let tried = p99.iter().enumerate().filter(|(_, all)| !all.is_empty());
    let best = tried.min_by(|a, b| median(a.1).total_cmp(&median(b.1)));
    best.map_or("none".to_owned(), |(at, all)| {
        format!("{} with a p99 of {}", plan.ranking[at].candidate, advisor::time(median(all)))
    })
}

/// Puts the measured entries first, the winner at their head. The predictions of the others are
/// scaled by the median ratio of a measurement to its prediction.
fn apply(plan: &mut Plan, result: &RaceResult, p99: &[Vec<f64>]) {
    let tried = result.arms.iter().zip(&plan.ranking).filter(|(arm, _)| !arm.windows.is_empty());
    let ratios: Vec<f64> = tried.map(|(arm, entry)| arm.median / entry.score.mid).collect();
    let scale = median(&ratios);
    if scale.is_finite() && scale > 0.0 {
        plan.ranking.iter_mut().for_each(|entry| rescale(entry, scale));
        plan.search.scale = Some(scale);
    }
    for (at, arm) in result.arms.iter().enumerate() {
        if !arm.windows.is_empty() {
            measured(&mut plan.ranking[at], arm, &p99[at]);
        }
    }
    let winner = plan.ranking[result.winner].candidate.clone();
    plan.ranking.sort_by(|a, b| b.basis.cmp(&a.basis).then(b.score.mid.total_cmp(&a.score.mid)));
    if let Some(at) = plan.ranking.iter().position(|entry| entry.candidate == winner) {
        let choice = plan.ranking.remove(at);
        plan.ranking.insert(0, choice);
    }
    plan.search.trials = result.trials;
    plan.search.seconds = result.seconds;
    plan.search.settled = Some(result.ended == Ended::Settled);
}

fn rescale(entry: &mut Entry, scale: f64) {
    entry.score = entry.score.over(1.0 / scale);
    entry.tps = entry.tps.over(1.0 / scale);
    entry.p99_us = entry.p99_us.map(|us| us / scale);
}

fn measured(entry: &mut Entry, arm: &Arm, p99: &[f64]) {
    // Scores are throughput, or throughput per worker.
    let per_score = if entry.score.mid > 0.0 { entry.tps.mid / entry.score.mid } else { 1.0 };
    let score = Interval { low: arm.low, mid: arm.median, high: arm.high };
    entry.basis = Basis::Measured;
    entry.score = score;
    entry.tps = score.over(1.0 / per_score);
    entry.windows = arm.windows.iter().map(|score| score * per_score).collect();
    entry.p99_us = (!p99.is_empty()).then(|| median(p99));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{on_quad, planned};

    /// A plan of the model.
    fn plan() -> Plan {
        planned(&on_quad(&["micro", "--op", "update"]))
    }

    #[test]
    fn the_best_of_each_design_is_tried_even_far_behind() {
        let mut ranking = plan().ranking;
        let designs = |entries: &[Entry]| {
            let mut names: Vec<String> = entries.iter().map(|e| e.candidate.design.clone()).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let all = designs(&ranking);
        assert!(all.len() > 1);
        // Only the first may win by its interval.
        for (at, entry) in ranking.iter_mut().enumerate() {
            entry.basis = Basis::Refined;
            entry.score = Interval::around(if at == 0 { 1e6 } else { 1e3 - at as f64 }, 0.01);
        }
        let (before, arms) = (ranking.len(), put_arms_first(&mut ranking));
        assert_eq!((arms, ranking.len()), (all.len(), before));
        assert_eq!(designs(&ranking[..arms]), all);
    }

    #[test]
    fn predictions_without_a_trial_are_scaled_to_the_trials() {
        let mut plan = plan();
        let untried = plan.ranking.last().unwrap().clone();
        let tenth = |entry: &Entry| {
            let median = entry.score.mid / 10.0;
            let (low, high) = (median * 0.99, median * 1.01);
            Arm { windows: vec![median], median, low, high, ..Arm::default() }
        };
        let arms: Vec<Arm> = plan.ranking[..2].iter().map(tenth).collect();
        let tied = Vec::new();
        let result = RaceResult { winner: 1, tied, arms, trials: 2, seconds: 4.0, ended: Ended::Settled };
        let winner = plan.ranking[1].candidate.clone();
        apply(&mut plan, &result, &[vec![900.0], vec![]]);
        assert_eq!((plan.choice().basis, &plan.choice().candidate), (Basis::Measured, &winner));
        assert_eq!(plan.ranking[1].p99_us, Some(900.0));
        let now = plan.ranking.iter().find(|e| e.candidate == untried.candidate).unwrap();
        assert!((now.tps.mid / untried.tps.mid - 0.1).abs() < 1e-9, "{now:?}");
        assert!((plan.search.scale.unwrap() - 0.1).abs() < 1e-9);
    }
}
