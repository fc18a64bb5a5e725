//! A race of deployments over measured windows: losers stop early, and the budget goes to those
//! that may still win.
//!
//! Each round tries every arm that is left once, in alternating direction, so that a drift of the
//! machine meets all arms alike. After a round an arm is out if its upper confidence bound lies
//! below the leader's lower one (successive elimination: Even-Dar, Mannor, Mansour, JMLR 2006). The
//! race ends when nothing left can be better than the leader by more than a tie, or when the budget
//! does not pay for another trial.
//!
//! The trials are a closure: this module knows no clock and no deployment.

use crate::error::AdviceError;

/// One trial: the windows of one deployment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trial {
    /// The score of each window, above 0. Empty: the arm is out, as it cannot be deployed or breaks
    /// the objective's bound.
    pub windows: Vec<f64>,
    /// Everything that the trial took, set-up included.
    pub seconds: f64,
}

/// The parameters of a race.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RaceOptions {
    pub budget_s: f64,
    /// The expected time of one trial; measured trials replace it.
    pub trial_s: f64,
    /// Scores within this share are equal.
    pub tie: f64,
    /// Standard errors in a confidence bound.
    pub z: f64,
}

/// 2.6 standard errors: with a dozen arms and a few rounds, the best one is lost in less than one
/// race of twenty. A tie of 2 % is below the scatter of windows (median 4 %).
impl Default for RaceOptions {
    fn default() -> RaceOptions {
        RaceOptions { budget_s: 60.0, trial_s: 3.0, tie: 0.02, z: 2.6 }
    }
}

/// The scatter of windows before any is measured, as a standard deviation of their logarithms, and
/// the number of windows that it counts for. Measured: median error 4 % of one window.
const PRIOR_SIGMA: f64 = 0.05;
const PRIOR_WINDOWS: f64 = 4.0;
/// The standard error of a median over that of a mean, for normal noise.
const MEDIAN_FACTOR: f64 = 1.2533;
/// The median absolute deviation of normal noise, in standard deviations.
const MAD: f64 = 0.6745;

/// The state of one arm.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Arm {
    pub windows: Vec<f64>,
    /// The round after which it was out, from 1.
    pub out_after: Option<u32>,
    /// It was out by a trial without windows.
    pub failed: bool,
    /// Median of its windows; 0 without any.
    pub median: f64,
    /// Confidence bounds.
    pub low: f64,
    pub high: f64,
}

impl Arm {
    fn is_in(&self) -> bool {
        self.out_after.is_none()
    }

    /// Greatest over least window, minus 1; 0 with fewer than two.
    pub fn spread(&self) -> f64 {
        let least = self.windows.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.windows.iter().copied().fold(0.0, f64::max);
        if self.windows.len() < 2 || least <= 0.0 { 0.0 } else { most / least - 1.0 }
    }
}

/// The reason for which a race ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Nothing left can beat the leader by more than a tie.
    Settled,
    /// The budget is spent.
    Budget,
}

/// The result of a race.
#[derive(Clone, PartialEq, Debug)]
pub struct RaceResult {
    /// The chosen arm: of those that tie with the leader, the one with the least preference number.
    pub winner: usize,
    /// Arms that tie with it, without itself.
    pub tied: Vec<usize>,
    /// All arms, in the given order. Those beyond the budget have no windows.
    pub arms: Vec<Arm>,
    pub trials: usize,
    pub seconds: f64,
    pub ended: Ended,
}

/// Why a race has no result.
#[derive(Debug, thiserror::Error)]
pub enum RaceError<E> {
    #[error(transparent)]
    Advice(#[from] AdviceError),
    /// Every arm failed.
    #[error("no deployment could be tried")]
    AllFailed,
    /// A trial ended the race, for example by an interruption.
    #[error("{0}")]
    Trial(E),
}

/// Races arms, the most promising first. `preference` has one number per arm; among equals the
/// least wins. `trial` measures the arm of a number.
///
/// # Errors
/// No arm; a budget that does not pay for a trial of each of the first two; an error of a trial.
pub fn race<E>(
    preference: &[usize],
    options: &RaceOptions,
    trial: impl FnMut(usize) -> Result<Trial, E>,
) -> Result<RaceResult, RaceError<E>> {
    race_by(preference, options, trial, |arm, leader| arm.high < leader.low)
}

fn race_by<E>(
    preference: &[usize],
    options: &RaceOptions,
    mut trial: impl FnMut(usize) -> Result<Trial, E>,
    is_out: impl Fn(&Arm, &Arm) -> bool,
) -> Result<RaceResult, RaceError<E>> {
    let mut race = Race::new(preference.len(), options)?;
    for round in 1.. {
        let mut order: Vec<usize> = (0..race.arms.len()).filter(|at| race.arms[*at].is_in()).collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for at in order {
            if !race.pays() {
                return race.result(preference, options, Ended::Budget);
            }
            race.add(at, round, trial(at).map_err(RaceError::Trial)?, options.z);
        }
        let Some(leader) = race.leader() else { return Err(RaceError::AllFailed) };
        let best = race.arms[leader].clone();
        for arm in race.arms.iter_mut().filter(|arm| arm.is_in()) {
            if is_out(arm, &best) {
                arm.out_after = Some(round);
            }
        }
        let mut rivals = race.arms.iter().enumerate().filter(|(at, arm)| *at != leader && arm.is_in());
        if rivals.all(|(_, arm)| arm.high < best.low * (1.0 + options.tie)) {
            return race.result(preference, options, Ended::Settled);
        }
    }
    unreachable!("a race ends by its budget")
}

struct Race {
    arms: Vec<Arm>,
    budget_s: f64,
    expected_s: f64,
    trials: usize,
    seconds: f64,
}

impl Race {
    fn new<E>(arms: usize, options: &RaceOptions) -> Result<Race, RaceError<E>> {
        if arms == 0 {
            return Err(AdviceError::NoCandidate("there is nothing to try".into()).into());
        }
        let RaceOptions { budget_s, trial_s, .. } = *options;
        let needed_s = arms.min(2) as f64 * trial_s;
        if budget_s.is_nan() || budget_s < needed_s {
            return Err(AdviceError::Budget { budget_s, arms: arms.min(2), needed_s }.into());
        }
        // As many arms as the budget tries twice.
        let entered = ((budget_s / trial_s / 2.0) as usize).clamp(2, arms.max(2));
        let arm = |at: usize| Arm { out_after: (at >= entered).then_some(0), ..Arm::default() };
        let arms = (0..arms).map(arm).collect();
        Ok(Race { arms, budget_s, expected_s: trial_s, trials: 0, seconds: 0.0 })
    }

    fn pays(&self) -> bool {
        self.seconds + self.expected_s <= self.budget_s
    }

    fn add(&mut self, at: usize, round: u32, trial: Trial, z: f64) {
        self.trials += 1;
        self.seconds += trial.seconds;
        self.expected_s = self.seconds / self.trials as f64;
        let arm = &mut self.arms[at];
        if trial.windows.is_empty() || trial.windows.iter().any(|w| !(w.is_finite() && *w > 0.0)) {
            (arm.out_after, arm.failed) = (Some(round), true);
        } else {
            arm.windows.extend(trial.windows);
        }
        let sigma = sigma(&self.arms);
        for arm in &mut self.arms {
            arm.median = median(&arm.windows);
            let half = (z * MEDIAN_FACTOR * sigma / (arm.windows.len().max(1) as f64).sqrt()).exp();
            (arm.low, arm.high) = (arm.median / half, arm.median * half);
        }
    }

    fn leader(&self) -> Option<usize> {
        let running = self.arms.iter().enumerate().filter(|(_, a)| !a.failed && !a.windows.is_empty());
        running.max_by(|a, b| a.1.median.total_cmp(&b.1.median)).map(|(at, _)| at)
    }

    fn result<E>(
        self,
        preference: &[usize],
        options: &RaceOptions,
        ended: Ended,
    ) -> Result<RaceResult, RaceError<E>> {
        let Some(leader) = self.leader() else { return Err(RaceError::AllFailed) };
        let best = &self.arms[leader];
        let least = best.low.max(best.median * (1.0 - options.tie));
        let is_tied = |at: &usize| {
            let arm = &self.arms[*at];
            !arm.failed && !arm.windows.is_empty() && arm.is_in() && arm.median >= least
        };
        let tied: Vec<usize> = (0..self.arms.len()).filter(|at| *at == leader || is_tied(at)).collect();
        let winner = tied.iter().copied().min_by_key(|at| preference[*at]).unwrap_or(leader);
        let tied = tied.into_iter().filter(|at| *at != winner).collect();
        Ok(RaceResult { winner, tied, arms: self.arms, trials: self.trials, seconds: self.seconds, ended })
    }
}

/// The scatter of windows about the median of their arm, over all arms, as a standard deviation of
/// logarithms. It is taken from the median absolute deviation, which one bad window does not move.
fn sigma(arms: &[Arm]) -> f64 {
    let mut deviations = Vec::new();
    for arm in arms.iter().filter(|arm| arm.windows.len() >= 2) {
        let centre = median(&arm.windows).ln();
        let n = arm.windows.len() as f64;
        // The median is drawn towards the windows it is taken from.
        let grow = (n / (n - 1.0)).sqrt();
        deviations.extend(arm.windows.iter().map(|w| (w.ln() - centre).abs() * grow));
    }
    let measured = median(&deviations) / MAD;
    let n = deviations.len() as f64;
    let variance = PRIOR_WINDOWS * PRIOR_SIGMA * PRIOR_SIGMA + n * measured * measured;
    (variance / (PRIOR_WINDOWS + n)).sqrt()
}

/// The median, of an even number the mean of the two in the middle; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests;
