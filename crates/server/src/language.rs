//! Statements of clients: parsed once, compiled for each version of the catalog.

use crate::general;
use crate::incoming::Format;
use crate::outgoing::{Field, Outgoing, RESULT_CHANGED};
use crate::pgtype;
use compiler::Parsed;
use compiler::arrays::Elements;
use compiler::compiled::{self, Compiled, Copied, Copy, Direction, Query, Session};
use compiler::general::{Column as PlanColumn, Plan};
use sql::catalog::{Catalog, Oid};
use sql::{Program, SqlError, SqlState, SqlType};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A statement that is compiled, with what a session reads of it again and again.
pub struct Ready {
    pub compiled: Compiled,
    /// That of a query, or of the insert of a COPY.
    pub program: Option<Arc<Program>>,
    /// Of the parameters that the client gives.
    pub params: Vec<SqlType>,
    /// The columns of the result; `None` if the statement has no rows.
    pub fields: Option<Vec<Field>>,
    /// The message that describes them, all in text form; made when first used.
    described: OnceLock<Vec<u8>>,
    /// Their types.
    pub types: Vec<SqlType>,
    /// The tables that it reads or writes.
    pub tables: Vec<Oid>,
    /// The version of the catalog that it was compiled for.
    pub version: u64,
    /// What carries it out if it has no program.
    pub plan: Option<Arc<dyn Plan>>,
}

impl Ready {
    /// # Errors
    /// Those of the compiler.
    pub fn of(parsed: &Parsed, types: &[Option<SqlType>], catalog: &Arc<Catalog>) -> Result<Ready, SqlError> {
        let compiled = match compiler::compile(catalog, parsed, types) {
            // The compiler knows few functions of the catalogs.
            Err(error) => match general::of_catalogs(catalog, parsed, types)? {
                Some(plan) => return Ok(Ready::general(parsed, plan, catalog)),
                None => return Err(error),
            },
            Ok(Compiled::General { .. }) if parsed.explained().is_some() => {
                return Ready::explained(parsed, types, catalog);
            }
            Ok(Compiled::General { reason, .. }) => {
                let plan = general::plan(catalog, parsed, types, reason)?;
                return Ok(Ready::general(parsed, plan, catalog));
            }
            Ok(Compiled::Explain { inner, .. }) if matches!(*inner, Compiled::General { .. }) => {
                return Ready::explained(parsed, types, catalog);
            }
            Ok(Compiled::Copy(copy)) if matches!(copy.what, Copied::General(..)) => {
                return Ready::copied_by_plan(copy, catalog);
            }
            Ok(compiled) => compiled,
        };
        let query = match &compiled {
            Compiled::Query(query) => Some(query),
            Compiled::Copy(copy) => copied(copy),
            Compiled::Explain { inner, .. } => match inner.as_ref() {
                Compiled::Query(query) => Some(query),
                _ => None,
            },
            _ => None,
        };
        let tables = query.map_or(Vec::new(), |query| {
            let mut tables: Vec<Oid> = query.reads.iter().chain(&query.writes).copied().collect();
            tables.sort_unstable();
            tables.dedup();
            tables
        });
        let columns = columns(&compiled);
        Ok(Ready {
            program: query.map(|query| Arc::clone(&query.program)),
            params: match &compiled {
                Compiled::Query(query) => query.params.clone(),
                Compiled::Declare { query, .. } => match query.as_ref() {
                    Compiled::Query(query) => query.params.clone(),
                    _ => Vec::new(),
                },
                Compiled::Explain { .. } => query.map_or(Vec::new(), |query| query.params.clone()),
                _ => Vec::new(),
            },
            types: columns.iter().flatten().map(|(_, ty, _)| *ty).collect(),
            fields: columns.map(|columns| {
                columns.iter().map(|(name, ty, column)| pgtype::field(name, *ty, *column)).collect()
            }),
            described: OnceLock::new(),
            tables,
            version: catalog.version,
            plan: None,
            compiled,
        })
    }

    /// `EXPLAIN` of a statement that a plan carries out.
    fn explained(
        parsed: &Parsed,
        types: &[Option<SqlType>],
        catalog: &Arc<Catalog>,
    ) -> Result<Ready, SqlError> {
        let Some((analyze, inner)) = parsed.explained() else {
            return Err(SqlError::new(SqlState::INTERNAL, "EXPLAIN without a statement"));
        };
        let mut ready = Ready::of(inner, types, catalog)?;
        let inner = Compiled::General { text: String::new(), reason: "" };
        let inner = Box::new(std::mem::replace(&mut ready.compiled, inner));
        ready.compiled = Compiled::Explain { analyze, inner };
        ready.fields = Some(vec![pgtype::field("QUERY PLAN", SqlType::Text, None)]);
        ready.types = vec![SqlType::Text];
        Ok(ready)
    }

    /// A COPY of a query that a plan carries out.
    fn copied_by_plan(copy: Copy, catalog: &Arc<Catalog>) -> Result<Ready, SqlError> {
        let Copied::General(inner, reason) = &copy.what else {
            return Err(SqlError::new(SqlState::INTERNAL, "COPY without a query"));
        };
        let plan = general::plan(catalog, inner, &[], reason)?;
        let ready = Ready::general(inner, plan, catalog);
        Ok(Ready { compiled: Compiled::Copy(copy), fields: None, described: OnceLock::new(), ..ready })
    }

    /// A statement that a plan carries out.
    fn general(parsed: &Parsed, plan: Arc<dyn Plan>, catalog: &Catalog) -> Ready {
        let field = |column: &PlanColumn| {
            let mut field = pgtype::field(&column.field.name, column.field.ty, column.field.column);
            if let Some(number) = column.number {
                (field.ty, field.size) = (number, -1);
            }
            field
        };
        Ready {
            compiled: Compiled::General { text: parsed.text().to_owned(), reason: "" },
            program: None,
            params: plan.params().to_vec(),
            fields: match plan.each() {
                Some(each) if each.output.is_empty() => None,
                _ => Some(plan.columns().iter().map(field).collect()),
            },
            described: OnceLock::new(),
            types: plan.columns().iter().map(|column| column.field.ty).collect(),
            tables: plan.tables().to_vec(),
            version: catalog.version,
            plan: Some(plan),
        }
    }

    /// The message that describes its columns, which are `fields`, all in text form.
    pub fn described(&self, fields: &[Field]) -> &[u8] {
        self.described.get_or_init(|| {
            let mut out = Outgoing::default();
            out.row_description(fields, &[]);
            out.bytes
        })
    }

    /// Whether the client gets data from it, or sends data to it, by COPY.
    pub fn is_copy(&self) -> bool {
        matches!(self.compiled, Compiled::Copy(_))
    }

    /// Whether it may run in a failed transaction: it ends the failure.
    pub fn ends_failure(&self) -> bool {
        matches!(
            self.compiled,
            Compiled::Session(Session::Rollback { .. } | Session::Commit { .. } | Session::RollbackTo(_))
        )
    }
}

/// The query of a COPY, if it is a program.
pub fn copied(copy: &Copy) -> Option<&Query> {
    match &copy.what {
        Copied::Table { insert, .. } => Some(insert),
        Copied::Query(query) => Some(query),
        Copied::General(..) => None,
    }
}

type Column = (String, SqlType, Option<(Oid, u16)>);

fn columns(compiled: &Compiled) -> Option<Vec<Column>> {
    let text = |name: &str| (name.to_owned(), SqlType::Text, None);
    match compiled {
        Compiled::Query(query) if !query.output.is_empty() || is_select(query) => {
            Some(query.output.iter().map(|field| (field.name.clone(), field.ty, field.column)).collect())
        }
        Compiled::Session(Session::Show(name)) => Some(vec![text(crate::settings::Settings::name_of(name))]),
        Compiled::Session(Session::SetConfig { .. }) => Some(vec![text("set_config")]),
        Compiled::Session(Session::ShowAll) => Some(vec![text("name"), text("setting"), text("description")]),
        Compiled::Explain { .. } => Some(vec![text("QUERY PLAN")]),
        // Only its types are read: those of the rows that the client gets.
        Compiled::Copy(Copy { what: Copied::Query(query), direction: Direction::ToClient, .. }) => {
            Some(query.output.iter().map(|field| (field.name.clone(), field.ty, None)).collect())
        }
        _ => None,
    }
}

fn is_select(query: &Query) -> bool {
    matches!(query.tag, compiled::Tag::Select)
}

/// A statement under a name, or the unnamed one.
pub struct Prepared {
    /// `None` for an empty text.
    parsed: Option<Parsed>,
    types: Vec<Option<SqlType>>,
    ready: Mutex<Option<Arc<Ready>>>,
    /// Whether the client has been told the columns: they must stay.
    fields: Option<Vec<Field>>,
}

impl Prepared {
    /// # Errors
    /// Those of the compiler; 42601 for a text with several statements.
    pub fn new(
        text: &str,
        types: Vec<Option<SqlType>>,
        catalog: &Arc<Catalog>,
    ) -> Result<Prepared, SqlError> {
        let mut parsed = compiler::parse(text)?;
        if parsed.len() > 1 {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        Prepared::of(parsed.pop(), types, catalog)
    }

    /// # Errors
    /// Those of the compiler.
    pub fn of(
        parsed: Option<Parsed>,
        types: Vec<Option<SqlType>>,
        catalog: &Arc<Catalog>,
    ) -> Result<Prepared, SqlError> {
        let ready = parsed.as_ref().map(|parsed| Ready::of(parsed, &types, catalog)).transpose()?;
        let fields = ready.as_ref().and_then(|ready| ready.fields.clone());
        Ok(Prepared { parsed, types, ready: Mutex::new(ready.map(Arc::new)), fields })
    }

    pub fn parsed(&self) -> Option<&Parsed> {
        self.parsed.as_ref()
    }

    pub fn text_bytes(&self) -> usize {
        self.parsed.as_ref().map_or(0, |parsed| parsed.text().len())
    }

    /// The parameters that are arrays, from 0.
    pub fn arrays(&self) -> &[usize] {
        self.parsed.as_ref().map_or(&[], Parsed::arrays)
    }

    /// The statement for these arrays; `ready` is this one, compiled.
    ///
    /// # Errors
    /// Those of the compiler.
    pub fn with_arrays(
        &self,
        ready: &Ready,
        of: &dyn Fn(usize) -> (Option<Elements>, SqlType),
        catalog: &Arc<Catalog>,
    ) -> Result<Prepared, SqlError> {
        let parsed = self.parsed.as_ref().map(|parsed| parsed.with_arrays(of)).transpose()?;
        Prepared::of(parsed, ready.params.iter().map(|ty| Some(*ty)).collect(), catalog)
    }

    /// As compiled for this catalog; `None` for an empty text. If `keeps` it is kept: so the
    /// catalog must be one that other sessions know too.
    ///
    /// # Errors
    /// Those of the compiler; 0A000 if the columns of the result have changed.
    pub fn ready(&self, catalog: &Arc<Catalog>, keeps: bool) -> Result<Option<Arc<Ready>>, SqlError> {
        let Some(parsed) = &self.parsed else { return Ok(None) };
        if keeps && let Some(ready) = self.kept_for(catalog.version) {
            return Ok(Some(ready));
        }
        let ready = Arc::new(Ready::of(parsed, &self.types, catalog)?);
        let is_same = match (&ready.fields, &self.fields) {
            (Some(new), Some(old)) => {
                new.len() == old.len() && new.iter().zip(old).all(|(new, old)| new.looks_like(old))
            }
            (new, old) => new.is_none() && old.is_none(),
        };
        if !is_same {
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, RESULT_CHANGED)
                .with_hint("Prepare the statement again."));
        }
        if keeps {
            *self.kept() = Some(Arc::clone(&ready));
        }
        Ok(Some(ready))
    }

    /// As compiled for the catalog of this version, if that is kept.
    pub fn kept_for(&self, version: u64) -> Option<Arc<Ready>> {
        self.kept().as_ref().filter(|ready| ready.version == version).map(Arc::clone)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Arc<Ready>>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Statements that clients prepare again and again: by text and types of parameters.
#[derive(Default)]
pub struct Cache {
    statements: Mutex<HashMap<Key, Arc<Prepared>>>,
}

type Key = (String, Vec<Option<SqlType>>);

/// Statements in the cache, and the longest text of one.
const MOST_STATEMENTS: usize = 2000;
const MOST_TEXT_BYTES: usize = 20_000;

impl Cache {
    /// # Errors
    /// As [`Prepared::new`].
    pub fn prepare(
        &self,
        text: &str,
        types: Vec<Option<SqlType>>,
        catalog: &Arc<Catalog>,
    ) -> Result<Arc<Prepared>, SqlError> {
        let key = (text.to_owned(), types);
        if let Some(prepared) = self.lock().get(&key) {
            return Ok(Arc::clone(prepared));
        }
        let prepared = Arc::new(Prepared::new(text, key.1.clone(), catalog)?);
        if text.len() <= MOST_TEXT_BYTES {
            let mut statements = self.lock();
            // Statements in use come back at once; the rest is gone.
            if statements.len() >= MOST_STATEMENTS {
                statements.clear();
            }
            statements.insert(key, Arc::clone(&prepared));
        }
        Ok(prepared)
    }

    /// Forgets all: after a change of the catalog a text may have other parameters or columns.
    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Arc<Prepared>>> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The format of a COPY, for its announcement.
pub fn copy_format(copy: &Copy) -> Format {
    match copy.options.format {
        compiled::CopyFormat::Binary => Format::Binary,
        compiled::CopyFormat::Text | compiled::CopyFormat::Csv => Format::Text,
    }
}
