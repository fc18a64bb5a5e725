//! Random queries over tables, views and other queries, with the names and types of their columns.

use super::draw::{Column, Draw};

/// Something that stands in `FROM`: a table, a view, or a query with an alias.
#[derive(Clone)]
pub struct Source {
    pub text: String,
    pub columns: Vec<Column>,
    /// The number of leading columns that are a key; 0 for a query.
    pub key: usize,
}

/// A query and its columns.
pub struct Query {
    pub text: String,
    pub columns: Vec<Column>,
    pub is_ordered: bool,
}

impl Query {
    fn new(text: String, columns: Vec<Column>) -> Query {
        Query { text, columns, is_ordered: false }
    }
}

/// `min` and `max` of this type are told, and its values have an order that both servers share.
fn has_order(ty: &str) -> bool {
    ty != "boolean"
}

fn is_number(ty: &str) -> bool {
    matches!(ty, "int" | "bigint" | "smallint" | "numeric" | "numeric(10,2)")
}

impl Draw {
    /// A table, a view, or with `depth` above 0 a query in its place.
    pub fn source(&mut self, depth: usize) -> Source {
        if depth > 0 && self.chance(45) {
            let query = self.query(depth - 1);
            let alias = self.fresh("d");
            return Source { text: format!("({}) {alias}", query.text), columns: query.columns, key: 0 };
        }
        let at = self.random.usize(..self.tables.len() + self.views.len());
        let known = self.tables.len();
        if at < known { self.table(at) } else { self.views[at - known].clone() }
    }

    /// The table in the place of a source.
    pub fn table(&self, at: usize) -> Source {
        let table = &self.tables[at];
        Source { text: table.name.clone(), columns: table.columns.clone(), key: table.key }
    }

    fn fresh(&mut self, letter: &str) -> String {
        self.names += 1;
        format!("{letter}{}", self.names)
    }

    /// A query over sources, of any of the kinds below.
    pub fn query(&mut self, depth: usize) -> Query {
        let source = self.source(depth);
        match self.random.u32(..100) {
            0..40 => self.plain(&source),
            40..55 => self.limited(&source),
            55..72 => self.grouped(&source),
            72..78 => self.distinct(&source),
            78..86 => self.united(&source),
            86..95 => self.joined(&source, depth),
            _ => self.ranked(&source),
        }
    }

    /// Some columns, renamed, of the rows that meet a condition.
    fn plain(&mut self, source: &Source) -> Query {
        let (list, columns) = self.chosen(source, 4);
        let filter = self.filter(source, "");
        Query::new(format!("SELECT {list} FROM {}{filter}", source.text), columns)
    }

    /// A list of columns with new names.
    fn chosen(&mut self, source: &Source, most: usize) -> (String, Vec<Column>) {
        let count = self.random.usize(1..=most);
        let mut parts = Vec::new();
        let mut columns = Vec::new();
        for _ in 0..count {
            let column = self.pick(&source.columns).clone();
            let name = self.fresh("x");
            parts.push(format!("{} AS {name}", column.name));
            columns.push(Column { name, ty: column.ty });
        }
        (parts.join(", "), columns)
    }

    fn limited(&mut self, source: &Source) -> Query {
        let filter = self.filter(source, "");
        let down = if self.chance(50) { " DESC" } else { "" };
        let order: Vec<String> = source.columns.iter().map(|c| format!("{}{down}", c.name)).collect();
        let (limit, offset) = (self.random.u32(..8), self.random.u32(..3));
        let text = format!(
            "SELECT * FROM {}{filter} ORDER BY {} LIMIT {limit} OFFSET {offset}",
            source.text,
            order.join(", ")
        );
        Query { text, columns: source.columns.clone(), is_ordered: true }
    }

    fn grouped(&mut self, source: &Source) -> Query {
        let by = self.pick(&source.columns).clone();
        let of = self.pick(&source.columns).clone();
        let (key, count, value) = (self.fresh("x"), self.fresh("x"), self.fresh("x"));
        let (function, ty) = match of.ty {
            "int" | "smallint" if self.chance(50) => (format!("sum({})", of.name), "bigint"),
            "numeric(10,2)" if self.chance(50) => (format!("sum({})", of.name), "numeric"),
            ty if has_order(ty) => (format!("max({})", of.name), ty),
            _ => (format!("bool_or({})", of.name), "boolean"),
        };
        let filter = self.filter(source, "");
        let having = if self.chance(25) { " HAVING count(*) > 1" } else { "" };
        let text = format!(
            "SELECT {} AS {key}, count(*) AS {count}, {function} AS {value} FROM {}{filter} GROUP BY {}{having}",
            by.name, source.text, by.name
        );
        let column = |name, ty| Column { name, ty };
        Query::new(text, vec![column(key, by.ty), column(count, "bigint"), column(value, ty)])
    }

    fn distinct(&mut self, source: &Source) -> Query {
        let (list, columns) = self.chosen(source, 2);
        let filter = self.filter(source, "");
        Query::new(format!("SELECT DISTINCT {list} FROM {}{filter}", source.text), columns)
    }

    /// Rows that meet one condition, and those that meet another.
    fn united(&mut self, source: &Source) -> Query {
        let (list, columns) = self.chosen(source, 3);
        let word = *self.pick(&["UNION ALL", "UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
        let (one, other) = (self.filter(source, ""), self.filter(source, ""));
        let text = format!(
            "SELECT {list} FROM {}{one} {word} SELECT {list} FROM {}{other}",
            source.text, source.text
        );
        Query::new(text, columns)
    }

    /// Two sources with a column of whole numbers each, and conditions on both.
    fn joined(&mut self, source: &Source, depth: usize) -> Query {
        let other = self.source(depth);
        let whole = |s: &Source| -> Vec<String> {
            s.columns.iter().filter(|c| matches!(c.ty, "int" | "bigint")).map(|c| c.name.clone()).collect()
        };
        let (keys, others) = (whole(source), whole(&other));
        if keys.is_empty() || others.is_empty() {
            return self.plain(source);
        }
        let (left, right) = (self.pick(&keys).clone(), self.pick(&others).clone());
        let kind = *self.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN"]);
        let [a, b] = ["a", "b"].map(|letter| self.fresh(letter));
        // A query in parentheses has an alias, which a query around it renames.
        let item = |s: &Source, alias: &str| match s.text.rsplit_once(") ") {
            Some((query, _)) => format!("{query}) {alias}"),
            None => format!("{} {alias}", s.text),
        };
        let (mut parts, mut columns) = (Vec::new(), Vec::new());
        for (of, alias) in [(source, &a), (&other, &b)] {
            for _ in 0..self.random.usize(1..3) {
                let column = self.pick(&of.columns).clone();
                let name = self.fresh("x");
                parts.push(format!("{alias}.{} AS {name}", column.name));
                columns.push(Column { name, ty: column.ty });
            }
        }
        let mut conditions = Vec::new();
        if self.chance(60) {
            conditions.push(self.condition(source, &format!("{a}.")));
        }
        if self.chance(40) {
            conditions.push(self.condition(&other, &format!("{b}.")));
        }
        let filter = if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        };
        let text = format!(
            "SELECT {} FROM {} {kind} {} ON {a}.{left} = {b}.{right}{filter}",
            parts.join(", "),
            item(source, &a),
            item(&other, &b)
        );
        Query::new(text, columns)
    }

    /// Places within groups. Equal rows share a place, so that the answer is defined.
    fn ranked(&mut self, source: &Source) -> Query {
        let by = self.pick(&source.columns).clone();
        let of = self.pick(&source.columns).clone();
        let (one, place) = (self.fresh("x"), self.fresh("x"));
        let text = format!(
            "SELECT {} AS {one}, rank() OVER (PARTITION BY {} ORDER BY {}) AS {place} FROM {}",
            of.name, by.name, of.name, source.text
        );
        Query::new(text, vec![Column { name: one, ty: of.ty }, Column { name: place, ty: "bigint" }])
    }

    /// A query, read once more through a WITH, a query in FROM with conditions on its columns, or a
    /// condition with a query in it.
    pub fn nested(&mut self) -> (String, bool) {
        let query = self.query(1);
        match self.random.u32(..6) {
            0 => {
                let source = Source { text: "w".into(), columns: query.columns, key: 0 };
                let outer = self.plain(&source);
                (format!("WITH w AS ({}) {}", query.text, outer.text), false)
            }
            1..4 => {
                let source = Source { text: format!("({}) q", query.text), columns: query.columns, key: 0 };
                let outer = match self.random.u32(..3) {
                    0 => self.limited(&source),
                    1 => self.grouped(&source),
                    _ => self.plain(&source),
                };
                (outer.text, outer.is_ordered)
            }
            4 => {
                let at = self.random.usize(..self.tables.len());
                let table = self.table(at);
                let alike = |c: &&Column| query.columns.iter().any(|q| q.ty == c.ty);
                let Some(column) = table.columns.iter().find(alike).cloned() else {
                    return (query.text, query.is_ordered);
                };
                let of = query.columns.iter().find(|q| q.ty == column.ty).map_or("", |q| q.name.as_str());
                let not = if self.chance(30) { "NOT " } else { "" };
                let text = format!(
                    "SELECT * FROM {} WHERE {} {not}IN (SELECT {of} FROM ({}) q)",
                    table.text, column.name, query.text
                );
                (text, false)
            }
            _ => (query.text, query.is_ordered),
        }
    }

    /// A view of a query, or of views made before it. [`Draw::keep`] adds it once it stands.
    pub fn create_view(&mut self, number: usize) -> (String, Source) {
        let query = self.query(1);
        let name = format!("w{number}");
        let text = format!("CREATE VIEW {name} AS {}", query.text);
        (text, Source { text: name, columns: query.columns, key: 0 })
    }

    /// Rows that are locked where they are read.
    pub fn locking(&mut self, at: usize) -> (String, bool) {
        let source = self.table(at);
        let condition = self.condition(&source, "");
        let how = *self.pick(&["FOR UPDATE", "FOR SHARE", "FOR UPDATE NOWAIT", "FOR UPDATE SKIP LOCKED"]);
        (format!("SELECT * FROM {} WHERE {condition} {how}", source.text), false)
    }

    /// An aggregate of a source.
    pub fn aggregate(&mut self) -> (String, bool) {
        let source = self.source(1);
        let filter = self.filter(&source, "");
        let Column { name: column, ty } = self.pick(&source.columns).clone();
        let of = match ty {
            ty if is_number(ty) => format!("sum({column}), avg({column}), min({column}), max({column})"),
            "boolean" => format!("count({column}), bool_and({column}), bool_or({column})"),
            _ => format!("count({column}), count(DISTINCT {column}), min({column}), max({column})"),
        };
        if self.chance(50) {
            let by = self.pick(&source.columns).name.clone();
            let having = if self.chance(30) { " HAVING count(*) > 1" } else { "" };
            let text =
                format!("SELECT {by}, count(*), {of} FROM {}{filter} GROUP BY {by}{having}", source.text);
            return (text, false);
        }
        (format!("SELECT count(*), {of} FROM {}{filter}", source.text), false)
    }
}
