//! `WITH` of which parts write: each part is a tree with a statement for each of its rows, and
//! later parts read the rows that the statements gave.
//!
//! ```text
//!   WITH d AS (DELETE FROM t WHERE a < 5 RETURNING *) INSERT INTO old SELECT * FROM d
//!     part 1:  one row;                     each: DELETE FROM t WHERE a < 5 RETURNING *
//!     last:    SELECT * FROM (rows of 1);   each: INSERT INTO old VALUES ($1, ...)
//! ```
//!
//! In PostgreSQL all parts see the rows from before the statement. So the scans of all trees are
//! run before the first change. A statement that finds its rows by itself, as the one of part 1,
//! may come later only because no other part writes its table. Parts of which the outcome depends
//! on PostgreSQL's order, and foreign keys that hold only at the end of the statement, are refused.

use super::before::Before;
use super::written::{part, told};
use super::{Body, Query, State, Tree, Written, finished, refused};
use crate::Stop;
use crate::coerce::Params;
use crate::compiled::{self, Compiled, Tag};
use crate::error::syntax;
use crate::expressions::Compiler;
use crate::names::{folded, parts};
use crate::parse::{Parsed, writes};
use sql::catalog::{Catalog, Oid, Table};
use sql::{SqlError, SqlType};
use sqlparser::ast::{self, SetExpr, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

/// A statement in parts.
#[derive(Clone, PartialEq, Debug)]
pub struct Staged {
    /// Those of `WITH` that write, in their order.
    pub parts: Vec<Written>,
    pub tree: Tree,
    /// The statement for each row of the tree; the rows are the answer if it only reads.
    pub each: Option<compiled::Query>,
}

/// # Errors
/// PostgreSQL's errors of analysis; `0A000` for what trees lack, and for parts that would have
/// another meaning than in PostgreSQL.
pub fn staged(catalog: &Catalog, parsed: &Parsed, given: &[Option<SqlType>]) -> Result<Staged, SqlError> {
    crate::on_its_stack(catalog, parsed, || bound(catalog, parsed, given))
}

fn bound(catalog: &Catalog, parsed: &Parsed, given: &[Option<SqlType>]) -> Result<Staged, SqlError> {
    let Some(Statement::Query(query)) = parsed.tree() else {
        return Err(refused("a statement of this kind"));
    };
    let Some(with) = &query.with else { return Err(refused("a statement of this kind")) };
    let mut stages = Stages { catalog, types: given.to_vec(), changes: Vec::new() };
    stages.types.resize(parsed.params().max(given.len()), None);
    let (mut before, mut made) = (Before { recursive: with.recursive, ..Before::default() }, Vec::new());
    for (at, table) in with.cte_tables.iter().enumerate() {
        before.tables = &with.cte_tables[..at];
        let Some(statement) = written_in(&table.query)? else { continue };
        let written = stages.part(statement, &before, Place::Inner)?;
        before.given.push(written.each.output.clone());
        made.push(written);
    }
    before.tables = &with.cte_tables;
    let last = match written_in(query)? {
        Some(statement) => {
            let Written { tree, each } = stages.part(statement, &before, Place::Last)?;
            Staged { parts: made, tree, each: Some(each) }
        }
        None => {
            let read = ast::Query { with: None, ..query.as_ref().clone() };
            let tree = reading(catalog, &read, (parsed.params(), &stages.types), &before).map_err(told)?;
            Staged { parts: made, tree, each: None }
        }
    };
    stages.check()?;
    Ok(last)
}

/// The statement that writes, if the query is one.
fn written_in(query: &ast::Query) -> Result<Option<&Statement>, SqlError> {
    if !writes(&query.body) {
        return Ok(None);
    }
    if query.order_by.is_some() || query.limit_clause.is_some() || !query.locks.is_empty() {
        return Err(refused("ORDER BY or LIMIT of a statement that writes"));
    }
    match query.body.as_ref() {
        SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
            Ok(Some(statement))
        }
        _ => Ok(None),
    }
}

/// The tree of the statement after the parts.
fn reading(
    catalog: &Catalog,
    query: &ast::Query,
    (params, given): (usize, &[Option<SqlType>]),
    before: &Before<'_>,
) -> Result<Tree, Stop> {
    let mut compiler = Compiler::new(catalog, Params::new(params, given));
    compiler.tree = Some(State::default());
    before.reach(&mut compiler)?;
    let bound = compiler.tree_query(query)?;
    finished(&mut compiler, bound.query, bound.fields)
}

/// Whether a statement that writes is inside of `WITH`, or after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Inner,
    Last,
}

struct Stages<'c> {
    catalog: &'c Catalog,
    /// The types of the client's parameters that are known so far.
    types: Vec<Option<SqlType>>,
    changes: Vec<Change>,
}

/// The effects of a part on tables.
struct Change {
    tag: Tag,
    /// The table that it names, then those that follow by foreign keys.
    writes: Vec<Oid>,
    /// The columns that an `UPDATE` sets; `None` for all.
    sets: Option<Vec<String>>,
    has_conflict: bool,
}

impl Stages<'_> {
    fn part(
        &mut self,
        statement: &Statement,
        before: &Before<'_>,
        place: Place,
    ) -> Result<Written, SqlError> {
        let text = statement.to_string();
        let types = match place {
            // A parameter that only other parts have takes no part here.
            Place::Inner => self.mentioned(&text, before)?,
            Place::Last => self.types.clone(),
        };
        let written = match self.alone(statement, &text, before, &types)? {
            Some(each) => Written { tree: one_row(&each), each },
            None => part(self.catalog, statement, (types.len(), &types), before)?,
        };
        if written.each.program.flow.is_some() {
            return Err(refused("a sub-query in RETURNING or ON CONFLICT of a part of WITH"));
        }
        for ((known, mentioned), ty) in self.types.iter_mut().zip(types).zip(&written.tree.params) {
            if mentioned.is_none() {
                *known = Some(*ty);
            }
        }
        self.changes.push(Change {
            tag: written.each.tag,
            writes: written.each.writes.clone(),
            sets: sets(statement),
            has_conflict: matches!(statement, Statement::Insert(insert) if insert.on.is_some()),
        });
        Ok(written)
    }

    /// The types of the parameters of a part: those that it does not have are texts to it.
    fn mentioned(&self, text: &str, before: &Before<'_>) -> Result<Vec<Option<SqlType>>, SqlError> {
        let mut all = text.to_owned();
        for table in before.tables.iter().filter(|table| !writes(&table.query.body)) {
            all.push(' ');
            all.push_str(&table.query.to_string());
        }
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, &all).tokenize();
        let tokens = tokens.map_err(|error| syntax(error.message))?;
        let has = |at: usize| {
            let name = format!("${}", at + 1);
            tokens.iter().any(|token| matches!(token, Token::Placeholder(found) if *found == name))
        };
        let types = self.types.iter().enumerate();
        Ok(types.map(|(at, known)| known.or_else(|| (!has(at)).then_some(SqlType::Text))).collect())
    }

    /// A statement that finds its rows by itself, and only in the table that it writes.
    fn alone(
        &self,
        statement: &Statement,
        text: &str,
        before: &Before<'_>,
        types: &[Option<SqlType>],
    ) -> Result<Option<compiled::Query>, SqlError> {
        let is_of_one_table = match statement {
            Statement::Insert(insert) => {
                let is_values =
                    |source: &ast::Query| source.with.is_none() && matches!(*source.body, SetExpr::Values(_));
                insert.source.as_ref().is_none_or(|source| is_values(source))
            }
            Statement::Update(update) => update.from.is_none(),
            Statement::Delete(delete) => delete.using.is_none(),
            _ => false,
        };
        let is_hidden = |table: &ast::Cte| self.catalog.table(&folded(&table.alias.name)).is_some();
        if !is_of_one_table || before.tables.iter().any(is_hidden) {
            return Ok(None);
        }
        let Some(parsed) = crate::parse(text)?.pop() else { return Ok(None) };
        // The tree tells its errors, with all names known.
        match crate::compile(self.catalog, &parsed, types) {
            Ok(Compiled::Query(query)) if query.program.flow.is_none() => Ok(Some(query)),
            _ => Ok(None),
        }
    }

    /// Refuses parts that have another meaning than in PostgreSQL if they run one after another.
    fn check(&self) -> Result<(), SqlError> {
        for (at, later) in self.changes.iter().enumerate() {
            for earlier in &self.changes[..at] {
                let are_inserts =
                    [earlier, later].iter().all(|change| change.tag == Tag::Insert && !change.has_conflict);
                if !are_inserts && earlier.writes.iter().any(|table| later.writes.contains(table)) {
                    return Err(SqlError::unsupported(
                        "WITH of which two parts write the same table",
                        Some("Write it in several statements of a transaction."),
                    ));
                }
                self.check_keys(earlier, later)?;
            }
        }
        Ok(())
    }

    /// Foreign keys hold after each part here, and after all parts in PostgreSQL.
    fn check_keys(&self, earlier: &Change, later: &Change) -> Result<(), SqlError> {
        let of = |change: &Change| change.writes.first().and_then(|table| self.catalog.tables.get(table));
        let (Some(first), Some(second)) = (of(earlier), of(later)) else { return Ok(()) };
        if first.oid == second.oid {
            return Ok(());
        }
        let names = |table: &Table, columns: &[u16]| {
            let name = |column: &u16| table.columns[usize::from(*column)].name.clone();
            columns.iter().map(name).collect::<Vec<_>>()
        };
        for key in first.foreign_keys.iter().filter(|key| key.to == second.oid) {
            let adds = earlier.touches(Tag::Insert, &names(first, &key.columns))
                && later.touches(Tag::Insert, &names(second, &key.to_columns));
            if adds {
                let what = format!("WITH of which rows of \"{}\" refer to those of a later part", first.name);
                return Err(order(&what, &second.name));
            }
        }
        for key in second.foreign_keys.iter().filter(|key| key.to == first.oid) {
            let removes = earlier.touches(Tag::Delete, &names(first, &key.to_columns))
                && later.touches(Tag::Delete, &names(second, &key.columns));
            if removes {
                let what = format!("WITH of which a later part takes references to \"{}\" away", first.name);
                return Err(order(&what, &second.name));
            }
        }
        Ok(())
    }
}

impl Change {
    /// Whether it adds or removes values of these columns.
    fn touches(&self, tag: Tag, columns: &[String]) -> bool {
        let sets = |sets: &Vec<String>| sets.iter().any(|set| columns.contains(set));
        self.tag == tag
            || (self.tag == Tag::Update || self.has_conflict) && self.sets.as_ref().is_none_or(sets)
    }
}

fn order(what: &str, first: &str) -> SqlError {
    SqlError::unsupported(what, Some(&format!("Write the part of \"{first}\" first.")))
}

/// The columns that an `UPDATE` sets; `None` if they are not plain names, or an `INSERT` may set
/// any.
fn sets(statement: &Statement) -> Option<Vec<String>> {
    match statement {
        Statement::Update(update) => {
            let name = |assignment: &ast::Assignment| match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => parts(name).pop(),
                ast::AssignmentTarget::Tuple(_) => None,
            };
            update.assignments.iter().map(name).collect()
        }
        Statement::Insert(insert) if insert.on.is_some() => None,
        _ => Some(Vec::new()),
    }
}

/// The tree of one row without columns.
fn one_row(each: &compiled::Query) -> Tree {
    let body = Body::Values(vec![Vec::new()]);
    Tree {
        query: Query { body, order: Vec::new(), limit: None, offset: None, width: 0 },
        params: each.params.clone(),
        fills: Vec::new(),
        fields: Vec::new(),
        scans: Vec::new(),
        places: Vec::new(),
        outers: Vec::new(),
        subs: Vec::new(),
        withs: Vec::new(),
        tables: Vec::new(),
        views: Vec::new(),
    }
}
