//! The columns of a row that the engine's options fill: one for each entry of
//! [`deploy::engine::OPTIONS`] that names a column.
//!
//! In a row they are fields like any other: text, except where the option is a number. A field is
//! absent where the option makes no difference to the design.

use deploy::engine::{Column, OPTIONS, Run};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// The names of all columns, in the order of a row.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| OPTIONS.iter().filter_map(|option| option.column.name()).collect());

/// The values of a row by the names of their columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EngineColumns(BTreeMap<&'static str, Cell>);

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Cell {
    Number(u64),
    Text(String),
}

impl EngineColumns {
    /// The columns of a row of this run.
    pub fn of(run: &Run) -> EngineColumns {
        let cell = |column: &Column, text: Option<String>| match column {
            Column::None => None,
            Column::Text(name) => Some((*name, Cell::Text(text?))),
            Column::Number(name, number) => Some((*name, Cell::Number(number(run)? as u64))),
        };
        let shown = OPTIONS.iter().filter(|option| option.designs.has(run.design));
        EngineColumns(shown.filter_map(|option| cell(&option.column, (option.get)(run.options))).collect())
    }

    /// The names of all columns, in the order of a row.
    pub fn names() -> &'static [&'static str] {
        &NAMES
    }

    /// The value of a column; `None` if the row has none.
    pub fn get(&self, column: &str) -> Option<String> {
        match self.0.get(column)? {
            Cell::Number(number) => Some(number.to_string()),
            Cell::Text(text) => Some(text.clone()),
        }
    }

    /// Sets a column, for rows that no deployment has measured.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn set(&mut self, column: &str, value: impl Into<String>) {
        let name = named(column).unwrap_or_else(|| panic!("no option has the column {column}"));
        self.0.insert(name, Cell::Text(value.into()));
    }
}

fn named(column: &str) -> Option<&'static str> {
    NAMES.iter().copied().find(|name| *name == column)
}

impl Serialize for EngineColumns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for name in NAMES.iter() {
            if let Some(cell) = self.0.get(name) {
                map.serialize_entry(name, cell)?;
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for EngineColumns {
    /// Of the fields of a row, takes those that are columns of options.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EngineColumns, D::Error> {
        deserializer.deserialize_struct("EngineColumns", &NAMES, Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = EngineColumns;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("the fields of a row")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<EngineColumns, M::Error> {
        let mut columns = EngineColumns::default();
        while let Some(field) = fields.next_key::<String>()? {
            let cell: Option<Cell> = fields.next_value()?;
            if let (Some(name), Some(cell)) = (named(&field), cell) {
                columns.0.insert(name, cell);
            }
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ResultRow, Settings};
    use deploy::engine::{DesignKind, EngineOptions, TreeKind};

    fn row(design: DesignKind, change: impl Fn(&mut EngineOptions)) -> ResultRow {
        let mut options = EngineOptions::of(design);
        change(&mut options);
        let engine = EngineColumns::of(&Run { design, workers: 2, options: &options });
        ResultRow { settings: Settings { engine, ..Settings::default() }, ..ResultRow::default() }
    }

    /// The fields of the row that belong to options, in the order of the row.
    fn fields(design: DesignKind, change: impl Fn(&mut EngineOptions)) -> String {
        let line = serde_json::to_string(&row(design, change)).unwrap();
        let (start, end) = (line.find("\"tables\"").unwrap(), line.find(",\"tps\"").unwrap());
        line[start..end].to_owned()
    }

    #[test]
    fn a_row_has_the_columns_of_its_design() {
        assert_eq!(
            fields(DesignKind::Conventional, |_| {}),
            r#""tables":"heap","tree":"btree","heap":"shared","latching":"optimistic","log_insert":"extents","sli":"on","escalation":"25","schedule":"arrival""#
        );
        assert_eq!(
            fields(DesignKind::Conventional, |o| o.trees = TreeKind::MultiRooted),
            r#""tables":"heap","tree":"mrbtree","heap":"shared","latching":"optimistic","partitions":2,"log_insert":"extents","sli":"on","escalation":"25","schedule":"arrival""#
        );
        assert_eq!(
            fields(DesignKind::PlpLeaf, |o| o.partitions = Some(1)),
            r#""tables":"heap","tree":"mrbtree","heap":"leaf","latching":"optimistic","partitions":2,"log_insert":"extents","sli":"on","escalation":"25","schedule":"arrival","balance":"off""#
        );
        assert_eq!(
            fields(DesignKind::Occ, |_| {}),
            r#""tables":"heap","sli":"on","escalation":"25","schedule":"arrival","occ_conflict":"wait","occ_reads":"validate","occ_ahead":"requests""#
        );
    }

    #[test]
    fn every_column_is_read_as_it_was_written() {
        for design in DesignKind::ALL {
            let row = row(design, |o| o.partitions = Some(3));
            let line = serde_json::to_string(&row).unwrap();
            assert_eq!(serde_json::from_str::<ResultRow>(&line).unwrap(), row, "{line}");
        }
        let shown: Vec<ResultRow> = DesignKind::ALL.map(|design| row(design, |_| {})).into();
        for name in EngineColumns::names() {
            let has = |row: &ResultRow| row.settings.engine.get(name).is_some();
            assert!(shown.iter().any(has), "no design's row shows {name}");
        }
    }
}
