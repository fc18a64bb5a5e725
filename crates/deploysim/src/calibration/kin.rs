//! Designs that are alike, and what their cells say about each other.
//!
//! The designs with owners borrow their costs, and differ by a few per cent where their windows
//! scatter by more. So a cell of few windows is drawn toward the median of the same cells of its
//! kin, and a design without a cell of a term has the median factor of its kin. Sockets are kin
//! too.

use super::cell::{Cell, Fit, LEAST as LEAST_FACTOR, MOST as MOST_FACTOR, Term};
use crate::costs::EngineProfile;

/// Fewer cells have no median that says more than each of them.
const LEAST: usize = 3;
/// The scatter of one window around its deployment's median, as the standard deviation of a
/// logarithm: 5.6 % at the median, 19 % at the 90th percentile (`results/plan-validation.md`).
const WINDOW: f64 = 0.08;

/// The scatter of kin around each other, likewise. They differ by the way in which they hand over
/// rows, and less in other cells (an assumption after the factors of four designs over seven
/// workloads).
fn between_kin(term: Term) -> f64 {
    if term == Term::Handoff { 0.2 } else { 0.05 }
}

/// Whether the costs of a design are borrowed: all that borrow are kin.
pub(super) fn borrows(base: &EngineProfile, design: &str) -> bool {
    base.designs.get(design).is_some_and(|costs| costs.borrowed_from.is_some())
}

/// The throughput of a cell in view of its kin.
pub(super) fn in_view_of_kin(base: &EngineProfile, term: Term, cell: &Cell, all: &[Cell]) -> f64 {
    if !borrows(base, &cell.design) {
        return cell.tps;
    }
    let is_same = |other: &&Cell| {
        let place = |c: &Cell| (c.islands, c.workers, c.channel, c.dataset, c.clients, c.durability);
        borrows(base, &other.design)
            && place(other) == place(cell)
            && other.multisite.to_bits() == cell.multisite.to_bits()
    };
    let kin: Vec<f64> = all.iter().filter(is_same).map(|other| other.tps.ln()).collect();
    if kin.len() < LEAST {
        return cell.tps;
    }
    // A window beside other work says little.
    let windows = if cell.is_disturbed { 0.5 } else { cell.windows.max(1) as f64 };
    let of_window = WINDOW * WINDOW / windows;
    let weight = of_window / (of_window + between_kin(term).powi(2));
    ((1.0 - weight) * cell.tps.ln() + weight * median(kin)).exp()
}

/// The terms of designs that have a measured work and no cell of the term, while kin have: the
/// median factor.
pub(super) fn assumed(base: &EngineProfile, fits: &[Fit]) -> Vec<Fit> {
    let mut all = Vec::new();
    let works = fits.iter().filter(|fit| fit.term == Term::Work && borrows(base, &fit.cell.design));
    for work in works {
        let design = &work.cell.design;
        let has = |term: Term| fits.iter().any(|fit| fit.term == term && fit.cell.design == *design);
        for term in [Term::Sharing, Term::Relief, Term::Handoff, Term::Parts, Term::Forward] {
            // A relief follows from the cell of sharing.
            let is_known = has(term) || term == Term::Relief && has(Term::Sharing);
            let of_kin = |fit: &&Fit| {
                fit.term == term && fit.cell.design != *design && borrows(base, &fit.cell.design)
            };
            let kin: Vec<&Fit> = fits.iter().filter(of_kin).collect();
            if let (false, Some(first)) = (is_known, kin.first()) {
                let cell = Cell { design: design.clone(), ..first.cell.clone() };
                let factor = median(kin.iter().map(|fit| fit.factor.ln()).collect()).exp();
                all.push(Fit { term, cell, factor, tps: first.tps, is_assumed: true });
            }
        }
    }
    all
}

/// Sockets are alike as well: what differs from the profile is the system calls of the machine and
/// their kernel. Each factor is drawn half-way to the mean of all; one at a bound says nothing.
pub(super) fn join_sockets(fits: &mut [Fit]) {
    let of_sockets = |fit: &&mut Fit| fit.term == Term::Channel;
    let is_bound = |fit: &Fit| fit.factor <= LEAST_FACTOR * 1.01 || fit.factor >= MOST_FACTOR * 0.99;
    let known: Vec<f64> = fits
        .iter()
        .filter(|fit| fit.term == Term::Channel && !is_bound(fit))
        .map(|fit| fit.factor.ln())
        .collect();
    // Without any that says something they are as in the profile.
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    for fit in fits.iter_mut().filter(of_sockets) {
        let own = if is_bound(fit) { mean } else { fit.factor.ln() };
        fit.factor = f64::midpoint(own, mean).exp();
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::{Channel, Durability};

    fn socket(channel: Channel, factor: f64) -> Fit {
        let cell = Cell {
            design: "conventional".into(),
            islands: 2,
            workers: 2,
            channel,
            multisite: 20.0,
            dataset: None,
            clients: 4,
            durability: Durability::Memory,
            tps: 1e5,
            tps_min: 1e5,
            tps_max: 1e5,
            windows: 1,
            is_disturbed: false,
        };
        Fit { term: Term::Channel, cell, factor, tps: 1e5, is_assumed: false }
    }

    #[test]
    fn a_socket_at_a_bound_is_as_the_others_or_as_in_the_profile() {
        let joined = |factors: &[f64]| {
            let mut fits: Vec<Fit> = factors.iter().map(|factor| socket(Channel::Uds, *factor)).collect();
            join_sockets(&mut fits);
            fits.iter().map(|fit| fit.factor).collect::<Vec<_>>()
        };
        assert_eq!(joined(&[LEAST_FACTOR]), [1.0]);
        let both = joined(&[LEAST_FACTOR, 2.0]);
        assert!(both.iter().all(|factor| (factor - 2.0).abs() < 1e-9), "{both:?}");
        let mean = joined(&[1.0, 4.0]);
        assert!(
            (mean[0] - 2.0_f64.sqrt()).abs() < 1e-9 && (mean[1] - 8.0_f64.sqrt()).abs() < 1e-9,
            "{mean:?}"
        );
    }
}
