//! The decision whether to repartition a table.
//!
//! ```text
//!   every period:  loads of all partitions --> busiest / mean above the trigger?  --no--> keep
//!                                  | yes, in `confirm` periods
//!                                  | (one is enough if the queues agree)
//!                                  v
//!                  level (Algorithm 3) --> does it gain enough? --no--> keep
//!                                  | yes
//!                                  v
//!                  plan --> (on) carried out by the crate above
//!                       --> settle: periods without a decision
//! ```
//!
//! Why it does not oscillate. The trigger lies well above the tolerance that levelling reaches, and
//! above the chance error of the counts. A plan must remove a good part of the excess. After a plan
//! there is no decision until the histograms have forgotten the time before it. Then the balancer
//! compares the promised gain with the gain that came. If less than half came (the load moves
//! faster than the ranges), it waits twice as long next time, up to a limit, and half as long after
//! a success.
//!
//! There is one exception to the doubled wait: the hottest sub-bucket lies within the hottest one
//! of the time before, and is narrower. Then the load stayed, and was less even inside that
//! sub-bucket than the histogram could show. That ends at single keys. The thesis (section 4.4.3)
//! leaves all this to future work.

use crate::histogram::{PartitionLoad, WEIGHT};
use crate::level::{Drift, Group, Levelled, imbalance, level, work};
use crate::plan::{Plan, PlanError};
use crate::range::{Partition, RangeError, Ranges};
use base::TableId;
use std::fmt;

/// The mode of a balancer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Off,
    /// Decide and report; no plan is carried out.
    Advise,
    On,
}

impl Mode {
    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Advise => "advise",
            Mode::On => "on",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Mode {
    type Err = SettingsError;
    fn from_str(s: &str) -> Result<Mode, SettingsError> {
        match s {
            "off" => Ok(Mode::Off),
            "advise" => Ok(Mode::Advise),
            "on" => Ok(Mode::On),
            _ => Err(SettingsError::Mode(s.to_owned())),
        }
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingsError {
    #[error("'{0}' is no mode of balancing: expected off, advise or on")]
    Mode(String),
    #[error("a tolerance of {0}: expected a share of the ideal load above 0 and below 1, such as 0.1")]
    Tolerance(f64),
    #[error(
        "a trigger of {trigger} with a tolerance of {tolerance}: it must be larger, or every plan is followed by another"
    )]
    Trigger { trigger: f64, tolerance: f64 },
    #[error("a gain of {0}: expected a share of the mean load of 0 or more, such as 0.1")]
    Gain(f64),
    #[error("{name} is 0: expected at least one period")]
    Periods { name: &'static str },
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    pub mode: Mode,
    /// Levelling stops within this share of the ideal load. The thesis' t: 10 %.
    pub tolerance: f64,
    /// The busiest partition must be this much above the mean, as a share of it.
    pub trigger: f64,
    /// The number of consecutive periods in which it must be so.
    pub confirm: u32,
    /// Periods without a decision after a plan: as many as the histograms remember.
    pub settle: u32,
    /// The limit to which `settle` grows.
    pub settle_at_most: u32,
    /// A plan must reduce the busiest partition by this share of the mean, by a quarter of its
    /// excess and by more than chance.
    pub gain: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::On,
            tolerance: 0.1,
            trigger: 0.25,
            confirm: 2,
            settle: 4,
            settle_at_most: 64,
            gain: 0.1,
        }
    }
}

impl Settings {
    fn check(&self) -> Result<(), SettingsError> {
        if !(self.tolerance > 0.0 && self.tolerance < 1.0) {
            return Err(SettingsError::Tolerance(self.tolerance));
        }
        if !(self.trigger > self.tolerance && self.trigger.is_finite()) {
            return Err(SettingsError::Trigger { trigger: self.trigger, tolerance: self.tolerance });
        }
        if !(self.gain >= 0.0 && self.gain.is_finite()) {
            return Err(SettingsError::Gain(self.gain));
        }
        let periods =
            [("confirm", self.confirm), ("settle", self.settle), ("settle_at_most", self.settle_at_most)];
        match periods.into_iter().find(|(_, n)| *n == 0) {
            Some((name, _)) => Err(SettingsError::Periods { name }),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BalanceError {
    #[error("table {table} has {partitions} partitions, but {loads} loads were given: ask every owner once")]
    Count { table: TableId, partitions: usize, loads: usize },
    #[error(
        "table {table}: the load of partition {partition} is not of its keys {start}..{end}: its histogram is of another version"
    )]
    Keys { table: TableId, partition: usize, start: u64, end: u64 },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// How uneven the load is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Finding {
    /// Work of the busiest partition over the mean.
    pub imbalance: f64,
    pub busiest: usize,
    /// Longest queue over the mean one; `None` if almost no request waits.
    pub queues: Option<f64>,
    /// The accesses that the finding is based on; recent ones count fully.
    pub accesses: u64,
    /// Keys of the sub-bucket with the most work.
    pub hottest: (u64, u64),
}

/// The reason to change nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Keep {
    Off,
    /// There is one partition only.
    Alone,
    /// Too few accesses to tell load from chance.
    Quiet {
        needed: u64,
    },
    Even {
        trigger: f64,
    },
    Unconfirmed {
        periods: u32,
        of: u32,
    },
    /// The last plan is still being carried out.
    Underway {
        version: u64,
    },
    Settling {
        periods: u32,
    },
    /// Moving borders would gain too little.
    LittleGain {
        promised: f64,
        stuck: usize,
    },
}

#[derive(Clone, PartialEq, Debug)]
pub enum BalanceVerdict {
    Keep(Keep),
    Repartition {
        plan: Plan,
        to: Ranges,
        /// The expected ratio of busiest to mean afterwards.
        promised: f64,
        /// Sub-buckets that were split to find the borders.
        sub_splits: usize,
    },
}

/// The decision about a table in one period, with its reasons.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    pub table: TableId,
    pub mode: Mode,
    pub partitions: usize,
    pub finding: Finding,
    pub verdict: BalanceVerdict,
}

impl Decision {
    /// The plan to carry out; `None` if there is none, or only advice was asked for.
    pub fn plan(&self) -> Option<&Plan> {
        match (&self.verdict, self.mode) {
            (BalanceVerdict::Repartition { plan, .. }, Mode::On) => Some(plan),
            _ => None,
        }
    }
}

/// The promise of a plan, to be compared with the gain that came.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Promise {
    made_for: u64,
    leads_to: u64,
    before: f64,
    promised: f64,
    hottest: (u64, u64),
}

/// The balancer of one table. The caller calls it once each period; it keeps no reference.
#[derive(Clone, Debug)]
pub struct Balancer {
    settings: Settings,
    /// Consecutive periods in which the load was uneven.
    uneven: u32,
    /// Periods left without a decision.
    quiet: u32,
    /// Periods without a decision after the next plan.
    settle: u32,
    promise: Option<Promise>,
}

impl Balancer {
    pub fn new(settings: Settings) -> Result<Balancer, SettingsError> {
        settings.check()?;
        let settle = settings.settle.min(settings.settle_at_most);
        Ok(Balancer { settings, uneven: 0, quiet: 0, settle, promise: None })
    }

    /// Judges a period. `loads` are those of the partitions of `ranges`, in order.
    pub fn judge(&mut self, ranges: &Ranges, loads: &[PartitionLoad]) -> Result<Decision, BalanceError> {
        matching(ranges, loads)?;
        let groups = work(loads);
        let finding = find(loads, &groups);
        let verdict = match self.keeps(ranges, &finding) {
            Some(keep) => BalanceVerdict::Keep(keep),
            None => self.decide(ranges, &finding, groups)?,
        };
        let (table, mode) = (ranges.table(), self.settings.mode);
        Ok(Decision { table, mode, partitions: ranges.len(), finding, verdict })
    }

    /// A reason to keep the ranges that needs no levelling.
    fn keeps(&mut self, ranges: &Ranges, finding: &Finding) -> Option<Keep> {
        if self.settings.mode == Mode::Off {
            return Some(Keep::Off);
        }
        if let Some(p) = self.promise
            && (p.made_for + 1..p.leads_to).contains(&ranges.version())
        {
            return Some(Keep::Underway { version: p.leads_to });
        }
        if self.quiet > 0 {
            self.quiet -= 1;
            return Some(Keep::Settling { periods: self.quiet + 1 });
        }
        let needed = 16 * ranges.len() as u64;
        if finding.accesses < needed {
            self.uneven = 0;
            return Some(Keep::Quiet { needed });
        }
        self.compare(ranges, finding);
        let trigger = self.trigger(ranges.len(), finding);
        if ranges.len() == 1 {
            return Some(Keep::Alone);
        }
        if finding.imbalance - 1.0 <= trigger {
            self.uneven = 0;
            return Some(Keep::Even { trigger });
        }
        self.uneven = self.uneven.saturating_add(1);
        let agree = finding.queues.is_some_and(|q| q - 1.0 > trigger);
        let needed = if agree { 1 } else { self.settings.confirm };
        let unsure = Keep::Unconfirmed { periods: self.uneven, of: needed };
        (self.uneven < needed).then_some(unsure)
    }

    fn trigger(&self, partitions: usize, finding: &Finding) -> f64 {
        self.settings.trigger.max(self.settings.tolerance + chance(partitions, finding))
    }

    /// Checks whether the last plan kept its promise, and sets the settling time after the next
    /// plan accordingly.
    fn compare(&mut self, ranges: &Ranges, finding: &Finding) {
        let Some(promise) = self.promise.take() else { return };
        if ranges.version() < promise.leads_to {
            return;
        }
        let came = promise.before - finding.imbalance;
        let kept = came >= (promise.before - promise.promised) / 2.0;
        let (was, is) = (promise.hottest, finding.hottest);
        let narrowed = is != was && (was.0..=was.1).contains(&is.0) && is.1 <= was.1;
        let settle = match (kept, narrowed) {
            (true, _) => self.settle / 2,
            (false, true) => self.settle,
            (false, false) => self.settle.saturating_mul(2),
        };
        self.settle = settle.max(self.settings.settle).min(self.settings.settle_at_most);
    }

    fn decide(
        &mut self,
        ranges: &Ranges,
        finding: &Finding,
        groups: Vec<Group>,
    ) -> Result<BalanceVerdict, BalanceError> {
        let levelled = evened(groups, self.settings.tolerance);
        let promised = levelled.imbalance();
        let gain = finding.imbalance - promised;
        let quarter = (finding.imbalance - 1.0) / 4.0;
        let wanted = self.settings.gain.max(quarter).max(chance(ranges.len(), finding));
        let starts = levelled.starts().filter(|_| gain >= wanted);
        let Some(starts) = starts else {
            return Ok(BalanceVerdict::Keep(Keep::LittleGain { promised, stuck: levelled.stuck }));
        };
        let to = with_borders(ranges, &starts)?;
        let plan = Plan::between(ranges, &to)?;
        self.uneven = 0;
        self.quiet = self.settle;
        if self.settings.mode == Mode::On {
            let (made_for, leads_to) = (plan.made_for, plan.leads_to());
            let Finding { imbalance: before, hottest, .. } = *finding;
            self.promise = Some(Promise { made_for, leads_to, before, promised, hottest });
        }
        Ok(BalanceVerdict::Repartition { plan, to, promised, sub_splits: levelled.splits })
    }
}

/// The chance error of a partition's load, as a share of the mean: six standard deviations of its
/// count, 6 / sqrt(n / N) with n accesses over N partitions.
fn chance(partitions: usize, finding: &Finding) -> f64 {
    6.0 / (finding.accesses.max(1) as f64 / partitions as f64).sqrt()
}

/// Levels so that every partition has the mean, plus or minus `tolerance` of it.
pub fn evened(groups: Vec<Group>, tolerance: f64) -> Levelled {
    let mean = groups.iter().map(Group::work).sum::<f64>() / groups.len() as f64;
    let ideals = vec![mean; groups.len()];
    level(groups, &ideals, tolerance * mean, Drift::Carried)
}

/// The same owners in the same order, with other borders.
fn with_borders(ranges: &Ranges, starts: &[u64]) -> Result<Ranges, RangeError> {
    let ends = starts.iter().skip(1).copied().chain([ranges.domain()]);
    let parts = starts.iter().zip(ends).zip(ranges.owners());
    let parts = parts.map(|((&start, end), &owner)| Partition { keys: start..end, owner });
    Ranges::new(ranges.table(), ranges.domain(), parts.collect())
}

fn matching(ranges: &Ranges, loads: &[PartitionLoad]) -> Result<(), BalanceError> {
    let table = ranges.table();
    if ranges.len() != loads.len() {
        return Err(BalanceError::Count { table, partitions: ranges.len(), loads: loads.len() });
    }
    for (partition, (own, load)) in ranges.partitions().zip(loads).enumerate() {
        let begins = load.subs.first().is_some_and(|s| s.start == own.keys.start);
        let rises = load.subs.windows(2).all(|w| w[0].start < w[1].start);
        let ends = load.end == own.keys.end && load.subs.last().is_some_and(|s| s.start < load.end);
        if !(begins && rises && ends) {
            let (start, end) = (own.keys.start, own.keys.end);
            return Err(BalanceError::Keys { table, partition, start, end });
        }
    }
    Ok(())
}

fn find(loads: &[PartitionLoad], groups: &[Group]) -> Finding {
    let all: Vec<f64> = groups.iter().map(Group::work).collect();
    let busiest = (0..all.len()).max_by(|&a, &b| all[a].total_cmp(&all[b])).unwrap_or(0);
    let waiting = loads.iter().map(|l| l.queue.0 as f64);
    let queues = (waiting.clone().sum::<f64>() >= 500.0 * loads.len() as f64).then(|| imbalance(waiting));
    let accesses = loads.iter().map(|l| l.load() / WEIGHT).fold(0, u64::saturating_add);
    let pieces = groups.iter().flat_map(|g| &g.pieces);
    let hottest = pieces.max_by(|a, b| a.work.total_cmp(&b.work)).map_or((0, 0), |p| (p.start, p.end));
    Finding { imbalance: imbalance(all.iter().copied()), busiest, queues, accesses, hottest }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keep::Off => write!(f, "balancing is off"),
            Keep::Alone => write!(f, "there is one partition only, and no other to share its load with"),
            Keep::Quiet { needed } => {
                write!(f, "too few accesses to tell load from chance ({needed} needed)")
            }
            Keep::Even { trigger } => write!(f, "even enough: the trigger is {:.2}", 1.0 + trigger),
            Keep::Unconfirmed { periods, of } => write!(f, "uneven in {periods} of {of} periods"),
            Keep::Underway { version } => write!(f, "the last plan is still on its way to version {version}"),
            Keep::Settling { periods } => write!(f, "the last plan settles for {periods} more periods"),
            Keep::LittleGain { promised, stuck } => write!(
                f,
                "other borders would gain too little (to {promised:.2}; {stuck} partitions are bound by single keys)"
            ),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { imbalance, busiest, queues, accesses, .. } = self.finding;
        write!(
            f,
            "table {}: partition {busiest} of {} has {imbalance:.2} of the mean work",
            self.table, self.partitions
        )?;
        if let Some(queues) = queues {
            write!(f, ", the longest queue is {queues:.2} of the mean")?;
        }
        write!(f, " ({accesses} accesses): ")?;
        match &self.verdict {
            BalanceVerdict::Keep(keep) => write!(f, "keep, {keep}"),
            BalanceVerdict::Repartition { plan, promised, sub_splits, .. } => {
                let verb = if self.mode == Mode::On { "repartition" } else { "advise to repartition" };
                write!(f, "{verb} to {promised:.2}: {} ({sub_splits} sub-buckets split)", plan.counts())
            }
        }
    }
}
