//! Statements that depend on each other, in phases.

use sql::catalog::Oid;
use sql::program::{Flow, FlowResult, Given, GivenValue, Statement};
use std::collections::BTreeSet;

/// A statement among others.
pub struct Unit {
    pub statement: Statement,
    pub reads: Vec<Oid>,
    pub writes: Vec<Oid>,
    /// The parameters of which it needs values.
    pub uses: BTreeSet<u16>,
    /// The parameters in which it leaves values.
    pub gives: Vec<(GivenValue, u16)>,
}

impl Unit {
    /// Whether it must run after `before`, which stands before it in the text.
    pub fn follows(&self, before: &Unit) -> bool {
        self.values_of(before).next().is_some() || self.tables_of(before).next().is_some()
    }

    /// The parameters of which it needs the values that `before` gives.
    pub fn values_of<'u>(&'u self, before: &'u Unit) -> impl Iterator<Item = u16> + 'u {
        before.gives.iter().map(|(_, param)| *param).filter(|param| self.uses.contains(param))
    }

    /// The tables of both that one of them writes.
    pub fn tables_of<'u>(&'u self, before: &'u Unit) -> impl Iterator<Item = Oid> + 'u {
        let written =
            before.writes.iter().filter(|oid| self.writes.contains(oid) || self.reads.contains(oid));
        let read = before.reads.iter().filter(|oid| self.writes.contains(oid));
        written.chain(read).copied()
    }
}

/// The phases of statements in the order of the text, each as early as it can be.
pub fn phases(units: &[Unit]) -> Vec<Vec<u16>> {
    let mut levels: Vec<usize> = Vec::with_capacity(units.len());
    let mut phases: Vec<Vec<u16>> = Vec::new();
    for (at, unit) in units.iter().enumerate() {
        let before = units[..at].iter().zip(&levels).filter(|(before, _)| unit.follows(before));
        let level = before.map(|(_, level)| level + 1).max().unwrap_or(0);
        levels.push(level);
        if phases.len() <= level {
            phases.resize(level + 1, Vec::new());
        }
        phases[level].push(at as u16);
    }
    phases
}

/// The flow of some statements.
pub fn flow(units: &[Unit], result: FlowResult) -> Flow {
    let given = units.iter().zip(0_u16..).flat_map(|(unit, statement)| {
        unit.gives.iter().map(move |&(what, param)| Given { statement, what, param })
    });
    Flow { phases: phases(units), given: given.collect(), result }
}

/// What a statement needs of a sub-query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The value of its only column and row.
    Value,
    /// Whether it has rows.
    Existence,
}
