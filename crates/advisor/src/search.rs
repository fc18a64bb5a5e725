//! The search: a fast predictor screens all candidates, a slow one refines the few that may win.
//!
//! Kept after the screen: all candidates within a share of the best, and the best of each pair of
//! island count and design. Refinement goes down this list. It ends early if the leader's interval
//! lies above the intervals of all others. Deployments of few workers cost the slow predictor some
//! hundredths of a second each: if there are no others, all are refined.

use crate::candidate::{Candidate, Preference};
use crate::error::AdviceError;
use crate::objective::Objective;
use crate::predictor::{Interval, Prediction, Predictor};
use serde::{Deserialize, Serialize};

/// The parameters of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchOptions {
    pub objective: Objective,
    pub preference: Preference,
    /// Candidates within this share of the best are refined.
    pub within: f64,
    /// The most candidates to refine.
    pub most: usize,
    /// Scores within this share of the best tie, if they also lie in its interval.
    pub tie: f64,
    /// Deployments of at most this many workers are all refined, if there are no larger ones.
    pub few_workers: usize,
}

/// Within 25 %, at most 20, as the error of the closed form (p90 26 %) asks for. Ties of 5 %:
/// common random numbers make the error of a difference smaller than that of one prediction
/// (median 7 %).
impl Default for SearchOptions {
    fn default() -> SearchOptions {
        SearchOptions {
            objective: Objective::Tps,
            preference: Preference::default(),
            within: 0.25,
            most: 20,
            tie: 0.05,
            few_workers: 4,
        }
    }
}

/// The origin of a ranked prediction, the least certain first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The fast predictor.
    Screened,
    /// The slow predictor.
    Refined,
    /// Measured windows.
    Measured,
}

/// A candidate in the ranking.
#[derive(Clone, PartialEq, Debug)]
pub struct Ranked {
    pub candidate: Candidate,
    pub prediction: Prediction,
    pub basis: Basis,
    /// By the objective.
    pub score: Interval,
}

/// The result of a search.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The choice first, then all that were refined, then the others; each part by score. Never
    /// empty.
    pub ranking: Vec<Ranked>,
    pub screened: usize,
    pub refined: usize,
    /// Candidates without a prediction, and why.
    pub unpredicted: Vec<(Candidate, String)>,
}

/// Ranks candidates. Without a slow predictor the screen decides.
///
/// # Errors
/// Not one prediction; a bound of the objective that no candidate keeps.
pub fn search(
    candidates: &[Candidate],
    fast: &dyn Predictor,
    slow: Option<&dyn Predictor>,
    options: &SearchOptions,
) -> Result<Found, AdviceError> {
    let objective = options.objective;
    let mut unpredicted = Vec::new();
    let (reached, broken) = screen(candidates, fast, objective, &mut unpredicted);
    if reached.is_empty() && broken.is_empty() {
        let problem = unpredicted.first().map_or("there is none".to_owned(), |(_, why)| why.clone());
        return Err(AdviceError::NoPrediction { candidates: candidates.len(), problem });
    }
    let screened = reached.len() + broken.len();
    let mut ranking = Vec::new();
    let mut failed = broken;
    let mut waiting = reached;
    if let Some(slow) = slow {
        while ranking.is_empty() && !waiting.is_empty() {
            // A batch in which nothing keeps the bound is followed by another one.
            refine(&mut waiting, slow, options, &mut ranking, &mut failed, &mut unpredicted);
        }
    }
    let refined = ranking.len();
    order(&mut ranking, options);
    if ranking.is_empty() && slow.is_none() {
        ranking = waiting;
        order(&mut ranking, options);
    } else {
        waiting.sort_by(|a, b| b.score.mid.total_cmp(&a.score.mid));
        ranking.extend(waiting);
    }
    if ranking.is_empty() {
        let all = failed.iter().map(|(candidate, prediction)| (candidate, prediction));
        let problem = || unpredicted.first().map_or_else(String::new, |(_, why)| why.clone());
        return Err(objective.unreachable(all).unwrap_or_else(|| AdviceError::NoPrediction {
            candidates: candidates.len(),
            problem: problem(),
        }));
    }
    Ok(Found { ranking, screened, refined, unpredicted })
}

/// All predictions of the fast predictor, the best score first: those that the objective allows,
/// and those that break its bound.
fn screen(
    candidates: &[Candidate],
    fast: &dyn Predictor,
    objective: Objective,
    unpredicted: &mut Vec<(Candidate, String)>,
) -> (Vec<Ranked>, Vec<(Candidate, Prediction)>) {
    let (mut reached, mut broken) = (Vec::new(), Vec::new());
    for candidate in candidates {
        match fast.predict(candidate) {
            Err(why) => unpredicted.push((candidate.clone(), why)),
            Ok(prediction) => match objective.score(candidate, &prediction) {
                None => broken.push((candidate.clone(), prediction)),
                Some(score) => {
                    let candidate = candidate.clone();
                    reached.push(Ranked { candidate, prediction, basis: Basis::Screened, score });
                }
            },
        }
    }
    reached.sort_by(|a, b| b.score.mid.total_cmp(&a.score.mid));
    (reached, broken)
}

/// Moves the candidates worth a closer look from `waiting` to `ranking` (or `failed`).
fn refine(
    waiting: &mut Vec<Ranked>,
    slow: &dyn Predictor,
    options: &SearchOptions,
    ranking: &mut Vec<Ranked>,
    failed: &mut Vec<(Candidate, Prediction)>,
    unpredicted: &mut Vec<(Candidate, String)>,
) {
    let is_small = |ranked: &Ranked| ranked.candidate.workers <= options.few_workers;
    let are_few = waiting.len() <= options.most && waiting.iter().all(is_small);
    let taken = if are_few { std::mem::take(waiting) } else { keep(waiting, options) };
    let mut kept = taken.into_iter();
    while let Some(next) = kept.next() {
        match slow.predict(&next.candidate) {
            Err(why) => unpredicted.push((next.candidate, why)),
            Ok(prediction) => match options.objective.score(&next.candidate, &prediction) {
                None => failed.push((next.candidate, prediction)),
                Some(score) => {
                    let candidate = next.candidate;
                    ranking.push(Ranked { candidate, prediction, basis: Basis::Refined, score });
                }
            },
        }
        let left = kept.as_slice().iter().chain(waiting.iter());
        if !are_few && is_clear(ranking, left.map(|r| r.score.high)) {
            break;
        }
    }
    waiting.extend(kept);
}

/// Takes the candidates to refine out of `waiting`, the best first.
fn keep(waiting: &mut Vec<Ranked>, options: &SearchOptions) -> Vec<Ranked> {
    let Some(best) = waiting.first().map(|r| r.score.mid) else { return Vec::new() };
    let mut seen: Vec<(usize, String)> = Vec::new();
    let (mut kept, mut rest) = (Vec::new(), Vec::new());
    for ranked in waiting.drain(..) {
        let pair = (ranked.candidate.islands, ranked.candidate.design.clone());
        let is_first = !seen.contains(&pair);
        if is_first {
            seen.push(pair);
        }
        let is_near = ranked.score.mid >= best * (1.0 - options.within);
        if (is_near || is_first) && kept.len() < options.most { kept.push(ranked) } else { rest.push(ranked) }
    }
    *waiting = rest;
    kept
}

/// Whether the leader's interval lies above all other intervals.
fn is_clear(ranking: &[Ranked], left: impl Iterator<Item = f64>) -> bool {
    let best = ranking.iter().max_by(|a, b| a.score.mid.total_cmp(&b.score.mid));
    let Some(leader) = best else { return false };
    let others = ranking.iter().filter(|r| r.candidate != leader.candidate).map(|r| r.score.high);
    others.chain(left).all(|high| high < leader.score.low)
}

/// Orders by score, and puts the preferred one of those that tie with the best first.
pub fn order(ranking: &mut Vec<Ranked>, options: &SearchOptions) {
    ranking.sort_by(|a, b| b.score.mid.total_cmp(&a.score.mid));
    let tied = ties(ranking, options.tie);
    let preferred = (0..tied).min_by_key(|at| options.preference.rank(&ranking[*at].candidate));
    if let Some(at) = preferred {
        let choice = ranking.remove(at);
        ranking.insert(0, choice);
    }
}

/// The number of candidates at the head of a ranking by score that tie with the best, itself
/// included.
pub fn ties(by_score: &[Ranked], tie: f64) -> usize {
    let Some(best) = by_score.first().map(|r| r.score) else { return 0 };
    let least = best.low.max(best.mid * (1.0 - tie));
    by_score.iter().take_while(|r| r.score.mid >= least).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::tests::candidate;
    use deploysim::Channel;
    use std::cell::Cell;

    /// Predicts `tps(candidate)` with this error.
    fn by(tps: impl Fn(&Candidate) -> f64, error: f64) -> impl Fn(&Candidate) -> Result<Prediction, String> {
        move |c| {
            let tps = Interval::around(tps(c), error);
            Ok(Prediction { tps, p99_us: None, limits: vec![], parts: vec![] })
        }
    }

    fn several() -> Vec<Candidate> {
        let shm = Some(Channel::Shm);
        let all = [("conventional", 1), ("occ", 1), ("conventional", 2), ("occ", 2), ("conventional", 4)];
        all.map(|(design, n)| candidate(design, n, 4, if n == 1 { None } else { shm })).into()
    }

    fn options() -> SearchOptions {
        let preference = Preference { default_design: "conventional".into(), current: None };
        SearchOptions { preference, ..SearchOptions::default() }
    }

    #[test]
    fn the_slow_predictor_overrules_the_screen() {
        let fast = by(|c| 100.0 + c.islands as f64, 0.26);
        let slow = by(|c| if c.islands == 2 && c.design == "occ" { 300.0 } else { 100.0 }, 0.1);
        let found = search(&several(), &fast, Some(&slow), &options()).unwrap();
        assert_eq!(found.ranking[0].candidate, several()[3]);
        assert_eq!(found.ranking[0].basis, Basis::Refined);
        assert_eq!((found.screened, found.ranking.len()), (5, 5));
    }

    #[test]
    fn refinement_stops_at_a_clear_leader_and_at_the_most() {
        let looks = Cell::new(0);
        let fast = by(|c| if c.islands == 4 { 1000.0 } else { 10.0 }, 0.26);
        let counting = |c: &Candidate| {
            looks.set(looks.get() + 1);
            by(|c| if c.islands == 4 { 900.0 } else { 10.0 }, 0.1)(c)
        };
        let large = SearchOptions { few_workers: 3, ..options() };
        let found = search(&several(), &fast, Some(&counting), &large).unwrap();
        assert_eq!((looks.get(), found.refined, found.ranking[0].candidate.islands), (1, 1, 4));
        looks.set(0);
        let found = search(&several(), &fast, Some(&counting), &options()).unwrap();
        assert_eq!((looks.get(), found.refined), (5, 5), "all of a few small ones");
        looks.set(0);
        let flat = by(|_| 10.0, 0.26);
        let most = SearchOptions { most: 3, ..options() };
        search(&several(), &flat, Some(&counting), &most).unwrap();
        assert_eq!(looks.get(), 3);
    }

    #[test]
    fn each_design_and_size_gets_a_look_even_far_behind() {
        let fast = by(|c| if c.islands == 4 { 1000.0 } else { 700.0 }, 0.26);
        let slow = by(|c| if c.islands == 1 { 2000.0 } else { 800.0 }, 0.1);
        let found = search(&several(), &fast, Some(&slow), &options()).unwrap();
        assert_eq!(found.ranking[0].candidate.islands, 1);
        let mut waiting: Vec<Ranked> = screen(&several(), &fast, Objective::Tps, &mut vec![]).0;
        let far = candidate("occ", 2, 4, Some(Channel::Tcp));
        let score = Interval::around(9.0, 0.1);
        let prediction = by(|_| 9.0, 0.1)(&far).unwrap();
        waiting.push(Ranked { candidate: far.clone(), prediction, basis: Basis::Screened, score });
        let kept = keep(&mut waiting, &options());
        assert!(kept.len() == 5 && kept.iter().all(|r| r.candidate != far), "the second of its pair");
    }

    #[test]
    fn ties_go_to_fewer_instances_and_the_default_design() {
        let fast = by(|c| 100.0 + c.islands as f64, 0.1);
        let found = search(&several(), &fast, None, &options()).unwrap();
        assert_eq!(found.ranking[0].candidate, several()[0]);
        assert_eq!(found.ranking[1].candidate.islands, 4, "the rest goes by score");
        let apart = by(|c| 100.0 * c.islands as f64, 0.1);
        let found = search(&several(), &apart, None, &options()).unwrap();
        assert_eq!(found.ranking[0].candidate.islands, 4);
        let sharp = by(|c| 100.0 + c.islands as f64, 0.001);
        let found = search(&several(), &sharp, None, &options()).unwrap();
        assert_eq!(found.ranking[0].candidate.islands, 4, "an interval that tells them apart is no tie");
    }

    #[test]
    fn a_bound_is_kept_or_the_nearest_is_named() {
        let fast = by(|_| 100.0, 0.2);
        let slow = |c: &Candidate| {
            let tps = Interval::around(100.0 * c.islands as f64, 0.01);
            Ok(Prediction { tps, p99_us: Some(1000.0 * c.islands as f64), limits: vec![], parts: vec![] })
        };
        let below = |us| SearchOptions { objective: Objective::P99Below(us), ..options() };
        let found = search(&several(), &fast, Some(&slow), &below(2500.0)).unwrap();
        assert_eq!(found.ranking[0].candidate.islands, 2);
        let error = search(&several(), &fast, Some(&slow), &below(500.0)).unwrap_err().to_string();
        assert!(
            error.contains("p99<500us") && error.contains("one instance") && error.contains("1.0ms"),
            "{error}"
        );
    }

    /// The only candidate that keeps the bound is not among the first to be refined.
    #[test]
    fn a_bound_is_looked_for_beyond_the_first_batch() {
        let fast = by(|c| 100.0 * c.islands as f64, 0.2);
        let slow = |c: &Candidate| {
            let tps = Interval::around(100.0, 0.01);
            Ok(Prediction { tps, p99_us: Some(1000.0 * c.islands as f64), limits: vec![], parts: vec![] })
        };
        let options = SearchOptions { objective: Objective::P99Below(1500.0), most: 2, ..options() };
        let found = search(&several(), &fast, Some(&slow), &options).unwrap();
        assert_eq!(found.ranking[0].candidate.islands, 1);
    }

    #[test]
    fn no_ranking_from_nothing() {
        let none = |_: &Candidate| Err("the machine has no latencies".to_owned());
        let error = search(&several(), &none, None, &options()).unwrap_err().to_string();
        assert!(error.contains("5 deployments") && error.contains("no latencies"), "{error}");
    }
}
