//! Tables of the report on a terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use report::table::Align;

/// The table in characters, no wider than the terminal, if there is one.
pub fn table(of: &report::table::Table) -> Table {
    let mut out = Table::new();
    out.load_preset(presets::UTF8_BORDERS_ONLY);
    out.set_content_arrangement(ContentArrangement::Dynamic);
    out.set_header(of.head.iter().map(|(name, _)| name));
    for row in &of.rows {
        out.add_row(row.iter().map(|cell| &cell.text));
    }
    for (at, (_, align)) in of.head.iter().enumerate() {
        if let (Some(column), Align::Right) = (out.column_mut(at), *align) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    out
}
