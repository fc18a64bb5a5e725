//! `CREATE SEQUENCE`, `ALTER SEQUENCE`.

use super::{Changing, Task};
use crate::coerce::Params;
use crate::error::{no_column, no_table};
use crate::expressions::Compiler;
use crate::names::{Scope, parts};
use crate::sequence_text::SequenceChange;
use sql::catalog::{Catalog, Oid, Sequence};
use sql::{Datum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{self, SequenceOptions, Statement};

/// The least and the greatest number of an integer type.
fn bounds(ty: SqlType) -> (i64, i64) {
    match ty {
        SqlType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        SqlType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// A sequence of 1, 2, 3 and so on.
pub fn fresh(oid: Oid, name: String, ty: SqlType) -> Sequence {
    let max = bounds(ty).1;
    Sequence { oid, name, ty, start: 1, increment: 1, min: 1, max, cycle: false, owned_by: None }
}

/// The options of a new sequence.
pub fn configure(sequence: &mut Sequence, options: &[SequenceOptions]) -> Result<(), SqlError> {
    let mut change = SequenceChange::default();
    for option in options {
        match option {
            SequenceOptions::IncrementBy(value, _) => change.increment = Some(integer(value)?),
            SequenceOptions::MinValue(value) => change.min = Some(value.as_ref().map(integer).transpose()?),
            SequenceOptions::MaxValue(value) => change.max = Some(value.as_ref().map(integer).transpose()?),
            SequenceOptions::StartWith(value, _) => change.start = Some(integer(value)?),
            // The server takes numbers in blocks of its own.
            SequenceOptions::Cache(_) => {}
            SequenceOptions::Cycle(no) => change.cycle = Some(!*no),
        }
    }
    let has_start = change.start.is_some();
    apply(sequence, &change)?;
    if !has_start {
        sequence.start = if sequence.increment > 0 { sequence.min } else { sequence.max };
    }
    check(sequence)
}

fn apply(sequence: &mut Sequence, change: &SequenceChange) -> Result<(), SqlError> {
    let (least, greatest) = bounds(sequence.ty);
    if let Some(increment) = change.increment {
        let turns = (increment > 0) != (sequence.increment > 0);
        sequence.increment = increment;
        if turns {
            (sequence.min, sequence.max) = if increment > 0 { (1, greatest) } else { (least, -1) };
        }
    }
    let ascends = sequence.increment > 0;
    if let Some(min) = change.min {
        sequence.min = min.unwrap_or(if ascends { 1 } else { least });
    }
    if let Some(max) = change.max {
        sequence.max = max.unwrap_or(if ascends { greatest } else { -1 });
    }
    if let Some(start) = change.start {
        sequence.start = start;
    }
    if let Some(cycle) = change.cycle {
        sequence.cycle = cycle;
    }
    Ok(())
}

fn check(sequence: &Sequence) -> Result<(), SqlError> {
    let wrong = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
    let (least, greatest) = bounds(sequence.ty);
    if sequence.increment == 0 {
        return wrong("INCREMENT must not be zero".into());
    }
    if sequence.min < least || sequence.max > greatest || sequence.min >= sequence.max {
        return wrong(format!("MINVALUE ({}) must be less than MAXVALUE ({})", sequence.min, sequence.max));
    }
    if !(sequence.min..=sequence.max).contains(&sequence.start) {
        return wrong(format!(
            "START value ({}) must be from MINVALUE ({}) to MAXVALUE ({})",
            sequence.start, sequence.min, sequence.max
        ));
    }
    Ok(())
}

fn integer(expr: &ast::Expr) -> Result<i64, SqlError> {
    let catalog = Catalog::default();
    let mut compiler = Compiler::new(&catalog, Params::default());
    match compiler.expr(&Scope::default(), expr).map_err(super::plain)?.expr {
        Expr::Const(Datum::Int(number)) => Ok(number),
        _ => Err(crate::error::syntax("an option of a sequence is an integer")),
    }
}

impl Changing {
    pub fn create_sequence(&mut self, statement: &Statement) -> Result<&'static str, SqlError> {
        const TAG: &str = "CREATE SEQUENCE";
        let Statement::CreateSequence {
            temporary,
            if_not_exists,
            name,
            data_type,
            sequence_options,
            owned_by,
        } = statement
        else {
            return Ok(TAG);
        };
        if *temporary {
            return Err(SqlError::unsupported("a temporary sequence", None));
        }
        let name = super::name(name)?;
        if self.is_taken(&name) {
            if *if_not_exists {
                self.change.notices.push(format!("relation \"{name}\" already exists, skipping"));
                return Ok(TAG);
            }
            return Err(super::taken(&name));
        }
        let resolved = |ty| crate::types::resolve(&self.change.catalog, ty);
        let ty = data_type.as_ref().map_or(Ok(SqlType::Int8), resolved)?;
        if !crate::types::is_integer(ty) {
            let message = "sequence type must be smallint, integer, or bigint";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
        }
        let mut sequence = fresh(self.oid(), name, ty);
        configure(&mut sequence, sequence_options)?;
        if let Some(owner) = owned_by {
            let mut owner = parts(owner);
            let column = owner.pop().unwrap_or_default();
            let table = owner.pop();
            sequence.owned_by = table.map(|table| self.owner(&table, &column)).transpose()?;
        }
        self.change.changed.insert(sequence.oid);
        self.change.catalog.sequences.insert(sequence.oid, sequence);
        Ok(TAG)
    }

    fn owner(&self, table: &str, column: &str) -> Result<(Oid, u16), SqlError> {
        let table = self.table_named(table)?;
        let (position, _) = table.column(column).ok_or_else(|| no_column(column))?;
        Ok((table.oid, position))
    }

    pub fn alter_sequence(&mut self, change: &SequenceChange) -> Result<&'static str, SqlError> {
        const TAG: &str = "ALTER SEQUENCE";
        let Some(found) = self.change.catalog.sequence(&change.name) else {
            if change.if_exists {
                self.change.notices.push(format!("relation \"{}\" does not exist, skipping", change.name));
                return Ok(TAG);
            }
            return Err(no_table(&change.name));
        };
        let mut sequence = found.clone();
        apply(&mut sequence, change)?;
        check(&sequence)?;
        if let Some(name) = &change.rename {
            if self.is_taken(name) {
                return Err(super::taken(name));
            }
            sequence.name.clone_from(name);
        }
        if let Some(owner) = &change.owned_by {
            sequence.owned_by =
                owner.as_ref().map(|(table, column)| self.owner(table, column)).transpose()?;
        }
        if let Some(restart) = change.restart {
            let next = restart.unwrap_or(sequence.start);
            if !(sequence.min..=sequence.max).contains(&next) {
                let message =
                    format!("RESTART value ({next}) must be from {} to {}", sequence.min, sequence.max);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER, message));
            }
            self.change.tasks.push(Task::SetSequence { sequence: sequence.oid, next });
        }
        self.change.changed.insert(sequence.oid);
        self.change.catalog.sequences.insert(sequence.oid, sequence);
        Ok(TAG)
    }
}
