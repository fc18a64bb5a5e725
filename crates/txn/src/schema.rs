//! Tables as values, in a form that a SQL layer can read and a catalog can store.

use base::TableId;
use serde::{Deserialize, Serialize};

/// The type of a column. Numbers of every width are read and written as `i64`, in the unit that the
/// type names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Type {
    /// 2 bytes, signed.
    I16,
    /// 4 bytes, signed.
    I32,
    /// 8 bytes, signed.
    I64,
    /// Exactly `0` bytes; the writer pads with spaces.
    Char(u16),
    /// At most `0` bytes of UTF-8.
    Text(u32),
    /// 1 byte: 0 is false, 1 is true.
    Bool,
    /// 4 bytes: days since 1970-01-01.
    Date,
    /// 8 bytes: milliseconds since 1970-01-01 00:00, without a time zone.
    Timestamp,
    /// 8 bytes: a decimal number with `0` places behind the point, as the number without the point.
    /// Money in cents is `Decimal(2)`.
    Decimal(u8),
    /// 4 bytes: as `Decimal`, for numbers of at most nine digits.
    ShortDecimal(u8),
}

impl Type {
    /// Bytes in the fixed part of a row; `None` for a type of varying length.
    pub fn fixed_len(self) -> Option<usize> {
        match self {
            Type::Bool => Some(1),
            Type::I16 => Some(2),
            Type::I32 | Type::Date | Type::ShortDecimal(_) => Some(4),
            Type::I64 | Type::Timestamp | Type::Decimal(_) => Some(8),
            Type::Char(n) => Some(n as usize),
            Type::Text(_) => None,
        }
    }

    /// Whether values are numbers ([`crate::Row::int`]) and not bytes.
    #[inline]
    pub fn is_number(self) -> bool {
        !matches!(self, Type::Char(_) | Type::Text(_))
    }
}

/// A set of columns of one table. Columns from the 64th on share one bit: a set with one of them
/// seems to contain them all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Columns(u64);

impl Columns {
    pub const NONE: Columns = Columns(0);
    pub const ALL: Columns = Columns(u64::MAX);

    pub fn of(columns: &[u16]) -> Columns {
        columns.iter().fold(Columns::NONE, |set, &column| set.with(column))
    }

    #[inline]
    #[must_use]
    pub fn with(self, column: u16) -> Columns {
        Columns(self.0 | 1 << column.min(63))
    }

    /// Whether the two may have a column in common.
    #[inline]
    pub fn meets(self, other: Columns) -> bool {
        self.0 & other.0 != 0
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    pub nullable: bool,
}

impl Column {
    pub fn new(name: &str, ty: Type) -> Column {
        Column { name: name.into(), ty, nullable: false }
    }

    #[must_use]
    pub fn nullable(mut self) -> Column {
        self.nullable = true;
        self
    }
}

/// A secondary index: an ordered set of entries to rows. An entry has the columns of `columns`,
/// then those of the table's key that are not among them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IndexDef {
    pub id: TableId,
    pub name: String,
    pub columns: Vec<u16>,
}

/// Where the rows of a table are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableKind {
    /// In a heap: every index leads to the row's address.
    #[default]
    Heap,
    /// In the leaves of the primary key's tree. One look-up finds the row, and secondary indexes
    /// lead to the primary key. The table must have a primary key.
    Clustered,
}

impl TableKind {
    pub const ALL: [TableKind; 2] = [TableKind::Heap, TableKind::Clustered];

    /// As the command line spells it.
    pub fn name(self) -> &'static str {
        match self {
            TableKind::Heap => "heap",
            TableKind::Clustered => "clustered",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TableDef {
    pub id: TableId,
    pub name: String,
    pub columns: Vec<Column>,
    /// Positions of the primary-key columns in order; empty for a table that is only appended to.
    pub key: Vec<u16>,
    pub indexes: Vec<IndexDef>,
    /// Routing keys of this table are `0..domain`. 0 means that every instance holds a copy
    /// (read-only after loading).
    pub domain: u64,
    pub kind: TableKind,
}

impl TableDef {
    /// A table in a heap, without secondary indexes.
    pub fn new(id: TableId, name: &str, columns: Vec<Column>, key: &[u16], domain: u64) -> TableDef {
        let (name, key, indexes) = (name.into(), key.into(), Vec::new());
        TableDef { id, name, columns, key, indexes, domain, kind: TableKind::Heap }
    }

    pub fn column(&self, name: &str) -> Option<u16> {
        self.columns.iter().position(|c| c.name == name).map(|i| i as u16)
    }
}

/// All tables of a database. `TableDef::id` is unique over tables and indexes together.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Schema {
    pub tables: Vec<TableDef>,
}

impl Schema {
    /// The same schema, with all tables that have a key stored in this kind.
    #[must_use]
    pub fn of_kind(mut self, kind: TableKind) -> Schema {
        for table in self.tables.iter_mut().filter(|table| !table.key.is_empty()) {
            table.kind = kind;
        }
        self
    }

    pub fn table(&self, id: TableId) -> Option<&TableDef> {
        self.tables.iter().find(|t| t.id == id)
    }
}
