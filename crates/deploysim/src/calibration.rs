//! Calibration: the costs of a profile from measured throughputs.
//!
//! Each [`Term`] is one number that throughput falls with. Each has a measured [`Cell`] in which no
//! term after it plays a part. So the terms are solved one after the other, each by false
//! position over simulations of its cell with one seed, and no cell is fitted twice:
//!
//! ```text
//!   term      its cell                              scales
//!   Work      one worker per instance, local        the design's work, and the locks that it
//!                                                   takes beside other transactions only
//!   Memory    the same over more data               misses of the design and its kin
//!   Log       the same, where commits wait for it   writes of the log
//!   Sharing   one instance of all workers           the design's exposed cold lines
//!   Relief    the same, if its lines do not         the design's work in such an instance
//!             explain it
//!   Handoff   the same, with rows at other owners   the design's hand-over between workers
//!   Parts     several, distributed, memory channel  the design's parts
//!   Forward   several, local, memory channel        a request sent to the instance of its rows
//!   Channel   the same over another channel         that channel's reads and writes
//! ```
//!
//! A design without costs of its own begins with those of `conventional` ([`with_costs_for`]); its
//! own cells scale them, and [`measured`] says of which designs there are cells at all.
//!
//! A calibration holds for one workload: the work of both operations is scaled by one factor, so
//! that a mix of kinds has one term as well. Terms without a cell keep the profile's costs. The
//! cells are the only measured input. Where clients send their requests to the instance of their
//! rows, all cells but that of one instance have messages: it determines the work, and the others
//! the cost of such a request. A cell that no cost explains is reported
//! with its factor at a bound ([`Fit::is_at_bound`]).

mod cell;
mod kept;
mod kin;

pub use cell::{Cell, Fit, Load, Term, Wanted};
pub use kept::{Conditions, Kept, VERSION};

use cell::{LEAST, MOST};
use kin::borrows;

use crate::case::Case;
use crate::costs::{ByOp, ColdLines, DesignCosts, EngineProfile, Linear, Parts, Protection};
use crate::deployment::{Channel, Clients, Deployment, Durability, Placement};
use crate::error::ModelError;
use crate::machine::MachineModel;
use crate::simulate::{RunOptions, simulate};
use crate::transaction::Transactions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A profile with the cells that it was fitted to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    pub fits: Vec<Fit>,
    pub profile: EngineProfile,
}

/// The number of the way in which terms are solved: another one finds other factors for the same
/// cells.
pub const SOLVER: u32 = 4;

/// A simulation within this share of the measured throughput ends the search of a factor.
const EXACT: f64 = 0.002;
/// Simulations after which the search ends with the best factor so far.
const MOST_STEPS: usize = 12;
/// Turns after which work and misses are as they are.
const MOST_TURNS: usize = 4;
/// A term of a design that has no cold lines to scale begins with this share of their transfers.
const COLD: ColdLines = ColdLines { per_row: 1.0, exposed: 1.0, hidden_ns: None };
/// The transfers that a visit of a cold line pays for at most: it is fetched, taken away by the
/// other core, fetched again, and then owned. An instance that loses more waits for something else.
const MOST_EXPOSED: f64 = 3.0;

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
    profile.anchors = fits.iter().filter(|fit| !fit.is_assumed).map(|fit| name(&fit.cell)).collect();
    profile.is_calibrated = !fits.is_empty();
    Ok(profile)
}

/// The cells that determine the costs of `designs` with `workers` workers, the most valuable first:
/// those of one design after the other without messages, then the distributed ones, then sockets,
/// since a message over one costs the same for each design, then all but the work of designs that
/// have kin. One design with pages and one without
/// are measured over the other size of the data too. The local cells of a design of which each
/// commit waits for the log are measured without a log, and one with it.
///
/// # Errors
/// A design that the profile does not know ([`with_costs_for`]).
pub fn cells_to_measure(
    profile: &EngineProfile,
    designs: &[&str],
    workers: usize,
    channels: &[Channel],
    load: &Load,
) -> Result<Vec<Wanted>, ModelError> {
    let Load { multisite, dataset, durability, is_updating, is_routed } = *load;
    let (memory, sockets): (Vec<Channel>, Vec<Channel>) = channels.iter().partition(|c| is_memory(**c));
    let first = memory.first().copied().unwrap_or(Channel::Shm);
    let mut wanted = Vec::new();
    let mut add = |term, design: &str, islands, channel, multisite| {
        let waits =
            profile.designs.get(design).is_some_and(|costs| is_updating && waits(profile, costs, durability));
        let without_log = waits && matches!(term, Term::Work | Term::Memory | Term::Sharing);
        let design = design.to_owned();
        let dataset = dataset.filter(|_| term == Term::Memory);
        let durability = without_log.then_some(Durability::Memory);
        let is_later = false;
        wanted.push(Wanted {
            term,
            design,
            islands,
            workers,
            channel,
            multisite,
            dataset,
            durability,
            is_later,
        });
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
        if is_updating && waits(profile, costs, durability) {
            add(Term::Log, design, workers, first, 0.0);
        }
    }
    let has_parts = workers > 1 && multisite > 0.0;
    if has_parts {
        for design in designs {
            if profile.design(design)?.handoff != ByOp::default() {
                add(Term::Handoff, design, 1, first, multisite);
            }
        }
        designs.iter().for_each(|design| add(Term::Parts, design, workers, first, multisite));
    }
    if (has_parts || workers > 1 && is_routed)
        && let Some(design) = designs.first()
    {
        sockets.iter().for_each(|&channel| add(Term::Channel, design, workers, channel, multisite));
    }
    // Kin say most of what each other's cells would.
    let first_kin = designs.iter().find(|design| borrows(profile, design));
    for w in &mut wanted {
        let is_kin = borrows(profile, &w.design) && first_kin.is_some_and(|first| *first != w.design);
        w.is_later = is_kin && w.term != Term::Work;
    }
    wanted.sort_by_key(|w| w.is_later);
    Ok(wanted)
}

/// Whether each commit of a design waits until its log is written.
fn waits(profile: &EngineProfile, costs: &DesignCosts, durability: Durability) -> bool {
    durability == Durability::Async && !has_pages(costs) && profile.log_write.ns > 0.0
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
    let (is_updating, is_routed) = match cells.first() {
        Some(cell) => {
            let drawn = transactions(cell.multisite, cell.dataset)?;
            (drawn.is_updating(), drawn.is_routed())
        }
        None => (false, false),
    };
    let is_waiting = |cell: &Cell| {
        let costs = base.designs.get(&cell.design);
        is_updating && costs.is_some_and(|costs| waits(base, costs, cell.durability))
    };
    let term = |cell: &Cell| match term_of(cell, cells, is_routed) {
        Term::Work if is_waiting(cell) => Term::Log,
        term => term,
    };
    let mut ordered: Vec<(Term, &Cell)> = cells.iter().map(|cell| (term(cell), cell)).collect();
    // A design with two sizes tells its work from its misses; then the work of the others follows.
    let has_sizes = |cell: &Cell| cells.iter().any(|other| is_size_of(other, cell));
    ordered.sort_by_key(|(term, cell)| match term {
        Term::Work => (if has_sizes(cell) { 0 } else { 2 }, *term),
        Term::Memory => (if is_waiting(cell) { 4 } else { 1 }, *term),
        Term::Log => (3, *term),
        _ => (5, *term),
    });
    let works = ordered.iter().filter(|(term, _)| *term == Term::Work);
    let works: Vec<&Cell> = works.map(|(_, cell)| *cell).collect();
    let mut fits: Vec<Fit> = Vec::new();
    for (term, cell) in ordered {
        let rests_on_work = matches!(term, Term::Log | Term::Forward);
        if rests_on_work && !measured(&fits).contains(&cell.design.as_str()) {
            fits.push(assumed_work(&mut profile, machine, transactions, cell, &fits)?);
        }
        let aim = kin::in_view_of_kin(base, term, cell, cells);
        let mut solve = |term| solve(&mut profile, machine, transactions, term, (cell, aim));
        let fit = solve(term)?;
        let is_faster = fit.is_none() && aim > fit.tps;
        let is_slower = aim < fit.tps * (1.0 - 2.0 * EXACT);
        fits.push(fit);
        if term == Term::Sharing && (is_faster || is_slower) {
            fits.push(solve(Term::Relief)?);
        }
        let work = works.iter().find(|work| term == Term::Memory && is_size_of(work, cell));
        if let Some(work) = work {
            let sizes = [(Term::Work, *work), (Term::Memory, cell)];
            fits.extend(in_turn(&mut profile, machine, transactions, &sizes, base, cells)?);
        }
    }
    let assumed = kin::assumed(base, &fits);
    fits.extend(assumed);
    kin::join_sockets(&mut fits);
    let profile = apply(base, &fits)?;
    Ok(Calibration { fits, profile })
}

/// Whether two cells are the same but for the size of the data.
fn is_size_of(other: &Cell, cell: &Cell) -> bool {
    let place = |c: &Cell| (c.design.clone(), c.islands, c.channel, c.multisite.to_bits());
    other.dataset != cell.dataset && place(other) == place(cell)
}

/// The work and the misses of two sizes, solved again until both cells come out: where the smaller
/// one misses as well, its work changes with the misses.
fn in_turn(
    profile: &mut EngineProfile,
    machine: &MachineModel,
    transactions: &AtShare<'_>,
    sizes: &[(Term, &Cell); 2],
    base: &EngineProfile,
    cells: &[Cell],
) -> Result<Vec<Fit>, ModelError> {
    let mut fits = Vec::new();
    for _ in 0..MOST_TURNS {
        let smaller = sizes[0].1;
        let workload = transactions(smaller.multisite, smaller.dataset)?;
        let aim = kin::in_view_of_kin(base, Term::Work, smaller, cells);
        let missed = simulated(profile, machine, &workload, smaller)? / aim - 1.0;
        if missed.abs() < 2.0 * EXACT {
            break;
        }
        for (term, cell) in sizes {
            let aim = kin::in_view_of_kin(base, *term, cell, cells);
            fits.push(solve(profile, machine, transactions, *term, (cell, aim))?);
        }
    }
    Ok(fits)
}

/// The work of a design without a cell of its work alone: it differs from the profile's by as
/// much as that of the other designs, at the median.
fn assumed_work(
    profile: &mut EngineProfile,
    machine: &MachineModel,
    transactions: &AtShare<'_>,
    cell: &Cell,
    fits: &[Fit],
) -> Result<Fit, ModelError> {
    let mut of_designs: BTreeMap<&str, f64> = BTreeMap::new();
    for fit in fits.iter().filter(|fit| fit.term == Term::Work) {
        *of_designs.entry(&fit.cell.design).or_insert(1.0) *= fit.factor;
    }
    let mut factors: Vec<f64> = of_designs.into_values().collect();
    factors.sort_by(f64::total_cmp);
    let factor = factors.get(factors.len() / 2).copied().unwrap_or(1.0);
    let tried = scaled(profile, Term::Work, cell, factor)?;
    let tps = simulated(&tried, machine, &transactions(cell.multisite, cell.dataset)?, cell)?;
    *profile = tried;
    Ok(Fit { term: Term::Work, cell: cell.clone(), factor, tps, is_assumed: true })
}

/// The term that a cell determines; of two sizes the smaller one has the work.
fn term_of(cell: &Cell, all: &[Cell], is_routed: bool) -> Term {
    if all.iter().any(|other| is_size_of(other, cell) && other.dataset < cell.dataset) {
        return Term::Memory;
    }
    match cell {
        // Where requests are routed, only one instance works without messages.
        Cell { islands: 1, .. } if is_routed => Term::Work,
        Cell { channel, .. } if is_routed && is_memory(*channel) => Term::Forward,
        Cell { islands: 1, workers, multisite, .. } if *workers > 1 => {
            if *multisite == 0.0 {
                Term::Sharing
            } else {
                Term::Handoff
            }
        }
        Cell { islands, channel, .. } if *islands > 1 && !is_memory(*channel) => Term::Channel,
        Cell { multisite, .. } if *multisite == 0.0 => Term::Work,
        _ => Term::Parts,
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
    (cell, aim): (&Cell, f64),
) -> Result<Fit, ModelError> {
    if !(cell.tps.is_finite() && cell.tps > 0.0) {
        let what = format!("the throughput of the cell {}", name(cell));
        return Err(ModelError::Value { what, value: cell.tps.to_string(), expected: "a number above 0" });
    }
    let workload = transactions(cell.multisite, cell.dataset)?;
    let at = |factor: f64| {
        let tried = scaled(profile, term, cell, factor)?;
        let tps = simulated(&tried, machine, &workload, cell)?;
        Ok::<_, ModelError>((tried, tps))
    };
    let most = most(profile, term, cell).ln();
    let factor = crossing(most, |ln| Ok((at(ln.exp())?.1.max(f64::MIN_POSITIVE) / aim).ln()))?.exp();
    let (fitted, tps) = at(factor)?;
    *profile = fitted;
    Ok(Fit { term, cell: cell.clone(), factor, tps, is_assumed: false })
}

/// The greatest factor of a term.
fn most(profile: &EngineProfile, term: Term, cell: &Cell) -> f64 {
    let costs = profile.designs.get(&cell.design).filter(|_| term == Term::Sharing);
    costs.map_or(MOST, |costs| {
        let exposed = |cold: ColdLines| scalable(cold).exposed;
        MOST_EXPOSED / exposed(costs.cold.read).max(exposed(costs.cold.update))
    })
}

/// The throughput of a cell by the simulation.
fn simulated(
    profile: &EngineProfile,
    machine: &MachineModel,
    workload: &Transactions,
    cell: &Cell,
) -> Result<f64, ModelError> {
    let deployment = Deployment::new(machine, &cell.design, cell.islands, cell.workers, Placement::Island)?
        .over(cell.channel)
        .with_durability(cell.durability)
        .with_clients(Clients::Closed(cell.clients));
    let options = RunOptions::for_workers(cell.workers);
    Ok(simulate(&Case::new(machine, profile, workload, &deployment)?, &options).tps)
}

/// The logarithm of the factor at which `excess`, the logarithm of the simulated throughput over
/// the measured one, passes 0. It falls as the factor grows. Steps from factor 1 outwards find two
/// sides, and false position (with the Illinois rule, which halves the weight of a side that stays)
/// goes on between them. A bound, if it is not passed between the bounds; `most` is the logarithm
/// of the upper one.
fn crossing(most: f64, excess: impl Fn(f64) -> Result<f64, ModelError>) -> Result<f64, ModelError> {
    let begin = most.min(0.0);
    let (mut at, mut value) = (begin, excess(begin)?);
    let (bound, mut step) = if value > 0.0 { (most, 0.7) } else { (LEAST.ln(), -0.7) };
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
        Term::Work => {
            each(&mut costs.work, |work| scale_linear(work, factor));
            each(&mut costs.with_distributed, |locks| scale_linear(locks, factor));
        }
        Term::Memory => {
            let pages = has_pages(costs);
            let kin = profile.designs.values_mut().filter(|costs| has_pages(costs) == pages);
            kin.for_each(|costs| costs.miss *= factor);
        }
        Term::Sharing => each(&mut costs.cold, |cold| {
            let basis = scalable(*cold);
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
        Term::Log => {
            profile.log_write.ns *= factor;
            profile.log_write.per_byte_ns *= factor;
        }
        Term::Parts => each(&mut costs.parts, |parts| scale_parts(parts, factor)),
        Term::Forward => costs.forward *= factor,
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

/// The cold lines that a factor of sharing scales.
fn scalable(cold: ColdLines) -> ColdLines {
    if cold.per_row * cold.exposed > 0.0 { cold } else { COLD }
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
