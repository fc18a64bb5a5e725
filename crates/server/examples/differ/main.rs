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

mod draw;
mod query;

use draw::Draw;
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::BTreeMap;
use std::process::ExitCode;

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
    /// Runs a statement on both; returns whether it failed or was refused.
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
            return Ok(true);
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

/// Tables, indexes and views.
fn schema(pair: &mut Pair, draw: &mut Draw) -> Result<(), String> {
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
    for i in 0..draw.random.usize(..4) {
        let (text, view) = draw.create_view(i);
        if !pair.compare(&text, true, false)? {
            draw.views.push(view);
        }
    }
    Ok(())
}

/// One schema with some hundred statements over it.
fn round(pair: &mut Pair, seed: u64, statements: u64) -> Result<(), String> {
    let mut draw = Draw::new(seed);
    schema(pair, &mut draw)?;
    if draw.tables.is_empty() {
        return Ok(());
    }
    let mut done = 0;
    while done < statements {
        if draw.chance(2) {
            made(pair, &mut draw)?;
        }
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
    while let Some(view) = draw.views.pop() {
        pair.compare(&format!("SELECT * FROM {}", view.text), false, false)?;
        pair.compare(&format!("DROP VIEW {}", view.text), true, false)?;
    }
    for i in 0..draw.tables.len() {
        let name = draw.tables[i].name.clone();
        pair.compare(&format!("SELECT * FROM {name}"), false, false)?;
        pair.compare(&format!("DROP TABLE {name}"), true, false)?;
    }
    Ok(())
}

/// A table made of a query, read and dropped.
fn made(pair: &mut Pair, draw: &mut Draw) -> Result<(), String> {
    let query = draw.query(1);
    if !pair.compare(&format!("CREATE TABLE made AS {}", query.text), true, false)? {
        pair.compare("SELECT * FROM made", false, false)?;
        pair.compare("DROP TABLE made", true, false)?;
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
            .batch_execute("DROP VIEW IF EXISTS w3, w2, w1, w0; DROP TABLE IF EXISTS t0, t1, t2, t3, made")
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
