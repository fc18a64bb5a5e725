//! Calibration: the costs of a profile from measured throughputs.
//!
//! Each [`Term`] is one number that throughput falls with. Each has a measured [`Cell`] in which no
//! term after it plays a part. So the terms are solved one after the other, each by false
//! position over simulations of its cell with one seed, and no cell is fitted twice:
//!
//! ```text
//!   term      its cell                              scales
//!   Work      one worker per instance, local        the design's work
//!   Memory    the same over more data               misses of the design and its kin
//!   Sharing   one instance of all workers           the design's exposed cold lines
//!   Relief    the same, if faster than its work     the design's work in such an instance
//!   Handoff   the same, with rows at other owners   the design's hand-over between workers
//!   Parts     several, distributed, memory channel  the design's parts, and the locks of
//!                                                   `serial` while such transactions live
//!   Channel   the same over another channel         that channel's reads and writes
//! ```
//!
//! A design without costs of its own begins with those of `conventional` ([`with_costs_for`]); its
//! own cells scale them, and [`measured`] says of which designs there are cells at all.
//!
//! A calibration holds for one workload: the work of both operations is scaled by one factor, so
//! that a mix of kinds has one term as well. Terms without a cell keep the profile's costs. The
//! cells are the only measured input; a cell that no cost explains is reported with its factor at a
//! bound ([`Fit::is_at_bound`]).

mod kept;

pub use kept::{Conditions, Kept, VERSION};

use crate::case::Case;
use crate::costs::{ByOp, ColdLines, DesignCosts, EngineProfile, Linear, Parts, Protection};
use crate::deployment::{Channel, Clients, Deployment, Durability, Placement};
use crate::error::ModelError;
use crate::machine::MachineModel;
use crate::simulate::{RunOptions, simulate};
use crate::transaction::Transactions;
use serde::{Deserialize, Serialize};

/// A measured cell: the throughput of a deployment of this machine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    pub design: String,
    pub islands: usize,
    /// Of all instances.
    pub workers: usize,
    pub channel: Channel,
    /// The workload's share of distributed transactions, in per cent.
    pub multisite: f64,
    /// Rows, for a workload of which the size can be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<u64>,
    /// Closed clients per worker.
    pub clients: u32,
    pub durability: Durability,
    /// Transactions per second: the median window.
    pub tps: f64,
    /// The slowest and the fastest window.
    pub tps_min: f64,
    pub tps_max: f64,
    /// The number of windows.
    #[serde(default = "one")]
    pub windows: usize,
    /// Every window was measured beside other work.
    #[serde(default)]
    pub is_disturbed: bool,
}

fn one() -> usize {
    1
}

impl Cell {
    /// Half the range of the windows as a share of the median; `None` for a single window.
    pub fn spread(&self) -> Option<f64> {
        (self.windows > 1).then(|| (self.tps_max - self.tps_min) / 2.0 / self.tps)
    }
}

/// A cell to be measured. The order of [`cells_to_measure`] is that of their worth.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    pub term: Term,
    pub design: String,
    pub islands: usize,
    pub workers: usize,
    pub channel: Channel,
    pub multisite: f64,
    /// Another size than that of the other cells.
    pub dataset: Option<u64>,
}

/// A number that a calibration determines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Term {
    Work,
    Memory,
    Sharing,
    Relief,
    Handoff,
    Parts,
    /// Sockets: the costs of a channel that is not the design's memory channel.
    Channel,
}

impl Term {
    pub fn name(self) -> &'static str {
        match self {
            Term::Work => "work",
            Term::Memory => "misses",
            Term::Sharing => "sharing",
            Term::Relief => "relief",
            Term::Handoff => "hand-over",
            Term::Parts => "distributed parts",
            Term::Channel => "channel",
        }
    }
}

/// One solved term.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    pub term: Term,
    pub cell: Cell,
    /// The new cost as a multiple of the old one.
    pub factor: f64,
    /// Transactions per second that the simulation gives with it.
    pub tps: f64,
}

impl Fit {
    /// Whether no cost explains the cell: the factor is the least or the greatest that is tried,
    /// and the simulation misses the cell with it. The least one alone says that the cost is none.
    pub fn is_at_bound(&self) -> bool {
        let is_last = self.is_none() || self.factor >= MOST * 0.99;
        is_last && (self.tps / self.cell.tps - 1.0).abs() > MISSED
    }

    /// Whether the cost is as good as none.
    fn is_none(&self) -> bool {
        self.factor <= LEAST * 1.01
    }
}

/// A profile with the cells that it was fitted to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub fits: Vec<Fit>,
    pub profile: EngineProfile,
}

/// The number of the way in which terms are solved: another one finds other factors for the same
/// cells.
pub const SOLVER: u32 = 2;

/// The bounds of a factor. Below the least one a cost is as good as none.
const LEAST: f64 = 1.0 / 32.0;
const MOST: f64 = 256.0;
/// A cell is missed by more than the scatter of a window (4 %).
const MISSED: f64 = 0.08;
/// A simulation within this share of the measured throughput ends the search of a factor.
const EXACT: f64 = 0.002;
/// Simulations after which the search ends with the best factor so far.
const MOST_STEPS: usize = 12;
/// A term of a design that has no cold lines to scale begins with this share of their transfers.
const COLD: ColdLines = ColdLines { per_row: 1.0, exposed: 1.0, hidden_ns: None };

/// The design that lends its costs to those without: its work is pages under locks as well.
const LENDER: &str = "conventional";

/// The profile with costs for all of `designs`: those of `conventional` where it has none.
///
/// # Errors
/// A design is missing, and `conventional` as well.
pub fn with_costs_for(profile: &EngineProfile, designs: &[&str]) -> Result<EngineProfile, ModelError> {
    designs.iter().try_fold(profile.clone(), |profile, design| profile.lending(design, LENDER))
}

/// The designs of which the work was measured: no other borrowed costs say anything.
pub fn measured(fits: &[Fit]) -> Vec<&str> {
    fits.iter().filter(|fit| fit.term == Term::Work).map(|fit| fit.cell.design.as_str()).collect()
}

/// The profile with solved terms: what [`calibrate`] made of it, without a simulation.
///
/// # Errors
/// A fit of a design or a channel that `base` does not know.
pub fn apply(base: &EngineProfile, fits: &[Fit]) -> Result<EngineProfile, ModelError> {
    let each = |profile: EngineProfile, fit: &Fit| scaled(&profile, fit.term, &fit.cell, fit.factor);
    let mut profile = fits.iter().try_fold(base.clone(), each)?;
    profile.anchors = fits.iter().map(|fit| name(&fit.cell)).collect();
    profile.is_calibrated = !fits.is_empty();
    Ok(profile)
}

/// The cells that determine the costs of `designs` with `workers` workers, the most valuable first:
/// those of one design after the other without messages, then the distributed ones, then sockets,
/// since a message over one costs the same for each design. `multisite` is the share, in per cent,
/// of the distributed cells; at 0 there are none, as for a workload that is local by its
/// definition. `dataset` is another size of the data, if it can be set: one design with pages and
/// one without are measured over it too.
///
/// # Errors
/// A design that the profile does not know ([`with_costs_for`]).
pub fn cells_to_measure(
    profile: &EngineProfile,
    designs: &[&str],
    workers: usize,
    channels: &[Channel],
    multisite: f64,
    dataset: Option<u64>,
) -> Result<Vec<Wanted>, ModelError> {
    let (memory, sockets): (Vec<Channel>, Vec<Channel>) = channels.iter().partition(|c| is_memory(**c));
    let first = memory.first().copied().unwrap_or(Channel::Shm);
    let mut wanted = Vec::new();
    let mut add = |term, design: &str, islands, channel, multisite| {
        let design = design.to_owned();
        let dataset = dataset.filter(|_| term == Term::Memory);
        wanted.push(Wanted { term, design, islands, workers, channel, multisite, dataset });
    };
    let mut sized = Vec::new();
    for design in designs {
        let costs = profile.design(design)?;
        add(Term::Work, design, workers, first, 0.0);
        if workers > 1 && costs.protection != Protection::SerialLocks {
            add(Term::Sharing, design, 1, first, 0.0);
        }
        if dataset.is_some() && !sized.contains(&has_pages(costs)) {
            sized.push(has_pages(costs));
            add(Term::Memory, design, workers, first, 0.0);
        }
    }
    if workers > 1 && multisite > 0.0 {
        for design in designs {
            if profile.design(design)?.handoff != ByOp::default() {
                add(Term::Handoff, design, 1, first, multisite);
            }
        }
        designs.iter().for_each(|design| add(Term::Parts, design, workers, first, multisite));
        if let Some(design) = designs.first() {
            sockets.iter().for_each(|&channel| add(Term::Channel, design, workers, channel, multisite));
        }
    }
    Ok(wanted)
}

/// Designs with pages miss alike, and so do those without.
fn has_pages(costs: &DesignCosts) -> bool {
    costs.protection != Protection::Validation
}

fn is_memory(channel: Channel) -> bool {
    matches!(channel, Channel::Ring | Channel::Shm)
}

/// A workload at a share of distributed transactions in per cent, and over so many rows.
pub type AtShare<'a> = dyn Fn(f64, Option<u64>) -> Result<Transactions, ModelError> + 'a;

/// Solves the terms for which there are cells. `transactions` gives the workload.
///
/// # Errors
/// A cell of a design that `base` does not know, one that does not fit the machine, one without
/// throughput, or a workload that cannot be made.
pub fn calibrate(
    base: &EngineProfile,
    machine: &MachineModel,
    transactions: &AtShare<'_>,
    cells: &[Cell],
) -> Result<Calibration, ModelError> {
    let mut profile = base.clone();
    let mut ordered: Vec<(Term, &Cell)> = cells.iter().map(|cell| (term_of(cell, cells), cell)).collect();
    // A design with two sizes tells its work from its misses; then the work of the others follows.
    let has_sizes = |cell: &Cell| cells.iter().any(|other| is_size_of(other, cell));
    ordered
        .sort_by_key(|(term, cell)| (*term > Term::Memory, *term == Term::Work && !has_sizes(cell), *term));
    let mut fits = Vec::new();
    for (term, cell) in ordered {
        let fit = solve(&mut profile, machine, transactions, term, cell)?;
        let is_faster = term == Term::Sharing && fit.is_none() && cell.tps > fit.tps;
        fits.push(fit);
        if is_faster {
            fits.push(solve(&mut profile, machine, transactions, Term::Relief, cell)?);
        }
    }
    let profile = apply(base, &fits)?;
    Ok(Calibration { fits, profile })
}

/// Whether two cells are the same but for the size of the data.
fn is_size_of(other: &Cell, cell: &Cell) -> bool {
    let place = |c: &Cell| (c.design.clone(), c.islands, c.channel, c.multisite.to_bits());
    other.dataset != cell.dataset && place(other) == place(cell)
}

/// The term that a cell determines; of two sizes the smaller one has the work.
fn term_of(cell: &Cell, all: &[Cell]) -> Term {
    if all.iter().any(|other| is_size_of(other, cell) && other.dataset < cell.dataset) {
        return Term::Memory;
    }
    match cell {
        Cell { islands: 1, workers, multisite, .. } if *workers > 1 => {
            if *multisite == 0.0 {
                Term::Sharing
            } else {
                Term::Handoff
            }
        }
        Cell { multisite, .. } if *multisite == 0.0 => Term::Work,
        Cell { channel, .. } if is_memory(*channel) => Term::Parts,
        _ => Term::Channel,
    }
}

fn name(cell: &Cell) -> String {
    let Cell { design, islands, workers, channel, multisite, .. } = cell;
    format!("{design}, {islands} instances of {workers} workers over {}, {multisite} %", channel.name())
}

fn solve(
    profile: &mut EngineProfile,
    machine: &MachineModel,
    transactions: &AtShare<'_>,
    term: Term,
    cell: &Cell,
) -> Result<Fit, ModelError> {
    if !(cell.tps.is_finite() && cell.tps > 0.0) {
        let what = format!("the throughput of the cell {}", name(cell));
        return Err(ModelError::Value { what, value: cell.tps.to_string(), expected: "a number above 0" });
    }
    let workload = transactions(cell.multisite, cell.dataset)?;
    let deployment = Deployment::new(machine, &cell.design, cell.islands, cell.workers, Placement::Island)?
        .over(cell.channel)
        .with_durability(cell.durability)
        .with_clients(Clients::Closed(cell.clients));
    let options = RunOptions::for_workers(cell.workers);
    let at = |factor: f64| {
        let tried = scaled(profile, term, cell, factor)?;
        let tps = simulate(&Case::new(machine, &tried, &workload, &deployment)?, &options).tps;
        Ok::<_, ModelError>((tried, tps))
    };
    let factor = crossing(|ln| Ok((at(ln.exp())?.1.max(f64::MIN_POSITIVE) / cell.tps).ln()))?.exp();
    let (fitted, tps) = at(factor)?;
    *profile = fitted;
    Ok(Fit { term, cell: cell.clone(), factor, tps })
}

/// The logarithm of the factor at which `excess`, the logarithm of the simulated throughput over
/// the measured one, passes 0. It falls as the factor grows. Steps from factor 1 outwards find two
/// sides, and false position (with the Illinois rule, which halves the weight of a side that stays)
/// goes on between them. A bound, if it is not passed between the bounds.
fn crossing(excess: impl Fn(f64) -> Result<f64, ModelError>) -> Result<f64, ModelError> {
    let (mut at, mut value) = (0.0, excess(0.0)?);
    let (bound, mut step) = if value > 0.0 { (MOST.ln(), 0.7) } else { (LEAST.ln(), -0.7) };
    let (mut other, mut other_value) = (at, value);
    while value.abs() >= EXACT && value.signum() == other_value.signum() {
        if at == bound {
            return Ok(bound);
        }
        (other, other_value) = (at, value);
        at = if step > 0.0 { (at + step).min(bound) } else { (at + step).max(bound) };
        value = excess(at)?;
        step *= 2.0;
    }
    for _ in 0..MOST_STEPS {
        if value.abs() < EXACT {
            break;
        }
        let next = at - value * (at - other) / (value - other_value);
        let found = excess(next)?;
        if found.signum() == value.signum() {
            other_value /= 2.0;
        } else {
            (other, other_value) = (at, value);
        }
        (at, value) = (next, found);
    }
    Ok(at)
}

/// The profile with a term's costs multiplied by `factor`.
fn scaled(
    profile: &EngineProfile,
    term: Term,
    cell: &Cell,
    factor: f64,
) -> Result<EngineProfile, ModelError> {
    let mut profile = profile.clone();
    profile.design(&cell.design)?;
    let costs = profile.designs.get_mut(&cell.design).expect("looked up above");
    match term {
        Term::Work => each(&mut costs.work, |work| scale_linear(work, factor)),
        Term::Memory => {
            let pages = has_pages(costs);
            let kin = profile.designs.values_mut().filter(|costs| has_pages(costs) == pages);
            kin.for_each(|costs| costs.miss *= factor);
        }
        Term::Sharing => each(&mut costs.cold, |cold| {
            let basis = if cold.per_row * cold.exposed > 0.0 { *cold } else { COLD };
            *cold = ColdLines { exposed: basis.exposed * factor, ..basis };
        }),
        Term::Relief => {
            for (shared, work) in
                [(&mut costs.shared.read, costs.work.read), (&mut costs.shared.update, costs.work.update)]
            {
                shared.per_transaction += work.per_transaction * (factor - 1.0);
                shared.per_row += work.per_row * (factor - 1.0);
            }
        }
        Term::Handoff => each(&mut costs.handoff, |ns| *ns *= factor),
        Term::Parts => {
            each(&mut costs.parts, |parts| scale_parts(parts, factor));
            each(&mut costs.with_distributed, |added| scale_linear(added, factor));
        }
        Term::Channel => {
            let known = profile.messages.channels.get_mut(cell.channel.name());
            let none =
                || ModelError::NoChannel { profile: profile.name.clone(), channel: cell.channel.name() };
            let channel = known.ok_or_else(none)?;
            channel.write_ns *= factor;
            channel.read_ns *= factor;
        }
    }
    Ok(profile)
}

fn each<T>(by: &mut ByOp<T>, change: impl Fn(&mut T)) {
    change(&mut by.read);
    change(&mut by.update);
}

fn scale_linear(work: &mut Linear, factor: f64) {
    work.per_transaction *= factor;
    work.per_row *= factor;
}

fn scale_parts(parts: &mut Parts, factor: f64) {
    for cost in
        [&mut parts.home, &mut parts.participant, &mut parts.reply, &mut parts.decision, &mut parts.ack]
    {
        *cost *= factor;
    }
}
