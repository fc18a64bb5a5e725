//! PostgreSQL.

use crate::script::Answer;
use postgres::{Client, NoTls, SimpleQueryMessage};

/// A server, as the variable `ATOLL_TEST_POSTGRESQL` names it: `host=... port=... user=...`.
pub struct Server {
    connection: String,
}

pub struct Connection(Client);

impl Server {
    pub fn find() -> Option<Server> {
        Some(Server { connection: std::env::var("ATOLL_TEST_POSTGRESQL").ok()? })
    }

    /// An empty database.
    pub fn renew(&self, name: &str) -> Connection {
        let connect = |database: &str| {
            Client::connect(&format!("{} dbname={database}", self.connection), NoTls).expect("PostgreSQL")
        };
        let mut admin = connect("postgres");
        for text in [format!("DROP DATABASE IF EXISTS {name}"), format!("CREATE DATABASE {name}")] {
            admin.batch_execute(&text).expect("a database");
        }
        Connection(connect(name))
    }
}

impl Connection {
    pub fn run(&mut self, text: &str) -> Answer {
        let messages = self
            .0
            .simple_query(text)
            .map_err(|error| error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()))?;
        // A `char(n)` that became another type has no blanks at its end in Atoll: none are
        // compared.
        let value = |value: Option<&str>| match value.map(|text| text.trim_end_matches(' ')) {
            None => "NULL".to_owned(),
            Some("") => "(empty)".to_owned(),
            Some(text) => text.to_owned(),
        };
        let rows = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| value(row.get(at)))),
            _ => None,
        });
        Ok(rows.map(|row| row.collect::<Vec<_>>().join(" ")).collect())
    }
}
