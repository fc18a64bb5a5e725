//! `CREATE TYPE ... AS ENUM`, `ALTER TYPE` and `DROP TYPE`.
//!
//! A column's type has the labels with it, so a change of the labels changes each column, parameter
//! and view that has the type. Stored rows stay as they are ([`sql::enumeration`]).

use super::{Changing, plain, shown};
use crate::error::DEPENDENT_OBJECTS;
use crate::names::{Relation, Scope, folded};
use crate::tables::stored;
use crate::types;
use sql::catalog::{Catalog, ColumnDefault, Oid, Procedure, ProcedureKind, Table};
use sql::enumeration::{Definition, Position};
use sql::{Datum, Element, Enum, Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::{
    AlterType, AlterTypeAddValuePosition, AlterTypeOperation, Ident, ObjectName,
    UserDefinedTypeRepresentation,
};
use std::sync::Arc;

const DUPLICATE_OBJECT: SqlState = SqlState(*b"42710");

impl Changing {
    pub fn create_type(
        &mut self,
        name: &ObjectName,
        representation: Option<&UserDefinedTypeRepresentation>,
    ) -> Result<&'static str, SqlError> {
        let Some(UserDefinedTypeRepresentation::Enum { labels }) = representation else {
            let hint = "Use an enumeration (CREATE TYPE ... AS ENUM), columns of their own, or jsonb.";
            return Err(SqlError::unsupported("a composite, range or base type", Some(hint)));
        };
        let name = super::name(name)?;
        self.refuse_taken(&name)?;
        let (oid, array) = (self.oid(), self.oid());
        let mut definition = Definition::new(oid, array, name);
        for label in labels.iter().map(text) {
            if definition.code(label).is_some() {
                let message = "duplicate key value violates unique constraint \"pg_enum_typid_label_index\"";
                let detail = format!("Key (enumtypid, enumlabel)=({}, {label}) already exists.", oid.0);
                return Err(SqlError::new(SqlState::UNIQUE_VIOLATION, message).with_detail(detail));
            }
            definition.add(label, Position::Last)?;
        }
        self.change.changed.insert(oid);
        self.change.catalog.types.insert(oid, definition);
        Ok("CREATE TYPE")
    }

    fn refuse_taken(&self, name: &str) -> Result<(), SqlError> {
        let is_of_array =
            |known: &Definition| name.strip_prefix('_').is_some_and(|element| element == known.name);
        let catalog = &self.change.catalog;
        let is_relation = catalog.table(name).is_some() || catalog.view(name).is_some();
        if is_relation || catalog.types.values().any(|known| known.name == name || is_of_array(known)) {
            return Err(SqlError::new(DUPLICATE_OBJECT, format!("type \"{name}\" already exists")));
        }
        Ok(())
    }

    /// A relation has a type of its name in PostgreSQL.
    pub fn refuse_type_name(&self, name: &str) -> Result<(), SqlError> {
        if self.change.catalog.enumeration(name).is_none() {
            return Ok(());
        }
        let hint = "A relation has an associated type of the same name, so you must use a name that doesn't conflict \
                    with any existing type.";
        Err(SqlError::new(DUPLICATE_OBJECT, format!("type \"{name}\" already exists")).with_hint(hint))
    }

    pub fn alter_type(&mut self, alter: &AlterType) -> Result<&'static str, SqlError> {
        const TAG: &str = "ALTER TYPE";
        let name = super::name(&alter.name)?;
        let mut definition = self.change.catalog.enumeration(&name).cloned().ok_or_else(|| no_type(&name))?;
        match &alter.operation {
            AlterTypeOperation::Rename(rename) => {
                let to = folded(&rename.new_name);
                self.refuse_taken(&to)?;
                definition.name = to;
            }
            AlterTypeOperation::AddValue(add) => {
                let label = text(&add.value);
                if add.if_not_exists && definition.code(label).is_some() {
                    let notice = format!("enum label \"{label}\" already exists, skipping");
                    self.change.notices.push(notice);
                    return Ok(TAG);
                }
                let position = match &add.position {
                    None => Position::Last,
                    Some(AlterTypeAddValuePosition::Before(label)) => Position::Before(text(label)),
                    Some(AlterTypeAddValuePosition::After(label)) => Position::After(text(label)),
                };
                definition.add(label, position)?;
            }
            AlterTypeOperation::RenameValue(rename) => {
                let (from, to) = (text(&rename.from), text(&rename.to));
                if self.has_arrays(&definition) {
                    let hint = "Add a label, and UPDATE the rows.";
                    let what = "RENAME VALUE of a type of which a column has arrays";
                    return Err(SqlError::unsupported(what, Some(hint)));
                }
                definition.rename(from, to)?;
            }
        }
        self.renew(definition)?;
        Ok(TAG)
    }

    fn has_arrays(&self, definition: &Definition) -> bool {
        let arrays = SqlType::Array(Element::Enum(Enum::of(definition)));
        let mut columns = self.change.catalog.tables.values().flat_map(|table| &table.columns);
        columns.any(|column| !column.dropped && column.ty == arrays)
    }

    /// Gives all that has the type its new definition. Expressions that are kept as text are
    /// compiled anew.
    fn renew(&mut self, definition: Definition) -> Result<(), SqlError> {
        let new = Enum::of(&definition);
        let other = |ty: SqlType| match ty {
            SqlType::Enum(known) if known == new => SqlType::Enum(new),
            SqlType::Array(Element::Enum(known)) if known == new => SqlType::Array(Element::Enum(new)),
            ty => ty,
        };
        self.change.changed.insert(definition.oid);
        self.change.catalog.types.insert(definition.oid, definition);
        let tables = self.change.catalog.tables.values();
        let users: Vec<Oid> = tables.filter(|table| has_type(table, new)).map(|table| table.oid).collect();
        for oid in users {
            let table = self.table_mut(oid)?;
            table.columns.iter_mut().for_each(|column| column.ty = other(column.ty));
            self.compile_anew(oid, new)?;
        }
        let routines = self.change.catalog.procedures.values();
        let routines = routines.filter(|routine| names_type(routine, new)).map(|routine| routine.oid);
        for oid in routines.collect::<Vec<_>>() {
            self.change.changed.insert(oid);
            let Some(routine) = self.change.catalog.procedures.get_mut(&oid) else { continue };
            routine.params.iter_mut().for_each(|param| param.ty = other(param.ty));
            if let ProcedureKind::Function(Some(ty)) = &mut routine.kind {
                *ty = other(*ty);
            }
        }
        self.check_all(&self.change.catalog.clone(), new)
    }

    /// The checks of a table, and its defaults of the type.
    fn compile_anew(&mut self, oid: Oid, new: Enum) -> Result<(), SqlError> {
        let table = self.table_at(oid)?.clone();
        let scope = Scope::one(Relation::of_table(&table, Arc::new(stored(&table)), table.name.clone(), 0));
        let mut checks = table.checks;
        for check in &mut checks {
            let expr = crate::reading::expression(&check.text)?;
            let mut compiler = crate::expressions::Compiler::new(&self.change.catalog, Default::default());
            check.condition = compiler.condition(&scope, &expr, "CHECK").map_err(plain).map_err(|error| {
                needed(new, &format!("check {} of table {}", check.name, table.name), &error)
            })?;
        }
        let table = self.table_mut(oid)?;
        table.checks = checks;
        for column in &mut table.columns {
            // A literal's text follows its label.
            if let (SqlType::Enum(_), Some(ColumnDefault::Expr(Expr::Const(Datum::Int(code)), text))) =
                (column.ty, &mut column.default)
                && column.ty == SqlType::Enum(new)
            {
                *text = format!("'{}'", new.text(*code).unwrap_or_default().replace('\'', "''"));
            }
        }
        Ok(())
    }

    /// Refuses a change after which the text of a view or a body has no meaning any more.
    fn check_all(&self, after: &Catalog, of: Enum) -> Result<(), SqlError> {
        for routine in after.procedures.values() {
            if let Err(error) = checked(after, routine)
                && checked(&self.before, routine).is_ok()
            {
                return Err(needed(of, &shown(routine), &error));
            }
        }
        Ok(())
    }

    /// Whether there was a type of this name.
    pub fn drop_type(&mut self, name: &str, cascade: bool) -> Result<bool, SqlError> {
        let Some(definition) = self.change.catalog.enumeration(name).cloned() else { return Ok(false) };
        let of = Enum::of(&definition);
        let mut after = self.change.catalog.clone();
        after.types.remove(&definition.oid);
        let routines = self.change.catalog.procedures.values().filter(|routine| {
            let fails =
                || checked(&after, routine).is_err() && checked(&self.change.catalog, routine).is_ok();
            names_type(routine, of) || fails()
        });
        let routines: Vec<(Oid, String)> = routines.map(|routine| (routine.oid, shown(routine))).collect();
        let tables = self.change.catalog.tables.values();
        let columns = tables.flat_map(|table| table.visible().map(move |(_, column)| (table, column)));
        let columns = columns.filter(|(_, column)| is_of(column.ty, of));
        let columns: Vec<(Oid, String, String)> =
            columns.map(|(table, column)| (table.oid, table.name.clone(), column.name.clone())).collect();
        if !cascade {
            let column =
                columns.first().map(|(_, table, column)| format!("column {column} of table {table}"));
            if let Some(user) = column.or_else(|| routines.first().map(|(_, shown)| shown.clone())) {
                let message = format!(
                    "cannot drop type {} because other objects depend on it",
                    types::quoted(&definition.name)
                );
                return Err(SqlError::new(DEPENDENT_OBJECTS, message)
                    .with_detail(format!("{user} depends on type {}", types::quoted(&definition.name)))
                    .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
            }
        }
        for (oid, shown) in routines {
            self.remove_procedure(oid);
            self.change.notices.push(format!("drop cascades to {shown}"));
        }
        for (oid, table, column) in columns {
            self.drop_column(oid, &column, false, true)?;
            self.change.notices.push(format!("drop cascades to column {column} of table {table}"));
        }
        // Rows keep the places of dropped columns, by their types.
        self.change.catalog.types.remove(&definition.oid);
        self.change.removed.insert(definition.oid);
        Ok(true)
    }
}

/// The text of a label.
fn text(ident: &Ident) -> &str {
    &ident.value
}

fn no_type(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

fn is_of(ty: SqlType, of: Enum) -> bool {
    ty == SqlType::Enum(of) || ty == SqlType::Array(Element::Enum(of))
}

fn has_type(table: &Table, of: Enum) -> bool {
    table.columns.iter().any(|column| is_of(column.ty, of))
}

/// Whether a parameter, a column of a view or the result has the type.
fn names_type(routine: &Procedure, of: Enum) -> bool {
    let result = match routine.kind {
        ProcedureKind::Function(Some(ty)) => is_of(ty, of),
        _ => false,
    };
    result || routine.params.iter().any(|param| is_of(param.ty, of))
}

/// Whether the text of a view or a body still means something.
fn checked(catalog: &Catalog, routine: &Procedure) -> Result<(), SqlError> {
    if routine.is_view() {
        return crate::views::check(catalog, routine).map(|_| ());
    }
    crate::procedures::body_of(catalog, routine).map(|_| ()).map_err(plain)
}

fn needed(of: Enum, what: &str, error: &SqlError) -> SqlError {
    let message = format!("cannot change type {} because {what} depends on it", types::quoted(&of.name));
    SqlError::new(DEPENDENT_OBJECTS, message)
        .with_detail(format!("Its text would fail: {}", error.message))
        .with_hint("Drop or replace it first.")
}
