//! Random queries over the tables of the differ.

use std::cell::RefCell;

/// The relations that a part of a query can name: aliases with their columns.
type Scope = Vec<(String, Vec<(&'static str, Kind)>)>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Int,
    Number,
    Text,
    Date,
    Time,
    Bool,
    Float,
    Interval,
}

const T: &[(&str, Kind)] = &[
    ("id", Kind::Int),
    ("a", Kind::Int),
    ("b", Kind::Int),
    ("c", Kind::Number),
    ("d", Kind::Text),
    ("e", Kind::Date),
    ("f", Kind::Bool),
];
const U: &[(&str, Kind)] =
    &[("k", Kind::Int), ("j", Kind::Int), ("x", Kind::Number), ("s", Kind::Text), ("w", Kind::Time)];
const V: &[(&str, Kind)] =
    &[("id", Kind::Int), ("t_id", Kind::Int), ("r", Kind::Float), ("g", Kind::Text), ("y", Kind::Interval)];

pub struct Query {
    pub text: String,
    pub is_ordered: bool,
}

pub struct Random {
    rng: RefCell<fastrand::Rng>,
    aliases: usize,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { rng: RefCell::new(fastrand::Rng::with_seed(seed)), aliases: 0 }
    }

    pub fn below(&self, most: u64) -> u64 {
        self.rng.borrow_mut().u64(..most.max(1))
    }

    fn one_in(&self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<'a, T: ?Sized>(&self, all: &[&'a T]) -> &'a T {
        all[self.rng.borrow_mut().usize(..all.len())]
    }

    pub fn or_null(&self, value: String) -> String {
        if self.one_in(6) { "NULL".into() } else { value }
    }

    /// A query, of which the order of the rows is known or not.
    pub fn query(&mut self) -> Query {
        self.aliases = 0;
        let depth = 2;
        if self.one_in(8) {
            let op = self.pick(&["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]);
            let kind = self.kind();
            let (left, right) = (self.one_column(kind, depth), self.one_column(kind, depth));
            return Query { text: format!("{left} {op} {right} ORDER BY 1"), is_ordered: true };
        }
        if self.one_in(10) {
            let inner = self.select(&Scope::new(), 1, false);
            let count = inner.columns;
            let names: Vec<String> = (1..=count).map(|at| format!("c{at}")).collect();
            let order = self.rng.borrow_mut().usize(1..=count);
            let text = format!(
                "WITH q ({}) AS ({}) SELECT *, (SELECT count(*) FROM q) FROM q WHERE c1 IS NOT NULL OR c{order} IS NULL",
                names.join(", "),
                inner.text
            );
            return Query { text, is_ordered: false };
        }
        let made = self.select(&Scope::new(), depth, true);
        Query { text: made.text, is_ordered: made.is_ordered }
    }

    fn kind(&mut self) -> Kind {
        [Kind::Int, Kind::Int, Kind::Number, Kind::Text, Kind::Date, Kind::Bool, Kind::Float, Kind::Time]
            [self.rng.borrow_mut().usize(..8)]
    }

    /// A query of one column of a kind.
    fn one_column(&mut self, kind: Kind, depth: u32) -> String {
        self.column_from(kind, &Scope::new(), depth)
    }

    fn column_from(&mut self, kind: Kind, around: &Scope, depth: u32) -> String {
        let (from, own) = self.from(around, depth.saturating_sub(1));
        let mut scope = own;
        scope.extend(around.iter().cloned());
        let value = self.expr(kind, &scope, depth.saturating_sub(1));
        let filter = self.condition(&scope, depth.saturating_sub(1));
        format!("SELECT {value} FROM {from} WHERE {filter}")
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("r{}", self.aliases)
    }

    fn relation(&mut self, depth: u32) -> (String, Scope) {
        let alias = self.alias();
        let (name, columns) = match self.below(3) {
            0 => ("t", T),
            1 => ("u", U),
            _ => ("v", V),
        };
        if depth > 0 && self.one_in(5) {
            let mut scope = vec![(name.to_owned(), columns.to_vec())];
            let filter = self.condition(&scope, depth - 1);
            scope[0].0.clone_from(&alias);
            return (format!("(SELECT * FROM {name} WHERE {filter}) AS {alias}"), scope);
        }
        (format!("{name} AS {alias}"), vec![(alias, columns.to_vec())])
    }

    fn from(&mut self, around: &Scope, depth: u32) -> (String, Scope) {
        let (mut text, mut scope) = self.relation(depth);
        for _ in 0..*self.pick(&[&0, &0, &1, &1, &2]) {
            let (next, more) = self.relation(depth);
            let mut both = scope.clone();
            both.extend(more.iter().cloned());
            // ON names both sides, and the rows around.
            let mut seen = both.clone();
            seen.extend(around.iter().cloned());
            let join =
                self.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","]);
            text = match join {
                "CROSS JOIN" => format!("{text} CROSS JOIN {next}"),
                "," if text.contains(" JOIN ") => format!("{text} CROSS JOIN {next}"),
                "," => format!("{text} CROSS JOIN {next}"),
                "FULL JOIN" => {
                    let on = self.equality(&scope, &more);
                    format!("{text} FULL JOIN {next} ON {on}")
                }
                join => {
                    let mut on = self.equality(&scope, &more);
                    if self.one_in(3) {
                        let more = self.condition(&seen, 0);
                        on = format!("{on} AND {more}");
                    } else if self.one_in(6) {
                        on = self.condition(&seen, 0);
                    }
                    format!("{text} {join} {next} ON {on}")
                }
            };
            scope = both;
        }
        (text, scope)
    }

    /// Equal columns of both sides.
    fn equality(&mut self, left: &Scope, right: &Scope) -> String {
        for _ in 0..8 {
            let kind = self.kind();
            if let (Some(a), Some(b)) = (self.column(kind, left), self.column(kind, right)) {
                return format!("{a} = {b}");
            }
        }
        let (a, b) = (self.column(Kind::Int, left), self.column(Kind::Int, right));
        format!("{} = {}", a.unwrap_or_default(), b.unwrap_or_default())
    }

    fn select(&mut self, around: &Scope, depth: u32, orders: bool) -> Made {
        let (from, own) = self.from(around, depth.saturating_sub(1));
        let mut scope = own;
        scope.extend(around.iter().cloned());
        let filter =
            if self.one_in(3) { String::new() } else { format!(" WHERE {}", self.condition(&scope, depth)) };
        if self.one_in(3) {
            return self.grouped(&from, &filter, &scope, orders);
        }
        let columns = self.rng.borrow_mut().usize(1..=3);
        let mut items = Vec::new();
        for _ in 0..columns {
            let kind = self.kind();
            items.push(if self.one_in(8) { self.window(&scope) } else { self.expr(kind, &scope, depth) });
        }
        let distinct = if self.one_in(6) { "DISTINCT " } else { "" };
        let mut text = format!("SELECT {distinct}{} FROM {from}{filter}", items.join(", "));
        // All columns, so that the order is that of the whole rows.
        let is_ordered = orders && self.one_in(2);
        if is_ordered {
            let keys: Vec<String> = (1..=columns)
                .map(|at| format!("{at}{}", self.pick(&["", " DESC", " NULLS FIRST"])))
                .collect();
            text.push_str(&format!(" ORDER BY {}", keys.join(", ")));
            if self.one_in(3) {
                text.push_str(&format!(" LIMIT {}", self.below(8)));
                if self.one_in(2) {
                    text.push_str(&format!(" OFFSET {}", self.below(4)));
                }
            }
        }
        Made { text, is_ordered, columns }
    }

    fn grouped(&mut self, from: &str, filter: &str, scope: &Scope, orders: bool) -> Made {
        let many = self.rng.borrow_mut().usize(0..=2);
        let keys: Vec<String> = (0..many)
            .map(|_| {
                let kind = self.kind();
                self.plain(kind, scope)
            })
            .filter(|key| key.contains('.') && !key.starts_with(|c: char| c.is_ascii_digit() || c == '\''))
            .collect();
        let mut items = keys.clone();
        let many = self.rng.borrow_mut().usize(1..=2);
        for _ in 0..many {
            items.push(self.aggregate(scope));
        }
        let columns = items.len();
        let mut text = format!("SELECT {} FROM {from}{filter}", items.join(", "));
        if !keys.is_empty() {
            text.push_str(&format!(" GROUP BY {}", keys.join(", ")));
        }
        if self.one_in(4) {
            text.push_str(&format!(" HAVING {} > {}", "count(*)", self.below(3)));
        }
        let is_ordered = orders && self.one_in(2);
        if is_ordered {
            let keys: Vec<String> = (1..=columns).map(|at| at.to_string()).collect();
            text.push_str(&format!(" ORDER BY {}", keys.join(", ")));
        }
        Made { text, is_ordered, columns }
    }

    fn aggregate(&mut self, scope: &Scope) -> String {
        let filter = if self.one_in(5) {
            format!(" FILTER (WHERE {})", self.condition(scope, 0))
        } else {
            String::new()
        };
        let distinct = if self.one_in(5) { "DISTINCT " } else { "" };
        match self.below(7) {
            0 => format!("count(*){filter}"),
            1 => {
                let kind = self.kind();
                format!("count({distinct}{}){filter}", self.plain(kind, scope))
            }
            2 => format!("sum({distinct}{}){filter}", self.number(scope)),
            3 => format!("avg({distinct}{}){filter}", self.number(scope)),
            4 => {
                let text = self.plain(Kind::Text, scope);
                format!("string_agg({text}, ',' ORDER BY {text}){filter}")
            }
            5 => format!("bool_or({}){filter}", self.plain(Kind::Bool, scope)),
            _ => {
                let kind =
                    [Kind::Int, Kind::Number, Kind::Text, Kind::Date][self.rng.borrow_mut().usize(..4)];
                let of = self.pick(&["min", "max"]);
                format!("{of}({}){filter}", self.plain(kind, scope))
            }
        }
    }

    fn number(&mut self, scope: &Scope) -> String {
        let kind = if self.one_in(2) { Kind::Int } else { Kind::Number };
        self.plain(kind, scope)
    }

    /// A window over rows in an order without ties, or of which ties do not matter.
    fn window(&mut self, scope: &Scope) -> String {
        let kind = self.kind();
        let (partition, order) = (self.plain(Kind::Int, scope), self.plain(kind, scope));
        let over = match self.below(3) {
            0 => format!("(PARTITION BY {partition} ORDER BY {order})"),
            1 => format!("(ORDER BY {order} DESC)"),
            _ => format!("(PARTITION BY {partition})"),
        };
        let of = match self.below(6) {
            0 => "rank()".to_owned(),
            1 => "dense_rank()".to_owned(),
            2 => "percent_rank()".to_owned(),
            3 => "cume_dist()".to_owned(),
            4 => format!("sum({})", self.number(scope)),
            _ => "count(*)".to_owned(),
        };
        format!("{of} OVER {over}")
    }

    fn column(&mut self, kind: Kind, scope: &Scope) -> Option<String> {
        let mut fits = Vec::new();
        for (alias, columns) in scope {
            fits.extend(columns.iter().filter(|column| column.1 == kind).map(|c| format!("{alias}.{}", c.0)));
        }
        if fits.is_empty() { None } else { Some(fits.swap_remove(self.rng.borrow_mut().usize(..fits.len()))) }
    }

    /// A column or a literal.
    fn plain(&mut self, kind: Kind, scope: &Scope) -> String {
        match self.column(kind, scope) {
            Some(column) => column,
            None => self.literal(kind),
        }
    }

    fn literal(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Int => self.below(10).to_string(),
            Kind::Number => format!("{}.{}", self.below(10), self.pick(&["5", "25", "125", "0"])),
            Kind::Text => {
                format!("'{}'::text", self.pick(&["ant", "bee", "c", "", "x", "xyz"]))
            }
            Kind::Date => format!("date '2024-0{}-11'", self.below(3) + 1),
            Kind::Time => format!("timestamp '2024-01-1{} 03:30:00'", self.below(4)),
            Kind::Bool => self.pick(&["true", "false"]).to_owned(),
            Kind::Float => format!("{}.5::float8", self.below(4)),
            Kind::Interval => format!("interval '{} days'", self.below(3)),
        }
    }

    fn expr(&mut self, kind: Kind, scope: &Scope, depth: u32) -> String {
        if depth == 0 || self.one_in(3) {
            return if self.one_in(8) { self.literal(kind) } else { self.plain(kind, scope) };
        }
        let depth = depth - 1;
        match self.below(5) {
            0 => {
                let (condition, a, b) = (
                    self.condition(scope, depth),
                    self.expr(kind, scope, depth),
                    self.expr(kind, scope, depth),
                );
                format!("CASE WHEN {condition} THEN {a} ELSE {b} END")
            }
            1 => format!("coalesce({}, {})", self.expr(kind, scope, depth), self.literal(kind)),
            2 if depth > 0 || self.one_in(2) => self.scalar(kind, scope),
            _ => self.operator(kind, scope, depth),
        }
    }

    /// A sub-query of one value.
    fn scalar(&mut self, kind: Kind, scope: &Scope) -> String {
        let of = match kind {
            Kind::Bool => "bool_and",
            _ => self.pick(&["min", "max"]),
        };
        let (from, own) = self.from(scope, 0);
        let mut both = own;
        both.extend(scope.iter().cloned());
        let (value, filter) = (self.plain(kind, &both[..1].to_vec()), self.condition(&both, 0));
        format!("(SELECT {of}({value}) FROM {from} WHERE {filter})")
    }

    fn operator(&mut self, kind: Kind, scope: &Scope, depth: u32) -> String {
        let a = self.expr(kind, scope, depth);
        match kind {
            Kind::Int | Kind::Number => {
                let b = self.expr(kind, scope, depth);
                match self.below(6) {
                    0 => format!("({a} + {b})"),
                    1 => format!("({a} - {b})"),
                    2 => format!("({a} * {})", self.below(4)),
                    3 => format!("({a} / {})", self.below(4) + 1),
                    4 => format!("abs({a})"),
                    _ => format!("(-{a})"),
                }
            }
            Kind::Text => match self.below(4) {
                0 => format!("upper({a})"),
                1 => format!("({a} || '-')"),
                2 => format!("substring({a} from 2)"),
                _ => format!("replace({a}, 'a', 'oo')"),
            },
            Kind::Date => format!("({a} + {})", self.below(40)),
            Kind::Time => format!("({a} + interval '90 minutes')"),
            Kind::Float => format!("({a} * 2)"),
            Kind::Bool => format!("(NOT {a})"),
            Kind::Interval => format!("({a} + interval '1 hour')"),
        }
    }

    fn condition(&mut self, scope: &Scope, depth: u32) -> String {
        if depth > 0 && self.one_in(2) {
            let depth = depth - 1;
            return match self.below(6) {
                0 => format!("({} AND {})", self.condition(scope, depth), self.condition(scope, depth)),
                1 => format!("({} OR {})", self.condition(scope, depth), self.condition(scope, depth)),
                2 => format!("NOT ({})", self.condition(scope, depth)),
                3 => {
                    let kind = [Kind::Int, Kind::Text, Kind::Number][self.rng.borrow_mut().usize(..3)];
                    let not = self.pick(&["", "NOT "]);
                    let (value, query) = (self.plain(kind, scope), self.column_from(kind, scope, depth));
                    format!("{value} {not}IN ({query})")
                }
                4 => {
                    let not = self.pick(&["", "NOT "]);
                    let query = self.column_from(Kind::Int, scope, depth);
                    format!("{not}EXISTS ({query})")
                }
                _ => {
                    let op = self.pick(&["<", ">=", "=", "<>"]);
                    let of = self.pick(&["ANY", "ALL"]);
                    let (value, query) =
                        (self.plain(Kind::Int, scope), self.column_from(Kind::Int, scope, depth));
                    format!("{value} {op} {of} ({query})")
                }
            };
        }
        let kind = self.kind();
        let a = self.plain(kind, scope);
        match self.below(6) {
            0 => format!("{a} IS NULL"),
            1 => format!("{a} IS NOT NULL"),
            2 => format!("{a} IN ({}, {})", self.literal(kind), self.literal(kind)),
            3 => format!("{a} IS DISTINCT FROM {}", self.plain(kind, scope)),
            4 if kind == Kind::Text => format!("{a} LIKE '%{}%'", self.pick(&["a", "e", "t", "_"])),
            _ => {
                let op = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
                let b = if self.one_in(2) { self.literal(kind) } else { self.plain(kind, scope) };
                format!("{a} {op} {b}")
            }
        }
    }
}

struct Made {
    text: String,
    is_ordered: bool,
    columns: usize,
}
