//! Programs in words, for `EXPLAIN` and for tests.

use crate::compiled::Query;
use crate::operators::symbol;
use sql::catalog::Slots;
use sql::program::{
    Conflict, GivenValue, Insert, InsertRows, Joined, KeyRange, Order, Output, Path, Program, Reference,
    ReferenceKind, RowLock, Select, Source, Statement, Stored,
};
use sql::{Datum, Expr, SqlType};

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

/// Names of the columns of a row, for expressions over it.
type Names = Vec<String>;

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
                let columns = &update.source.table.columns;
                let set = update.set.iter().map(|assignment| {
                    let column =
                        columns.get(usize::from(assignment.column)).map_or("?", |column| &column.name);
                    format!("{column} = {}", text(&assignment.value, &names))
                });
                self.add(format!(
                    "Update {}: {}",
                    update.source.table.name,
                    set.collect::<Vec<_>>().join(", ")
                ));
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
                    let keys: Vec<String> = grouping.keys.iter().map(|key| text(key, &names)).collect();
                    let calls: Vec<String> =
                        grouping.aggregates.iter().map(|call| aggregate(call, &names)).collect();
                    let by = if keys.is_empty() { String::new() } else { format!(" by {}", keys.join(", ")) };
                    let of = if calls.is_empty() { String::new() } else { format!(": {}", calls.join(", ")) };
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

    fn output(&mut self, word: &str, output: &[Output], names: &[String]) {
        if output.is_empty() {
            return;
        }
        let one = |output: &Output| {
            let value = text(&output.expr, names);
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

    fn source(&mut self, source: &Source, before: &[String], is_outer: bool) {
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
                    for row in rows.iter().take(3) {
                        lines.add(format!("Row: {}", list(row, &[])));
                    }
                    if rows.len() > 3 {
                        lines.add(format!("and {} more rows", rows.len() - 3));
                    }
                }
                InsertRows::Query { select, row } => {
                    let output: Names = (1..=select.output.len()).map(|at| format!("output {at}")).collect();
                    lines.add(format!("Row: {}", list(row, &output)));
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
        let excluded = names_of(&insert.table).into_iter().map(|name| format!("excluded.{name}"));
        let names: Names = names_of(&insert.table).into_iter().chain(excluded).collect();
        let set = set.iter().map(|assignment| {
            let column =
                insert.table.columns.get(usize::from(assignment.column)).map_or("?", |column| &column.name);
            format!("{column} = {}", text(&assignment.value, &names))
        });
        let filter =
            filter.as_ref().map_or(String::new(), |filter| format!(" where {}", text(filter, &names)));
        self.add(format!("On conflict on {on}: set {}{filter}", set.collect::<Vec<_>>().join(", ")));
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
        let row: Names = columns.map(|at| format!("row.{at}")).collect();
        let path = path(&reference.other.path, table, &row);
        self.add(format!("{}: {} {path} {word}", reference.name, table.name));
        self.inside(|lines| reference.further.iter().for_each(|further| lines.reference(further)));
    }
}

fn names_of(table: &Stored) -> Names {
    table.columns.iter().map(|column| format!("{}.{}", table.name, column.name)).collect()
}

fn joined_names<'a>(sources: impl Iterator<Item = &'a Source>) -> Names {
    sources.flat_map(|source| names_of(&source.table)).collect()
}

/// A path in words, with the slots on which it looks.
fn path(path: &Path, table: &Stored, before: &[String]) -> String {
    let column =
        |position: u16| table.columns.get(usize::from(position)).map_or("?", |column| column.name.as_str());
    match path {
        Path::Keys(keys) if keys.len() == 1 => {
            let values = table.key.iter().zip(&keys[0]);
            let parts: Vec<String> =
                values.map(|(at, value)| format!("{} = {}", column(*at), text(value, before))).collect();
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

fn range<'a>(range: &KeyRange, columns: &[u16], name: &dyn Fn(u16) -> &'a str, before: &[String]) -> String {
    let mut parts: Vec<String> = columns
        .iter()
        .zip(&range.equal)
        .map(|(at, value)| format!("{} = {}", name(*at), text(value, before)))
        .collect();
    let next = columns.get(range.equal.len()).map_or("?", |at| name(*at));
    if let Some((value, included)) = &range.low {
        parts.push(format!("{next} {} {}", if *included { ">=" } else { ">" }, text(value, before)));
    }
    if let Some((value, included)) = &range.high {
        parts.push(format!("{next} {} {}", if *included { "<=" } else { "<" }, text(value, before)));
    }
    if parts.is_empty() { "all".into() } else { parts.join(", ") }
}

fn aggregate(call: &sql::program::AggregateCall, names: &[String]) -> String {
    let distinct = if call.distinct { "distinct " } else { "" };
    let args = if call.args.is_empty() { "*".to_owned() } else { list(&call.args, names) };
    let filter =
        call.filter.as_ref().map_or(String::new(), |filter| format!(" filter {}", text(filter, names)));
    let name = match call.function {
        sql::expression::Aggregate::CountRows => "count".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    };
    format!("{name}({distinct}{args}){filter}")
}

fn list(exprs: &[Expr], names: &[String]) -> String {
    exprs.iter().map(|expr| text(expr, names)).collect::<Vec<_>>().join(", ")
}

/// An expression as text; columns by `names`, or by their positions.
pub fn text(expr: &Expr, names: &[String]) -> String {
    let of = |expr: &Expr| text(expr, names);
    let join = |list: &[Expr], word: &str| {
        let parts: Vec<String> = list.iter().map(of).collect();
        format!("({})", parts.join(word))
    };
    match expr {
        Expr::Const(value) => constant(value),
        Expr::Param(at) => format!("${}", at + 1),
        Expr::Column(at) => names.get(usize::from(*at)).cloned().unwrap_or_else(|| format!("#{at}")),
        Expr::Now => "now".into(),
        Expr::Not(inner) => format!("not {}", of(inner)),
        Expr::And(list) => join(list, " and "),
        Expr::Or(list) => join(list, " or "),
        Expr::IsNull(inner) => format!("{} is null", of(inner)),
        Expr::Binary { op, left, right, .. } => format!("({} {} {})", of(left), symbol(*op), of(right)),
        Expr::Negate(inner, _) => format!("-{}", of(inner)),
        Expr::Same(left, right) => format!("({} is {})", of(left), of(right)),
        Expr::In { expr, list } => format!("{} in {}", of(expr), join(list, ", ")),
        Expr::Like { expr, pattern, ignore_case, .. } => {
            format!("{} {} {}", of(expr), if *ignore_case { "ilike" } else { "like" }, of(pattern))
        }
        Expr::Case { branches, otherwise } => {
            let branches = branches.iter().map(|(when, then)| format!("when {} then {}", of(when), of(then)));
            format!("case {} else {} end", branches.collect::<Vec<_>>().join(" "), of(otherwise))
        }
        Expr::Cast { expr, to, .. } => format!("{}::{}", of(expr), crate::types::full_name_of(*to)),
        Expr::Call { function, args, .. } => {
            format!("{}({})", format!("{function:?}").to_lowercase(), list(args, names))
        }
    }
}

/// A value as text, in the type that its form suggests.
fn constant(value: &Datum) -> String {
    let ty = match value {
        Datum::Null => return "null".into(),
        Datum::Bool(_) => SqlType::Bool,
        Datum::Int(_) => SqlType::Int8,
        Datum::Float(_) => SqlType::Float8,
        Datum::Numeric(_) => SqlType::Numeric(None),
        Datum::Text(text) => return format!("'{}'", text.replace('\'', "''")),
        Datum::Bytes(_) => SqlType::Bytea,
        Datum::Date(_) => SqlType::Date,
        Datum::Time(_) => SqlType::Time,
        Datum::Timestamp(_) => SqlType::Timestamp,
        Datum::Interval(_) => SqlType::Interval,
        Datum::Uuid(_) => SqlType::Uuid,
    };
    sql::text::to_string(ty, value)
}
