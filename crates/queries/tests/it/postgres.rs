//! PostgreSQL by `psql`.

use crate::script::Answer;
use std::process::Command;

/// A server, as the variable `ATOLL_TEST_POSTGRESQL` names it: `host=... port=... user=...`.
pub struct Server {
    connection: String,
}

impl Server {
    pub fn find() -> Option<Server> {
        let connection = std::env::var("ATOLL_TEST_POSTGRESQL").ok()?;
        Some(Server { connection: format!("{connection} dbname=atoll_scripts") })
    }

    /// An empty database.
    pub fn renew(&self) {
        let admin = self.connection.replace("dbname=atoll_scripts", "dbname=postgres");
        for text in ["DROP DATABASE IF EXISTS atoll_scripts", "CREATE DATABASE atoll_scripts"] {
            let made = Command::new("psql").args(["-X", "-q", "-c", text, &admin]).status();
            assert!(made.is_ok_and(|status| status.success()), "{text}");
        }
    }

    pub fn run(&self, text: &str) -> Answer {
        let output = Command::new("psql")
            .args([
                "-X",
                "-A",
                "-t",
                "-q",
                "-F",
                " ",
                "-P",
                "null=NULL",
                "-v",
                "VERBOSITY=sqlstate",
                "-c",
                text,
            ])
            .arg(&self.connection)
            .output()
            .expect("psql");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if let Some(code) = errors.split("ERROR:").nth(1) {
            return Err(code.trim().to_owned());
        }
        Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
    }
}
