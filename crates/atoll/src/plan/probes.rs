//! Probes: short measured windows of the cells that determine the costs of the model, and terms of
//! the machine.
//!
//! A round measures each cell once, the most valuable first; the next round goes backwards, so that
//! a drift of the machine meets all cells alike. Rounds go on until the budget is spent. Cells of
//! which others say most (`Wanted::is_later`) come in after two rounds of the others. A window
//! beside other work is too slow, and so is one during which a host has kept the cores of this
//! machine further apart than in most windows. Cells that have no other window come first in the
//! later rounds.

use super::question::Question;
use super::terms;
use super::window::{self, Windows};
use crate::bench::ping;
use crate::failure::Failure;
use crate::progress::Progress;
use advisor::Candidate;
use advisor::race::median;
use deploy::Interrupt;
use deploysim::calibration::{self, Cell, Kept, Load, Wanted, calibrate, cells_to_measure};
use deploysim::{Channel, EngineProfile};
use driver::Watcher;
use std::time::{Duration, Instant};
use time::OffsetDateTime;
use topology::{Machine, Placement};

/// The window of a probe.
const WINDOWS: Windows = Windows { warmup: "300ms", duration: "500ms", repeat: "1", seed: 1 };
/// The expected time of a probe: window, warm-up, start, load and check of a small database.
pub const PROBE_S: f64 = 1.2;
/// The time to solve a term on a few cores, kept from the budget.
const SOLVE_S: f64 = 0.1;
/// No probe is shorter: window and warm-up.
const LEAST_S: f64 = 0.8;
/// A window that other work took more of is not clean: of the windows of a quiet machine few have
/// more.
const MOST_NOISE: f64 = 0.06;
/// A cache line took this many times as long from core to core as in most windows: the host of a
/// virtual machine has moved a core. On two cores that did not move, lines differ by a fifth.
const MOVED: f64 = 1.5;
/// Rounds after which another one changes little.
const MOST_ROUNDS: usize = 5;
/// The share of distributed transactions, in per cent, of cells, if their question has fewer than
/// [`FEW`]: too few messages would leave their cost to the noise.
const DISTRIBUTED: f64 = 20.0;
const FEW: f64 = 5.0;
/// Rows of about 255 bytes that no L2 and no core's share of an L3 holds.
const LARGE: u64 = 1_000_000;

/// Measures the cells of `designs` for the question's load, and solves the terms.
///
/// # Errors
/// A budget too small for a probe of each design; an interruption; data found inconsistent; cells
/// from which nothing can be solved.
pub fn run(
    question: &Question<'_>,
    designs: &[&str],
    budget: Duration,
    machine: &Machine,
    interrupt: &Interrupt,
) -> Result<Kept, Failure> {
    let begun = Instant::now();
    let needed = PROBE_S * designs.len() as f64;
    if budget.as_secs_f64() < needed {
        return Err(Failure::Usage(format!(
            "--calibrate={:.1}s: one probe of each of {} designs takes about {needed:.0}s; expected at least that, or \
             fewer --designs",
            budget.as_secs_f64(),
            designs.len()
        )));
    }
    let base = calibration::with_costs_for(&question.base, designs).map_err(Failure::usage)?;
    let wanted = wanted(question, &base, designs)?;
    let mut line_ns: Vec<f64> = ping(machine).into_iter().collect();
    let (memory_ns, flush_ns) = (terms::memory_ns(), terms::flush_ns(&std::env::temp_dir()));
    let solving = SOLVE_S * wanted.len() as f64;
    let left = (budget.saturating_sub(begun.elapsed()).as_secs_f64() - solving).max(needed);
    let most = (left / LEAST_S) as usize;
    let mut progress = Progress::new(most.min(MOST_ROUNDS * wanted.len()));
    let early = wanted.iter().filter(|wanted| !wanted.is_later).count();
    let windows = rounds::<Failure>(early, wanted.len(), left, |at| {
        let started = Instant::now();
        let window = probe(question, &wanted[at], machine, interrupt, &mut progress)?;
        Ok((window, started.elapsed().as_secs_f64()))
    });
    progress.finish();
    let cells = cells(question, &wanted, &windows?);
    line_ns.extend(ping(machine));
    let model = question.machine.clone().with_measured(Some(memory_ns), flush_ns).map_err(Failure::run)?;
    let transactions = |multisite, dataset| question.probe_transactions(multisite, dataset);
    let solved = calibrate(&base, &model, &transactions, &cells).map_err(Failure::run)?;
    if solved.fits.is_empty() {
        return Err(Failure::Run("not one probe has a throughput: nothing was calibrated".into()));
    }
    let now = OffsetDateTime::now_utc();
    Ok(Kept {
        version: calibration::VERSION,
        unix_s: now.unix_timestamp(),
        date: format!("{} {:02}:{:02}", now.date(), now.hour(), now.minute()),
        program: driver::VERSION.to_owned(),
        commit: crate::version::COMMIT.to_owned(),
        seconds: begun.elapsed().as_secs_f64(),
        line_ns,
        memory_ns: Some(memory_ns),
        flush_ns,
        solver: calibration::SOLVER,
        conditions: question.conditions(),
        fits: solved.fits,
    })
}

/// The cells that the question needs. Distributed ones are over shared memory at first, whichever
/// channels are allowed.
fn wanted(question: &Question<'_>, base: &EngineProfile, designs: &[&str]) -> Result<Vec<Wanted>, Failure> {
    let mut channels = question.channels()?;
    if !channels.contains(&Channel::Shm) {
        channels.insert(0, Channel::Shm);
    }
    let load = Load {
        multisite: distributed(question),
        dataset: size(question),
        durability: question.conditions().durability,
        is_updating: question.transactions.is_updating(),
        is_routed: question.transactions.is_routed(),
    };
    cells_to_measure(base, designs, question.levels.cores, &channels, &load).map_err(Failure::usage)
}

/// One window of a cell; `None` if it cannot run.
fn probe(
    question: &Question<'_>,
    wanted: &Wanted,
    machine: &Machine,
    interrupt: &Interrupt,
    progress: &mut Progress,
) -> Result<Option<Window>, Failure> {
    let cell = candidate(wanted);
    let rows = wanted.dataset.map_or_else(String::new, |rows| format!(", {rows} rows"));
    progress.next(&format!("calibrating: {cell} at {} %{rows}", wanted.multisite));
    let options = question.probe_options(wanted.multisite, wanted.dataset, wanted.durability);
    let load = (question.args.workload.as_str(), &*options);
    match window::measure(load, &cell, &WINDOWS, machine, interrupt, progress) {
        Ok(row) => {
            progress.done(&format!("{:.0} /s", row.tps));
            let lines = [row.machine.latency_before_ns, row.machine.latency_after_ns];
            let line_ns = lines.into_iter().flatten().max_by(f64::total_cmp);
            Ok(Some(Window { tps: row.tps, noise: row.noise, line_ns }).filter(|window| window.tps > 0.0))
        }
        Err(failure @ (Failure::Interrupted | Failure::Inconsistent { .. })) => Err(failure),
        Err(failure) => {
            progress.warn(&format!("no probe of {cell}: {failure}"));
            Ok(None)
        }
    }
}

/// The share of the distributed cells, in per cent; 0 for a workload without such transactions.
fn distributed(question: &Question<'_>) -> f64 {
    if !question.takes_share() {
        return 0.0;
    }
    match question.spec.multisite.or(question.subject.labels().multisite) {
        Some(enough) if enough >= FEW => enough,
        _ => DISTRIBUTED,
    }
}

/// Another size of the data, on the other side of the caches: [`LARGE`] rows, or few where the
/// question has many.
fn size(question: &Question<'_>) -> Option<u64> {
    let own = question.subject.labels().dataset?;
    Some(if own < LARGE / 2 { LARGE } else { own / 50 })
}

fn candidate(wanted: &Wanted) -> Candidate {
    let Wanted { design, islands, workers, channel, .. } = wanted.clone();
    let channel = (islands > 1).then_some(channel);
    Candidate { design, islands, workers, placement: Placement::Island, channel, bounds: Vec::new() }
}

/// A measured window.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Window {
    tps: f64,
    /// The share of it that other work took.
    noise: f64,
    /// The longer one of the times that a cache line took from core to core before and after it.
    line_ns: Option<f64>,
}

impl Window {
    /// `line_ns` is the time in most windows.
    fn is_clean(&self, line_ns: Option<f64>) -> bool {
        let has_moved = self.line_ns.zip(line_ns).is_some_and(|(own, usual)| own > MOVED * usual);
        self.noise <= MOST_NOISE && !has_moved
    }
}

/// The time of a cache line from core to core, at the median of all windows.
fn usual_line_ns(windows: &[Vec<Window>]) -> Option<f64> {
    let all: Vec<f64> = windows.iter().flatten().filter_map(|window| window.line_ns).collect();
    (!all.is_empty()).then(|| median(&all))
}

/// The throughputs to go by: those of the clean windows, or of the fastest one if none is clean.
fn trusted(windows: &[Window], line_ns: Option<f64>) -> Vec<f64> {
    let clean: Vec<f64> = windows.iter().filter(|w| w.is_clean(line_ns)).map(|w| w.tps).collect();
    let fastest = windows.iter().map(|w| w.tps).max_by(f64::total_cmp);
    if clean.is_empty() { fastest.into_iter().collect() } else { clean }
}

/// The windows of each cell; the first `early` ones have two rounds of their own. `measure` gives
/// a window of a cell, if it has one, and the seconds that it took.
///
/// # Errors
/// That of `measure`.
fn rounds<E>(
    early: usize,
    cells: usize,
    budget_s: f64,
    mut measure: impl FnMut(usize) -> Result<(Option<Window>, f64), E>,
) -> Result<Vec<Vec<Window>>, E> {
    let mut windows: Vec<Vec<Window>> = vec![Vec::new(); cells];
    let (mut spent, mut probes) = (0.0, 0);
    let late = (early < cells).then_some(early..cells);
    let first = [0..early, 0..early].into_iter().chain(late);
    let all = first.chain(std::iter::repeat_n(0..cells, MOST_ROUNDS - 2));
    for (round, of_round) in all.enumerate() {
        let mut order: Vec<usize> = of_round.collect();
        if round % 2 == 1 {
            order.reverse();
        }
        let line_ns = usual_line_ns(&windows);
        order.sort_by_key(|at| windows[*at].iter().any(|window| window.is_clean(line_ns)));
        for at in order {
            let expected = if probes == 0 { PROBE_S } else { spent / f64::from(probes) };
            if spent + expected > budget_s {
                return Ok(windows);
            }
            let (window, seconds) = measure(at)?;
            windows[at].extend(window);
            (spent, probes) = (spent + seconds, probes + 1);
        }
    }
    Ok(windows)
}

/// The cells with windows.
fn cells(question: &Question<'_>, wanted: &[Wanted], windows: &[Vec<Window>]) -> Vec<Cell> {
    let conditions = question.conditions();
    let measured = wanted.iter().zip(windows).filter(|(_, windows)| !windows.is_empty());
    let line_ns = usual_line_ns(windows);
    let is_disturbed = |windows: &[Window]| !windows.iter().any(|window| window.is_clean(line_ns));
    measured
        .map(|(wanted, all)| (wanted, is_disturbed(all), trusted(all, line_ns)))
        .map(|(wanted, is_disturbed, windows)| Cell {
            design: wanted.design.clone(),
            islands: wanted.islands,
            workers: wanted.workers,
            channel: wanted.channel,
            multisite: wanted.multisite,
            dataset: wanted.dataset.or(question.subject.labels().dataset),
            clients: conditions.clients,
            durability: wanted.durability.unwrap_or(conditions.durability),
            tps: median(&windows),
            tps_min: windows.iter().copied().fold(f64::INFINITY, f64::min),
            tps_max: windows.iter().copied().fold(0.0, f64::max),
            windows: windows.len(),
            is_disturbed,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: Window = Window { tps: 10.0, noise: 0.01, line_ns: Some(30.0) };

    #[test]
    fn a_window_beside_other_work_is_measured_again_and_not_trusted() {
        let mut order = Vec::new();
        let windows = rounds(2, 2, 3.5, |at| {
            order.push(at);
            let window = if order.len() == 1 { Window { tps: 4.0, noise: 0.5, ..CLEAN } } else { CLEAN };
            Ok::<_, Failure>((Some(window), 1.0))
        });
        assert_eq!(order, [0, 1, 0], "the second round would go backwards");
        let windows = windows.unwrap();
        assert_eq!(trusted(&windows[0], None), [10.0]);
        let disturbed = [3.0, 5.0, 4.0].map(|tps| Window { tps, noise: 0.3, ..CLEAN });
        assert_eq!(trusted(&disturbed, None), [5.0], "other work only slows down");
        assert!(trusted(&[], None).is_empty());
    }

    #[test]
    fn a_window_while_the_cores_were_far_apart_is_measured_again_and_not_trusted() {
        let mut order = Vec::new();
        let windows = rounds(3, 3, 6.5, |at| {
            order.push(at);
            let moved = Window { tps: 6.0, line_ns: Some(104.0), ..CLEAN };
            Ok::<_, Failure>((Some(if order.len() == 1 { moved } else { CLEAN }), 1.0))
        });
        assert_eq!(order, [0, 1, 2, 0, 2, 1], "the second round would go backwards");
        let windows = windows.unwrap();
        let line_ns = usual_line_ns(&windows);
        assert_eq!((line_ns, trusted(&windows[0], line_ns)), (Some(30.0), vec![10.0]));
        // Where all windows are like that, it is the machine.
        let all = vec![vec![Window { line_ns: Some(104.0), ..CLEAN }; 2]];
        assert_eq!(trusted(&all[0], usual_line_ns(&all)), [10.0, 10.0]);
    }

    /// Runs rounds of probes that take two seconds each; returns the order, and the windows.
    fn order(cells: usize, budget_s: f64) -> (Vec<usize>, Vec<Vec<Window>>) {
        let mut order = Vec::new();
        let windows = rounds(cells, cells, budget_s, |at| {
            order.push(at);
            Ok::<_, Failure>(((at != 1).then_some(CLEAN), 2.0))
        });
        (order, windows.unwrap())
    }

    #[test]
    fn the_most_valuable_cells_come_first_and_rounds_alternate() {
        let (all, windows) = order(3, 11.0);
        assert_eq!(all, [0, 1, 2, 1, 2], "the cell without a window comes first");
        assert_eq!(windows.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 2], "one cell always fails");
        assert_eq!(order(3, 1.6).0, [0], "the first expectation is shorter than a probe");
        assert!(order(3, 1.0).0.is_empty());
        assert_eq!(order(2, 1e6).0.len(), 2 * MOST_ROUNDS);
    }

    #[test]
    fn cells_that_can_wait_come_after_two_rounds_of_the_others() {
        let mut order = Vec::new();
        let measure = |at| {
            order.push(at);
            Ok::<_, Failure>((Some(CLEAN), 1.0))
        };
        rounds(2, 4, 9.5, measure).unwrap();
        assert_eq!(order, [0, 1, 1, 0, 2, 3, 3, 2, 1]);
    }

    #[test]
    fn an_interruption_ends_the_rounds() {
        let ended = rounds(3, 3, 100.0, |at| match at {
            1 => Err(Failure::Interrupted),
            _ => Ok((Some(CLEAN), 1.0)),
        });
        assert!(matches!(ended, Err(Failure::Interrupted)));
    }
}
