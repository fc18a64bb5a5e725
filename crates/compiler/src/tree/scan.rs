//! Scans: the programs that read the rows of tables.

use super::{Scan, State};
use crate::Stop;
use crate::expressions::Compiler;
use crate::names::Scope;
use crate::select::over;
use crate::sources::From;
use crate::tables::Cache;
use crate::walk::{all_of, renumber};
use sql::program::{Output, Path, Program, Statement};
use sql::{Expr, SqlType};
use std::sync::Arc;

/// A program for each scan. Columns that the statement does not use are left out, and places name
/// the columns that are there.
pub fn programs(compiler: &Compiler<'_>, state: &mut State, params: &[SqlType]) -> Result<Vec<Scan>, Stop> {
    let mut cache = Cache::default();
    let mut scans = Vec::with_capacity(state.scans.len());
    for wanted in &state.scans {
        let Some(table) = compiler.catalog.tables.get(&wanted.oid) else {
            return Err(Stop::General("a table of this kind"));
        };
        let mut from = From::default();
        from.table(&mut cache, table, None)?;
        let (mut plan, _) = from.plan(all_of(wanted.conditions.clone()), 0, &[], false)?;
        let mut types = params.to_vec();
        let mut in_parts = false;
        if let [only] = plan.sources.as_mut_slice()
            && only.source.path == Path::All
            && let Ok(place) = u16::try_from(types.len())
        {
            only.source.path = Path::Part(Expr::Param(place));
            types.push(SqlType::Bytea);
            in_parts = true;
        }
        let columns: Vec<u16> = wanted.used.iter().copied().collect();
        let output = columns.iter().filter_map(|column| {
            let stored = table.columns.get(usize::from(*column))?;
            let mut expr = Expr::Column(*column);
            plan.place(&mut expr);
            Some(Output { name: stored.name.clone(), expr, ty: stored.ty })
        });
        let output: Vec<Output> = output.collect();
        let select = sql::program::Select { output, ..over(plan) };
        let program = Program {
            statements: vec![Statement::Select(select)],
            params: types,
            only_reads: true,
            flow: None,
        };
        scans.push(Scan { table: table.name.clone(), columns, program: Arc::new(program), in_parts });
    }
    for (places, of) in &mut state.places {
        for place in places {
            let Some(scan) = of[usize::from(place.relation)] else { continue };
            // A column that no expression names is nowhere.
            let at = scans[scan].columns.iter().position(|column| *column == place.column);
            place.column = at.map_or(u16::MAX, |at| at as u16);
        }
    }
    Ok(scans)
}

/// The condition over the columns of one relation of the scope.
pub fn local(scope: &Scope, relation: usize, mut condition: Expr) -> Expr {
    let offset = scope.relations[relation].offset;
    renumber(&mut condition, &|column| column - offset);
    condition
}
