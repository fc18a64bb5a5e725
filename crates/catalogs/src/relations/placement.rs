//! How the rows of a table are placed, as the options that declare it.

use crate::value::Value;
use sql::catalog::{Slots, Table};

/// `reloptions` of `pg_class`: what `CREATE TABLE ... WITH` would have to say. Null where the
/// table is placed by default.
pub fn options(table: &Table) -> Value {
    if table.slots == compiler::ddl::slots_by_default(table) {
        return Value::Null;
    }
    let name = |position: &u16| {
        let column = table.key.get(usize::from(*position))?;
        table.columns.get(usize::from(*column)).map(|column| column.name.clone())
    };
    let by = |positions: &[u16]| {
        format!("partition_by={}", positions.iter().filter_map(name).collect::<Vec<_>>().join(","))
    };
    let all = match &table.slots {
        Slots::Hash(positions) => vec![by(positions)],
        Slots::Runs { position, run } => vec![by(&[*position]), format!("partition_run={run}")],
        Slots::Ranges { position, bounds } => {
            let bounds: Vec<String> = bounds.iter().map(i64::to_string).collect();
            vec![by(&[*position]), format!("partition_bounds={}", bounds.join(","))]
        }
    };
    Value::Array(all.into_iter().map(Value::Text).collect())
}
