use super::*;
use fastrand::Rng;
use std::convert::Infallible;

/// Synthetic arms: a true score each, and noise of windows with outliers below.
struct Arms {
    truth: Vec<f64>,
    sigma: f64,
    rng: Rng,
}

impl Arms {
    /// Twelve arms over a factor of two, drawn anew for each seed.
    fn drawn(seed: u64, sigma: f64) -> Arms {
        let mut rng = Rng::with_seed(seed);
        let truth = (0..12).map(|_| 1e5 * (0.5 + 0.5 * rng.f64())).collect();
        Arms { truth, sigma, rng }
    }

    /// Two windows. One window of twenty is disturbed by other work and loses up to a half.
    fn trial(&mut self, at: usize) -> Result<Trial, Infallible> {
        let windows = (0..2).map(|_| self.truth[at] * self.noise()).collect();
        Ok(Trial { windows, seconds: 2.0 })
    }

    fn noise(&mut self) -> f64 {
        let normal: f64 = (0..12).map(|_| self.rng.f64()).sum::<f64>() - 6.0;
        let disturbed = if self.rng.f64() < 0.05 { 1.0 - self.rng.f64() / 2.0 } else { 1.0 };
        (self.sigma * normal).exp() * disturbed
    }

    fn best(&self) -> f64 {
        self.truth.iter().copied().fold(0.0, f64::max)
    }
}

const SEEDS: u64 = 1_000;

fn options(budget_s: f64) -> RaceOptions {
    RaceOptions { budget_s, trial_s: 2.0, ..RaceOptions::default() }
}

/// By seed: the regret of the pick, and the share of the time spent on arms that are at least 15 %
/// below the best, after the first look at each.
fn outcomes(sigma: f64, budget_s: f64, is_out: impl Fn(&Arm, &Arm) -> bool + Copy) -> Vec<(f64, f64)> {
    let one = |seed| {
        let mut arms = Arms::drawn(seed, sigma);
        let preference: Vec<usize> = (0..12).collect();
        let truth = arms.truth.clone();
        let result = race_by(&preference, &options(budget_s), |at| arms.trial(at), is_out).unwrap();
        let regret = 1.0 - truth[result.winner] / arms.best();
        let again = |arm: &Arm| arm.windows.len().saturating_sub(2) as f64;
        let total: f64 = result.arms.iter().map(again).sum();
        let losers = result.arms.iter().zip(&truth).filter(|(_, t)| **t < 0.85 * arms.best());
        let wasted: f64 = losers.map(|(arm, _)| again(arm)).sum();
        (regret, if total > 0.0 { wasted / total } else { 0.0 })
    };
    (0..SEEDS).map(one).collect()
}

fn share(all: &[(f64, f64)], holds: impl Fn(&(f64, f64)) -> bool) -> f64 {
    all.iter().filter(|one| holds(one)).count() as f64 / all.len() as f64
}

fn mean_wasted(all: &[(f64, f64)]) -> f64 {
    all.iter().map(|one| one.1).sum::<f64>() / all.len() as f64
}

/// Losers get at most this share of the time after the first round.
const MOST_WASTED: f64 = 0.25;

#[test]
fn the_pick_is_within_five_per_cent_in_95_of_100_races() {
    let all = outcomes(0.05, 60.0, |arm, leader| arm.high < leader.low);
    let good = share(&all, |(regret, _)| *regret <= 0.05);
    assert!(good >= 0.95, "{good}");
    assert!(mean_wasted(&all) <= MOST_WASTED, "{}", mean_wasted(&all));
}

/// The check above is one that can fail: a race that never stops a loser breaks the bound on wasted
/// time, and one that picks by a single window the bound on regret.
#[test]
fn a_race_that_never_stops_losers_is_found_out() {
    let all = outcomes(0.05, 60.0, |_, _| false);
    assert!(mean_wasted(&all) > MOST_WASTED, "{}", mean_wasted(&all));
    let mut late = 0;
    for seed in 0..SEEDS {
        let mut arms = Arms::drawn(seed, 0.12);
        let looks: Vec<f64> = (0..12).map(|at| arms.truth[at] * arms.noise()).collect();
        let pick = (0..12).max_by(|a, b| looks[*a].total_cmp(&looks[*b])).unwrap();
        late += usize::from(1.0 - arms.truth[pick] / arms.best() > 0.05);
    }
    assert!(late as u64 > SEEDS / 20, "{late}");
}

#[test]
fn the_budget_holds_and_losers_stop() {
    let mut arms = Arms { truth: vec![100.0, 50.0, 98.0, 20.0], sigma: 0.02, rng: Rng::with_seed(3) };
    let result = race(&[0, 1, 2, 3], &options(30.0), |at| arms.trial(at)).unwrap();
    assert!(result.seconds <= 30.0);
    assert!(result.arms[1].windows.len() <= 4 && result.arms[3].windows.len() <= 4, "{:?}", result.arms);
    assert!(result.winner == 0 || result.winner == 2);
    assert!(result.arms[0].windows.len() > result.arms[3].windows.len());
    assert!(result.arms[0].spread() > 0.0);
}

#[test]
fn equals_go_to_the_preferred_one() {
    for seed in 0..50 {
        let mut arms = Arms { truth: vec![100.0, 100.0], sigma: 0.005, rng: Rng::with_seed(seed) };
        let result = race(&[1, 0], &options(200.0), |at| arms.trial(at)).unwrap();
        if !result.tied.is_empty() {
            assert_eq!((result.winner, result.tied.as_slice()), (1, [0].as_slice()));
            return;
        }
    }
    panic!("two equal arms never tied");
}

#[test]
fn what_cannot_run_is_out_and_errors_end_the_race() {
    let trial = |at: usize| {
        let windows = if at == 0 { vec![] } else { vec![10.0, 10.1] };
        Ok::<_, Infallible>(Trial { windows, seconds: 1.0 })
    };
    let result = race(&[0, 1], &options(10.0), trial).unwrap();
    assert!(result.winner == 1 && result.arms[0].failed);
    assert_eq!(result.ended, Ended::Settled);
    let none = |_: usize| Ok::<_, Infallible>(Trial::default());
    assert!(matches!(race(&[0, 1], &options(10.0), none), Err(RaceError::AllFailed)));
    let stop = |_: usize| Err("interrupted");
    assert!(matches!(race(&[0, 1], &options(10.0), stop), Err(RaceError::Trial("interrupted"))));
}

#[test]
fn a_budget_too_small_for_one_trial_is_refused() {
    let trial = |_: usize| Ok::<_, Infallible>(Trial { windows: vec![1.0], seconds: 2.0 });
    for budget in [3.9, 0.0, f64::NAN] {
        let error = race(&[0, 1, 2], &options(budget), trial).unwrap_err().to_string();
        assert!(error.contains("about 4s") && error.contains("2 deployments"), "{error}");
    }
    // A budget for fewer trials than arms tries the most promising ones.
    let result = race(&[0, 1, 2], &options(5.0), trial).unwrap();
    assert!(result.arms[2].windows.is_empty() && result.trials == 2);
}
