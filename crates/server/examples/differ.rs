//! Runs random schemas, statements and transactions on two servers that speak PostgreSQL's
//! protocol, and compares their answers.
//!
//! ```text
//! cargo run -p server --example differ -- ATOLL POSTGRES [STATEMENTS] [SEED]
//! ```
//!
//! `ATOLL` and `POSTGRES` are connection strings (`host=127.0.0.1 port=5433 user=atoll
//! dbname=atoll`). Everything is drawn from the seed, so a difference can be repeated. Rows are
//! compared in order where the statement orders them completely, else sorted. Of errors the
//! SQLSTATE is compared. What Atoll refuses as not supported (0A000) is counted by itself.

use fastrand::Rng;
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::BTreeMap;
use std::process::ExitCode;

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

struct Column {
    name: String,
    ty: &'static str,
}

struct Table {
    name: String,
    columns: Vec<Column>,
    /// The number of leading columns that are the primary key.
    key: usize,
}

struct Draw {
    random: Rng,
    tables: Vec<Table>,
}

impl Draw {
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.random.usize(..of.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
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
    fn create(&mut self, number: usize) -> String {
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

    fn create_index(&mut self, number: usize) -> String {
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

    fn condition(&mut self, at: usize, prefix: &str) -> String {
        let count = self.tables[at].columns.len();
        let key = self.tables[at].key;
        let i =
            if key > 0 && self.chance(50) { self.random.usize(..key) } else { self.random.usize(..count) };
        let (name, ty) =
            (format!("{prefix}{}", self.tables[at].columns[i].name), self.tables[at].columns[i].ty);
        let one = self.literal(ty);
        match self.random.u32(..9) {
            0..3 => format!("{name} = {one}"),
            3 => format!("{name} BETWEEN {one} AND {}", self.literal(ty)),
            4 => format!("{name} IN ({one}, {}, {})", self.literal(ty), self.literal(ty)),
            5 => format!("{name} {} {one}", self.pick(&["<", "<=", ">", ">=", "<>"])),
            6 => format!("{name} IS {}NULL", self.pick(&["", "NOT "])),
            7 => format!("({} AND {})", self.condition(at, prefix), self.condition(at, prefix)),
            _ => format!("({} OR {})", self.condition(at, prefix), self.condition(at, prefix)),
        }
    }

    fn filter(&mut self, at: usize, prefix: &str) -> String {
        if self.chance(15) { String::new() } else { format!(" WHERE {}", self.condition(at, prefix)) }
    }

    fn expression(&mut self, at: usize, prefix: &str) -> String {
        let count = self.tables[at].columns.len();
        let i = self.random.usize(..count);
        let (name, ty) =
            (format!("{prefix}{}", self.tables[at].columns[i].name), self.tables[at].columns[i].ty);
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
    fn statement(&mut self) -> (String, bool) {
        let at = self.random.usize(..self.tables.len());
        match self.random.u32(..100) {
            0..32 => self.insert(at),
            32..44 => self.update(at),
            44..52 => {
                let filter = format!(" WHERE {}", self.condition(at, ""));
                let returning = self.returning();
                (format!("DELETE FROM {}{filter}{returning}", self.tables[at].name), false)
            }
            52..84 => self.select(at),
            84..93 => self.aggregate(at),
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
            self.filter(at, "")
        };
        let returning = self.returning();
        let name = &self.tables[at].name;
        (format!("UPDATE {name} SET {column} = {value}{filter}{returning}"), false)
    }

    fn select(&mut self, at: usize) -> (String, bool) {
        let filter = self.filter(at, "");
        let all: Vec<String> = self.tables[at].columns.iter().map(|c| c.name.clone()).collect();
        let name = self.tables[at].name.clone();
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
        let what: Vec<String> = (0..self.random.usize(1..4)).map(|_| self.expression(at, "")).collect();
        (format!("SELECT {distinct}{} FROM {name}{filter}", what.join(", ")), false)
    }

    fn aggregate(&mut self, at: usize) -> (String, bool) {
        let filter = self.filter(at, "");
        let name = self.tables[at].name.clone();
        let i = self.random.usize(..self.tables[at].columns.len());
        let (column, ty) = (self.tables[at].columns[i].name.clone(), self.tables[at].columns[i].ty);
        let of = match ty {
            "int" | "bigint" | "smallint" | "numeric" | "numeric(10,2)" => {
                format!("sum({column}), avg({column}), min({column}), max({column})")
            }
            "boolean" => format!("count({column}), bool_and({column}), bool_or({column})"),
            _ => format!("count({column}), count(DISTINCT {column}), min({column}), max({column})"),
        };
        if self.chance(50) {
            let j = self.random.usize(..self.tables[at].columns.len());
            let by = self.tables[at].columns[j].name.clone();
            let having = if self.chance(30) { " HAVING count(*) > 1" } else { "" };
            return (format!("SELECT {by}, count(*), {of} FROM {name}{filter} GROUP BY {by}{having}"), false);
        }
        (format!("SELECT count(*), {of} FROM {name}{filter}"), false)
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
        let filter = self.filter(at, "a.");
        let what = [self.expression(at, "a."), self.expression(other, "b.")].join(", ");
        (format!("SELECT {what} FROM {a} a {kind} {b} b ON a.{left} = b.{right}{filter}"), false)
    }
}

/// An answer in a form that can be compared.
#[derive(Clone, PartialEq, Debug)]
enum Answered {
    Rows(Vec<Vec<Option<String>>>),
    Count(u64),
    Failed(String),
}

fn ask(client: &mut Client, statement: &str, is_ordered: bool) -> Result<Answered, String> {
    let messages = match client.simple_query(statement) {
        Ok(messages) => messages,
        Err(error) => match error.code() {
            Some(code) => return Ok(Answered::Failed(code.code().into())),
            None => return Err(format!("{error}")),
        },
    };
    let (mut rows, mut count, mut has_rows) = (Vec::new(), 0, false);
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => has_rows = true,
            SimpleQueryMessage::Row(row) => {
                rows.push((0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect::<Vec<_>>());
            }
            SimpleQueryMessage::CommandComplete(n) => count = n,
            _ => {}
        }
    }
    if !has_rows {
        return Ok(Answered::Count(count));
    }
    if !is_ordered {
        rows.sort();
    }
    Ok(Answered::Rows(rows))
}

struct Pair {
    atoll: Client,
    other: Client,
    differences: u64,
    refused: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
    asked: u64,
}

impl Pair {
    /// Runs a statement on both; returns whether it failed.
    fn compare(&mut self, statement: &str, is_ordered: bool, in_block: bool) -> Result<bool, String> {
        self.asked += 1;
        let of_atoll = ask(&mut self.atoll, statement, is_ordered)?;
        if of_atoll == Answered::Failed("0A000".into()) {
            let word: String = statement.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
            *self.refused.entry(word).or_default() += 1;
            if in_block {
                // The other block has to fail too.
                ask(&mut self.other, "SELECT 1 / 0", true)?;
            }
            return Ok(in_block);
        }
        let of_other = ask(&mut self.other, statement, is_ordered)?;
        if of_atoll != of_other {
            self.differences += 1;
            println!(
                "difference {}: {statement}\n  atoll: {}\n  other: {}",
                self.differences,
                short(&of_atoll),
                short(&of_other)
            );
        }
        let has_failed = matches!(of_atoll, Answered::Failed(_)) || matches!(of_other, Answered::Failed(_));
        if let Answered::Failed(code) = of_other {
            *self.failed.entry(code).or_default() += 1;
        }
        Ok(has_failed)
    }
}

fn short(answered: &Answered) -> String {
    let text = format!("{answered:?}");
    if text.chars().count() > 600 { text.chars().take(600).collect::<String>() + " ..." } else { text }
}

/// One schema with some hundred statements over it.
fn round(pair: &mut Pair, seed: u64, statements: u64) -> Result<(), String> {
    let mut draw = Draw { random: Rng::with_seed(seed), tables: Vec::new() };
    for i in 0..draw.random.usize(1..4) {
        let text = draw.create(i);
        if pair.compare(&text, true, false)? {
            draw.tables.pop();
        }
    }
    if draw.tables.is_empty() {
        return Ok(());
    }
    for i in 0..draw.random.usize(..4) {
        let text = draw.create_index(i);
        pair.compare(&text, true, false)?;
    }
    let mut done = 0;
    while done < statements {
        let is_block = draw.chance(25);
        let count = if is_block { draw.random.u64(1..8) } else { 1 };
        if is_block {
            pair.compare("BEGIN", true, false)?;
        }
        let mut savepoint = false;
        for _ in 0..count {
            done += 1;
            if is_block && draw.chance(15) {
                pair.compare("SAVEPOINT s", true, true)?;
                savepoint = true;
            }
            let (text, is_ordered) = draw.statement();
            if pair.compare(&text, is_ordered, is_block)? && is_block {
                if !savepoint {
                    break;
                }
                // A statement that only one of them ran leaves both where the savepoint was.
                pair.compare("ROLLBACK TO s", true, true)?;
            }
        }
        if is_block {
            let end = if draw.chance(75) { "COMMIT" } else { "ROLLBACK" };
            pair.compare(end, true, false)?;
        }
    }
    for i in 0..draw.tables.len() {
        let name = draw.tables[i].name.clone();
        pair.compare(&format!("SELECT * FROM {name}"), false, false)?;
        pair.compare(&format!("DROP TABLE {name}"), true, false)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(atoll), Some(other)) = (args.first(), args.get(1)) else {
        eprintln!("usage: differ ATOLL POSTGRES [STATEMENTS] [SEED], with connection strings as of libpq");
        return ExitCode::from(2);
    };
    let number = |at: usize, default| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    let (statements, seed): (u64, u64) = (number(2, 10_000), number(3, 1));
    let connect = |to: &str| {
        let mut client = Client::connect(to, NoTls).map_err(|error| format!("{to}: {error}"))?;
        client
            .batch_execute("DROP TABLE IF EXISTS t0, t1, t2, t3")
            .map_err(|error| format!("{to}: {error}"))?;
        Ok::<_, String>(client)
    };
    let run = || {
        let (atoll, other) = (connect(atoll)?, connect(other)?);
        let none = BTreeMap::new();
        let mut pair = Pair { atoll, other, differences: 0, refused: none.clone(), failed: none, asked: 0 };
        let mut number = seed;
        while pair.asked < statements {
            if let Err(why) = round(&mut pair, number, 150) {
                return Err(format!("schema {number}: {why}"));
            }
            number += 1;
        }
        println!(
            "{} statements over {} schemas from seed {seed}: {} differences; refused by atoll as not supported: {:?}; errors of both: {:?}",
            pair.asked,
            number - seed,
            pair.differences,
            pair.refused,
            pair.failed
        );
        Ok(pair.differences)
    };
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
