//! The definitions of a database, as statements that make them anew. They are asked of the system
//! catalogs.

use super::place::Open;
use crate::failure::Failure;
use std::collections::BTreeSet;
use tokio_postgres::SimpleQueryRow;

const SCHEMA: &str = "(SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'public')";

/// The objects of a dump, the oldest first.
pub struct Schema {
    pub tables: Vec<Table>,
    sequences: Vec<Sequence>,
    /// Statements that create enumerations.
    types: Vec<String>,
    /// Statements that create procedures and functions.
    routines: Vec<String>,
}

pub struct Table {
    /// The number in the catalog.
    oid: String,
    /// As it is in the catalog, and as a statement has it.
    pub plain: String,
    pub name: String,
    pub columns: Vec<Column>,
    /// Keys, unique columns and checks: names and definitions.
    constraints: Vec<(String, String)>,
    foreign_keys: Vec<(String, String)>,
    /// Statements that create its indexes.
    indexes: Vec<String>,
    /// How rows are placed: names and values.
    placed: Vec<(String, String)>,
}

pub struct Column {
    pub name: String,
    /// Type, default and nullability.
    definition: String,
}

pub struct Sequence {
    pub name: String,
    definition: String,
    /// The column that it is dropped with.
    owner: Option<String>,
    max: i64,
    min: i64,
    increment: i64,
}

/// Whether statements say where rows lie. PostgreSQL refuses the words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    Told,
    LeftOut,
}

impl Schema {
    /// The objects of the schema `public`; with names in `only` these tables and what belongs to
    /// them.
    ///
    /// # Errors
    /// A name of no table; the server's errors.
    pub fn read(open: &Open<'_>, only: &[String]) -> Result<Schema, Failure> {
        let mut tables = tables(open, only)?;
        columns(open, &mut tables)?;
        constraints(open, &mut tables)?;
        indexes(open, &mut tables)?;
        let (sequences, routines) = (sequences(open, &mut tables, only)?, routines(open, only)?);
        Ok(Schema { types: types(open, &tables, only)?, tables, sequences, routines })
    }

    /// The statements before the rows.
    pub fn before(&self, placement: Placement) -> String {
        let mut text = self.types.concat();
        for sequence in &self.sequences {
            text.push_str(&format!("CREATE SEQUENCE public.{}{};\n", sequence.name, sequence.definition));
        }
        for table in &self.tables {
            text.push_str(&table.definition(placement));
            table.indexes.iter().for_each(|index| text.push_str(&format!("{index};\n")));
        }
        for sequence in &self.sequences {
            if let Some(owner) = &sequence.owner {
                text.push_str(&format!("ALTER SEQUENCE public.{} OWNED BY {owner};\n", sequence.name));
            }
        }
        text
    }

    /// The statements after the rows.
    pub fn after(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            for (name, definition) in &table.foreign_keys {
                text.push_str(&format!(
                    "ALTER TABLE ONLY public.{} ADD CONSTRAINT {name} {definition};\n",
                    table.name
                ));
            }
        }
        self.routines.iter().for_each(|routine| text.push_str(&format!("{};\n", routine.trim_end())));
        text
    }

    /// The statements that give the sequences their next numbers. The numbers are taken from the
    /// database that is dumped: it skips them.
    ///
    /// # Errors
    /// As [`Open::wait`].
    pub fn numbers(&self, open: &Open<'_>) -> Result<String, Failure> {
        let mut text = String::new();
        for sequence in &self.sequences {
            let name = format!("'public.{}'", sequence.name.replace('\'', "''"));
            // The error of a sequence that has given its last number.
            let set = match open.rows(&format!("SELECT pg_catalog.nextval({name})")) {
                Ok(rows) => match rows.first().and_then(|row| row.get(0)) {
                    Some(number) => format!("{number}, false"),
                    None => continue,
                },
                Err(Failure::Run(why)) if why.contains("(2200H)") => {
                    format!("{}, true", if sequence.increment > 0 { sequence.max } else { sequence.min })
                }
                Err(failure) => return Err(failure),
            };
            text.push_str(&format!("SELECT pg_catalog.setval({name}, {set});\n"));
        }
        Ok(text)
    }
}

impl Table {
    fn definition(&self, placement: Placement) -> String {
        let columns = self.columns.iter().map(|column| format!("    {} {}", column.name, column.definition));
        let constraints = self.constraints.iter().map(|(name, text)| format!("    CONSTRAINT {name} {text}"));
        let parts: Vec<String> = columns.chain(constraints).collect();
        let placed = match placement {
            Placement::Told if !self.placed.is_empty() => {
                let option =
                    |(name, value): &(String, String)| format!("{name} = '{}'", value.replace('\'', "''"));
                format!(" WITH ({})", self.placed.iter().map(option).collect::<Vec<_>>().join(", "))
            }
            _ => String::new(),
        };
        let parts = if parts.is_empty() { String::new() } else { format!("\n{}\n", parts.join(",\n")) };
        format!("\nCREATE TABLE public.{} ({parts}){placed};\n", self.name)
    }

    /// Gives an identity column of PostgreSQL the default that makes its numbers.
    fn number_by(&mut self, column: &str, sequence: &str) {
        let sequence = sequence.replace('\'', "''");
        if let Some(column) = self.columns.iter_mut().find(|known| known.name == column) {
            column.definition.push_str(&format!(" DEFAULT nextval('public.{sequence}'::regclass)"));
        }
    }

    /// The columns in parentheses.
    pub fn list(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        format!("({})", names.join(", "))
    }
}

fn text(row: &SimpleQueryRow, at: usize) -> String {
    row.get(at).unwrap_or_default().to_owned()
}

fn tables(open: &Open<'_>, only: &[String]) -> Result<Vec<Table>, Failure> {
    let rows = open.rows(&format!(
        "SELECT c.oid, c.relname, pg_catalog.array_to_string(c.reloptions, ';') FROM pg_catalog.pg_class c \
         WHERE c.relkind = 'r' AND c.relnamespace = {SCHEMA} ORDER BY c.oid"
    ))?;
    let known: BTreeSet<String> = rows.iter().map(|row| text(row, 1)).collect();
    if let Some(unknown) = only.iter().find(|name| !known.contains(*name)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(Failure::Usage(format!(
            "--table {unknown}: there is no such table; expected one of: {}",
            known.join(", ")
        )));
    }
    let rows = rows.iter().filter(|row| only.is_empty() || only.contains(&text(row, 1)));
    let option =
        |option: &str| option.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let of_atoll = |(name, _): &(String, String)| name.starts_with("partition_");
    Ok(rows
        .map(|row| Table {
            oid: text(row, 0),
            plain: text(row, 1),
            name: quoted(&text(row, 1)),
            columns: Vec::new(),
            constraints: Vec::new(),
            foreign_keys: Vec::new(),
            indexes: Vec::new(),
            placed: text(row, 2).split(';').filter_map(option).filter(of_atoll).collect(),
        })
        .collect())
}

fn columns(open: &Open<'_>, tables: &mut [Table]) -> Result<(), Failure> {
    let rows = open.rows(&format!(
        "SELECT a.attrelid, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, \
         pg_catalog.pg_get_expr(d.adbin, d.adrelid) \
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
         LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
         WHERE c.relkind = 'r' AND c.relnamespace = {SCHEMA} AND a.attnum > 0 AND NOT a.attisdropped \
         ORDER BY a.attrelid, a.attnum"
    ))?;
    for row in rows {
        let Some(table) = tables.iter_mut().find(|table| Some(table.oid.as_str()) == row.get(0)) else {
            continue;
        };
        let default = row.get(4).map_or_else(String::new, |default| format!(" DEFAULT {default}"));
        let not_null = if row.get(3) == Some("t") { " NOT NULL" } else { "" };
        let definition = format!("{}{default}{not_null}", text(&row, 2));
        table.columns.push(Column { name: quoted(&text(&row, 1)), definition });
    }
    Ok(())
}

fn constraints(open: &Open<'_>, tables: &mut [Table]) -> Result<(), Failure> {
    let rows = open.rows(&format!(
        "SELECT conrelid, conname, contype, pg_catalog.pg_get_constraintdef(oid), confrelid \
         FROM pg_catalog.pg_constraint WHERE connamespace = {SCHEMA} ORDER BY oid"
    ))?;
    let known: Vec<String> = tables.iter().map(|table| table.oid.clone()).collect();
    // The key first: where rows lie follows from it.
    for kind in ["p", "u", "c", "f"] {
        for row in rows.iter().filter(|row| row.get(2) == Some(kind)) {
            let Some(table) = tables.iter_mut().find(|table| Some(table.oid.as_str()) == row.get(0)) else {
                continue;
            };
            let one = (quoted(&text(row, 1)), text(row, 3));
            match kind {
                // The other table is not part of the dump.
                "f" if !known.contains(&text(row, 4)) => {}
                "f" => table.foreign_keys.push(one),
                _ => table.constraints.push(one),
            }
        }
    }
    Ok(())
}

fn indexes(open: &Open<'_>, tables: &mut [Table]) -> Result<(), Failure> {
    let rows = open.rows(&format!(
        "SELECT i.indrelid, pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i \
         JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
         LEFT JOIN pg_catalog.pg_constraint k ON k.conindid = i.indexrelid AND k.contype IN ('p', 'u') \
         WHERE c.relnamespace = {SCHEMA} AND k.oid IS NULL ORDER BY i.indexrelid"
    ))?;
    for row in rows {
        if let Some(table) = tables.iter_mut().find(|table| Some(table.oid.as_str()) == row.get(0)) {
            table.indexes.push(text(&row, 1));
        }
    }
    Ok(())
}

fn sequences(open: &Open<'_>, tables: &mut [Table], only: &[String]) -> Result<Vec<Sequence>, Failure> {
    let rows = open.rows(&format!(
        "SELECT c.oid, c.relname, pg_catalog.format_type(s.seqtypid, NULL), s.seqincrement, s.seqmin, s.seqmax, \
         s.seqstart, s.seqcycle, d.refobjid, a.attname, d.deptype \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_sequence s ON s.seqrelid = c.oid \
         LEFT JOIN pg_catalog.pg_depend d ON d.objid = c.oid AND d.classid = 1259 AND d.refclassid = 1259 \
         AND d.deptype IN ('a', 'i') \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid \
         WHERE c.relnamespace = {SCHEMA} ORDER BY c.oid"
    ))?;
    let mut all = Vec::new();
    for row in rows {
        let owner = tables.iter_mut().find(|table| Some(table.oid.as_str()) == row.get(8));
        if !only.is_empty() && owner.is_none() {
            continue;
        }
        let number = |at: usize| row.get(at).and_then(|number| number.parse().ok()).unwrap_or(0);
        let (increment, min, max, start): (i64, i64, i64, i64) = (number(3), number(4), number(5), number(6));
        let cycle = if row.get(7) == Some("t") { " CYCLE" } else { "" };
        let (name, column) = (quoted(&text(&row, 1)), quoted(&text(&row, 9)));
        let owner = owner.map(|table| {
            if row.get(10) == Some("i") {
                table.number_by(&column, &name);
            }
            format!("public.{}.{column}", table.name)
        });
        all.push(Sequence {
            name,
            definition: format!(
                " AS {} INCREMENT BY {increment} MINVALUE {min} MAXVALUE {max} START WITH {start}{cycle}",
                text(&row, 2)
            ),
            owner,
            max,
            min,
            increment,
        });
    }
    Ok(all)
}

fn routines(open: &Open<'_>, only: &[String]) -> Result<Vec<String>, Failure> {
    if !only.is_empty() {
        return Ok(Vec::new());
    }
    let rows = open.rows(&format!(
        "SELECT pg_catalog.pg_get_functiondef(oid) FROM pg_catalog.pg_proc \
         WHERE pronamespace = {SCHEMA} AND prokind IN ('f', 'p') ORDER BY oid"
    ))?;
    Ok(rows.iter().map(|row| text(row, 0)).collect())
}

/// The enumerations, with `only` those that these tables need.
fn types(open: &Open<'_>, tables: &[Table], only: &[String]) -> Result<Vec<String>, Failure> {
    let rows = open.rows(&format!(
        "SELECT t.oid, t.typname, e.enumlabel FROM pg_catalog.pg_type t \
         LEFT JOIN pg_catalog.pg_enum e ON e.enumtypid = t.oid \
         WHERE t.typtype = 'e' AND t.typnamespace = {SCHEMA} ORDER BY t.oid, e.enumsortorder"
    ))?;
    let used = open.rows(
        "SELECT a.attrelid, coalesce(nullif(t.typelem, 0), t.oid) FROM pg_catalog.pg_attribute a \
         JOIN pg_catalog.pg_type t ON t.oid = a.atttypid WHERE a.attnum > 0 AND NOT a.attisdropped",
    )?;
    let of_tables = |row: &&SimpleQueryRow| tables.iter().any(|table| Some(table.oid.as_str()) == row.get(0));
    let used: BTreeSet<String> = used.iter().filter(of_tables).map(|row| text(row, 1)).collect();
    let mut all: Vec<(String, String, Vec<String>)> = Vec::new();
    for row in &rows {
        let number = text(row, 0);
        if !only.is_empty() && !used.contains(&number) {
            continue;
        }
        if all.last().is_none_or(|last| last.0 != number) {
            all.push((number, quoted(&text(row, 1)), Vec::new()));
        }
        if let (Some((_, _, labels)), Some(label)) = (all.last_mut(), row.get(2)) {
            labels.push(format!("'{}'", label.replace('\'', "''")));
        }
    }
    let statement = |(_, name, labels): (String, String, Vec<String>)| {
        format!("CREATE TYPE public.{name} AS ENUM ({});\n", labels.join(", "))
    };
    Ok(all.into_iter().map(statement).collect())
}

/// A name with quotes where it may need them.
pub fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain && !RESERVED.contains(&name) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// The reserved words of PostgreSQL 15, and those that are reserved as names of functions or types.
const RESERVED: [&str; 100] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];
