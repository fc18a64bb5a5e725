//! A calibration as a file: the solved terms with their cells, and what they hold for.
//!
//! The file is TOML. It names its version, and a reader refuses another one. It holds factors and
//! no costs, so a reader applies it to the profile that it was made for, without a simulation. The
//! cells are in it as well: where the way to solve them has changed, a reader solves them again.

use super::cell::{Cell, Fit, Term};
use super::{AtShare, SOLVER, apply, calibrate, measured, with_costs_for};
use crate::costs::EngineProfile;
use crate::deployment::Durability;
use crate::error::ModelError;
use crate::machine::MachineModel;
use serde::{Deserialize, Serialize};

/// The version of the file that this code writes and reads.
pub const VERSION: u32 = 1;

/// The conditions that a calibration holds under.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// The name of the machine and its cores.
    pub machine: String,
    pub cores: usize,
    /// The profile that the factors scale, with its date.
    pub profile: String,
    pub workload: String,
    /// `read`, `update` or `mixed`, for a workload that has such an option: its costs differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    pub durability: Durability,
    /// Closed clients per worker.
    pub clients: u32,
    /// The other options of the load, with their values.
    #[serde(default)]
    pub options: Vec<(String, String)>,
}

/// A calibration with its origin.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    pub version: u32,
    /// Seconds since 1970, UTC.
    pub unix_s: i64,
    /// The same for a reader, as `2026-11-25 20:15`.
    pub date: String,
    pub program: String,
    pub commit: String,
    /// Seconds that the probes took.
    pub seconds: f64,
    /// One-way ns between the two cores farthest apart, before and after.
    pub line_ns: Vec<f64>,
    /// ns of a load from memory, and of one flush of 4 KiB; absent where they were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_ns: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_ns: Option<f64>,
    /// The [`SOLVER`](super::SOLVER) that found the factors.
    #[serde(default)]
    pub solver: u32,
    pub conditions: Conditions,
    pub fits: Vec<Fit>,
}

impl Kept {
    /// Reads a file; `name` is its name for the error.
    ///
    /// # Errors
    /// No TOML, another version, a missing or unknown field, no cell, a factor that is no cost.
    pub fn parse(name: &str, text: &str) -> Result<Kept, ModelError> {
        let wrong = |problem: String| ModelError::File {
            file: name.to_owned(),
            problem: format!("{problem}; expected a calibration as atoll plan --calibrate writes it"),
        };
        let told = |e: toml::de::Error| {
            let line = e.span().map(|span| text[..span.start.min(text.len())].lines().count().max(1));
            wrong(line.map_or(e.message().to_owned(), |line| format!("line {line}: {}", e.message())))
        };
        let version = toml::from_str::<Versioned>(text).map_err(told)?.version;
        if version != VERSION {
            return Err(wrong(format!("version {version} of the file, this program reads {VERSION}")));
        }
        let kept: Kept = toml::from_str(text).map_err(told)?;
        if kept.fits.is_empty() {
            return Err(wrong("it has no cell".to_owned()));
        }
        let is_cost = |value: f64| value.is_finite() && value > 0.0;
        match kept.fits.iter().find(|fit| !is_cost(fit.factor) || !is_cost(fit.cell.tps)) {
            Some(fit) => Err(wrong(format!("a cell of {} with factor {}", fit.cell.design, fit.factor))),
            None => Ok(kept),
        }
    }

    /// The cells: what was measured, from which another solver finds other factors.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells: Vec<Cell> = Vec::new();
        for fit in self.fits.iter().filter(|fit| !fit.is_assumed) {
            if !cells.contains(&fit.cell) {
                cells.push(fit.cell.clone());
            }
        }
        cells
    }

    /// The profile with the costs that the file's cells determine: its factors applied, or its
    /// cells solved where another solver found the factors. `base` has costs of its designs, or of
    /// `conventional`; `machine` is the one that they were measured on.
    ///
    /// # Errors
    /// Cells that `base`, the machine or the workload do not allow.
    pub fn profile(
        &self,
        base: &EngineProfile,
        machine: &MachineModel,
        transactions: &AtShare<'_>,
    ) -> Result<EngineProfile, ModelError> {
        let base = with_costs_for(base, &measured(&self.fits))?;
        let is_known = |cell: &Cell| base.designs.contains_key(&cell.design);
        if self.solver == SOLVER {
            let known: Vec<Fit> = self.fits.iter().filter(|fit| is_known(&fit.cell)).cloned().collect();
            return apply(&base, &known);
        }
        let cells: Vec<Cell> = self.cells().into_iter().filter(is_known).collect();
        Ok(calibrate(&base, machine, transactions, &cells)?.profile)
    }

    /// # Errors
    /// The serialiser's complaint.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        let wrong = |e: toml::ser::Error| ModelError::File {
            file: "the calibration".to_owned(),
            problem: e.to_string(),
        };
        toml::to_string(self).map_err(wrong)
    }

    /// Why it says nothing about `asked`; `None` if it fits.
    pub fn misfit(&self, asked: &Conditions) -> Option<String> {
        let own = &self.conditions;
        let op = |c: &Conditions| c.op.clone().unwrap_or_else(|| "none".to_owned());
        let all = [
            ("machine", own.machine.clone(), asked.machine.clone()),
            ("cores", own.cores.to_string(), asked.cores.to_string()),
            ("engine profile", own.profile.clone(), asked.profile.clone()),
            ("workload", own.workload.clone(), asked.workload.clone()),
            ("op", op(own), op(asked)),
            ("durability", own.durability.name().to_owned(), asked.durability.name().to_owned()),
        ];
        let other = all.into_iter().find(|(_, own, asked)| own != asked);
        other.map(|(what, own, asked)| format!("its {what} is {own}, not {asked}"))
    }

    /// What the cells were measured at where `asked` is something else, such as `rows 10`.
    pub fn differences(&self, asked: &Conditions) -> Vec<String> {
        let own = &self.conditions;
        let mut told = Vec::new();
        if own.clients != asked.clients {
            told.push(format!("clients {}", own.clients));
        }
        let value = |c: &Conditions, name: &str| {
            c.options.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        };
        let names = own.options.iter().chain(&asked.options).map(|(name, _)| name.as_str());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (here, there) = (value(own, name), value(asked, name));
            if here != there {
                told.push(format!("{name} {}", here.unwrap_or_else(|| "as by default".to_owned())));
            }
        }
        told
    }

    /// Half the range of a cell's windows as a share of their median: the median over cells with
    /// several windows. `None` if each has one window.
    pub fn spread(&self) -> Option<f64> {
        let mut all: Vec<f64> = self.cells().iter().filter_map(Cell::spread).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }

    /// The number of cells that were only measured beside other work.
    pub fn disturbed(&self) -> usize {
        self.cells().iter().filter(|cell| cell.is_disturbed).count()
    }

    /// The terms that no cost explains, with the design or the channel.
    pub fn at_bound(&self) -> Vec<String> {
        let name = |fit: &Fit| match fit.term {
            Term::Channel => format!("messages over {}", fit.cell.channel.name()),
            term => format!("{} of {}", term.name(), fit.cell.design),
        };
        // What lines do not explain is a relief.
        let is_relieved = |fit: &&Fit| {
            let of_same = |other: &Fit| other.term == Term::Relief && other.cell == fit.cell;
            fit.term == Term::Sharing && self.fits.iter().any(of_same)
        };
        self.fits.iter().filter(|fit| fit.is_at_bound() && !is_relieved(fit)).map(name).collect()
    }
}

/// The field that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}
