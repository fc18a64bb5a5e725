//! Tables from code.

use crate::Type;
use compiler::types::name_of;

/// A table to create. `to_sql` gives the statement; all that SQL can say besides is said by
/// [`Database::execute`](crate::Database::execute).
///
/// ```
/// use atoll::{Database, Table, Type};
///
/// # fn main() -> Result<(), atoll::Error> {
/// let db = Database::in_memory()?;
/// let account = Table::new("account")
///     .key("id", Type::Int8)
///     .column("balance", Type::Int8)
///     .nullable("note", Type::Text)
///     .check("balance >= 0");
/// db.create_table(&account)?;
/// db.execute("INSERT INTO account (id, balance) VALUES ($1, $2)", (1, 100))?;
/// let refused = db.execute("UPDATE account SET balance = -1", ()).unwrap_err();
/// assert_eq!(refused.sqlstate(), Some("23514"));
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    key: Vec<String>,
    constraints: Vec<String>,
    partition_by: Vec<String>,
}

impl Table {
    /// A table of this name, so far without columns.
    pub fn new(name: impl Into<String>) -> Table {
        let (columns, key, constraints, partition_by) = Default::default();
        Table { name: name.into(), columns, key, constraints, partition_by }
    }

    /// A column of the primary key. The key's columns count in the order in which they are given;
    /// the first one decides on which island a row lies, unless [`Table::partition_by`] says
    /// otherwise.
    #[must_use]
    pub fn key(mut self, name: &str, ty: Type) -> Table {
        self.key.push(quoted(name));
        self.column(name, ty)
    }

    /// A column that has a value in each row.
    #[must_use]
    pub fn column(mut self, name: &str, ty: Type) -> Table {
        self.columns.push(format!("{} {} NOT NULL", quoted(name), name_of(ty)));
        self
    }

    /// A column that may be null.
    #[must_use]
    pub fn nullable(mut self, name: &str, ty: Type) -> Table {
        self.columns.push(format!("{} {}", quoted(name), name_of(ty)));
        self
    }

    /// A condition on each row, as SQL.
    #[must_use]
    pub fn check(mut self, condition: &str) -> Table {
        self.constraints.push(format!("CHECK ({condition})"));
        self
    }

    /// Columns of which no two rows have the same values.
    #[must_use]
    pub fn unique(mut self, columns: &[&str]) -> Table {
        let columns: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
        self.constraints.push(format!("UNIQUE ({})", columns.join(", ")));
        self
    }

    /// Columns of the key by which rows are spread over the islands, by a hash.
    #[must_use]
    pub fn partition_by(mut self, columns: &[&str]) -> Table {
        self.partition_by = columns.iter().map(|name| quoted(name)).collect();
        self
    }

    /// The statement that creates the table.
    pub fn to_sql(&self) -> String {
        let mut parts = self.columns.clone();
        if !self.key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.key.join(", ")));
        }
        parts.extend(self.constraints.iter().cloned());
        let placed = match self.partition_by.is_empty() {
            true => String::new(),
            false => format!(" PARTITION BY HASH ({})", self.partition_by.join(", ")),
        };
        format!("CREATE TABLE {} ({}){placed}", quoted(&self.name), parts.join(", "))
    }
}

/// A name as SQL takes it literally.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
