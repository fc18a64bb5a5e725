//! Selects: joined rows, groups, windows, output.

use crate::row::{Frame, Row, Tuple, tuple_size};
use crate::run::Run;
use compiler::tree::{Distinct, Place, Select};
use sql::{Datum, SqlError};

/// A row of the output before its values are computed: a joined row, or a group's first one with
/// its aggregates.
pub struct Candidate {
    pub tuple: Tuple,
    pub aggregates: Vec<Datum>,
}

/// A select, and the row around it.
#[derive(Clone, Copy)]
pub struct At<'f, 'r> {
    pub select: &'r Select,
    pub places: &'r [Place],
    pub outer: Option<&'f Frame<'f, 'r>>,
}

impl<'f, 'r> At<'f, 'r> {
    /// What an expression over a joined row sees.
    pub fn frame<'t>(&'t self, run: &'t Run<'r>, tuple: &'t [Option<Row>]) -> Frame<'t, 'r>
    where
        'f: 't,
    {
        Frame { run, places: self.places, tuple, aggregates: &[], windows: &[], parent: self.outer }
    }

    /// What an expression over a row of the output sees.
    pub fn candidate<'t>(&'t self, run: &'t Run<'r>, candidate: &'t Candidate) -> Frame<'t, 'r>
    where
        'f: 't,
    {
        Frame { aggregates: &candidate.aggregates, ..self.frame(run, &candidate.tuple) }
    }

    /// A joined row without rows.
    pub fn empty(&self) -> Tuple {
        vec![None; self.select.relations].into()
    }
}

impl<'r> Run<'r> {
    pub fn select(&self, select: &'r Select, outer: Option<&Frame<'_, 'r>>) -> Result<Vec<Row>, SqlError> {
        let places = self.tree.places.get(select.places).map_or(&[][..], Vec::as_slice);
        let at = At { select, places, outer };
        let tuples = match &select.from {
            Some(node) => self.node(node, &at, &at.empty())?,
            None => vec![at.empty()],
        };
        let mut candidates = match &select.grouping {
            Some(grouping) => self.groups(grouping, tuples, &at)?,
            None => tuples.into_iter().map(|tuple| Candidate { tuple, aggregates: Vec::new() }).collect(),
        };
        if let Some(having) = &select.having {
            let mut kept = Vec::with_capacity(candidates.len());
            for candidate in candidates {
                if self.hold([having], &at.candidate(self, &candidate))? {
                    kept.push(candidate);
                }
            }
            candidates = kept;
        }
        let windows = self.windows(&select.windows, &candidates, &at)?;
        let mut rows = Vec::with_capacity(candidates.len());
        for (number, candidate) in candidates.iter().enumerate() {
            let windows = windows.get(number).map_or(&[][..], Vec::as_slice);
            let frame = Frame { windows, ..at.candidate(self, candidate) };
            rows.push(self.made(self.all(&select.items, &frame)?)?);
        }
        if select.distinct == Distinct::Rows {
            self.distinct(&mut rows)?;
        }
        Ok(rows)
    }

    /// Counts a new joined row.
    pub fn joined(&self, tuple: Tuple) -> Result<Tuple, SqlError> {
        self.step()?;
        self.takes(tuple_size(&tuple))?;
        Ok(tuple)
    }
}
