//! The catalog: the tables, indexes, sequences and constraints of a database, as plain values.
//!
//! Each object is one row of a physical table, under its oid. The server keeps the whole catalog in
//! memory; a change is made to its rows, by the transaction that also changes the data.

pub use crate::oid::Oid;

use crate::enumeration::{Definition, Enum};
use crate::{Datum, Element, Expr, SqlType};
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

/// The number of one of the physical tables (`base::TableId`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Store(pub u16);

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Catalog {
    /// Incremented by each change.
    pub version: u64,
    pub tables: BTreeMap<Oid, Table>,
    pub sequences: BTreeMap<Oid, Sequence>,
    /// Physical tables that nothing uses any more, of which the rows are still to be removed.
    pub emptying: BTreeSet<Store>,
    pub next_oid: u32,
    /// Procedures, functions and views.
    pub procedures: BTreeMap<Oid, Procedure>,
    /// Enumerations.
    pub types: BTreeMap<Oid, Definition>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Table {
    pub oid: Oid,
    pub name: String,
    /// All that the table ever had, dropped ones too: a stored row names its columns by position.
    pub columns: Vec<Column>,
    /// Positions of the primary key's columns; empty if there is none: rows then have a hidden
    /// number as their key.
    pub key: Vec<u16>,
    /// The name of the primary key's constraint.
    pub key_name: String,
    pub store: Store,
    pub slots: Slots,
    pub indexes: Vec<Index>,
    pub checks: Vec<Check>,
    pub foreign_keys: Vec<ForeignKey>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub ty: SqlType,
    pub nullable: bool,
    pub default: Option<ColumnDefault>,
    /// The value in rows that were stored before the column was added.
    pub missing: Datum,
    pub dropped: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ColumnDefault {
    /// An expression without columns, and its text.
    Expr(Expr, String),
    /// The next number of a sequence.
    Next(Oid),
}

/// The slot (site) of a row, from its key columns. Rows of one slot belong to one instance and one
/// owner; keys of one slot are ordered.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Slots {
    /// By a hash of these key positions.
    Hash(Vec<u16>),
    /// By runs of `run` successive integers at this position of the key: the runs go round the
    /// slots, so neither one island fills first nor is a short range spread over all.
    Runs { position: u16, run: u32 },
    /// By ranges of the integer at this position of the key: slot `i` has the numbers from
    /// `bounds[i - 1]` up to below `bounds[i]`, spread over all slots evenly.
    Ranges { position: u16, bounds: Vec<i64> },
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Index {
    pub oid: Oid,
    pub name: String,
    /// Positions of the table's columns.
    pub columns: Vec<u16>,
    pub unique: bool,
    /// Whether it was made for a `UNIQUE` constraint.
    pub is_constraint: bool,
    pub store: Store,
    /// Over the positions of `columns`.
    pub slots: Slots,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    /// Over the table's columns.
    pub condition: Expr,
    pub text: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ForeignKey {
    pub name: String,
    pub columns: Vec<u16>,
    pub to: Oid,
    pub to_columns: Vec<u16>,
    pub on_delete: Reaction,
    pub on_update: Reaction,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reaction {
    Restrict,
    Cascade,
    SetNull,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sequence {
    pub oid: Oid,
    pub name: String,
    pub ty: SqlType,
    pub start: i64,
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub cycle: bool,
    /// The table and column that own it (`SERIAL`); it is dropped with them.
    pub owned_by: Option<(Oid, u16)>,
}

/// A procedure or a function in SQL, or a view: its columns are output parameters.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Procedure {
    pub oid: Oid,
    pub name: String,
    pub kind: ProcedureKind,
    pub params: Vec<ProcedureParam>,
    /// The text of its statements.
    pub body: String,
    /// The tables and sequences that the body names, and those that its changes reach: they cannot
    /// be dropped while it is there.
    pub uses: BTreeSet<Oid>,
    /// The compiler's form of it for the catalog that it belongs to.
    #[serde(skip)]
    pub compiled: Memo,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ProcedureKind {
    Procedure,
    /// With the type of its value; `None` is `void`, or that of its output parameters.
    Function(Option<SqlType>),
    View,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ProcedureParam {
    /// Empty if it has none.
    pub name: String,
    pub ty: SqlType,
    pub mode: ParamMode,
    /// The value if a call leaves it out, with its text.
    pub default: Option<(Expr, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ParamMode {
    In,
    Out,
    InOut,
}

impl ParamMode {
    pub fn is_input(self) -> bool {
        matches!(self, ParamMode::In | ParamMode::InOut)
    }

    pub fn is_output(self) -> bool {
        matches!(self, ParamMode::Out | ParamMode::InOut)
    }
}

impl Procedure {
    pub fn is_view(&self) -> bool {
        self.kind == ProcedureKind::View
    }
}

/// A value that is made when it is first needed. A copy has none: what it would be made from may
/// change.
#[derive(Default)]
pub struct Memo(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Memo {
    /// The value, if it is of this type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.0.get()?).downcast().ok()
    }

    /// Keeps a value, unless there is one.
    pub fn keep(&self, value: Arc<dyn Any + Send + Sync>) {
        // Another thread has kept the same one.
        let _ = self.0.set(value);
    }
}

impl Clone for Memo {
    fn clone(&self) -> Memo {
        Memo::default()
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Memo) -> bool {
        true
    }
}

impl std::fmt::Debug for Memo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memo")
    }
}

impl Catalog {
    pub fn procedure(&self, name: &str) -> Option<&Procedure> {
        self.procedures.values().find(|procedure| procedure.name == name && !procedure.is_view())
    }

    pub fn view(&self, name: &str) -> Option<&Procedure> {
        self.views().find(|view| view.name == name)
    }

    pub fn views(&self) -> impl Iterator<Item = &Procedure> {
        self.procedures.values().filter(|procedure| procedure.is_view())
    }

    pub fn table(&self, name: &str) -> Option<&Table> {
        self.tables.values().find(|table| table.name == name)
    }

    /// The physical tables that are in use, or not empty yet.
    pub fn stores(&self) -> BTreeSet<Store> {
        let of = |table: &Table| {
            let indexes = table.indexes.iter().map(|index| index.store).collect::<Vec<_>>();
            std::iter::once(table.store).chain(indexes)
        };
        self.tables.values().flat_map(of).chain(self.emptying.iter().copied()).collect()
    }

    /// The enumeration of this name.
    pub fn enumeration(&self, name: &str) -> Option<&Definition> {
        self.types.values().find(|known| known.name == name)
    }

    /// The type of this number, if it is an enumeration or the type of its arrays.
    pub fn type_of(&self, number: u32) -> Option<SqlType> {
        if let Some(known) = self.types.get(&Oid(number)) {
            return Some(SqlType::Enum(Enum::of(known)));
        }
        let of_arrays = self.types.values().find(|known| known.array.0 == number)?;
        Some(SqlType::Array(Element::Enum(Enum::of(of_arrays))))
    }

    pub fn sequence(&self, name: &str) -> Option<&Sequence> {
        self.sequences.values().find(|sequence| sequence.name == name)
    }
}

impl Table {
    /// The columns that a statement can see, with their positions.
    pub fn visible(&self) -> impl Iterator<Item = (u16, &Column)> {
        (0..).zip(&self.columns).filter(|(_, column)| !column.dropped)
    }

    pub fn column(&self, name: &str) -> Option<(u16, &Column)> {
        self.visible().find(|(_, column)| column.name == name)
    }
}
