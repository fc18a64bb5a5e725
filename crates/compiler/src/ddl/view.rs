//! `CREATE VIEW` and `DROP VIEW`.

use super::Changing;
use crate::parse::parse;
use crate::views;
use sql::catalog::{Memo, Oid, ParamMode, Procedure, ProcedureKind, ProcedureParam};
use sql::{SqlError, SqlState};
use sqlparser::ast::{self, CreateView};
use std::collections::BTreeSet;

const INVALID_TABLE_DEFINITION: SqlState = SqlState(*b"42P16");

impl Changing {
    pub fn create_view(&mut self, create: &CreateView) -> Result<&'static str, SqlError> {
        const TAG: &str = "CREATE VIEW";
        let kind = match (create.materialized, create.temporary) {
            (true, _) => Some("a materialized view"),
            (_, true) => Some("a temporary view"),
            _ => None,
        };
        if let Some(kind) = kind {
            return Err(SqlError::unsupported(kind, Some("Use a view, or a table.")));
        }
        let name = super::name(&create.name)?;
        let known = self.change.catalog.view(&name).cloned();
        match &known {
            None if self.is_taken(&name) => return Err(super::taken(&name)),
            Some(_) if !create.or_replace => return Err(super::taken(&name)),
            _ => {}
        }
        // A view that names itself finds no such relation.
        if let Some(known) = &known {
            self.change.catalog.procedures.remove(&known.oid);
        }
        let body = renamed(create)?;
        let mut view = Procedure {
            oid: Oid(0),
            name,
            kind: ProcedureKind::View,
            params: Vec::new(),
            body,
            uses: BTreeSet::new(),
            compiled: Memo::default(),
        };
        let tree = views::check(&self.change.catalog, &view)?;
        view.uses = views::uses(&tree);
        view.params = columns(&tree.fields)?;
        if !tree.params.is_empty() {
            return Err(SqlError::new(SqlState(*b"42P02"), "there is no parameter $1"));
        }
        view.oid = match &known {
            Some(known) => {
                still_there(known, &view)?;
                known.oid
            }
            None => self.oid(),
        };
        self.change.changed.insert(view.oid);
        self.change.catalog.procedures.insert(view.oid, view);
        Ok(TAG)
    }

    /// Whether there was a view of this name.
    pub fn drop_view(&mut self, name: &str, cascade: bool) -> Result<bool, SqlError> {
        let Some(oid) = self.change.catalog.view(name).map(|view| view.oid) else { return Ok(false) };
        self.drop_users(&format!("view {name}"), &[oid], cascade)?;
        self.remove_procedure(oid);
        Ok(true)
    }
}

/// The text of the query, with the names of a list for its columns.
fn renamed(create: &CreateView) -> Result<String, SqlError> {
    let mut text = create.query.to_string();
    if !create.columns.is_empty() {
        let names: Vec<String> = create.columns.iter().map(|column| column.name.to_string()).collect();
        let statement = parse(&text)?.pop();
        let query = statement.as_ref().and_then(views::query);
        if query.is_some_and(|query| has_wildcard(&query.body)) {
            return Err(SqlError::unsupported(
                "a list of columns of a view with *",
                Some("Name the columns in the query."),
            ));
        }
        text = format!("SELECT * FROM ({text}) AS v ({})", names.join(", "));
    }
    Ok(text)
}

fn has_wildcard(body: &ast::SetExpr) -> bool {
    let is_wildcard = |item: &ast::SelectItem| {
        matches!(item, ast::SelectItem::Wildcard(_) | ast::SelectItem::QualifiedWildcard(..))
    };
    match body {
        ast::SetExpr::Select(select) => select.projection.iter().any(is_wildcard),
        ast::SetExpr::Query(query) => has_wildcard(&query.body),
        ast::SetExpr::SetOperation { left, right, .. } => has_wildcard(left) || has_wildcard(right),
        _ => false,
    }
}

fn columns(fields: &[crate::compiled::Field]) -> Result<Vec<ProcedureParam>, SqlError> {
    let mut params: Vec<ProcedureParam> = Vec::with_capacity(fields.len());
    for field in fields {
        if params.iter().any(|known| known.name == field.name) {
            let message = format!("column \"{}\" specified more than once", field.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        let (name, ty) = (field.name.clone(), field.ty);
        params.push(ProcedureParam { name, ty, mode: ParamMode::Out, default: None });
    }
    Ok(params)
}

/// A replaced view keeps its columns, and may have more.
fn still_there(known: &Procedure, view: &Procedure) -> Result<(), SqlError> {
    let wrong = |message: String| Err(SqlError::new(INVALID_TABLE_DEFINITION, message));
    if view.params.len() < known.params.len() {
        return wrong("cannot drop columns from view".to_owned());
    }
    for (old, new) in known.params.iter().zip(&view.params) {
        if old.name != new.name {
            return wrong(format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name));
        }
        if old.ty != new.ty {
            let (from, to) = (crate::types::name_of(old.ty), crate::types::name_of(new.ty));
            return wrong(format!(
                "cannot change data type of view column \"{}\" from {from} to {to}",
                old.name
            ));
        }
    }
    Ok(())
}
