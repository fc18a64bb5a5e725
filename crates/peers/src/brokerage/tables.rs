//! The server's tables: those that the compared transactions read, filled by the workload's own
//! loader.
//!
//! Money is in cents, and dates and times are whole numbers, as Atoll stores them. The column of
//! the site is left out: the definition has none, and ids are unique without it in one copy of the
//! market. Tables with a copy at every site are taken from the first.

use crate::fault::PeerFault;
use crate::postgres::{fault, refused};
use base::TableId;
use postgres::Client;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use txn::row::Layout;
use txn::schema::{TableDef, Type};
use txn::{Abort, Inserted, NewRows, Row, Workload};
use workload::oracle::at_once;
use workload::tpce::Tpce;

/// The tables that the compared transactions read.
const READ: [&str; 16] = [
    "broker",
    "company",
    "customer",
    "customer_account",
    "daily_market",
    "exchange",
    "holding_summary",
    "industry",
    "last_trade",
    "security",
    "status_type",
    "trade",
    "trade_history",
    "trade_type",
    "watch_item",
    "watch_list",
];
/// The table with a copy at every site.
const COPIED: &str = "exchange";
/// Bytes that are sent together.
const CHUNK: usize = 1 << 20;

/// A table, and the lines that wait for it.
struct Filling {
    name: String,
    def: TableDef,
    layout: Layout,
    /// Columns from this one on; 1 leaves out the site.
    first: u16,
    lines: String,
}

/// Creates the tables, fills them and then creates keys and indexes.
///
/// # Errors
/// The server refuses a statement, or the workload does not load.
pub fn fill(tpce: &Tpce, client: &mut Client) -> Result<(), PeerFault> {
    let schema = tpce.schema();
    let mut fillings = BTreeMap::new();
    for def in schema.tables {
        let name = def.name.to_lowercase();
        if READ.contains(&name.as_str()) {
            let first = u16::from(def.domain > 0);
            let columns: Vec<String> = def.columns[usize::from(first)..]
                .iter()
                .map(|column| format!("{} {}", column.name, sql_type(column.ty)))
                .collect();
            let create = format!("CREATE TABLE {name} ({})", columns.join(", "));
            client.batch_execute(&create).map_err(refused)?;
            let layout = Layout::of(&def);
            fillings.insert(def.id, Filling { name, def, layout, first, lines: String::new() });
        }
    }
    let mut copy = Copy { client, fillings, fault: None };
    let loaded = at_once(tpce.load_replicated(&mut copy));
    let parts = (0..tpce.sites())
        .map(base::SiteId)
        .flat_map(|site| (0..tpce.load_parts(site)).map(move |part| (site, part)));
    let loaded = loaded.and_then(|()| {
        let mut parts = parts;
        parts.try_for_each(|(site, part)| at_once(tpce.load(site, part, &mut copy)))
    });
    let ids: Vec<TableId> = copy.fillings.keys().copied().collect();
    ids.into_iter().for_each(|id| copy.flush(id));
    if let Some(fault) = copy.fault.take() {
        return Err(fault);
    }
    loaded.map_err(|abort| fault(format!("the workload does not load: {abort:?}")))?;
    let Copy { client, fillings, .. } = copy;
    for filling in fillings.values() {
        client.batch_execute(&indexes(filling)).map_err(refused)?;
    }
    Ok(())
}

fn sql_type(ty: Type) -> &'static str {
    match ty {
        Type::I16 | Type::I32 | Type::Date => "integer NOT NULL",
        Type::I64 | Type::Timestamp | Type::Decimal(_) | Type::ShortDecimal(_) => "bigint",
        Type::Bool => "smallint NOT NULL",
        Type::Char(_) | Type::Text(_) => "text",
    }
}

/// The key and the secondary indexes, without the site.
fn indexes(filling: &Filling) -> String {
    let Filling { name, def, first, .. } = filling;
    let list = |columns: &[u16]| -> String {
        let own = columns.iter().filter(|column| **column >= *first);
        own.map(|column| def.columns[usize::from(*column)].name.clone()).collect::<Vec<_>>().join(", ")
    };
    let mut text = format!("ALTER TABLE {name} ADD PRIMARY KEY ({});", list(&def.key));
    for index in &def.indexes {
        // The definition's index of an account's trades ends with their ids, as all of Atoll's do.
        let id = if index.name == "TRADE_ACCOUNT" { ", t_id" } else { "" };
        let _ = write!(text, "CREATE INDEX ON {name} ({}{id});", list(&index.columns));
    }
    text
}

/// Storage that sends new rows to the server.
struct Copy<'a> {
    client: &'a mut Client,
    fillings: BTreeMap<TableId, Filling>,
    fault: Option<PeerFault>,
}

impl Copy<'_> {
    fn flush(&mut self, id: TableId) {
        let Some(filling) = self.fillings.get_mut(&id) else { return };
        let lines = std::mem::take(&mut filling.lines);
        let mut send = || {
            let mut writer =
                self.client.copy_in(&format!("COPY {} FROM STDIN", filling.name)).map_err(refused)?;
            writer.write_all(lines.as_bytes()).map_err(fault)?;
            writer.finish().map(drop).map_err(refused)
        };
        if let Err(why) = send() {
            self.fault.get_or_insert(why);
        }
    }
}

impl NewRows for Copy<'_> {
    fn put(&mut self, table: TableId, _: Option<&[u8]>, row: &[u8]) -> Result<Inserted, Abort> {
        let Some(filling) = self.fillings.get_mut(&table) else { return Ok(Inserted::Done) };
        let row = Row::new(&filling.layout, row);
        if filling.name == COPIED && row.int(0) != 0 {
            return Ok(Inserted::Done);
        }
        for (at, column) in (0..).zip(&filling.def.columns).skip(usize::from(filling.first)) {
            if at > filling.first {
                filling.lines.push('\t');
            }
            if row.is_null(at) {
                filling.lines.push_str("\\N");
            } else if matches!(column.ty, Type::Char(_) | Type::Text(_)) {
                let text =
                    row.text(at).trim_end().replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n");
                filling.lines.push_str(&text);
            } else {
                let _ = write!(filling.lines, "{}", row.int(at));
            }
        }
        filling.lines.push('\n');
        if filling.lines.len() > CHUNK {
            self.flush(table);
        }
        Ok(Inserted::Done)
    }
}
