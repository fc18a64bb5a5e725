//! How far things are, on standard error: a bar when it is a terminal, plain lines else.

use driver::Watcher;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar's length; its position is a share of it.
const STEPS: u64 = 1000;
/// Plain lines are for logs: one at each change of row, and one this often within it.
const LINE_EVERY: Duration = Duration::from_secs(10);

pub struct Progress {
    bar: Option<ProgressBar>,
    rows: usize,
    row: usize,
    what: String,
    said: Instant,
}

impl Progress {
    pub fn new(rows: usize) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg}");
            let bar = ProgressBar::new(STEPS);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Progress { bar, rows, row: 0, what: String::new(), said: Instant::now() }
    }

    /// The next row begins.
    pub fn next(&mut self, what: &str) {
        self.row += 1;
        self.what = what.into();
        self.said = Instant::now();
        match &self.bar {
            Some(bar) => bar.set_prefix(format!("{}/{} {what}", self.row, self.rows)),
            None => eprintln!("{}/{} {what}", self.row, self.rows),
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Prints to standard output without tearing the bar.
    pub fn suspend<T>(&self, f: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(f),
            None => f(),
        }
    }
}

impl Watcher for Progress {
    fn progress(&mut self, phase: &str, share: f64) {
        match &self.bar {
            Some(bar) => {
                let row = self.row.saturating_sub(1) as f64 + share.clamp(0.0, 1.0);
                bar.set_position((row / self.rows.max(1) as f64 * STEPS as f64) as u64);
                bar.set_message(phase.to_string());
            }
            None if self.said.elapsed() >= LINE_EVERY => {
                self.said = Instant::now();
                eprintln!("{}/{} {}: {phase}, {:.0} %", self.row, self.rows, self.what, share * 100.0);
            }
            None => {}
        }
    }

    fn warn(&mut self, text: &str) {
        self.suspend(|| eprintln!("atoll: warning: {text}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
