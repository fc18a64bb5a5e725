//! How far things are, on standard error: a dashboard where one was asked for, else a bar when it is a terminal, plain lines
//! when it is not.

use crate::failure::Failure;
use crate::watch::{Dashboard, Screen};
use deploy::Interrupt;
use driver::{Measured, Sampling, Watcher};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use world::tell;

/// A bar's length; its position is a share of it.
const STEPS: u64 = 1000;
/// Plain lines are for logs: one at each change of row, and one this often within it.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The dashboard is drawn anew at most this often, unless there is news of a second.
const DRAW_EVERY: Duration = Duration::from_millis(200);

pub struct Progress {
    face: Face,
    rows: usize,
    row: usize,
    what: String,
    said: Instant,
}

enum Face {
    Lines,
    Bar(ProgressBar),
    Watch(Box<Watch>),
}

/// The dashboard and where it is drawn.
struct Watch {
    screen: Screen,
    dashboard: Dashboard,
    interrupt: Interrupt,
    /// Said while the dashboard hid it.
    warnings: Vec<String>,
}

impl Watch {
    /// Nothing depends on the picture: a terminal that is gone is left alone. An interrupted run gives it back at once, since a
    /// second Ctrl-C ends the process on the spot.
    fn draw(&mut self) {
        if self.interrupt.is_set() || self.screen.draw(|frame| self.dashboard.draw(frame)).is_err() {
            self.screen.leave();
        }
    }
}

impl Progress {
    pub fn new(rows: usize) -> Progress {
        let face = if std::io::stderr().is_terminal() {
            let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg}");
            let bar = ProgressBar::new(STEPS);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            Face::Bar(bar)
        } else {
            Face::Lines
        };
        Progress { face, rows, row: 0, what: String::new(), said: Instant::now() }
    }

    /// With a dashboard.
    ///
    /// # Errors
    /// If standard error is no terminal.
    pub fn watching(rows: usize, interrupt: &Interrupt) -> Result<Progress, Failure> {
        let watch = Watch {
            screen: Screen::new()?,
            dashboard: Dashboard::new(rows),
            interrupt: interrupt.clone(),
            warnings: Vec::new(),
        };
        let (face, said) = (Face::Watch(Box::new(watch)), Instant::now());
        Ok(Progress { face, rows, row: 0, what: String::new(), said })
    }

    /// The next row begins.
    pub fn next(&mut self, what: &str) {
        self.row += 1;
        self.what = what.into();
        self.said = Instant::now();
        match &mut self.face {
            Face::Bar(bar) => bar.set_prefix(format!("{}/{} {what}", self.row, self.rows)),
            Face::Lines => tell(format_args!("{}/{} {what}", self.row, self.rows)),
            Face::Watch(watch) => {
                watch.dashboard.next(self.row, what);
                watch.draw();
            }
        }
    }

    /// A row is done, with so much a second.
    pub fn done(&mut self, result: &str) {
        if let Face::Watch(watch) = &mut self.face {
            watch.dashboard.finished(format!("{}: {result}", self.what));
        }
    }

    pub fn finish(&mut self) {
        match &mut self.face {
            Face::Bar(bar) => bar.finish_and_clear(),
            Face::Lines => {}
            Face::Watch(watch) => {
                watch.screen.leave();
                watch.warnings.drain(..).for_each(|text| tell(format_args!("atoll: warning: {text}")));
            }
        }
    }

    /// Prints to standard output without tearing what is on the terminal.
    pub fn suspend<T>(&mut self, f: impl FnOnce() -> T) -> T {
        match &mut self.face {
            Face::Bar(bar) => bar.suspend(f),
            Face::Lines => f(),
            Face::Watch(watch) => {
                // Rows for a terminal belong on its ordinary screen; for a file they do not disturb the picture.
                if std::io::stdout().is_terminal() {
                    watch.screen.leave();
                }
                f()
            }
        }
    }
}

impl Watcher for Progress {
    fn progress(&mut self, phase: &str, share: f64) {
        match &mut self.face {
            Face::Bar(bar) => {
                let row = self.row.saturating_sub(1) as f64 + share.clamp(0.0, 1.0);
                bar.set_position((row / self.rows.max(1) as f64 * STEPS as f64) as u64);
                bar.set_message(phase.to_string());
            }
            Face::Lines if self.said.elapsed() >= LINE_EVERY => {
                self.said = Instant::now();
                let (row, rows, what) = (self.row, self.rows, &self.what);
                tell(format_args!("{row}/{rows} {what}: {phase}, {:.0} %", share * 100.0));
            }
            Face::Lines => {}
            Face::Watch(watch) => {
                watch.dashboard.progress(phase, share);
                if watch.interrupt.is_set() || self.said.elapsed() >= DRAW_EVERY {
                    self.said = Instant::now();
                    watch.draw();
                }
            }
        }
    }

    fn warn(&mut self, text: &str) {
        match &mut self.face {
            Face::Watch(watch) => watch.warnings.push(text.into()),
            _ => self.suspend(|| tell(format_args!("atoll: warning: {text}"))),
        }
    }

    fn sampling(&self) -> Sampling {
        if matches!(self.face, Face::Watch(_)) { Sampling::EverySecond } else { Sampling::Off }
    }

    fn sample(&mut self, instances: &[Measured]) {
        if let Face::Watch(watch) = &mut self.face {
            watch.dashboard.sample(instances);
            watch.draw();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
