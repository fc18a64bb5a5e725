//! Random schemas and statements, drawn from a seed.

use super::query::Source;
use fastrand::Rng;

/// The kinds of columns, as in `CREATE TABLE`.
const TYPES: [&str; 12] = [
    "int",
    "bigint",
    "smallint",
    "text",
    "varchar(8)",
    "char(4)",
    "numeric(10,2)",
    "numeric",
    "boolean",
    "date",
    "timestamp",
    "double precision",
];

#[derive(Clone)]
pub struct Column {
    pub name: String,
    pub ty: &'static str,
}

pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// The number of leading columns that are the primary key.
    pub key: usize,
}

pub struct Draw {
    pub random: Rng,
    pub tables: Vec<Table>,
    /// The views that stand.
    pub views: Vec<Source>,
    /// Names that were given out.
    pub names: usize,
}

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw { random: Rng::with_seed(seed), tables: Vec::new(), views: Vec::new(), names: 0 }
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.usize(..of.len())]
    }

    pub fn chance(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    fn literal(&mut self, ty: &str) -> String {
        if self.chance(8) {
            return "NULL".into();
        }
        let small = self.random.i32(-5..30);
        match ty {
            "int" | "bigint" | "smallint" => small.to_string(),
            "text" | "varchar(8)" | "char(4)" => {
                let words = ["a", "b", "ab", "B", "", "zz", "a b", "x'y", "ä", "abcd", "100%"];
                format!("'{}'", self.pick(&words).replace('\'', "''"))
            }
            "numeric(10,2)" | "numeric" => format!("{}.{:02}", small, self.random.u32(..100)),
            "boolean" => (*self.pick(&["true", "false"])).into(),
            "date" => format!("'2024-{:02}-{:02}'", self.random.u32(1..13), self.random.u32(1..29)),
            "timestamp" => {
                format!("'2024-03-{:02} {:02}:30:00'", self.random.u32(1..29), self.random.u32(..24))
            }
            _ => format!("{}.5", small),
        }
    }

    /// A definition of a table, which the caller runs on both servers.
    pub fn create(&mut self, number: usize) -> String {
        let count = self.random.usize(2..7);
        let key = [0, 1, 1, 1, 2][self.random.usize(..5)].min(count);
        let mut columns = Vec::new();
        for i in 0..count {
            let ty = if i < key && self.chance(80) { "int" } else { *self.pick(&TYPES) };
            columns.push(Column { name: format!("c{i}"), ty });
        }
        let mut parts: Vec<String> = Vec::new();
        for (i, column) in columns.iter().enumerate() {
            let mut part = format!("{} {}", column.name, column.ty);
            if i >= key && self.random.u32(..100) < 15 {
                part += " NOT NULL";
            }
            if i >= key && self.random.u32(..100) < 15 {
                let default = self.literal(column.ty);
                part += &format!(" DEFAULT {default}");
            }
            parts.push(part);
        }
        if key > 0 {
            let names: Vec<&str> = columns[..key].iter().map(|c| c.name.as_str()).collect();
            parts.push(format!("PRIMARY KEY ({})", names.join(", ")));
        }
        let ints: Vec<String> = columns.iter().filter(|c| c.ty == "int").map(|c| c.name.clone()).collect();
        if !ints.is_empty() && self.chance(20) {
            let column = self.pick(&ints).clone();
            parts.push(format!("CHECK ({column} < 28)"));
        }
        let table = Table { name: format!("t{number}"), columns, key };
        let text = format!("CREATE TABLE {} ({})", table.name, parts.join(", "));
        self.tables.push(table);
        text
    }

    pub fn create_index(&mut self, number: usize) -> String {
        let at = self.random.usize(..self.tables.len());
        let count = self.tables[at].columns.len();
        let (first, second) = (self.random.usize(..count), self.random.usize(..count));
        let unique = if self.chance(25) { "UNIQUE " } else { "" };
        let table = &self.tables[at];
        let mut names = vec![table.columns[first].name.clone()];
        if second != first {
            names.push(table.columns[second].name.clone());
        }
        format!("CREATE {unique}INDEX i{number} ON {} ({})", table.name, names.join(", "))
    }

    /// A condition on columns of a source, each with `prefix` before its name.
    pub fn condition(&mut self, source: &Source, prefix: &str) -> String {
        let key = source.key;
        let count = source.columns.len();
        let i =
            if key > 0 && self.chance(50) { self.random.usize(..key) } else { self.random.usize(..count) };
        let (name, ty) = (format!("{prefix}{}", source.columns[i].name), source.columns[i].ty);
        let one = self.literal(ty);
        match self.random.u32(..9) {
            0..3 => format!("{name} = {one}"),
            3 => format!("{name} BETWEEN {one} AND {}", self.literal(ty)),
            4 => format!("{name} IN ({one}, {}, {})", self.literal(ty), self.literal(ty)),
            5 => format!("{name} {} {one}", self.pick(&["<", "<=", ">", ">=", "<>"])),
            6 => format!("{name} IS {}NULL", self.pick(&["", "NOT "])),
            7 => format!("({} AND {})", self.condition(source, prefix), self.condition(source, prefix)),
            _ => format!("({} OR {})", self.condition(source, prefix), self.condition(source, prefix)),
        }
    }

    /// ` WHERE` with a condition, or nothing.
    pub fn filter(&mut self, source: &Source, prefix: &str) -> String {
        if self.chance(15) { String::new() } else { format!(" WHERE {}", self.condition(source, prefix)) }
    }

    fn expression(&mut self, source: &Source, prefix: &str) -> String {
        let column = self.pick(&source.columns).clone();
        let (name, ty) = (format!("{prefix}{}", column.name), column.ty);
        match ty {
            "int" | "bigint" | "smallint" | "numeric" | "numeric(10,2)" => match self.random.u32(..6) {
                0 => format!("{name} + {}", self.random.i32(-3..9)),
                1 => format!("{name} * 3 - 1"),
                2 => format!("{name} / {}", self.random.i32(0..4)),
                3 => format!("coalesce({name}, 0) % 7"),
                4 => format!("CASE WHEN {name} > 5 THEN 'more' ELSE 'less' END"),
                _ => name,
            },
            "text" | "varchar(8)" | "char(4)" => match self.random.u32(..5) {
                0 => format!("{name} || '!'"),
                1 => format!("upper({name})"),
                2 => format!("length({name})"),
                3 => format!("{name} LIKE '%a%'"),
                _ => name,
            },
            "date" => {
                (*self.pick(&["#", "# + 3", "extract(month from #)", "#::timestamp"])).replace('#', &name)
            }
            _ => name,
        }
    }

    /// A statement, and whether its rows are ordered completely.
    pub fn statement(&mut self) -> (String, bool) {
        let at = self.random.usize(..self.tables.len());
        match self.random.u32(..100) {
            0..32 => self.insert(at),
            32..44 => self.update(at),
            44..52 => {
                let table = self.table(at);
                let filter = format!(" WHERE {}", self.condition(&table, ""));
                let returning = self.returning();
                (format!("DELETE FROM {}{filter}{returning}", self.tables[at].name), false)
            }
            52..68 => self.select(at),
            68..84 => self.nested(),
            84..91 => self.aggregate(),
            91..94 => self.locking(at),
            _ => self.join(at),
        }
    }

    fn returning(&mut self) -> &'static str {
        if self.chance(20) { " RETURNING *" } else { "" }
    }

    fn insert(&mut self, at: usize) -> (String, bool) {
        let types: Vec<&str> = self.tables[at].columns.iter().map(|c| c.ty).collect();
        let rows: Vec<String> = (0..self.random.usize(1..4))
            .map(|_| {
                let values: Vec<String> = types.iter().map(|ty| self.literal(ty)).collect();
                format!("({})", values.join(", "))
            })
            .collect();
        let table = &self.tables[at];
        let (name, key) = (table.name.clone(), table.key);
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        let conflict = match self.random.u32(..10) {
            0 if key > 0 => " ON CONFLICT DO NOTHING".to_string(),
            1 if key > 0 && key < names.len() => format!(
                " ON CONFLICT ({}) DO UPDATE SET {} = excluded.{}",
                names[..key].join(", "),
                names[key],
                names[key]
            ),
            _ => String::new(),
        };
        (format!("INSERT INTO {name} VALUES {}{conflict}{}", rows.join(", "), self.returning()), false)
    }

    fn update(&mut self, at: usize) -> (String, bool) {
        let i = self.random.usize(..self.tables[at].columns.len());
        let (column, ty) = (self.tables[at].columns[i].name.clone(), self.tables[at].columns[i].ty);
        let value = match ty {
            "int" | "bigint" | "numeric" if self.chance(60) => format!("{column} + 1"),
            _ => self.literal(ty),
        };
        // Rows that move onto each other's keys meet in an order that is not defined.
        let filter = if i < self.tables[at].key {
            let key = self.tables[at].columns[0].name.clone();
            format!(" WHERE {key} = {}", self.literal(self.tables[at].columns[0].ty))
        } else {
            let table = self.table(at);
            self.filter(&table, "")
        };
        let returning = self.returning();
        let name = &self.tables[at].name;
        (format!("UPDATE {name} SET {column} = {value}{filter}{returning}"), false)
    }

    fn select(&mut self, at: usize) -> (String, bool) {
        let source = if self.chance(50) { self.table(at) } else { self.source(1) };
        let filter = self.filter(&source, "");
        let all: Vec<String> = source.columns.iter().map(|c| c.name.clone()).collect();
        let name = source.text.clone();
        if self.chance(40) {
            let down = if self.chance(50) { " DESC" } else { "" };
            let order: Vec<String> = all.iter().map(|c| format!("{c}{down}")).collect();
            let limit = if self.chance(50) {
                format!(" LIMIT {} OFFSET {}", self.random.u32(..8), self.random.u32(..3))
            } else {
                String::new()
            };
            return (format!("SELECT * FROM {name}{filter} ORDER BY {}{limit}", order.join(", ")), true);
        }
        let distinct = if self.chance(10) { "DISTINCT " } else { "" };
        let what: Vec<String> = (0..self.random.usize(1..4)).map(|_| self.expression(&source, "")).collect();
        (format!("SELECT {distinct}{} FROM {name}{filter}", what.join(", ")), false)
    }

    fn join(&mut self, at: usize) -> (String, bool) {
        let other = self.random.usize(..self.tables.len());
        let keys: Vec<String> =
            self.tables[at].columns.iter().filter(|c| c.ty == "int").map(|c| c.name.clone()).collect();
        let others: Vec<String> =
            self.tables[other].columns.iter().filter(|c| c.ty == "int").map(|c| c.name.clone()).collect();
        if keys.is_empty() || others.is_empty() {
            return self.select(at);
        }
        let (left, right) = (self.pick(&keys).clone(), self.pick(&others).clone());
        let kind = if self.chance(30) { "LEFT JOIN" } else { "JOIN" };
        let (a, b) = (self.tables[at].name.clone(), self.tables[other].name.clone());
        let (one, two) = (self.table(at), self.table(other));
        let filter = self.filter(&one, "a.");
        let what = [self.expression(&one, "a."), self.expression(&two, "b.")].join(", ");
        (format!("SELECT {what} FROM {a} a {kind} {b} b ON a.{left} = b.{right}{filter}"), false)
    }
}
