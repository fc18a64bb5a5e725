//! Names: how a statement writes them, and what they mean in its scope.

pub use crate::written_names::{folded, parts};

use crate::Stop;
use crate::coerce::Typed;
use crate::error::{no_column, no_table};
use sql::catalog::{Catalog, Oid, Table};
use sql::json::parts::gives_parts;
use sql::program::Stored;
use sql::{Expr, SqlError, SqlState, SqlType};
use sqlparser::ast::ObjectName;
use std::sync::Arc;

/// The name of a table, index or sequence in the only schema.
///
/// # Errors
/// `General` for the system catalogs, `3F000` for other schemas.
pub fn in_public(name: &ObjectName) -> Result<String, Stop> {
    let mut parts = parts(name);
    let last = parts.pop().unwrap_or_default();
    match parts.last().map(String::as_str) {
        None | Some("public") => Ok(last),
        Some("pg_catalog" | "information_schema") => Err(Stop::General("a system catalog")),
        Some(schema) => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(SqlError::new(SqlState(*b"3F000"), message).with_hint("Atoll has one schema, public.").into())
        }
    }
}

/// The table that a statement names.
///
/// # Errors
/// `42P01`, `General` for a view, and those of [`in_public`].
pub fn table<'a>(catalog: &'a Catalog, name: &ObjectName) -> Result<&'a Table, Stop> {
    let name = in_public(name)?;
    match catalog.table(&name) {
        Some(table) => Ok(table),
        None if catalog.view(&name).is_some() => Err(Stop::General("a view")),
        None if name.starts_with("pg_") => Err(Stop::General("a system catalog")),
        None => Err(no_table(&name).into()),
    }
}

/// The rows that the names of an expression stand for: a joined row has the columns of each
/// relation in turn.
#[derive(Clone, Default)]
pub struct Scope {
    pub relations: Vec<Relation>,
    /// Columns that stand for several ones of a name (`USING`), in trees.
    pub merged: Vec<Merged>,
}

/// A column that stands for those of the same name on both sides of a join.
#[derive(Clone)]
pub struct Merged {
    pub name: String,
    pub value: crate::coerce::Typed,
    /// The first relation of the join.
    pub since: usize,
    pub is_open: bool,
}

#[derive(Clone)]
pub struct Relation {
    /// The alias, or the table's name.
    pub name: String,
    /// `None` for rows that are in no table.
    pub oid: Option<Oid>,
    /// Position of its first column in the joined row.
    pub offset: u16,
    pub columns: Vec<Named>,
    pub stored: Arc<Stored>,
    /// Whether its columns have names that stand alone (those of `excluded` do not).
    pub is_open: bool,
    /// In a tree: the scan that gives its rows.
    pub scan: Option<usize>,
}

/// A column that a statement can see.
#[derive(Clone)]
pub struct Named {
    pub name: String,
    pub ty: SqlType,
    /// In the relation's row.
    pub position: u16,
    /// Whether another relation's column of the same name stands for both (`USING`).
    pub is_merged: bool,
    /// What the name stands for, over the joined row, if it is no column of the relation's row.
    pub value: Option<Expr>,
}

/// What a name means in the joined row.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    pub value: Typed,
    /// The table, and the column's number from 1.
    pub origin: Option<(Oid, u16)>,
}

impl Relation {
    pub fn width(&self) -> u16 {
        u16::try_from(self.stored.columns.len()).unwrap_or(u16::MAX)
    }

    pub fn found(&self, column: &Named) -> Found {
        let origin = self.oid.map(|oid| (oid, column.position + 1));
        let plain = || Expr::Column(self.offset + column.position);
        let expr = column.value.clone().unwrap_or_else(plain);
        Found { value: Typed::new(expr, column.ty), origin }
    }

    pub fn of_table(table: &Table, stored: Arc<Stored>, name: String, offset: u16) -> Relation {
        let named = |(position, column): (u16, &sql::catalog::Column)| Named {
            name: column.name.clone(),
            ty: column.ty,
            position,
            is_merged: false,
            value: None,
        };
        let columns = table.visible().map(named).collect();
        Relation { name, oid: Some(table.oid), offset, columns, stored, is_open: true, scan: None }
    }
}

impl Scope {
    pub fn width(&self) -> u16 {
        self.relations.last().map_or(0, |last| last.offset + last.width())
    }

    /// Whether a column has this name, or several have it.
    pub fn has_column(&self, name: &str) -> bool {
        self.merged.iter().any(|merged| merged.name == name)
            || self.column(name).map_or_else(|error| error.state != SqlState::UNDEFINED_COLUMN, |_| true)
    }

    pub fn one(relation: Relation) -> Scope {
        Scope { relations: vec![relation], merged: Vec::new() }
    }

    /// A column by its name alone.
    ///
    /// # Errors
    /// `42703`, `42702`.
    pub fn column(&self, name: &str) -> Result<Found, SqlError> {
        let mut found = self.relations.iter().filter(|relation| relation.is_open).flat_map(|relation| {
            let same = move |column: &&Named| column.name == name && !column.is_merged;
            relation.columns.iter().filter(same).map(|column| relation.found(column))
        });
        let Some(first) = found.next() else { return self.whole(name).ok_or_else(|| no_column(name)) };
        match found.next() {
            None => Ok(first),
            Some(_) => {
                let message = format!("column reference \"{name}\" is ambiguous");
                Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message))
            }
        }
    }

    /// The value of a function that gives one for each row, by the alias of its rows.
    fn whole(&self, name: &str) -> Option<Found> {
        let relation = self.relations.iter().find(|relation| relation.is_open && relation.name == name)?;
        let is_function = relation.oid.is_none() && gives_parts(&relation.stored.name);
        match relation.columns.as_slice() {
            [column] if is_function => Some(relation.found(column)),
            _ => None,
        }
    }

    /// A relation by its alias.
    ///
    /// # Errors
    /// `42P01`.
    pub fn relation(&self, name: &str) -> Result<&Relation, SqlError> {
        self.relations.iter().find(|relation| relation.name == name).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("missing FROM-clause entry for table \"{name}\""),
            )
        })
    }

    /// A column by its relation's alias and its name.
    ///
    /// # Errors
    /// `42P01`, `42703`.
    pub fn column_of(&self, relation: &str, name: &str) -> Result<Found, SqlError> {
        let relation = self.relation(relation)?;
        let column = relation.columns.iter().find(|column| column.name == name);
        let column = column.ok_or_else(|| {
            let message = format!("column {}.{name} does not exist", relation.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, message)
        })?;
        Ok(relation.found(column))
    }
}
