//! What the server counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Totals since the server's start.
#[derive(Default, Debug)]
pub struct Counters {
    pub connections: AtomicU64,
    pub refused: AtomicU64,
    pub statements: AtomicU64,
    pub commits: AtomicU64,
    pub rollbacks: AtomicU64,
    pub errors: AtomicU64,
    pub retries: AtomicU64,
}

impl Counters {
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// In the text format of Prometheus; `sessions` is the number of connected clients.
    pub fn text(&self, sessions: usize) -> String {
        let totals = [
            ("connections", "Clients that connected.", &self.connections),
            ("connections_refused", "Clients that were refused.", &self.refused),
            ("statements", "Statements of clients.", &self.statements),
            ("commits", "Transactions that committed.", &self.commits),
            ("rollbacks", "Transactions that were rolled back.", &self.rollbacks),
            ("errors", "Errors that clients got.", &self.errors),
            ("retries", "Statements run again after a conflict.", &self.retries),
        ];
        let mut text = String::new();
        for (name, help, counter) in totals {
            let value = counter.load(Ordering::Relaxed);
            text += &format!(
                "# HELP atoll_{name}_total {help}\n# TYPE atoll_{name}_total counter\natoll_{name}_total {value}\n"
            );
        }
        text + &format!(
            "# HELP atoll_sessions Connected clients.\n# TYPE atoll_sessions gauge\natoll_sessions {sessions}\n"
        )
    }
}
