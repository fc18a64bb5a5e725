//! Programs in words, for `EXPLAIN` and for tests.

mod text;

pub use text::text;

use crate::compiled::Query;
use sql::catalog::Slots;
use sql::program::{
    Assignment, Conflict, GivenValue, Insert, InsertRows, Joined, KeyRange, Order, Output, Path, Program,
    Reference, ReferenceKind, RowLock, Select, Source, Statement, Stored, StoredColumn,
};
use sql::{Expr, SqlType};
use text::{Name, list, row, typed};

/// The lines of `EXPLAIN`.
pub fn describe(query: &Query) -> Vec<String> {
    program(&query.program)
}

/// The lines of a program.
pub fn program(program: &Program) -> Vec<String> {
    let mut lines = Lines { lines: Vec::new(), depth: 0 };
    let Some(flow) = &program.flow else {
        program.statements.iter().for_each(|statement| lines.statement(statement));
        return lines.lines;
    };
    for (number, phase) in (1..).zip(&flow.phases) {
        lines.add(format!("Phase {number}"));
        for at in phase {
            let Some(statement) = program.statements.get(usize::from(*at)) else { continue };
            lines.inside(|lines| {
                lines.statement(statement);
                let given = flow.given.iter().filter(|given| given.statement == *at);
                given.for_each(|given| {
                    lines.add(format!("Gives ${}: {}", given.param + 1, value(given.what)))
                });
            });
        }
    }
    lines.lines
}

fn value(what: GivenValue) -> String {
    match what {
        GivenValue::Only(column) => format!("column {} of the only row", column + 1),
        GivenValue::First(column) => format!("column {} of the first row", column + 1),
        GivenValue::Exists => "whether there is a row".into(),
    }
}

struct Lines {
    lines: Vec<String>,
    depth: usize,
}

type Names = Vec<Name>;

impl Lines {
    fn add(&mut self, line: impl AsRef<str>) {
        self.lines.push(format!("{}{}", "  ".repeat(self.depth), line.as_ref()));
    }

    fn inside(&mut self, add: impl FnOnce(&mut Lines)) {
        self.depth += 1;
        add(self);
        self.depth -= 1;
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Select(select) => self.select(select),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => {
                let names = joined_names(
                    std::iter::once(&update.source).chain(update.from.iter().map(|j| &j.source)),
                );
                let set = assignments(&update.set, &update.source.table, &names);
                self.add(format!("Update {}: {set}", update.source.table.name));
                self.inside(|lines| {
                    lines.source(&update.source, &[], false);
                    lines.joined(&update.from, names_of(&update.source.table));
                    update.checks.iter().for_each(|check| lines.add(format!("Check {}", check.name)));
                    update.references.iter().for_each(|reference| lines.reference(reference));
                    lines.output("Returning", &update.returning, &names);
                });
            }
            Statement::Delete(delete) => {
                let names = joined_names(
                    std::iter::once(&delete.source).chain(delete.from.iter().map(|j| &j.source)),
                );
                self.add(format!("Delete {}", delete.source.table.name));
                self.inside(|lines| {
                    lines.source(&delete.source, &[], false);
                    lines.joined(&delete.from, names_of(&delete.source.table));
                    delete.references.iter().for_each(|reference| lines.reference(reference));
                    lines.output("Returning", &delete.returning, &names);
                });
            }
        }
    }

    fn select(&mut self, select: &Select) {
        let names = joined_names(select.sources.iter().map(|joined| &joined.source));
        self.add("Select");
        self.inside(|lines| {
            if select.sources.is_empty() {
                lines.add("One row");
            }
            lines.joined(&select.sources, Vec::new());
            let names = match &select.grouping {
                None => names,
                Some(grouping) => {
                    let keys: Names = grouping.keys.iter().map(|key| Name::of(key, &names)).collect();
                    let calls: Names =
                        grouping.aggregates.iter().map(|call| aggregate(call, &names)).collect();
                    let by = if keys.is_empty() { String::new() } else { format!(" by {}", row(&keys)) };
                    let of = if calls.is_empty() { String::new() } else { format!(": {}", row(&calls)) };
                    lines.add(format!("Group{by}{of}"));
                    keys.into_iter().chain(calls).collect()
                }
            };
            if let Some(having) = &select.having {
                lines.add(format!("Filter after: {}", text(having, &names)));
            }
            lines.output("Output", &select.output, &names);
            if select.distinct {
                lines.add("Distinct");
            }
            lines.order(select);
            for (word, count) in [("Limit", &select.limit), ("Offset", &select.offset)] {
                if let Some(count) = count {
                    lines.add(format!("{word} {}", text(count, &[])));
                }
            }
        });
    }

    fn order(&mut self, select: &Select) {
        if select.order.is_empty() {
            return;
        }
        let key = |key: &sql::program::SortKey| {
            let output = select.output.get(usize::from(key.column));
            let name = match output {
                Some(output) if !output.name.is_empty() => output.name.clone(),
                _ => format!("column {}", key.column + 1),
            };
            let direction = if key.descending { " desc" } else { "" };
            let nulls = match (key.nulls_first, key.descending) {
                (true, false) => " nulls first",
                (false, true) => " nulls last",
                _ => "",
            };
            format!("{name}{direction}{nulls}")
        };
        let keys: Vec<String> = select.order.iter().map(key).collect();
        let how = if select.is_ordered { "Order by path" } else { "Sort" };
        self.add(format!("{how}: {}", keys.join(", ")));
    }

    fn output(&mut self, word: &str, output: &[Output], names: &[Name]) {
        if output.is_empty() {
            return;
        }
        let one = |output: &Output| {
            let value = typed(&output.expr, Some(output.ty), names);
            match output.name.as_str() {
                "" => format!("({value})"),
                name if name == value || value.ends_with(&format!(".{name}")) => value,
                name => format!("{value} as {name}"),
            }
        };
        self.add(format!("{word}: {}", output.iter().map(one).collect::<Vec<_>>().join(", ")));
    }

    fn joined(&mut self, sources: &[Joined], mut before: Names) {
        for joined in sources {
            self.source(&joined.source, &before, joined.is_outer);
            before.extend(names_of(&joined.source.table));
        }
    }

    fn source(&mut self, source: &Source, before: &[Name], is_outer: bool) {
        let word = match (before.is_empty(), is_outer) {
            (true, _) => "From",
            (false, false) => "Join",
            (false, true) => "Left join",
        };
        let lock = match source.lock {
            RowLock::None | RowLock::Look => "",
            RowLock::Update => ", locked",
            RowLock::NoWait => ", locked without waiting",
            RowLock::Skip => ", locked, others' left out",
        };
        self.add(format!("{word} {} {}{lock}", source.table.name, path(&source.path, &source.table, before)));
        if let Some(filter) = &source.filter {
            let names: Names = before.iter().cloned().chain(names_of(&source.table)).collect();
            self.inside(|lines| lines.add(format!("Filter: {}", text(filter, &names))));
        }
    }

    fn insert(&mut self, insert: &Insert) {
        let names = names_of(&insert.table);
        self.add(format!("Insert {}", insert.table.name));
        self.inside(|lines| {
            match &insert.rows {
                InsertRows::Values(rows) => {
                    for values in rows.iter().take(3) {
                        lines.add(format!("Row: {}", list(values, &names, &[])));
                    }
                    if rows.len() > 3 {
                        lines.add(format!("and {} more rows", rows.len() - 3));
                    }
                }
                InsertRows::Query { select, row } => {
                    let name = |(output, at): (&Output, u32)| Name::new(format!("output {at}"), output.ty);
                    let output: Names = select.output.iter().zip(1..).map(name).collect();
                    lines.add(format!("Row: {}", list(row, &names, &output)));
                    lines.select(select);
                }
            }
            insert.checks.iter().for_each(|check| lines.add(format!("Check {}", check.name)));
            insert.references.iter().for_each(|reference| lines.reference(reference));
            if let Some(conflict) = &insert.conflict {
                lines.conflict(conflict, insert);
            }
            lines.output("Returning", &insert.returning, &names);
        });
    }

    fn conflict(&mut self, conflict: &Conflict, insert: &Insert) {
        let on = match conflict.index {
            Some(index) => insert.table.indexes.get(usize::from(index)).map_or("?", |index| &index.name),
            None if insert.table.key.is_empty() || conflict.update.is_none() => "any key",
            None => &insert.table.key_name,
        };
        let Some((set, filter)) = &conflict.update else {
            return self.add(format!("On conflict on {on}: nothing"));
        };
        let excluded = names_of(&insert.table).into_iter().map(|name| name.after("excluded."));
        let names: Names = names_of(&insert.table).into_iter().chain(excluded).collect();
        let set = assignments(set, &insert.table, &names);
        let filter =
            filter.as_ref().map_or(String::new(), |filter| format!(" where {}", text(filter, &names)));
        self.add(format!("On conflict on {on}: set {set}{filter}"));
    }

    fn reference(&mut self, reference: &Reference) {
        let word = match reference.kind {
            ReferenceKind::MustExist => "must exist",
            ReferenceKind::MustNot => "must not exist",
            ReferenceKind::Cascade => "is deleted",
            ReferenceKind::SetNull => "loses its reference",
            ReferenceKind::Follow => "follows",
        };
        let table = &reference.other.table;
        // The changed row's columns have no names here.
        let columns = 0..=reference.columns.iter().copied().max().unwrap_or(0);
        let row: Names = columns.map(|at| Name::untyped(format!("row.{at}"))).collect();
        let path = path(&reference.other.path, table, &row);
        self.add(format!("{}: {} {path} {word}", reference.name, table.name));
        self.inside(|lines| reference.further.iter().for_each(|further| lines.reference(further)));
    }
}

fn names_of(table: &Stored) -> Names {
    let name = |column: &StoredColumn| Name::new(format!("{}.{}", table.name, column.name), column.ty);
    table.columns.iter().map(name).collect()
}

fn joined_names<'a>(sources: impl Iterator<Item = &'a Source>) -> Names {
    sources.flat_map(|source| names_of(&source.table)).collect()
}

fn assignments(set: &[Assignment], table: &Stored, names: &[Name]) -> String {
    let one = |assignment: &Assignment| {
        let column = table.columns.get(usize::from(assignment.column));
        let value = typed(&assignment.value, column.map(|column| column.ty), names);
        format!("{} = {value}", column.map_or("?", |column| &column.name))
    };
    set.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A path in words, with the slots on which it looks.
fn path(path: &Path, table: &Stored, before: &[Name]) -> String {
    let column = |position: u16| {
        let column = table.columns.get(usize::from(position));
        (column.map_or("?", |column| column.name.as_str()), column.map(|column| column.ty))
    };
    match path {
        Path::Keys(keys) if keys.len() == 1 => {
            let values = table.key.iter().zip(&keys[0]);
            let parts: Vec<String> =
                values.map(|(at, value)| compared(column(*at), "=", value, before)).collect();
            format!("by key ({}), one slot", parts.join(", "))
        }
        Path::Keys(keys) => format!("by {} keys, one slot each", keys.len()),
        Path::Ranges { index, ranges, direction } => {
            let (name, columns, slots) = match index.and_then(|index| table.indexes.get(usize::from(index))) {
                Some(index) => (format!("index {}", index.name), &index.columns, &index.slots),
                None => ("key".to_owned(), &table.key, &table.slots),
            };
            let shown: Vec<String> =
                ranges.iter().take(3).map(|part| range(part, columns, &column, before)).collect();
            let more = if ranges.len() > 3 {
                format!(" and {} more ranges", ranges.len() - 3)
            } else {
                String::new()
            };
            let order = match direction {
                None => "",
                Some(Order::Forward) => ", forward",
                Some(Order::Backward) => ", backward",
            };
            let slots =
                if ranges.iter().all(|range| is_one_slot(range, slots)) { "one slot" } else { "all slots" };
            let each = if ranges.len() > 1 && slots == "one slot" { " each" } else { "" };
            format!("by {name} ({}){more}{order}, {slots}{each}", shown.join(" or "))
        }
        Path::All => "wholly, all slots".into(),
        Path::Part(_) => "wholly, slot after slot, in parts".into(),
        Path::Values(rows) => format!("of {} rows", rows.len()),
        Path::Series { from, to, step } => {
            format!("from {} to {} by {}", text(from, before), text(to, before), text(step, before))
        }
    }
}

/// Whether the values that are known decide the slot.
fn is_one_slot(range: &KeyRange, slots: &Slots) -> bool {
    match slots {
        Slots::Hash(positions) => positions.iter().all(|position| usize::from(*position) < range.equal.len()),
        Slots::Runs { position, .. } | Slots::Ranges { position, .. } => {
            usize::from(*position) < range.equal.len()
        }
    }
}

/// A column's name and its type.
type Column<'a> = (&'a str, Option<SqlType>);

fn compared((name, ty): Column<'_>, operator: &str, value: &Expr, before: &[Name]) -> String {
    format!("{name} {operator} {}", typed(value, ty, before))
}

fn range<'a>(
    range: &KeyRange,
    columns: &[u16],
    column: &dyn Fn(u16) -> Column<'a>,
    before: &[Name],
) -> String {
    let mut parts: Vec<String> = columns
        .iter()
        .zip(&range.equal)
        .map(|(at, value)| compared(column(*at), "=", value, before))
        .collect();
    let next = columns.get(range.equal.len()).map_or(("?", None), |at| column(*at));
    if let Some((value, included)) = &range.low {
        parts.push(compared(next, if *included { ">=" } else { ">" }, value, before));
    }
    if let Some((value, included)) = &range.high {
        parts.push(compared(next, if *included { "<=" } else { "<" }, value, before));
    }
    if parts.is_empty() { "all".into() } else { parts.join(", ") }
}

fn aggregate(call: &sql::program::AggregateCall, names: &[Name]) -> Name {
    let distinct = if call.distinct { "distinct " } else { "" };
    let args = if call.args.is_empty() { "*".to_owned() } else { list(&call.args, &[], names) };
    let filter =
        call.filter.as_ref().map_or(String::new(), |filter| format!(" filter {}", text(filter, names)));
    let name = match call.function {
        sql::expression::Aggregate::CountRows => "count".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    };
    Name::new(format!("{name}({distinct}{args}){filter}"), call.ty)
}
