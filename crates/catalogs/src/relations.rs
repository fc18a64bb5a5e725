//! The relations of `pg_catalog` and `information_schema`: their columns, and their rows as the
//! database's catalog gives them.
//!
//! PostgreSQL's objects that Atoll does not have (triggers, rules, policies, extensions) are
//! relations without rows, so that clients which look for them find none.

mod columns;
mod constraints;
mod definitions;
mod objects;
mod placement;
pub mod routines;
mod schema;
mod types;

pub use constraints::{Constraint, Kind as ConstraintKind, constraints};
pub use types::{named as type_number, number_of, shown_type, type_text};

use crate::value::{Type, Value};
use compiler::general::Facts;
use sql::catalog::{Catalog, Index, Oid, Table};

pub type Row = Vec<Value>;

/// The numbers of PostgreSQL's schemas, its owner and its access methods.
pub const PG_CATALOG: i64 = 11;
pub const PUBLIC: i64 = 2200;
pub const INFORMATION_SCHEMA: i64 = 13_000;
pub const OWNER: i64 = 10;
pub const HEAP: i64 = 2;
pub const BTREE: i64 = 403;
/// The collation of all texts.
pub const COLLATION: i64 = 100;
/// What makes the number of a primary key's index from that of its table.
const KEY: u32 = 1 << 30;

/// A relation of the catalogs.
#[derive(Debug)]
pub struct Relation {
    pub schema: &'static str,
    pub name: &'static str,
    pub number: i64,
    /// The last one is `tableoid`.
    pub columns: Vec<(String, Type)>,
}

/// All relations.
#[derive(Debug)]
pub struct Relations {
    all: Vec<Relation>,
}

impl Relations {
    pub fn all() -> &'static Relations {
        static ALL: std::sync::OnceLock<Relations> = std::sync::OnceLock::new();
        ALL.get_or_init(|| Relations { all: definitions::read() })
    }

    /// The number of a relation in this list.
    pub fn find(&self, schema: Option<&str>, name: &str) -> Option<usize> {
        let in_schema = |relation: &&Relation| match schema {
            Some(schema) => relation.schema == schema,
            None => relation.schema == "pg_catalog",
        };
        self.all.iter().position(|relation| relation.name == name && in_schema(&relation))
    }

    pub fn columns(&self, number: usize) -> Vec<(String, Type)> {
        self.all[number].columns.clone()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Relation> {
        self.all.iter()
    }
}

/// All that rows of the relations are made of.
#[derive(Debug)]
pub struct World<'a> {
    pub relations: &'a Relations,
    pub catalog: &'a Catalog,
    pub facts: &'a Facts,
}

impl World<'_> {
    /// The rows of a relation.
    pub fn rows(&self, number: usize) -> Vec<Row> {
        let relation = &self.relations.all[number];
        let mut rows = Rows { relation, rows: Vec::new() };
        match relation.schema {
            "information_schema" => schema::fill(self, &mut rows),
            _ => self.fill(&mut rows),
        }
        rows.rows
    }

    fn fill(&self, rows: &mut Rows<'_>) {
        match rows.relation.name {
            "pg_class" => objects::classes(self, rows),
            "pg_attribute" => columns::attributes(self, rows),
            "pg_attrdef" => columns::defaults(self, rows),
            "pg_type" => types::types(self, rows),
            "pg_enum" => types::labels(self, rows),
            "pg_index" => objects::pg_index(self, rows),
            "pg_constraint" => constraints::fill(self, rows),
            "pg_proc" => routines::fill(self, rows),
            "pg_sequence" => objects::sequences(self, rows),
            "pg_depend" => objects::dependencies(self, rows),
            "pg_tables" => objects::tables(self, rows),
            "pg_views" => objects::views(self, rows),
            "pg_indexes" => objects::index_texts(self, rows),
            "pg_sequences" => objects::sequence_list(self, rows),
            _ => objects::fixed(self, rows),
        }
    }
}

/// The rows of a relation, as they are made.
pub struct Rows<'a> {
    pub relation: &'a Relation,
    rows: Vec<Row>,
}

impl Rows<'_> {
    /// Adds a row. Columns that are not named have nothing in them; owners are the one user.
    pub fn add(&mut self, values: &[(&str, Value)]) {
        let unnamed = |(name, ty): &(String, Type)| match *ty {
            Type::OID if name.ends_with("owner") => Value::Int(OWNER),
            ty => nothing(ty),
        };
        let mut row: Row = self.relation.columns.iter().map(unnamed).collect();
        for (name, value) in values {
            let at = self.relation.columns.iter().position(|(known, _)| known == name);
            debug_assert!(at.is_some(), "{} has no column {name}", self.relation.name);
            if let Some(at) = at {
                row[at] = value.clone();
            }
        }
        if let Some(last) = row.last_mut() {
            *last = Value::Int(self.relation.number);
        }
        self.rows.push(row);
    }
}

fn nothing(ty: Type) -> Value {
    match ty {
        Type::BOOL => Value::Bool(false),
        Type::CHAR => Value::text(""),
        ty if ty.is_integer() || ty == Type::OID || ty == Type::REGPROC => Value::Int(0),
        Type::FLOAT4 | Type::FLOAT8 => Value::Float(0.0),
        _ => Value::Null,
    }
}

/// An index as clients see it: also the one that the primary key is.
pub struct AnyIndex<'a> {
    pub number: i64,
    pub name: &'a str,
    pub table: &'a Table,
    pub columns: &'a [u16],
    pub unique: bool,
    pub is_key: bool,
    /// Whether a constraint was declared that it enforces.
    pub is_constraint: bool,
}

pub fn indexes(catalog: &Catalog) -> impl Iterator<Item = AnyIndex<'_>> {
    catalog.tables.values().flat_map(indexes_of)
}

pub fn indexes_of(table: &Table) -> Vec<AnyIndex<'_>> {
    let key = (!table.key.is_empty()).then(|| AnyIndex {
        number: i64::from(table.oid.0 | KEY),
        name: &table.key_name,
        table,
        columns: &table.key,
        unique: true,
        is_key: true,
        is_constraint: true,
    });
    let other = |index| of_index(table, index);
    key.into_iter().chain(table.indexes.iter().map(other)).collect()
}

fn of_index<'a>(table: &'a Table, index: &'a Index) -> AnyIndex<'a> {
    AnyIndex {
        number: index.oid.0.into(),
        name: &index.name,
        table,
        columns: &index.columns,
        unique: index.unique,
        is_key: false,
        is_constraint: index.is_constraint,
    }
}

pub fn index(catalog: &Catalog, number: i64) -> Option<AnyIndex<'_>> {
    indexes(catalog).find(|index| index.number == number)
}

pub fn table(catalog: &Catalog, number: i64) -> Option<&Table> {
    catalog.tables.get(&Oid(u32::try_from(number).ok()?))
}

/// The number of a class by its name: a table, an index, a sequence, a view, or a relation of the
/// catalogs.
pub fn class_number(world: &World<'_>, schema: Option<&str>, name: &str) -> Option<i64> {
    let of_user = || {
        let catalog = world.catalog;
        let table = catalog.table(name).map(|table| table.oid.0.into());
        let sequence = || catalog.sequence(name).map(|sequence| sequence.oid.0.into());
        let index = || indexes(catalog).find(|index| index.name == name).map(|index| index.number);
        let view = || catalog.view(name).map(|view| view.oid.0.into());
        table.or_else(sequence).or_else(index).or_else(view)
    };
    let of_system = |schema| {
        let at = world.relations.find(schema, name)?;
        Some(world.relations.all[at].number)
    };
    match schema {
        None => of_system(None).or_else(of_user),
        Some("public") => of_user(),
        schema => of_system(schema),
    }
}

/// The name of a class by its number, as it is written where it is in reach without a schema.
pub fn class_name(world: &World<'_>, number: i64) -> Option<String> {
    let catalog = world.catalog;
    let oid = Oid(u32::try_from(number).ok()?);
    if let Some(table) = catalog.tables.get(&oid) {
        return Some(world.shown(&table.name));
    }
    if let Some(sequence) = catalog.sequences.get(&oid) {
        return Some(world.shown(&sequence.name));
    }
    if let Some(view) = catalog.views().find(|view| view.oid == oid) {
        return Some(world.shown(&view.name));
    }
    if let Some(index) = index(catalog, number) {
        return Some(world.shown(index.name));
    }
    let relation = world.relations.iter().find(|relation| relation.number == number)?;
    Some(match relation.schema {
        "pg_catalog" => relation.name.to_owned(),
        schema => format!("{schema}.{}", relation.name),
    })
}

impl World<'_> {
    /// The name of a class of users as a statement would have it: with its schema, if the session
    /// does not look names up there.
    pub fn shown(&self, name: &str) -> String {
        if self.has_public_in_reach() { quoted(name) } else { format!("public.{}", quoted(name)) }
    }

    /// Whether the session looks names up in the schema of users without its name.
    pub fn has_public_in_reach(&self) -> bool {
        let path = self.facts.settings.iter().find(|(known, _)| known == "search_path");
        path.is_none_or(|(_, path)| path.contains("public"))
    }
}

/// A name as a statement would have it.
pub fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_$".contains(c))
        && !RESERVED.contains(&name);
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Words that are no names without quotes.
const RESERVED: [&str; 30] = [
    "all", "and", "as", "asc", "case", "check", "column", "create", "default", "desc", "distinct", "else",
    "end", "from", "grant", "group", "having", "in", "limit", "not", "null", "order", "primary", "select",
    "table", "then", "to", "union", "user", "where",
];
